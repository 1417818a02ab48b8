/*
 * The process table.  Without it a dead process could be taken for alive and
 * keep its entry for ever, a live one could lose its entry, and a bell could
 * be rung for nobody.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "state_test.h"


typedef struct {
    sel_zone_t         zone;
    _Atomic uint32_t   entered;     /* children that are in */
    _Atomic uint32_t   go;          /* they may leave */
    uint32_t           procs[SEL_ZONE_PROCS + 1];
    uint32_t           number;      /* of the next child */
    uint32_t           looked;
} shared_t;


static shared_t *
shared_make(void)
{
    shared_t  *shared;

    shared = state_memory(sizeof(shared_t));
    state_shared(&shared->zone, STATE_SIZE);

    return shared;
}


static void
shared_free(shared_t *shared)
{
    state_check(&shared->zone);
    state_shared_free(&shared->zone);
    assert_int_equal(munmap(shared, sizeof(shared_t)), 0);
}


static uint32_t
enter(shared_t *shared, uint32_t number)
{
    return sel_proc_enter(&shared->zone, (uint32_t) getpid(), number, 1);
}


/* Enters and stays until it is killed. */
static int
stay(void *data)
{
    uint32_t   number;
    shared_t  *shared;

    shared = data;
    number = shared->number;
    shared->procs[number] = enter(shared, number);
    atomic_fetch_add(&shared->entered, 1);

    while (pause() == -1) {
        /* void */
    }

    return 0;
}


/* Enters, leaves when it may, and ends. */
static int
visit(void *data)
{
    uint32_t   number, proc;
    shared_t  *shared;

    shared = data;
    number = shared->number;
    proc = enter(shared, number);
    shared->procs[number] = proc;
    atomic_fetch_add(&shared->entered, 1);

    if (!state_until(&shared->go, 1)) {
        return 1;
    }

    shared->looked = sel_proc_looked(&shared->zone, proc);
    sel_proc_leave(&shared->zone, proc);

    return 0;
}


static pid_t
child(shared_t *shared, int (*call)(void *data), uint32_t number)
{
    pid_t  pid;

    shared->number = number;
    atomic_store(&shared->entered, 0);
    pid = state_fork(call, shared);
    assert_true(state_until(&shared->entered, 1));

    return pid;
}


static uint32_t
entries_used(const sel_zone_t *zone)
{
    uint32_t  i, n;

    n = 0;
    for (i = 0; i < SEL_ZONE_PROCS; i++) {
        n += zone->procs[i].used != 0;
    }

    return n;
}


static void
test_enter_and_leave(void **state)
{
    uint32_t           proc, attempt;
    shared_t          *shared;
    const sel_proc_t  *entry;

    shared = shared_make();
    proc = sel_proc_enter(&shared->zone, (uint32_t) getpid(), 5, 9);
    assert_true(proc < SEL_ZONE_PROCS);

    entry = &shared->zone.procs[proc];
    assert_int_equal(entry->used, 1);
    assert_int_equal(entry->pid, getpid());
    assert_int_equal(entry->number, 5);
    assert_int_equal(entry->generation, 9);
    attempt = entry->attempt;

    assert_true(sel_proc_alive(&shared->zone, proc, proc));
    assert_int_equal(sel_proc_reap(&shared->zone, proc), 0);
    assert_int_equal(entries_used(&shared->zone), 1);
    state_check(&shared->zone);

    sel_proc_leave(&shared->zone, proc);
    assert_int_equal(entries_used(&shared->zone), 0);
    assert_int_equal(sel_counted(&shared->zone, SEL_COUNT_DEATHS), 0);

    assert_int_equal(enter(shared, 0), proc);
    assert_true(entry->attempt > attempt);
    sel_proc_leave(&shared->zone, proc);
    shared_free(shared);
}


static void
test_alive_and_dead(void **state)
{
    pid_t      pid;
    uint32_t   self, proc, attempt;
    shared_t  *shared;

    shared = shared_make();
    self = enter(shared, 0);

    pid = child(shared, stay, 1);
    proc = shared->procs[1];
    assert_true(proc < SEL_ZONE_PROCS && proc != self);
    assert_int_equal(shared->zone.procs[proc].pid, pid);
    attempt = shared->zone.procs[proc].attempt;

    assert_true(sel_proc_alive(&shared->zone, proc, self));
    assert_true(sel_proc_alive(&shared->zone, self, self));
    assert_int_equal(sel_proc_reap(&shared->zone, self), 0);
    assert_true(sel_proc_alive(&shared->zone, proc, self));

    state_kill(pid);
    assert_false(sel_proc_alive(&shared->zone, proc, self));
    assert_false(sel_proc_alive(&shared->zone, proc, self));
    assert_true(sel_proc_alive(&shared->zone, self, self));

    assert_int_equal(sel_proc_reap(&shared->zone, self), 1);
    assert_int_equal(sel_proc_reap(&shared->zone, self), 0);
    assert_int_equal(sel_counted(&shared->zone, SEL_COUNT_DEATHS), 1);
    assert_int_equal(entries_used(&shared->zone), 1);
    assert_false(sel_proc_alive(&shared->zone, proc, self));

    /* the entry serves again */
    pid = child(shared, stay, 1);
    assert_int_equal(shared->procs[1], proc);
    assert_true(shared->zone.procs[proc].attempt > attempt);
    assert_true(sel_proc_alive(&shared->zone, proc, self));
    state_kill(pid);
    assert_int_equal(sel_proc_reap(&shared->zone, self), 1);

    sel_proc_leave(&shared->zone, self);
    shared_free(shared);
}


/* One that leaves has not died, whether it ends later or not. */
static void
test_leaving_is_no_death(void **state)
{
    pid_t      pid;
    uint32_t   self, proc;
    shared_t  *shared;

    shared = shared_make();
    self = enter(shared, 0);
    pid = child(shared, visit, 1);
    proc = shared->procs[1];
    assert_int_equal(entries_used(&shared->zone), 2);

    atomic_store(&shared->go, 1);
    assert_int_equal(state_wait(pid), 0);

    assert_false(sel_proc_alive(&shared->zone, proc, self));
    assert_int_equal(sel_proc_reap(&shared->zone, self), 0);
    assert_int_equal(entries_used(&shared->zone), 1);
    assert_int_equal(sel_counted(&shared->zone, SEL_COUNT_DEATHS), 0);

    sel_proc_leave(&shared->zone, self);
    shared_free(shared);
}


static void
test_notify(void **state)
{
    pid_t      pid;
    uint32_t   self, other;
    shared_t  *shared;

    shared = shared_make();
    self = enter(shared, 0);
    pid = child(shared, visit, 1);
    other = shared->procs[1];

    (void) sel_proc_looked(&shared->zone, self);
    (void) sel_proc_looked(&shared->zone, other);

    sel_proc_notify(&shared->zone, self, SEL_LOOK_CATALOG);
    assert_int_equal(sel_proc_looked(&shared->zone, self), 0);
    assert_int_equal(sel_proc_looked(&shared->zone, other), SEL_LOOK_CATALOG);
    assert_int_equal(sel_proc_looked(&shared->zone, other), 0);

    sel_proc_notify(&shared->zone, SEL_PROC_NONE, 0x4);
    sel_proc_notify(&shared->zone, self, SEL_LOOK_CATALOG);
    sel_proc_notify(&shared->zone, other, 0x8);
    assert_int_equal(sel_proc_looked(&shared->zone, self), 0xc);
    assert_int_equal(sel_proc_looked(&shared->zone, self), 0);

    atomic_store(&shared->go, 1);
    assert_int_equal(state_wait(pid), 0);
    assert_int_equal(shared->looked, SEL_LOOK_CATALOG | 0x4);

    /* who comes next does not find what the one before was told */
    shared->looked = 0;
    pid = child(shared, visit, 1);
    assert_int_equal(state_wait(pid), 0);
    assert_int_equal(shared->procs[1], other);
    assert_int_equal(shared->looked & 0x4, 0);

    sel_proc_leave(&shared->zone, self);
    shared_free(shared);
}


/* The table is full of live processes; then some die. */
static void
test_256(void **state)
{
    pid_t      pids[SEL_ZONE_PROCS];
    uint8_t    seen[SEL_ZONE_PROCS];
    uint32_t   i, proc;
    shared_t  *shared;

    shared = shared_make();
    memset(seen, 0, sizeof(seen));

    for (i = 0; i < SEL_ZONE_PROCS; i++) {
        pids[i] = child(shared, stay, i);
        assert_true(shared->procs[i] < SEL_ZONE_PROCS);
        assert_int_equal(seen[shared->procs[i]], 0);
        seen[shared->procs[i]] = 1;
    }

    assert_int_equal(enter(shared, 0), SEL_PROC_NONE);
    assert_int_equal(entries_used(&shared->zone), SEL_ZONE_PROCS);
    assert_int_equal(sel_proc_reap(&shared->zone, SEL_PROC_NONE), 0);

    /* entering clears on the way */
    state_kill(pids[77]);
    proc = enter(shared, 0);
    assert_int_equal(proc, shared->procs[77]);
    assert_int_equal(enter(shared, 0), SEL_PROC_NONE);

    for (i = 0; i < SEL_ZONE_PROCS; i++) {
        if (i != 77 && i % 2) {
            state_kill(pids[i]);
        }
    }

    assert_int_equal(sel_proc_reap(&shared->zone, proc), 127);
    assert_int_equal(sel_counted(&shared->zone, SEL_COUNT_DEATHS), 128);
    assert_int_equal(entries_used(&shared->zone), 129);

    for (i = 0; i < SEL_ZONE_PROCS; i++) {
        if (i % 2 == 0) {
            assert_true(sel_proc_alive(&shared->zone, shared->procs[i],
                                       proc));
            state_kill(pids[i]);
            assert_false(sel_proc_alive(&shared->zone, shared->procs[i],
                                        proc));
        }
    }

    assert_int_equal(sel_proc_reap(&shared->zone, proc), 128);
    sel_proc_leave(&shared->zone, proc);
    assert_int_equal(entries_used(&shared->zone), 0);
    shared_free(shared);
}


/* Dies inside the zone's lock while it is in the table. */
static int
stay_inside(void *data)
{
    shared_t  *shared;

    shared = data;
    shared->procs[1] = enter(shared, 1);
    sel_zone_lock(&shared->zone);
    atomic_fetch_add(&shared->entered, 1);

    while (pause() == -1) {
        /* void */
    }

    return 0;
}


static void
test_death_inside(void **state)
{
    pid_t      pid;
    uint32_t   self, i;
    shared_t  *shared;

    shared = shared_make();
    self = enter(shared, 0);

    for (i = 1; i <= 10; i++) {
        pid = child(shared, stay_inside, 1);
        state_kill(pid);

        assert_int_equal(sel_proc_reap(&shared->zone, self), 1);
        assert_int_equal(sel_counted(&shared->zone, SEL_COUNT_DEATHS), i);
        assert_true(sel_proc_alive(&shared->zone, self, self));
        assert_int_equal(shared->zone.procs[self].pid, getpid());
        assert_int_equal(entries_used(&shared->zone), 1);
        state_check(&shared->zone);
    }

    assert_int_equal(sel_counted(&shared->zone, SEL_COUNT_REBUILDS), 10);
    sel_proc_leave(&shared->zone, self);
    shared_free(shared);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_enter_and_leave),
        cmocka_unit_test(test_alive_and_dead),
        cmocka_unit_test(test_leaving_is_no_death),
        cmocka_unit_test(test_notify),
        cmocka_unit_test(test_256),
        cmocka_unit_test(test_death_inside),
    };

    /* a lock that is never had must not stop all other tests */
    (void) alarm(120);

    return cmocka_run_group_tests(tests, NULL, NULL);
}
