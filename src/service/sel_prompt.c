#include "core/sel_hash.h"
#include "service/sel_prompt.h"


static bool sel_prompt_tokens(const sel_view_partition_t *partition,
    sel_arena_t *arena, const sel_select_body_t *body,
    const sel_u32_list_t *tokens, const sel_mm_list_t *mm,
    sel_prompt_t *prompt, sel_fault_t *fault);
static bool sel_prompt_hashes(sel_arena_t *arena,
    const sel_select_body_t *body, sel_prompt_t *prompt, sel_fault_t *fault);


bool
sel_prompt_read(const sel_view_partition_t *partition, sel_arena_t *arena,
    const sel_select_body_t *body, bool select, sel_prompt_t *prompt,
    sel_fault_t *fault)
{
    const sel_prompt_body_t  *p;

    p = &body->prompt;

    if (p->routing_token_ids.n != 0) {
        return sel_prompt_tokens(partition, arena, body, &p->routing_token_ids,
                                 &p->routing_mm_infos, prompt, fault);
    }

    if (!sel_body_has(body, SEL_PROMPT_TOKEN_IDS)) {
        return sel_prompt_hashes(arena, body, prompt, fault);
    }

    if (select && p->token_ids.n == 0) {
        return sel_fault(fault, arena, SEL_FAULT_BAD_REQUEST,
                         "isl_tokens must be greater than 0");
    }

    return sel_prompt_tokens(partition, arena, body, &p->token_ids,
                             &p->block_mm_infos, prompt, fault);
}


static bool
sel_prompt_tokens(const sel_view_partition_t *partition, sel_arena_t *arena,
    const sel_select_body_t *body, const sel_u32_list_t *tokens,
    const sel_mm_list_t *mm, sel_prompt_t *prompt, sel_fault_t *fault)
{
    bool       eagle;
    uint32_t   n;
    uint64_t   seed, *blocks;

    eagle = sel_body_has(body, SEL_PROMPT_IS_EAGLE) ? body->prompt.is_eagle
                                                    : partition->key.is_eagle;

    n = sel_hash_block_count(tokens->n, partition->key.block_size, eagle);
    blocks = sel_arena_alloc(arena, n * sizeof(uint64_t));

    if (blocks == NULL) {
        return sel_fault_memory(fault);
    }

    seed = sel_hash_block_seed(body->prompt.lora_name,
                               body->prompt.cache_salt);

    (void) sel_hash_blocks(tokens->data, tokens->n, partition->key.block_size,
                           eagle, seed, mm->blocks, mm->n, blocks);

    *prompt = (sel_prompt_t) { tokens->n, n, n, blocks };

    return true;
}


static bool
sel_prompt_hashes(sel_arena_t *arena, const sel_select_body_t *body,
    sel_prompt_t *prompt, sel_fault_t *fault)
{
    const sel_prompt_body_t  *p;

    p = &body->prompt;

    if (!sel_body_has(body, SEL_PROMPT_BLOCK_HASHES)) {
        return sel_fault(fault, arena, SEL_FAULT_BAD_REQUEST,
                         "block_hashes is required without token_ids");
    }

    if (!sel_body_has(body, SEL_PROMPT_SEQUENCE_HASHES)) {
        return sel_fault(fault, arena, SEL_FAULT_BAD_REQUEST,
                         "sequence_hashes is required without token_ids");
    }

    if (!sel_body_has(body, SEL_PROMPT_ISL_TOKENS)) {
        return sel_fault(fault, arena, SEL_FAULT_BAD_REQUEST,
                         "isl_tokens is required without token_ids");
    }

    if (p->isl_tokens == 0) {
        return sel_fault(fault, arena, SEL_FAULT_BAD_REQUEST,
                         "isl_tokens must be greater than 0");
    }

    if (p->block_hashes.n != p->sequence_hashes.n) {
        return sel_fault(fault, arena, SEL_FAULT_BAD_REQUEST,
                         "block_hashes length %u must match sequence_hashes "
                         "length %u", p->block_hashes.n,
                         p->sequence_hashes.n);
    }

    *prompt = (sel_prompt_t) {
        p->isl_tokens, p->sequence_hashes.n, p->block_hashes.n,
        p->block_hashes.data
    };

    return true;
}
