/*
 * The process table.  Each worker process holds the robust mutex `life` of
 * its entry from its start to its end; so whoever can lock it, or gets
 * EOWNERDEAD, knows that the process is gone.
 *
 * All of these functions lock the zone by themselves, so none may be called
 * inside its lock, but for sel_proc_notify(), sel_proc_looked() and
 * sel_meter_read(), which need no lock.
 */

#ifndef SEL_PROC_H
#define SEL_PROC_H

#include "state/sel_zone.h"


#define SEL_PROC_NONE  0xffffffff


/* what a process should look at when its bell rings */
#define SEL_LOOK_CATALOG  0x1


struct sel_proc_s {
    pthread_mutex_t   life;
    uint32_t          used;         /* 0: free entry */
    uint32_t          pid;
    uint32_t          number;       /* worker process number, 0 ... */
    uint32_t          generation;   /* configuration generation */
    _Atomic uint32_t  look;         /* SEL_LOOK_* */
    uint32_t          attempt;      /* grows with each use of the entry */
    uint32_t          routed;       /* derived: its ROUTER bookings */
    uint8_t           pad[128 - 28 - sizeof(pthread_mutex_t)];
};

_Static_assert(sizeof(sel_proc_t) == 128, "process entry");


/*
 * Enters the calling process; dead entries are cleared on the way.  Returns
 * the entry's number, SEL_PROC_NONE when 256 processes are alive.  The thread
 * that enters must leave before the zone is unmapped.
 */
uint32_t sel_proc_enter(sel_zone_t *zone, uint32_t pid, uint32_t number,
    uint32_t generation);

/* Leaves: the entry is free, life is released.  By its owner only. */
void sel_proc_leave(sel_zone_t *zone, uint32_t proc);

/* Whether the process of an entry is alive (own entry: true). */
bool sel_proc_alive(sel_zone_t *zone, uint32_t proc, uint32_t self);

/*
 * Looks through the table once and clears the entries of dead processes and
 * their ROUTER bookings; returns how many died.
 */
uint32_t sel_proc_reap(sel_zone_t *zone, uint32_t self);

/*
 * Whether another entry than self is used by worker process `number`: the
 * other generation of a reload.
 */
bool sel_proc_has_twin(sel_zone_t *zone, uint32_t self, uint32_t number);

/* Sets bits in every live entry but self's (SEL_PROC_NONE: in all). */
void sel_proc_notify(sel_zone_t *zone, uint32_t self, uint32_t look);

/* Takes the bits set for this process. */
uint32_t sel_proc_looked(sel_zone_t *zone, uint32_t proc);


/*
 * The counters of worker process `number` (SEL_METER_VALUES of them), kept in
 * the zone over its deaths and reloads; NULL when the zone is full.
 */
_Atomic uint64_t *sel_meter_attach(sel_zone_t *zone, uint32_t number);

/*
 * Copies the counters of process `number` out; false when it has none.
 * Numbers go up to SEL_ZONE_PROCS - 1.
 */
bool sel_meter_read(sel_zone_t *zone, uint32_t number,
    uint64_t values[SEL_METER_VALUES]);


#endif /* SEL_PROC_H */
