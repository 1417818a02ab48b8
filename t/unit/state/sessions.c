/*
 * Sessions: how a binding is made, joined and kept, and when its time is over.
 * Without it a client could be sent to another rank while it is served, a
 * binding could stay for ever or go too early, and two requests of a session
 * that begin at the same time could end on two ranks.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "session_test.h"


static test_t  test;
static rank_t  ranks[4];


static void
test_bind_and_join(void **state)
{
    uint64_t  bound;

    session_begin(&test, STATE_SIZE, 2, ranks);
    expect_free(&test, 1, "s");

    book_in_ok(&test, &ranks[1], "a", "s");
    expect_bound(&test, 1, "s", 1, 1, 1);
    bound = revision(&test, 1, "s");

    book_in_ok(&test, &ranks[1], "b", "s");
    expect_bound(&test, 1, "s", 1, 1, 2);
    book_in_ok(&test, &ranks[1], "c", "s");
    expect_bound(&test, 1, "s", 1, 1, 3);
    assert_true(revision(&test, 1, "s") == bound);

    free_ok(&test, "a");
    expect_bound(&test, 1, "s", 1, 1, 2);
    free_ok(&test, "c");
    free_ok(&test, "b");
    expect_bound(&test, 1, "s", 1, 1, 0);

    /* an idle one is joined as well */
    book_in_ok(&test, &ranks[1], "d", "s");
    expect_bound(&test, 1, "s", 1, 1, 1);
    assert_true(revision(&test, 1, "s") == bound);
    assert_int_equal(state_stats(&test.zone).sessions, 1);
    assert_int_equal(counted(&test, SEL_COUNT_SESSION_BOUND), 1);
    end(&test);
}


/* Bookings without a session have nothing to do with one, and an id of no
   bytes is an id. */
static void
test_without_session(void **state)
{
    session_begin(&test, STATE_SIZE, 2, ranks);
    book_ok(&test, &ranks[0], "a", none, 1);
    assert_int_equal(state_stats(&test.zone).sessions, 0);
    expect_free(&test, 1, "");

    book_in_ok(&test, &ranks[1], "b", "");
    expect_bound(&test, 1, "", 1, 1, 1);
    book_ok(&test, &ranks[0], "c", none, 1);
    expect_bound(&test, 1, "", 1, 1, 1);
    free_ok(&test, "a");
    expect_bound(&test, 1, "", 1, 1, 1);
    assert_int_equal(state_stats(&test.zone).sessions, 1);
    end(&test);
}


/* The example of the rules: TTL 10 s, booked at 0, freed at 60. */
static void
test_idle_time(void **state)
{
    session_begin(&test, STATE_SIZE, 2, ranks);
    book_in_ok(&test, &ranks[0], "a", "s");

    at(60);
    expect_bound(&test, 1, "s", 1, 0, 1);
    assert_int_equal(sel_sessions_reap(&test.zone, second(1e6), 10), 0);
    free_ok(&test, "a");
    expect_bound(&test, 1, "s", 1, 0, 0);

    at(69.9);
    expect_bound(&test, 1, "s", 1, 0, 0);
    assert_true(session_at(&test, 1, "s", second(70) - 1).revision != 0);
    assert_int_equal(sel_sessions_reap(&test.zone, second(70) - 1, 10), 0);

    at(70);
    expect_free(&test, 1, "s");
    assert_int_equal(sel_sessions_reap(&test.zone, second(70), 10), 1);
    expect_free(&test, 1, "s");
    assert_int_equal(state_stats(&test.zone).sessions, 0);
    assert_int_equal(counted(&test, SEL_COUNT_SESSION_IDLE), 1);
    end(&test);
}


/* It is the end of the last booking that counts, and looking does not. */
static void
test_time_of_the_last(void **state)
{
    session_begin(&test, STATE_SIZE, 2, ranks);
    book_in_ok(&test, &ranks[0], "a", "s");
    at(5);
    book_in_ok(&test, &ranks[0], "b", "s");
    at(20);
    free_ok(&test, "b");
    at(40);
    expect_bound(&test, 1, "s", 1, 0, 1);
    free_ok(&test, "a");
    at(49.999);
    expect_bound(&test, 1, "s", 1, 0, 0);

    /* joined in the last moment */
    book_in_ok(&test, &ranks[0], "c", "s");
    at(100);
    expect_bound(&test, 1, "s", 1, 0, 1);
    free_ok(&test, "c");
    at(109);
    expect_bound(&test, 1, "s", 1, 0, 0);
    at(110);
    expect_free(&test, 1, "s");
    end(&test);
}


/* Counts for what is idle as for what is held. */
static void
test_another_ttl(void **state)
{
    session_begin(&test, STATE_SIZE, 2, ranks);
    book_in_ok(&test, &ranks[0], "a", "idle");
    book_in_ok(&test, &ranks[0], "b", "held");
    book_in_ok(&test, &ranks[0], "c", "joined");
    free_ok(&test, "a");
    free_ok(&test, "c");

    at(1);
    sel_sessions_ttl(&test.zone, 2 * BOOKS_SECOND);
    free_ok(&test, "b");
    book_in_ok(&test, &ranks[0], "d", "joined");
    free_ok(&test, "d");

    at(1.999);
    expect_bound(&test, 1, "idle", 1, 0, 0);
    at(2);
    expect_free(&test, 1, "idle");
    at(2.999);
    expect_bound(&test, 1, "held", 1, 0, 0);
    expect_bound(&test, 1, "joined", 1, 0, 0);
    at(3);
    expect_free(&test, 1, "held");
    expect_free(&test, 1, "joined");

    /* none at all: dead as soon as it is idle */
    sel_sessions_ttl(&test.zone, 0);
    book_in_ok(&test, &ranks[0], "e", "short");
    expect_bound(&test, 1, "short", 1, 0, 1);
    free_ok(&test, "e");
    expect_free(&test, 1, "short");
    end(&test);
}


/* A reservation that looks at an idle binding gives it its whole time. */
static void
test_use(void **state)
{
    sel_binding_t  found;

    session_begin(&test, STATE_SIZE, 2, ranks);
    book_in_ok(&test, &ranks[0], "a", "used");
    book_in_ok(&test, &ranks[0], "b", "older");
    book_in_ok(&test, &ranks[1], "c", "held");
    free_ok(&test, "a");
    free_ok(&test, "b");

    at(6);
    found = sel_session_use(&test.zone, 1, sel_str("used"), books_now);
    assert_int_equal(found.revision, revision(&test, 1, "used"));
    assert_int_equal(found.worker_id, 1);
    assert_int_equal(found.dp_rank, 0);
    found = sel_session_use(&test.zone, 1, sel_str("held"), books_now);
    assert_int_equal(found.dp_rank, 1);
    expect_bound(&test, 1, "used", 1, 0, 0);
    expect_bound(&test, 1, "held", 1, 1, 1);
    assert_int_equal(sel_session_use(&test.zone, 2, sel_str("used"),
                                     books_now).revision, 0);
    assert_int_equal(sel_session_use(&test.zone, 1, sel_str("none"),
                                     books_now).revision, 0);

    at(10);
    expect_free(&test, 1, "older");
    assert_int_equal(sel_session_use(&test.zone, 1, sel_str("older"),
                                     books_now).revision, 0);
    expect_free(&test, 1, "older");
    at(15.999);
    expect_bound(&test, 1, "used", 1, 0, 0);
    at(16);
    expect_free(&test, 1, "used");
    expect_bound(&test, 1, "held", 1, 1, 1);
    end(&test);
}


/* And ends one whose rank has gone, if bookings hold it, too. */
static void
test_use_gone(void **state)
{
    session_begin(&test, STATE_SIZE, 2, ranks);
    book_in_ok(&test, &ranks[0], "a", "idle");
    free_ok(&test, "a");
    delete_ok(&test, 1, test.version);
    expect_bound(&test, 1, "idle", 1, 0, 0);

    assert_int_equal(sel_session_use(&test.zone, 1, sel_str("idle"),
                                     books_now).revision, 0);
    expect_free(&test, 1, "idle");
    assert_int_equal(state_stats(&test.zone).sessions, 0);
    assert_int_equal(counted(&test, SEL_COUNT_SESSION_RANK_GONE), 1);
    end(&test);
}


/* A dead one, reaped or not, is as if it were not there. */
static void
test_dead(void **state)
{
    uint64_t  old;

    session_begin(&test, STATE_SIZE, 2, ranks);
    book_in_ok(&test, &ranks[0], "a", "s");
    old = revision(&test, 1, "s");
    free_ok(&test, "a");

    at(10);
    assert_int_equal(book_by(&test, &ranks[0], "b", "s", old),
                     SEL_BOOK_MOVED);
    assert_false(booked(&test, "b"));

    /* another rank, and nobody minds */
    assert_int_equal(book_by(&test, &ranks[1], "c", "s", 0), SEL_BOOK_OK);
    expect_bound(&test, 1, "s", 1, 1, 1);
    assert_true(revision(&test, 1, "s") != old);
    assert_int_equal(state_stats(&test.zone).sessions, 1);
    assert_int_equal(counted(&test, SEL_COUNT_SESSION_IDLE), 1);
    assert_int_equal(counted(&test, SEL_COUNT_SESSION_MOVED), 0);
    assert_int_equal(counted(&test, SEL_COUNT_SESSION_BOUND), 2);
    end(&test);
}


/* So it is when more are dead than one booking takes along. */
static void
test_dead_among_many(void **state)
{
    char      id[16];
    uint32_t  i;

    session_begin(&test, STATE_SIZE, 2, ranks);

    for (i = 0; i < 30; i++) {
        (void) snprintf(id, sizeof(id), "%u", i);
        at(i / 10.0);
        book_in_ok(&test, &ranks[0], id, id);
        free_ok(&test, id);
    }

    at(100);

    for (i = 29; i > 26; i--) {
        (void) snprintf(id, sizeof(id), "%u", i);
        expect_free(&test, 1, id);
        assert_int_equal(book_by(&test, &ranks[1], id, id, 0), SEL_BOOK_OK);
        expect_bound(&test, 1, id, 1, 1, 1);
    }

    (void) sel_sessions_reap(&test.zone, books_now, 100);
    session_check(&test);
    assert_int_equal(state_stats(&test.zone).sessions, 3);
    assert_int_equal(counted(&test, SEL_COUNT_SESSION_IDLE), 30);
    end(&test);
}


/* Oldest first, and not more than asked for. */
static void
test_reap(void **state)
{
    char      id[16];
    uint32_t  i, k;

    session_begin(&test, STATE_SIZE, 2, ranks);
    book_in_ok(&test, &ranks[1], "held", "held");

    for (i = 0; i < 8; i++) {
        (void) snprintf(id, sizeof(id), "%u", i);
        book_in_ok(&test, &ranks[0], id, id);
    }

    /* the order in which they become idle is another than the one in which
       they were made: 0, 3, 6, 1, 4, 7, 2, 5 */

    for (i = 0, k = 0; i < 8; i++, k = (k + 3) % 8) {
        (void) snprintf(id, sizeof(id), "%u", k);
        at(i);
        free_ok(&test, id);
    }

    session_check(&test);
    assert_int_equal(sel_sessions_reap(&test.zone, second(9.999), 10), 0);
    assert_int_equal(sel_sessions_reap(&test.zone, second(12), 0), 0);
    assert_int_equal(sel_sessions_reap(&test.zone, second(12), 2), 2);
    expect_free(&test, 1, "0");
    expect_free(&test, 1, "3");
    expect_bound(&test, 1, "6", 1, 0, 0);
    assert_int_equal(sel_sessions_reap(&test.zone, second(12), 10), 1);
    expect_free(&test, 1, "6");
    expect_bound(&test, 1, "1", 1, 0, 0);
    assert_int_equal(sel_sessions_reap(&test.zone, second(12), 10), 0);
    assert_int_equal(state_stats(&test.zone).sessions, 6);

    /* a booking of a session takes four along */

    at(1000);
    book_in_ok(&test, &ranks[1], "x", "held");
    session_check(&test);
    assert_int_equal(state_stats(&test.zone).sessions, 2);
    expect_bound(&test, 1, "held", 1, 1, 2);
    assert_int_equal(sel_sessions_reap(&test.zone, books_now, 10), 1);
    assert_int_equal(counted(&test, SEL_COUNT_SESSION_IDLE), 8);
    expect_bound(&test, 1, "held", 1, 1, 2);
    end(&test);
}


/* Nothing has changed with this result. */
static void
expect_moved(const rank_t *rank, uint64_t chosen_by)
{
    uint32_t          n, m;
    uint64_t          chunks;
    session_shot_t   *before, *after;
    sel_rank_load_t   load;

    session_check(&test);
    before = session_shoot(&test.zone, &n);
    chunks = state_stats(&test.zone).chunks_free;
    load = glance(&test, rank, none);

    assert_int_equal(book_by(&test, rank, "new", "s", chosen_by),
                     SEL_BOOK_MOVED);

    session_check(&test);
    after = session_shoot(&test.zone, &m);
    assert_int_equal(n, m);
    assert_memory_equal(before, after, (n + 1) * sizeof(session_shot_t));
    assert_int_equal(state_stats(&test.zone).chunks_free, chunks);
    assert_false(booked(&test, "new"));
    assert_int_equal(glance(&test, rank, none).requests, load.requests);
    free(before);
    free(after);
}


/* The rank was chosen by a binding that is not the one there is. */
static void
test_stale(void **state)
{
    uint64_t  first, second;

    session_begin(&test, STATE_SIZE, 2, ranks);
    expect_moved(&ranks[0], 1);

    book_in_ok(&test, &ranks[0], "a", "s");
    first = revision(&test, 1, "s");
    expect_moved(&ranks[0], 0);
    expect_moved(&ranks[1], 0);
    expect_moved(&ranks[0], first + 1);
    expect_moved(&ranks[1], first - 1);
    expect_bound(&test, 1, "s", 1, 0, 1);

    /* the same rank again, but another binding */

    assert_int_equal(book_in(&test, &ranks[1], "b", "s"), SEL_BOOK_BOUND);
    expect_moved(&ranks[0], first);
    expect_moved(&ranks[1], first);
    book_in_ok(&test, &ranks[0], "c", "s");
    second = revision(&test, 1, "s");
    assert_true(second != first);
    expect_moved(&ranks[0], first);
    expect_moved(&ranks[1], first);
    expect_moved(&ranks[1], 0);

    /* an idle one is one */

    free_ok(&test, "c");
    expect_moved(&ranks[0], first);
    expect_moved(&ranks[1], 0);
    expect_bound(&test, 1, "s", 1, 0, 0);
    end(&test);
}


/* A booking that is not made leaves the binding alone. */
static void
test_not_booked(void **state)
{
    uint64_t  bound;
    rank_t    gone;

    session_begin(&test, STATE_SIZE, 2, ranks);
    gone = ranks[0];
    gone.epoch += 100;

    book_ok(&test, &ranks[0], "a", none, 1);
    assert_int_equal(book_in(&test, &ranks[0], "a", "s"), SEL_BOOK_TAKEN);
    expect_free(&test, 1, "s");
    assert_int_equal(book_in(&test, &gone, "b", "s"), SEL_BOOK_GONE);
    expect_free(&test, 1, "s");
    assert_int_equal(state_stats(&test.zone).sessions, 0);

    book_in_ok(&test, &ranks[0], "c", "s");
    bound = revision(&test, 1, "s");
    assert_int_equal(book_in(&test, &ranks[0], "a", "s"), SEL_BOOK_TAKEN);
    assert_int_equal(book_in(&test, &ranks[0], "c", "s"), SEL_BOOK_TAKEN);
    expect_bound(&test, 1, "s", 1, 0, 1);
    assert_int_equal(book_in(&test, &gone, "b", "s"), SEL_BOOK_GONE);
    expect_bound(&test, 1, "s", 1, 0, 1);

    free_ok(&test, "c");
    assert_int_equal(book_in(&test, &ranks[0], "a", "s"), SEL_BOOK_TAKEN);
    expect_bound(&test, 1, "s", 1, 0, 0);
    assert_true(revision(&test, 1, "s") == bound);
    at(10);
    expect_free(&test, 1, "s");
    end(&test);
}


static uint32_t
choose(void *data, sel_booking_t *booking, const sel_rank_load_t *loads,
    uint32_t n)
{
    return *(uint32_t *) data;
}


/* The rank that is chosen inside is the one that counts. */
static void
test_chosen(void **state)
{
    uint32_t         i, want, chosen;
    sel_booking_t    booking;
    sel_rank_load_t  loads[4];

    session_begin(&test, STATE_SIZE, 4, ranks);

    for (i = 0; i < 4; i++) {
        loads[i].slot = ranks[i].slot;
        loads[i].epoch = ranks[i].epoch;
    }

    booking = session_booking(&ranks[0], "a", sel_str("s"), 0);
    want = SEL_CHOOSE_NONE;
    assert_int_equal(sel_book(&test.zone, &booking, loads, 4, choose, &want,
                              &chosen), SEL_BOOK_REFUSED);
    expect_free(&test, 1, "s");

    want = 2;
    assert_int_equal(sel_book(&test.zone, &booking, loads, 4, choose, &want,
                              &chosen), SEL_BOOK_OK);
    expect_bound(&test, 1, "s", 1, 2, 1);

    booking = session_booking(&ranks[0], "b", sel_str("s"),
                              revision(&test, 1, "s"));
    want = SEL_CHOOSE_NONE;
    assert_int_equal(sel_book(&test.zone, &booking, loads, 4, choose, &want,
                              &chosen), SEL_BOOK_REFUSED);
    expect_bound(&test, 1, "s", 1, 2, 1);

    want = 2;
    assert_int_equal(sel_book(&test.zone, &booking, loads, 4, choose, &want,
                              &chosen), SEL_BOOK_OK);
    expect_bound(&test, 1, "s", 1, 2, 2);

    booking.id = sel_str("c");
    want = 3;
    assert_int_equal(sel_book(&test.zone, &booking, loads, 4, choose, &want,
                              &chosen), SEL_BOOK_BOUND);
    expect_free(&test, 1, "s");
    expect(&test, &ranks[3], 0, 0, 0);
    end(&test);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        twice(test_bind_and_join),
        twice(test_without_session),
        twice(test_idle_time),
        twice(test_time_of_the_last),
        twice(test_another_ttl),
        twice(test_use),
        twice(test_use_gone),
        twice(test_dead),
        twice(test_dead_among_many),
        twice(test_reap),
        twice(test_stale),
        twice(test_not_booked),
        twice(test_chosen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
