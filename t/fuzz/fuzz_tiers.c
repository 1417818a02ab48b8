/*
 * Fuzzes the block index with all its tiers: the input is a list of
 * operations, which go to the index and to the slow model of its unit test;
 * both must agree on every query, and the tables must be sound.
 *
 * The first byte chooses: 0, and there is memory for everything; otherwise
 * allocations fail now and then, and only the tables are looked at.  Then an
 * operation is one byte and its arguments, a byte each; a list has its length
 * in front.  An input that ends early is continued with zeros.
 */

#include "fuzz.h"
#include "index/sel_index_check.h"
#include "index/sel_memory.h"
#include "../unit/tier_model.h"


#define FUZZ_RANKS   8
#define FUZZ_LIST    8
#define FUZZ_PROMPT  24


typedef struct {
    const uint8_t  *pos;
    const uint8_t  *end;
    sel_index_t    *index;
    uint8_t         failing;
    uint64_t        external[FUZZ_LIST];
    uint64_t        block[FUZZ_LIST];
} fuzz_t;


static void fuzz_store(fuzz_t *fuzz);
static void fuzz_remove(fuzz_t *fuzz);
static void fuzz_query(fuzz_t *fuzz);
static void fuzz_clear(fuzz_t *fuzz);
static void fuzz_owner(fuzz_t *fuzz);
static void fuzz_retire(fuzz_t *fuzz);
static void fuzz_sweep(fuzz_t *fuzz);
static void fuzz_look(fuzz_t *fuzz);


static void (*const operations[])(fuzz_t *fuzz) = {
    fuzz_store,
    fuzz_store,
    fuzz_store,
    fuzz_remove,
    fuzz_query,
    fuzz_query,
    fuzz_clear,
    fuzz_owner,
    fuzz_retire,
    fuzz_sweep,
    fuzz_look,
};


static model_t   model;
static uint32_t  allocations, failing;


static bool
fuzz_hook(size_t size)
{
    return ++allocations % (failing + 1) != 0;
}


static uint8_t
take(fuzz_t *fuzz)
{
    return fuzz->pos == fuzz->end ? 0 : *fuzz->pos++;
}


static model_rank_t *
take_rank(fuzz_t *fuzz)
{
    return &model.ranks[take(fuzz) % FUZZ_RANKS];
}


/* few of each, so that they meet */
static uint64_t
take_block(fuzz_t *fuzz)
{
    return take(fuzz) % 5;
}


static uint64_t
take_external(fuzz_t *fuzz)
{
    uint8_t  byte;

    byte = take(fuzz) % 32;

    return byte == 31 ? UINT64_MAX : byte;
}


static void
must_be_sound(fuzz_t *fuzz)
{
    const char  *error;

    error = sel_index_check(fuzz->index);
    FUZZ_CHECK(error == NULL, "%s", error);
}


static void
fuzz_apply(fuzz_t *fuzz, const sel_index_change_t *change)
{
    sel_index_result_t  expected, got;

    got = sel_index_apply(fuzz->index, change);

    if (fuzz->failing != 0) {
        FUZZ_CHECK(got != SEL_INDEX_FULL || change->kind != SEL_INDEX_CLEARED,
                   "a clear needs memory");
        return;
    }

    expected = model_apply(&model, change);
    FUZZ_CHECK(got == expected, "result %d, expected %d", (int) got,
               (int) expected);
}


/* what the model has no room for is left out */
static bool
fits(const model_rank_t *r, const sel_index_change_t *change)
{
    uint32_t  k, depth;

    if (!r->alive || r->n[change->tier] + change->n > MODEL_LIST) {
        return false;
    }

    k = model_find(r, SEL_TIER_DEVICE, change->parent);
    depth = change->has_parent && k < r->n[SEL_TIER_DEVICE]
            ? r->device[k].depth : 0;

    return change->tier != SEL_TIER_DEVICE
           || depth + change->n <= MODEL_DEPTH;
}


static void
fuzz_store(fuzz_t *fuzz)
{
    uint32_t             i;
    model_rank_t        *r;
    sel_index_change_t   change;

    r = take_rank(fuzz);

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_STORED;
    change.owner = r->owner;
    change.tier = (sel_tier_t) (take(fuzz) % SEL_TIERS);
    change.has_parent = take(fuzz) % 4 != 0;
    change.parent = change.has_parent ? take_external(fuzz) : 0;
    change.n = take(fuzz) % (FUZZ_LIST + 1);
    change.external = fuzz->external;
    change.block = fuzz->block;

    for (i = 0; i < change.n; i++) {
        fuzz->block[i] = take_block(fuzz);
        fuzz->external[i] = take_external(fuzz);
    }

    if (fits(r, &change)) {
        fuzz_apply(fuzz, &change);
    }
}


static void
fuzz_remove(fuzz_t *fuzz)
{
    uint32_t             i;
    model_rank_t        *r;
    sel_index_change_t   change;

    r = take_rank(fuzz);

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_REMOVED;
    change.owner = r->owner;
    change.tier = (sel_tier_t) (take(fuzz) % SEL_TIERS);
    change.n = take(fuzz) % (FUZZ_LIST + 1);
    change.external = fuzz->external;

    for (i = 0; i < change.n; i++) {
        fuzz->external[i] = take_external(fuzz);
    }

    if (r->alive) {
        fuzz_apply(fuzz, &change);
    }
}


static void
fuzz_query(fuzz_t *fuzz)
{
    uint32_t             expected[SEL_TIERS], hits[SEL_TIERS];
    uint32_t             cap, i, k, n, partition, rows;
    uint64_t             blocks[FUZZ_PROMPT];
    model_rank_t        *r;
    sel_index_match_t    out[FUZZ_RANKS];

    partition = take(fuzz) % 2;
    cap = take(fuzz) % 4 == 0 ? 2 : FUZZ_RANKS;
    n = take(fuzz) % (FUZZ_PROMPT + 1);

    for (i = 0; i < n; i++) {
        blocks[i] = take_block(fuzz);
    }

    rows = sel_index_match(fuzz->index, partition, blocks, n, out, cap);
    FUZZ_CHECK(rows <= cap, "more matches than there is room for");

    for (i = 0; i < FUZZ_RANKS && fuzz->failing == 0; i++) {
        r = &model.ranks[i];
        memset(hits, 0, sizeof(hits));

        for (k = 0; k < rows; k++) {
            if (out[k].owner == r->owner) {
                memcpy(hits, out[k].hits, sizeof(hits));
            }
        }

        if (!r->alive || r->partition != partition
            || (cap < FUZZ_RANKS && memcmp(hits, (uint32_t[SEL_TIERS]) { 0 },
                                           sizeof(hits)) == 0))
        {
            continue;
        }

        FUZZ_CHECK(model_agrees(r, blocks, n, hits, expected),
                   "hits %u %u %u %u, expected %u %u %u %u", hits[0], hits[1],
                   hits[2], hits[3], expected[0], expected[1], expected[2],
                   expected[3]);
    }
}


static void
fuzz_clear(fuzz_t *fuzz)
{
    model_rank_t        *r;
    sel_index_change_t   change;

    r = take_rank(fuzz);

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_CLEARED;
    change.owner = r->owner;

    if (r->alive) {
        fuzz_apply(fuzz, &change);
    }
}


static void
fuzz_owner(fuzz_t *fuzz)
{
    uint16_t       owner;
    model_rank_t  *r;

    r = take_rank(fuzz);
    owner = sel_index_owner(fuzz->index, r->partition, r->worker, r->rank);

    if (r->alive) {
        FUZZ_CHECK(owner == r->owner, "a known owner got another number");
        return;
    }

    FUZZ_CHECK(owner != SEL_INDEX_NO_OWNER || fuzz->failing != 0,
               "no owner could be made");

    if (owner != SEL_INDEX_NO_OWNER) {
        FUZZ_CHECK(model_owner(&model, owner) == NULL,
                   "a number was given to two owners");
        model_empty(r);
        r->alive = true;
        r->owner = owner;
    }
}


static void
fuzz_retire(fuzz_t *fuzz)
{
    model_rank_t  *r;

    r = take_rank(fuzz);

    if (r->alive) {
        sel_index_retire(fuzz->index, r->owner);
        r->alive = false;
    }
}


static void
fuzz_sweep(fuzz_t *fuzz)
{
    (void) sel_index_sweep(fuzz->index, 1 + take(fuzz) % 16);
}


static void
fuzz_look(fuzz_t *fuzz)
{
    uint32_t       i, tier;
    model_rank_t  *r;

    must_be_sound(fuzz);

    for (i = 0; i < FUZZ_RANKS && fuzz->failing == 0; i++) {
        r = &model.ranks[i];

        for (tier = 0; tier < SEL_TIERS && r->alive; tier++) {
            FUZZ_CHECK(sel_index_owner_blocks(fuzz->index, r->owner,
                                              (sel_tier_t) tier)
                       == model_blocks(r, tier), "blocks are miscounted");
        }
    }
}


static void
fuzz_begin(fuzz_t *fuzz)
{
    uint32_t  i;

    allocations = 0;
    fuzz->failing = take(fuzz) % 32;
    failing = fuzz->failing;

    for (i = 0; i < FUZZ_RANKS; i++) {
        model.ranks[i].alive = false;
        model.ranks[i].partition = i / 2 % 2;
        model.ranks[i].worker = i / 4;
        model.ranks[i].rank = i % 2;
    }

    fuzz->index = sel_index_create(0, 7);
    FUZZ_CHECK(fuzz->index != NULL, "no index could be made");

    /* all are there from the start: most of what there is to do needs them */
    for (i = 0; i < FUZZ_RANKS; i++) {
        model.ranks[i].owner = sel_index_owner(fuzz->index,
                                               model.ranks[i].partition,
                                               model.ranks[i].worker,
                                               model.ranks[i].rank);
        model.ranks[i].alive = true;
        model_empty(&model.ranks[i]);
    }

    if (failing != 0) {
        sel_memory_hook = fuzz_hook;
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_t             fuzz;
    uint32_t           turns;
    sel_index_stats_t  stats;

    memset(&fuzz, 0, sizeof(fuzz));
    fuzz.pos = data;
    fuzz.end = data + size;
    fuzz_begin(&fuzz);

    while (fuzz.pos < fuzz.end) {
        operations[take(&fuzz) % sel_countof(operations)](&fuzz);
    }

    fuzz_look(&fuzz);

    for (turns = 0; turns < FUZZ_RANKS; turns++) {
        if (model.ranks[turns].alive) {
            sel_index_retire(fuzz.index, model.ranks[turns].owner);
        }
    }

    for (turns = 0; !sel_index_sweep(fuzz.index, 3); turns++) {
        FUZZ_CHECK(turns < 100000, "the sweep does not end");
    }

    sel_memory_hook = NULL;
    sel_index_stats(fuzz.index, &stats);
    FUZZ_CHECK(stats.nodes == 0 && stats.owners == 0, "something is left");
    must_be_sound(&fuzz);
    sel_index_destroy(fuzz.index);

    return 0;
}
