/*
 * Blocks that are believed for a while (sel_recent.h) when memory runs out.
 * Without it a full table could leave blocks in the index that nobody ever
 * forgets, or take the way to forget them.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "recent_test.h"


#define PROMPTS  6


static uint32_t  allocations, failing, failing_for;


static bool
hook(size_t size)
{
    allocations++;

    return allocations < failing || allocations >= failing + failing_for;
}


/* The own memory's limit is kept, and what fitted is forgotten in time. */
static void
test_limit(void **state)
{
    uint32_t            i, full;
    uint64_t            base, max, blocks[40];
    sel_index_result_t  rc;

    max = 60000;
    sel_recent_destroy(recent);
    assert_null(sel_recent_create(index_, 8, 9));
    recent = sel_recent_create(index_, max, 9);
    assert_non_null(recent);
    base = sel_recent_bytes(recent);

    for (full = i = 0; i < 2000; i++) {
        blocks[0] = i % 200;
        blocks[i % 39] = i;
        rc = sel_recent_store(recent, one, blocks, 1 + i % 40, i * MS);
        full += rc == SEL_INDEX_FULL;
        assert_true(rc == SEL_INDEX_OK || rc == SEL_INDEX_FULL);
        assert_true(sel_recent_bytes(recent) <= max);

        if (i % 500 == 499) {
            expire(FAR);
            assert_int_equal(held(), 0);
            store(one, 5, i * MS);
            assert_int_equal(hits(one), 5);
        }
    }

    assert_in_range(full, 100, 1900);
    expire(FAR);

    for (i = 0; i < 2000; i++) {
        expire(FAR);
    }

    assert_true(sel_recent_bytes(recent) < base + 4096);
    assert_null(sel_index_check(index_));
}


/* An index without room: what is there goes in time, and nothing is left. */
static void
test_full_index(void **state)
{
    uint32_t            i, full;
    uint64_t            blocks[40];
    sel_index_result_t  rc;

    (void) teardown(NULL);
    index_ = sel_index_create(120000, 7);
    assert_non_null(index_);
    recent = sel_recent_create(index_, 0, 9);
    one = sel_index_owner(index_, 1, 5, 0);

    for (full = i = 0; i < 40000 / 40; i++) {
        for (rc = 0; rc < 40; rc++) {
            blocks[rc] = (uint64_t) i * 1000 + rc;
        }

        rc = sel_recent_store(recent, one, blocks, 40, i * MS);
        assert_true(rc == SEL_INDEX_OK || rc == SEL_INDEX_FULL);
        full += rc == SEL_INDEX_FULL;
    }

    assert_in_range(full, 10, 40000 / 40 - 1);
    assert_true(held() != 0);
    expire(FAR);
    sweep();
    assert_int_equal(held(), 0);
    store(one, 5, FAR + MS);
    assert_int_equal(hits(one), 5);
}


/* Prompts that make the tables grow, some allocations failing. */
static uint32_t
store_some(uint32_t from, uint32_t for_how_many)
{
    uint16_t            owner;
    uint32_t            i, k, n, full;
    uint64_t            blocks[LONG];
    sel_index_result_t  rc;

    allocations = 0;
    failing = from;
    failing_for = for_how_many;
    sel_memory_hook = hook;

    for (full = i = 0; i < PROMPTS; i++) {
        for (k = 0; k < LONG / 4; k++) {
            blocks[k] = i / 2 * 10000 + k;
        }

        n = LONG / 4 / (1 + i % 2);
        owner = i % 3 ? one : two;
        rc = sel_recent_store(recent, owner, blocks, n, i * MS);
        assert_true(rc == SEL_INDEX_OK || rc == SEL_INDEX_FULL);
        assert_true(rc == SEL_INDEX_FULL || hits_of(owner, blocks, n) == n);
        full += rc == SEL_INDEX_FULL;
    }

    sel_memory_hook = NULL;

    return full;
}


/*
 * Each allocation fails once, and all from each one on.  Whatever was stored
 * goes in time, and the next prompt comes through.
 */

static void
test_no_memory(void **state)
{
    uint32_t  n, all, from, full;

    n = 0;

    for (all = 0; all < 2; all++) {
        for (from = 1; ; from++) {
            (void) teardown(NULL);
            assert_int_equal(setup(NULL), 0);

            full = store_some(from, all ? UINT32_MAX / 2 : 1);
            assert_null(sel_index_check(index_));

            if (allocations < from) {
                assert_int_equal(full, 0);
                break;
            }

            n += full;
            expire(FAR);
            sweep();
            assert_int_equal(held(), 0);
            store(one, 5, FAR);
            assert_int_equal(hits(one), 5);
        }

        assert_in_range(from, 10, 1000);
    }

    assert_true(n > 10);
}


/* Nothing is needed to forget. */
static void
test_expire_without_memory(void **state)
{
    assert_int_equal(store_some(0, 0), 0);
    failing = 0;
    failing_for = UINT32_MAX;
    sel_memory_hook = hook;
    expire(FAR);
    assert_int_equal(held(), 0);

    assert_null(sel_recent_create(index_, 0, 1));
}


/* The index keeps what it has; leaks are the sanitizers' to see. */
static void
test_destroyed(void **state)
{
    store(one, 5, 100 * MS);
    store(two, 3, 200 * MS);
    sel_recent_destroy(recent);
    recent = NULL;
    sel_recent_destroy(NULL);

    assert_int_equal(hits(one), 5);
    assert_int_equal(hits(two), 3);
    assert_null(sel_index_check(index_));
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_index, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_expire_without_memory, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_destroyed, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
