/*
 * From a stored event to an index change: its namespace, the blocks that its
 * tokens suffice for, and their hashes.
 */

#include "kv_events/sel_kv_run.h"


#define SEL_KV_FEW  8           /* hashes that are compared pairwise */


typedef enum {
    SEL_KV_REPEATED_NO,
    SEL_KV_REPEATED_YES,
    SEL_KV_REPEATED_NO_MEMORY
} sel_kv_repeated_t;


static bool sel_kv_store_salt(sel_kv_run_t *run, const sel_kv_event_t *event,
    sel_tier_t tier, uint64_t *salt);
static sel_kv_repeated_t sel_kv_store_repeats(sel_kv_run_t *run,
    const sel_kv_event_t *event);
static sel_kv_repeated_t sel_kv_store_repeats_many(sel_kv_run_t *run,
    const sel_kv_event_t *event);
static bool sel_kv_store_place(uint32_t *table, size_t mask, uint64_t seed,
    const uint64_t *hashes, uint32_t i);
static uint32_t sel_kv_store_count(sel_kv_run_t *run,
    const sel_kv_event_t *event);
static void sel_kv_store_blocks(sel_kv_run_t *run, const sel_kv_event_t *event,
    sel_tier_t tier, uint32_t n, uint64_t salt);


void
sel_kv_run_store(sel_kv_run_t *run, const sel_kv_event_t *event,
    sel_tier_t tier)
{
    uint32_t           n;
    uint64_t           salt;
    sel_kv_repeated_t  repeated;

    if (!sel_kv_store_salt(run, event, tier, &salt)) {
        run->counts[SEL_KV_AMBIGUOUS]++;
        return;
    }

    repeated = sel_kv_store_repeats(run, event);

    if (repeated == SEL_KV_REPEATED_YES) {
        run->counts[SEL_KV_REPEATED]++;
        return;
    }

    if (repeated == SEL_KV_REPEATED_NO_MEMORY) {
        run->counts[SEL_KV_MEMORY]++;
        return;
    }

    n = sel_kv_store_count(run, event);

    if (n != 0) {
        sel_kv_store_blocks(run, event, tier, n, salt);
    }
}


/*
 * The namespace's share of the block seed, from the event or its parent.
 * False when the parent's is ambiguous.
 */
static bool
sel_kv_store_salt(sel_kv_run_t *run, const sel_kv_event_t *event,
    sel_tier_t tier, uint64_t *salt)
{
    *salt = sel_hash_block_seed(sel_str(""), event->cache_namespace)
            - SEL_HASH_SEED;

    if (*salt != 0 || !event->has_parent || tier > SEL_TIER_HOST_PINNED) {
        return true;
    }

    return sel_kv_salts_find(&run->feed->salts, run->rank, event->parent,
                             salt) != SEL_KV_SALT_AMBIGUOUS;
}


/* Does a hash occur twice among the parent's and the blocks'? */
static sel_kv_repeated_t
sel_kv_store_repeats(sel_kv_run_t *run, const sel_kv_event_t *event)
{
    uint32_t         i, k;
    const uint64_t  *hashes;

    if (event->hashes.n > SEL_KV_FEW) {
        return sel_kv_store_repeats_many(run, event);
    }

    hashes = event->hashes.data;

    for (i = 0; i < event->hashes.n; i++) {
        if (event->has_parent && hashes[i] == event->parent) {
            return SEL_KV_REPEATED_YES;
        }

        for (k = 0; k < i; k++) {
            if (hashes[k] == hashes[i]) {
                return SEL_KV_REPEATED_YES;
            }
        }
    }

    return SEL_KV_REPEATED_NO;
}


/* The same with a table of places in the list; 0 is a free slot. */
static sel_kv_repeated_t
sel_kv_store_repeats_many(sel_kv_run_t *run, const sel_kv_event_t *event)
{
    size_t     cap;
    uint32_t   i, *table;

    cap = 4 * SEL_KV_FEW;

    while (cap < 2 * (size_t) event->hashes.n) {
        cap *= 2;
    }

    table = sel_arena_zalloc(&run->feed->arena, cap * sizeof(uint32_t));

    if (table == NULL) {
        return SEL_KV_REPEATED_NO_MEMORY;
    }

    for (i = 0; i < event->hashes.n; i++) {
        if ((event->has_parent && event->hashes.data[i] == event->parent)
            || !sel_kv_store_place(table, cap - 1, run->feed->seed,
                                   event->hashes.data, i))
        {
            return SEL_KV_REPEATED_YES;
        }
    }

    return SEL_KV_REPEATED_NO;
}


static bool
sel_kv_store_place(uint32_t *table, size_t mask, uint64_t seed,
    const uint64_t *hashes, uint32_t i)
{
    size_t  at;

    at = sel_kv_mix(hashes[i], seed) & mask;

    while (table[at] != 0) {
        if (hashes[table[at] - 1] == hashes[i]) {
            return false;
        }

        at = (at + 1) & mask;
    }

    table[at] = i + 1;

    return true;
}


/*
 * How many of the event's blocks can be hashed: its first ones, as far as the
 * tokens reach.
 */
static uint32_t
sel_kv_store_count(sel_kv_run_t *run, const sel_kv_event_t *event)
{
    uint32_t  n;

    if (event->hashes.n == 0) {
        return 0;
    }

    if (event->tokens.n == 0 && event->block_size == 0) {

        /* a placeholder: engines announce offloaded blocks without content */

        return 0;
    }

    if (event->block_size != run->feed->block_size) {
        run->counts[SEL_KV_BLOCK_SIZE]++;
        return 0;
    }

    n = sel_hash_block_count(event->tokens.n, run->feed->block_size,
                             event->eagle);

    if (n >= event->hashes.n) {
        return event->hashes.n;
    }

    run->counts[SEL_KV_TOKENS]++;

    return n;
}


static void
sel_kv_store_blocks(sel_kv_run_t *run, const sel_kv_event_t *event,
    sel_tier_t tier, uint32_t n, uint64_t salt)
{
    uint64_t            *blocks, seed;
    uint32_t             tokens;
    sel_kv_feed_t       *feed;
    sel_index_change_t   change;

    feed = run->feed;
    blocks = sel_arena_alloc(&feed->arena, n * sizeof(uint64_t));

    if (blocks == NULL
        || (tier <= SEL_TIER_HOST_PINNED
            && !sel_kv_salts_store(&feed->salts, run->rank, tier,
                                   event->hashes.data, n, salt)))
    {
        run->counts[SEL_KV_MEMORY]++;
        return;
    }

    seed = sel_hash_block_seed(event->lora_name, sel_str("")) + salt;
    tokens = n * feed->block_size + (event->eagle ? 1 : 0);

    (void) sel_hash_blocks(event->tokens.data, tokens, feed->block_size,
                           event->eagle, seed, event->mm, event->mm_n,
                           blocks);

    change = (sel_index_change_t) {
        .kind = SEL_INDEX_STORED,
        .tier = tier,
        .owner = SEL_INDEX_NO_OWNER,
        .has_parent = event->has_parent,
        .parent = event->parent,
        .n = n,
        .external = event->hashes.data,
        .block = blocks
    };

    sel_kv_run_apply(run, &change);
}
