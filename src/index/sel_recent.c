/*
 * A table has, for each block that an owner is believed to hold, the tick in
 * which that ends.  Each such block stands once in a wheel of ticks, in the
 * one that was its end when it got there.  Storing again only writes a later
 * end in the table; when the wheel comes to the block, it is put where its end
 * is now, or removed.  So a prompt that is booked again and again costs a look
 * at the table for each block, and no memory.
 *
 * Ends beyond the wheel wait in its last tick and are looked at again then.
 * Owners have a life: what was believed of an earlier one only leaves the
 * table when its time comes, whoever has the number then.
 */

#include "core/sel_hash.h"
#include "core/sel_random.h"
#include "index/sel_recent_impl.h"


/* A prompt on its way in, a batch at a time. */
typedef struct {
    uint16_t              owner;
    uint32_t              life;
    uint32_t              end;          /* tick */
    bool                  begun;        /* there is a batch before */
    uint64_t              before;       /* its last external hash */
    uint64_t              external[SEL_RECENT_BATCH];
    uint64_t              keys[SEL_RECENT_BATCH];
} sel_recent_run_t;


static bool sel_recent_owners(sel_recent_t *recent, uint16_t owner);
static sel_index_result_t sel_recent_batch(sel_recent_t *recent,
    sel_recent_run_t *run, const uint64_t *blocks, uint32_t n);
static bool sel_recent_renew(sel_recent_t *recent, uint64_t key,
    uint32_t end);
static sel_index_result_t sel_recent_add(sel_recent_t *recent,
    const sel_recent_run_t *run, const uint64_t *blocks, uint32_t from,
    uint32_t to);


sel_recent_t *
sel_recent_create(sel_index_t *index, size_t max_bytes, uint64_t seed)
{
    sel_memory_t   memory;
    sel_random_t   random;
    sel_recent_t  *recent;

    memory = (sel_memory_t) { 0, max_bytes == 0 ? SIZE_MAX : max_bytes,
                              false };

    recent = sel_memory_resize(&memory, NULL, 0, sizeof(*recent));

    if (recent == NULL) {
        return NULL;
    }

    sel_random_seed_with(&random, seed);

    recent->index = index;
    recent->memory = memory;
    recent->mix.flip[0] = sel_random_u64(&random);
    recent->mix.flip[1] = sel_random_u64(&random);
    recent->mix.times[0] = sel_random_u64(&random) | 1;
    recent->mix.times[1] = sel_random_u64(&random) | 1;

    sel_table_init(&recent->ends, SEL_TABLE_NARROW);

    return recent;
}


void
sel_recent_destroy(sel_recent_t *recent)
{
    uint32_t             i;
    sel_memory_t         memory;
    sel_recent_chunk_t  *chunk;

    if (recent == NULL) {
        return;
    }

    for (i = 0; i < SEL_RECENT_TICKS; i++) {
        while ((chunk = recent->wheel[i]) != NULL) {
            recent->wheel[i] = chunk->next;
            sel_memory_free(&recent->memory, chunk, sizeof(*chunk));
        }
    }

    sel_table_reset(&recent->ends, &recent->memory);
    sel_memory_free(&recent->memory, recent->owners,
                    recent->n_owners * sizeof(*recent->owners));

    memory = recent->memory;
    sel_memory_free(&memory, recent, sizeof(*recent));
}


sel_index_result_t
sel_recent_store(sel_recent_t *recent, uint16_t owner, const uint64_t *blocks,
    uint32_t n, uint64_t until)
{
    uint32_t            from, size;
    sel_recent_run_t    run;
    sel_index_result_t  rc;

    if (sel_index_owner_life(recent->index, owner) == 0) {
        return SEL_INDEX_NO_SUCH_OWNER;
    }

    if (n == 0) {
        return SEL_INDEX_OK;
    }

    if (!sel_recent_owners(recent, owner)) {
        return SEL_INDEX_FULL;
    }

    run.owner = owner;
    run.life = sel_recent_owner(recent, owner)->life;
    run.end = (uint32_t) ((until + SEL_RECENT_GRAIN - 1) / SEL_RECENT_GRAIN);
    run.begun = false;

    for (from = 0; from < n; from += size) {
        size = n - from < SEL_RECENT_BATCH ? n - from : SEL_RECENT_BATCH;
        rc = sel_recent_batch(recent, &run, blocks + from, size);

        if (rc != SEL_INDEX_OK) {
            return rc;
        }

        run.begun = true;
        run.before = run.external[size - 1];
    }

    return SEL_INDEX_OK;
}


/* Makes sure that there is a place for an owner. */

static bool
sel_recent_owners(sel_recent_t *recent, uint16_t owner)
{
    void      *p;
    uint32_t   n;

    if (owner < recent->n_owners) {
        return true;
    }

    n = recent->n_owners == 0 ? 16 : recent->n_owners;

    while (n <= owner) {
        n *= 2;
    }

    p = sel_memory_resize(&recent->memory, recent->owners,
                          recent->n_owners * sizeof(*recent->owners),
                          n * sizeof(*recent->owners));
    if (p == NULL) {
        return false;
    }

    recent->owners = p;
    recent->n_owners = n;

    return true;
}


/* Renews what is known of a batch and stores each run of what is not. */

static sel_index_result_t
sel_recent_batch(sel_recent_t *recent, sel_recent_run_t *run,
    const uint64_t *blocks, uint32_t n)
{
    uint32_t             i, from;
    uint64_t             external;
    sel_index_result_t   rc;
    sel_recent_block_t   block;

    block = (sel_recent_block_t) { .owner = run->owner, .life = run->life };
    external = run->before;

    for (i = 0; i < n; i++) {
        external = i == 0 && !run->begun
                   ? blocks[0]
                   : sel_hash_chain_next(external, blocks[i], SEL_HASH_SEED);

        block.external = external;
        run->external[i] = external;
        run->keys[i] = sel_recent_key(recent, &block);
        sel_table_prefetch(&recent->ends, run->keys[i], SEL_TABLE_NARROW, 2);
    }

    for (i = 0, from = 0; i < n; i++) {

        if (!sel_recent_renew(recent, run->keys[i], run->end)) {
            continue;
        }

        rc = sel_recent_add(recent, run, blocks, from, i);

        if (rc != SEL_INDEX_OK) {
            return rc;
        }

        from = i + 1;
    }

    return sel_recent_add(recent, run, blocks, from, n);
}


static bool
sel_recent_renew(sel_recent_t *recent, uint64_t key, uint32_t end)
{
    sel_slot_t  *slot;

    slot = sel_table_find(&recent->ends, key, SEL_TABLE_NARROW);

    if (slot == NULL) {
        return false;
    }

    if (slot->value < end) {
        slot->value = end;
    }

    return true;
}


/* Blocks from .. to - 1 of a batch are new. */

static sel_index_result_t
sel_recent_add(sel_recent_t *recent, const sel_recent_run_t *run,
    const uint64_t *blocks, uint32_t from, uint32_t to)
{
    uint32_t             i;
    sel_index_change_t   change;
    sel_recent_block_t   block;

    if (from == to) {
        return SEL_INDEX_OK;
    }

    block = (sel_recent_block_t) { .owner = run->owner, .life = run->life };

    change = (sel_index_change_t) {
        .kind = SEL_INDEX_STORED, .tier = SEL_TIER_DEVICE,
        .owner = run->owner, .has_parent = from != 0 || run->begun,
        .parent = from != 0 ? run->external[from - 1] : run->before,
        .n = to - from, .external = run->external + from,
        .block = blocks + from
    };

    i = from;

    if (sel_index_apply(recent->index, &change) == SEL_INDEX_OK) {

        for ( /* void */ ; i < to; i++) {
            block.external = run->external[i];

            if (!sel_recent_put(recent, &block, run->end)) {
                break;
            }
        }
    }

    if (i == to) {
        return SEL_INDEX_OK;
    }

    /* what nobody would forget is not to be there */

    sel_recent_remove(recent, &block, run->external + i, to - i);

    return SEL_INDEX_FULL;
}


uint64_t
sel_recent_bytes(const sel_recent_t *recent)
{
    return recent->memory.used;
}
