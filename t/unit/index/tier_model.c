/*
 * The block index with all its tiers beside a slow model.  Without it a block
 * of one tier could be credited in another, a place could be taken for a
 * different one with the same hash, an owner's number could inherit edges of
 * the one before, or a place could stay closed though nobody is there; short
 * scenarios do not meet enough of each other to show it.
 *
 * Few blocks and hashes, so that everything collides.  The mix is restricted
 * where nothing says what is right: a device block may have several external
 * hashes of one rank, and then any of them may lead on (model_agrees()).
 * Lists are cut where the model's arrays end.
 *
 * SEL_SEED repeats a run.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "index/sel_index_check.h"
#include "sel_rand.h"
#include "tier_model.h"


#define OPERATIONS    100000
#define N_PARTITIONS  4
#define N_WORKERS     8
#define N_RANKS       3
#define N_BLOCKS      6
#define N_POOL        8
#define LIST_MAX      16
#define PROMPT_MAX    48


typedef struct {
    sel_index_t         *index;
    model_t              model;
    sel_rand_t           rand;
    uint64_t             blocks[N_BLOCKS];
    uint64_t             pool[N_POOL];
    uint64_t             external[LIST_MAX];
    uint64_t             block[LIST_MAX];
    uint64_t             results[SEL_INDEX_CONFLICT + 1];
    uint64_t             hits[SEL_TIERS];
    char                 text[600];
} run_t;


typedef const char *(*operation_pt)(run_t *run);


#define say(run, ...)                                                         \
    ((void) snprintf((run)->text, sizeof((run)->text), __VA_ARGS__),          \
     (run)->text)


static const char *run_store(run_t *run);
static const char *run_remove(run_t *run);
static const char *run_clear(run_t *run);
static const char *run_owner(run_t *run);
static const char *run_retire(run_t *run);
static const char *run_retire_worker(run_t *run);
static const char *run_nobody(run_t *run);
static const char *run_sweep(run_t *run);
static const char *run_sweep_all(run_t *run);


/* the extremes are the keys that an empty table slot is likely to hold */
static const uint32_t  partitions[N_PARTITIONS] = { 1, 2, 0, UINT32_MAX };
static const uint64_t  workers[N_WORKERS] = { 1, 2, 3, 4, 5, 6, 0,
                                              UINT64_MAX };
static const uint32_t  ranks[N_RANKS] = { 0, 1, UINT32_MAX };


static const struct {
    uint32_t      weight;
    operation_pt  call;
} operations[] = {
    { 5200, run_store },
    { 2600, run_remove },
    {   40, run_clear },
    { 1200, run_owner },
    {   60, run_retire },
    {   30, run_retire_worker },
    {   80, run_nobody },
    {  600, run_sweep },
    {   40, run_sweep_all },
};


static uint32_t
below(run_t *run, uint32_t bound)
{
    return (uint32_t) sel_rand_below(&run->rand, bound);
}


static model_rank_t *
any_rank(run_t *run)
{
    uint32_t  i;

    i = below(run, MODEL_RANKS);

    return run->model.ranks[i].alive ? &run->model.ranks[i] : NULL;
}


static uint32_t
any_tier(run_t *run)
{
    static const sel_tier_t  often[] = {
        SEL_TIER_DEVICE, SEL_TIER_DEVICE, SEL_TIER_DEVICE,
        SEL_TIER_HOST_PINNED, SEL_TIER_HOST_PINNED, SEL_TIER_HOST_PINNED,
        SEL_TIER_DISK, SEL_TIER_DISK, SEL_TIER_EXTERNAL, SEL_TIER_EXTERNAL
    };

    return often[below(run, sel_countof(often))];
}


static uint64_t
any_block(run_t *run)
{
    uint32_t  dice;

    dice = below(run, 100);

    return run->blocks[dice < 45 ? 0 : dice < 70 ? 1 : below(run, N_BLOCKS)];
}


/* A hash that the rank has in a tier, else any. */
static uint64_t
external_in(run_t *run, const model_rank_t *r, uint32_t tier)
{
    uint32_t  i;

    if (r->n[tier] == 0) {
        return run->pool[below(run, N_POOL)];
    }

    i = below(run, r->n[tier]);

    return tier == SEL_TIER_DEVICE ? r->device[i].external
                                   : r->edges[tier][i].external;
}


/* Mostly in the same tier or on the device, at times anywhere. */
static uint64_t
any_external(run_t *run, const model_rank_t *r, uint32_t tier)
{
    uint32_t  dice;

    dice = below(run, 100);

    if (dice < 50) {
        return external_in(run, r, tier);
    }

    if (dice < 80) {
        return external_in(run, r, SEL_TIER_DEVICE);
    }

    if (dice < 95) {
        return external_in(run, r, any_tier(run));
    }

    return run->pool[below(run, N_POOL)];
}


/* Counts a result and compares it. */
static const char *
apply(run_t *run, const sel_index_change_t *change)
{
    sel_index_result_t  got, expected;

    got = sel_index_apply(run->index, change);
    expected = model_apply(&run->model, change);
    run->results[expected]++;

    if (got != expected) {
        return say(run, "kind %d, tier %d, owner %u, %u blocks: result %d, "
                   "expected %d", (int) change->kind, (int) change->tier,
                   change->owner, change->n, (int) got, (int) expected);
    }

    return NULL;
}


/*
 * An engine's hashes follow from the parent's and the block, in most stores
 * alike for all ranks; some are taken from a few that are used everywhere.
 */
static void
fill_lists(run_t *run, const model_rank_t *r, const sel_index_change_t *change)
{
    uint32_t    i;
    uint64_t    salt;
    sel_rand_t  hash;

    salt = below(run, 100) < 80 ? 0 : 1 + (uint64_t) (r - run->model.ranks);
    hash.state = change->has_parent ? change->parent : 5;

    for (i = 0; i < change->n; i++) {
        run->block[i] = any_block(run);
        hash.state = hash.state * 31 + run->block[i] + salt;
        run->external[i] = below(run, 100) < 92 ? sel_rand(&hash)
                                          : run->pool[below(run, N_POOL)];
        hash.state = run->external[i];
    }
}


static const char *
run_store(run_t *run)
{
    uint32_t             k, room;
    model_rank_t        *r;
    sel_index_change_t   change;

    r = any_rank(run);
    if (r == NULL) {
        return NULL;
    }

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_STORED;
    change.tier = any_tier(run);
    change.owner = r->owner;
    change.has_parent = below(run, 100) < 70;
    change.parent = any_external(run, r, change.tier);
    change.n = below(run, 100) < 90 ? below(run, 5) : below(run, LIST_MAX);
    change.external = run->external;
    change.block = run->block;

    room = MODEL_LIST - r->n[change.tier];
    change.n = change.n < room ? change.n : room;

    if (change.tier == SEL_TIER_DEVICE) {
        room = MODEL_DEPTH;
        k = model_find(r, SEL_TIER_DEVICE, change.parent);

        if (change.has_parent && k < r->n[SEL_TIER_DEVICE]) {
            room -= r->device[k].depth;
        }

        change.n = change.n < room ? change.n : room;
    }

    fill_lists(run, r, &change);

    return apply(run, &change);
}


static const char *
run_remove(run_t *run)
{
    uint32_t             i;
    model_rank_t        *r;
    sel_index_change_t   change;

    r = any_rank(run);
    if (r == NULL) {
        return NULL;
    }

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_REMOVED;
    change.tier = any_tier(run);
    change.owner = r->owner;
    change.n = below(run, r->n[change.tier] > MODEL_LIST / 2 ? LIST_MAX : 4);
    change.external = run->external;

    for (i = 0; i < change.n; i++) {
        run->external[i] = below(run, 100) < 85
                           ? external_in(run, r, change.tier)
                           : any_external(run, r, change.tier);
    }

    return apply(run, &change);
}


static const char *
run_clear(run_t *run)
{
    model_rank_t        *r;
    sel_index_change_t   change;

    r = any_rank(run);
    if (r == NULL) {
        return NULL;
    }

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_CLEARED;
    change.tier = any_tier(run);
    change.owner = r->owner;

    return apply(run, &change);
}


/* Asks for an owner, known or new. */
static const char *
run_owner(run_t *run)
{
    uint16_t       owner;
    uint32_t       i;
    model_rank_t  *r;

    i = below(run, MODEL_RANKS);
    r = &run->model.ranks[i];

    owner = sel_index_owner(run->index, r->partition, r->worker, r->rank);

    if (r->alive) {
        return owner == r->owner ? NULL : "a known owner got another number";
    }

    if (owner == SEL_INDEX_NO_OWNER || model_owner(&run->model, owner) != NULL)
    {
        return "no number for a new owner, or that of another";
    }

    model_empty(r);
    r->alive = true;
    r->owner = owner;

    return NULL;
}


static const char *
run_retire(run_t *run)
{
    model_rank_t  *r;

    r = any_rank(run);

    if (r != NULL) {
        sel_index_retire(run->index, r->owner);
        r->alive = false;
    }

    return NULL;
}


/* Half of the ranks come back at once, empty. */
static const char *
run_retire_worker(run_t *run)
{
    uint32_t       i;
    uint64_t       worker;
    const char    *error;
    model_rank_t  *r, *first;

    first = &run->model.ranks[below(run, MODEL_RANKS)];
    worker = first->worker;
    sel_index_retire_worker(run->index, first->partition, worker);
    error = NULL;

    for (i = 0; i < MODEL_RANKS; i++) {
        r = &run->model.ranks[i];

        if (r->partition == first->partition && r->worker == worker) {
            r->alive = false;
        }
    }

    for (i = 0; i < MODEL_RANKS / 2 && error == NULL; i++) {
        error = run_owner(run);
    }

    return error;
}


/* A change for an owner that is not in use, maybe retired and not swept. */
static const char *
run_nobody(run_t *run)
{
    sel_index_change_t  change;

    memset(&change, 0, sizeof(change));
    change.kind = (sel_index_kind_t) below(run, 3);
    change.tier = any_tier(run);
    change.owner = (uint16_t) below(run, MODEL_RANKS + 40);
    change.n = 1;
    change.external = run->pool;
    change.block = run->blocks;

    return model_owner(&run->model, change.owner) == NULL ? apply(run, &change)
                                                          : NULL;
}


static const char *
run_sweep(run_t *run)
{
    (void) sel_index_sweep(run->index, 1 + below(run, 20));

    return NULL;
}


static const char *
run_sweep_all(run_t *run)
{
    uint32_t           turns;
    sel_index_stats_t  stats;

    for (turns = 0; !sel_index_sweep(run->index, 100); turns++) {
        if (turns == 100000) {
            return "sweeping does not come to an end";
        }
    }

    sel_index_stats(run->index, &stats);

    return stats.retired == 0 ? NULL : "retired owners after a whole sweep";
}


/* One of the rank's edges behind a place, which becomes that edge's end. */
static bool
any_next(run_t *run, const model_rank_t *r, uint32_t tier, model_edge_t *place)
{
    uint32_t             i, start;
    const model_edge_t  *edge;

    start = below(run, MODEL_LIST);

    for (i = 0; i < r->n[tier]; i++) {
        edge = &r->edges[tier][(start + i) % r->n[tier]];
        place->block = edge->block;

        if (model_same_edge(edge, place)) {
            place->has_parent = true;
            place->parent = edge->external;
            return true;
        }
    }

    return false;
}


/* Along what a rank has, from the device downwards, or anything. */
static uint32_t
any_prompt(run_t *run, const model_rank_t *r, uint64_t *prompt)
{
    uint32_t       i, n, tier;
    model_edge_t   place;

    n = 0;
    place.has_parent = false;
    place.parent = 0;

    if (r->n[SEL_TIER_DEVICE] > 0 && below(run, 100) < 75) {
        i = below(run, r->n[SEL_TIER_DEVICE]);
        n = r->device[i].depth;
        memcpy(prompt, r->device[i].path, n * sizeof(uint64_t));
        place.has_parent = true;
        place.parent = r->device[i].external;
    }

    for (tier = SEL_TIER_HOST_PINNED; tier < SEL_TIERS; tier++) {
        while (n < PROMPT_MAX - 8 && any_next(run, r, tier, &place)) {
            prompt[n++] = place.block;
        }
    }

    if (n > 0 && below(run, 100) < 15) {
        prompt[below(run, n)] = any_block(run);
    }

    for (i = below(run, 6); i > 0; i--) {
        prompt[n++] = any_block(run);
    }

    return n;
}


/* Says what was asked and answered. */
static const char *
wrong_hits(run_t *run, const model_rank_t *r, const uint64_t *prompt,
    uint32_t n, const uint32_t *got, const uint32_t *hits)
{
    char      blocks[PROMPT_MAX + 1];
    uint32_t  i, k;

    for (i = 0; i < n; i++) {
        for (k = 0; run->blocks[k] != prompt[i]; k++) {
            /* void */
        }

        blocks[i] = (char) ('a' + k);
    }

    blocks[n] = '\0';

    return say(run, "owner %u, prompt %s: hits %u %u %u %u, expected "
               "%u %u %u %u", r->owner, blocks, got[0], got[1], got[2], got[3],
               hits[0], hits[1], hits[2], hits[3]);
}


/* One prompt for all the ranks of a partition. */
static const char *
compare_prompt(run_t *run, uint32_t partition, const uint64_t *prompt,
    uint32_t n)
{
    uint32_t            i, k, got, rows, expected[SEL_TIERS];
    model_rank_t       *r;
    sel_index_match_t   out[MODEL_RANKS], none, *row;

    memset(&none, 0, sizeof(none));
    rows = 0;
    got = sel_index_match(run->index, partition, prompt, n, out, MODEL_RANKS);

    for (i = 0; i < MODEL_RANKS; i++) {
        r = &run->model.ranks[i];

        if (!r->alive || r->partition != partition) {
            continue;
        }

        row = &none;

        for (k = 0; k < got; k++) {
            row = out[k].owner == r->owner ? &out[k] : row;
        }

        if (!model_agrees(r, prompt, n, row->hits, expected)) {
            return wrong_hits(run, r, prompt, n, row->hits, expected);
        }

        for (k = 0; k < SEL_TIERS; k++) {
            run->hits[k] += row->hits[k];
        }

        rows += row->hits[0] + row->hits[1] + row->hits[2] + row->hits[3] > 0;
    }

    return got == rows ? NULL : say(run, "%u matches for %u ranks with credit",
                                    got, rows);
}


static const char *
compare_counters(run_t *run)
{
    uint32_t             i, tier, alive;
    uint64_t             blocks, sums[SEL_TIERS];
    model_rank_t        *r;
    sel_index_stats_t    stats;

    memset(sums, 0, sizeof(sums));
    alive = 0;

    for (i = 0; i < MODEL_RANKS; i++) {
        r = &run->model.ranks[i];
        alive += r->alive;

        for (tier = 0; r->alive && tier < SEL_TIERS; tier++) {
            sums[tier] += model_blocks(r, tier);
            blocks = sel_index_owner_blocks(run->index, r->owner,
                                            (sel_tier_t) tier);

            if (blocks != model_blocks(r, tier)) {
                return say(run, "owner %u, tier %u: %" PRIu64 " blocks, "
                           "expected %" PRIu64, r->owner, tier, blocks,
                           model_blocks(r, tier));
            }
        }
    }

    sel_index_stats(run->index, &stats);

    if (stats.owners != alive + stats.retired) {
        return say(run, "%" PRIu64 " owners, %" PRIu64 " of them retired; %u "
                   "are alive", stats.owners, stats.retired, alive);
    }

    return memcmp(stats.blocks, sums, sizeof(sums)) == 0 ? NULL
           : "the blocks of a tier do not add up";
}


static const char *
compare_all(run_t *run)
{
    uint32_t             i, n;
    uint64_t             prompt[PROMPT_MAX];
    const char          *error;
    model_rank_t        *r;

    error = compare_counters(run);

    for (i = 0; i < N_PARTITIONS && error == NULL; i++) {
        do {
            r = &run->model.ranks[below(run, MODEL_RANKS)];
        } while (r->partition != partitions[i]);

        n = any_prompt(run, r, prompt);
        error = compare_prompt(run, partitions[i], prompt, n);
    }

    return error;
}


static void
run_begin(run_t *run, uint64_t seed)
{
    uint32_t       i;
    model_rank_t  *r;

    memset(run, 0, sizeof(run_t));
    run->rand.state = seed;
    run->index = sel_index_create(0, sel_rand(&run->rand));
    assert_non_null(run->index);

    for (i = 0; i < N_BLOCKS; i++) {
        run->blocks[i] = sel_rand(&run->rand);
    }

    for (i = 0; i < N_POOL; i++) {
        run->pool[i] = sel_rand(&run->rand);
    }

    run->blocks[1] = 0;
    run->blocks[2] = UINT64_MAX;
    run->pool[0] = 0;
    run->pool[1] = UINT64_MAX;
    run->pool[2] = run->blocks[0];

    for (i = 0; i < MODEL_RANKS; i++) {
        r = &run->model.ranks[i];
        r->partition = partitions[i % N_PARTITIONS];
        r->worker = workers[i / N_PARTITIONS % N_WORKERS];
        r->rank = ranks[i / N_PARTITIONS / N_WORKERS];
    }
}


static void
test_random_operations(void **state)
{
    run_t       *run;
    uint32_t     i, op, dice;
    const char  *error;

    run = malloc(sizeof(run_t));
    assert_non_null(run);
    run_begin(run, sel_rand_seed("tier model"));

    for (i = 1; i <= OPERATIONS; i++) {
        dice = below(run, 9850);

        for (op = 0; dice >= operations[op].weight; op++) {
            dice -= operations[op].weight;
        }

        error = operations[op].call(run);

        if (error == NULL && i % 50 == 0) {
            error = compare_all(run);
        }

        if (error == NULL && i % 1000 == 0) {
            error = sel_index_check(run->index);
        }

        if (error != NULL) {
            fail_msg("operation %u (of kind %u): %s", i, op, error);
        }
    }

    print_message("# hits %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
                  ", %" PRIu64 " unknown parents, %" PRIu64 " conflicts\n",
                  run->hits[0], run->hits[1], run->hits[2], run->hits[3],
                  run->results[SEL_INDEX_UNKNOWN_PARENT],
                  run->results[SEL_INDEX_CONFLICT]);

    for (i = 0; i < SEL_TIERS; i++) {
        assert_true(run->hits[i] > OPERATIONS / 100);
    }

    assert_true(run->results[SEL_INDEX_UNKNOWN_PARENT] > OPERATIONS / 100);
    assert_true(run->results[SEL_INDEX_UNKNOWN_BLOCK] > OPERATIONS / 100);
    assert_true(run->results[SEL_INDEX_CONFLICT] > OPERATIONS / 100);

    sel_index_destroy(run->index);
    free(run);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_random_operations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
