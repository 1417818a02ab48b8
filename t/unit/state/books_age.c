/*
 * Bookings that expire.  Without it a request whose end was never told would
 * load its rank for ever, or one could expire while it is young.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "books_test.h"


/* Made before a time, not at it; the oldest first, and no more than max. */
static void
test_expire(void **state)
{
    char      id[16];
    rank_t    ranks[2];
    test_t    test;
    uint32_t  i;
    uint64_t  start, chunks;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 2, ranks);
    chunks = state_stats(&test.zone).chunks_free;
    assert_int_equal(sel_books_expire(&test.zone, UINT64_MAX, 10), 0);
    start = books_now;

    for (i = 0; i < 10; i++) {
        (void) snprintf(id, sizeof(id), "r%u", i);
        books_now = start + i / 2 * BOOKS_SECOND;
        book_ok(&test, &ranks[i % 2], id, run(1, i + 1), 1);
    }

    books_check(&test);
    assert_int_equal(sel_books_expire(&test.zone, 0, 10), 0);
    assert_int_equal(sel_books_expire(&test.zone, start, 10), 0);
    assert_int_equal(sel_books_expire(&test.zone, start + 1, 0), 0);
    assert_true(booked(&test, "r0"));

    assert_int_equal(sel_books_expire(&test.zone, start + 1, 10), 2);
    expect(&test, &ranks[0], 4, 9, 4);
    expect(&test, &ranks[1], 4, 10, 4);
    assert_false(booked(&test, "r0"));
    assert_false(booked(&test, "r1"));

    assert_int_equal(sel_books_expire(&test.zone, UINT64_MAX, 3), 3);
    books_check(&test);

    for (i = 0; i < 10; i++) {
        (void) snprintf(id, sizeof(id), "r%u", i);
        assert_true(booked(&test, id) == (i >= 5));
    }

    free_ok(&test, "r6");               /* neither end of the order */
    free_ok(&test, "r9");
    assert_int_equal(sel_books_expire(&test.zone, UINT64_MAX, 2), 2);
    assert_true(booked(&test, "r8"));
    assert_int_equal(sel_books_expire(&test.zone, UINT64_MAX, UINT32_MAX), 1);
    expect(&test, &ranks[0], 0, 0, 0);
    expect(&test, &ranks[1], 0, 0, 0);
    expect_chunks(&test, chunks);
    end(&test);
}


/* Nothing that happens to a booking makes it younger. */
static void
test_no_refresh(void **state)
{
    rank_t    rank;
    test_t    test;
    uint64_t  start;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);
    start = books_now;
    book_ok(&test, &rank, "r1", seq(1, 2), 40);
    books_now += 200 * BOOKS_SECOND;
    book_ok(&test, &rank, "r2", seq(1, 2, 3), 30);

    output_ok(&test, "r1", 0.5);
    assert_int_equal(sel_book_prefilled(&test.zone, sel_str("r1")),
                     SEL_BOOK_OK);
    test.ranks[0].slot = rank.slot;     /* registered again */
    commit_ok(&test, 1, test.version, 1);
    books_check(&test);

    assert_int_equal(sel_books_expire(&test.zone, start + 1, 9), 1);
    assert_false(booked(&test, "r1"));
    expect(&test, &rank, 30, 3, 1);
    assert_int_equal(sel_books_expire(&test.zone, books_now, 9), 0);
    end(&test);
}


/* The tokens of what is left stay. */
static void
test_remaining(void **state)
{
    rank_t  rank;
    test_t  test;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);
    book_ok(&test, &rank, "r1", seq(1), 40);
    books_now += BOOKS_SECOND;
    book_ok(&test, &rank, "r2", seq(1), 30);
    expect(&test, &rank, 70, 1, 2);
    assert_int_equal(sel_books_expire(&test.zone, books_now, 9), 1);
    expect(&test, &rank, 30, 1, 1);
    end(&test);
}


/* With an age set, a new booking lets the old ones go, on any rank. */
static void
test_new_booking(void **state)
{
    rank_t    ranks[2];
    test_t    test;
    uint64_t  start;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 2, ranks);
    start = books_now;
    book_ok(&test, &ranks[0], "old", seq(1, 2), 40);

    /* no limit, no end */
    books_now = start + 1000000 * BOOKS_SECOND;
    book_ok(&test, &ranks[1], "a", none, 0);
    assert_true(booked(&test, "old"));
    free_ok(&test, "a");

    sel_books_expiry(&test.zone, 300 * BOOKS_SECOND);
    books_check(&test);
    books_now = start + 300 * BOOKS_SECOND;
    book_ok(&test, &ranks[1], "a", none, 0);
    assert_true(booked(&test, "old"));

    books_now++;
    book_ok(&test, &ranks[1], "b", none, 0);
    assert_false(booked(&test, "old"));
    expect(&test, &ranks[0], 0, 0, 0);
    expect(&test, &ranks[1], 0, 0, 2);
    end(&test);
}


/* Many at once: each booking takes some, the oldest first. */
static void
test_many_due(void **state)
{
    char      id[16];
    rank_t    ranks[2];
    test_t    test;
    uint32_t  i, n;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 2, ranks);
    sel_books_expiry(&test.zone, 300 * BOOKS_SECOND);

    for (i = 0; i < 50; i++) {
        (void) snprintf(id, sizeof(id), "r%u", i);
        book_ok(&test, &ranks[0], id, seq(1, 2, i), 1);
    }

    books_now += 301 * BOOKS_SECOND;
    n = 50;

    for (i = 0; n > 0 && i < 50; i++) {
        (void) snprintf(id, sizeof(id), "s%u", i);
        book_ok(&test, &ranks[1], id, none, 0);
        assert_true(look(&test, &ranks[0], none).requests < n);
        n = look(&test, &ranks[0], none).requests;
        (void) snprintf(id, sizeof(id), "r%u", 50 - n);
        assert_true(n == 0 || booked(&test, id));
        (void) snprintf(id, sizeof(id), "r%u", 49 - n);
        assert_false(booked(&test, id));
    }

    expect(&test, &ranks[0], 0, 0, 0);
    expect(&test, &ranks[1], 0, 0, i);

    sel_books_expiry(&test.zone, 0);
    books_now += 100000 * BOOKS_SECOND;
    book_ok(&test, &ranks[0], "t", none, 0);
    expect(&test, &ranks[1], 0, 0, i);
    end(&test);
}


/* Soon after the machine's start all is young; the age may be any number. */
static void
test_young_clock(void **state)
{
    rank_t    rank;
    test_t    test;
    uint32_t  i;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);
    sel_books_expiry(&test.zone, 300 * BOOKS_SECOND);

    books_now = 1;
    book_ok(&test, &rank, "a", seq(1), 1);

    for (i = 0; i < 10; i++) {
        books_now += BOOKS_SECOND;
        book_ok(&test, &rank, "b", seq(1), 1);
        assert_true(booked(&test, "a"));
        free_ok(&test, "b");
    }

    /* the clock of a process that was a little late */
    books_now -= 5 * BOOKS_SECOND;
    book_ok(&test, &rank, "b", seq(1), 1);
    expect(&test, &rank, 2, 1, 2);

    sel_books_expiry(&test.zone, UINT64_MAX);
    books_now += 1000 * BOOKS_SECOND;
    book_ok(&test, &rank, "c", seq(1), 1);
    expect(&test, &rank, 3, 1, 3);
    end(&test);
}


/* Of two processes one may be late with its booking: its time counts. */
static void
test_late(void **state)
{
    rank_t    rank;
    test_t    test;
    uint64_t  start;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);
    start = books_now;
    book_ok(&test, &rank, "a", seq(1), 1);
    books_now = start - BOOKS_SECOND;
    book_ok(&test, &rank, "b", seq(1), 2);
    books_check(&test);

    assert_int_equal(sel_books_expire(&test.zone, start, 9), 1);
    assert_true(booked(&test, "a"));
    assert_false(booked(&test, "b"));
    expect(&test, &rank, 1, 1, 1);
    end(&test);
}


/* Calls may stay away, a request that is served has its end. */
static void
test_kinds(void **state)
{
    rank_t           rank;
    test_t           test;
    uint32_t         i, chosen;
    sel_booking_t    booking;
    sel_rank_load_t  load;

    static const char *const  ids[] = { "api", "router", "mirror" };

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);

    for (i = 0; i < 3; i++) {
        booking = booking_of(&rank, sel_cstr(ids[i]), seq(1, 2));
        booking.kind = (sel_booking_kind_t) i;
        booking.proc = 1;
        load = (sel_rank_load_t) { .slot = rank.slot, .epoch = rank.epoch };
        assert_int_equal(sel_book(&test.zone, &booking, &load, 1, NULL, NULL,
                                  &chosen), SEL_BOOK_OK);
        assert_int_equal(chosen, 0);
    }

    expect(&test, &rank, 0, 2, 3);
    assert_int_equal(sel_books_expire(&test.zone, books_now + 1, 9), 3);
    expect(&test, &rank, 0, 2, 1);
    assert_true(booked(&test, "router"));
    assert_int_equal(sel_books_expire(&test.zone, books_now + 1, 9), 0);

    /* nor is it anybody else's to end */

    assert_int_equal(sel_book_free(&test.zone, sel_str("router")),
                     SEL_BOOK_NONE);
    assert_int_equal(sel_book_output(&test.zone, sel_str("router"), 0),
                     SEL_BOOK_NONE);
    assert_int_equal(sel_book_prefilled(&test.zone, sel_str("router")),
                     SEL_BOOK_NONE);
    expect(&test, &rank, 0, 2, 1);
    assert_int_equal(sel_served_output(&test.zone, sel_str("router")),
                     SEL_BOOK_OK);
    expect(&test, &rank, 0, 3, 1);
    assert_int_equal(sel_served_free(&test.zone, sel_str("api")),
                     SEL_BOOK_NONE);
    assert_int_equal(sel_books_bury(&test.zone, 1), 1);
    expect(&test, &rank, 0, 0, 0);
    end(&test);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        both(test_expire),
        both(test_no_refresh),
        both(test_remaining),
        both(test_new_booking),
        both(test_many_due),
        both(test_young_clock),
        both(test_late),
        both(test_kinds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
