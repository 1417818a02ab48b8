/*
 * Verification of sets of holders, for tests.
 */

#ifndef SEL_OWNER_SET_CHECK_H
#define SEL_OWNER_SET_CHECK_H

#include "index/sel_owner_set.h"


/*
 * Verifies the sets against the references that the caller has counted, and
 * adds their memory to *bytes: NULL, or what is wrong.  seen is as for
 * sel_pool_check(), all 0.
 */
const char *sel_owner_sets_check(sel_owner_sets_t *sets, const uint32_t *refs,
    uint8_t *seen, size_t *bytes);


#endif /* SEL_OWNER_SET_CHECK_H */
