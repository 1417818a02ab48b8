/*
 * A slow and obvious model of the block index with its tiers, to stand beside
 * the real one.  Arrays, searched from their start, a rank and tier each.
 *
 * On the device a rank has a list of (external hash, path), where a path is
 * the whole sequence of block hashes that leads to the block; it owns a path
 * as long as an entry names it.  In a lower tier it has a list of edges:
 * (external hash of the parent or none, block hash) leads to an external
 * hash.  An edge exists in a partition as long as a rank of it has it.
 * Nothing is shared, remembered or put off.
 */

#ifndef TIER_MODEL_H
#define TIER_MODEL_H

#include <string.h>
#include "index/sel_index.h"


#define MODEL_RANKS  96
#define MODEL_LIST   64         /* entries of a rank in a tier; the caller's */
#define MODEL_DEPTH  15         /* blocks of a path; the caller's to keep */


typedef struct {
    uint64_t        external;
    uint32_t        depth;
    uint64_t        path[MODEL_DEPTH];
} model_block_t;


typedef struct {
    bool            has_parent;
    uint64_t        parent;
    uint64_t        block;
    uint64_t        external;
} model_edge_t;


typedef struct {
    bool            alive;
    uint16_t        owner;
    uint32_t        partition;
    uint32_t        rank;
    uint64_t        worker;
    uint32_t        n[SEL_TIERS];
    model_block_t   device[MODEL_LIST];
    model_edge_t    edges[SEL_TIERS][MODEL_LIST];
} model_rank_t;


typedef struct {
    model_rank_t    ranks[MODEL_RANKS];
} model_t;


/* NULL when no such owner is alive */
static inline model_rank_t *
model_owner(model_t *model, uint16_t owner)
{
    uint32_t  i;

    for (i = 0; i < MODEL_RANKS; i++) {
        if (model->ranks[i].alive && model->ranks[i].owner == owner) {
            return &model->ranks[i];
        }
    }

    return NULL;
}


static inline void
model_empty(model_rank_t *r)
{
    memset(r->n, 0, sizeof(r->n));
}


/* The place in the rank's list of a tier; its length when there is none. */
static inline uint32_t
model_find(const model_rank_t *r, uint32_t tier, uint64_t external)
{
    uint32_t  i;

    for (i = 0; i < r->n[tier]; i++) {
        if ((tier == SEL_TIER_DEVICE ? r->device[i].external
                                     : r->edges[tier][i].external)
            == external)
        {
            break;
        }
    }

    return i;
}


/* The first entry from i on with this path; the list's length: none. */
static inline uint32_t
model_path(const model_rank_t *r, uint32_t i, const uint64_t *path,
    uint32_t depth)
{
    for (; i < r->n[SEL_TIER_DEVICE]; i++) {
        if (r->device[i].depth == depth
            && memcmp(r->device[i].path, path, depth * sizeof(uint64_t)) == 0)
        {
            break;
        }
    }

    return i;
}


static inline bool
model_same_edge(const model_edge_t *a, const model_edge_t *b)
{
    return a->has_parent == b->has_parent
           && (!a->has_parent || a->parent == b->parent)
           && a->block == b->block;
}


/* The rank's own edge in that place, NULL when it has none. */
static inline const model_edge_t *
model_edge(const model_rank_t *r, uint32_t tier, const model_edge_t *place)
{
    uint32_t  i;

    for (i = 0; i < r->n[tier]; i++) {
        if (model_same_edge(&r->edges[tier][i], place)) {
            return &r->edges[tier][i];
        }
    }

    return NULL;
}


/* Whether another hash is in this place, or this hash in another place. */
static inline bool
model_conflict(const model_t *model, const model_rank_t *r, uint32_t tier,
    const model_edge_t *edge)
{
    uint32_t             i;
    const model_edge_t  *other;

    i = model_find(r, tier, edge->external);

    if (i < r->n[tier] && !model_same_edge(&r->edges[tier][i], edge)) {
        return true;
    }

    for (i = 0; i < MODEL_RANKS; i++) {
        if (!model->ranks[i].alive
            || model->ranks[i].partition != r->partition)
        {
            continue;
        }

        other = model_edge(&model->ranks[i], tier, edge);

        if (other != NULL && other->external != edge->external) {
            return true;
        }
    }

    return false;
}


static inline sel_index_result_t
model_store_lower(const model_t *model, model_rank_t *r,
    const sel_index_change_t *change)
{
    uint32_t      i;
    model_edge_t  edge;

    edge.has_parent = change->has_parent;
    edge.parent = change->parent;

    for (i = 0; i < change->n; i++) {
        edge.block = change->block[i];
        edge.external = change->external[i];

        if (model_conflict(model, r, change->tier, &edge)) {
            return SEL_INDEX_CONFLICT;
        }

        if (model_edge(r, change->tier, &edge) == NULL) {
            r->edges[change->tier][r->n[change->tier]++] = edge;
        }

        edge.has_parent = true;
        edge.parent = edge.external;
    }

    return SEL_INDEX_OK;
}


/* a known external hash moves to its new path */
static inline sel_index_result_t
model_store_device(model_rank_t *r, const sel_index_change_t *change)
{
    uint32_t       i, k;
    model_block_t  block;

    block.depth = 0;

    if (change->has_parent) {
        k = model_find(r, SEL_TIER_DEVICE, change->parent);

        if (k == r->n[SEL_TIER_DEVICE]) {
            return SEL_INDEX_UNKNOWN_PARENT;
        }

        block = r->device[k];
    }

    for (i = 0; i < change->n; i++) {
        block.external = change->external[i];
        block.path[block.depth++] = change->block[i];

        k = model_find(r, SEL_TIER_DEVICE, block.external);
        r->device[k] = block;

        if (k == r->n[SEL_TIER_DEVICE]) {
            r->n[SEL_TIER_DEVICE]++;
        }
    }

    return SEL_INDEX_OK;
}


static inline sel_index_result_t
model_remove(model_rank_t *r, const sel_index_change_t *change)
{
    uint32_t             i, k, last;
    sel_index_result_t   result;

    result = SEL_INDEX_OK;

    for (i = 0; i < change->n; i++) {
        k = model_find(r, change->tier, change->external[i]);

        if (k == r->n[change->tier]) {
            result = SEL_INDEX_UNKNOWN_BLOCK;
            continue;
        }

        last = --r->n[change->tier];

        if (change->tier == SEL_TIER_DEVICE) {
            r->device[k] = r->device[last];

        } else {
            r->edges[change->tier][k] = r->edges[change->tier][last];
        }
    }

    return result;
}


static inline sel_index_result_t
model_apply(model_t *model, const sel_index_change_t *change)
{
    model_rank_t  *r;

    r = model_owner(model, change->owner);

    if (r == NULL) {
        return SEL_INDEX_NO_SUCH_OWNER;
    }

    if (change->kind == SEL_INDEX_CLEARED) {
        model_empty(r);
        return SEL_INDEX_OK;
    }

    if (change->kind == SEL_INDEX_REMOVED) {
        return model_remove(r, change);
    }

    return change->tier == SEL_TIER_DEVICE ? model_store_device(r, change)
                                     : model_store_lower(model, r, change);
}


/* Blocks that a rank has in a tier; several hashes of one are one. */
static inline uint64_t
model_blocks(const model_rank_t *r, uint32_t tier)
{
    uint32_t  i, blocks;

    if (tier != SEL_TIER_DEVICE) {
        return r->n[tier];
    }

    blocks = 0;

    for (i = 0; i < r->n[tier]; i++) {
        blocks += model_path(r, 0, r->device[i].path, r->device[i].depth) == i;
    }

    return blocks;
}


/* Consecutive blocks on the device, from the first. */
static inline uint32_t
model_device_hits(const model_rank_t *r, const uint64_t *prompt, uint32_t n)
{
    uint32_t  hits;

    for (hits = 0; hits < n; hits++) {
        if (model_path(r, 0, prompt, hits + 1) == r->n[SEL_TIER_DEVICE]) {
            break;
        }
    }

    return hits;
}


/* The lower tiers' hits behind hits[SEL_TIER_DEVICE] and an anchor. */
static inline void
model_go_on(const model_rank_t *r, const uint64_t *prompt, uint32_t n,
    uint64_t anchor, uint32_t *hits)
{
    uint32_t             tier, pos;
    model_edge_t         place;
    const model_edge_t  *edge;

    pos = hits[SEL_TIER_DEVICE];
    place.has_parent = pos > 0;
    place.parent = anchor;

    for (tier = SEL_TIER_HOST_PINNED; tier < SEL_TIERS; tier++) {
        for (hits[tier] = 0; pos < n; hits[tier]++, pos++) {
            place.block = prompt[pos];
            edge = model_edge(r, tier, &place);

            if (edge == NULL) {
                break;
            }

            place.has_parent = true;
            place.parent = edge->external;
        }
    }
}


/*
 * Whether these are the rank's hits for a prompt.  When its last device block
 * has several external hashes, any of them may be the one that leads on.
 */
static inline bool
model_agrees(const model_rank_t *r, const uint64_t *prompt, uint32_t n,
    const uint32_t *got, uint32_t *hits)
{
    uint32_t  i;

    hits[SEL_TIER_DEVICE] = model_device_hits(r, prompt, n);

    if (hits[SEL_TIER_DEVICE] == 0) {
        model_go_on(r, prompt, n, 0, hits);
        return memcmp(got, hits, SEL_TIERS * sizeof(uint32_t)) == 0;
    }

    for (i = model_path(r, 0, prompt, hits[SEL_TIER_DEVICE]);
         i < r->n[SEL_TIER_DEVICE];
         i = model_path(r, i + 1, prompt, hits[SEL_TIER_DEVICE]))
    {
        model_go_on(r, prompt, n, r->device[i].external, hits);

        if (memcmp(got, hits, SEL_TIERS * sizeof(uint32_t)) == 0) {
            return true;
        }
    }

    return false;
}


#endif /* TIER_MODEL_H */
