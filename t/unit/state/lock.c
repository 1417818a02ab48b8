/*
 * The zone's lock.  Without it two processes could be inside at one time, and
 * one that is killed inside could stop all others for ever, those that sleep
 * for it already as well as those that come later.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "state_test.h"


typedef struct {
    sel_zone_t         zone;
    uint64_t           number;      /* not atomic: the lock guards it */
    _Atomic uint32_t   step;
    pid_t              parent;
} shared_t;


static shared_t *
shared_make(void)
{
    shared_t  *shared;

    shared = state_memory(sizeof(shared_t));
    state_shared(&shared->zone, STATE_SIZE);
    shared->parent = getpid();

    return shared;
}


static void
shared_free(shared_t *shared)
{
    state_shared_free(&shared->zone);
    assert_int_equal(munmap(shared, sizeof(shared_t)), 0);
}


static int
count_up(void *data)
{
    int        i;
    shared_t  *shared;

    shared = data;

    for (i = 0; i < 20000; i++) {
        sel_zone_lock(&shared->zone);
        shared->number++;
        sel_zone_unlock(&shared->zone);

        sel_count(&shared->zone, SEL_COUNT_SELECTIONS, 3);
    }

    return 0;
}


static void
test_lock_excludes(void **state)
{
    int        i;
    pid_t      pids[4];
    shared_t  *shared;

    shared = shared_make();

    for (i = 0; i < 4; i++) {
        pids[i] = state_fork(count_up, shared);
    }

    for (i = 0; i < 4; i++) {
        assert_int_equal(state_wait(pids[i]), 0);
    }

    assert_int_equal(shared->number, 80000);
    assert_int_equal(sel_counted(&shared->zone, SEL_COUNT_SELECTIONS), 240000);
    assert_int_equal(sel_counted(&shared->zone, SEL_COUNT_SELECTIONS_COLD), 0);
    assert_int_equal(sel_counted(&shared->zone, SEL_COUNT_REBUILDS), 0);
    shared_free(shared);
}


static char
process_state(pid_t pid)
{
    char   path[64], text[512], *p;
    FILE  *file;

    (void) snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);

    file = fopen(path, "r");
    if (file == NULL || fgets(text, sizeof(text), file) == NULL) {
        return '?';
    }

    (void) fclose(file);

    p = strrchr(text, ')');

    return p == NULL ? '?' : p[2];
}


/* Holds the lock until the parent sleeps for it. */
static int
hold(void *data)
{
    uint64_t   start;
    shared_t  *shared;

    shared = data;
    sel_zone_lock(&shared->zone);
    atomic_store(&shared->step, 1);
    start = sel_clock_ns();

    if (!state_until(&shared->step, 2)) {
        return 1;
    }

    while (process_state(shared->parent) != 'S') {
        if (sel_clock_ns() - start > UINT64_C(20000000000)) {
            return 2;
        }
    }

    sel_zone_unlock(&shared->zone);

    return 0;
}


static void
test_waits_are_counted(void **state)
{
    pid_t       pid;
    shared_t   *shared;
    sel_zone_t *zone;

    shared = shared_make();
    zone = &shared->zone;

    sel_zone_lock(zone);
    sel_zone_unlock(zone);
    assert_int_equal(sel_counted(zone, SEL_COUNT_LOCK_WAITS), 0);

    pid = state_fork(hold, shared);
    assert_true(state_until(&shared->step, 1));
    atomic_store(&shared->step, 2);

    sel_zone_lock(zone);
    sel_zone_unlock(zone);

    assert_int_equal(state_wait(pid), 0);
    assert_int_equal(sel_counted(zone, SEL_COUNT_LOCK_WAITS), 1);
    assert_true(sel_counted(zone, SEL_COUNT_LOCK_WAIT_NS) > 0);
    shared_free(shared);
}


/* Takes the lock and some chunks, and never gives them back. */
static int
die_inside(void *data)
{
    shared_t  *shared;

    shared = data;
    sel_zone_lock(&shared->zone);
    (void) sel_zone_chain_write(&shared->zone, shared, sizeof(shared_t));
    (void) sel_zone_chunk_take(&shared->zone);
    atomic_fetch_add(&shared->step, 1);

    while (pause() == -1) {
        /* void: the parent kills this process */
    }

    return 0;
}


static void
test_death_inside(void **state)
{
    uint32_t     i, before;
    pid_t        pid;
    shared_t    *shared;
    sel_zone_t  *zone;

    shared = shared_make();
    zone = &shared->zone;
    state_commit_one(zone, 1);
    before = (uint32_t) state_stats(zone).chunks_free;

    for (i = 1; i <= 20; i++) {
        atomic_store(&shared->step, 0);
        pid = state_fork(die_inside, shared);
        assert_true(state_until(&shared->step, 1));
        state_kill(pid);

        state_check(zone);
        assert_int_equal(state_stats(zone).chunks_free, before);
        assert_int_equal(sel_counted(zone, SEL_COUNT_REBUILDS), i);
        assert_int_equal(state_stats(zone).workers, 1);
    }

    shared_free(shared);
}


/* Somebody sleeps for the lock while its owner is killed. */
static void
test_death_of_the_awaited(void **state)
{
    pid_t        owner, waiter;
    shared_t    *shared;
    sel_zone_t  *zone;

    shared = shared_make();
    zone = &shared->zone;

    owner = state_fork(die_inside, shared);
    assert_true(state_until(&shared->step, 1));
    waiter = state_fork(count_up, shared);

    while (process_state(waiter) != 'S') {
        (void) sched_yield();
    }

    state_kill(owner);
    assert_int_equal(state_wait(waiter), 0);
    assert_int_equal(shared->number, 20000);
    assert_int_equal(sel_counted(zone, SEL_COUNT_REBUILDS), 1);
    state_check(zone);
    shared_free(shared);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_lock_excludes),
        cmocka_unit_test(test_waits_are_counted),
        cmocka_unit_test(test_death_inside),
        cmocka_unit_test(test_death_of_the_awaited),
    };

    /* a lock that is never had must not stop all other tests */
    (void) alarm(120);

    return cmocka_run_group_tests(tests, NULL, NULL);
}
