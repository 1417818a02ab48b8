/*
 * From the prompt members of a request to the hashes that are looked up and
 * those by which load is tracked.
 */

#ifndef SEL_PROMPT_H
#define SEL_PROMPT_H

#include "core/sel_random.h"
#include "service/sel_fault.h"
#include "service/sel_request.h"
#include "service/sel_view.h"


/* Whose rules apply. */
typedef enum {
    SEL_PROMPT_FOR_LOOKUP = 0,  /* /overlap_scores, /potential_loads */
    SEL_PROMPT_FOR_SELECT,      /* refuses an empty prompt */
    SEL_PROMPT_FOR_BOOKING,     /* needs no block hashes */
    SEL_PROMPT_FOR_NOTHING      /* there is none: load alone counts */
} sel_prompt_use_t;


typedef struct {
    uint64_t         isl_tokens;
    uint32_t         n_sequence;
    uint32_t         n_blocks;
    const uint64_t  *sequence;      /* tracking hashes */
    const uint64_t  *blocks;        /* public block hashes; for a booking n 0
                                       where none were given */
} sel_prompt_t;


/* Does a body have its prompt as tokens? */
static inline bool
sel_prompt_has_tokens(const sel_select_body_t *body)
{
    return body->prompt.routing_token_ids.n != 0
           || sel_body_has(body, SEL_PROMPT_TOKEN_IDS);
}

/*
 * Normalises a prompt: tokens where there are any, else the hashes as given.
 * random: tracking hashes of token prompts are random numbers, since nothing
 * is said to be reused; NULL: they are the public sequence hashes.
 */
bool sel_prompt_read(const sel_view_partition_t *partition,
    sel_arena_t *arena, const sel_select_body_t *body, sel_prompt_use_t use,
    sel_random_t *random, sel_prompt_t *prompt, sel_fault_t *fault);


#endif /* SEL_PROMPT_H */
