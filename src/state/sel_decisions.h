/*
 * The decision log: which prompt was booked on which rank, for the indexes
 * that learn from decisions.  A ring of bytes in the zone that bookings append
 * to inside their critical section; each process reads on from where it was,
 * before each look-up, so the very next request sees the decision wherever it
 * lands.
 */

#ifndef SEL_DECISIONS_H
#define SEL_DECISIONS_H

#include "state/sel_zone.h"


typedef struct {
    uint16_t   slot;
    uint32_t   epoch;
    uint32_t   partition;
    uint64_t   made;            /* sel_clock_ns() of the booking */
    uint32_t   n_hashes;
    uint64_t  *hashes;          /* public block hashes, in the reader's
                                   buffer */
} sel_decision_t;


/* Where the log ends now, bytes since the zone was made; no lock. */
uint64_t sel_decisions_head(const sel_zone_t *zone);

/* The oldest place that can still be read; takes the lock. */
uint64_t sel_decisions_tail(sel_zone_t *zone);

/* Bytes of the ring; a decision that needs more is not recorded. */
uint64_t sel_decisions_size(const sel_zone_t *zone);

/*
 * Copies decisions from *at on into a buffer of size bytes, whole ones only,
 * at most max; moves *at; returns how many, 0 at the head.  When *at has been
 * overwritten, goes on with the oldest and adds the bytes missed to *lost.  A
 * buffer that cannot hold the next decision: 0, and *at stays; a buffer of
 * sel_decisions_size() bytes always can.
 */
uint32_t sel_decisions_read(sel_zone_t *zone, uint64_t *at, void *buffer,
    size_t size, sel_decision_t *decisions, uint32_t max, uint64_t *lost);


#endif /* SEL_DECISIONS_H */
