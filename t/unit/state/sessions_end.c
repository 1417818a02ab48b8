/*
 * Sessions: how a binding ends or moves while bookings hold it.  Without it a
 * session could stay bound to a rank that has gone, a booking could be made
 * against its binding, and what is left of an old binding could keep or end a
 * new one.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "session_test.h"


#define PROC  7


static test_t  test;
static rank_t  ranks[4];
static rank_t  other[2];                /* of worker 2 */


static void
start(void)
{
    session_begin(&test, STATE_SIZE, 4, ranks);
    worker(&test, 2, 0, 2, other);
    assert_int_equal(other->partition, 1);
}


/* Booked on another rank while the bound one is there. */
static void
refused(const rank_t *rank)
{
    uint64_t          first;
    sel_rank_load_t   load;

    start();
    book_in_ok(&test, &ranks[0], "a", "s");
    book_in_ok(&test, &ranks[0], "b", "s");
    first = revision(&test, 1, "s");
    load = glance(&test, rank, none);

    assert_int_equal(book_in(&test, rank, "c", "s"), SEL_BOOK_BOUND);
    expect_free(&test, 1, "s");
    assert_false(booked(&test, "c"));
    assert_int_equal(glance(&test, rank, none).requests, load.requests);
    expect(&test, &ranks[0], 0, 0, 2);
    assert_int_equal(state_stats(&test.zone).sessions, 0);
    assert_int_equal(counted(&test, SEL_COUNT_SESSION_REFUSED), 1);

    /* one of the others ends while there is none */

    free_ok(&test, "a");
    expect_free(&test, 1, "s");

    /* the next request of the session starts fresh */

    at(1);
    assert_int_equal(book_by(&test, rank, "c", "s", 0), SEL_BOOK_OK);
    assert_true(revision(&test, 1, "s") != first);
    assert_int_equal(session_leases(&test, 1, sel_str("s")), 1);
    session_check(&test);

    /* and the last of the others does not touch the new binding */

    at(2);
    free_ok(&test, "c");
    at(5);
    free_ok(&test, "b");
    session_check(&test);
    expect(&test, &ranks[0], 0, 0, 0);
    assert_true(session_at(&test, 1, "s", second(12) - 1).revision != 0);
    assert_true(session_at(&test, 1, "s", second(12)).revision == 0);
    end(&test);
}


static void
test_refused_rank(void **state)
{
    refused(&ranks[3]);
}


static void
test_refused_worker(void **state)
{
    refused(&other[0]);
}


/* An idle binding is one, too. */
static void
test_refused_idle(void **state)
{
    start();
    book_in_ok(&test, &ranks[0], "a", "s");
    free_ok(&test, "a");
    assert_int_equal(book_in(&test, &other[0], "b", "s"), SEL_BOOK_BOUND);
    assert_false(booked(&test, "b"));
    expect_free(&test, 1, "s");
    assert_int_equal(state_stats(&test.zone).sessions, 0);
    end(&test);
}


/*
 * The record of an ended binding stays as long as bookings hold it, whatever
 * the session, or another one, is bound to meanwhile; then its chunk is used
 * again.
 */
static void
reused(const char *next)
{
    char                  id[16], name[16];
    uint32_t              i, number, found, n;
    session_shot_t       *before, *after;
    sel_session_chunk_t  *record;

    start();
    book_in_ok(&test, &ranks[0], "a", "s");
    book_in_ok(&test, &ranks[0], "b", "s");
    before = session_shoot(&test.zone, &n);
    number = before[0].number;
    free(before);
    assert_int_equal(book_in(&test, &ranks[1], "c", "s"), SEL_BOOK_BOUND);

    record = sel_zone_session(&test.zone, number);
    assert_int_equal(book_in(&test, &ranks[2], "d", next), SEL_BOOK_OK);
    before = session_shoot(&test.zone, &n);
    free_ok(&test, "a");
    assert_int_equal(sel_chunk_tag(&record->head), SEL_CHUNK_SESSION_ENDED);
    expect_bound(&test, 1, next, 1, 2, 1);
    free_ok(&test, "b");
    expect_bound(&test, 1, next, 1, 2, 1);
    assert_int_equal(sel_chunk_tag(&record->head), SEL_CHUNK_FREE);
    after = session_shoot(&test.zone, &found);
    assert_int_equal(n, found);
    assert_memory_equal(before, after, (n + 1) * sizeof(session_shot_t));

    for (i = 0; sel_chunk_tag(&record->head) == SEL_CHUNK_FREE; i++) {
        assert_true(i < 20);
        (void) snprintf(id, sizeof(id), "x%u", i);
        (void) snprintf(name, sizeof(name), "%s%u", next, i);
        assert_int_equal(book_in(&test, &ranks[2], id, name), SEL_BOOK_OK);
    }

    free(before);
    free(after);
    end(&test);
}


static void
test_reused_same(void **state)
{
    reused("s");
}


static void
test_reused_other(void **state)
{
    reused("t");
}


/* The request whose rank did not serve ends the binding that it holds. */
static void
test_failed(void **state)
{
    uint64_t  second;

    start();
    serve_in_ok(&test, &ranks[0], "a", "s", PROC);
    serve_in_ok(&test, &ranks[0], "b", "s", PROC);
    book_in_ok(&test, &ranks[0], "c", "s");
    expect_bound(&test, 1, "s", 1, 0, 3);

    /* not a call for what is no request of ours */

    assert_int_equal(failed(&test, "c"), SEL_BOOK_NONE);
    assert_int_equal(failed(&test, "z"), SEL_BOOK_NONE);
    expect_bound(&test, 1, "s", 1, 0, 3);

    assert_int_equal(failed(&test, "a"), SEL_BOOK_OK);
    assert_false(booked(&test, "a"));
    expect_free(&test, 1, "s");
    expect(&test, &ranks[0], 0, 0, 2);
    assert_int_equal(counted(&test, SEL_COUNT_SESSION_FAILED), 1);
    assert_int_equal(failed(&test, "a"), SEL_BOOK_NONE);

    /* the next is bound elsewhere; what fails late is not its business */

    assert_int_equal(book_by(&test, &other[0], "d", "s", 0), SEL_BOOK_OK);
    second = revision(&test, 1, "s");
    assert_int_equal(failed(&test, "b"), SEL_BOOK_OK);
    expect_bound(&test, 1, "s", 2, 0, 1);
    free_ok(&test, "c");
    expect_bound(&test, 1, "s", 2, 0, 1);
    assert_true(revision(&test, 1, "s") == second);
    expect(&test, &ranks[0], 0, 0, 0);
    assert_int_equal(counted(&test, SEL_COUNT_SESSION_FAILED), 1);
    end(&test);
}


static void
test_failed_without(void **state)
{
    sel_booking_t  booking;

    start();
    booking = booking_of(&ranks[0], sel_str("a"), seq(1, 2));
    booking.kind = SEL_BOOKING_ROUTER;
    booking.proc = PROC;
    assert_int_equal(session_book(&test, &ranks[0], &booking), SEL_BOOK_OK);
    book_in_ok(&test, &ranks[0], "b", "s");
    assert_int_equal(failed(&test, "a"), SEL_BOOK_OK);
    assert_false(booked(&test, "a"));
    expect_bound(&test, 1, "s", 1, 0, 1);
    expect(&test, &ranks[0], 0, 0, 1);
    end(&test);
}


/* A served request that ends well only lets go. */
static void
test_served(void **state)
{
    start();
    serve_in_ok(&test, &ranks[0], "a", "s", PROC);
    at(30);
    expect_bound(&test, 1, "s", 1, 0, 1);
    assert_int_equal(sel_served_free(&test.zone, sel_str("a")), SEL_BOOK_OK);
    at(39.999);
    expect_bound(&test, 1, "s", 1, 0, 0);
    at(40);
    expect_free(&test, 1, "s");
    end(&test);
}


/* The target is not there any more: the session moves with its next one. */
static void
expect_moves(uint32_t leases)
{
    uint64_t  old;

    expect_bound(&test, 1, "s", 1, 2, leases);
    old = revision(&test, 1, "s");
    book_in_ok(&test, &other[1], "next", "s");
    expect_bound(&test, 1, "s", 2, 1, 1);
    assert_true(revision(&test, 1, "s") != old);
    assert_int_equal(state_stats(&test.zone).sessions, 1);
    assert_int_equal(counted(&test, SEL_COUNT_SESSION_RANK_GONE), 1);
    assert_int_equal(counted(&test, SEL_COUNT_SESSION_BOUND), 2);
    assert_int_equal(counted(&test, SEL_COUNT_SESSION_REFUSED), 0);
    at(1000);
    expect_bound(&test, 1, "s", 2, 1, 1);
    free_ok(&test, "next");
    expect_bound(&test, 1, "s", 2, 1, 0);
    end(&test);
}


/* Bound to rank 2 of worker 1, whose version comes back. */
static uint64_t
bound(void)
{
    uint64_t  version;

    session_begin(&test, STATE_SIZE, 4, ranks);
    version = test.version;
    worker(&test, 2, 0, 2, other);
    book_in_ok(&test, &ranks[2], "a", "s");
    expect_bound(&test, 1, "s", 1, 2, 1);

    return version;
}


static void
keep_slots(void)
{
    uint32_t  i;

    for (i = 0; i < 4; i++) {
        test.ranks[i].slot = ranks[i].slot;
    }
}


static void
test_deleted(void **state)
{
    delete_ok(&test, 1, bound());
    assert_false(booked(&test, "a"));
    expect_moves(0);
}


static void
test_incomplete(void **state)
{
    assert_int_equal(commit(&test, 1, bound(), SEL_WORKER_INCOMPLETE, 0,
                            sel_str("blob")), SEL_COMMIT_OK);
    expect_moves(0);
}


static void
test_shrunk(void **state)
{
    uint64_t  version;

    version = bound();
    keep_slots();
    commit_ok(&test, 1, version, 2);
    assert_false(booked(&test, "a"));
    expect_moves(0);
}


static void
test_elsewhere(void **state)
{
    rank_t    away[4];
    uint64_t  version;

    version = bound();
    test.partition.routing_group = sel_str("west");
    worker(&test, 1, version, 4, away);
    assert_int_equal(away->partition, 2);

    /* bound to the same worker and rank in the other partition */
    book_in_ok(&test, &away[2], "b", "s");
    expect_bound(&test, 2, "s", 1, 2, 1);
    free_ok(&test, "b");
    at(10);
    assert_int_equal(sel_sessions_reap(&test.zone, books_now, 10), 2);
    expect_free(&test, 1, "s");
    at(0);
    end(&test);

    version = bound();
    test.partition.routing_group = sel_str("west");
    worker(&test, 1, version, 4, away);
    expect_moves(0);
}


/* A rank that goes and comes back is the one that the session is bound to. */
static void
test_comes_back(void **state)
{
    uint64_t  version, first;
    rank_t    again[4];

    version = bound();
    first = revision(&test, 1, "s");
    delete_ok(&test, 1, version);
    expect_bound(&test, 1, "s", 1, 2, 0);
    worker(&test, 1, 0, 4, again);
    assert_int_equal(book_in(&test, &other[0], "b", "s"), SEL_BOOK_BOUND);
    expect_free(&test, 1, "s");
    end(&test);

    version = bound();
    first = revision(&test, 1, "s");
    delete_ok(&test, 1, version);
    worker(&test, 1, 0, 4, again);
    assert_int_equal(book_in(&test, &ranks[2], "b", "s"), SEL_BOOK_GONE);
    expect_bound(&test, 1, "s", 1, 2, 0);
    book_in_ok(&test, &again[2], "b", "s");
    expect_bound(&test, 1, "s", 1, 2, 1);
    assert_true(revision(&test, 1, "s") == first);
    assert_int_equal(counted(&test, SEL_COUNT_SESSION_BOUND), 1);
    end(&test);
}


/* Ranks that stay when the worker is changed keep the session. */
static void
test_changed(void **state)
{
    uint64_t  version;

    version = bound();
    keep_slots();
    commit_ok(&test, 1, version, 3);
    assert_true(booked(&test, "a"));
    expect_bound(&test, 1, "s", 1, 2, 1);
    assert_int_equal(book_in(&test, &other[0], "b", "s"), SEL_BOOK_BOUND);
    end(&test);
}


/* A rank that goes ends its bookings, and they let go: time counts. */
static void
test_rank_removed(void **state)
{
    uint64_t  version;

    version = bound();
    at(60);
    keep_slots();
    commit_ok(&test, 1, version, 2);
    expect_bound(&test, 1, "s", 1, 2, 0);
    at(69.999);
    expect_bound(&test, 1, "s", 1, 2, 0);
    at(70);
    expect_free(&test, 1, "s");
    assert_int_equal(sel_sessions_reap(&test.zone, books_now, 10), 1);
    end(&test);
}


/* The lease ends with the expiry itself. */
static void
test_expired(void **state)
{
    start();
    book_in_ok(&test, &ranks[0], "a", "s");
    at(60);
    book_in_ok(&test, &ranks[0], "b", "s");
    at(300);
    assert_int_equal(sel_books_expire(&test.zone, second(1), 10), 1);
    expect_bound(&test, 1, "s", 1, 0, 1);
    at(400);
    assert_int_equal(sel_books_expire(&test.zone, second(61), 10), 1);
    expect_bound(&test, 1, "s", 1, 0, 0);
    at(409.999);
    expect_bound(&test, 1, "s", 1, 0, 0);
    at(410);
    expect_free(&test, 1, "s");

    /* by a new booking */

    sel_books_expiry(&test.zone, 100 * BOOKS_SECOND);
    book_in_ok(&test, &ranks[1], "c", "s");
    at(511);
    book_ok(&test, &ranks[2], "d", none, 1);
    assert_false(booked(&test, "c"));
    expect_bound(&test, 1, "s", 1, 1, 0);
    at(521);
    expect_free(&test, 1, "s");
    end(&test);
}


/* By a booking of the very session: it joins what it let expire. */
static void
test_expired_and_joined(void **state)
{
    uint64_t  first;

    start();
    sel_books_expiry(&test.zone, 100 * BOOKS_SECOND);
    book_in_ok(&test, &ranks[0], "a", "s");
    first = revision(&test, 1, "s");
    at(101);
    assert_int_equal(book_by(&test, &ranks[0], "b", "s", first), SEL_BOOK_OK);
    assert_false(booked(&test, "a"));
    expect_bound(&test, 1, "s", 1, 0, 1);
    assert_true(revision(&test, 1, "s") == first);
    end(&test);
}


static void
test_owner_died(void **state)
{
    start();
    serve_in_ok(&test, &ranks[0], "a", "s", PROC);
    book_in_ok(&test, &ranks[0], "b", "s");
    serve_in_ok(&test, &ranks[0], "c", "t", PROC);
    at(20);
    assert_int_equal(sel_books_bury(&test.zone, PROC), 2);
    expect_bound(&test, 1, "s", 1, 0, 1);
    expect_bound(&test, 1, "t", 1, 0, 0);
    at(30);
    expect_free(&test, 1, "t");
    expect_bound(&test, 1, "s", 1, 0, 1);
    end(&test);
}


/* A binding that goes with its bookings, wherever they are. */
static void
test_follows(void **state)
{
    uint64_t       first;
    sel_booking_t  booking;

    start();
    booking = session_booking(&ranks[0], "a", sel_str("s"), 0);
    booking.session.follows = true;
    assert_int_equal(session_book(&test, &ranks[0], &booking), SEL_BOOK_OK);
    expect_bound(&test, 1, "s", 1, 0, 1);
    first = revision(&test, 1, "s");

    /* the same rank: joined */

    booking = session_booking(&ranks[0], "b", sel_str("s"), first);
    booking.session.follows = true;
    assert_int_equal(session_book(&test, &ranks[0], &booking), SEL_BOOK_OK);
    expect_bound(&test, 1, "s", 1, 0, 2);

    /* another one: moved, though the first is there */

    booking = session_booking(&other[1], "c", sel_str("s"),
                              revision(&test, 1, "s"));
    booking.session.follows = true;
    assert_int_equal(session_book(&test, &other[1], &booking), SEL_BOOK_OK);
    expect_bound(&test, 1, "s", 2, 1, 1);
    assert_true(revision(&test, 1, "s") != first);
    assert_int_equal(state_stats(&test.zone).sessions, 1);
    assert_int_equal(counted(&test, SEL_COUNT_SESSION_MOVED), 1);

    /* the bookings on the old rank are live, and nothing to it */

    expect(&test, &ranks[0], 0, 0, 2);
    at(1);
    free_ok(&test, "c");
    expect_bound(&test, 1, "s", 2, 1, 0);
    at(8);
    free_ok(&test, "a");
    free_ok(&test, "b");
    expect(&test, &ranks[0], 0, 0, 0);
    at(10.999);
    expect_bound(&test, 1, "s", 2, 1, 0);
    at(11);
    expect_free(&test, 1, "s");
    end(&test);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        twice(test_refused_rank),
        twice(test_refused_worker),
        twice(test_refused_idle),
        twice(test_reused_same),
        twice(test_reused_other),
        twice(test_failed),
        twice(test_failed_without),
        twice(test_served),
        twice(test_deleted),
        twice(test_incomplete),
        twice(test_shrunk),
        twice(test_elsewhere),
        twice(test_comes_back),
        twice(test_changed),
        twice(test_rank_removed),
        twice(test_expired),
        twice(test_expired_and_joined),
        twice(test_owner_died),
        twice(test_follows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
