/*
 * What the tests of sel_recent.h share: an index with two ranks, and what is
 * asked of it.  Include after cmocka.h.
 */

#ifndef RECENT_TEST_H
#define RECENT_TEST_H

#include <stdlib.h>
#include "index/sel_index_check.h"
#include "index/sel_memory.h"
#include "index/sel_recent.h"


#define MS         ((uint64_t) 1000000)
#define FAR        (1000000 * MS)
#define UNLIMITED  UINT32_MAX
#define LONG       1000


static const uint64_t  chain[] = { 11, 12, 13, 14, 15 };

static sel_index_t   *index_;
static sel_recent_t  *recent;
static uint16_t       one, two;


static inline int
setup(void **state)
{
    index_ = sel_index_create(0, 7);
    recent = sel_recent_create(index_, 0, 9);
    one = sel_index_owner(index_, 1, 5, 0);
    two = sel_index_owner(index_, 1, 5, 1);

    return index_ == NULL || recent == NULL || one == SEL_INDEX_NO_OWNER
           || two == SEL_INDEX_NO_OWNER;
}


static inline int
teardown(void **state)
{
    sel_memory_hook = NULL;
    sel_recent_destroy(recent);
    sel_index_destroy(index_);

    return 0;
}


/* How many blocks of a prompt an owner has. */
static inline uint32_t
hits_of(uint16_t owner, const uint64_t *blocks, uint32_t n)
{
    uint32_t            i, rows;
    sel_index_match_t   out[8];

    assert_true(sel_index_owner_limit(index_) <= 8);
    rows = sel_index_match(index_, 1, blocks, n, out, 8);

    for (i = 0; i < rows; i++) {
        assert_int_equal(out[i].hits[SEL_TIER_HOST_PINNED], 0);

        if (out[i].owner == owner) {
            return out[i].hits[SEL_TIER_DEVICE];
        }
    }

    return 0;
}


static inline uint32_t
hits(uint16_t owner)
{
    return hits_of(owner, chain, 5);
}


static inline void
store(uint16_t owner, uint32_t n, uint64_t until)
{
    assert_int_equal(sel_recent_store(recent, owner, chain, n, until),
                     SEL_INDEX_OK);
}


static inline void
expire(uint64_t now)
{
    assert_true(sel_recent_expire(recent, now, UNLIMITED));
    assert_null(sel_index_check(index_));
}


static inline uint64_t
held(void)
{
    sel_index_stats_t  stats;

    sel_index_stats(index_, &stats);

    return stats.blocks[SEL_TIER_DEVICE];
}


static inline void
sweep(void)
{
    uint32_t  turns;

    for (turns = 0; !sel_index_sweep(index_, 100); turns++) {
        assert_true(turns < 1000);
    }
}


#endif /* RECENT_TEST_H */
