/*
 * Lower is better:
 *
 *     cost = scale * max(0, raw - credit) + decode + weight * requests
 *
 * raw holds the whole prompt on top of the rank's prefill backlog, in blocks;
 * credit takes the cached part away again, each tier by its weight.  All in
 * doubles and in this order, so that equal inputs give bit-equal costs.
 */

#include <math.h>
#include "schedule/sel_cost.h"


static uint64_t sel_cost_whole(double value);
static uint64_t sel_cost_sum(uint64_t a, uint64_t b);
static double sel_cost_one(const sel_cost_settings_t *settings,
    const sel_cost_prompt_t *prompt, uint64_t least_prefill,
    const sel_candidate_t *candidate);


uint64_t
sel_cost_cached_tokens(const sel_cost_settings_t *settings,
    uint32_t block_size, const sel_candidate_t *candidate)
{
    double  blocks;

    blocks = 1.0 * candidate->device + settings->host_weight * candidate->host
             + settings->disk_weight * candidate->disk;

    return sel_cost_whole(blocks * block_size);
}


/* Half away from zero; numbers beyond u64 become the largest. */

static uint64_t
sel_cost_whole(double value)
{
    value = round(value);

    return value < 0x1p64 ? (uint64_t) value : UINT64_MAX;
}


static uint64_t
sel_cost_sum(uint64_t a, uint64_t b)
{
    return a + b >= a ? a + b : UINT64_MAX;
}


uint64_t
sel_cost_prefill_tokens(const sel_cost_settings_t *settings,
    const sel_cost_prompt_t *prompt, const sel_candidate_t *candidate)
{
    uint64_t  cached;

    cached = sel_cost_cached_tokens(settings, prompt->block_size, candidate);

    return prompt->isl_tokens - (cached < prompt->isl_tokens
                                 ? cached : prompt->isl_tokens);
}


void
sel_cost(const sel_cost_settings_t *settings, const sel_cost_prompt_t *prompt,
    bool tainted, sel_candidate_t *candidates, uint32_t n)
{
    uint32_t  i;
    uint64_t  least;

    least = n ? candidates[0].prefill_tokens : 0;

    for (i = 1; i < n; i++) {
        if (candidates[i].prefill_tokens < least) {
            least = candidates[i].prefill_tokens;
        }
    }

    for (i = 0; i < n; i++) {
        candidates[i].cost = sel_cost_one(settings, prompt, least,
                                          &candidates[i]);

        if (tainted) {
            candidates[i].cost *= exp(-tanh(candidates[i].preferred_taints));
        }
    }
}


static double
sel_cost_one(const sel_cost_settings_t *settings,
    const sel_cost_prompt_t *prompt, uint64_t least_prefill,
    const sel_candidate_t *candidate)
{
    double    block_size, raw, shrink, credit, cost;
    uint64_t  cached, blocks;

    block_size = prompt->block_size;
    raw = 0;
    shrink = 1;

    if (settings->track_prefill_tokens) {
        cached = sel_cost_cached_tokens(settings, prompt->block_size,
                                        candidate);
        raw = (double) sel_cost_sum(candidate->prefill_tokens,
                                    cached > prompt->isl_tokens
                                    ? cached : prompt->isl_tokens)
              / block_size;

        if (settings->overlap_score_credit_decay != 0) {
            blocks = (prompt->isl_tokens - 1) / prompt->block_size + 1;
            shrink = 1 / (1 + settings->overlap_score_credit_decay
                              * ((double) (candidate->prefill_tokens
                                           - least_prefill) / block_size)
                              / (double) blocks);
        }
    }

    credit = settings->overlap_score_credit * shrink * candidate->device;
    credit += settings->host_weight * candidate->host;
    credit += settings->disk_weight * candidate->disk;

    cost = raw - credit;
    cost = settings->prefill_load_scale * (cost > 0.0 ? cost : 0.0);
    cost += candidate->active_blocks + (double) candidate->new_blocks;
    cost += settings->active_request_weight
            * (double) candidate->active_requests;

    return cost;
}


uint64_t
sel_cost_decode_blocks(const sel_cost_prompt_t *prompt,
    const sel_candidate_t *candidate)
{
    uint64_t  blocks, tail;

    blocks = (prompt->isl_tokens - 1) / prompt->block_size + 1;
    tail = blocks > prompt->tracked_blocks ? blocks - prompt->tracked_blocks
                                           : 0;

    return sel_cost_sum(sel_cost_whole(candidate->active_blocks),
                        sel_cost_sum(candidate->new_blocks, tail));
}
