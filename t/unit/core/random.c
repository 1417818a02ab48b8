/*
 * The random numbers.  Without it ties between workers would not be broken
 * evenly, and a repeatable test would not repeat.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/sel_random.h"
#include "sel_rand.h"


static uint64_t  seed;


/* The generator's published sequence for the state 1, 2, 3, 4. */
static void
test_sequence(void **state)
{
    size_t        i;
    sel_random_t  random;

    static const uint64_t  expected[] = {
        41943041u, 58720359u, 3588806011781223u, 3591011842654386u,
        9228616714210784205u, 9973669472204895162u, 14011001112246962877u,
        12406186145184390807u, 15849039046786891736u, 10450023813501588000u
    };

    random = (sel_random_t) { { 1, 2, 3, 4 } };

    for (i = 0; i < sel_countof(expected); i++) {
        assert_true(sel_random_u64(&random) == expected[i]);
    }
}


static void
test_seeds(void **state)
{
    int           i;
    sel_random_t  a, b;

    static const uint64_t  seeds[] = { 0, 1, 2, 1337, UINT64_MAX };

    for (i = 0; i < (int) sel_countof(seeds); i++) {
        sel_random_seed_with(&a, seeds[i]);
        sel_random_seed_with(&b, seeds[i]);
        assert_memory_equal(&a, &b, sizeof(a));

        /* all zero is the state that never leaves itself */
        assert_true((a.s[0] | a.s[1] | a.s[2] | a.s[3]) != 0);
        assert_true(sel_random_u64(&a) != sel_random_u64(&a));

        sel_random_seed_with(&b, seeds[i] + 1);
        assert_true(sel_random_u64(&a) != sel_random_u64(&b));
    }

    sel_random_seed(&a);
    sel_random_seed(&b);
    assert_true((a.s[0] | a.s[1] | a.s[2] | a.s[3]) != 0);
    assert_memory_not_equal(&a, &b, sizeof(a));
}


/* Counts of bound equal classes; chi square far beyond chance fails. */
static void
even(sel_random_t *random, uint64_t bound)
{
    double    expected, chi, d;
    uint32_t  count[64];
    uint64_t  value, i;

    memset(count, 0, sizeof(count));

    for (i = 0; i < 40000; i++) {
        value = sel_random_below(random, bound);
        assert_true(value < bound);
        count[bound <= 64 ? value : value / (bound / 3 + 1)]++;
    }

    bound = bound <= 64 ? bound : 3;
    expected = 40000.0 / (double) bound;
    chi = 0;

    for (i = 0; i < bound; i++) {
        d = count[i] - expected;
        chi += d * d / expected;
    }

    /* mean bound - 1, variance 2 (bound - 1): about seven deviations */
    d = (double) (bound - 1);

    if (chi > d + 30 + 10 * d / 4) {
        fail_msg("bound %" PRIu64 ": chi square %f", bound, chi);
    }
}


static void
test_below(void **state)
{
    int           i;
    sel_random_t  random;

    sel_random_seed_with(&random, seed);

    for (i = 0; i < 1000; i++) {
        assert_int_equal(sel_random_below(&random, 1), 0);
    }

    even(&random, 2);
    even(&random, 3);
    even(&random, 7);
    even(&random, 10);
    even(&random, 64);
    even(&random, UINT32_MAX);

    /* where a remainder of 2^64 would favour the lower third */
    even(&random, 3u * ((uint64_t) 1 << 62));
    even(&random, ((uint64_t) 1 << 63) + 1);
    even(&random, UINT64_MAX);
}


static void
test_unit(void **state)
{
    int           i, low;
    double        value, sum;
    uint64_t      bits;
    sel_random_t  random;

    sel_random_seed_with(&random, seed + 1);
    bits = 0;
    sum = 0;
    low = 0;

    for (i = 0; i < 100000; i++) {
        value = sel_random_unit(&random);
        assert_true(value >= 0 && value < 1);
        sum += value;
        low += value < 0.25;

        /* a multiple of 2^-53, and the last of these bits is in use */
        value *= 9007199254740992.0;
        assert_true(value == (double) (uint64_t) value);
        bits |= (uint64_t) value;
    }

    assert_true(bits == ((uint64_t) 1 << 53) - 1);
    assert_true(sum > 49000 && sum < 51000);
    assert_true(low > 24000 && low < 26000);

    /* the extremes stay inside */
    random = (sel_random_t) { { 0, 0, 0, 0 } };
    assert_true(sel_random_unit(&random) == 0);
}


static const struct CMUnitTest  tests[] = {
    cmocka_unit_test(test_sequence),
    cmocka_unit_test(test_seeds),
    cmocka_unit_test(test_below),
    cmocka_unit_test(test_unit)
};


int
main(void)
{
    seed = sel_rand_seed("random");

    return cmocka_run_group_tests(tests, NULL, NULL);
}
