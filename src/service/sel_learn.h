/*
 * What the index learns from bookings: the whole index where there are no KV
 * events, a second one beside the events where decisions are believed for a
 * while.  Every process reads the same decisions from the zone's log, before
 * each look-up.
 */

#ifndef SEL_LEARN_H
#define SEL_LEARN_H

#include "service/sel_service.h"


/*
 * Applies what was decided since the last time, and forgets what is old, as
 * much as was learned and somewhat more; true when nothing more is due.  May
 * refresh the view.
 */
bool sel_learn(sel_service_t *service);

/* Has so much been decided that other processes should be told? */
bool sel_learn_due(sel_service_t *service);


#endif /* SEL_LEARN_H */
