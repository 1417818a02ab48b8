/*
 * The weights of blocks, one rule a test.  Without it a decayed block could
 * win its weight back when another request comes to share it, one request
 * could decay another's blocks, and a weight could outlive its block.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "books_test.h"


/* The same totals as they come from bookings. */
static void
test_rounded_totals(void **state)
{
    static const struct {
        uint32_t  n;
        double    fraction;
        uint64_t  blocks;
    } rows[] = {
        { 1, 0.25, 1 }, { 1, 0.24, 0 }, { 5, 0.25, 2 }, { 9, 0.25, 3 },
    };

    rank_t    rank;
    test_t    test;
    uint32_t  i;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);

    for (i = 0; i < sel_countof(rows); i++) {
        book_ok(&test, &rank, "r", run(1, rows[i].n), 0);
        output_ok(&test, "r", rows[i].fraction);
        expect(&test, &rank, 0, (rows[i].n + 1) * rows[i].fraction, 1);
        assert_int_equal(sel_load_blocks(look(&test, &rank, none).blocks),
                         rows[i].blocks);
        free_ok(&test, "r");
        expect(&test, &rank, 0, 0, 0);
    }

    end(&test);
}


/* Decay, step by step. */
static void
test_decay(void **state)
{
    rank_t  rank;
    test_t  test;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);

    book_ok(&test, &rank, "r1", seq(1, 2, 3), 0);
    expect(&test, &rank, 0, 3, 1);
    output_ok(&test, "r1", 0.5);
    expect(&test, &rank, 0, 2, 1);
    book_ok(&test, &rank, "r2", seq(1, 2), 0);
    expect(&test, &rank, 0, 2, 2);
    output_ok(&test, "r1", 0.0);
    expect(&test, &rank, 0, 1, 2);
    output_ok(&test, "r1", -1);
    expect(&test, &rank, 0, 2, 2);
    free_ok(&test, "r2");
    expect(&test, &rank, 0, 2, 1);
    output_ok(&test, "r1", 0.25);
    expect(&test, &rank, 0, 1.75, 1);
    assert_int_equal(sel_load_blocks(look(&test, &rank, none).blocks), 2);
    free_ok(&test, "r1");
    expect(&test, &rank, 0, 0, 0);
    end(&test);
}


/* 0 and 1 are fractions as others. */
static void
test_decay_bounds(void **state)
{
    rank_t  rank;
    test_t  test;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);

    book_ok(&test, &rank, "r", run(1, 10), 0);
    output_ok(&test, "r", 0.0);
    expect(&test, &rank, 0, 0, 1);

    /* a weight of 0 is not absence */
    expect_depth(&test, &rank, run(1, 12), 10);

    output_ok(&test, "r", 1.0);
    expect(&test, &rank, 0, 12, 1);
    output_ok(&test, "r", 0.0);
    book_ok(&test, &rank, "s", run(1, 10), 0);
    expect(&test, &rank, 0, 0, 2);
    output_ok(&test, "s", 1.0);
    expect(&test, &rank, 0, 1, 2);
    free_ok(&test, "r");
    expect(&test, &rank, 0, 1, 1);
    output_ok(&test, "s", 1.0);
    expect(&test, &rank, 0, 12, 1);
    free_ok(&test, "s");
    expect(&test, &rank, 0, 0, 0);
    end(&test);
}


/* A booking that has no block of its own gives weight to outputs only. */
static void
test_decay_shared(void **state)
{
    rank_t  rank;
    test_t  test;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);

    book_ok(&test, &rank, "long", run(1, 10), 0);
    book_ok(&test, &rank, "short", run(1, 5), 0);
    output_ok(&test, "short", 0.5);
    expect(&test, &rank, 0, 10.5, 2);

    output_ok(&test, "long", 0.25);         /* 6 .. 10 are its own */
    expect(&test, &rank, 0, 5 + 1.25 + 0.25 + 0.5, 2);

    /* equal prompts: all is shared */
    book_ok(&test, &rank, "twin", run(1, 10), 0);
    output_ok(&test, "long", 0.0);
    expect(&test, &rank, 0, 5 + 1.25 + 0 + 0.5, 3);

    free_ok(&test, "short");
    expect(&test, &rank, 0, 5 + 1.25, 2);
    free_ok(&test, "long");
    expect(&test, &rank, 0, 5 + 1.25, 1);
    output_ok(&test, "twin", 0.5);
    expect(&test, &rank, 0, 5.5, 1);
    free_ok(&test, "twin");
    expect(&test, &rank, 0, 0, 0);
    end(&test);
}


/* A weight goes with the block's last booking, and stays until then. */
static void
test_weight_forgotten(void **state)
{
    rank_t  rank;
    test_t  test;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);

    book_ok(&test, &rank, "r1", run(1, 10), 0);
    output_ok(&test, "r1", 0.5);
    expect(&test, &rank, 0, 5.5, 1);

    /* leaves the run in its middle: new blocks weigh 1 */
    book_ok(&test, &rank, "r2", seq(1, 2, 3, 4, 20, 21, 22), 0);
    expect(&test, &rank, 0, 8.5, 2);
    free_ok(&test, "r1");
    expect(&test, &rank, 0, 5, 1);

    book_ok(&test, &rank, "r3", run(1, 10), 0);
    expect(&test, &rank, 0, 11, 2);
    free_ok(&test, "r2");
    expect(&test, &rank, 0, 8, 1);
    free_ok(&test, "r3");
    expect(&test, &rank, 0, 0, 0);

    book_ok(&test, &rank, "r4", run(1, 10), 0);
    expect(&test, &rank, 0, 10, 1);
    end(&test);
}


/* Many weights along one path. */
static void
test_weight_steps(void **state)
{
    char      id[16];
    rank_t    rank;
    test_t    test;
    double    sum;
    uint32_t  i;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);

    book_ok(&test, &rank, "r", run(1, 100), 0);
    sum = 0;

    for (i = 1; i <= 10; i++) {
        output_ok(&test, "r", i / 16.0);
        sum += 10 * i / 16.0;
        expect(&test, &rank, 0, sum + i * (i / 16.0)
                                + (100 - 10 * i) * (i / 16.0), i);

        (void) snprintf(id, sizeof(id), "s%u", i);
        book_ok(&test, &rank, id, run(1, 10 * i), 0);
    }

    free_ok(&test, "r");
    expect(&test, &rank, 0, sum, 10);

    /* back again: the steps go from the end */
    for (i = 10; i >= 1; i--) {
        expect(&test, &rank, 0, sum, i);
        sum -= 10 * i / 16.0;
        (void) snprintf(id, sizeof(id), "s%u", i);
        free_ok(&test, id);
    }

    expect(&test, &rank, 0, 0, 0);
    end(&test);
}


/*
 * More weights than one record of a booking keeps.  Only a rebuild may see
 * that, and nothing but the weights.
 */
static void
test_many_weights(void **state)
{
    char      id[16];
    rank_t    rank;
    test_t    test;
    double    sum;
    uint32_t  i;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);
    book_ok(&test, &rank, "r", run(1, 240), 9);
    sum = 0;

    for (i = 1; i <= 60; i++) {
        output_ok(&test, "r", i % 7 / 8.0);
        (void) snprintf(id, sizeof(id), "s%u", i);
        book_ok(&test, &rank, id, run(1, 4 * i), 0);
        sum += 4 * (i % 7 / 8.0);
    }

    expect_depth(&test, &rank, run(1, 256), 240);

    if (books_rebuild) {
        assert_in_range(look(&test, &rank, none).requests, 61, 61);
        assert_true(look(&test, &rank, none).blocks >= 0);
        assert_true(look(&test, &rank, none).blocks <= 300);

    } else {
        expect(&test, &rank, 9, sum + 60 * (60 % 7 / 8.0), 61);
        free_ok(&test, "r");
        expect(&test, &rank, 0, sum, 60);
        book_ok(&test, &rank, "r", run(1, 240), 9);
    }

    for (i = 1; i <= 60; i++) {
        (void) snprintf(id, sizeof(id), "s%u", i);
        free_ok(&test, id);
    }

    output_ok(&test, "r", 0.5);
    sum = 120 + (books_rebuild ? 61 : 1) * 0.5;
    expect(&test, &rank, 9, sum, 1);
    free_ok(&test, "r");
    expect(&test, &rank, 0, 0, 0);
    end(&test);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        both(test_rounded_totals),
        both(test_decay),
        both(test_decay_bounds),
        both(test_decay_shared),
        both(test_weight_forgotten),
        both(test_weight_steps),
        both(test_many_weights),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
