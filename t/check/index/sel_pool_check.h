/*
 * Verification of a pool, for tests.
 */

#ifndef SEL_POOL_CHECK_H
#define SEL_POOL_CHECK_H

#include "index/sel_pool.h"


/*
 * NULL, or what is wrong.  seen has a 1 for every number that the caller
 * knows to be used, and a 0 for the others up to top.
 */
const char *sel_pool_check(const sel_pool_t *pool, const uint8_t *seen);

/* Memory that it has, in bytes. */
size_t sel_pool_bytes(const sel_pool_t *pool);


#endif /* SEL_POOL_CHECK_H */
