/*
 * Verification of a zone, for tests: slow, and no part of the module.
 */

#ifndef SEL_ZONE_CHECK_H
#define SEL_ZONE_CHECK_H

#include "state/sel_zone.h"


/*
 * Verifies (inside the lock) that derived state agrees with the records and
 * that every chunk is either free or in exactly one record: NULL, or a
 * sentence that says what is wrong.
 */
const char *sel_zone_check(sel_zone_t *zone);


#endif /* SEL_ZONE_CHECK_H */
