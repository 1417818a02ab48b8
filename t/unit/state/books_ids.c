/*
 * Ids of bookings.  Without it one id could stand for two requests, a call
 * could end another request than the one it names, and an id whose request
 * has ended could stay taken.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "books_test.h"


static void
test_taken(void **state)
{
    rank_t    ranks[2], other;
    test_t    test;
    uint64_t  chunks;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 2, ranks);
    test.partition.routing_group = sel_str("west");
    worker(&test, 2, 0, 1, &other);

    assert_false(booked(&test, "id"));
    book_ok(&test, &ranks[0], "id", seq(1, 2), 5);
    assert_true(booked(&test, "id"));
    chunks = state_stats(&test.zone).chunks_free;

    /* on its rank, on another, in another partition: one space of ids */
    assert_int_equal(book(&test, &ranks[0], "id", seq(1, 2), 5),
                     SEL_BOOK_TAKEN);
    assert_int_equal(book(&test, &ranks[1], "id", seq(7), 5), SEL_BOOK_TAKEN);
    assert_int_equal(book(&test, &other, "id", none, 5), SEL_BOOK_TAKEN);

    assert_int_equal(state_stats(&test.zone).chunks_free, chunks);
    expect(&test, &ranks[0], 5, 2, 1);
    expect(&test, &ranks[1], 0, 0, 0);
    expect(&test, &other, 0, 0, 0);

    /* the first one is whole */
    output_ok(&test, "id", -1);
    assert_int_equal(sel_book_prefilled(&test.zone, sel_str("id")),
                     SEL_BOOK_OK);
    expect(&test, &ranks[0], 0, 3, 1);
    free_ok(&test, "id");
    assert_int_equal(sel_book_free(&test.zone, sel_str("id")), SEL_BOOK_NONE);
    end(&test);
}


/* An id is free as soon as its booking has ended, however that came. */
static void
test_free_again(void **state)
{
    rank_t  rank, other;
    test_t  test;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);
    worker(&test, 2, 0, 1, &other);

    book_ok(&test, &rank, "id", seq(1, 2), 5);
    free_ok(&test, "id");
    books_check(&test);
    assert_false(booked(&test, "id"));

    book_ok(&test, &other, "id", seq(1, 2), 5);
    expect(&test, &rank, 0, 0, 0);
    expect(&test, &other, 5, 2, 1);
    books_now += BOOKS_SECOND;
    assert_int_equal(sel_books_expire(&test.zone, books_now, 10), 1);
    books_check(&test);
    assert_false(booked(&test, "id"));

    book_ok(&test, &rank, "id", seq(3), 7);
    delete_ok(&test, 1, 1);
    books_check(&test);
    assert_false(booked(&test, "id"));
    assert_int_equal(sel_book_output(&test.zone, sel_str("id"), -1),
                     SEL_BOOK_NONE);
    assert_int_equal(sel_book_prefilled(&test.zone, sel_str("id")),
                     SEL_BOOK_NONE);
    assert_int_equal(sel_book_free(&test.zone, sel_str("id")), SEL_BOOK_NONE);

    book_ok(&test, &other, "id", seq(4, 5, 6), 0);
    expect(&test, &other, 0, 3, 1);
    free_ok(&test, "id");
    expect(&test, &other, 0, 0, 0);
    end(&test);
}


/* Sizes around what a record holds by itself, and the largest. */
static void
test_sizes(void **state)
{
    static const uint32_t  sizes[] = {
        0, 1, 2, 7, 8, 35, 36, 37, 63, 64, 65, 95, 96, 97, 127, 128, 129, 150,
        160, 170, 180, 190, 200, 210, 247, 248, 249, 255, 256, 257, 300, 495,
        496, 497, 4096, SEL_BOOK_MAX_ID - 1, SEL_BOOK_MAX_ID
    };

    rank_t      rank;
    test_t      test;
    uint8_t    *text;
    uint32_t    i, n;
    uint64_t    chunks;
    sel_str_t   id;

    n = sel_countof(sizes);
    text = malloc(SEL_BOOK_MAX_ID);
    cat_blob(1, SEL_BOOK_MAX_ID, text);

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);
    chunks = state_stats(&test.zone).chunks_free;

    for (i = 0; i < n; i++) {
        id = (sel_str_t) { sizes[i], text };
        assert_false(sel_booked(&test.zone, id));
        assert_int_equal(book_id(&test, &rank, id, run(1, i), 1),
                         SEL_BOOK_OK);
        assert_int_equal(book_id(&test, &rank, id, run(1, i), 1),
                         SEL_BOOK_TAKEN);
    }

    expect(&test, &rank, n, n - 1, n);

    for (i = 0; i < n; i++) {
        id = (sel_str_t) { sizes[i], text };
        assert_true(sel_booked(&test.zone, id));
        assert_int_equal(sel_book_output(&test.zone, id, -1), SEL_BOOK_OK);
        assert_int_equal(sel_book_prefilled(&test.zone, id), SEL_BOOK_OK);
    }

    expect(&test, &rank, 0, 2 * n - 1, n);

    for (i = 0; i < n; i++) {
        id = (sel_str_t) { sizes[i], text };
        assert_int_equal(sel_book_free(&test.zone, id), SEL_BOOK_OK);
        assert_false(sel_booked(&test.zone, id));
    }

    expect(&test, &rank, 0, 0, 0);
    expect_chunks(&test, chunks);
    free(text);
    end(&test);
}


/* Ids that differ little are different. */
static void
test_alike(void **state)
{
    rank_t      rank;
    test_t      test;
    uint8_t    *text;
    uint32_t    i;
    sel_str_t   id, ids[] = {
        sel_str("a"), sel_str("A"), sel_str("a\0"), sel_str("a\0b"),
        sel_str("a\0c"), sel_str("\0"), sel_str(""), sel_str("aa"),
        sel_str("\xff\xfe"), sel_str("\xff")
    };

    text = malloc(5000);
    memset(text, 'x', 5000);

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);

    for (i = 0; i < sel_countof(ids); i++) {
        assert_false(sel_booked(&test.zone, ids[i]));
        assert_int_equal(book_id(&test, &rank, ids[i], none, 0), SEL_BOOK_OK);
    }

    /* the last byte of a long one */
    id = (sel_str_t) { 5000, text };
    assert_int_equal(book_id(&test, &rank, id, none, 0), SEL_BOOK_OK);
    text[4999] = 'y';
    assert_false(sel_booked(&test.zone, id));
    assert_int_equal(sel_book_free(&test.zone, id), SEL_BOOK_NONE);
    assert_int_equal(book_id(&test, &rank, id, none, 0), SEL_BOOK_OK);
    id.len--;
    assert_false(sel_booked(&test.zone, id));
    expect(&test, &rank, 0, 0, sel_countof(ids) + 2);

    for (i = 0; i < sel_countof(ids); i++) {
        assert_int_equal(sel_book_free(&test.zone, ids[i]), SEL_BOOK_OK);
        assert_false(sel_booked(&test.zone, ids[i]));
    }

    expect(&test, &rank, 0, 0, 2);
    free(text);
    end(&test);
}


/* More ids than any table of them can have entries. */
static void
test_many(void **state)
{
    char      id[16];
    rank_t    rank;
    test_t    test;
    uint32_t  i;
    uint64_t  chunks;

    begin(&test, 4 * STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);
    chunks = state_stats(&test.zone).chunks_free;

    for (i = 0; i < 5000; i++) {
        (void) snprintf(id, sizeof(id), "r%u", i);
        book_ok(&test, &rank, id, none, i);
    }

    expect(&test, &rank, 5000 * 4999 / 2, 0, 5000);

    for (i = 0; i < 5000; i += 2) {
        (void) snprintf(id, sizeof(id), "r%u", i);
        free_ok(&test, id);
    }

    expect(&test, &rank, 2500 * 2500, 0, 2500);

    for (i = 0; i < 5000; i++) {
        (void) snprintf(id, sizeof(id), "r%u", i);
        assert_true(booked(&test, id) == (i % 2 == 1));
    }

    delete_ok(&test, 1, 1);

    for (i = 0; i < 5000; i++) {
        (void) snprintf(id, sizeof(id), "r%u", i);
        assert_false(booked(&test, id));
    }

    state_rebuild(&test.zone);
    assert_true(state_stats(&test.zone).chunks_free >= chunks - 1);
    end(&test);
}


/* A process's own bookings go when it is dead, and no others. */
static void
test_bury(void **state)
{
    rank_t           rank;
    test_t           test;
    uint32_t         i, chosen;
    sel_booking_t    booking;
    sel_rank_load_t  load;

    static const struct {
        const char          *id;
        sel_booking_kind_t   kind;
        uint32_t             proc;
    } rows[] = {
        { "a", SEL_BOOKING_ROUTER, 3 },
        { "b", SEL_BOOKING_API, 3 },
        { "c", SEL_BOOKING_MIRROR, 3 },
        { "d", SEL_BOOKING_ROUTER, 4 },
        { "e", SEL_BOOKING_ROUTER, 3 },
        { "f", SEL_BOOKING_ROUTER, 0 },
        { "g", SEL_BOOKING_ROUTER, SEL_ZONE_PROCS - 1 },
    };

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);

    for (i = 0; i < sel_countof(rows); i++) {
        booking = booking_of(&rank, sel_cstr(rows[i].id), seq(1, 2, i));
        booking.kind = rows[i].kind;
        booking.proc = rows[i].proc;
        booking.prefill_tokens = 10;
        load = (sel_rank_load_t) { .slot = rank.slot, .epoch = rank.epoch };
        assert_int_equal(sel_book(&test.zone, &booking, &load, 1, NULL, NULL,
                                  &chosen), SEL_BOOK_OK);
    }

    expect(&test, &rank, 70, 9, 7);
    assert_int_equal(sel_books_bury(&test.zone, 5), 0);
    assert_int_equal(sel_books_bury(&test.zone, 3), 2);
    expect(&test, &rank, 50, 7, 5);
    assert_int_equal(sel_books_bury(&test.zone, 3), 0);

    for (i = 0; i < sel_countof(rows); i++) {
        assert_true(booked(&test, rows[i].id) == (i != 0 && i != 4));
    }

    assert_int_equal(sel_books_bury(&test.zone, 0), 1);
    assert_int_equal(sel_books_bury(&test.zone, SEL_ZONE_PROCS - 1), 1);
    expect(&test, &rank, 30, 5, 3);
    end(&test);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        both(test_taken),
        both(test_free_again),
        both(test_sizes),
        both(test_alike),
        both(test_many),
        both(test_bury),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
