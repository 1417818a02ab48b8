/*
 * Inside the look-up of lower tiers: what its two halves share.
 */

#ifndef SEL_INDEX_FOLLOW_H
#define SEL_INDEX_FOLLOW_H

#include "index/sel_index_impl.h"


typedef struct {
    sel_index_t        *index;
    const uint64_t     *blocks;
    uint32_t            n;          /* blocks */
    uint32_t            partition;
    uint32_t            walkers_n;
    uint32_t            groups_n;
    sel_index_match_t  *out;
    uint32_t            out_n;
    uint32_t            cap;
    sel_tier_t          tier;
    uint64_t            root;
    uint32_t            waiting;    /* walkers that have to pass the tier */
    uint32_t            first;      /* those that have */
    uint32_t            last;
    uint64_t            listed[SEL_SET_WORDS];      /* owners in the result */
} sel_follow_t;


/* Takes the walkers through the tier: sel_index_walk.c. */
void sel_follow_walk(sel_follow_t *follow);


#endif /* SEL_INDEX_FOLLOW_H */
