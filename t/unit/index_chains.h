/*
 * Index contents that follow from numbers alone, so no model is needed: chain
 * c has LENGTH blocks, and each rank has external hashes of its own.  Include
 * after cmocka.h.
 */

#ifndef INDEX_CHAINS_H
#define INDEX_CHAINS_H

#include "index/sel_index.h"
#include "index/sel_index_check.h"


#define LENGTH     100
#define PARTITION  7


static inline uint64_t
mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);

    return x ^ (x >> 31);
}


static inline uint64_t
block_of(uint32_t chain, uint32_t i)
{
    return mix((uint64_t) chain << 32 | i);
}


/* each rank has hashes of its own */
static inline uint64_t
external_of(uint32_t rank, uint32_t chain, uint32_t i)
{
    return mix(block_of(chain, i) + rank + 1);
}


static inline void
store(sel_index_t *index, uint16_t owner, uint32_t rank, uint32_t chain,
    uint32_t from, uint32_t to)
{
    uint32_t            i;
    uint64_t            external[LENGTH], block[LENGTH];
    sel_index_change_t  change;

    for (i = from; i < to; i++) {
        external[i - from] = external_of(rank, chain, i);
        block[i - from] = block_of(chain, i);
    }

    change = (sel_index_change_t) {
        .kind = SEL_INDEX_STORED, .owner = owner, .n = to - from,
        .external = external, .block = block,
        .has_parent = from > 0,
        .parent = from > 0 ? external_of(rank, chain, from - 1) : 0
    };

    assert_int_equal(sel_index_apply(index, &change), SEL_INDEX_OK);
}


static inline void
take(sel_index_t *index, uint16_t owner, uint32_t rank, uint32_t chain,
    uint32_t from)
{
    uint32_t            i;
    uint64_t            external[LENGTH];
    sel_index_change_t  change;

    for (i = from; i < LENGTH; i++) {
        external[i - from] = external_of(rank, chain, i);
    }

    change = (sel_index_change_t) {
        .kind = SEL_INDEX_REMOVED, .owner = owner, .n = LENGTH - from,
        .external = external
    };

    assert_int_equal(sel_index_apply(index, &change), SEL_INDEX_OK);
}


static inline void
check(sel_index_t *index)
{
    const char  *error;

    error = sel_index_check(index);

    if (error != NULL) {
        fail_msg("%s", error);
    }
}


static inline void
expect_stats(sel_index_t *index, uint64_t nodes, uint64_t blocks)
{
    sel_index_stats_t  stats;

    sel_index_stats(index, &stats);
    assert_int_equal(stats.nodes, nodes);
    assert_int_equal(stats.blocks[SEL_TIER_DEVICE], blocks);
}


static inline void
sweep_all(sel_index_t *index)
{
    uint32_t  turns;

    for (turns = 0; !sel_index_sweep(index, 1000); turns++) {
        assert_true(turns < 100000);
    }
}


#endif /* INDEX_CHAINS_H */
