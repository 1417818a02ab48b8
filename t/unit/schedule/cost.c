/*
 * What a prompt costs on a rank, against numbers worked out by hand.  Without
 * it a changed formula would send prompts to the wrong rank, and nobody would
 * see an error.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cost_test.h"


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


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup(test_load_against_cache, setup),
        cmocka_unit_test_setup(test_overrides, setup),
        cmocka_unit_test_setup(test_tiers, setup),
        cmocka_unit_test_setup(test_rounding, setup),
        cmocka_unit_test_setup(test_decay, setup),
        cmocka_unit_test_setup(test_ranks_of_one_worker, setup),
        cmocka_unit_test_setup(test_queue_example, setup),
        cmocka_unit_test_setup(test_active_requests, setup),
        cmocka_unit_test_setup(test_decode_blocks, setup)
    };

    return cmocka_run_group_tests_name("cost", tests, NULL, NULL);
}
