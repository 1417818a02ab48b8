/*
 * Costs of random prompts on random ranks, against the formula of
 * docs/scheduling.md computed one candidate at a time in the plainest way,
 * and sizes at the edges of their types.  Without it a shortcut that is right
 * for the worked examples could be wrong elsewhere.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "schedule/sel_cost.h"
#include "sel_rand.h"


#define ROUNDS  40000
#define MAX_N   12


static sel_rand_t  rnd;


static int
setup(void **state)
{
    rnd.state = sel_rand_seed("cost_random");

    return 0;
}


/* 0, 1, a fraction of three binary digits, or any fraction below bound */
static double
some_weight(double bound)
{
    switch (sel_rand_below(&rnd, 5)) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
        return bound * (double) sel_rand_below(&rnd, 9) / 8;
    default:
        return bound * (double) (sel_rand(&rnd) >> 11) / 9007199254740992.0;
    }
}


static void
some_settings(sel_cost_settings_t *s)
{
    s->overlap_score_credit = some_weight(3);
    s->overlap_score_credit_decay = some_weight(8);
    s->prefill_load_scale = some_weight(4);
    s->active_request_weight = some_weight(10);
    s->host_weight = some_weight(1);
    s->disk_weight = some_weight(1);
    s->temperature = 0;
    s->track_prefill_tokens = sel_rand_below(&rnd, 5) != 0;
}


/* a number of up to bits bits, all sizes alike */
static uint64_t
some_size(unsigned bits)
{
    return sel_rand_wide(&rnd) >> (64 - 1 - sel_rand_below(&rnd, bits));
}


static void
some_candidate(sel_candidate_t *c, const sel_cost_prompt_t *prompt)
{
    memset(c, 0, sizeof(*c));

    c->device = (uint32_t) some_size(20);
    c->host = sel_rand(&rnd) & 1 ? (uint32_t) some_size(12) : 0;
    c->disk = sel_rand(&rnd) & 1 ? (uint32_t) some_size(12) : 0;
    c->prefill_tokens = sel_rand_below(&rnd, 3) ? some_size(30) : 0;
    c->active_blocks = (double) some_size(24);
    c->new_blocks = sel_rand(&rnd) & 1 ? prompt->tracked_blocks
                                       : some_size(20);
    c->active_requests = some_size(10);
    c->preferred_taints = (double) (int64_t) sel_rand_below(&rnd, 65) / 16 - 2;
}


static uint64_t
plain_cached(const sel_cost_settings_t *s, uint32_t block_size,
    const sel_candidate_t *c)
{
    double  tokens, whole;

    tokens = 1.0 * c->device + s->host_weight * c->host
             + s->disk_weight * c->disk;
    tokens *= block_size;

    whole = floor(tokens);

    return (uint64_t) whole + (tokens - whole >= 0.5);
}


static double
plain_cost(const sel_cost_settings_t *s, const sel_cost_prompt_t *prompt,
    bool tainted, const sel_candidate_t *all, uint32_t n, uint32_t i)
{
    double                  raw, shrink, credit, rest, cost, bs;
    uint32_t                k;
    uint64_t                cached, least;
    const sel_candidate_t  *c;

    c = &all[i];
    bs = prompt->block_size;
    least = UINT64_MAX;

    for (k = 0; k < n; k++) {
        least = all[k].prefill_tokens < least ? all[k].prefill_tokens : least;
    }

    raw = 0;
    shrink = 1;

    if (s->track_prefill_tokens) {
        cached = plain_cached(s, prompt->block_size, c);
        cached = cached > prompt->isl_tokens ? cached : prompt->isl_tokens;
        raw = (double) (c->prefill_tokens + cached) / bs;

        if (s->overlap_score_credit_decay != 0) {
            shrink = 1 / (1 + s->overlap_score_credit_decay
                              * ((double) (c->prefill_tokens - least) / bs)
                              / (double) ((prompt->isl_tokens
                                           + prompt->block_size - 1)
                                          / prompt->block_size));
        }
    }

    credit = s->overlap_score_credit * shrink * c->device;
    credit = credit + s->host_weight * c->host;
    credit = credit + s->disk_weight * c->disk;

    rest = raw - credit;
    rest = rest > 0 ? rest : 0;

    cost = s->prefill_load_scale * rest;
    cost = cost + (c->active_blocks + (double) c->new_blocks);
    cost = cost + s->active_request_weight * (double) c->active_requests;

    return tainted ? cost * exp(-tanh(c->preferred_taints)) : cost;
}


static void
round_of(unsigned i, sel_cost_settings_t *s, sel_cost_prompt_t *prompt)
{
    bool             tainted;
    double           expected;
    uint32_t         k, n;
    uint64_t         cached, blocks, tail;
    sel_candidate_t  c[MAX_N];

    some_settings(s);
    prompt->block_size = 1 + (uint32_t) some_size(12);
    prompt->isl_tokens = 1 + some_size(28);
    prompt->tracked_blocks = sel_rand(&rnd) & 1 ? some_size(20)
                             : prompt->isl_tokens / prompt->block_size;
    tainted = sel_rand(&rnd) & 1;
    n = 1 + (uint32_t) sel_rand_below(&rnd, MAX_N);

    for (k = 0; k < n; k++) {
        some_candidate(&c[k], prompt);
    }

    sel_cost(s, prompt, tainted, c, n);

    for (k = 0; k < n; k++) {
        expected = plain_cost(s, prompt, tainted, c, n, k);

        if (memcmp(&c[k].cost, &expected, sizeof(double)) != 0) {
            fail_msg("round %u, candidate %u of %u: %.17g, expected %.17g", i,
                     k, n, c[k].cost, expected);
        }

        cached = plain_cached(s, prompt->block_size, &c[k]);

        if (sel_cost_cached_tokens(s, prompt->block_size, &c[k]) != cached
            || sel_cost_prefill_tokens(s, prompt, &c[k])
               != prompt->isl_tokens - (cached < prompt->isl_tokens ? cached
                                        : prompt->isl_tokens))
        {
            fail_msg("round %u, candidate %u: cached tokens are not %" PRIu64,
                     i, k, cached);
        }

        blocks = prompt->isl_tokens / prompt->block_size
                 + (prompt->isl_tokens % prompt->block_size != 0);
        tail = blocks > prompt->tracked_blocks
               ? blocks - prompt->tracked_blocks : 0;

        if (sel_cost_decode_blocks(prompt, &c[k])
            != (uint64_t) c[k].active_blocks + c[k].new_blocks + tail)
        {
            fail_msg("round %u, candidate %u: decode blocks", i, k);
        }
    }
}


static void
test_random(void **state)
{
    unsigned             i;
    sel_cost_prompt_t    prompt;
    sel_cost_settings_t  settings;

    for (i = 0; i < ROUNDS; i++) {
        round_of(i, &settings, &prompt);
    }
}


static const sel_cost_settings_t  usual = {
    .overlap_score_credit = 1.0,
    .prefill_load_scale = 1.0,
    .host_weight = 0.75,
    .disk_weight = 0.25,
    .track_prefill_tokens = true
};


/* Sizes beyond 32 bits are not cut. */
static void
test_wide(void **state)
{
    sel_candidate_t    c;
    sel_cost_prompt_t  prompt;

    /* 2^32 tokens in blocks of one */
    prompt = (sel_cost_prompt_t) { UINT64_C(1) << 32, 1,
                                   UINT64_C(1) << 32 };
    c = (sel_candidate_t) { .device = UINT32_MAX,
                            .new_blocks = UINT64_C(1) << 32 };
    sel_cost(&usual, &prompt, false, &c, 1);
    assert_true(c.cost == 1.0 + 4294967296.0);
    assert_true(sel_cost_prefill_tokens(&usual, &prompt, &c) == 1);
    assert_true(sel_cost_decode_blocks(&prompt, &c) == UINT64_C(1) << 32);

    /* cached tokens beyond 2^32 */
    c = (sel_candidate_t) { .device = 1 << 20 };
    assert_true(sel_cost_cached_tokens(&usual, 1 << 20, &c)
                == UINT64_C(1) << 40);

    /* a prompt of 2^63 tokens */
    prompt = (sel_cost_prompt_t) { UINT64_C(1) << 63, 16, 2 };
    c = (sel_candidate_t) { .device = 2, .new_blocks = 2 };
    sel_cost(&usual, &prompt, false, &c, 1);
    assert_true(c.cost == 0x1p59);                  /* - 2 + 2 is lost */
    assert_true(sel_cost_prefill_tokens(&usual, &prompt, &c)
                == (UINT64_C(1) << 63) - 32);
    assert_true(sel_cost_decode_blocks(&prompt, &c) == UINT64_C(1) << 59);
}


/* Rounding up to whole blocks must not wrap. */
static void
test_round_up(void **state)
{
    sel_candidate_t    c;
    sel_cost_prompt_t  prompt;

    prompt = (sel_cost_prompt_t) { UINT64_MAX, 2, 0 };
    c = (sel_candidate_t) { .new_blocks = 0 };
    assert_true(sel_cost_decode_blocks(&prompt, &c) == UINT64_C(1) << 63);
    sel_cost(&usual, &prompt, false, &c, 1);
    assert_true(c.cost == 0x1p63);

    prompt.block_size = 1;
    assert_true(sel_cost_decode_blocks(&prompt, &c) == UINT64_MAX);
    prompt.block_size = UINT32_MAX;
    assert_true(sel_cost_decode_blocks(&prompt, &c)
                == UINT64_C(4294967297));
}


/* A backlog and a prompt whose sum has 65 bits: dear, not free. */
static void
test_long_sum(void **state)
{
    sel_candidate_t      c[2];
    sel_cost_prompt_t    prompt;
    sel_cost_settings_t  settings;

    prompt = (sel_cost_prompt_t) { UINT64_C(1) << 63, 1, 0 };
    c[0] = (sel_candidate_t) { .prefill_tokens = UINT64_C(1) << 63 };
    c[1] = (sel_candidate_t) { .prefill_tokens = UINT64_C(1) << 62 };
    settings = usual;
    settings.overlap_score_credit_decay = 1;
    sel_cost(&settings, &prompt, false, c, 2);
    assert_true(c[1].cost == 0x1p63 + 0x1p62);
    assert_true(c[0].cost >= c[1].cost);
}


/* More cached tokens and more blocks than a u64 holds. */
static void
test_saturation(void **state)
{
    sel_candidate_t      c;
    sel_cost_prompt_t    prompt;
    sel_cost_settings_t  settings;

    c = (sel_candidate_t) { .device = UINT32_MAX, .host = UINT32_MAX,
                            .disk = UINT32_MAX };
    settings = usual;
    settings.host_weight = 1;
    settings.disk_weight = 1;
    settings.overlap_score_credit_decay = 1;
    assert_true(sel_cost_cached_tokens(&settings, UINT32_MAX, &c)
                == UINT64_MAX);
    prompt = (sel_cost_prompt_t) { UINT64_MAX, UINT32_MAX, UINT64_MAX };
    assert_true(sel_cost_prefill_tokens(&settings, &prompt, &c) == 0);

    c.prefill_tokens = UINT64_MAX;
    c.new_blocks = UINT64_MAX;
    c.active_requests = UINT64_MAX;
    sel_cost(&settings, &prompt, true, &c, 1);
    assert_true(c.cost >= 0 && isfinite(c.cost));
    assert_true(sel_cost_decode_blocks(&prompt, &c) == UINT64_MAX);

    c.active_blocks = 0x1p60;
    assert_true(sel_cost_decode_blocks(&prompt, &c) == UINT64_MAX);
    c.active_blocks = 0x1p70;
    c.new_blocks = 0;
    assert_true(sel_cost_decode_blocks(&prompt, &c) == UINT64_MAX);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_wide),
        cmocka_unit_test(test_round_up),
        cmocka_unit_test(test_long_sum),
        cmocka_unit_test(test_saturation)
    };

    return cmocka_run_group_tests_name("cost_random", tests, setup, NULL);
}
