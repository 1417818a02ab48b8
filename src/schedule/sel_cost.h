/*
 * What a prompt costs on each rank.  Formulas: docs/scheduling.md.
 */

#ifndef SEL_COST_H
#define SEL_COST_H

#include "core/sel_base.h"


/* Settings of the formula; all finite, 0 or more. */
typedef struct {
    double  overlap_score_credit;
    double  overlap_score_credit_decay;
    double  prefill_load_scale;
    double  active_request_weight;
    double  host_weight;            /* 0 .. 1 */
    double  disk_weight;            /* 0 .. 1 */
    double  temperature;
    bool    track_prefill_tokens;
} sel_cost_settings_t;


/* A prompt, as far as cost goes. */
typedef struct {
    uint64_t  isl_tokens;           /* > 0 */
    uint32_t  block_size;           /* tokens, > 0 */
    uint64_t  tracked_blocks;       /* sequence hashes given or derived */
} sel_cost_prompt_t;


/* One rank, with what the index and the books say of it for this prompt. */
typedef struct {
    uint32_t  device;               /* matched blocks on the device */
    uint32_t  host;                 /* further blocks in host memory */
    uint32_t  disk;                 /* further blocks on disk or outside */
    uint64_t  prefill_tokens;       /* being prefilled now */
    double    active_blocks;        /* in use by active requests, a whole
                                       number: the books round it */
    uint64_t  new_blocks;           /* that this prompt would add */
    uint64_t  active_requests;
    double    preferred_taints;     /* sum of the weights that apply */
    double    cost;                 /* out */
} sel_candidate_t;


/*
 * Weighted cached tokens of a candidate: blocks of each tier by its weight
 * (device 1), rounded to whole tokens, half away from zero.
 */
uint64_t sel_cost_cached_tokens(const sel_cost_settings_t *settings,
    uint32_t block_size, const sel_candidate_t *candidate);

/* isl_tokens less the cached tokens, not below 0. */
uint64_t sel_cost_prefill_tokens(const sel_cost_settings_t *settings,
    const sel_cost_prompt_t *prompt, const sel_candidate_t *candidate);

/*
 * Fills in the cost of n candidates, all eligible.  tainted: the request
 * names preferred taints, so each cost is multiplied by
 * exp(-tanh(preferred_taints)).
 */
void sel_cost(const sel_cost_settings_t *settings,
    const sel_cost_prompt_t *prompt, bool tainted,
    sel_candidate_t *candidates, uint32_t n);

/*
 * Blocks on a candidate once this request decodes there: active and new ones
 * and the part of the prompt that no tracked block covers.
 */
uint64_t sel_cost_decode_blocks(const sel_cost_prompt_t *prompt,
    const sel_candidate_t *candidate);


#endif /* SEL_COST_H */
