/*
 * What a pending selection holds and the room that all of them may take.
 * Without it one could come back with another prompt, and what nobody fetches
 * could fill the zone.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "books_test.h"
#include "pending_test.h"


#define TTL  (120 * BOOKS_SECOND)

static const sel_pending_limits_t  usual = { TTL, 4096, 256 << 20 };


/* A zone with partition 1, which has worker 1. */
static void
start(test_t *test, size_t size, rank_t *rank)
{
    begin(test, size);
    worker(test, 1, 0, 1, rank);
    assert_int_equal(rank->partition, 1);
}


static bool
has(test_t *test, const char *id)
{
    int            rc;
    sel_pending_t  got;

    books_check(test);
    rc = sel_pending_get(&test->zone, 1, sel_cstr(id), books_now, TTL,
                         &test->arena, &got);
    assert_in_range(rc, 0, 1);

    return rc == 1;
}


/* All sizes of what is in one. */
static void
test_contents(void **state)
{
    static const uint32_t  sizes[] = {
        0, 1, 7, 36, 100, 150, 200, 247, 248, 249, 300, 4096, 65536
    };
    static const uint32_t  blocks[] = {
        0, 1, 2, 10, 30, 31, 32, 61, 62, 63, 500, 10000
    };

    test_t         test;
    uint8_t       *text;
    uint32_t       i;
    sel_str_t      id;
    sel_pending_t  pending, got;

    text = malloc(65536);
    cat_blob(7, 65536, text);
    start(&test, 4 * STATE_SIZE, &(rank_t) { 0 });

    for (i = 0; i < 400; i++) {
        id = (sel_str_t) { sizes[i % 13], text };
        pending = pending_make(1, id, i, blocks[i % 12], books_now);
        assert_true(sel_pending_put(&test.zone, &pending, &usual));

        if (i % 50 < 3) {
            books_check(&test);
        }

        memset(&got, 0xa5, sizeof(got));
        assert_int_equal(sel_pending_get(&test.zone, 1, id, books_now, TTL,
                                         &test.arena, &got), 1);

        if (pending_differs(&got, &pending) != NULL) {
            fail_msg("%u: another %s", i, pending_differs(&got, &pending));
        }

        assert_int_equal(got.size, pending.size);
        sel_arena_free(&test.arena);
    }

    free(text);
    end(&test);
}


/* Reading without memory fails cleanly: the lock is free again. */
static void
test_no_memory(void **state)
{
    test_t         test;
    sel_arena_t    arena;
    sel_pending_t  pending, got;

    start(&test, STATE_SIZE, &(rank_t) { 0 });
    pending = pending_make(1, sel_str("a"), 1, 2000, books_now);
    assert_true(sel_pending_put(&test.zone, &pending, &usual));

    sel_arena_init(&arena, 64);
    assert_int_equal(sel_pending_get(&test.zone, 1, sel_str("a"), books_now,
                                     TTL, &arena, &got), -1);
    sel_arena_free(&arena);
    assert_int_equal(sel_pending_get(&test.zone, 1, sel_str("b"), books_now,
                                     TTL, &arena, &got), 0);
    sel_arena_free(&arena);

    assert_true(has(&test, "a"));
    end(&test);
}


/* At most half of the zone, however large the limits are. */
static void
test_half(void **state)
{
    char                  id[16];
    test_t                test;
    uint32_t              i, found;
    uint64_t              chunks;
    sel_pending_t         pending;
    sel_pending_limits_t  limits = { TTL, UINT32_MAX, UINT64_MAX };

    start(&test, STATE_SIZE, &(rank_t) { 0 });
    chunks = state_stats(&test.zone).chunks_free;

    for (i = 0; i < 3000; i++) {
        (void) snprintf(id, sizeof(id), "p%u", i);
        pending = pending_make(1, sel_cstr(id), i, i % 120, books_now);
        (void) sel_pending_put(&test.zone, &pending, &limits);
        assert_true(chunks - state_stats(&test.zone).chunks_free
                    <= state_stats(&test.zone).chunks / 2);
    }

    books_check(&test);
    found = 0;

    for (i = 0; i < 3000; i++) {
        (void) snprintf(id, sizeof(id), "p%u", i);
        found += has(&test, id);
        sel_pending_drop(&test.zone, 1, sel_cstr(id), 0);
    }

    assert_true(found > 100 && found < 3000);
    expect_chunks(&test, chunks);

    /* one that is larger than this half by itself */
    pending = pending_make(1, sel_str("a"), 1, 10, books_now);
    assert_true(sel_pending_put(&test.zone, &pending, &limits));
    pending.n_blocks = (uint32_t) chunks * 31;
    pending.sequence = calloc(pending.n_blocks, sizeof(uint64_t));
    assert_false(sel_pending_put(&test.zone, &pending, &limits));
    assert_false(has(&test, "a"));
    expect_chunks(&test, chunks);
    free((void *) pending.sequence);
    end(&test);
}


/* Bookings have the zone: nothing is kept, and nothing old in its place. */
static void
test_no_room(void **state)
{
    rank_t             rank;
    test_t             test;
    uint32_t           i;
    sel_pending_t      pending;
    sel_book_result_t  result;

    start(&test, SEL_ZONE_MIN_SIZE, &rank);

    do {
        i = (uint32_t) state_stats(&test.zone).chunks_free;
        result = book_id(&test, &rank, (sel_str_t) { sizeof(i),
                             (const uint8_t *) &i }, none, 0);
    } while (result == SEL_BOOK_OK);

    assert_int_equal(result, SEL_BOOK_FULL);
    pending = pending_make(1, sel_str("a"), 1, 100, books_now);
    assert_false(sel_pending_put(&test.zone, &pending, &usual));
    assert_false(has(&test, "a"));
    assert_int_equal(state_stats(&test.zone).chunks_free, i);
    end(&test);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        both(test_contents),
        both(test_no_memory),
        both(test_half),
        both(test_no_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
