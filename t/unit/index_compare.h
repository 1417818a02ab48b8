/*
 * Compares the index with its model.  Every function gives NULL when the two
 * agree, else a sentence that says where they differ.
 */

#ifndef INDEX_COMPARE_H
#define INDEX_COMPARE_H

#include <stdio.h>
#include "index_model.h"


#define COMPARE_DEPTH  4096     /* longest prompt or path */


typedef struct {
    sel_index_t  *index;
    model_t      *model;
    bool          full;         /* a store ended with FULL */
    uint64_t      retired;      /* owners, since all was swept */
    uint64_t      cleared;
    uint64_t      lost;         /* owners that lost all for want of memory */
    char          text[256];
} compare_t;


#define compare_say(compare, ...)                                             \
    ((void) snprintf((compare)->text, sizeof((compare)->text), __VA_ARGS__),  \
     (compare)->text)


/* How many ranks have credit for a prompt. */
static inline uint32_t
compare_credited(compare_t *compare, uint32_t partition,
    const uint64_t *blocks, uint32_t n)
{
    uint32_t       i, credited;
    model_rank_t  *r;

    credited = 0;

    for (i = 0; i < compare->model->n_ranks; i++) {
        r = &compare->model->ranks[i];

        if (r->partition == partition
            && model_credit(compare->model, r, blocks, n) > 0)
        {
            credited++;
        }
    }

    return credited;
}


/* One query.  cap is the room that the index is given. */
static inline const char *
compare_match(compare_t *compare, uint32_t partition, const uint64_t *blocks,
    uint32_t n, uint32_t cap)
{
    uint32_t             i, k, got, expected, credit;
    const char          *error;
    model_rank_t        *r;
    sel_index_match_t   *out;

    out = malloc((cap + 1) * sizeof(sel_index_match_t));
    memset(out, 0xa5, (cap + 1) * sizeof(sel_index_match_t));

    got = sel_index_match(compare->index, partition, blocks, n, out, cap);

    error = NULL;
    expected = compare_credited(compare, partition, blocks, n);

    if (got != (expected < cap ? expected : cap)) {
        error = compare_say(compare, "%u ranks matched, expected %u (room %u)",
                            got, expected, cap);
    }

    if (out[cap].owner != 0xa5a5 || out[cap].hits[0] != 0xa5a5a5a5) {
        error = compare_say(compare, "written behind the room for matches");
    }

    for (i = 0; error == NULL && i < got; i++) {
        r = model_rank(compare->model, out[i].owner);

        if (r == NULL || r->partition != partition) {
            error = compare_say(compare, "owner %u has no credit to expect",
                                out[i].owner);
            break;
        }

        credit = model_credit(compare->model, r, blocks, n);

        if (out[i].hits[SEL_TIER_DEVICE] != credit) {
            error = compare_say(compare, "owner %u: %u blocks, expected %u",
                                out[i].owner,
                                out[i].hits[SEL_TIER_DEVICE], credit);
        }

        for (k = 0; k < i; k++) {
            if (out[k].owner == out[i].owner) {
                error = compare_say(compare, "owner %u twice", out[i].owner);
            }
        }
    }

    free(out);

    return error;
}


/* What one rank holds, as far as it can be seen without a query. */
static inline const char *
compare_rank(compare_t *compare, const model_rank_t *r)
{
    uint16_t  owner;
    uint32_t  partition, rank;
    uint64_t  worker, blocks, expected;

    owner = sel_index_find_owner(compare->index, r->partition, r->worker,
                                 r->rank);
    if (owner != r->owner) {
        return compare_say(compare, "find_owner gives %u, expected %u", owner,
                           r->owner);
    }

    if (!sel_index_owner_key(compare->index, owner, &partition, &worker, &rank)
        || partition != r->partition || worker != r->worker
        || rank != r->rank)
    {
        return compare_say(compare, "owner_key of %u is wrong", owner);
    }

    if (owner >= sel_index_owner_limit(compare->index)) {
        return compare_say(compare, "owner %u is above the limit", owner);
    }

    blocks = sel_index_owner_blocks(compare->index, owner,
                                    SEL_TIER_DEVICE);
    expected = model_blocks(compare->model, r);

    if (blocks != expected) {
        return compare_say(compare, "owner %u holds %llu blocks, expected "
                           "%llu", owner, (unsigned long long) blocks,
                           (unsigned long long) expected);
    }

    return NULL;
}


/*
 * The statistics.  Unless all is swept, blocks that nobody holds any more may
 * be counted as nodes.
 */
static inline const char *
compare_stats(compare_t *compare)
{
    uint32_t           i;
    uint64_t           blocks, nodes;
    sel_index_stats_t  stats;

    sel_index_stats(compare->index, &stats);

    blocks = 0;
    nodes = model_nodes(compare->model);

    for (i = 0; i < compare->model->n_ranks; i++) {
        blocks += model_blocks(compare->model, &compare->model->ranks[i]);
    }

    if (stats.retired > compare->retired
        || stats.owners != compare->model->n_ranks + stats.retired)
    {
        return compare_say(compare, "%llu owners, %llu of them retired; "
                           "expected %u alive, at most %llu retired",
                           (unsigned long long) stats.owners,
                           (unsigned long long) stats.retired,
                           compare->model->n_ranks,
                           (unsigned long long) compare->retired);
    }

    if (stats.blocks[SEL_TIER_DEVICE] != blocks || stats.nodes < nodes
        || (compare->retired + compare->cleared == 0 && stats.nodes != nodes))
    {
        return compare_say(compare, "%llu blocks, %llu nodes; expected %llu "
                           "and %llu",
                           (unsigned long long) stats.blocks[SEL_TIER_DEVICE],
                           (unsigned long long) stats.nodes,
                           (unsigned long long) blocks,
                           (unsigned long long) nodes);
    }

    return NULL;
}


/* Whether the rank maps an external hash: an empty store under it tells. */
static inline bool
compare_index_knows(compare_t *compare, uint16_t owner, uint64_t external)
{
    sel_index_change_t  change;

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_STORED;
    change.owner = owner;
    change.has_parent = true;
    change.parent = external;

    return sel_index_apply(compare->index, &change) == SEL_INDEX_OK;
}


/* Whether the index shows what the model says after part of a store. */
static inline bool
compare_partial(compare_t *compare, model_rank_t *r,
    const sel_index_change_t *change, const uint64_t *prompt, uint32_t n)
{
    bool      known;
    uint32_t  i;

    if (sel_index_owner_blocks(compare->index, r->owner, SEL_TIER_DEVICE)
        != model_blocks(compare->model, r))
    {
        return false;
    }

    for (i = 0; i < change->n; i++) {
        known = model_known(r, change->external[i]) != MODEL_NONE;

        if (known != compare_index_knows(compare, r->owner,
                                         change->external[i]))
        {
            return false;
        }
    }

    return compare_match(compare, r->partition, prompt, n, MODEL_RANKS)
           == NULL;
}


static inline void
compare_copy(model_pair_t *to, const model_pair_t *from, uint32_t n)
{
    if (n > 0) {
        memcpy(to, from, n * sizeof(model_pair_t));
    }
}


static inline bool
compare_same(const model_pair_t *a, const model_pair_t *b, uint32_t n)
{
    return n == 0 || memcmp(a, b, n * sizeof(model_pair_t)) == 0;
}


/* What the index may hold after FULL, as far as it looks from outside. */
typedef struct {
    uint32_t       states;      /* different ones */
    uint32_t       n;
    model_pair_t  *pairs;       /* the first one */
} compare_full_t;


/* Where two states look alike but are not, the rank is cleared in both. */
static inline const char *
compare_clear(compare_t *compare, model_rank_t *r)
{
    sel_index_change_t  clear;

    memset(&clear, 0, sizeof(clear));
    clear.kind = SEL_INDEX_CLEARED;
    clear.owner = r->owner;

    r->n = 0;
    compare->cleared++;

    if (sel_index_apply(compare->index, &clear) != SEL_INDEX_OK) {
        return compare_say(compare, "a full index cannot be cleared");
    }

    return NULL;
}


/* Remembers the model's state if the index looks like it. */
static inline void
compare_candidate(compare_t *compare, compare_full_t *full, model_rank_t *r,
    const sel_index_change_t *change, const uint64_t *prompt, uint32_t n)
{
    if (!compare_partial(compare, r, change, prompt, n)) {
        return;
    }

    if (full->states == 0) {
        full->states = 1;
        full->n = r->n;
        compare_copy(full->pairs, r->pairs, r->n);

    } else if (full->n != r->n || !compare_same(full->pairs, r->pairs, r->n)) {
        full->states++;
    }
}


/*
 * A block that an owner gives up may need memory too, for a set of owners
 * that is new.  Without it the owner loses all that it has.
 */
static inline const char *
compare_lost(compare_t *compare, model_rank_t *r)
{
    if (sel_index_owner_blocks(compare->index, r->owner, SEL_TIER_DEVICE)
        != 0)
    {
        return compare_say(compare, "after FULL owner %u holds neither a part "
                           "of the change nor nothing", r->owner);
    }

    r->n = 0;
    compare->lost++;
    compare->cleared++;

    return NULL;
}


/*
 * Brings the model to where a store that ended with FULL has stopped: the
 * blocks before some point are stored, those behind are not; an external hash
 * that was to move at that point may have left its old block.
 */
static inline const char *
compare_full(compare_t *compare, const sel_index_change_t *change)
{
    uint32_t             i, n, path, old;
    uint64_t            *prompt;
    model_rank_t        *r;
    compare_full_t       full;

    r = model_rank(compare->model, change->owner);
    path = change->has_parent ? model_known(r, change->parent) : MODEL_ROOT;

    if (path == MODEL_NONE) {
        return compare_say(compare, "FULL for an unknown parent");
    }

    memset(&full, 0, sizeof(full));
    full.pairs = malloc((r->n + change->n + 1) * sizeof(model_pair_t));
    prompt = malloc(COMPARE_DEPTH * sizeof(uint64_t));

    n = model_path_blocks(compare->model, path, prompt);
    for (i = 0; i < change->n; i++) {
        prompt[n++] = change->block[i];
    }

    for (i = 0; i < change->n; i++) {
        path = model_path_make(compare->model, path, change->block[i]);
        old = model_known(r, change->external[i]);

        compare_candidate(compare, &full, r, change, prompt, n);

        if (old != MODEL_NONE && old != path) {
            (void) model_take(r, change->external[i]);
            compare_candidate(compare, &full, r, change, prompt, n);
        }

        model_put(r, change->external[i], path);
    }

    if (full.states > 0) {
        r->n = full.n;
        compare_copy(r->pairs, full.pairs, full.n);
    }

    free(prompt);
    free(full.pairs);

    if (full.states == 0) {
        return compare_lost(compare, r);
    }

    return full.states > 1 ? compare_clear(compare, r) : NULL;
}


/* Applies one change to both. */
static inline const char *
compare_apply(compare_t *compare, const sel_index_change_t *change,
    bool may_be_full)
{
    model_rank_t        *r;
    sel_index_result_t   got, expected;

    got = sel_index_apply(compare->index, change);

    r = model_rank(compare->model, change->owner);

    if (got == SEL_INDEX_FULL && may_be_full && r != NULL
        && change->kind != SEL_INDEX_CLEARED)
    {
        compare->full = true;

        return change->kind == SEL_INDEX_STORED ? compare_full(compare, change)
                                                : compare_lost(compare, r);
    }

    expected = model_apply(compare->model, change);
    compare->cleared += change->kind == SEL_INDEX_CLEARED;

    if (got != expected) {
        return compare_say(compare, "kind %d on owner %u: result %d, expected "
                           "%d", (int) change->kind, change->owner, (int) got,
                           (int) expected);
    }

    return NULL;
}


#endif /* INDEX_COMPARE_H */
