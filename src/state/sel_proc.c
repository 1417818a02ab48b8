/*
 * The process table.
 *
 * Entries change, and another's `life` is tried, only inside the zone's lock.
 * So no two processes try one at the same time, and one that is locked is
 * locked by its owner: EBUSY always means alive.  A mutex is initialised when
 * `attempt` is still 0, which no owner has seen yet; from then on it is never
 * initialised again, since a dead owner leaves it usable (EOWNERDEAD).
 *
 * Deaths in between: an entry counts from the store of `used` on; life that
 * was locked before that is EOWNERDEAD to whoever enters next.  Clearing
 * begins with that store too.
 */

#include <errno.h>
#include "state/sel_books_impl.h"


static uint32_t sel_proc_clear_dead(sel_zone_t *zone, uint32_t self);
static bool sel_proc_init(sel_proc_t *proc);
static bool sel_proc_try(sel_proc_t *proc);
static void sel_proc_release(sel_zone_t *zone, uint32_t number);


uint32_t
sel_proc_enter(sel_zone_t *zone, uint32_t pid, uint32_t number,
    uint32_t generation)
{
    uint32_t     i, found;
    sel_proc_t  *proc;

    found = SEL_PROC_NONE;

    sel_zone_lock(zone);

    (void) sel_proc_clear_dead(zone, SEL_PROC_NONE);

    for (i = 0; i < SEL_ZONE_PROCS; i++) {
        proc = &zone->procs[i];

        if (proc->used != 0 || !sel_proc_init(proc) || !sel_proc_try(proc)) {
            continue;
        }

        proc->pid = pid;
        proc->number = number;
        proc->generation = generation;
        atomic_store_explicit(&proc->look, 0, memory_order_relaxed);
        SEL_ZONE_STEP();

        sel_zone_set(&proc->used, 1);
        SEL_ZONE_STEP();

        found = i;
        break;
    }

    sel_zone_unlock(zone);

    return found;
}


/* Prepares an entry for its next use; its first one needs a mutex. */

static bool
sel_proc_init(sel_proc_t *proc)
{
    if (proc->attempt == 0 && !sel_zone_init_mutex(&proc->life)) {
        return false;
    }

    SEL_ZONE_STEP();
    sel_zone_set(&proc->attempt, proc->attempt + 1);
    SEL_ZONE_STEP();

    return true;
}


void
sel_proc_leave(sel_zone_t *zone, uint32_t number)
{
    if (number >= SEL_ZONE_PROCS) {
        return;
    }

    sel_zone_lock(zone);
    sel_proc_release(zone, number);
    sel_zone_unlock(zone);
}


bool
sel_proc_alive(sel_zone_t *zone, uint32_t number, uint32_t self)
{
    bool         alive;
    sel_proc_t  *proc;

    if (number >= SEL_ZONE_PROCS) {
        return false;
    }

    if (number == self) {
        return true;
    }

    proc = &zone->procs[number];

    sel_zone_lock(zone);

    alive = proc->used != 0;

    if (alive && sel_proc_try(proc)) {
        (void) pthread_mutex_unlock(&proc->life);
        alive = false;
    }

    sel_zone_unlock(zone);

    return alive;
}


uint32_t
sel_proc_reap(sel_zone_t *zone, uint32_t self)
{
    uint32_t  n;

    sel_zone_lock(zone);
    n = sel_proc_clear_dead(zone, self);
    sel_zone_unlock(zone);

    return n;
}


static uint32_t
sel_proc_clear_dead(sel_zone_t *zone, uint32_t self)
{
    uint32_t     i, n;
    sel_proc_t  *proc;

    n = 0;

    for (i = 0; i < SEL_ZONE_PROCS; i++) {
        proc = &zone->procs[i];

        if (i == self || proc->used == 0 || !sel_proc_try(proc)) {
            continue;
        }

        sel_count(zone, SEL_COUNT_DEATHS, 1);
        SEL_ZONE_STEP();
        sel_proc_release(zone, i);
        n++;
    }

    return n;
}


/* Whether life could be taken, that is, whether no process holds it. */

static bool
sel_proc_try(sel_proc_t *proc)
{
    int  rc;

    rc = pthread_mutex_trylock(&proc->life);
    SEL_ZONE_STEP();

    if (rc == EOWNERDEAD) {
        rc = pthread_mutex_consistent(&proc->life);
        SEL_ZONE_STEP();
    }

    return rc == 0;
}


/* Ends an entry whose life the caller holds, and what its process served. */

static void
sel_proc_release(sel_zone_t *zone, uint32_t number)
{
    sel_proc_t  *proc;

    proc = &zone->procs[number];

    (void) sel_bookings_bury(zone, number);

    sel_zone_set(&proc->used, 0);
    SEL_ZONE_STEP();
    (void) pthread_mutex_unlock(&proc->life);
    SEL_ZONE_STEP();
}


bool
sel_proc_has_twin(sel_zone_t *zone, uint32_t self, uint32_t number)
{
    bool      twin;
    uint32_t  i;

    twin = false;

    sel_zone_lock(zone);

    for (i = 0; i < SEL_ZONE_PROCS; i++) {
        twin |= (i != self && zone->procs[i].used
                 && zone->procs[i].number == number);
    }

    sel_zone_unlock(zone);

    return twin;
}


void
sel_proc_notify(sel_zone_t *zone, uint32_t self, uint32_t look)
{
    uint32_t     i;
    sel_proc_t  *proc;

    for (i = 0; i < SEL_ZONE_PROCS; i++) {
        proc = &zone->procs[i];

        if (i != self && __atomic_load_n(&proc->used, __ATOMIC_ACQUIRE) != 0) {
            (void) atomic_fetch_or_explicit(&proc->look, look,
                                            memory_order_release);
        }
    }
}


uint32_t
sel_proc_looked(sel_zone_t *zone, uint32_t number)
{
    if (number >= SEL_ZONE_PROCS) {
        return 0;
    }

    return atomic_exchange_explicit(&zone->procs[number].look, 0,
                                    memory_order_acquire);
}
