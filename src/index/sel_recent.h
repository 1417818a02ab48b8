/*
 * Blocks that ranks are believed to hold for a while: an index learns from
 * bookings what no event has told.  The blocks are in the index like others;
 * here is what is to be forgotten when.
 */

#ifndef SEL_RECENT_H
#define SEL_RECENT_H

#include "index/sel_index.h"


typedef struct sel_recent_s  sel_recent_t;


/*
 * For owners of an index that nobody else stores to.  max_bytes bounds its
 * own memory (0: none), seed salts its table.  NULL when memory is exhausted.
 */
sel_recent_t *sel_recent_create(sel_index_t *index, size_t max_bytes,
    uint64_t seed);

/* Forgets nothing: the index keeps what it has. */
void sel_recent_destroy(sel_recent_t *recent);

/*
 * Stores a prompt, n block hashes from its beginning, on the device of an
 * owner until a time (nanoseconds, rounded up to 100 ms); external hashes
 * are the public sequence hashes.  Blocks that are there are kept until then,
 * too.  Times must come about in order.  OK, FULL (a beginning of it may be
 * stored) or NO_SUCH_OWNER.
 */
sel_index_result_t sel_recent_store(sel_recent_t *recent, uint16_t owner,
    const uint64_t *blocks, uint32_t n, uint64_t until);

/*
 * Removes blocks whose time has come, budget at most; true when nothing more
 * is due.
 */
bool sel_recent_expire(sel_recent_t *recent, uint64_t now, uint32_t budget);

/* Memory in use, bytes, without the index's. */
uint64_t sel_recent_bytes(const sel_recent_t *recent);


#endif /* SEL_RECENT_H */
