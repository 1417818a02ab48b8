/*
 * The pick among costs.  Without it the choice could favour a place in the
 * array, miss the minimum, or divide by a spread that is zero or infinite.
 *
 * Frequencies are judged by chi-square.  For d degrees of freedom it exceeds
 * d + 2 sqrt(d x) + 2 x with a probability below exp(-x); x is 25, so one
 * judgement is wrong once in 10^10.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>

#include "schedule/sel_pick.h"
#include "sel_rand.h"


#define MAX_N  100


static sel_rand_t       rnd;
static sel_random_t     source;
static sel_candidate_t  cand[MAX_N];


static int
setup(void **state)
{
    uint64_t  seed;

    seed = sel_rand_seed("pick");
    rnd.state = seed;
    sel_random_seed_with(&source, seed);

    return 0;
}


static void
set(const double *costs, uint32_t n)
{
    uint32_t  i;

    memset(cand, 0, sizeof(cand));

    for (i = 0; i < n; i++) {
        cand[i].cost = costs[i];
        cand[i].device = i;
    }
}


static uint32_t
pick(uint32_t n, double temperature)
{
    uint32_t  k;

    k = sel_pick(cand, n, temperature, &source);

    if (k >= n) {
        fail_msg("candidate %u of %u at temperature %g", k, n, temperature);
    }

    return k;
}


/* What of n draws fell on each place, against these probabilities. */
static void
judge(const uint32_t *seen, const double *p, uint32_t n, uint32_t draws)
{
    double    chi, d, expected, few, few_seen;
    uint32_t  i;

    chi = d = few = few_seen = 0;

    for (i = 0; i < n; i++) {
        expected = p[i] * draws;

        if (p[i] == 0 && seen[i] != 0) {
            fail_msg("candidate %u of %u was drawn %u times", i, n, seen[i]);
        }

        if (expected < 100) {           /* rare ones are judged together */
            few += expected;
            few_seen += seen[i];
            continue;
        }

        chi += (seen[i] - expected) * (seen[i] - expected) / expected;
        d++;
    }

    if (few >= 100) {
        chi += (few_seen - few) * (few_seen - few) / few;
        d++;

    } else if (few_seen > few + 10 * sqrt(few) + 30) {
        fail_msg("rare candidates were drawn %g times, expected %g", few_seen,
                 few);
    }

    d = d < 2 ? 1 : d - 1;

    if (chi > d + 2 * sqrt(d * 25) + 50) {
        fail_msg("chi-square %g with %g degrees of freedom", chi, d);
    }
}


static void
draw(uint32_t n, double temperature, uint32_t draws, const double *p)
{
    uint32_t  i, seen[MAX_N];

    memset(seen, 0, sizeof(seen));

    for (i = 0; i < draws; i++) {
        seen[pick(n, temperature)]++;
    }

    judge(seen, p, n, draws);
}


/* the formula, term by term */
static void
formula(const double *costs, uint32_t n, double temperature, double *p)
{
    uint32_t     i;
    long double  lo, hi, sum, w[MAX_N];

    lo = hi = costs[0];
    sum = 0;

    for (i = 1; i < n; i++) {
        lo = costs[i] < lo ? costs[i] : lo;
        hi = costs[i] > hi ? costs[i] : hi;
    }

    for (i = 0; i < n; i++) {
        w[i] = hi == lo ? 1
               : expl(-(((long double) costs[i] - lo) / (hi - lo)
                        / temperature));
        sum += w[i];
    }

    for (i = 0; i < n; i++) {
        p[i] = (double) (w[i] / sum);
    }
}


static void
draw_formula(const double *costs, uint32_t n, double temperature,
    uint32_t draws)
{
    double  p[MAX_N];

    set(costs, n);
    formula(costs, n, temperature, p);
    draw(n, temperature, draws, p);
}


static void
test_minimum(void **state)
{
    double    costs[MAX_N];
    uint32_t  i, n, round, best;

    for (round = 0; round < 20000; round++) {
        n = 1 + (uint32_t) sel_rand_below(&rnd, MAX_N);
        best = 0;

        for (i = 0; i < n; i++) {
            costs[i] = ldexp((double) (sel_rand(&rnd) >> 11),
                             (int) sel_rand_below(&rnd, 80) - 60);
            best = costs[i] < costs[best] ? i : best;
        }

        set(costs, n);

        if (costs[pick(n, 0)] != costs[best]) {
            fail_msg("round %u: %g instead of %g", round,
                     costs[pick(n, 0)], costs[best]);
        }
    }

    /* one unit in the last place decides */
    set((double[]) { nextafter(134, 200), 134, nextafter(134, 200) }, 3);

    for (i = 0; i < 1000; i++) {
        assert_int_equal(pick(3, 0), 1);
    }
}


/* Every number of equal ones, with dearer ones between them. */
static void
test_ties(void **state)
{
    double    p[MAX_N], costs[MAX_N];
    uint32_t  i, k, n;

    static const uint32_t  ties[] = { 1, 2, 3, 7, 32, 50, 100 };

    for (k = 0; k < sel_countof(ties); k++) {
        n = ties[k] <= 50 ? 2 * ties[k] : ties[k];

        for (i = 0; i < n; i++) {
            costs[i] = n == ties[k] || i % 2 == k % 2 ? 134 : 134.5 + i;
            p[i] = costs[i] == 134 ? 1.0 / ties[k] : 0;
        }

        set(costs, n);
        draw(n, 0, 60000, p);
    }
}


/* Two picks in a row have nothing to do with each other. */
static void
test_independent(void **state)
{
    double    p[9];
    uint32_t  i, last, next, seen[9];

    memset(seen, 0, sizeof(seen));
    set((double[]) { 5, 5, 5 }, 3);
    last = pick(3, 0);

    for (i = 0; i < 90000; i++) {
        next = pick(3, 0);
        seen[3 * last + next]++;
        last = next;
    }

    for (i = 0; i < 9; i++) {
        p[i] = 1.0 / 9;
    }

    judge(seen, p, 9, 90000);
}


static void
test_worked_example(void **state)
{
    uint32_t  i;

    static const double  costs[] = { 10, 12, 18 };

    static const struct {
        double  temperature;
        double  p[3];
    } rows[] = {
        { 0.1, { 0.924103, 0.075855, 0.000042 } },
        { 0.5, { 0.574097, 0.348207, 0.077696 } },
        { 1.0, { 0.465836, 0.362793, 0.171371 } },
        { 10, { 0.347204, 0.338632, 0.314164 } }
    };

    set(costs, 3);

    for (i = 0; i < sel_countof(rows); i++) {
        draw(3, rows[i].temperature, 400000, rows[i].p);
    }
}


static void
test_frequencies(void **state)
{
    double    costs[MAX_N], temperature;
    uint32_t  i, n, round;

    for (round = 0; round < 40; round++) {
        n = 2 + (uint32_t) sel_rand_below(&rnd, 20);

        for (i = 0; i < n; i++) {
            costs[i] = (double) sel_rand_below(&rnd, 1000) / 4;
        }

        temperature = ldexp(1, (int) sel_rand_below(&rnd, 12) - 6);
        draw_formula(costs, n, temperature, 30000);
    }

    /* only the relative spread counts */
    draw_formula((double[]) { 1e-3, 1.2e-3, 1.8e-3 }, 3, 0.5, 50000);
    draw_formula((double[]) { 1e12, 1.2e12, 1.8e12 }, 3, 0.5, 50000);
    draw_formula((double[]) { 18, 10, 12, 10 }, 4, 0.5, 50000);
}


static void
test_equal_costs(void **state)
{
    uint32_t  i, k;
    double    costs[10];

    static const double  values[] = { 0, 1, 5e-324, DBL_MAX };
    static const double  temperatures[] = { 5e-324, 0.01, 1, DBL_MAX };

    for (k = 0; k < sel_countof(values); k++) {
        for (i = 0; i < 10; i++) {
            costs[i] = values[k];
        }

        for (i = 0; i < sel_countof(temperatures); i++) {
            draw_formula(costs, 10, temperatures[i], 10000);
        }
    }
}


static void
test_one(void **state)
{
    uint32_t  i, k;

    static const double  values[] = {
        0, 5e-324, 1, 1e300, DBL_MAX, INFINITY, NAN
    };

    for (i = 0; i < sel_countof(values); i++) {
        set(&values[i], 1);

        for (k = 0; k < 100; k++) {
            assert_int_equal(pick(1, 0), 0);
            assert_int_equal(pick(1, 5e-324), 0);
            assert_int_equal(pick(1, 1), 0);
            assert_int_equal(pick(1, DBL_MAX), 0);
        }
    }
}


static void
test_huge_spreads(void **state)
{
    draw_formula((double[]) { 0, DBL_MAX }, 2, 1, 30000);
    draw_formula((double[]) { DBL_MAX, 0, DBL_MAX / 2 }, 3, 0.5, 30000);
    draw_formula((double[]) { 1, DBL_MAX, 1, 2 }, 4, 1e-4, 30000);
    draw_formula((double[]) { 134, nextafter(134, 200) }, 2, 1, 30000);
}


/* The spread itself is beyond a double, or its product with temperature. */
static void
test_overflow(void **state)
{
    draw_formula((double[]) { DBL_MAX, 0, DBL_MAX / 2 }, 3, 2, 30000);
    draw_formula((double[]) { -DBL_MAX, 0, DBL_MAX }, 3, 1, 30000);
}


/* A spread, or a temperature, or their product, that is next to nothing. */
static void
test_underflow(void **state)
{
    uint32_t  i;

    static const double  small[] = { 5e-324, 1e-310, DBL_MIN, 1e-100, 1e-4 };

    /* as good as 0: the cheapest, equal ones alike */
    for (i = 0; i < sel_countof(small); i++) {
        draw_formula((double[]) { 12, 10, 18, 10 }, 4, small[i], 10000);
        draw_formula((double[]) { 10, 10.02, 10, 10.01 }, 4, small[i], 10000);
        draw_formula((double[]) { 0, 5e-324, 0, 5e-324 }, 4, small[i], 10000);
    }

    draw_formula((double[]) { 0, 5e-324 }, 2, 0.5, 30000);
}


static void
test_hot(void **state)
{
    /* without bound: all alike */
    draw_formula((double[]) { 12, 10, 18, 10 }, 4, 1e300, 10000);
    draw_formula((double[]) { 12, 10, 18, 10 }, 4, DBL_MAX, 10000);
}


/* Settings may multiply to infinity; the answer is still one of them. */
static void
test_infinite_costs(void **state)
{
    uint32_t  i;

    set((double[]) { INFINITY, 3, INFINITY }, 3);

    for (i = 0; i < 1000; i++) {
        assert_int_equal(pick(3, 0), 1);
        (void) pick(3, 1);
        (void) pick(3, 5e-324);
    }

    set((double[]) { INFINITY, INFINITY }, 2);
    draw(2, 0, 10000, (double[]) { 0.5, 0.5 });

    for (i = 0; i < 1000; i++) {
        (void) pick(2, 0.5);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_minimum),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_independent),
        cmocka_unit_test(test_worked_example),
        cmocka_unit_test(test_frequencies),
        cmocka_unit_test(test_equal_costs),
        cmocka_unit_test(test_one),
        cmocka_unit_test(test_huge_spreads),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_underflow),
        cmocka_unit_test(test_hot),
        cmocka_unit_test(test_infinite_costs)
    };

    return cmocka_run_group_tests_name("pick", tests, setup, NULL);
}
