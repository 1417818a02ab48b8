/*
 * Rank slots, as commits give and keep them.  Without it a slot could be used
 * again under its old epoch, so that books of one rank count for another, and
 * blocks of an old event source could stay valid.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "catalog_test.h"


static void
test_keep_slots(void **state)
{
    test_t           test;
    sel_rank_slot_t  old[4];

    begin(&test, STATE_SIZE);
    commit_ok(&test, 1, 0, 4);
    memcpy(old, test.ranks, sizeof(old));
    assert_int_equal(state_stats(&test.zone).slots_used, 4);

    /* 0 stays, 1 changes its source, 2 gets another slot, 3 goes */
    test.ranks[1].new_feed = true;
    test.ranks[2].slot = SEL_SLOT_NONE;
    commit_ok(&test, 1, 1, 3);
    assert_int_equal(state_stats(&test.zone).slots_used, 3);

    assert_int_equal(test.ranks[0].slot, old[0].slot);
    assert_int_equal(test.ranks[0].epoch, old[0].epoch);
    assert_int_equal(test.ranks[0].feed, old[0].feed);

    assert_int_equal(test.ranks[1].slot, old[1].slot);
    assert_int_equal(test.ranks[1].epoch, old[1].epoch);
    assert_true(test.ranks[1].feed > old[1].feed);

    assert_int_not_equal(test.ranks[2].slot, old[0].slot);
    assert_int_not_equal(test.ranks[2].slot, old[1].slot);
    assert_true(test.zone.slots[old[2].slot].epoch > old[2].epoch);
    assert_true(test.zone.slots[old[3].slot].epoch > old[3].epoch);

    assert_int_equal(read_worker(&test, 1), 1);
    assert_int_equal(test.record.n_ranks, 3);
    assert_int_equal(test.record.ranks[1].feed, test.ranks[1].feed);

    /* a worker that is not schedulable has no slots */
    assert_int_equal(commit(&test, 1, 2, SEL_WORKER_INCOMPLETE, 0,
                            sel_str("")), SEL_COMMIT_OK);
    assert_int_equal(state_stats(&test.zone).slots_used, 0);
    end(&test);
}


/* What a slot tells while it is in use. */
static void
test_slot_table(void **state)
{
    uint32_t           i;
    test_t             test;
    const sel_slot_t  *slot;

    begin(&test, STATE_SIZE);
    test.ranks[1].dp_rank = UINT32_MAX;
    commit_ok(&test, UINT64_MAX, 0, 2);

    for (i = 0; i < 2; i++) {
        slot = &test.zone.slots[test.ranks[i].slot];
        assert_int_equal(slot->used, 1);
        assert_true(slot->worker_id == UINT64_MAX);
        assert_int_equal(slot->dp_rank, i ? UINT32_MAX : 0);
        assert_int_equal(slot->partition, test.number);
        assert_int_equal(slot->epoch, test.ranks[i].epoch);
        assert_int_equal(slot->feed, test.ranks[i].feed);
    }

    delete_ok(&test, UINT64_MAX, 1);

    for (i = 0; i < 2; i++) {
        slot = &test.zone.slots[test.ranks[i].slot];
        assert_int_equal(slot->used, 0);
        assert_true(slot->epoch > test.ranks[i].epoch);
    }

    end(&test);
}


/* An epoch is used once: all slots are given out again and again. */
static void
test_epochs(void **state)
{
    uint32_t     i, turn, n;
    uint64_t     version;
    test_t       test;
    const char  *error;
    cat_book_t  *book;

    begin(&test, STATE_SIZE);
    book = calloc(1, sizeof(cat_book_t));
    n = test.zone.n_slots < 250 ? test.zone.n_slots : 250;

    for (turn = 0; turn < 300; turn++) {
        forget_slots(&test);
        commit_ok(&test, turn % 7, 0, n - turn % 5);
        version = test.version;

        for (i = 0; i < n - turn % 5; i++) {
            error = cat_book_slot(book, test.number, turn, &test.ranks[i]);

            if (error != NULL) {
                fail_msg("%s", error);
            }
        }

        if (turn % 16 == 0) {
            state_rebuild(&test.zone);
        }

        delete_ok(&test, turn % 7, version);
    }

    free(book);
    end(&test);
}


/* A slot stands for another rank in another partition. */
static void
test_move(void **state)
{
    test_t            test;
    uint32_t          number;
    sel_rank_slot_t   old[2];

    begin(&test, STATE_SIZE);
    commit_ok(&test, 1, 0, 2);
    number = test.number;
    memcpy(old, test.ranks, sizeof(old));

    forget_slots(&test);
    test.partition.routing_group = sel_str("west");
    commit_ok(&test, 1, 1, 2);

    assert_int_not_equal(test.number, number);
    assert_true(test.ranks[0].slot != old[0].slot
                || test.ranks[0].epoch != old[0].epoch);
    assert_true(test.zone.slots[old[0].slot].epoch != old[0].epoch);
    assert_true(test.zone.slots[old[1].slot].epoch != old[1].epoch);
    assert_int_equal(state_stats(&test.zone).slots_used, 2);

    assert_int_equal(read_worker(&test, 1), 1);
    assert_int_equal(test.record.partition, test.number);

    /* even where the caller wants to keep its slots on the way back */
    memcpy(old, test.ranks, sizeof(old));
    test.partition.routing_group = sel_str("east");
    (void) commit(&test, 1, 2, SEL_WORKER_SCHEDULABLE, 2, sel_str(""));
    assert_int_equal(read_worker(&test, 1), 1);
    assert_true(test.record.partition != number
                || test.record.ranks[0].slot != old[0].slot
                || test.record.ranks[0].epoch != old[0].epoch);
    end(&test);
}


static void
test_no_slots(void **state)
{
    uint32_t            i, used;
    test_t              test;
    sel_rank_slot_t    *many;
    sel_zone_stats_t    before, after;
    sel_worker_commit_t c;

    begin(&test, STATE_SIZE);
    many = calloc(test.zone.n_slots + 1, sizeof(sel_rank_slot_t));

    for (i = 0; i <= test.zone.n_slots; i++) {
        many[i].dp_rank = i;
        many[i].slot = SEL_SLOT_NONE;
    }

    c = (sel_worker_commit_t) {
        .worker_id = 1, .state = SEL_WORKER_SCHEDULABLE,
        .partition = &test.partition, .n_ranks = test.zone.n_slots + 1,
        .ranks = many
    };

    before = state_stats(&test.zone);
    assert_int_equal(sel_catalog_commit(&test.zone, &c, &test.version,
                                        &test.number, &test.existing),
                     SEL_COMMIT_NO_SLOTS);
    after = state_stats(&test.zone);
    assert_int_equal(after.slots_used, 0);
    assert_int_equal(after.workers, 0);
    assert_int_equal(after.catalog_version, 0);
    assert_int_equal(after.chunks_free, before.chunks_free);

    /* exactly all of them fit; then there is none left */
    c.n_ranks = test.zone.n_slots;
    assert_int_equal(sel_catalog_commit(&test.zone, &c, &test.version,
                                        &test.number, &test.existing),
                     SEL_COMMIT_OK);
    used = (uint32_t) state_stats(&test.zone).slots_used;
    assert_int_equal(used, test.zone.n_slots);
    assert_int_equal(commit(&test, 2, 0, SEL_WORKER_SCHEDULABLE, 1,
                            sel_str("")), SEL_COMMIT_NO_SLOTS);
    assert_int_equal(read_worker(&test, 1), 1);
    assert_int_equal(test.record.n_ranks, used);

    for (i = 0; i < used; i++) {
        assert_int_equal(test.record.ranks[i].dp_rank, i);
        assert_int_equal(test.record.ranks[i].slot, many[i].slot);
    }

    /* a worker may keep its own when there is no other */
    c.expected = test.record.version;
    c.n_ranks = used - 1;
    assert_int_equal(sel_catalog_commit(&test.zone, &c, &test.version,
                                        &test.number, &test.existing),
                     SEL_COMMIT_OK);
    commit_ok(&test, 2, 0, 1);

    free(many);
    end(&test);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_keep_slots),
        cmocka_unit_test(test_slot_table),
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_move),
        cmocka_unit_test(test_no_slots),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
