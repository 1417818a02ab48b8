/*
 * The worker catalog, one rule a test.  Without it a change computed from an
 * old record could overwrite a newer one, a partition could have two block
 * sizes, and a refused change could leave something behind.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "catalog_test.h"


static void
test_life(void **state)
{
    test_t  test;

    begin(&test, STATE_SIZE);
    assert_int_equal(sel_catalog_version(&test.zone), 0);
    assert_int_equal(read_worker(&test, 7), 0);

    assert_int_equal(commit(&test, 7, 0, SEL_WORKER_INCOMPLETE, 0,
                            sel_str("first")), SEL_COMMIT_OK);
    assert_int_equal(test.version, 1);
    assert_int_equal(test.number, 0);
    assert_int_equal(sel_catalog_version(&test.zone), 1);

    assert_int_equal(read_worker(&test, 7), 1);
    assert_int_equal(test.record.worker_id, 7);
    assert_int_equal(test.record.version, 1);
    assert_int_equal(test.record.state, SEL_WORKER_INCOMPLETE);
    assert_int_equal(test.record.partition, 0);
    assert_int_equal(test.record.n_ranks, 0);
    assert_true(sel_str_eq(test.record.blob, sel_str("first")));

    assert_int_equal(commit(&test, 7, 1, SEL_WORKER_SCHEDULABLE, 2,
                            sel_str("second")), SEL_COMMIT_OK);
    assert_int_equal(test.version, 2);
    assert_int_equal(test.number, 1);

    assert_int_equal(read_worker(&test, 7), 1);
    assert_int_equal(test.record.version, 2);
    assert_int_equal(test.record.state, SEL_WORKER_SCHEDULABLE);
    assert_int_equal(test.record.partition, 1);
    assert_int_equal(test.record.n_ranks, 2);
    assert_int_equal(test.record.ranks[0].dp_rank, 0);
    assert_int_equal(test.record.ranks[1].dp_rank, 1);
    assert_int_equal(test.record.ranks[1].slot, test.ranks[1].slot);
    assert_int_equal(test.record.ranks[1].epoch, test.ranks[1].epoch);
    assert_true(sel_str_eq(test.record.blob, sel_str("second")));

    delete_ok(&test, 7, 2);
    assert_int_equal(test.version, 3);
    assert_int_equal(read_worker(&test, 7), 0);
    assert_int_equal(state_stats(&test.zone).workers, 0);
    assert_int_equal(state_stats(&test.zone).slots_used, 0);
    end(&test);
}


/* A change must come from the record that is there. */
static void
test_stale(void **state)
{
    uint32_t          i;
    test_t            test;
    sel_zone_stats_t  before, after;

    static const struct {
        uint64_t             worker_id;
        uint64_t             expected;
        sel_worker_state_t   state;
    } stale[] = {
        { 1, 0, SEL_WORKER_SCHEDULABLE },   /* is there, at 2 */
        { 1, 1, SEL_WORKER_SCHEDULABLE },
        { 1, 3, SEL_WORKER_SCHEDULABLE },
        { 1, UINT64_MAX, SEL_WORKER_INCOMPLETE },
        { 1, 0, SEL_WORKER_GONE },
        { 1, 1, SEL_WORKER_GONE },
        { 2, 3, SEL_WORKER_SCHEDULABLE },   /* was deleted at 4 */
        { 2, 4, SEL_WORKER_SCHEDULABLE },
        { 2, 4, SEL_WORKER_GONE },
        { 3, 1, SEL_WORKER_SCHEDULABLE },   /* never was */
        { 3, 4, SEL_WORKER_GONE },
    };

    begin(&test, STATE_SIZE);
    commit_ok(&test, 1, 0, 1);
    commit_ok(&test, 1, 1, 1);
    forget_slots(&test);
    commit_ok(&test, 2, 0, 1);
    forget_slots(&test);
    delete_ok(&test, 2, 3);

    before = state_stats(&test.zone);

    for (i = 0; i < sel_countof(stale); i++) {
        assert_int_equal(commit(&test, stale[i].worker_id, stale[i].expected,
                                stale[i].state,
                                stale[i].state == SEL_WORKER_SCHEDULABLE,
                                sel_str("")), SEL_COMMIT_STALE);

        after = state_stats(&test.zone);
        assert_memory_equal(&before, &after, sizeof(before));
    }

    assert_int_equal(read_worker(&test, 1), 1);
    assert_int_equal(test.record.version, 2);

    commit_ok(&test, 2, 0, 1);      /* a tomb is none */
    assert_int_equal(test.version, 5);
    end(&test);
}


static void
expect_partition(const sel_partition_t *got, const sel_partition_t *expected)
{
    assert_int_equal(got->number, expected->number);
    assert_int_equal(got->block_size, expected->block_size);
    assert_int_equal(got->is_eagle, expected->is_eagle);
    assert_true(sel_str_eq(got->model_name, expected->model_name));
    assert_true(sel_str_eq(got->routing_group, expected->routing_group));
}


static void
test_partitions(void **state)
{
    char             longest[5000];
    uint32_t         i, last;
    test_t           test;
    sel_partition_t  got, names[6] = {
        { .model_name = sel_str("ab"), .routing_group = sel_str("c") },
        { .model_name = sel_str("a"), .routing_group = sel_str("bc") },
        { .model_name = sel_str("abc"), .routing_group = sel_str("") },
        { .model_name = sel_str(""), .routing_group = sel_str("abc") },
        { .model_name = sel_str("a\0b"), .routing_group = sel_str("c") },
        { .routing_group = sel_str("group") },
    };

    memset(longest, 'x', sizeof(longest));
    names[5].model_name = (sel_str_t) { sizeof(longest),
                                        (const uint8_t *) longest };

    begin(&test, STATE_SIZE);
    last = 0;

    for (i = 0; i < 6; i++) {
        forget_slots(&test);
        names[i].block_size = 16 + i;
        names[i].is_eagle = i % 2;
        test.partition = names[i];
        commit_ok(&test, i, 0, 1);
        assert_true(test.number > last);
        last = test.number;
        names[i].number = last;
    }

    assert_int_equal(state_stats(&test.zone).partitions, 6);

    for (i = 0; i < 6; i++) {
        assert_int_equal(sel_catalog_partition(&test.zone, names[i].number,
                                               &test.arena, &got), 1);
        expect_partition(&got, &names[i]);

        memset(&got, 0, sizeof(got));
        assert_int_equal(sel_catalog_find_partition(&test.zone,
                             names[i].model_name, names[i].routing_group,
                             &test.arena, &got), 1);
        expect_partition(&got, &names[i]);
    }

    assert_int_equal(sel_catalog_partition(&test.zone, 0, &test.arena, &got),
                     0);
    assert_int_equal(sel_catalog_partition(&test.zone, last + 1, &test.arena,
                                           &got), 0);
    assert_int_equal(sel_catalog_partition(&test.zone, UINT32_MAX,
                                           &test.arena, &got), 0);
    assert_int_equal(sel_catalog_find_partition(&test.zone, sel_str("ab"),
                         sel_str(""), &test.arena, &got), 0);
    end(&test);
}


/* Block size and eagle flag are fixed by the first worker. */
static void
test_properties(void **state)
{
    test_t            test;
    uint32_t          number;
    sel_zone_stats_t  before, after;

    begin(&test, STATE_SIZE);
    commit_ok(&test, 1, 0, 2);
    number = test.number;
    before = state_stats(&test.zone);

    forget_slots(&test);
    test.partition.block_size = 32;
    assert_int_equal(commit(&test, 2, 0, SEL_WORKER_SCHEDULABLE, 1,
                            sel_str("x")), SEL_COMMIT_BLOCK_SIZE);
    assert_int_equal(test.existing.number, number);
    assert_int_equal(test.existing.block_size, 16);
    assert_false(test.existing.is_eagle);
    assert_int_equal(test.existing.model_name.len, 0);
    assert_int_equal(test.existing.routing_group.len, 0);

    test.partition.block_size = 16;
    test.partition.is_eagle = true;
    assert_int_equal(commit(&test, 1, 1, SEL_WORKER_SCHEDULABLE, 2,
                            sel_str("x")), SEL_COMMIT_EAGLE);
    assert_int_equal(test.existing.number, number);
    assert_int_equal(test.existing.block_size, 16);
    assert_false(test.existing.is_eagle);

    after = state_stats(&test.zone);
    assert_memory_equal(&before, &after, sizeof(before));
    assert_int_equal(read_worker(&test, 2), 0);
    assert_int_equal(read_worker(&test, 1), 1);
    assert_int_equal(test.record.version, 1);

    /* also when no worker is left, and after a rebuild */
    delete_ok(&test, 1, 1);
    state_rebuild(&test.zone);
    assert_int_equal(commit(&test, 2, 0, SEL_WORKER_SCHEDULABLE, 1,
                            sel_str("x")), SEL_COMMIT_EAGLE);
    test.partition.is_eagle = false;
    commit_ok(&test, 2, 0, 1);
    assert_int_equal(test.number, number);
    end(&test);
}


static void
test_blobs(void **state)
{
    static const uint32_t  sizes[] = {
        0, 1, 7, 8, 9, 100, 150, 180, 190, 200, 210, 220, 230, 240, 247, 248,
        249, 255, 256, 257, 495, 496, 497, 1000, 4096, 65535, 65536, 1000000,
        2500001
    };

    uint8_t   *blob;
    uint32_t   i, round;
    test_t     test;

    begin(&test, 16 << 20);
    blob = malloc(2500001);

    for (round = 0; round < 2; round++) {
        for (i = 0; i < sel_countof(sizes); i++) {
            forget_slots(&test);
            cat_blob(i + 1, sizes[i], blob);
            assert_int_equal(commit(&test, i, round ? 1 + i : 0,
                                    SEL_WORKER_SCHEDULABLE, 1 + i % 4,
                                    (sel_str_t) { sizes[i], blob }),
                             SEL_COMMIT_OK);
        }

        state_check(&test.zone);
        state_rebuild(&test.zone);

        for (i = 0; i < sel_countof(sizes); i++) {
            cat_blob(i + 1, sizes[i], blob);
            assert_int_equal(read_worker(&test, i), 1);
            assert_true(sel_str_eq(test.record.blob,
                                   (sel_str_t) { sizes[i], blob }));
            assert_int_equal(test.record.n_ranks, 1 + i % 4);
            sel_arena_free(&test.arena);
        }
    }

    free(blob);
    end(&test);
}


/* A full zone refuses, and everything is as it was. */
static void
test_full(void **state)
{
    uint8_t           *blob;
    uint32_t           i, n;
    sel_str_t          big;
    test_t             test;
    sel_commit_t       result;
    sel_zone_stats_t   before, after;

    begin(&test, STATE_SIZE);
    blob = malloc(20000);
    cat_blob(1, 20000, blob);
    big = (sel_str_t) { 20000, blob };

    for (n = 0; ; n++) {
        forget_slots(&test);
        before = state_stats(&test.zone);
        result = commit(&test, n, 0, SEL_WORKER_SCHEDULABLE, 2, big);

        if (result == SEL_COMMIT_FULL) {
            break;
        }

        assert_int_equal(result, SEL_COMMIT_OK);
        assert_true(n < 60);
    }

    assert_true(n > 20);
    test.partition.routing_group = sel_str("a new one");
    assert_int_equal(commit(&test, n, 0, SEL_WORKER_SCHEDULABLE, 2, big),
                     SEL_COMMIT_FULL);
    test.partition.routing_group = sel_str("east");
    assert_int_equal(commit(&test, 0, 1, SEL_WORKER_SCHEDULABLE, 2, big),
                     SEL_COMMIT_FULL);

    after = state_stats(&test.zone);
    assert_memory_equal(&before, &after, sizeof(before));
    state_check(&test.zone);

    for (i = 0; i < n; i++) {
        assert_int_equal(read_worker(&test, i), 1);
        assert_int_equal(test.record.version, i + 1);
        assert_int_equal(test.record.n_ranks, 2);
        assert_true(sel_str_eq(test.record.blob, big));
    }

    /* one goes, another can come */
    delete_ok(&test, 3, 4);
    big.len /= 2;
    assert_int_equal(commit(&test, n, 0, SEL_WORKER_SCHEDULABLE, 2, big),
                     SEL_COMMIT_OK);

    free(blob);
    end(&test);
}


/* Reading without memory fails cleanly: the lock is free again. */
static void
test_no_memory(void **state)
{
    uint8_t              blob[8000];
    sel_arena_t          arena;
    test_t               test;
    sel_partition_t      partition;
    sel_worker_record_t  records[4];

    begin(&test, STATE_SIZE);
    memset(blob, 'b', sizeof(blob));
    test.partition.model_name = (sel_str_t) { sizeof(blob), blob };
    assert_int_equal(commit(&test, 1, 0, SEL_WORKER_SCHEDULABLE, 3,
                            (sel_str_t) { sizeof(blob), blob }),
                     SEL_COMMIT_OK);

    sel_arena_init(&arena, 64);
    assert_int_equal(sel_catalog_worker(&test.zone, 1, &arena, records), -1);
    sel_arena_free(&arena);
    assert_int_equal(sel_catalog_changes(&test.zone, 0, 4, &arena, records),
                     -1);
    sel_arena_free(&arena);
    assert_int_equal(sel_catalog_partition(&test.zone, test.number, &arena,
                                           &partition), -1);
    sel_arena_free(&arena);
    assert_int_equal(sel_catalog_find_partition(&test.zone,
                         test.partition.model_name,
                         test.partition.routing_group, &arena, &partition),
                     -1);
    sel_arena_free(&arena);

    assert_int_equal(read_worker(&test, 1), 1);
    assert_int_equal(read_worker(&test, 2), 0);
    end(&test);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_life),
        cmocka_unit_test(test_stale),
        cmocka_unit_test(test_partitions),
        cmocka_unit_test(test_properties),
        cmocka_unit_test(test_blobs),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
