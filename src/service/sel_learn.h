/*
 * What the index learns from bookings: the whole index where there are no KV
 * events, a second one beside the events where decisions are believed for a
 * while.  Every process reads the same decisions from the zone's log, before
 * each look-up.
 */

#ifndef SEL_LEARN_H
#define SEL_LEARN_H

#include "service/sel_lookup.h"


/* Applies what was decided since the last time, and forgets what is old. */
void sel_learn(sel_service_t *service);

/* Has so much been decided that other processes should be told? */
bool sel_learn_due(sel_service_t *service);

/*
 * Adds to the matches of a look-up what decisions say of the same prompt:
 * each rank has the more of both on the device.
 */
void sel_learn_merge(sel_service_t *service, sel_lookup_t *lookup);


#endif /* SEL_LEARN_H */
