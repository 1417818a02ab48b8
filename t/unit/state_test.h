/*
 * What the tests of the state room share: regions, children, checks.
 *
 * The room's tests are built with crash points, so each needs the function
 * that these call; a test that uses them defines STATE_TEST_CRASH_POINT and
 * has its own.  Include after cmocka.h.
 */

#ifndef STATE_TEST_H
#define STATE_TEST_H

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "core/sel_arena.h"
#include "core/sel_clock.h"
#include "state/sel_catalog.h"
#include "state/sel_proc.h"
#include "state/sel_zone.h"
#include "state/sel_zone_check.h"


#define STATE_SIZE  ((size_t) 1 << 20)      /* of an ordinary zone */


#if defined(SEL_CRASH_TEST) && !defined(STATE_TEST_CRASH_POINT)

void
sel_crash_point(const unsigned *site)
{
    (void) site;
}

#endif


/* A zone in private memory of exactly this size, so a tool sees overruns. */
static inline void
state_private(sel_zone_t *zone, size_t size)
{
    void  *base;

    assert_int_equal(posix_memalign(&base, 64, size), 0);
    memset(base, 0, size);
    assert_true(sel_zone_format(zone, base, size));
}


static inline void
state_private_free(sel_zone_t *zone)
{
    free(zone->header);
}


/* Memory that children share. */
static inline void *
state_memory(size_t size)
{
    void  *base;

    base = mmap(NULL, size, PROT_READ|PROT_WRITE,
                MAP_SHARED|MAP_ANONYMOUS|MAP_NORESERVE, -1, 0);
    assert_true(base != MAP_FAILED);

    return base;
}


static inline void
state_shared(sel_zone_t *zone, size_t size)
{
    assert_true(sel_zone_format(zone, state_memory(size), size));
}


static inline void
state_shared_free(sel_zone_t *zone)
{
    assert_int_equal(munmap(zone->header, zone->size), 0);
}


/* The zone is sound. */
static inline void
state_check(sel_zone_t *zone)
{
    const char  *error;

    sel_zone_lock(zone);
    error = sel_zone_check(zone);
    sel_zone_unlock(zone);

    if (error != NULL) {
        fail_msg("%s", error);
    }
}


/* Rebuilds as after a death. */
static inline void
state_rebuild(sel_zone_t *zone)
{
    sel_zone_lock(zone);
    sel_zone_rebuild(zone);
    sel_zone_unlock(zone);
}


static inline sel_zone_stats_t
state_stats(sel_zone_t *zone)
{
    sel_zone_stats_t  stats;

    sel_zone_stats(zone, &stats);

    return stats;
}


/* One schedulable worker with one rank. */
static inline void
state_commit_one(sel_zone_t *zone, uint64_t worker_id)
{
    uint32_t             number;
    uint64_t             version;
    sel_partition_t      partition, existing;
    sel_rank_slot_t      rank;
    sel_worker_commit_t  commit;

    partition = (sel_partition_t) { .block_size = 16,
        .model_name = sel_str("model"), .routing_group = sel_str("group") };

    rank = (sel_rank_slot_t) { .dp_rank = 0, .slot = SEL_SLOT_NONE };

    commit = (sel_worker_commit_t) { .worker_id = worker_id,
        .state = SEL_WORKER_SCHEDULABLE, .partition = &partition,
        .n_ranks = 1, .ranks = &rank, .blob = sel_str("some blob") };

    assert_int_equal(sel_catalog_commit(zone, &commit, &version, &number,
                                        &existing), SEL_COMMIT_OK);
}


/*
 * Runs call(data) in a child, which ends with its result, or with its parent
 * should that be stopped.
 */
static inline pid_t
state_fork(int (*call)(void *data), void *data)
{
    pid_t  pid;

    (void) fflush(NULL);

    pid = fork();
    assert_true(pid >= 0);

    if (pid == 0) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(call(data));
    }

    return pid;
}


/* Waits for a child's end; its exit code, or 1000 + the signal. */
static inline int
state_wait(pid_t pid)
{
    int  status;

    while (waitpid(pid, &status, 0) == -1) {
        assert_int_equal(errno, EINTR);
    }

    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status)
                               : WEXITSTATUS(status);
}


static inline void
state_kill(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(state_wait(pid), 1000 + SIGKILL);
}


/* Waits until *flag has a value; gives up after 20 s. */
static inline bool
state_until(_Atomic uint32_t *flag, uint32_t value)
{
    uint64_t  start;

    start = sel_clock_ns();

    while (atomic_load(flag) != value) {
        if (sel_clock_ns() - start > UINT64_C(20000000000)) {
            return false;
        }

        (void) sched_yield();
    }

    return true;
}


#endif /* STATE_TEST_H */
