/*
 * How the crash test's children are killed: at random, at a site, inside a
 * rebuild.  Include after cmocka.h.
 */

#ifndef CRASH_KILL_H
#define CRASH_KILL_H

#include "crash_truth.h"


#define SITE_OPS  100


typedef struct {
    crash_truth_t    truth;
    crash_shared_t  *shared;
    sel_rand_t       rand;
    uint64_t         seed;
    uint64_t         slowest;
    uint32_t         kills;
    uint32_t         kills_in_rebuild;
    uint32_t         rebuilds;
    uint32_t         survivors;
    uint64_t         bound;                     /* sessions */
    uint64_t         moved;
    uint64_t         refused;
    uint64_t         failed;
    uint64_t         idle;
    uint64_t         halves;
    uint32_t         turns;
    uint32_t         wanted;                    /* site */
    uint32_t         helper[CRASH_SITES];       /* death that leads there */
    uint32_t         tried[CRASH_SITES];
    uint32_t         tried_first[CRASH_SITES];
    uint32_t         tried_rebuilding[CRASH_SITES];
    crash_child_t    child;
    uint32_t         child_ops;
} run_t;


static uint32_t
below(run_t *run, uint32_t bound)
{
    return (uint32_t) sel_rand_below(&run->rand, bound);
}


/* All chunks are used once, so that they come from the free list then. */
static void
use_up(sel_zone_t *zone)
{
    uint32_t   first, number;

    sel_zone_lock(zone);
    first = SEL_CHUNK_NONE;

    while ((number = sel_zone_chunk_take(zone)) != SEL_CHUNK_NONE) {
        sel_zone_chunk(zone, number)->next = first;
        first = number;
    }

    sel_zone_chain_give(zone, first);
    sel_zone_unlock(zone);
}


/* A zone with nothing in it, and a model of that. */
static void
zone_begin(run_t *run)
{
    uint32_t        i;
    crash_truth_t  *truth;

    truth = &run->truth;
    memset(truth, 0, sizeof(crash_truth_t));
    truth->shared = run->shared;
    truth->book = calloc(1, sizeof(cat_book_t));
    truth->reader = calloc(1, sizeof(cat_reader_t));
    state_shared(&run->shared->zone, STATE_SIZE);
    truth->sessions.zone = &run->shared->zone;

    truth->self = sel_proc_enter(&run->shared->zone, (uint32_t) getpid(), 99,
                                 0);
    assert_true(truth->self < SEL_ZONE_PROCS);

    if (below(run, 2)) {
        use_up(&run->shared->zone);
    }

    for (i = 0; i < CRASH_WORKERS; i++) {
        truth->workers[i].now.worker_id =
                                   atomic_fetch_add(&run->shared->fresh, 1);
    }
}


/* Everything must still be possible: all workers are deleted. */
static void
zone_end(run_t *run)
{
    uint32_t          i, number;
    uint64_t          version;
    cat_intent_t      intent;
    sel_zone_t       *zone;
    cat_worker_t     *worker;
    sel_partition_t   existing;

    zone = &run->shared->zone;
    run->rebuilds += (uint32_t) sel_counted(zone, SEL_COUNT_REBUILDS);
    run->bound += sel_counted(zone, SEL_COUNT_SESSION_BOUND);
    run->moved += sel_counted(zone, SEL_COUNT_SESSION_MOVED);
    run->refused += sel_counted(zone, SEL_COUNT_SESSION_REFUSED);
    run->failed += sel_counted(zone, SEL_COUNT_SESSION_FAILED);
    run->idle += sel_counted(zone, SEL_COUNT_SESSION_IDLE);
    run->halves += run->truth.sessions.halves;

    for (i = 0; i < CRASH_WORKERS; i++) {
        worker = &run->truth.workers[i];

        if (worker->version == 0) {
            continue;
        }

        memset(&intent, 0, sizeof(intent));
        intent.worker_id = worker->now.worker_id;
        intent.expected = worker->version;
        intent.state = SEL_WORKER_GONE;
        assert_int_equal(cat_commit(zone, &intent, &version, &number,
                                    &existing), SEL_COMMIT_OK);
    }

    assert_int_equal(state_stats(zone).workers, 0);
    assert_int_equal(state_stats(zone).bookings, 0);
    assert_int_equal(state_stats(zone).edges, 0);
    assert_int_equal(state_stats(zone).slots_used, 0);
    (void) sel_sessions_reap(zone, UINT64_MAX, UINT32_MAX);
    assert_int_equal(state_stats(zone).sessions, 0);
    state_check(zone);

    free(run->truth.book);
    free(run->truth.reader);
    sel_proc_leave(zone, run->truth.self);
    state_shared_free(zone);

    if (run->truth.slowest > run->slowest) {
        run->slowest = run->truth.slowest;
    }
}


static int
live(void *data)
{
    run_t  *run;

    run = data;

    return crash_live(&run->child, run->child_ops);
}


static pid_t
start(run_t *run, uint32_t i, uint32_t ops)
{
    crash_life_t  *life;

    life = &run->shared->lives[i];
    atomic_store(&life->started, 0);
    atomic_store(&life->begun, 0);
    atomic_store(&life->finished, 0);

    run->child_ops = ops;
    run->child.shared = run->shared;
    run->child.life = life;
    run->child.first = i * CRASH_IDS;
    run->child.workers = &run->truth.workers[i * CRASH_IDS];
    run->child.booked = run->truth.booked[i];
    run->child.rand.state = sel_rand(&run->rand);

    return state_fork(live, run);
}


static void
arm(run_t *run, uint32_t site, uint32_t countdown)
{
    atomic_store(&run->shared->armed, site);
    atomic_store(&run->shared->countdown, countdown);
}


/* Waits for a child; true when it was killed. */
static bool
ended(run_t *run, pid_t pid)
{
    int  code;

    code = state_wait(pid);

    if (code == 1000 + SIGKILL) {
        run->kills++;
        run->truth.deaths++;
        return true;
    }

    if (code != 0) {
        fail_msg("a child ended with %d", code);
    }

    return false;
}


/* A site that was tried seldom, of those that are passed in this way. */
static uint32_t
rare_site(run_t *run, _Atomic uint32_t *passed, uint32_t *tried)
{
    uint32_t  i, n, best, from;

    n = crash_sites();
    from = below(run, n);
    best = from;

    if (below(run, 10) == 0) {
        return best;            /* maybe one that was never passed yet */
    }

    for (i = from; i < from + n; i++) {
        if (passed[i % n] > 0
            && (passed[best] == 0 || tried[i % n] < tried[best]))
        {
            best = i % n;
        }
    }

    tried[best]++;

    return best;
}


static uint32_t
kill_at_site(run_t *run)
{
    if (below(run, 5) == 0) {
        arm(run, CRASH_ANY, 1 + below(run, 1000));

    } else {
        arm(run, rare_site(run, run->shared->passed, run->tried),
            1 + below(run, 3));
    }

    (void) ended(run, start(run, 0, SITE_OPS));
    arm(run, 0, 0);

    return 1;
}


static int
hold_and_die(void *data)
{
    run_t  *run;

    run = data;
    sel_zone_lock(&run->shared->zone);
    (void) kill(getpid(), SIGKILL);

    return 0;
}


static int
take_over(void *data)
{
    run_t  *run;

    run = data;
    crash_armed = run->shared;
    sel_zone_lock(&run->shared->zone);
    sel_zone_unlock(&run->shared->zone);

    return 0;
}


/* One takes the lock over and dies at a site inside the rebuild, if any. */
static bool
kill_rebuilder(run_t *run, uint32_t first, uint32_t site, uint32_t countdown)
{
    bool      killed;
    uint32_t  i, passed[CRASH_SITES];

    for (i = 0; i < crash_sites(); i++) {
        passed[i] = run->shared->passed_rebuilding[i];
    }

    atomic_store(&run->shared->rebuilding, 1);
    arm(run, site, countdown);
    killed = ended(run, state_fork(take_over, run));
    arm(run, 0, 0);
    atomic_store(&run->shared->rebuilding, 0);

    for (i = 0; i < crash_sites(); i++) {
        if (run->shared->passed_rebuilding[i] != passed[i]) {
            run->helper[i] = first;
        }
    }

    run->kills_in_rebuild += killed;

    return killed;
}


/* One dies inside the lock, others inside the rebuild for it. */
static uint32_t
kill_in_rebuild(run_t *run)
{
    uint32_t  i, first, lives, site;

    lives = 0;
    first = 0;

    if (below(run, 4)) {
        first = rare_site(run, run->shared->passed, run->tried_first);
        arm(run, first, 1);
        (void) ended(run, start(run, 0, SITE_OPS));
        arm(run, 0, 0);
        lives = 1;

    } else {
        (void) ended(run, state_fork(hold_and_die, run));
    }

    for (i = 0; i < 3; i++) {
        site = below(run, 3) == 0 ? CRASH_ANY
               : rare_site(run, run->shared->passed_rebuilding,
                           run->tried_rebuilding);

        if (!kill_rebuilder(run, first, site,
                            site == CRASH_ANY ? 1 + below(run, 2000)
                                              : 1 + below(run, 2)))
        {
            break;
        }
    }

    return lives;
}


static void
spin(uint64_t ns)
{
    uint64_t  start;

    start = sel_clock_ns();

    while (sel_clock_ns() - start < ns) {
        (void) sched_yield();
    }
}


/* Several at work; some are killed at any moment, others must go on. */
static uint32_t
kill_at_random(run_t *run)
{
    bool      spared;
    pid_t     pids[CRASH_LIVES];
    uint32_t  i, n;

    n = 1 + below(run, CRASH_LIVES);
    spared = n > 1 && below(run, 3) == 0;

    for (i = 0; i < n; i++) {
        pids[i] = start(run, i, CRASH_OPS);
    }

    for (i = 0; i < n; i++) {
        assert_true(state_until(&run->shared->lives[i].started, 1));
    }

    for (i = 0; i < n; i++) {
        if (!spared || i > 0) {
            spin(below(run, i > 0 ? 200000 : 800000));
            (void) kill(pids[i], SIGKILL);
        }
    }

    for (i = 0; i < n; i++) {
        run->survivors += !ended(run, pids[i]);
    }

    return n;
}


#endif /* CRASH_KILL_H */
