/*
 * Made-up prompts for the index.  Block hashes are numbers counted up and
 * mixed, so a prompt can be made again from its number, and nothing but the
 * index itself fills the caches.  The external hash of a block is its
 * complement.
 */

#ifndef BENCH_BLOCKS_H
#define BENCH_BLOCKS_H

#include "bench.h"
#include "index/sel_index.h"


#define BENCH_DEPTH      512            /* blocks of a prompt */
#define BENCH_CHANGE     64             /* of a change */
#define BENCH_PARTITION  1


static inline void
bench_blocks(uint32_t prompt, uint32_t from, uint32_t n, uint64_t *blocks)
{
    uint32_t  i;

    for (i = 0; i < n; i++) {
        blocks[i] = bench_mix((uint64_t) prompt * BENCH_DEPTH + from + i);
    }
}


/* An index with n ranks. */
static inline sel_index_t *
bench_index(uint16_t *owners, uint32_t n, uint64_t seed)
{
    uint32_t      i;
    sel_index_t  *index;

    index = sel_index_create(0, seed);

    if (index == NULL) {
        bench_fail("out of memory");
    }

    for (i = 0; i < n; i++) {
        owners[i] = sel_index_owner(index, BENCH_PARTITION, 1000 + i, 0);

        if (owners[i] == SEL_INDEX_NO_OWNER) {
            bench_fail("out of memory");
        }
    }

    return index;
}


typedef sel_index_result_t (*bench_apply_pt)(void *data, sel_index_t *index,
    const sel_index_change_t *change);


static inline sel_index_result_t
bench_apply(void *data, sel_index_t *index, const sel_index_change_t *change)
{
    return sel_index_apply(index, change);
}


/* The first n blocks of a prompt are stored or removed, by changes. */
static inline void
bench_prompt(sel_index_t *index, sel_index_kind_t kind, uint16_t owner,
    uint32_t prompt, uint32_t n, bench_apply_pt apply, void *data)
{
    uint32_t             i, from;
    uint64_t             blocks[BENCH_CHANGE], external[BENCH_CHANGE];
    sel_index_change_t   change;

    external[BENCH_CHANGE - 1] = 0;

    for (from = 0; from < n; from += BENCH_CHANGE) {

        bench_blocks(prompt, from, BENCH_CHANGE, blocks);

        change = (sel_index_change_t) {
            .kind = kind,
            .tier = SEL_TIER_DEVICE,
            .owner = owner,
            .has_parent = from != 0,
            .parent = external[BENCH_CHANGE - 1],
            .n = BENCH_CHANGE,
            .external = external,
            .block = blocks
        };

        for (i = 0; i < BENCH_CHANGE; i++) {
            external[i] = ~blocks[i];
        }

        if (apply(data, index, &change) != SEL_INDEX_OK) {
            bench_fail("a change was refused");
        }
    }
}


#endif /* BENCH_BLOCKS_H */
