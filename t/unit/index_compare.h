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
    char          text[256];
} compare_t;


#define compare_say(compare, ...)                                             \
    ((void) snprintf((compare)->text, sizeof((compare)->text), __VA_ARGS__),  \
     (compare)->text)


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
    expected = 0;

    for (i = 0; i < compare->model->n_ranks; i++) {
        r = &compare->model->ranks[i];

        if (r->partition == partition
            && model_credit(compare->model, r, blocks, n) > 0)
        {
            expected++;
        }
    }

    if (got != (expected < cap ? expected : cap)) {
        error = compare_say(compare, "%u ranks matched, expected %u (room %u)",
                            got, expected, cap);
    }

    if (out[cap].owner != 0xa5a5 || out[cap].blocks != 0xa5a5a5a5) {
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

        if (out[i].blocks != credit) {
            error = compare_say(compare, "owner %u: %u blocks, expected %u",
                                out[i].owner, out[i].blocks, credit);
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

    blocks = sel_index_owner_blocks(compare->index, owner);
    expected = model_blocks(compare->model, r);

    if (blocks != expected) {
        return compare_say(compare, "owner %u holds %llu blocks, expected "
                           "%llu", owner, (unsigned long long) blocks,
                           (unsigned long long) expected);
    }

    return NULL;
}


/*
 * The statistics.  retired is the largest number of owners that may still
 * wait for their sweep; unless all is swept, blocks that nobody holds any
 * more may still be counted as nodes.
 */
static inline const char *
compare_stats(compare_t *compare, uint64_t retired, bool swept)
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

    if (stats.retired > retired
        || stats.owners != compare->model->n_ranks + stats.retired)
    {
        return compare_say(compare, "%llu owners, %llu of them retired; "
                           "expected %u alive, at most %llu retired",
                           (unsigned long long) stats.owners,
                           (unsigned long long) stats.retired,
                           compare->model->n_ranks,
                           (unsigned long long) retired);
    }

    if (stats.blocks != blocks || stats.nodes < nodes
        || (swept && stats.nodes != nodes))
    {
        return compare_say(compare, "%llu blocks, %llu nodes; expected %llu "
                           "and %llu", (unsigned long long) stats.blocks,
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

    if (sel_index_owner_blocks(compare->index, r->owner)
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


/*
 * Brings the model to where a store that ended with FULL has stopped: the
 * blocks before some point are stored, those behind are not.  Where two such
 * points look alike from outside but are not, the rank is cleared in both.
 */
static inline const char *
compare_full(compare_t *compare, const sel_index_change_t *change)
{
    bool                 found, twice;
    uint32_t             i, n, path, kept;
    uint64_t            *prompt;
    model_rank_t        *r;
    model_pair_t        *pairs;
    sel_index_change_t   clear;

    r = model_rank(compare->model, change->owner);
    path = change->has_parent ? model_known(r, change->parent) : MODEL_ROOT;

    if (path == MODEL_NONE) {
        return compare_say(compare, "FULL for an unknown parent");
    }

    prompt = malloc(COMPARE_DEPTH * sizeof(uint64_t));
    pairs = malloc((r->n + change->n + 1) * sizeof(model_pair_t));

    n = model_path_blocks(compare->model, path, prompt);
    for (i = 0; i < change->n; i++) {
        prompt[n++] = change->block[i];
    }

    found = false;
    twice = false;
    kept = 0;

    for (i = 0; i < change->n; i++) {
        if (compare_partial(compare, r, change, prompt, n)) {
            if (!found) {
                found = true;
                kept = r->n;
                compare_copy(pairs, r->pairs, kept);

            } else if (kept != r->n || !compare_same(pairs, r->pairs, kept)) {
                twice = true;
            }
        }

        path = model_path_make(compare->model, path, change->block[i]);
        model_put(r, change->external[i], path);
    }

    if (found) {
        r->n = kept;
        compare_copy(r->pairs, pairs, kept);
    }

    free(prompt);
    free(pairs);

    if (!found) {
        return compare_say(compare, "after FULL the index holds no beginning "
                           "of the %u blocks", change->n);
    }

    if (twice) {
        memset(&clear, 0, sizeof(clear));
        clear.kind = SEL_INDEX_CLEARED;
        clear.owner = change->owner;

        r->n = 0;

        if (sel_index_apply(compare->index, &clear) != SEL_INDEX_OK) {
            return compare_say(compare, "a full index cannot be cleared");
        }
    }

    return NULL;
}


/* Applies one change to both. */
static inline const char *
compare_apply(compare_t *compare, const sel_index_change_t *change,
    bool may_be_full)
{
    sel_index_result_t  got, expected;

    got = sel_index_apply(compare->index, change);

    if (got == SEL_INDEX_FULL && may_be_full
        && change->kind == SEL_INDEX_STORED
        && model_rank(compare->model, change->owner) != NULL)
    {
        compare->full = true;
        return compare_full(compare, change);
    }

    expected = model_apply(compare->model, change);

    if (got != expected) {
        return compare_say(compare, "kind %d on owner %u: result %d, expected "
                           "%d", (int) change->kind, change->owner, (int) got,
                           (int) expected);
    }

    return NULL;
}


#endif /* INDEX_COMPARE_H */
