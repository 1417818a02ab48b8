/*
 * More bookings than 16 bits count.  Without it counts of an edge could wrap,
 * and blocks go while thousands of requests still have them.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "books_test.h"


#define MANY   70000
#define RANKS  4096


static sel_str_t
id_of(uint32_t number)
{
    static char  room[16];

    return (sel_str_t) { (size_t) sprintf(room, "%u", number),
                         (uint8_t *) room };
}


/* One prompt for all of them. */
static void
test_same_prompt(void **state)
{
    rank_t    rank;
    test_t    test;
    uint32_t  i;
    uint64_t  chunks;

    begin(&test, 64 * STATE_SIZE);
    books_unchecked = true;
    worker(&test, 1, 0, 1, &rank);
    chunks = state_stats(&test.zone).chunks_free;

    for (i = 0; i < MANY; i++) {
        assert_int_equal(book_id(&test, &rank, id_of(i), seq(1, 2, 3), 1),
                         SEL_BOOK_OK);
    }

    expect(&test, &rank, MANY, 3, MANY);

    for (i = 1; i < MANY; i++) {
        assert_int_equal(sel_book_free(&test.zone, id_of(i)), SEL_BOOK_OK);

        if (i > MANY - 65537 && i < MANY - 65533) {
            expect_depth(&test, &rank, seq(1, 2, 3), 3);
        }
    }

    expect(&test, &rank, 1, 3, 1);
    assert_int_equal(sel_book_output(&test.zone, id_of(0), 0.5), SEL_BOOK_OK);
    expect(&test, &rank, 1, 2, 1);
    assert_int_equal(sel_book_free(&test.zone, id_of(0)), SEL_BOOK_OK);
    expect(&test, &rank, 0, 0, 0);
    expect_chunks(&test, chunks);
    end(&test);
}


/* One beginning for all of them, and an end of its own for each. */
static void
test_same_beginning(void **state)
{
    rank_t    rank;
    test_t    test;
    uint32_t  i;
    uint64_t  chunks;

    begin(&test, 128 * STATE_SIZE);
    books_unchecked = true;
    worker(&test, 1, 0, 1, &rank);
    chunks = state_stats(&test.zone).chunks_free;

    for (i = 0; i < MANY; i++) {
        assert_int_equal(book_id(&test, &rank, id_of(i), seq(1, 2, i), 0),
                         SEL_BOOK_OK);
    }

    expect(&test, &rank, 0, MANY + 2, MANY);
    expect_depth(&test, &rank, seq(1, 2, 65535), 3);
    expect_depth(&test, &rank, seq(1, 2, 65536), 3);
    expect_depth(&test, &rank, seq(1, 2, MANY), 2);

    for (i = 0; i < MANY - 1; i++) {
        assert_int_equal(sel_book_free(&test.zone, id_of(i)), SEL_BOOK_OK);

        if (i > MANY - 65538 && i < MANY - 65533) {
            expect_depth(&test, &rank, seq(1, 2, MANY), 2);
        }
    }

    expect(&test, &rank, 0, 3, 1);
    expect_depth(&test, &rank, seq(1, 2, MANY - 1), 3);
    assert_int_equal(sel_book_free(&test.zone, id_of(MANY - 1)), SEL_BOOK_OK);
    expect(&test, &rank, 0, 0, 0);
    expect_chunks(&test, chunks);
    end(&test);
}


/* Thousands of ranks under one edge. */
static void
test_ranks(void **state)
{
    static sel_rank_load_t  loads[RANKS];

    test_t    test;
    rank_t    rank;
    uint32_t  i, k, n;
    uint64_t  chunks;

    begin(&test, 32 * STATE_SIZE);
    books_unchecked = true;

    for (i = 0; i < RANKS; i += 256) {
        forget_slots(&test);
        commit_ok(&test, i, 0, 256);

        for (k = 0; k < 256; k++) {
            loads[i + k].slot = test.ranks[k].slot;
            loads[i + k].epoch = test.ranks[k].epoch;
        }
    }

    chunks = state_stats(&test.zone).chunks_free;

    for (i = 0; i < RANKS; i++) {
        rank = (rank_t) { loads[i].slot, loads[i].epoch, test.number };
        assert_int_equal(book_id(&test, &rank, id_of(i), run(1, 1 + i % 9), 2),
                         SEL_BOOK_OK);
    }

    books_check(&test);
    sel_books_read(&test.zone, books_path(test.number, run(1, 7)), 7, loads,
                   RANKS);

    for (i = 0; i < RANKS; i++) {
        n = 1 + i % 9;

        if (loads[i].gone || loads[i].prefill_tokens != 2
            || loads[i].blocks != n || loads[i].requests != 1
            || loads[i].depth != (n < 7 ? n : 7))
        {
            fail_msg("rank %u", i);
        }
    }

    for (i = 0; i < RANKS; i++) {
        assert_int_equal(sel_book_free(&test.zone, id_of(i)), SEL_BOOK_OK);
    }

    expect_chunks(&test, chunks);
    end(&test);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        both(test_same_prompt),
        both(test_same_beginning),
        both(test_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
