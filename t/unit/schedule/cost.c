/*
 * What a prompt costs on a rank, against numbers worked out by hand and
 * against the formula of docs/scheduling.md written down once more.  Without
 * it a changed order of operations, a lost clamp or an overflow would send
 * prompts to the wrong rank, and nobody would see an error.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>

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


static int
setup(void **state)
{
    settings = usual;
    prompt = (sel_cost_prompt_t) { 0, 0, 0 };

    return 0;
}


/* a prompt all of whose whole blocks are tracked */
static void
ask(uint64_t isl_tokens, uint32_t block_size)
{
    prompt.isl_tokens = isl_tokens;
    prompt.block_size = block_size;
    prompt.tracked_blocks = isl_tokens / block_size;
}


static void
same(double got, double expected)
{
    if (memcmp(&got, &expected, sizeof(double)) != 0) {
        fail_msg("%.17g (%a), expected %.17g (%a)", got, got, expected,
                 expected);
    }
}


/* At run time, by the same library: a compiler's constant may differ. */
static double
factor(volatile double sum)
{
    return exp(-tanh(sum));
}


/* The cost of one candidate alone; its other members must stay. */
static double
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


static uint64_t
cached(sel_candidate_t candidate)
{
    return sel_cost_cached_tokens(&settings, prompt.block_size, &candidate);
}


static uint64_t
prefill(sel_candidate_t candidate)
{
    return sel_cost_prefill_tokens(&settings, &prompt, &candidate);
}


static uint64_t
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


static void
test_load_against_cache(void **state)
{
    ask(2048, 64);

    assert_true(cached(loaded) == 1280);
    assert_true(prefill(loaded) == 768);
    assert_true(decode_blocks(loaded) == 72);
    same(cost_of(loaded), 134.0);

    assert_true(cached(cold) == 0);
    assert_true(prefill(cold) == 2048);
    assert_true(decode_blocks(cold) == 102);
    same(cost_of(cold), 144.0);
}


static void
test_overrides(void **state)
{
    ask(2048, 64);

    settings.overlap_score_credit = 0;
    same(cost_of(loaded), 154.0);
    same(cost_of(cold), 144.0);
    assert_true(cached(loaded) == 1280);        /* the credit is not in it */

    settings = usual;
    settings.prefill_load_scale = 0;
    same(cost_of(loaded), 72.0);
    same(cost_of(cold), 102.0);

    settings = usual;
    settings.track_prefill_tokens = false;
    same(cost_of(loaded), 72.0);
    same(cost_of(cold), 102.0);
    assert_true(prefill(loaded) == 768);

    settings = usual;
    settings.prefill_load_scale = 2.5;
    same(cost_of(loaded), 2.5 * 62 + 72);
}


static void
test_tiers(void **state)
{
    size_t  i;

    static const struct {
        sel_candidate_t  candidate;
        uint64_t         cached;
        uint64_t         prefill;
        double           cost;
    } rows[] = {
        { { .device = 4, .host = 2, .disk = 2, .new_blocks = 32 },
          96, 416, 58.0 },
        { { .host = 10, .new_blocks = 32 }, 120, 392, 56.5 },
        { { .disk = 20, .new_blocks = 32 }, 80, 432, 59.0 },
        { { .device = 32, .new_blocks = 32 }, 512, 0, 32.0 },
        { { .new_blocks = 32 }, 0, 512, 64.0 }
    };

    ask(512, 16);

    for (i = 0; i < sel_countof(rows); i++) {
        assert_true(cached(rows[i].candidate) == rows[i].cached);
        assert_true(prefill(rows[i].candidate) == rows[i].prefill);
        same(cost_of(rows[i].candidate), rows[i].cost);
    }

    settings.host_weight = 1;
    settings.disk_weight = 1;
    assert_true(cached(rows[0].candidate) == 128);
    assert_true(prefill(rows[0].candidate) == 384);
    same(cost_of(rows[0].candidate), 56.0);

    settings.host_weight = 0;
    settings.disk_weight = 0;
    assert_true(cached(rows[0].candidate) == 64);
    assert_true(cached(rows[1].candidate) == 0);
    assert_true(cached(rows[2].candidate) == 0);
    same(cost_of(rows[1].candidate), 64.0);
}


static void
test_rounding(void **state)
{
    ask(64, 2);

    /* half a token goes up: 0.5, 1.5, 2.5 become 1, 2, 3 */
    assert_true(cached((sel_candidate_t) { .disk = 1 }) == 1);
    assert_true(cached((sel_candidate_t) { .disk = 3 }) == 2);
    assert_true(cached((sel_candidate_t) { .disk = 5 }) == 3);
    assert_true(prefill((sel_candidate_t) { .disk = 1 }) == 63);

    /* below and above half */
    settings.disk_weight = 0.2;
    assert_true(cached((sel_candidate_t) { .disk = 1 }) == 0);
    settings.disk_weight = 0.3;
    assert_true(cached((sel_candidate_t) { .disk = 1 }) == 1);
}


static void
test_decay(void **state)
{
    sel_candidate_t  c[2];

    static const sel_candidate_t  start[2] = {
        { .device = 60, .prefill_tokens = 896, .new_blocks = 64 },
        { .new_blocks = 64 }
    };

    ask(1024, 16);

    memcpy(c, start, sizeof(c));
    sel_cost(&settings, &prompt, false, c, 2);
    same(c[0].cost, 124.0);
    same(c[1].cost, 128.0);

    settings.overlap_score_credit_decay = 1;
    memcpy(c, start, sizeof(c));
    sel_cost(&settings, &prompt, false, c, 2);
    assert_true(fabs(c[0].cost - 152) < 1e-9);
    same(c[1].cost, 128.0);

    settings.overlap_score_credit_decay = 4;
    memcpy(c, start, sizeof(c));
    sel_cost(&settings, &prompt, false, c, 2);
    assert_true(fabs(c[0].cost - (184 - 60 / 4.5)) < 1e-9);
    same(c[1].cost, 128.0);
}


/* Only backlog above the least loaded candidate shrinks, only the device. */
static void
test_decay_bounds(void **state)
{
    sel_candidate_t  c[3];

    ask(1024, 16);
    settings.overlap_score_credit_decay = 1;

    /* alone, or all alike: nothing to shrink */
    c[0] = (sel_candidate_t) { .device = 60, .prefill_tokens = 896 };
    c[1] = c[0];
    sel_cost(&settings, &prompt, false, c, 1);
    same(c[0].cost, 60.0);
    sel_cost(&settings, &prompt, false, c, 2);
    same(c[0].cost, 60.0);
    same(c[1].cost, 60.0);

    /* host and disk keep their credit */
    c[0] = (sel_candidate_t) { .host = 16, .disk = 16,
                               .prefill_tokens = 1024 };
    c[1] = (sel_candidate_t) { .device = 64, .prefill_tokens = 1024 };
    c[2] = (sel_candidate_t) { .device = 0 };
    sel_cost(&settings, &prompt, false, c, 3);
    same(c[0].cost, 128.0 - 16.0);
    same(c[1].cost, 128.0 - 32.0);
    same(c[2].cost, 64.0);

    /* without tracking it does nothing at all */
    settings.track_prefill_tokens = false;
    c[1].new_blocks = 3;
    sel_cost(&settings, &prompt, false, c, 3);
    same(c[0].cost, 0.0);
    same(c[1].cost, 3.0);
}


static void
test_clamp(void **state)
{
    sel_candidate_t  c;

    ask(64, 16);
    settings.overlap_score_credit = 2;
    c = (sel_candidate_t) { .device = 4, .new_blocks = 4 };

    same(cost_of(c), 4.0);              /* raw 4, credit 8: 0, not -4 */

    c.prefill_tokens = 32;              /* raw 6 */
    same(cost_of(c), 4.0);

    c.prefill_tokens = 160;             /* raw 14 */
    same(cost_of(c), 10.0);

    /* more cached tokens than the prompt has: raw counts the cached ones */
    settings.overlap_score_credit = 1;
    c = (sel_candidate_t) { .device = 6, .new_blocks = 0 };
    assert_true(cached(c) == 96);
    assert_true(prefill(c) == 0);
    same(cost_of(c), 0.0);
    settings.overlap_score_credit = 0.5;
    same(cost_of(c), 3.0);

    /* the clamp comes before the taints */
    settings.overlap_score_credit = 100;
    c = (sel_candidate_t) { .device = 4, .new_blocks = 4,
                            .preferred_taints = -1 };
    sel_cost(&settings, &prompt, true, &c, 1);
    same(c.cost, 4 * factor(-1));
}


static void
test_untracked_credit(void **state)
{
    sel_candidate_t  c;

    /* nothing to take the credit from, so it does not touch decode */
    ask(160, 16);
    settings.track_prefill_tokens = false;
    c = (sel_candidate_t) { .device = 10, .prefill_tokens = 5000,
                            .active_blocks = 7, .new_blocks = 10,
                            .active_requests = 2 };
    same(cost_of(c), 17.0);

    settings.active_request_weight = 1.5;
    same(cost_of(c), 20.0);
}


static void
test_ranks_of_one_worker(void **state)
{
    ask(256, 16);

    same(cost_of((sel_candidate_t) { .device = 8, .prefill_tokens = 512,
                                     .active_blocks = 10, .new_blocks = 16 }),
         66.0);
    same(cost_of((sel_candidate_t) { .device = 2, .active_blocks = 4,
                                     .new_blocks = 16 }), 34.0);
    same(cost_of((sel_candidate_t) { .new_blocks = 16 }), 32.0);
}


static void
test_queue_example(void **state)
{
    ask(900, 64);
    same(cost_of((sel_candidate_t) { .prefill_tokens = 20000,
                                     .new_blocks = 14 }),
         (20000.0 + 900) / 64 + 14);
    same(cost_of((sel_candidate_t) { .prefill_tokens = 3000,
                                     .new_blocks = 14 }), 74.9375);

    ask(6000, 64);
    same(cost_of((sel_candidate_t) { .prefill_tokens = 20000,
                                     .new_blocks = 93 }), 499.25);
    same(cost_of((sel_candidate_t) { .prefill_tokens = 3900,
                                     .active_blocks = 14,
                                     .new_blocks = 93 }), 261.6875);
}


static void
test_preferred_taints(void **state)
{
    sel_candidate_t  c[3];

    ask(16, 16);
    settings.prefill_load_scale = 0;

    c[0] = (sel_candidate_t) { .active_blocks = 100,
                               .preferred_taints = 0.85 };
    c[1] = (sel_candidate_t) { .active_blocks = 90 };
    c[2] = (sel_candidate_t) { .active_blocks = 100,
                               .preferred_taints = -0.85 };

    sel_cost(&settings, &prompt, true, c, 3);
    assert_true(fabs(c[0].cost - 50.1040) < 1e-4);
    assert_true(fabs(c[2].cost - 199.5849) < 1e-4);
    same(c[0].cost, 100 * factor(0.85));
    same(c[1].cost, 90.0);
    same(c[2].cost, 100 * factor(-0.85));

    /* whatever the weights, the factor stays between 1/e and e */
    c[0].preferred_taints = 1e300;
    c[1].preferred_taints = 3.5e41;
    c[2].preferred_taints = -1e300;
    sel_cost(&settings, &prompt, true, c, 3);
    assert_true(fabs(c[0].cost - 36.787944) < 1e-6);
    assert_true(fabs(c[2].cost - 271.828183) < 1e-6);
    same(c[0].cost, 100 * factor(1e300));
    same(c[1].cost, 90 * factor(1e300));
    same(c[2].cost, 100 * factor(-1e300));

    /* none asked for: no factor */
    sel_cost(&settings, &prompt, false, c, 3);
    same(c[0].cost, 100.0);
    same(c[1].cost, 90.0);
    same(c[2].cost, 100.0);
}


static void
test_active_requests(void **state)
{
    sel_candidate_t  a, b;

    ask(64, 16);
    a = (sel_candidate_t) { .active_blocks = 10, .new_blocks = 4,
                            .active_requests = 1 };
    b = (sel_candidate_t) { .active_blocks = 4, .new_blocks = 4,
                            .active_requests = 6 };

    same(cost_of(a), 18.0);
    same(cost_of(b), 12.0);

    settings.active_request_weight = 2;
    same(cost_of(a), 20.0);
    same(cost_of(b), 24.0);
}


/* The tail block, and trackings that do not fit the prompt. */
static void
test_decode_blocks(void **state)
{
    sel_candidate_t  c;

    ask(33, 16);
    c = (sel_candidate_t) { .active_blocks = 100, .new_blocks = 2 };
    assert_true(decode_blocks(c) == 103);
    settings.prefill_load_scale = 0;
    same(cost_of(c), 102.0);

    c.new_blocks = 0;
    assert_true(decode_blocks(c) == 101);
    same(cost_of(c), 100.0);

    /* fewer hashes than blocks */
    prompt = (sel_cost_prompt_t) { 1000, 16, 0 };       /* 63 blocks */
    assert_true(decode_blocks(c) == 163);
    prompt.tracked_blocks = 62;
    assert_true(decode_blocks(c) == 101);

    /* as many, and more */
    prompt.tracked_blocks = 63;
    assert_true(decode_blocks(c) == 100);
    prompt.tracked_blocks = 64;
    assert_true(decode_blocks(c) == 100);
    prompt.tracked_blocks = UINT64_MAX;
    assert_true(decode_blocks(c) == 100);

    /* shares of blocks: half of one counts */
    prompt = (sel_cost_prompt_t) { 32, 16, 2 };
    assert_true(decode_blocks((sel_candidate_t) { .active_blocks = 4.84375 })
                == 5);
    assert_true(decode_blocks((sel_candidate_t) { .active_blocks = 2.8125,
                                                  .new_blocks = 2 }) == 5);
    assert_true(decode_blocks((sel_candidate_t) { .active_blocks = 0.5 })
                == 1);
    assert_true(decode_blocks((sel_candidate_t) { .active_blocks = 0.25 })
                == 0);

    /* one token makes one block */
    prompt = (sel_cost_prompt_t) { 1, UINT32_MAX, 0 };
    assert_true(decode_blocks((sel_candidate_t) { .new_blocks = 0 }) == 1);
}


static void
test_ties_bit_for_bit(void **state)
{
    sel_candidate_t  b;

    ask(2048, 64);
    b = cold;
    b.active_blocks = 60;
    same(cost_of(b), cost_of(loaded));
    same(cost_of(b), 134.0);

    /* two ways to one value */
    ask(512, 16);
    same(cost_of((sel_candidate_t) { .device = 3 }),
         cost_of((sel_candidate_t) { .host = 4 }));
    same(cost_of((sel_candidate_t) { .host = 1 }),
         cost_of((sel_candidate_t) { .disk = 3 }));
}


/* No cost depends on the place in the array or on the neighbours. */
static void
test_many(void **state)
{
    uint32_t  i;

    static sel_candidate_t  c[1000];

    ask(4096, 16);

    for (i = 0; i < sel_countof(c); i++) {
        memset(&c[i], 0, sizeof(c[i]));
        c[i].device = i % 257;
        c[i].new_blocks = 256;
    }

    sel_cost(&settings, &prompt, false, c, sel_countof(c));

    for (i = 0; i < sel_countof(c); i++) {
        same(c[i].cost, 512.0 - i % 257);
    }

    /* none at all */
    sel_cost(&settings, &prompt, false, c, 0);
    same(c[0].cost, 512.0);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup(test_load_against_cache, setup),
        cmocka_unit_test_setup(test_overrides, setup),
        cmocka_unit_test_setup(test_tiers, setup),
        cmocka_unit_test_setup(test_rounding, setup),
        cmocka_unit_test_setup(test_decay, setup),
        cmocka_unit_test_setup(test_decay_bounds, setup),
        cmocka_unit_test_setup(test_clamp, setup),
        cmocka_unit_test_setup(test_untracked_credit, setup),
        cmocka_unit_test_setup(test_ranks_of_one_worker, setup),
        cmocka_unit_test_setup(test_queue_example, setup),
        cmocka_unit_test_setup(test_preferred_taints, setup),
        cmocka_unit_test_setup(test_active_requests, setup),
        cmocka_unit_test_setup(test_decode_blocks, setup),
        cmocka_unit_test_setup(test_ties_bit_for_bit, setup),
        cmocka_unit_test_setup(test_many, setup)
    };

    return cmocka_run_group_tests_name("cost", tests, NULL, NULL);
}
