/*
 * From the prompt members of a request to the hashes that are looked up.
 */

#ifndef SEL_PROMPT_H
#define SEL_PROMPT_H

#include "service/sel_fault.h"
#include "service/sel_request.h"
#include "service/sel_view.h"


typedef struct {
    uint64_t         isl_tokens;
    uint64_t         tracked_blocks;    /* sequence hashes */
    uint32_t         n_blocks;
    const uint64_t  *blocks;            /* public block hashes */
} sel_prompt_t;


/*
 * Normalises a prompt: tokens where there are any, else the hashes as given.
 * select: the rules of /select, which refuses an empty prompt.
 */
bool sel_prompt_read(const sel_view_partition_t *partition,
    sel_arena_t *arena, const sel_select_body_t *body, bool select,
    sel_prompt_t *prompt, sel_fault_t *fault);


#endif /* SEL_PROMPT_H */
