/*
 * Bookings and the ranks they are on.  Without it a rank could count what is
 * booked on another, a new rank could begin with the load of the one whose
 * slot it has, and a choice could be made from loads that are not the ones
 * it is booked on.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "books_test.h"


typedef struct {
    sel_rank_load_t  seen[8];
    uint32_t         n;
    uint32_t         calls;
    uint32_t         choice;
    uint64_t         tokens;
} chooser_t;


static uint32_t
choose(void *data, sel_booking_t *booking, const sel_rank_load_t *ranks,
    uint32_t n)
{
    chooser_t  *chooser;

    chooser = data;
    chooser->n = n;
    chooser->calls++;
    memcpy(chooser->seen, ranks, n * sizeof(sel_rank_load_t));
    booking->prefill_tokens += chooser->tokens;

    return chooser->choice;
}


static sel_book_result_t
book_chosen(test_t *test, const rank_t *ranks, uint32_t n, const char *id,
    sel_u64_list_t prompt, chooser_t *chooser, uint32_t *chosen)
{
    uint32_t         i;
    sel_booking_t    booking;
    sel_rank_load_t  loads[8];

    booking = booking_of(&ranks[0], sel_cstr(id), prompt);
    memset(loads, 0xa5, sizeof(loads));

    for (i = 0; i < n; i++) {
        loads[i].slot = ranks[i].slot;
        loads[i].epoch = ranks[i].epoch;
    }

    *chosen = 77;

    return sel_book(&test->zone, &booking, loads, n, choose, chooser, chosen);
}


static void
expect_seen(const sel_rank_load_t *seen, const rank_t *rank, uint64_t tokens,
    double blocks, uint32_t requests, uint32_t depth)
{
    assert_int_equal(seen->slot, rank->slot);
    assert_int_equal(seen->epoch, rank->epoch);
    assert_false(seen->gone);
    assert_int_equal(seen->prefill_tokens, tokens);
    assert_true(fabs(seen->blocks - blocks) < 1e-9);
    assert_int_equal(seen->requests, requests);
    assert_int_equal(seen->depth, depth);
}


static void
test_choose(void **state)
{
    rank_t     ranks[3];
    test_t     test;
    uint32_t   chosen;
    chooser_t  chooser;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 3, ranks);
    book_ok(&test, &ranks[0], "r0", seq(1, 2, 3), 100);
    book_ok(&test, &ranks[2], "r2", seq(1, 9), 30);
    output_ok(&test, "r2", 0.5);
    books_check(&test);

    memset(&chooser, 0, sizeof(chooser));
    chooser.choice = 2;
    chooser.tokens = 77;
    assert_int_equal(book_chosen(&test, ranks, 3, "r", seq(1, 2, 4), &chooser,
                                 &chosen), SEL_BOOK_OK);
    assert_int_equal(chosen, 2);
    assert_int_equal(chooser.calls, 1);
    assert_int_equal(chooser.n, 3);
    expect_seen(&chooser.seen[0], &ranks[0], 100, 3, 1, 2);
    expect_seen(&chooser.seen[1], &ranks[1], 0, 0, 0, 0);
    expect_seen(&chooser.seen[2], &ranks[2], 30, 1.5, 1, 1);

    expect(&test, &ranks[0], 100, 3, 1);
    expect(&test, &ranks[1], 0, 0, 0);
    expect(&test, &ranks[2], 107, 3.5, 2);
    assert_int_equal(sel_book_prefilled(&test.zone, sel_str("r")),
                     SEL_BOOK_OK);
    expect(&test, &ranks[2], 30, 3.5, 2);

    /* none is taken */
    chooser.choice = SEL_CHOOSE_NONE;
    assert_int_equal(book_chosen(&test, ranks, 3, "s", seq(1), &chooser,
                                 &chosen), SEL_BOOK_REFUSED);
    assert_int_equal(chooser.calls, 2);
    assert_false(booked(&test, "s"));
    expect(&test, &ranks[2], 30, 3.5, 2);

    /* an id that is taken is so whatever the choice would be */
    assert_int_equal(book_chosen(&test, ranks, 3, "r", seq(1), &chooser,
                                 &chosen), SEL_BOOK_TAKEN);
    expect(&test, &ranks[2], 30, 3.5, 2);
    end(&test);
}


/* A rank that has gone is marked and has no load; others can be chosen. */
static void
test_choose_gone(void **state)
{
    rank_t     ranks[2];
    test_t     test;
    uint32_t   chosen;
    chooser_t  chooser;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &ranks[0]);
    worker(&test, 2, 0, 1, &ranks[1]);
    book_ok(&test, &ranks[0], "r0", seq(1, 2, 3), 100);
    book_ok(&test, &ranks[1], "r1", seq(1, 2), 5);
    delete_ok(&test, 1, 1);
    books_check(&test);

    memset(&chooser, 0, sizeof(chooser));
    chooser.choice = 1;
    assert_int_equal(book_chosen(&test, ranks, 2, "r", seq(1, 2, 3), &chooser,
                                 &chosen), SEL_BOOK_OK);
    assert_int_equal(chosen, 1);
    assert_true(chooser.seen[0].gone);
    assert_int_equal(chooser.seen[0].prefill_tokens, 0);
    assert_true(chooser.seen[0].blocks == 0.0);
    assert_int_equal(chooser.seen[0].requests, 0);
    assert_int_equal(chooser.seen[0].depth, 0);
    expect_seen(&chooser.seen[1], &ranks[1], 5, 2, 1, 2);
    expect(&test, &ranks[1], 5, 3, 2);

    /* without a chooser the first is the one */
    assert_int_equal(book(&test, &ranks[0], "s", seq(1), 1), SEL_BOOK_GONE);
    assert_false(booked(&test, "s"));
    assert_int_equal(book(&test, &ranks[0], "r", seq(1), 1), SEL_BOOK_TAKEN);

    delete_ok(&test, 2, 2);
    assert_int_equal(book(&test, &ranks[1], "r", seq(1), 1), SEL_BOOK_GONE);
    expect_gone(&test, &ranks[0]);
    expect_gone(&test, &ranks[1]);
    end(&test);
}


/* What no rank can be. */
static void
test_no_rank(void **state)
{
    rank_t  rank, wrong;
    test_t  test;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 1, &rank);

    wrong = rank;
    wrong.epoch++;
    expect_gone(&test, &wrong);
    assert_int_equal(book(&test, &wrong, "r", seq(1), 1), SEL_BOOK_GONE);

    wrong = rank;
    wrong.slot++;                       /* not in use */
    expect_gone(&test, &wrong);
    assert_int_equal(book(&test, &wrong, "r", seq(1), 1), SEL_BOOK_GONE);

    wrong.slot = (uint16_t) test.zone.n_slots;
    expect_gone(&test, &wrong);
    wrong.slot = SEL_SLOT_NONE;
    expect_gone(&test, &wrong);
    assert_int_equal(book(&test, &wrong, "r", seq(1), 1), SEL_BOOK_GONE);

    assert_false(booked(&test, "r"));
    expect(&test, &rank, 0, 0, 0);
    end(&test);
}


/* Ranks of one worker, workers and partitions share nothing. */
static void
test_apart(void **state)
{
    char      id[16];
    rank_t    ranks[4];
    test_t    test;
    uint32_t  i;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 2, ranks);
    worker(&test, 2, 0, 1, &ranks[2]);
    test.partition.routing_group = sel_str("west");
    worker(&test, 3, 0, 1, &ranks[3]);

    for (i = 0; i < 4; i++) {
        expect_depth(&test, &ranks[i], run(1, 10), 0);
        (void) snprintf(id, sizeof(id), "r%u", i);
        book_ok(&test, &ranks[i], id, run(1, 10), 1 + i);
        expect_depth(&test, &ranks[i], run(1, 10), 10);
    }

    for (i = 0; i < 4; i++) {
        expect(&test, &ranks[i], 1 + i, 10, 1);
    }

    /* each booking has all its blocks for itself */
    output_ok(&test, "r1", 0.5);
    output_ok(&test, "r3", 0.25);
    expect(&test, &ranks[0], 1, 10, 1);
    expect(&test, &ranks[1], 2, 5.5, 1);
    expect(&test, &ranks[2], 3, 10, 1);
    expect(&test, &ranks[3], 4, 2.75, 1);

    free_ok(&test, "r0");
    expect_depth(&test, &ranks[0], run(1, 10), 0);
    expect_depth(&test, &ranks[1], run(1, 10), 10);
    expect(&test, &ranks[1], 2, 5.5, 1);

    /* the blocks of one partition are others than those of the other */
    ranks[3].partition = ranks[0].partition;
    expect_depth(&test, &ranks[3], run(1, 10), 0);
    end(&test);
}


/* Many ranks in one read, each with one block more than the one before. */
static void
test_many_ranks(void **state)
{
    char             id[16];
    rank_t           rank;
    test_t           test;
    uint32_t         i;
    uint64_t         chunks;
    sel_rank_load_t  loads[201];

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 200, (rank_t[300]) { { 0 } });
    chunks = state_stats(&test.zone).chunks_free;

    for (i = 0; i < 200; i++) {
        rank = (rank_t) { test.ranks[i].slot, test.ranks[i].epoch,
                          test.number };
        (void) snprintf(id, sizeof(id), "r%u", i);
        book_ok(&test, &rank, id, run(1, i), i);
    }

    books_check(&test);
    memset(loads, 0xa5, sizeof(loads));

    for (i = 0; i < 200; i++) {
        loads[i].slot = test.ranks[199 - i].slot;
        loads[i].epoch = test.ranks[199 - i].epoch;
    }

    loads[200] = (sel_rank_load_t) { .slot = loads[0].slot,
                                     .epoch = loads[0].epoch + 1 };
    sel_books_read(&test.zone, books_path(test.number, run(1, 150)), 150,
                   loads, 201);

    for (i = 0; i < 200; i++) {
        assert_false(loads[i].gone);
        assert_int_equal(loads[i].prefill_tokens, 199 - i);
        assert_true(loads[i].blocks == 199 - i);
        assert_int_equal(loads[i].requests, 1);
        assert_int_equal(loads[i].depth, i < 49 ? 150 : 199 - i);
    }

    assert_true(loads[200].gone);
    assert_int_equal(loads[200].depth, 0);

    for (i = 0; i < 200; i++) {
        (void) snprintf(id, sizeof(id), "r%u", (i * 7) % 200);
        free_ok(&test, id);
    }

    expect_chunks(&test, chunks);
    end(&test);
}


/* A worker that is deleted takes its bookings with it, and no others. */
static void
test_deleted(void **state)
{
    rank_t    old[2], new[2], other;
    test_t    test;
    uint64_t  chunks;

    begin(&test, STATE_SIZE);
    worker(&test, 2, 0, 1, &other);
    chunks = state_stats(&test.zone).chunks_free;
    worker(&test, 1, 0, 2, old);

    book_ok(&test, &old[0], "a", run(1, 40), 10);
    book_ok(&test, &old[1], "b", run(1, 20), 20);
    book_ok(&test, &old[0], "c", run(1, 30), 30);
    book_ok(&test, &other, "d", run(1, 35), 40);
    output_ok(&test, "c", 0.5);
    output_ok(&test, "a", 0.5);
    delete_ok(&test, 1, test.version);

    expect_gone(&test, &old[0]);
    expect_gone(&test, &old[1]);
    expect(&test, &other, 40, 35, 1);
    expect_depth(&test, &other, run(1, 50), 35);
    assert_false(booked(&test, "a"));
    assert_false(booked(&test, "b"));
    assert_false(booked(&test, "c"));
    assert_true(booked(&test, "d"));

    /* slots that are used again begin at zero */
    worker(&test, 1, 0, 2, new);
    assert_true(state_stats(&test.zone).slots_used == 3);
    expect(&test, &new[0], 0, 0, 0);
    expect(&test, &new[1], 0, 0, 0);
    expect_depth(&test, &new[0], run(1, 50), 0);
    book_ok(&test, &new[0], "a", run(1, 4), 1);
    expect(&test, &new[0], 1, 4, 1);
    expect_gone(&test, &old[0]);

    delete_ok(&test, 1, test.version);
    free_ok(&test, "d");
    expect_chunks(&test, chunks - 1);   /* a tomb */
    end(&test);
}


/* Fewer ranks: what the others carry stays. */
static void
test_shrunk(void **state)
{
    rank_t  ranks[3];
    test_t  test;

    begin(&test, STATE_SIZE);
    worker(&test, 1, 0, 3, ranks);
    book_ok(&test, &ranks[0], "a", run(1, 10), 1);
    book_ok(&test, &ranks[1], "b", run(1, 10), 2);
    book_ok(&test, &ranks[2], "c", run(1, 10), 3);
    output_ok(&test, "a", 0.5);

    /* rank 0 is kept with a new event source, rank 1 gets another slot */
    test.ranks[0].new_feed = true;
    test.ranks[1].slot = SEL_SLOT_NONE;
    commit_ok(&test, 1, test.version, 2);

    expect(&test, &ranks[0], 1, 5.5, 1);
    expect_gone(&test, &ranks[1]);
    expect_gone(&test, &ranks[2]);
    assert_true(booked(&test, "a"));
    assert_false(booked(&test, "b"));
    assert_false(booked(&test, "c"));

    ranks[1] = (rank_t) { test.ranks[1].slot, test.ranks[1].epoch,
                          test.number };
    expect(&test, &ranks[1], 0, 0, 0);
    book_ok(&test, &ranks[1], "c", run(1, 2), 0);
    expect(&test, &ranks[1], 0, 2, 1);

    /* and more ranks */
    test.ranks[0].new_feed = false;
    test.ranks[2].slot = SEL_SLOT_NONE;
    test.ranks[2].new_feed = false;
    commit_ok(&test, 1, test.version, 3);
    expect(&test, &ranks[0], 1, 5.5, 1);
    expect(&test, &ranks[1], 0, 2, 1);
    end(&test);
}


/* Another partition, or not schedulable any more: nothing stays. */
static void
test_moved(void **state)
{
    rank_t    rank, moved, other;
    test_t    test;
    uint64_t  version;

    begin(&test, STATE_SIZE);
    worker(&test, 2, 0, 1, &other);
    worker(&test, 1, 0, 1, &rank);
    version = test.version;
    book_ok(&test, &rank, "a", run(1, 10), 1);
    book_ok(&test, &other, "b", run(1, 10), 1);

    test.partition.routing_group = sel_str("west");
    worker(&test, 1, version, 1, &moved);
    expect_gone(&test, &rank);
    expect(&test, &moved, 0, 0, 0);
    assert_false(booked(&test, "a"));
    book_ok(&test, &moved, "a", run(1, 3), 1);
    expect(&test, &moved, 1, 3, 1);

    assert_int_equal(commit(&test, 1, test.version, SEL_WORKER_INCOMPLETE, 0,
                            sel_str("blob")), SEL_COMMIT_OK);
    expect_gone(&test, &moved);
    assert_false(booked(&test, "a"));
    expect(&test, &other, 1, 10, 1);
    end(&test);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        both(test_choose),
        both(test_choose_gone),
        both(test_no_rank),
        both(test_apart),
        both(test_many_ranks),
        both(test_deleted),
        both(test_shrunk),
        both(test_moved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
