/*
 * Sessions: their ids, and how many bindings there can be.  Without it two ids
 * could be taken for one, bindings that nobody uses could keep requests out,
 * and one that is held could be dropped for room.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "pending_test.h"
#include "session_test.h"


#define MANY      SEL_SESSION_MAX
#define BALLAST   20000

#define expect_id(test, partition, session, worker_id, dp_rank, leases)       \
    session_expect(__LINE__, test, partition, session, worker_id, dp_rank,    \
                   leases)


static const sel_pending_limits_t  no_limits = {
    .ttl = 1000000 * BOOKS_SECOND, .max = UINT32_MAX, .size = UINT64_MAX
};

static test_t  test;
static rank_t  ranks[4];


static const char *
numbered(const char *prefix, uint32_t i)
{
    static char      text[8][32];
    static uint32_t  next;

    char  *room;

    room = text[next++ % 8];
    (void) snprintf(room, 32, "%s%u", prefix, i);

    return room;
}


static sel_str_t
of_size(uint32_t len, const uint8_t *text)
{
    return (sel_str_t) { len, text };
}


static void
book_id_in(const rank_t *rank, const char *id, sel_str_t session)
{
    sel_booking_t  booking;

    booking = session_booking(rank, id, session,
                              sel_session_find(&test.zone, rank->partition,
                                               session, books_now).revision);
    assert_int_equal(session_book(&test, rank, &booking), SEL_BOOK_OK);
}


/* All lengths at which something changes; each is the beginning of the
   next. */
static void
test_ids(void **state)
{
    static const uint32_t  sizes[] = { 0, 1, 184, 185, 186, 248, 249, 255,
                                       256 };

    uint8_t    text[256];
    uint32_t   i, k, n;
    uint64_t   chunks;

    for (i = 0; i < sizeof(text); i++) {
        text[i] = (uint8_t) (i * 7 + (i == 5 ? 0 : 3));
    }

    session_begin(&test, STATE_SIZE, 4, ranks);
    chunks = state_stats(&test.zone).chunks_free;
    n = sel_countof(sizes);

    for (i = 0; i < n; i++) {
        assert_int_equal(sel_session_find(&test.zone, 1,
                             of_size(sizes[i], text),
                             books_now).revision, 0);
        book_id_in(&ranks[i % 4], numbered("a", i),
                   of_size(sizes[i], text));
        book_id_in(&ranks[i % 4], numbered("b", i),
                   of_size(sizes[i], text));
        expect_id(&test, 1, of_size(sizes[i], text), 1, i % 4, 2);
    }

    /* one byte before or behind is another id */

    for (i = 0; i <= 256; i++) {
        for (k = 0; k < n && sizes[k] != i; k++) { /* void */ }

        assert_true((sel_session_find(&test.zone, 1, of_size(i, text),
                                      books_now).revision != 0) == (k < n));
    }

    /* and so is one with another byte, wherever it is */

    for (i = 0; i < n; i++) {
        for (k = 0; k < sizes[i]; k++) {
            text[k] ^= 0x80;
            assert_int_equal(sel_session_find(&test.zone, 1,
                                 of_size(sizes[i], text),
                                 books_now).revision, 0);
            text[k] ^= 0x80;
        }
    }

    for (i = 0; i < n; i++) {
        expect_id(&test, 1, of_size(sizes[i], text), 1, i % 4, 2);
        free_ok(&test, numbered("a", i));
        free_ok(&test, numbered("b", i));
        expect_id(&test, 1, of_size(sizes[i], text), 1, i % 4, 0);
    }

    at(10);
    assert_int_equal(sel_sessions_reap(&test.zone, books_now, 100), n);
    session_check(&test);
    expect_chunks(&test, chunks);
    end(&test);
}


/* All bytes may be in one: ids of two bytes, long ones that differ at their
   end only. */
static void
test_bytes(void **state)
{
    uint8_t   text[200];
    uint32_t  i, len;

    for (len = 2; len <= 200; len += 198) {
        session_begin(&test, STATE_SIZE, 4, ranks);
        memset(text, 0, sizeof(text));

        for (i = 0; i < 256; i++) {
            text[len - 1] = (uint8_t) i;
            book_id_in(&ranks[i % 4], numbered("a", i),
                       of_size(len, text));
        }

        session_check(&test);
        books_unchecked = true;

        for (i = 0; i < 256; i++) {
            text[len - 1] = (uint8_t) i;
            expect_id(&test, 1, of_size(len, text), 1, i % 4, 1);
            assert_int_equal(sel_session_find(&test.zone, 1,
                                 of_size(len - 1, text),
                                 books_now).revision, 0);
        }

        books_unchecked = false;
        end(&test);
    }
}


/* Each partition has its own. */
static void
test_partitions(void **state)
{
    rank_t  other;

    session_begin(&test, STATE_SIZE, 2, ranks);
    test.partition.routing_group = sel_str("west");
    worker(&test, 2, 0, 1, &other);
    assert_int_equal(other.partition, 2);

    book_in_ok(&test, &ranks[1], "a", "s");
    expect_free(&test, 2, "s");
    book_in_ok(&test, &other, "b", "s");
    expect_bound(&test, 1, "s", 1, 1, 1);
    expect_bound(&test, 2, "s", 2, 0, 1);
    assert_true(revision(&test, 1, "s") != revision(&test, 2, "s"));

    assert_int_equal(book_in(&test, &ranks[0], "c", "s"), SEL_BOOK_BOUND);
    expect_free(&test, 1, "s");
    expect_bound(&test, 2, "s", 2, 0, 1);
    free_ok(&test, "b");
    expect_bound(&test, 2, "s", 2, 0, 0);
    expect_free(&test, 1, "s");
    expect_free(&test, 3, "s");
    end(&test);
}


/* A partition has so many at most; then bookings do without. */
static void
test_most(void **state)
{
    rank_t    other;
    uint32_t  i;
    uint64_t  version, first;

    session_begin(&test, 64 << 20, 2, ranks);
    version = test.version;
    sel_sessions_ttl(&test.zone, 1000000 * BOOKS_SECOND);
    books_unchecked = true;
    book_in_ok(&test, &ranks[0], "held", "held");

    for (i = 1; i < MANY; i++) {
        assert_int_equal(book_by(&test, &ranks[0], "a", numbered("s", i), 0),
                         SEL_BOOK_OK);
        free_ok(&test, "a");
    }

    books_unchecked = false;
    session_check(&test);
    assert_int_equal(state_stats(&test.zone).sessions, MANY);
    expect_bound(&test, 1, numbered("s", MANY - 1), 1, 0, 0);

    /* the next one */

    assert_int_equal(book_by(&test, &ranks[1], "b", "new", 0), SEL_BOOK_OK);
    assert_true(booked(&test, "b"));
    expect(&test, &ranks[1], 0, 0, 1);
    expect_free(&test, 1, "new");
    assert_int_equal(state_stats(&test.zone).sessions, MANY);
    assert_int_equal(counted(&test, SEL_COUNT_SESSION_UNBOUND), 1);

    /* those that are bound are joined, and they move */

    book_in_ok(&test, &ranks[0], "c", "s1");
    expect_bound(&test, 1, "s1", 1, 0, 1);

    test.partition.routing_group = sel_str("west");
    worker(&test, 2, 0, 1, &other);
    book_in_ok(&test, &other, "d", "new");
    expect_bound(&test, 2, "new", 2, 0, 1);
    test.partition.routing_group = sel_str("east");
    worker(&test, 3, 0, 1, &other);
    delete_ok(&test, 1, version);
    first = revision(&test, 1, "s2");
    book_in_ok(&test, &other, "e", "s2");
    expect_bound(&test, 1, "s2", 3, 0, 1);
    assert_true(revision(&test, 1, "s2") != first);
    assert_int_equal(counted(&test, SEL_COUNT_SESSION_UNBOUND), 1);

    /* one goes, another can come */

    assert_int_equal(book_by(&test, &other, "f", "new", 0), SEL_BOOK_OK);
    expect_free(&test, 1, "new");
    assert_int_equal(sel_sessions_reap(&test.zone, UINT64_MAX, 1), 1);
    assert_int_equal(book_by(&test, &other, "g", "new", 0), SEL_BOOK_OK);
    expect_bound(&test, 1, "new", 3, 0, 1);
    end(&test);
}


/* Keeps the smallest bookings until there is no more room for one. */
static uint32_t
fill(const rank_t *rank, const char *prefix)
{
    uint32_t           i;
    sel_book_result_t  result;

    for (i = 0; i < BALLAST; i++) {
        result = book(&test, rank, numbered(prefix, i), none, 1);

        if (result != SEL_BOOK_OK) {
            assert_int_equal(result, SEL_BOOK_FULL);
            break;
        }
    }

    assert_true(i < BALLAST);
    assert_int_equal(state_stats(&test.zone).chunks_free, 0);

    return i;
}


/* A zone that idle bindings have filled has room for all else. */
static void
test_room_for_all(void **state)
{
    uint32_t       i;
    sel_pending_t  put;

    session_begin(&test, SEL_ZONE_MIN_SIZE, 2, ranks);

    for (i = 0; state_stats(&test.zone).chunks_free > 1; i++) {
        book_in_ok(&test, &ranks[0], "a", numbered("idle", i));
        free_ok(&test, "a");
    }

    put = pending_make(1, sel_str("p"), 100, 40, books_now);
    assert_true(sel_pending_put(&test.zone, &put, &no_limits));
    assert_int_equal(state_stats(&test.zone).pending, 1);
    session_check(&test);

    for (i = 0; i < 20; i++) {
        assert_non_null(sel_meter_attach(&test.zone, i));
    }

    session_check(&test);
    forget_slots(&test);
    commit_ok(&test, 2, 0, 60);
    session_check(&test);
    assert_int_equal(state_stats(&test.zone).pending, 1);
    end(&test);
}


/* Idle bindings go first, then pending selections, held bindings never. */
static void
test_room(void **state)
{
    bool           idle[40];
    uint32_t       i, k, n, pending;
    sel_pending_t  put;

    session_begin(&test, SEL_ZONE_MIN_SIZE, 2, ranks);

    for (i = 0; i < 40; i++) {
        book_in_ok(&test, &ranks[0], numbered("h", i), numbered("held", i));
        book_in_ok(&test, &ranks[0], numbered("i", i), numbered("idle", i));
    }

    /* idle since 0, 7, 14 ... */

    for (i = 0, k = 0; i < 40; i++, k = (k + 7) % 40) {
        at(i / 10.0);
        free_ok(&test, numbered("i", k));
    }

    for (i = 0; i < 10; i++) {
        put = pending_make(1, sel_cstr(numbered("p", i)), 1, 40, books_now);
        assert_true(sel_pending_put(&test.zone, &put, &no_limits));
    }

    for (n = 0; ; n++) {
        assert_true(n < BALLAST);

        if (book(&test, &ranks[1], numbered("b", n), none, 1) != SEL_BOOK_OK) {
            break;
        }

        pending = (uint32_t) state_stats(&test.zone).pending;

        if (n % 50 == 0 || state_stats(&test.zone).sessions < 80) {
            session_check(&test);
        }

        assert_true(state_stats(&test.zone).sessions <= 80);

        /* selections go after all that are idle */

        assert_true(pending == 10 || state_stats(&test.zone).sessions == 40);

        /* those that were idle longest go first */

        for (i = 0, k = 0; i < 40; i++, k = (k + 7) % 40) {
            idle[i] = revision(&test, 1, numbered("idle", k)) != 0;
            assert_true(i == 0 || idle[i] || !idle[i - 1]);
        }
    }

    assert_int_equal(state_stats(&test.zone).sessions, 40);
    assert_int_equal(state_stats(&test.zone).pending, 0);
    assert_int_equal(counted(&test, SEL_COUNT_SESSION_NO_ROOM), 40);

    for (i = 0; i < 40; i++) {
        expect_bound(&test, 1, numbered("held", i), 1, 0, 1);
    }

    expect(&test, &ranks[1], n, 0, n);
    end(&test);
}


/* A pending selection finds no room in place of a binding that is held. */
static void
test_commit_in_room(void **state)
{
    rank_t    more;
    uint32_t  i, n;

    session_begin(&test, SEL_ZONE_MIN_SIZE, 2, ranks);

    for (i = 0; i < 30; i++) {
        book_in_ok(&test, &ranks[0], numbered("i", i), numbered("idle", i));
    }

    for (i = 0; i < 30; i++) {
        free_ok(&test, numbered("i", i));
    }

    book_in_ok(&test, &ranks[0], "held", "held");

    /* bookings until nothing is free but what idle bindings take */

    for (n = 0; state_stats(&test.zone).chunks_free > 0; n++) {
        book_ok(&test, &ranks[1], numbered("b", n), none, 1);
    }

    assert_int_equal(state_stats(&test.zone).sessions, 31);

    /* an output block needs a chunk for its weights; a worker needs three */

    output_ok(&test, "b1", 0.5);
    assert_int_equal(state_stats(&test.zone).sessions, 30);
    worker(&test, 2, 0, 1, &more);
    session_check(&test);
    assert_true(state_stats(&test.zone).sessions < 30);
    assert_true(state_stats(&test.zone).sessions > 20);
    expect_bound(&test, 1, "held", 1, 0, 1);
    expect_bound(&test, 1, "idle29", 1, 0, 0);
    expect_free(&test, 1, "idle0");
    end(&test);
}


/* Room for the booking alone: it is made without a binding. */
static void
test_alone(void **state)
{
    uint32_t  i, k, n;
    uint64_t  bound;

    static uint8_t  text[256];

    session_begin(&test, SEL_ZONE_MIN_SIZE, 2, ranks);
    book_in_ok(&test, &ranks[0], "h", "held");
    bound = revision(&test, 1, "held");
    n = fill(&ranks[1], "b");
    k = 0;

    assert_int_equal(book_in(&test, &ranks[0], "a", "s"), SEL_BOOK_FULL);
    expect_free(&test, 1, "s");
    assert_int_equal(counted(&test, SEL_COUNT_SESSION_UNBOUND), 0);

    /* one chunk is the booking's */

    free_ok(&test, numbered("b", k++));
    book_in_ok(&test, &ranks[0], "a", "s");
    assert_true(booked(&test, "a"));
    expect_free(&test, 1, "s");
    expect(&test, &ranks[0], 0, 0, 2);
    assert_int_equal(counted(&test, SEL_COUNT_SESSION_UNBOUND), 1);
    assert_int_equal(state_stats(&test.zone).chunks_free, 0);
    free_ok(&test, "a");

    /* the binding that there is costs nothing */

    book_in_ok(&test, &ranks[0], "a", "held");
    expect_bound(&test, 1, "held", 1, 0, 2);
    assert_int_equal(book_in(&test, &ranks[0], "c", "held"), SEL_BOOK_FULL);
    expect_bound(&test, 1, "held", 1, 0, 2);
    assert_true(revision(&test, 1, "held") == bound);
    free_ok(&test, "a");

    /* two are enough for both, but not with an id that is long */

    free_ok(&test, numbered("b", k++));
    assert_int_equal(state_stats(&test.zone).chunks_free, 2);
    book_id_in(&ranks[0], "a", of_size(185, text));
    session_expect_free(__LINE__, &test, 1, of_size(185, text));
    assert_int_equal(state_stats(&test.zone).chunks_free, 1);
    free_ok(&test, "a");
    book_id_in(&ranks[0], "a", of_size(184, text));
    expect_id(&test, 1, of_size(184, text), 1, 0, 1);
    assert_int_equal(state_stats(&test.zone).chunks_free, 0);

    /* all of it comes back, and can be had again */

    free_ok(&test, "a");
    at(10);
    assert_int_equal(sel_sessions_reap(&test.zone, books_now, 10), 1);

    for (i = k; i < n; i++) {
        free_ok(&test, numbered("b", i));
    }

    free_ok(&test, "h");
    session_check(&test);
    book_id_in(&ranks[0], "a", of_size(256, text));
    expect_id(&test, 1, of_size(256, text), 1, 0, 1);
    end(&test);
}


/* A refusal for want of room leaves the binding, whatever would become of
   it. */
static void
test_full_keeps(void **state)
{
    uint64_t        version, bound;
    rank_t          again[2];
    sel_booking_t   booking;

    session_begin(&test, SEL_ZONE_MIN_SIZE, 2, ranks);
    version = test.version;
    worker(&test, 2, 0, 2, again);
    book_in_ok(&test, &ranks[0], "h", "s");
    bound = revision(&test, 1, "s");
    (void) fill(&again[0], "b");

    booking = session_booking(&again[1], "a", sel_str("s"), bound);
    booking.session.follows = true;
    assert_int_equal(session_book(&test, &again[1], &booking), SEL_BOOK_FULL);
    expect_bound(&test, 1, "s", 1, 0, 1);
    assert_true(revision(&test, 1, "s") == bound);

    /* a move gives up what it replaces: the booking takes the chunk that the
       old one had, so it is made in any case */

    delete_ok(&test, 1, version);
    assert_false(booked(&test, "h"));
    session_check(&test);
    book_in_ok(&test, &again[1], "a", "s");
    session_check(&test);
    assert_int_not_equal(session_at(&test, 1, "s", books_now).worker_id, 1);
    end(&test);
}


/* What a partition that is dropped leaves behind is found by nobody, and its
   room comes back. */
static void
test_idle_partition(void **state)
{
    rank_t    rank;
    uint32_t  i;
    uint64_t  version;

    session_begin(&test, STATE_SIZE, 1, ranks);
    version = test.version;
    book_in_ok(&test, &ranks[0], "a", "s");
    free_ok(&test, "a");
    delete_ok(&test, 1, version);
    expect_bound(&test, 1, "s", 1, 0, 0);

    for (i = 0; i < 200; i++) {
        test.partition.routing_group = sel_cstr(numbered("group", i));
        worker(&test, 2, 0, 1, &rank);
        version = test.version;
        book_in_ok(&test, &rank, "a", "s");
        expect_bound(&test, rank.partition, "s", 2, 0, 1);
        delete_ok(&test, 2, version);
        session_check(&test);
    }

    test.partition.routing_group = sel_str("east");
    worker(&test, 1, 0, 1, &rank);
    assert_int_not_equal(rank.partition, 1);
    expect_free(&test, rank.partition, "s");

    at(1000);
    (void) sel_sessions_reap(&test.zone, books_now, 1000);
    session_check(&test);
    assert_int_equal(state_stats(&test.zone).sessions, 0);
    end(&test);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        twice(test_ids),
        twice(test_bytes),
        twice(test_partitions),
        twice(test_most),
        twice(test_room),
        twice(test_room_for_all),
        twice(test_commit_in_room),
        twice(test_alone),
        twice(test_full_keeps),
        twice(test_idle_partition),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
