/*
 * Inside the check of an index: what its two halves share.
 */

#ifndef SEL_INDEX_CHECK_IMPL_H
#define SEL_INDEX_CHECK_IMPL_H

#include "index/sel_index_check.h"
#include "index/sel_index_impl.h"
#include "index/sel_table_check.h"


typedef struct {
    const sel_index_t  *index;
    uint8_t            *seen;       /* by node: in paths */
    uint8_t            *seen_names;
    uint8_t            *seen_sets;
    uint32_t           *refs;       /* by set */
    uint32_t           *members;    /* by holder: nodes that name it */
    uint64_t           *values;     /* of one holder: node, slot's value */
    uint8_t            *holders;    /* by owner: live holders that name it */
    uint8_t            *ghosts;     /* the same of ghosts */
    size_t              bytes;
    uint64_t            blocks[SEL_TIERS];
    uint32_t            extras;
    uint32_t            alive;
} sel_check_t;


/* Verify holders, ghosts and owners against the paths seen before. */
const char *sel_check_holders(sel_check_t *check);
const char *sel_check_owners(const sel_check_t *check);


static inline bool
sel_check_bit(const uint64_t *words, uint32_t i)
{
    return words[i / 64] >> (i % 64) & 1;
}


#endif /* SEL_INDEX_CHECK_IMPL_H */
