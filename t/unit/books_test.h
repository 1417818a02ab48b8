/*
 * What the tests of the books share: ranks, prompts in short, expectations.
 *
 * Each test runs twice: plainly, and with a rebuild of the zone before every
 * look at it, since a rebuild must change no number.  Include after cmocka.h.
 */

#ifndef BOOKS_TEST_H
#define BOOKS_TEST_H

#include <math.h>
#include "catalog_test.h"
#include "state/sel_books.h"
#include "state/sel_decisions.h"
#include "state/sel_pending.h"


#define BOOKS_SECOND  UINT64_C(1000000000)
#define BOOKS_BLOCKS  20000

/* a prompt of these hashes; a run of at most 256 of them; the empty one */
#define seq(...)                                                              \
    ((sel_u64_list_t) { sizeof((uint64_t[]) { __VA_ARGS__ }) / 8,             \
                        (uint64_t[]) { __VA_ARGS__ } })
#define run(first, n)  books_run((uint64_t[256]) { 0 }, first, n)
#define none           ((sel_u64_list_t) { 0, NULL })

#define expect(test, rank, tokens, blocks, requests)                          \
    books_expect(__LINE__, test, rank, tokens, blocks, requests)
#define expect_depth(test, rank, prompt, depth)                               \
    books_expect_depth(__LINE__, test, rank, prompt, depth)

/* a test and its twin with rebuilds */
#define both(function)                                                        \
    { #function, function, books_plain, NULL, NULL },                         \
    { #function "_rebuilt", function, books_rebuilt, NULL, NULL }


typedef struct {
    uint16_t  slot;
    uint32_t  epoch;
    uint32_t  partition;
} rank_t;


static bool      books_rebuild;
static bool      books_unchecked;       /* too many for the slow check */
static uint64_t  books_now;


static inline int
books_plain(void **state)
{
    books_rebuild = false;
    books_unchecked = false;
    books_now = 1000 * BOOKS_SECOND;

    return 0;
}


static inline int
books_rebuilt(void **state)
{
    (void) books_plain(state);
    books_rebuild = true;

    return 0;
}


static inline sel_u64_list_t
books_run(uint64_t *room, uint64_t first, uint32_t n)
{
    uint32_t  i;

    for (i = 0; i < n; i++) {
        room[i] = first + i;
    }

    return (sel_u64_list_t) { n, room };
}


static inline const uint64_t *
books_path(uint32_t partition, sel_u64_list_t prompt)
{
    static uint64_t  path[BOOKS_BLOCKS];

    assert_true(prompt.n <= BOOKS_BLOCKS);
    sel_path_keys(partition, prompt.data, prompt.n, path);

    return path;
}


/* The zone is sound, after a rebuild too. */
static inline void
books_check(test_t *test)
{
    if (!books_unchecked) {
        state_check(&test->zone);
    }

    if (books_rebuild) {
        state_rebuild(&test->zone);
    }

    if (books_rebuild && !books_unchecked) {
        state_check(&test->zone);
    }
}


/* Puts a worker into test->partition, with slots that are new to it. */
static inline void
worker(test_t *test, uint64_t worker_id, uint64_t expected, uint32_t n,
    rank_t *ranks)
{
    uint32_t  i;

    forget_slots(test);
    commit_ok(test, worker_id, expected, n);

    for (i = 0; i < n; i++) {
        ranks[i] = (rank_t) { test->ranks[i].slot, test->ranks[i].epoch,
                              test->number };
    }
}


static inline sel_booking_t
booking_of(const rank_t *rank, sel_str_t id, sel_u64_list_t prompt)
{
    return (sel_booking_t) {
        .id = id, .partition = rank->partition, .n_blocks = prompt.n,
        .path = books_path(rank->partition, prompt), .now = books_now
    };
}


static inline sel_book_result_t
book_id(test_t *test, const rank_t *rank, sel_str_t id,
    sel_u64_list_t prompt, uint64_t tokens)
{
    uint32_t         chosen;
    sel_booking_t    booking;
    sel_rank_load_t  load;

    booking = booking_of(rank, id, prompt);
    booking.prefill_tokens = tokens;

    memset(&load, 0xa5, sizeof(load));
    load.slot = rank->slot;
    load.epoch = rank->epoch;

    return sel_book(&test->zone, &booking, &load, 1, NULL, NULL, &chosen);
}


static inline sel_book_result_t
book(test_t *test, const rank_t *rank, const char *id, sel_u64_list_t prompt,
    uint64_t tokens)
{
    return book_id(test, rank, sel_cstr(id), prompt, tokens);
}


static inline void
book_ok(test_t *test, const rank_t *rank, const char *id,
    sel_u64_list_t prompt, uint64_t tokens)
{
    assert_int_equal(book(test, rank, id, prompt, tokens), SEL_BOOK_OK);
}


static inline void
free_ok(test_t *test, const char *id)
{
    assert_int_equal(sel_book_free(&test->zone, sel_cstr(id)), SEL_BOOK_OK);
}


/* One output block; a fraction below 0 is none. */
static inline void
output_ok(test_t *test, const char *id, double fraction)
{
    assert_int_equal(sel_book_output(&test->zone, sel_cstr(id), fraction),
                     SEL_BOOK_OK);
}


static inline bool
booked(test_t *test, const char *id)
{
    return sel_booked(&test->zone, sel_cstr(id));
}


static inline sel_rank_load_t
glance(test_t *test, const rank_t *rank, sel_u64_list_t prompt)
{
    sel_rank_load_t  load;

    memset(&load, 0xa5, sizeof(load));
    load.slot = rank->slot;
    load.epoch = rank->epoch;
    sel_books_read(&test->zone, books_path(rank->partition, prompt), prompt.n,
                   &load, 1);

    assert_int_equal(load.slot, rank->slot);
    assert_int_equal(load.epoch, rank->epoch);

    return load;
}


/* The same after a check of all. */
static inline sel_rank_load_t
look(test_t *test, const rank_t *rank, sel_u64_list_t prompt)
{
    books_check(test);

    return glance(test, rank, prompt);
}


static inline void
books_expect(int line, test_t *test, const rank_t *rank, uint64_t tokens,
    double blocks, uint32_t requests)
{
    sel_rank_load_t  load;

    load = look(test, rank, none);

    if (load.gone || load.prefill_tokens != tokens
        || load.requests != requests || fabs(load.blocks - blocks) > 1e-9
        || (requests == 0 && load.blocks != 0.0) || load.depth != 0)
    {
        fail_msg("line %d: %sslot %u: %" PRIu64 " tokens, %.12g blocks, %u "
                 "requests, depth %u; expected %" PRIu64 ", %.12g, %u, 0",
                 line, load.gone ? "gone " : "", rank->slot,
                 load.prefill_tokens, load.blocks, load.requests, load.depth,
                 tokens, blocks, requests);
    }
}


static inline void
books_expect_depth(int line, test_t *test, const rank_t *rank,
    sel_u64_list_t prompt, uint32_t depth)
{
    sel_rank_load_t  load;

    load = look(test, rank, prompt);

    if (load.gone || load.depth != depth) {
        fail_msg("line %d: %sslot %u: depth %u, expected %u", line,
                 load.gone ? "gone " : "", rank->slot, load.depth, depth);
    }
}


/* A rank that is none any more: marked, and all zero. */
static inline void
expect_gone(test_t *test, const rank_t *rank)
{
    sel_rank_load_t  load;

    load = look(test, rank, seq(1, 2, 3));

    assert_true(load.gone);
    assert_int_equal(load.prefill_tokens, 0);
    assert_true(load.blocks == 0.0);
    assert_int_equal(load.requests, 0);
    assert_int_equal(load.depth, 0);
}


/* Nothing is kept that a booking or a pending selection took. */
static inline void
expect_chunks(test_t *test, uint64_t chunks_free)
{
    assert_int_equal(state_stats(&test->zone).chunks_free, chunks_free);
    state_rebuild(&test->zone);
    assert_int_equal(state_stats(&test->zone).chunks_free, chunks_free);
}


#endif /* BOOKS_TEST_H */
