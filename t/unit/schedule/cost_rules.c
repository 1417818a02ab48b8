/*
 * The rules within the formula of the cost: what is cut off at zero, what
 * shrinks and what does not, in which order.  Without it a lost clamp or a
 * changed order of operations would pass where the worked examples are blind.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cost_test.h"


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
        cmocka_unit_test_setup(test_decay_bounds, setup),
        cmocka_unit_test_setup(test_clamp, setup),
        cmocka_unit_test_setup(test_untracked_credit, setup),
        cmocka_unit_test_setup(test_preferred_taints, setup),
        cmocka_unit_test_setup(test_ties_bit_for_bit, setup),
        cmocka_unit_test_setup(test_many, setup)
    };

    return cmocka_run_group_tests_name("cost_rules", tests, NULL, NULL);
}
