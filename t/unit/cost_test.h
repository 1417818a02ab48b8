/*
 * What the tests of the cost share: settings and a prompt, and a candidate's
 * numbers under them.  Include after cmocka.h.
 */

#ifndef COST_TEST_H
#define COST_TEST_H

#include <math.h>

#include "schedule/sel_cost.h"


static const sel_cost_settings_t  usual = {
    .overlap_score_credit = 1.0,
    .prefill_load_scale = 1.0,
    .host_weight = 0.75,
    .disk_weight = 0.25,
    .track_prefill_tokens = true
};


static sel_cost_settings_t  settings;
static sel_cost_prompt_t    prompt;


static inline int
setup(void **state)
{
    settings = usual;
    prompt = (sel_cost_prompt_t) { 0, 0, 0 };

    return 0;
}


/* a prompt all of whose whole blocks are tracked */
static inline void
ask(uint64_t isl_tokens, uint32_t block_size)
{
    prompt.isl_tokens = isl_tokens;
    prompt.block_size = block_size;
    prompt.tracked_blocks = isl_tokens / block_size;
}


static inline void
same(double got, double expected)
{
    if (memcmp(&got, &expected, sizeof(double)) != 0) {
        fail_msg("%.17g (%a), expected %.17g (%a)", got, got, expected,
                 expected);
    }
}


/* At run time, by the same library: a compiler's constant may differ. */
static inline double
factor(volatile double sum)
{
    return exp(-tanh(sum));
}


/* The cost of one candidate alone; its other members must stay. */
static inline double
cost_of(sel_candidate_t candidate)
{
    sel_candidate_t  after;

    after = candidate;
    after.cost = -1;
    sel_cost(&settings, &prompt, false, &after, 1);
    candidate.cost = after.cost;
    assert_memory_equal(&candidate, &after, sizeof(candidate));

    return after.cost;
}


static inline uint64_t
cached(sel_candidate_t candidate)
{
    return sel_cost_cached_tokens(&settings, prompt.block_size, &candidate);
}


static inline uint64_t
prefill(sel_candidate_t candidate)
{
    return sel_cost_prefill_tokens(&settings, &prompt, &candidate);
}


static inline uint64_t
decode_blocks(sel_candidate_t candidate)
{
    return sel_cost_decode_blocks(&prompt, &candidate);
}


static const sel_candidate_t  loaded = {
    .device = 20, .prefill_tokens = 3200, .active_blocks = 40,
    .new_blocks = 32
};

static const sel_candidate_t  cold = {
    .prefill_tokens = 640, .active_blocks = 70, .new_blocks = 32
};


#endif /* COST_TEST_H */
