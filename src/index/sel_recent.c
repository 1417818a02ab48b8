/*
 * All prompts live equally long, so what was stored first is due first: they
 * stand in a queue.  A block may be in several of them; a table counts in how
 * many, by owner and hash, and with the last one the block goes.  So storing
 * again puts a block off without touching what is queued.
 *
 * An owner that is retired leaves its prompts in the queue.  They only count
 * down when their time comes, whoever has the number then.
 */

#include "core/sel_hash.h"
#include "core/sel_random.h"
#include "index/sel_mix.h"
#include "index/sel_recent.h"
#include "index/sel_table.h"


#define SEL_RECENT_GRAIN  100000000ull      /* of times, nanoseconds */
#define SEL_RECENT_BATCH  64                /* removed together */


typedef struct sel_recent_prompt_s  sel_recent_prompt_t;

struct sel_recent_prompt_s {
    sel_recent_prompt_t  *next;
    uint64_t              until;
    size_t                size;         /* of this block of memory */
    uint64_t              worker_id;
    uint32_t              partition;
    uint32_t              dp_rank;
    uint32_t              n;            /* blocks that are still to go */
    uint16_t              owner;
    uint64_t              external[];
};


struct sel_recent_s {
    sel_index_t          *index;
    sel_memory_t          memory;
    sel_mix_t             mix;
    sel_table_t           counts;       /* (owner, external hash) -> prompts */
    sel_recent_prompt_t  *first;
    sel_recent_prompt_t  *last;
};


static bool sel_recent_count(sel_recent_t *recent,
    const sel_recent_prompt_t *prompt, uint32_t i);
static uint32_t sel_recent_forget(sel_recent_t *recent,
    sel_recent_prompt_t *prompt, uint32_t budget);
static bool sel_recent_owned(const sel_recent_t *recent,
    const sel_recent_prompt_t *prompt);
static uint64_t sel_recent_key(const sel_recent_t *recent, uint16_t owner,
    uint64_t external);


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

    sel_table_init(&recent->counts, SEL_TABLE_NARROW);

    return recent;
}


void
sel_recent_destroy(sel_recent_t *recent)
{
    sel_memory_t          memory;
    sel_recent_prompt_t  *prompt;

    if (recent == NULL) {
        return;
    }

    while (recent->first != NULL) {
        prompt = recent->first;
        recent->first = prompt->next;
        sel_memory_free(&recent->memory, prompt, prompt->size);
    }

    sel_table_reset(&recent->counts, &recent->memory);

    memory = recent->memory;
    sel_memory_free(&memory, recent, sizeof(*recent));
}


sel_index_result_t
sel_recent_store(sel_recent_t *recent, uint16_t owner, const uint64_t *blocks,
    uint32_t n, uint64_t until)
{
    size_t                size;
    uint32_t              i, dp_rank, partition;
    uint64_t              worker_id;
    sel_index_change_t    change;
    sel_index_result_t    rc;
    sel_recent_prompt_t  *prompt;

    if (!sel_index_owner_key(recent->index, owner, &partition, &worker_id,
                             &dp_rank))
    {
        return SEL_INDEX_NO_SUCH_OWNER;
    }

    size = sizeof(*prompt) + n * sizeof(uint64_t);
    prompt = n != 0 ? sel_memory_resize(&recent->memory, NULL, 0, size) : NULL;

    if (prompt == NULL) {
        return n != 0 ? SEL_INDEX_FULL : SEL_INDEX_OK;
    }

    prompt->size = size;
    prompt->owner = owner;
    prompt->partition = partition;
    prompt->worker_id = worker_id;
    prompt->dp_rank = dp_rank;
    prompt->until = until + SEL_RECENT_GRAIN - 1;
    prompt->until -= prompt->until % SEL_RECENT_GRAIN;

    sel_hash_chain(blocks, n, SEL_HASH_SEED, prompt->external);

    for (i = 0; i < n && sel_recent_count(recent, prompt, i); i++) {
        prompt->n++;
    }

    if (recent->first == NULL) {
        recent->first = prompt;

    } else {
        recent->last->next = prompt;
    }

    recent->last = prompt;

    change = (sel_index_change_t) {
        .kind = SEL_INDEX_STORED, .tier = SEL_TIER_DEVICE, .owner = owner,
        .n = prompt->n, .external = prompt->external, .block = blocks
    };

    rc = sel_index_apply(recent->index, &change);

    return prompt->n == n ? rc : SEL_INDEX_FULL;
}


static bool
sel_recent_count(sel_recent_t *recent, const sel_recent_prompt_t *prompt,
    uint32_t i)
{
    uint64_t     key;
    sel_slot_t  *slot;

    key = sel_recent_key(recent, prompt->owner, prompt->external[i]);
    slot = sel_table_find(&recent->counts, key, SEL_TABLE_NARROW);

    if (slot == NULL) {

        if (!sel_table_reserve(&recent->counts, &recent->memory)) {
            return false;
        }

        slot = sel_table_insert(&recent->counts, key);
    }

    slot->value++;

    return true;
}


bool
sel_recent_expire(sel_recent_t *recent, uint64_t now, uint32_t budget)
{
    sel_recent_prompt_t  *prompt;

    while ((prompt = recent->first) != NULL && prompt->until <= now) {

        if (budget == 0) {
            return false;
        }

        budget -= sel_recent_forget(recent, prompt, budget);

        if (prompt->n == 0) {
            recent->first = prompt->next;
            sel_memory_free(&recent->memory, prompt, prompt->size);
        }
    }

    (void) sel_table_settle(&recent->counts, &recent->memory, SEL_TABLE_STEP);

    return true;
}


/* From the end of the prompt on: what remains of it is of use. */

static uint32_t
sel_recent_forget(sel_recent_t *recent, sel_recent_prompt_t *prompt,
    uint32_t budget)
{
    uint32_t             i, n;
    uint64_t             external, gone[SEL_RECENT_BATCH];
    sel_slot_t          *slot;
    sel_index_change_t   change;

    n = 0;

    for (i = 0;
         i < budget && i < SEL_RECENT_BATCH && prompt->n != 0;
         i++)
    {
        external = prompt->external[--prompt->n];
        slot = sel_table_find(&recent->counts,
                              sel_recent_key(recent, prompt->owner, external),
                              SEL_TABLE_NARROW);

        if (--slot->value == 0) {
            sel_table_delete(&recent->counts, slot);
            gone[n++] = external;
        }
    }

    if (!sel_recent_owned(recent, prompt)) {
        return i;
    }

    change = (sel_index_change_t) {
        .kind = SEL_INDEX_REMOVED, .tier = SEL_TIER_DEVICE,
        .owner = prompt->owner, .n = n, .external = gone
    };

    (void) sel_index_apply(recent->index, &change);

    return i;
}


/* Has the owner's number still the same rank? */

static bool
sel_recent_owned(const sel_recent_t *recent,
    const sel_recent_prompt_t *prompt)
{
    uint32_t  dp_rank, partition;
    uint64_t  worker_id;

    return sel_index_owner_key(recent->index, prompt->owner, &partition,
                               &worker_id, &dp_rank)
           && partition == prompt->partition
           && worker_id == prompt->worker_id && dp_rank == prompt->dp_rank;
}


static uint64_t
sel_recent_key(const sel_recent_t *recent, uint16_t owner, uint64_t external)
{
    return sel_mix(&recent->mix, sel_mix(&recent->mix, owner) ^ external);
}


uint64_t
sel_recent_bytes(const sel_recent_t *recent)
{
    return recent->memory.used;
}
