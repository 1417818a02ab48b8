/*
 * Partitions that can go.  Without it model names that come and go would fill
 * the zone in the end, and a partition could go while somebody needs it, or
 * come back as something that old holders of its number take for theirs.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "books_test.h"
#include "pending_test.h"


static const sel_pending_limits_t  limits = { UINT64_MAX, UINT32_MAX,
                                              UINT64_MAX };


/* The next commit is for partition `name`. */
static void
name(test_t *test, uint32_t number)
{
    static char  room[32];

    (void) snprintf(room, sizeof(room), "model %u", number);
    test->partition.model_name = sel_cstr(room);
}


/* The number of a partition; 0: there is none. */
static uint32_t
number_of(test_t *test, uint32_t i)
{
    int              by_number;
    sel_partition_t  named, numbered;

    name(test, i);

    switch (sel_catalog_find_partition(&test->zone,
                                       test->partition.model_name,
                                       test->partition.routing_group,
                                       &test->arena, &named))
    {
    case 0:
        return 0;
    case 1:
        by_number = sel_catalog_partition(&test->zone, named.number,
                                          &test->arena, &numbered);
        assert_int_equal(by_number, 1);
        assert_true(sel_str_eq(named.model_name, test->partition.model_name));
        assert_true(sel_str_eq(named.model_name, numbered.model_name));
        assert_int_equal(named.block_size, numbered.block_size);
        sel_arena_free(&test->arena);
        return named.number;
    default:
        fail();
        return 0;
    }
}


/*
 * A partition that nobody is in: its maker is not schedulable.  The version
 * of the maker is kept in test->record.
 */
static uint32_t
make_idle(test_t *test, uint32_t i)
{
    uint32_t             number;
    uint64_t             version;
    sel_worker_commit_t  commit;

    name(test, i);
    commit = (sel_worker_commit_t) { .worker_id = 999999,
        .expected = test->record.version, .state = SEL_WORKER_INCOMPLETE,
        .partition = &test->partition, .blob = sel_str("blob") };
    assert_int_equal(sel_catalog_commit(&test->zone, &commit, &version,
                                        &number, &test->existing),
                     SEL_COMMIT_OK);
    test->record.version = version;
    number = number_of(test, i);
    assert_true(number != 0);

    return number;
}


static bool
put(test_t *test, uint32_t partition)
{
    sel_pending_t  pending;

    pending = pending_make(partition, sel_str("id"), 1, 3, books_now);

    return sel_pending_put(&test->zone, &pending, &limits);
}


/* Fills the table to its half with partitions 0 .. n-1; returns n. */
static uint32_t
half_full(test_t *test)
{
    uint32_t  i, n;

    n = test->zone.n_partition_buckets / 2;

    for (i = 0; i < n; i++) {
        (void) make_idle(test, i);
    }

    assert_int_equal(state_stats(&test->zone).partitions, n);

    return n;
}


/* While there is room in the table nothing goes, idle or not. */
static void
test_kept(void **state)
{
    test_t    test;
    uint32_t  i, n, last, number;

    begin(&test, STATE_SIZE);
    n = half_full(&test);
    last = 0;

    for (i = 0; i < n; i++) {
        number = number_of(&test, i);
        assert_true(number > last);
        last = number;
    }

    /* one that is there is used again, whoever makes it */
    assert_int_equal(make_idle(&test, 0), number_of(&test, 0));
    worker(&test, 1, 0, 1, &(rank_t) { 0 });
    assert_int_equal(test.number, number_of(&test, 0));
    assert_int_equal(state_stats(&test.zone).partitions, n);
    end(&test);
}


/* Of those that are idle the one that has been so for longest goes. */
static void
test_oldest_first(void **state)
{
    test_t    test;
    rank_t    rank;
    uint32_t  i, n;

    begin(&test, STATE_SIZE);
    n = half_full(&test);
    assert_true(n > 10);

    /* 0 and 2 become idle anew, 1 and 4 are in use */
    name(&test, 0);
    worker(&test, 1, 0, 1, &rank);
    delete_ok(&test, 1, test.version);
    assert_true(put(&test, number_of(&test, 2)));
    sel_pending_drop(&test.zone, number_of(&test, 2), sel_str("id"), 0);
    name(&test, 1);
    worker(&test, 2, 0, 1, &rank);
    assert_true(put(&test, number_of(&test, 4)));

    for (i = 0; i < n - 3; i++) {
        (void) make_idle(&test, n + i);

        if (i == 0) {
            assert_int_equal(number_of(&test, 3), 0);
            assert_true(number_of(&test, 5) != 0);
        }

        assert_int_equal(state_stats(&test.zone).partitions, n);
    }

    /* n - 3 have gone: 3, 5, 6 ... n - 1, then 0 */
    for (i = 0; i < n; i++) {
        assert_true((number_of(&test, i) != 0)
                    == (i == 1 || i == 2 || i == 4));
    }

    books_check(&test);
    expect(&test, &rank, 0, 0, 0);

    if (books_rebuild) {
        end(&test);         /* which has forgotten the order */
        return;
    }

    (void) make_idle(&test, 2 * n);
    assert_int_equal(number_of(&test, 2), 0);
    (void) make_idle(&test, 2 * n + 1);
    assert_int_equal(number_of(&test, n), 0);
    assert_true(number_of(&test, n + 1) != 0);
    end(&test);
}


/* None that is in use goes, even if all are; the table just fills up. */
static void
test_in_use(void **state)
{
    test_t    test;
    uint32_t  i, n, numbers[600];

    begin(&test, STATE_SIZE);
    n = test.zone.n_partition_buckets / 2;
    assert_true(n + 100 <= sel_countof(numbers));

    for (i = 0; i < n + 100; i++) {
        numbers[i] = make_idle(&test, i);

        if (i % 4) {
            assert_true(put(&test, numbers[i]));

        } else {
            name(&test, i);
            worker(&test, i, 0, 1, &(rank_t) { 0 });
        }

        if (i % 50 == 0) {
            books_check(&test);
        }
    }

    assert_int_equal(state_stats(&test.zone).partitions, n + 100);

    for (i = 0; i < n + 100; i++) {
        assert_int_equal(number_of(&test, i), numbers[i]);
    }

    /* a few come free: new ones take their places */
    sel_pending_drop(&test.zone, numbers[1], sel_str("id"), 0);
    assert_true(number_of(&test, 1) != 0);
    (void) make_idle(&test, n + 100);
    assert_int_equal(number_of(&test, 1), 0);
    assert_int_equal(number_of(&test, 0), numbers[0]);
    assert_int_equal(number_of(&test, 2), numbers[2]);
    end(&test);
}


/* A name that comes back is another partition. */
static void
test_comes_back(void **state)
{
    test_t           test;
    rank_t           rank;
    uint32_t         i, n, old, new;
    sel_pending_t    got;
    sel_partition_t  partition;

    begin(&test, STATE_SIZE);
    n = half_full(&test);
    old = number_of(&test, 0);
    assert_true(make_idle(&test, n) > old);
    assert_int_equal(number_of(&test, 0), 0);
    assert_int_equal(sel_catalog_partition(&test.zone, old, &test.arena,
                                           &partition), 0);
    books_check(&test);

    /* what it was has gone with it */
    test.partition.block_size = 64;
    test.partition.is_eagle = true;
    new = make_idle(&test, 0);
    assert_true(new > old);
    assert_int_equal(sel_catalog_partition(&test.zone, new, &test.arena,
                                           &partition), 1);
    assert_int_equal(partition.block_size, 64);
    assert_true(partition.is_eagle);
    assert_int_equal(sel_catalog_partition(&test.zone, old, &test.arena,
                                           &partition), 0);

    /* a selection that comes late for the old one is none of the new one's */
    (void) put(&test, old);
    books_check(&test);
    assert_int_equal(sel_pending_get(&test.zone, new, sel_str("id"),
                                     books_now, UINT64_MAX, &test.arena,
                                     &got), 0);
    sel_pending_drop(&test.zone, old, sel_str("id"), 0);
    books_check(&test);

    name(&test, 0);
    worker(&test, 1, 0, 1, &rank);
    assert_int_equal(rank.partition, new);
    book_ok(&test, &rank, "a", seq(1, 2), 5);

    for (i = 0; i < 2 * n; i++) {
        (void) make_idle(&test, 1000 + i);
    }

    assert_int_equal(number_of(&test, 0), new);
    expect(&test, &rank, 5, 2, 1);
    free_ok(&test, "a");
    end(&test);
}


/* Numbers of those that have gone are never given again. */
static void
test_numbers(void **state)
{
    test_t    test;
    uint32_t  i, last, number;

    begin(&test, SEL_ZONE_MIN_SIZE);
    last = 0;

    for (i = 0; i < 1000; i++) {
        number = make_idle(&test, i);
        assert_true(number > last);
        last = number;

        if (i % 100 == 99) {
            books_check(&test);
        }
    }

    assert_true(state_stats(&test.zone).partitions
                <= test.zone.n_partition_buckets / 2);
    end(&test);
}


/* One model name after the other, for a very long time. */
static void
test_many_names(void **state)
{
    test_t    test;
    rank_t    rank;
    uint32_t  i;
    uint64_t  version, chunks;

    begin(&test, 2 << 20);
    version = 0;
    chunks = 0;

    for (i = 0; i < 100000; i++) {
        name(&test, i);
        worker(&test, 1, version, 1, &rank);
        version = test.version;
        book_ok(&test, &rank, "r", seq(1, 2, 3), 7);
        assert_true(put(&test, rank.partition));

        if (i % 3 == 0) {
            free_ok(&test, "r");
        }

        if (i % 7 == 0) {
            delete_ok(&test, 1, version);
            version = 0;
        }

        sel_pending_drop(&test.zone, rank.partition, sel_str("id"), 0);

        if (i % 10000 == 0) {
            books_check(&test);
        }

        if (i == 10000) {
            chunks = state_stats(&test.zone).chunks_free;
        }

        assert_true(state_stats(&test.zone).partitions
                    <= test.zone.n_partition_buckets / 2 + 1);

        if (version != 0 && i % 3) {
            free_ok(&test, "r");
        }
    }

    assert_true(state_stats(&test.zone).chunks_free + 70 > chunks);
    end(&test);
}


/*
 * No chunk is left, but partitions are idle: they may make room, the oldest
 * first.
 */
static void
test_no_chunk(void **state)
{
    rank_t             rank, other;
    test_t             test;
    uint32_t           i, first;
    sel_book_result_t  result;

    begin(&test, SEL_ZONE_MIN_SIZE);
    name(&test, 5000);
    worker(&test, 1, 0, 1, &rank);
    first = 0;

    for (i = 0; i < 20; i++) {
        (void) make_idle(&test, i);
    }

    do {
        i = (uint32_t) state_stats(&test.zone).chunks_free;
        result = book_id(&test, &rank, (sel_str_t) { sizeof(i),
                             (const uint8_t *) &i }, none, 0);

        while (first < 20 && number_of(&test, first) == 0) {
            first++;
        }

        assert_true(first == 20 || number_of(&test, 19) != 0);

    } while (result == SEL_BOOK_OK);

    books_check(&test);
    assert_int_equal(number_of(&test, 5000), rank.partition);
    assert_true(look(&test, &rank, none).requests > 500);

    /* and for one that is new */
    assert_true(sel_books_expire(&test.zone, UINT64_MAX, 12) == 12);
    name(&test, 20);
    worker(&test, 2, 0, 1, &other);
    assert_true(number_of(&test, 20) == other.partition);
    assert_int_equal(number_of(&test, 5000), rank.partition);
    end(&test);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        both(test_kept),
        both(test_oldest_first),
        both(test_in_use),
        both(test_comes_back),
        both(test_numbers),
        both(test_many_names),
        both(test_no_chunk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
