/*
 * Sessions: a client's session is bound to the rank that serves it, in each
 * partition for itself.  A binding is made by a booking and lives as long as
 * bookings hold it, then for a time more; see sel_booking_t, and
 * docs/scheduling.md for the rules.
 *
 * Every function takes the lock by itself.
 */

#ifndef SEL_SESSION_H
#define SEL_SESSION_H

#include "state/sel_zone.h"


/* the longest id, bytes */
#define SEL_SESSION_MAX_ID  256

/* bindings that a partition has at most */
#define SEL_SESSION_MAX     65536


typedef struct {
    uint64_t  revision;         /* never used twice; 0: there is none */
    uint64_t  worker_id;
    uint32_t  dp_rank;
} sel_binding_t;


/* Sets how long a binding lives that no booking holds any more, nanoseconds;
   also for those that are idle already. */
void sel_sessions_ttl(sel_zone_t *zone, uint64_t ttl);

/* The binding that a session has at a time (sel_clock_ns()).  Its rank may
   have gone. */
sel_binding_t sel_session_find(sel_zone_t *zone, uint32_t partition,
    sel_str_t id, uint64_t now);

/*
 * The same for a reservation that is about to be made: a binding whose rank
 * has gone ends, and one that nobody holds has its whole time again.
 */
sel_binding_t sel_session_use(sel_zone_t *zone, uint32_t partition,
    sel_str_t id, uint64_t now);

/* Drops up to max bindings whose time is over, oldest first; returns how
   many. */
uint32_t sel_sessions_reap(sel_zone_t *zone, uint64_t now, uint32_t max);


#endif /* SEL_SESSION_H */
