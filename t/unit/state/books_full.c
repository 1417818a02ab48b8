/*
 * The books in a zone without room.  Without it a booking could be half made,
 * what is there could be impossible to end, and pending selections could keep
 * requests out.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "books_test.h"


#define BALLAST  20000


static const sel_pending_limits_t  no_limits = {
    .ttl = 1000000 * BOOKS_SECOND, .max = UINT32_MAX, .size = UINT64_MAX
};


static bool
put(test_t *test, uint32_t partition, uint32_t i)
{
    char           id[16];
    uint64_t       sequence[100];
    sel_pending_t  pending;

    (void) snprintf(id, sizeof(id), "p%u", i);
    memset(sequence, 0x33, sizeof(sequence));
    pending = (sel_pending_t) { .id = sel_cstr(id), .partition = partition,
                                .n_blocks = 100, .sequence = sequence,
                                .size = 1000, .made = books_now };

    return sel_pending_put(&test->zone, &pending, &no_limits);
}


static bool
is_pending(test_t *test, uint32_t partition, uint32_t i)
{
    int            rc;
    char           id[16];
    sel_arena_t    arena;
    sel_pending_t  pending;

    (void) snprintf(id, sizeof(id), "p%u", i);
    sel_arena_init(&arena, 0);
    rc = sel_pending_get(&test->zone, partition, sel_cstr(id), books_now,
                         no_limits.ttl, &arena, &pending);
    sel_arena_free(&arena);
    assert_true(rc >= 0);

    return rc == 1;
}


/* Keeps the smallest bookings on a rank until no more of them fit. */
static uint32_t
fill(test_t *test, const rank_t *rank)
{
    char               id[16];
    uint32_t           i;
    sel_book_result_t  result;

    for (i = 0; i < BALLAST; i++) {
        (void) snprintf(id, sizeof(id), "%u", i);
        result = book(test, rank, id, none, 1);

        if (result != SEL_BOOK_OK) {
            assert_int_equal(result, SEL_BOOK_FULL);
            assert_false(booked(test, id));
            break;
        }
    }

    assert_true(i < BALLAST);
    assert_in_range(state_stats(&test->zone).chunks_free, 0, 3);
    expect(test, rank, i, 0, i);

    return i;
}


static void
expect_same(const sel_rank_load_t *a, const sel_rank_load_t *b)
{
    assert_int_equal(a->gone, b->gone);
    assert_int_equal(a->prefill_tokens, b->prefill_tokens);
    assert_true(fabs(a->blocks - b->blocks) < 1e-9);
    assert_int_equal(a->requests, b->requests);
    assert_int_equal(a->depth, b->depth);
}


/* Pending selections go first, the oldest of them first. */
static void
test_pending_first(void **state)
{
    char              id[16];
    rank_t            rank;
    test_t            test;
    uint32_t          i, k, n, first;
    uint64_t          chunks;
    sel_rank_load_t   before;

    begin(&test, SEL_ZONE_MIN_SIZE);
    worker(&test, 1, 0, 1, &rank);
    chunks = state_stats(&test.zone).chunks_free;

    for (n = 0; n < 100; n++) {
        assert_true(put(&test, rank.partition, n));
    }

    first = 0;

    for (i = 0; ; i++) {
        assert_true(i < 2000);
        before = glance(&test, &rank, none);
        (void) snprintf(id, sizeof(id), "r%u", i);

        if (book(&test, &rank, id, seq(i, 1, 2, 3), 3) != SEL_BOOK_OK) {
            break;
        }

        while (first < n && !is_pending(&test, rank.partition, first)) {
            first++;
        }

        for (k = first; k < n; k += 7) {
            assert_true(is_pending(&test, rank.partition, k));
        }
    }

    assert_int_equal(book(&test, &rank, id, seq(i, 1, 2, 3), 3),
                     SEL_BOOK_FULL);
    assert_false(booked(&test, id));
    assert_int_equal(first, n);
    expect_same(&before, (sel_rank_load_t[1]) { look(&test, &rank, none) });
    expect(&test, &rank, 3 * i, 4 * i, i);

    /* one goes, another can come */
    free_ok(&test, "r5");
    book_ok(&test, &rank, id, seq(i, 1, 2, 3), 3);

    for (k = 0; k <= i; k++) {
        (void) snprintf(id, sizeof(id), "r%u", k);
        assert_int_equal(sel_book_prefilled(&test.zone, sel_cstr(id)),
                         k == 5 ? SEL_BOOK_NONE : SEL_BOOK_OK);
        assert_int_equal(sel_book_free(&test.zone, sel_cstr(id)),
                         k == 5 ? SEL_BOOK_NONE : SEL_BOOK_OK);
    }

    expect(&test, &rank, 0, 0, 0);
    expect_chunks(&test, chunks);
    end(&test);
}


/* A worker that is registered has the right of way as well. */
static void
test_commit_first(void **state)
{
    rank_t    rank, other;
    test_t    test;
    uint32_t  i, n;

    begin(&test, SEL_ZONE_MIN_SIZE);
    worker(&test, 1, 0, 1, &rank);

    for (n = 0; n < 100; n++) {
        assert_true(put(&test, rank.partition, n));
    }

    /* bookings until the first pending selection has gone */
    for (i = 0; is_pending(&test, rank.partition, 0); i++) {
        assert_int_equal(book_id(&test, &rank, (sel_str_t) { sizeof(i),
                             (const uint8_t *) &i }, none, 0), SEL_BOOK_OK);
        assert_true(i < BALLAST);
    }

    for (i = 2; i < 50; i++) {
        worker(&test, i, 0, 1, &other);
    }

    books_check(&test);
    assert_false(is_pending(&test, rank.partition, 10));
    assert_true(is_pending(&test, rank.partition, n - 1));
    end(&test);
}


typedef struct {
    sel_u64_list_t  prompt;         /* of what is to be booked */
    double          fraction;       /* at least 0: it is booked already, and
                                       this output block has to find room */
} attempt_t;


static sel_book_result_t
try(test_t *test, const rank_t *rank, const attempt_t *attempt)
{
    return attempt->fraction >= 0
           ? sel_book_output(&test->zone, sel_str("try"), attempt->fraction)
           : book(test, rank, "try", attempt->prompt, 9);
}


/* Gives room in small steps until something succeeds. */
static uint32_t
try_until(test_t *test, const rank_t *ranks, uint32_t ballast,
    const attempt_t *attempt)
{
    char               id[16];
    sel_rank_load_t    before[2], after[2];
    sel_book_result_t  result;

    for ( ;; ) {
        before[0] = glance(test, &ranks[0], run(1, 45));
        before[1] = glance(test, &ranks[1], run(1, 45));
        result = try(test, &ranks[attempt->fraction >= 0], attempt);

        if (result == SEL_BOOK_OK) {
            return ballast;
        }

        assert_int_equal(result, SEL_BOOK_FULL);
        assert_true(booked(test, "try") == (attempt->fraction >= 0));
        after[0] = glance(test, &ranks[0], run(1, 45));
        after[1] = glance(test, &ranks[1], run(1, 45));
        expect_same(&before[0], &after[0]);
        expect_same(&before[1], &after[1]);

        if (ballast % 4 == 0) {
            books_check(test);
        }

        assert_true(ballast > 0);
        (void) snprintf(id, sizeof(id), "%u", --ballast);
        free_ok(test, id);
    }
}


/*
 * With 0, 1, 2 ... chunks of room something is tried until it succeeds; as
 * long as it does not, nothing may change.  Everything can be ended then.
 */
static void
tight(const attempt_t *attempt)
{
    char      id[16];
    rank_t    ranks[3];                 /* the last one for ballast */
    test_t    test;
    uint32_t  left;
    uint64_t  chunks;

    begin(&test, SEL_ZONE_MIN_SIZE);
    worker(&test, 1, 0, 3, ranks);
    chunks = state_stats(&test.zone).chunks_free;

    book_ok(&test, &ranks[0], "a", run(1, 40), 5);
    book_ok(&test, &ranks[0], "b", run(1, 20), 6);
    book_ok(&test, &ranks[1], "c", run(1, 40), 7);
    output_ok(&test, "a", 0.5);

    if (attempt->fraction >= 0) {
        book_ok(&test, &ranks[1], "try", attempt->prompt, 9);
    }

    left = fill(&test, &ranks[2]);
    left = try_until(&test, ranks, left, attempt);
    books_check(&test);

    assert_int_equal(sel_book_prefilled(&test.zone, sel_str("try")),
                     SEL_BOOK_OK);
    free_ok(&test, "a");
    free_ok(&test, "try");
    books_check(&test);
    free_ok(&test, "c");
    free_ok(&test, "b");
    expect(&test, &ranks[0], 0, 0, 0);
    expect(&test, &ranks[1], 0, 0, 0);

    while (left > 0) {
        (void) snprintf(id, sizeof(id), "%u", --left);
        free_ok(&test, id);
    }

    expect(&test, &ranks[2], 0, 0, 0);
    expect_chunks(&test, chunks);
    end(&test);
}


static void
test_tight_booking(void **state)
{
    tight(&(attempt_t) { run(100, 40), -1 });       /* apart */
    tight(&(attempt_t) { run(1, 40), -1 });         /* all of it is there */
    tight(&(attempt_t) { run(1, 45), -1 });         /* goes on */
    tight(&(attempt_t) { run(1, 33), -1 });         /* ends inside a run */
    tight(&(attempt_t) { seq(1, 2, 3, 4, 50, 60, 70), -1 });
    tight(&(attempt_t) { seq(1, 2, 3), -1 });
    tight(&(attempt_t) { run(1, 250), -1 });
    tight(&(attempt_t) { none, -1 });
}


static void
test_tight_output(void **state)
{
    tight(&(attempt_t) { run(1, 45), 0.5 });
    tight(&(attempt_t) { run(100, 45), 0.25 });
    tight(&(attempt_t) { run(1, 20), 0.25 });
    tight(&(attempt_t) { none, 0 });
}


/* A prompt that cannot ever fit, and one that could. */
static void
test_too_large(void **state)
{
    static uint64_t  path[SEL_BOOK_MAX_BLOCKS];

    rank_t           rank;
    test_t           test;
    uint32_t         i, chosen;
    uint64_t         chunks;
    sel_booking_t    booking;
    sel_rank_load_t  load;

    begin(&test, SEL_ZONE_MIN_SIZE);
    worker(&test, 1, 0, 1, &rank);
    book_ok(&test, &rank, "a", run(1, 10), 1);
    assert_true(put(&test, rank.partition, 1));
    chunks = state_stats(&test.zone).chunks_free;

    for (i = 0; i < SEL_BOOK_MAX_BLOCKS; i++) {
        path[i] = i;
    }

    sel_path_keys(rank.partition, path, SEL_BOOK_MAX_BLOCKS, path);
    load = (sel_rank_load_t) { .slot = rank.slot, .epoch = rank.epoch };

    for (i = SEL_BOOK_MAX_BLOCKS; i > 100000; i /= 2) {
        booking = booking_of(&rank, sel_str("big"), none);
        booking.n_blocks = i;
        booking.path = path;
        assert_int_equal(sel_book(&test.zone, &booking, &load, 1, NULL, NULL,
                                  &chosen), SEL_BOOK_FULL);
        assert_int_equal(state_stats(&test.zone).chunks_free, chunks);
        assert_false(booked(&test, "big"));
        assert_true(is_pending(&test, rank.partition, 1));
        expect(&test, &rank, 1, 10, 1);
    }

    end(&test);
}


/* Deleting needs no room. */
static void
test_delete(void **state)
{
    rank_t    ranks[2], other;
    test_t    test;
    uint32_t  left;
    uint64_t  version;

    begin(&test, SEL_ZONE_MIN_SIZE);
    worker(&test, 2, 0, 1, &other);
    worker(&test, 1, 0, 2, ranks);
    version = test.version;
    book_ok(&test, &ranks[0], "a", run(1, 40), 5);
    book_ok(&test, &other, "b", run(1, 30), 5);
    output_ok(&test, "a", 0.5);
    left = fill(&test, &ranks[1]);
    expect(&test, &ranks[1], left, 0, left);

    delete_ok(&test, 1, version);
    expect_gone(&test, &ranks[0]);
    expect_gone(&test, &ranks[1]);
    assert_false(booked(&test, "a"));
    assert_false(booked(&test, "0"));
    expect(&test, &other, 5, 30, 1);
    assert_true(state_stats(&test.zone).chunks_free > left);
    end(&test);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        both(test_pending_first),
        both(test_commit_first),
        both(test_tight_booking),
        both(test_tight_output),
        both(test_too_large),
        both(test_delete),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
