/*
 * What the tests of sessions share: a clock, bookings with a session, looks at
 * bindings.
 *
 * Each test runs twice: plainly, and with a rebuild of the zone before every
 * look at it, which must leave all bindings as they are.  Include after
 * cmocka.h.
 */

#ifndef SESSION_TEST_H
#define SESSION_TEST_H

#include "books_test.h"
#include "session_clock.h"
#include "state/sel_session_impl.h"


#define SESSION_START  UINT64_C(1000)   /* second 0 of a test */
#define SESSION_TTL    (10 * BOOKS_SECOND)

/* a test and its twin with rebuilds */
#define twice(function)                                                       \
    { #function, function, session_plain, NULL, NULL },                       \
    { #function "_rebuilt", function, session_rebuilt, NULL, NULL }

#define expect_bound(test, partition, session, worker_id, dp_rank, leases)    \
    session_expect(__LINE__, test, partition, sel_cstr(session), worker_id,   \
                   dp_rank, leases)
#define expect_free(test, partition, session)                                 \
    session_expect_free(__LINE__, test, partition, sel_cstr(session))


/* What is primary in a binding, and its leases. */
typedef struct {
    uint32_t  number;
    uint32_t  partition;
    uint64_t  revision;
    uint64_t  worker_id;
    uint64_t  deadline;
    uint32_t  dp_rank;
    uint32_t  id_len;
    uint32_t  leases;
    uint32_t  zero;
} session_shot_t;


/* Second s of the test, as a time. */
static inline uint64_t
second(double s)
{
    return SESSION_START * BOOKS_SECOND
           + (uint64_t) (s * 1000 + 0.5) * (BOOKS_SECOND / 1000);
}


/* It is second s by now. */
static inline void
at(double s)
{
    books_now = second(s);
    session_clock = books_now;
}


static inline int
session_plain(void **state)
{
    (void) books_plain(state);
    at(0);

    return 0;
}


static inline int
session_rebuilt(void **state)
{
    (void) books_rebuilt(state);
    at(0);

    return 0;
}


/* A zone whose first worker, with id 1, has n ranks in partition 1. */
static inline void
session_begin(test_t *test, size_t size, uint32_t n, rank_t *ranks)
{
    begin(test, size);
    worker(test, 1, 0, n, ranks);
    assert_int_equal(ranks->partition, 1);
    sel_sessions_ttl(&test->zone, SESSION_TTL);
}


/* All bindings, in memory of the caller. */
static inline session_shot_t *
session_shoot(sel_zone_t *zone, uint32_t *n)
{
    uint32_t                    number, max;
    sel_chunk_t                *chunk;
    session_shot_t             *shots;
    const sel_session_chunk_t  *session;

    max = (uint32_t) state_stats(zone).sessions;
    shots = calloc(max + 1, sizeof(session_shot_t));
    assert_non_null(shots);
    *n = 0;

    for (number = 1; number <= zone->header->chunk_high;
         number += sel_chunk_span(chunk))
    {
        chunk = sel_zone_chunk(zone, number);

        if (sel_chunk_tag(chunk) != SEL_CHUNK_SESSION) {
            continue;
        }

        session = (const sel_session_chunk_t *) chunk;
        assert_true(*n < max);
        shots[(*n)++] = (session_shot_t) {
            .number = number, .partition = session->partition,
            .revision = session->revision, .worker_id = session->worker_id,
            .deadline = session->since + zone->header->session_ttl,
            .dp_rank = session->dp_rank,
            .id_len = session->id_len, .leases = session->leases
        };
    }

    assert_int_equal(*n, max);

    return shots;
}


/* The leases of each binding are the live bookings that were made with it or
   joined it. */
static inline void
session_count_leases(sel_zone_t *zone)
{
    uint32_t                    i, n, number;
    sel_chunk_t                *chunk;
    session_shot_t             *shots;
    const sel_booking_chunk_t  *booking;

    shots = session_shoot(zone, &n);

    for (number = 1; number <= zone->header->chunk_high;
         number += sel_chunk_span(chunk))
    {
        chunk = sel_zone_chunk(zone, number);

        if (sel_chunk_tag(chunk) != SEL_CHUNK_BOOKING) {
            continue;
        }

        booking = (const sel_booking_chunk_t *) chunk;

        for (i = 0; i < n; i++) {
            if (shots[i].number == booking->session
                && shots[i].revision <= booking->attempt)
            {
                shots[i].leases--;
            }
        }
    }

    for (i = 0; i < n; i++) {
        if (shots[i].leases != 0) {
            fail_msg("binding %" PRIu64 " has %d leases too many",
                     shots[i].revision, (int32_t) shots[i].leases);
        }
    }

    free(shots);
}


/* The zone is sound; a rebuild, if this is to be, changes no binding. */
static inline void
session_check(test_t *test)
{
    uint32_t         n, m;
    session_shot_t  *before, *after;

    if (books_unchecked) {
        return;
    }

    state_check(&test->zone);
    session_count_leases(&test->zone);

    if (!books_rebuild) {
        return;
    }

    before = session_shoot(&test->zone, &n);
    state_rebuild(&test->zone);
    state_check(&test->zone);
    after = session_shoot(&test->zone, &m);

    assert_int_equal(n, m);
    assert_memory_equal(before, after, (n + 1) * sizeof(session_shot_t));
    free(before);
    free(after);
}


static inline sel_binding_t
session_at(test_t *test, uint32_t partition, const char *session, uint64_t now)
{
    return sel_session_find(&test->zone, partition, sel_cstr(session), now);
}


/* The binding's identity by now, 0: none. */
static inline uint64_t
revision(test_t *test, uint32_t partition, const char *session)
{
    return session_at(test, partition, session, books_now).revision;
}


static inline uint32_t
session_leases(test_t *test, uint32_t partition, sel_str_t session)
{
    uint32_t              leases;
    sel_session_chunk_t  *record;

    sel_zone_lock(&test->zone);
    record = sel_zone_session_find(&test->zone,
                                   sel_session_hash(&test->zone, partition,
                                                    session),
                                   partition, session);
    leases = record == NULL ? 0 : record->leases;
    sel_zone_unlock(&test->zone);

    return leases;
}


static inline void
session_expect(int line, test_t *test, uint32_t partition, sel_str_t session,
    uint64_t worker_id, uint32_t dp_rank, uint32_t leases)
{
    uint32_t       held;
    sel_binding_t  found;

    session_check(test);
    found = sel_session_find(&test->zone, partition, session, books_now);
    held = session_leases(test, partition, session);

    if (found.revision == 0 || found.worker_id != worker_id
        || found.dp_rank != dp_rank || held != leases)
    {
        fail_msg("line %d: binding %" PRIu64 " to worker %" PRIu64 " rank %u "
                 "with %u leases; expected worker %" PRIu64 " rank %u with %u",
                 line, found.revision, found.worker_id, found.dp_rank, held,
                 worker_id, dp_rank, leases);
    }
}


static inline void
session_expect_free(int line, test_t *test, uint32_t partition,
    sel_str_t session)
{
    sel_binding_t  found;

    session_check(test);
    found = sel_session_find(&test->zone, partition, session, books_now);

    if (found.revision != 0) {
        fail_msg("line %d: binding %" PRIu64 " to worker %" PRIu64 " rank %u "
                 "with %u leases; expected none", line, found.revision,
                 found.worker_id, found.dp_rank,
                 session_leases(test, partition, session));
    }
}


/* What a booking of a session says, chosen by a binding. */
static inline sel_booking_t
session_booking(const rank_t *rank, const char *id, sel_str_t session,
    uint64_t chosen_by)
{
    sel_booking_t  booking;

    booking = booking_of(rank, sel_cstr(id), none);
    booking.session.id = session;
    booking.session.revision = chosen_by;

    return booking;
}


static inline sel_book_result_t
session_book(test_t *test, const rank_t *rank, sel_booking_t *booking)
{
    uint32_t         chosen;
    sel_rank_load_t  load;

    memset(&load, 0xa5, sizeof(load));
    load.slot = rank->slot;
    load.epoch = rank->epoch;

    return sel_book(&test->zone, booking, &load, 1, NULL, NULL, &chosen);
}


static inline sel_book_result_t
book_by(test_t *test, const rank_t *rank, const char *id, const char *session,
    uint64_t chosen_by)
{
    sel_booking_t  booking;

    booking = session_booking(rank, id, sel_cstr(session), chosen_by);

    return session_book(test, rank, &booking);
}


/* Chosen by the binding that there is. */
static inline sel_book_result_t
book_in(test_t *test, const rank_t *rank, const char *id, const char *session)
{
    return book_by(test, rank, id, session,
                   revision(test, rank->partition, session));
}


static inline void
book_in_ok(test_t *test, const rank_t *rank, const char *id,
    const char *session)
{
    assert_int_equal(book_in(test, rank, id, session), SEL_BOOK_OK);
}


/* Of kind ROUTER, by the process of an entry. */
static inline void
serve_in_ok(test_t *test, const rank_t *rank, const char *id,
    const char *session, uint32_t proc)
{
    sel_booking_t  booking;

    booking = session_booking(rank, id, sel_cstr(session),
                              revision(test, rank->partition, session));
    booking.kind = SEL_BOOKING_ROUTER;
    booking.proc = proc;
    assert_int_equal(session_book(test, rank, &booking), SEL_BOOK_OK);
}


static inline sel_book_result_t
failed(test_t *test, const char *id)
{
    return sel_served_failed(&test->zone, sel_cstr(id));
}


static inline uint64_t
counted(test_t *test, sel_counter_t counter)
{
    return sel_counted(&test->zone, counter);
}


#endif /* SESSION_TEST_H */
