/*
 * Pending selections, one rule a test.  Without it a selection could be
 * booked that is too old or that a newer one has replaced, and a replay could
 * drop a selection made meanwhile.
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


static bool
put(test_t *test, uint32_t partition, const char *id, uint64_t seed,
    const sel_pending_limits_t *limits)
{
    sel_pending_t  pending;

    pending = pending_make(partition, sel_cstr(id), seed, 10, books_now);
    pending.size = 100;

    return sel_pending_put(&test->zone, &pending, limits);
}


/* A zone with partition 1, which has worker 1. */
static void
start(test_t *test, size_t size, rank_t *rank)
{
    begin(test, size);
    worker(test, 1, 0, 1, rank);
    assert_int_equal(rank->partition, 1);
}


/* The generation of the one that is found and has this content; 0: none. */
static uint64_t
get(test_t *test, uint32_t partition, const char *id, uint64_t seed,
    uint64_t made)
{
    int            rc;
    sel_pending_t  got, expected;

    books_check(test);
    memset(&got, 0xa5, sizeof(got));
    rc = sel_pending_get(&test->zone, partition, sel_cstr(id), books_now, TTL,
                         &test->arena, &got);
    assert_in_range(rc, 0, 1);

    if (rc == 0) {
        return 0;
    }

    expected = pending_make(partition, sel_cstr(id), seed, 10, made);

    if (pending_differs(&got, &expected) != NULL) {
        fail_msg("%s: another %s", id, pending_differs(&got, &expected));
    }

    assert_true(got.generation != 0);

    return got.generation;
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


/* Found any number of times, until it is dropped. */
static void
test_life(void **state)
{
    rank_t    rank;
    test_t    test;
    uint64_t  generation, chunks;

    start(&test, STATE_SIZE, &rank);
    chunks = state_stats(&test.zone).chunks_free;
    assert_false(has(&test, "a"));

    assert_true(put(&test, 1, "a", 5, &usual));
    generation = get(&test, 1, "a", 5, books_now);
    assert_true(generation != 0);
    assert_true(get(&test, 1, "a", 5, books_now) == generation);

    /* it is no booking, and a booking under its id is none of its business */
    assert_false(booked(&test, "a"));
    expect(&test, &rank, 0, 0, 0);
    book_ok(&test, &rank, "a", seq(1), 1);
    assert_true(get(&test, 1, "a", 5, books_now) == generation);
    free_ok(&test, "a");

    sel_pending_drop(&test.zone, 1, sel_str("a"), generation);
    assert_false(has(&test, "a"));
    sel_pending_drop(&test.zone, 1, sel_str("a"), generation);
    sel_pending_drop(&test.zone, 1, sel_str("a"), 0);
    expect_chunks(&test, chunks);
    end(&test);
}


/* Valid while its age is at most the limit; a look does not end it. */
static void
test_age(void **state)
{
    test_t    test;
    uint64_t  made;

    start(&test, STATE_SIZE, &(rank_t) { 0 });
    made = books_now;
    assert_true(put(&test, 1, "a", 5, &usual));

    books_now = made + TTL;
    assert_true(get(&test, 1, "a", 5, made) != 0);
    books_now = made + TTL + 1;
    assert_false(has(&test, "a"));
    books_now = made + TTL;
    assert_true(get(&test, 1, "a", 5, made) != 0);

    /* a clock that was read before it was made */
    books_now = made - 1;
    assert_true(get(&test, 1, "a", 5, made) != 0);
    books_now = 0;
    assert_true(get(&test, 1, "a", 5, made) != 0);
    end(&test);
}


/* A new one sweeps out those that are too old, and those only. */
static void
test_sweep(void **state)
{
    test_t    test;
    uint64_t  made, chunks;

    start(&test, STATE_SIZE, &(rank_t) { 0 });
    chunks = state_stats(&test.zone).chunks_free;
    made = books_now;
    assert_true(put(&test, 1, "a", 1, &usual));
    chunks -= state_stats(&test.zone).chunks_free;
    books_now++;
    assert_true(put(&test, 1, "b", 1, &usual));

    books_now = made + TTL;
    assert_true(put(&test, 1, "c", 1, &usual));
    books_now = made;
    assert_true(has(&test, "a"));

    books_now = made + TTL + 1;
    assert_true(put(&test, 1, "d", 1, &usual));
    books_now = made;
    assert_false(has(&test, "a"));
    assert_true(has(&test, "b"));
    assert_true(has(&test, "c"));
    assert_true(has(&test, "d"));

    /* the machine's clock has just begun */
    books_now = 5;
    assert_true(put(&test, 1, "e", 1, &usual));
    assert_true(has(&test, "b"));
    assert_true(has(&test, "e"));
    end(&test);
}


static void
test_max_entries(void **state)
{
    test_t                test;
    sel_pending_limits_t  two = { TTL, 2, UINT64_MAX };

    start(&test, STATE_SIZE, &(rank_t) { 0 });
    assert_true(put(&test, 1, "a", 1, &two));
    assert_true(put(&test, 1, "b", 1, &two));
    assert_true(put(&test, 1, "c", 1, &two));
    assert_false(has(&test, "a"));
    assert_true(has(&test, "b"));
    assert_true(has(&test, "c"));

    /* one that is replaced counts once, and is young again */
    assert_true(put(&test, 1, "b", 2, &two));
    assert_true(has(&test, "b"));
    assert_true(has(&test, "c"));
    assert_true(put(&test, 1, "d", 1, &two));
    assert_false(has(&test, "c"));
    assert_true(get(&test, 1, "b", 2, books_now) != 0);
    assert_true(has(&test, "d"));

    /* a smaller limit holds from the next one on */
    two.max = 1;
    assert_true(put(&test, 1, "e", 1, &two));
    assert_false(has(&test, "b"));
    assert_false(has(&test, "d"));
    assert_true(has(&test, "e"));

    two.max = 0;
    assert_false(put(&test, 1, "f", 1, &two));
    assert_false(has(&test, "e"));
    assert_false(has(&test, "f"));
    end(&test);
}


static void
test_max_size(void **state)
{
    test_t                test;
    uint64_t              chunks;
    sel_pending_t         big;
    sel_pending_limits_t  limits = { TTL, 100, 200 };

    start(&test, STATE_SIZE, &(rank_t) { 0 });
    chunks = state_stats(&test.zone).chunks_free;
    assert_true(put(&test, 1, "a", 1, &limits));
    assert_true(put(&test, 1, "b", 1, &limits));
    assert_true(has(&test, "a"));
    assert_true(put(&test, 1, "c", 1, &limits));
    assert_false(has(&test, "a"));
    assert_true(has(&test, "b"));

    /* the replaced one's size is free again */
    assert_true(put(&test, 1, "c", 2, &limits));
    assert_true(has(&test, "b"));

    /* larger than all together: first the others go, then itself */
    big = pending_make(1, sel_str("b"), 1, 10, books_now);
    big.size = 201;
    assert_false(sel_pending_put(&test.zone, &big, &limits));
    assert_false(has(&test, "b"));
    assert_false(has(&test, "c"));
    expect_chunks(&test, chunks);

    big.size = 200;
    assert_true(sel_pending_put(&test.zone, &big, &limits));
    assert_true(has(&test, "b"));
    assert_true(put(&test, 1, "c", 2, &limits));
    assert_false(has(&test, "b"));

    limits.size = 0;
    assert_false(put(&test, 1, "d", 1, &limits));
    assert_false(has(&test, "c"));
    expect_chunks(&test, chunks);
    end(&test);
}


/* What was replaced during a replay is not what the replay ends. */
static void
test_generations(void **state)
{
    test_t    test;
    uint64_t  first, second, third;

    start(&test, STATE_SIZE, &(rank_t) { 0 });
    assert_true(put(&test, 1, "a", 1, &usual));
    first = get(&test, 1, "a", 1, books_now);
    assert_true(put(&test, 1, "a", 2, &usual));
    second = get(&test, 1, "a", 2, books_now);
    assert_true(second != first);

    sel_pending_drop(&test.zone, 1, sel_str("a"), first);
    assert_true(get(&test, 1, "a", 2, books_now) == second);
    sel_pending_drop(&test.zone, 1, sel_str("a"), second);
    assert_false(has(&test, "a"));

    assert_true(put(&test, 1, "a", 3, &usual));
    third = get(&test, 1, "a", 3, books_now);
    assert_true(third != first && third != second);

    /* whichever it is */
    sel_pending_drop(&test.zone, 1, sel_str("a"), 0);
    assert_false(has(&test, "a"));

    assert_true(put(&test, 1, "a", 4, &usual));
    first = get(&test, 1, "a", 4, books_now);
    assert_true(first != third && first != second);
    end(&test);
}


/* Coming and going behind an old one leaves that one alone. */
static void
test_rounds(void **state)
{
    char      id[16];
    test_t    test;
    uint32_t  i;
    uint64_t  chunks;

    start(&test, STATE_SIZE, &(rank_t) { 0 });
    assert_true(put(&test, 1, "old", 1, &usual));
    chunks = state_stats(&test.zone).chunks_free;

    for (i = 0; i < 50; i++) {
        (void) snprintf(id, sizeof(id), "r%u", i);
        books_now++;
        assert_true(put(&test, 1, id, i, &usual));
        sel_pending_drop(&test.zone, 1, sel_cstr(id),
                         get(&test, 1, id, i, books_now));
        assert_false(has(&test, id));
    }

    assert_true(get(&test, 1, "old", 1, books_now - 50) != 0);
    expect_chunks(&test, chunks);
    end(&test);
}


/* The same id in two partitions: two selections. */
static void
test_partitions(void **state)
{
    test_t    test;
    uint64_t  first, second;

    start(&test, STATE_SIZE, &(rank_t) { 0 });
    test.partition.routing_group = sel_str("west");
    worker(&test, 2, 0, 1, &(rank_t) { 0 });

    assert_true(put(&test, 1, "a", 1, &usual));
    assert_true(put(&test, 2, "a", 2, &usual));
    first = get(&test, 1, "a", 1, books_now);
    second = get(&test, 2, "a", 2, books_now);
    assert_true(first != 0 && second != 0 && first != second);

    sel_pending_drop(&test.zone, 2, sel_str("a"), first);
    sel_pending_drop(&test.zone, 1, sel_str("a"), 0);
    assert_true(get(&test, 1, "a", 1, books_now) == 0);
    assert_true(get(&test, 2, "a", 2, books_now) == second);
    end(&test);
}


/* Its worker may leave: it stays, and whoever wants to book it sees. */
static void
test_worker_leaves(void **state)
{
    rank_t  rank;
    test_t  test;

    start(&test, STATE_SIZE, &rank);
    assert_true(put(&test, rank.partition, "a", 1, &usual));
    delete_ok(&test, 1, 1);
    assert_true(get(&test, rank.partition, "a", 1, books_now) != 0);
    end(&test);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        both(test_life),
        both(test_age),
        both(test_sweep),
        both(test_max_entries),
        both(test_max_size),
        both(test_generations),
        both(test_rounds),
        both(test_partitions),
        both(test_worker_leaves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
