#include "core/sel_hash.h"
#include "service/sel_prompt.h"


static bool sel_prompt_tokens(const sel_view_partition_t *partition,
    sel_arena_t *arena, const sel_select_body_t *body, sel_random_t *random,
    sel_prompt_t *prompt, sel_fault_t *fault);
static void sel_prompt_sequence(sel_random_t *random, const uint64_t *blocks,
    uint32_t n, uint64_t *sequence);
static bool sel_prompt_hashes(sel_arena_t *arena,
    const sel_select_body_t *body, sel_prompt_use_t use, sel_prompt_t *prompt,
    sel_fault_t *fault);
static bool sel_prompt_missing(sel_arena_t *arena, const char *member,
    sel_fault_t *fault);


bool
sel_prompt_read(const sel_view_partition_t *partition, sel_arena_t *arena,
    const sel_select_body_t *body, sel_prompt_use_t use, sel_random_t *random,
    sel_prompt_t *prompt, sel_fault_t *fault)
{
    const sel_prompt_body_t  *p;

    p = &body->prompt;

    if (use == SEL_PROMPT_FOR_NOTHING) {
        *prompt = (sel_prompt_t) { 1, 0, 0, NULL, NULL };
        return true;
    }

    if (!sel_prompt_has_tokens(body)) {
        return sel_prompt_hashes(arena, body, use, prompt, fault);
    }

    if (use == SEL_PROMPT_FOR_SELECT
        && p->routing_token_ids.n == 0 && p->token_ids.n == 0)
    {
        return sel_fault(fault, arena, SEL_FAULT_BAD_REQUEST,
                         "isl_tokens must be greater than 0");
    }

    return sel_prompt_tokens(partition, arena, body, random, prompt, fault);
}


static bool
sel_prompt_tokens(const sel_view_partition_t *partition, sel_arena_t *arena,
    const sel_select_body_t *body, sel_random_t *random, sel_prompt_t *prompt,
    sel_fault_t *fault)
{
    bool                   routing, eagle;
    uint32_t               n;
    uint64_t               seed, *hashes;
    const sel_mm_list_t   *mm;
    const sel_u32_list_t  *tokens;

    routing = body->prompt.routing_token_ids.n != 0;
    tokens = routing ? &body->prompt.routing_token_ids
                     : &body->prompt.token_ids;
    mm = routing ? &body->prompt.routing_mm_infos
                 : &body->prompt.block_mm_infos;

    eagle = sel_body_has(body, SEL_PROMPT_IS_EAGLE) ? body->prompt.is_eagle
                                                    : partition->key.is_eagle;

    n = sel_hash_block_count(tokens->n, partition->key.block_size, eagle);
    hashes = sel_arena_alloc(arena, 2 * n * sizeof(uint64_t));

    if (hashes == NULL) {
        return sel_fault_memory(fault);
    }

    seed = sel_hash_block_seed(body->prompt.lora_name,
                               body->prompt.cache_salt);

    (void) sel_hash_blocks(tokens->data, tokens->n, partition->key.block_size,
                           eagle, seed, mm->blocks, mm->n, hashes);

    sel_prompt_sequence(random, hashes, n, hashes + n);

    *prompt = (sel_prompt_t) { tokens->n, n, n, hashes + n, hashes };

    return true;
}


static void
sel_prompt_sequence(sel_random_t *random, const uint64_t *blocks, uint32_t n,
    uint64_t *sequence)
{
    uint32_t  i;

    if (random == NULL) {
        sel_hash_chain(blocks, n, SEL_HASH_SEED, sequence);
        return;
    }

    for (i = 0; i < n; i++) {
        sequence[i] = sel_random_u64(random);
    }
}


static bool
sel_prompt_hashes(sel_arena_t *arena, const sel_select_body_t *body,
    sel_prompt_use_t use, sel_prompt_t *prompt, sel_fault_t *fault)
{
    const sel_prompt_body_t  *p;

    p = &body->prompt;

    if (use != SEL_PROMPT_FOR_BOOKING
        && !sel_body_has(body, SEL_PROMPT_BLOCK_HASHES))
    {
        return sel_prompt_missing(arena, "block_hashes", fault);
    }

    if (!sel_body_has(body, SEL_PROMPT_SEQUENCE_HASHES)) {
        return sel_prompt_missing(arena, "sequence_hashes", fault);
    }

    if (!sel_body_has(body, SEL_PROMPT_ISL_TOKENS)) {
        return sel_prompt_missing(arena, "isl_tokens", fault);
    }

    if (use != SEL_PROMPT_FOR_BOOKING) {

        if (p->isl_tokens == 0) {
            return sel_fault(fault, arena, SEL_FAULT_BAD_REQUEST,
                             "isl_tokens must be greater than 0");
        }

        if (p->block_hashes.n != p->sequence_hashes.n) {
            return sel_fault(fault, arena, SEL_FAULT_BAD_REQUEST,
                             "block_hashes length %u must match "
                             "sequence_hashes length %u", p->block_hashes.n,
                             p->sequence_hashes.n);
        }
    }

    *prompt = (sel_prompt_t) {
        p->isl_tokens, p->sequence_hashes.n, p->block_hashes.n,
        p->sequence_hashes.data, p->block_hashes.data
    };

    return true;
}


static bool
sel_prompt_missing(sel_arena_t *arena, const char *member, sel_fault_t *fault)
{
    return sel_fault(fault, arena, SEL_FAULT_BAD_REQUEST,
                     "%s is required without token_ids", member);
}
