/*
 * The load that bookings make on a rank, one rule a test.  Without it a block
 * that two requests share could count twice or vanish with the first of them,
 * and tokens could outlive their prefill.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "books_test.h"


static void
test_path_keys(void **state)
{
    uint64_t  a[6], b[6], sequence[6] = { 5, 5, 7, 0, UINT64_MAX, 5 };
    uint32_t  i, k;

    sel_path_keys(1, sequence, 6, a);

    for (i = 0; i < 6; i++) {
        for (k = 0; k < i; k++) {
            assert_true(a[i] != a[k]);
        }

        sel_path_keys(1, sequence, i + 1, b);
        assert_memory_equal(a, b, (i + 1) * sizeof(uint64_t));
    }

    /* in place */
    memcpy(b, sequence, sizeof(b));
    sel_path_keys(1, b, 6, b);
    assert_memory_equal(a, b, sizeof(b));

    /* nothing of another partition or behind another block is the same */
    sel_path_keys(2, sequence, 6, b);

    for (i = 0; i < 6; i++) {
        assert_true(a[i] != b[i]);
    }

    sequence[0] = 6;
    sel_path_keys(1, sequence, 6, b);

    for (i = 0; i < 6; i++) {
        assert_true(a[i] != b[i]);
    }

    sel_path_keys(1, NULL, 0, NULL);
}


static void
test_rounding(void **state)
{
    static const struct {
        double    sum;
        uint64_t  blocks;
    } rows[] = {
        { 0, 0 }, { 0.48, 0 }, { 0.5, 1 }, { 1.5, 2 }, { 2.5, 3 }, { 3.49, 3 },
        { 0.49999999999999994, 0 }, { 1, 1 }, { 1e6 + 0.5, 1000001 },
        { 4503599627370497.0, 4503599627370497 },
        { 2251799813685249.5, 2251799813685250 }, { -1e-17, 0 },
    };

    uint32_t  i;

    for (i = 0; i < sel_countof(rows); i++) {
        assert_int_equal(sel_load_blocks(rows[i].sum), rows[i].blocks);
    }
}


static void
test_shared_prefix(void **state)
{
    rank_t            rank;
    test_t            test;
    sel_rank_load_t   load;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);

    book_ok(&test, &rank, "r1", seq('a', 'b', 'c', 'd'), 0);
    expect(&test, &rank, 0, 4, 1);
    book_ok(&test, &rank, "r2", seq('a', 'b', 'e'), 0);
    expect(&test, &rank, 0, 5, 2);

    load = look(&test, &rank, seq('a', 'b', 'c', 'x', 'y'));
    assert_int_equal(load.depth, 3);
    assert_int_equal(sel_load_blocks(load.blocks) + 5 - load.depth, 7);

    free_ok(&test, "r1");
    expect(&test, &rank, 0, 3, 1);
    load = look(&test, &rank, seq('a', 'b', 'c', 'x', 'y'));
    assert_int_equal(load.depth, 2);
    assert_int_equal(sel_load_blocks(load.blocks) + 5 - load.depth, 6);

    free_ok(&test, "r2");
    expect(&test, &rank, 0, 0, 0);
    expect_depth(&test, &rank, seq('a', 'b'), 0);
    end(&test);
}


static void
test_counts(void **state)
{
    rank_t  rank;
    test_t  test;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);

    book_ok(&test, &rank, "r1", seq(1, 2, 3), 0);
    expect(&test, &rank, 0, 3, 1);
    book_ok(&test, &rank, "r2", seq(5), 0);
    expect(&test, &rank, 0, 4, 2);
    book_ok(&test, &rank, "r3", seq(1, 2, 3, 4), 0);
    expect(&test, &rank, 0, 5, 3);

    free_ok(&test, "r2");
    expect(&test, &rank, 0, 4, 2);
    free_ok(&test, "r3");
    expect(&test, &rank, 0, 3, 1);
    free_ok(&test, "r1");
    expect(&test, &rank, 0, 0, 0);
    end(&test);
}


static void
test_prefill(void **state)
{
    rank_t  rank;
    test_t  test;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);

    book_ok(&test, &rank, "A", seq(1), 384);
    book_ok(&test, &rank, "B", seq(2), 100);
    book_ok(&test, &rank, "C", seq(3), 0);
    book_ok(&test, &rank, "D", seq(4), 0);
    expect(&test, &rank, 484, 4, 4);

    assert_int_equal(sel_book_prefilled(&test.zone, sel_str("A")),
                     SEL_BOOK_OK);
    expect(&test, &rank, 100, 4, 4);
    assert_int_equal(sel_book_prefilled(&test.zone, sel_str("A")),
                     SEL_BOOK_OK);
    expect(&test, &rank, 100, 4, 4);
    free_ok(&test, "B");
    expect(&test, &rank, 0, 3, 3);

    /* never tracked: it succeeds all the same */
    assert_int_equal(sel_book_prefilled(&test.zone, sel_str("D")),
                     SEL_BOOK_OK);
    expect(&test, &rank, 0, 3, 3);

    /* repeats of what has ended change nothing */
    assert_int_equal(sel_book_free(&test.zone, sel_str("B")), SEL_BOOK_NONE);
    assert_int_equal(sel_book_prefilled(&test.zone, sel_str("B")),
                     SEL_BOOK_NONE);
    assert_int_equal(sel_book_output(&test.zone, sel_str("B"), 0.5),
                     SEL_BOOK_NONE);
    assert_int_equal(sel_book_prefilled(&test.zone, sel_str("unknown")),
                     SEL_BOOK_NONE);
    expect(&test, &rank, 0, 3, 3);
    end(&test);
}


/* Sums are of 64 bits. */
static void
test_large_prefill(void **state)
{
    rank_t  rank;
    test_t  test;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);

    book_ok(&test, &rank, "a", seq(1), UINT64_C(1) << 40);
    book_ok(&test, &rank, "b", seq(2), (UINT64_C(1) << 40) + 1);
    expect(&test, &rank, (UINT64_C(1) << 41) + 1, 2, 2);
    free_ok(&test, "a");
    expect(&test, &rank, (UINT64_C(1) << 40) + 1, 1, 1);
    free_ok(&test, "b");
    expect(&test, &rank, 0, 0, 0);
    end(&test);
}


/* Outputs are no prompt blocks, and go with their booking. */
static void
test_output(void **state)
{
    rank_t    rank;
    test_t    test;
    uint32_t  i;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);

    book_ok(&test, &rank, "r1", seq(1, 2), 7);
    book_ok(&test, &rank, "r2", seq(1, 2), 0);
    expect_depth(&test, &rank, seq(1, 2, 3), 2);

    for (i = 1; i <= 100; i++) {
        output_ok(&test, "r1", -1);
    }

    output_ok(&test, "r2", -0.5);
    expect(&test, &rank, 7, 103, 2);
    expect_depth(&test, &rank, seq(1, 2, 3), 2);

    /* the fraction is for outputs of one booking alone */
    output_ok(&test, "r1", 0.5);
    expect(&test, &rank, 7, 2 + 50.5 + 1, 2);

    free_ok(&test, "r1");
    expect(&test, &rank, 0, 3, 1);
    expect_depth(&test, &rank, seq(1, 2, 3), 2);
    free_ok(&test, "r2");
    expect(&test, &rank, 0, 0, 0);
    end(&test);
}


/* Depth is the live prefix, wherever prompt and runs part. */
static void
test_depth(void **state)
{
    rank_t    rank;
    test_t    test;
    uint32_t  i;
    uint64_t  prompt[150];

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);
    expect_depth(&test, &rank, run(1, 10), 0);

    book_ok(&test, &rank, "r1", run(1, 100), 0);
    book_ok(&test, &rank, "r2", seq(1, 2, 3, 50, 60), 0);

    for (i = 0; i <= 100; i++) {
        expect_depth(&test, &rank, run(1, i), i);

        (void) books_run(prompt, 1, 150);
        prompt[i] = 1000;
        expect_depth(&test, &rank, ((sel_u64_list_t) { 150, prompt }), i);
    }

    expect_depth(&test, &rank, run(1, 150), 100);
    expect_depth(&test, &rank, run(2, 10), 0);
    expect_depth(&test, &rank, seq(1, 2, 3, 50), 4);
    expect_depth(&test, &rank, seq(1, 2, 3, 50, 60, 70), 5);
    expect_depth(&test, &rank, seq(1, 2, 3, 60), 3);

    free_ok(&test, "r1");
    expect_depth(&test, &rank, run(1, 100), 3);
    expect_depth(&test, &rank, seq(1, 2, 3, 50, 60), 5);
    free_ok(&test, "r2");
    expect_depth(&test, &rank, seq(1, 2, 3, 50, 60), 0);
    end(&test);
}


/* A block is its path: what repeats or stands elsewhere is another block. */
static void
test_repeats(void **state)
{
    rank_t  rank;
    test_t  test;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);

    book_ok(&test, &rank, "r1", seq(5, 5), 0);
    expect(&test, &rank, 0, 2, 1);
    expect_depth(&test, &rank, seq(5), 1);
    expect_depth(&test, &rank, seq(5, 5, 5), 2);

    book_ok(&test, &rank, "r2", seq(1, 5), 0);
    book_ok(&test, &rank, "r3", seq(2, 5), 0);
    expect(&test, &rank, 0, 6, 3);
    expect_depth(&test, &rank, seq(2, 5, 5), 2);

    book_ok(&test, &rank, "r4", seq(5, 5, 5, 5), 0);
    expect(&test, &rank, 0, 8, 4);
    output_ok(&test, "r4", 0.5);
    expect(&test, &rank, 0, 6 + 1 + 0.5, 4);

    free_ok(&test, "r1");
    expect(&test, &rank, 0, 7.5, 3);
    free_ok(&test, "r4");
    expect(&test, &rank, 0, 4, 2);
    free_ok(&test, "r2");
    free_ok(&test, "r3");
    expect(&test, &rank, 0, 0, 0);
    end(&test);
}


static void
test_no_blocks(void **state)
{
    rank_t  rank;
    test_t  test;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);

    book_ok(&test, &rank, "r1", none, 12);
    expect(&test, &rank, 12, 0, 1);
    book_ok(&test, &rank, "r2", none, 3);
    output_ok(&test, "r1", -1);
    output_ok(&test, "r1", -1);
    output_ok(&test, "r2", 0.25);
    expect(&test, &rank, 15, 2.25, 2);
    output_ok(&test, "r1", 0.5);
    expect(&test, &rank, 15, 1.75, 2);
    free_ok(&test, "r1");
    expect(&test, &rank, 3, 0.25, 1);
    free_ok(&test, "r2");
    expect(&test, &rank, 0, 0, 0);
    end(&test);
}


static void
test_long_prompt(void **state)
{
    static uint64_t  prompt[10001];

    rank_t           rank;
    test_t           test;
    uint64_t         chunks;
    sel_u64_list_t   all, half, more;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);
    chunks = state_stats(&test.zone).chunks_free;

    more = books_run(prompt, 77, 10001);
    all = (sel_u64_list_t) { 10000, prompt };
    half = (sel_u64_list_t) { 5000, prompt };

    book_ok(&test, &rank, "r1", all, 160000);
    expect(&test, &rank, 160000, 10000, 1);
    expect_depth(&test, &rank, more, 10000);
    output_ok(&test, "r1", 0.5);
    expect(&test, &rank, 160000, 5000.5, 1);

    book_ok(&test, &rank, "r2", half, 0);
    output_ok(&test, "r1", 0.25);
    expect(&test, &rank, 160000, 2500 + 1250 + 0.5, 2);
    free_ok(&test, "r1");
    expect(&test, &rank, 0, 2500, 1);
    expect_depth(&test, &rank, more, 5000);

    free_ok(&test, "r2");
    expect(&test, &rank, 0, 0, 0);
    expect_chunks(&test, chunks);
    end(&test);
}


/* Path keys are any numbers. */
static void
test_keys(void **state)
{
    rank_t           rank;
    test_t           test;
    uint32_t         i, chosen;
    sel_booking_t    booking;
    sel_rank_load_t  load;

    static const uint64_t  path[] = { 0, UINT64_MAX, 1, 256, 65536, 1 << 24 };

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);

    for (i = 0; i <= 6; i++) {
        booking = booking_of(&rank, (sel_str_t) { i, (uint8_t *) "xxxxxxx" },
                             none);
        booking.n_blocks = i;
        booking.path = path;
        load = (sel_rank_load_t) { .slot = rank.slot, .epoch = rank.epoch };
        assert_int_equal(sel_book(&test.zone, &booking, &load, 1, NULL, NULL,
                                  &chosen), SEL_BOOK_OK);
        expect(&test, &rank, 0, i, i + 1);
        sel_books_read(&test.zone, path, 6, &load, 1);
        assert_int_equal(load.depth, i);
    }

    end(&test);
}


/* As many blocks as a booking may have. */
static void
test_longest_prompt(void **state)
{
    rank_t           rank;
    test_t           test;
    uint32_t         chosen;
    uint64_t        *path, chunks;
    sel_booking_t    booking;
    sel_rank_load_t  load;

    path = calloc(SEL_BOOK_MAX_BLOCKS, sizeof(uint64_t));
    begin(&test, 32 * STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);
    chunks = state_stats(&test.zone).chunks_free;
    sel_path_keys(rank.partition, path, SEL_BOOK_MAX_BLOCKS, path);

    booking = booking_of(&rank, sel_str("a"), none);
    booking.n_blocks = SEL_BOOK_MAX_BLOCKS;
    booking.path = path;
    load = (sel_rank_load_t) { .slot = rank.slot, .epoch = rank.epoch };
    assert_int_equal(sel_book(&test.zone, &booking, &load, 1, NULL, NULL,
                              &chosen), SEL_BOOK_OK);

    /* another one leaves it in the middle */
    booking.id = sel_str("b");
    booking.n_blocks = SEL_BOOK_MAX_BLOCKS / 2 + 5;
    assert_int_equal(sel_book(&test.zone, &booking, &load, 1, NULL, NULL,
                              &chosen), SEL_BOOK_OK);
    output_ok(&test, "a", 0);
    expect(&test, &rank, 0, SEL_BOOK_MAX_BLOCKS / 2 + 5, 2);
    sel_books_read(&test.zone, path, SEL_BOOK_MAX_BLOCKS, &load, 1);
    assert_int_equal(load.depth, SEL_BOOK_MAX_BLOCKS);

    free_ok(&test, "a");
    sel_books_read(&test.zone, path, SEL_BOOK_MAX_BLOCKS, &load, 1);
    assert_int_equal(load.depth, SEL_BOOK_MAX_BLOCKS / 2 + 5);
    free_ok(&test, "b");
    expect(&test, &rank, 0, 0, 0);
    expect_chunks(&test, chunks);
    free(path);
    end(&test);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_path_keys),
        cmocka_unit_test(test_rounding),
        both(test_shared_prefix),
        both(test_counts),
        both(test_prefill),
        both(test_large_prefill),
        both(test_output),
        both(test_depth),
        both(test_repeats),
        both(test_no_blocks),
        both(test_long_prompt),
        both(test_keys),
        both(test_longest_prompt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
