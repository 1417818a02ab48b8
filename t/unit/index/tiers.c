/*
 * The lower tiers of the block index, a test a rule.  Without them a copy in
 * host memory could count twice, a block on disk could be credited across a
 * hole, a removal in one tier could reach into another, a conflict of hashes
 * could leave half a store behind, and ranks with hashes of their own could
 * lose or inherit what follows their device blocks.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "tier_steps.h"


static void
test_a_tier_only_extends(void **state)
{
    uint16_t  a;

    a = owner_of(1, 0);

    stored(a, DEVICE, "1 2");
    stored(a, HOST, "1 2");
    stored(a, DISK, "1");
    expect(a, "1 2 3", 2, 0, 0, 0);

    stored(a, HOST, "102: 3");
    stored(a, DISK, "101: 2 3 4");
    stored(a, EXTERNAL, "1 2 3 4 5");
    expect(a, "1 2 3 4 5 6", 2, 1, 1, 1);

    /* what ends on the device goes on in host memory, and so on */
    removed(a, DEVICE, "102");
    expect(a, "1 2 3 4 5 6", 1, 2, 1, 1);
    removed(a, HOST, "103");
    expect(a, "1 2 3 4 5 6", 1, 1, 2, 1);
    removed(a, DISK, "103");
    expect(a, "1 2 3 4 5 6", 1, 1, 0, 3);
}


static void
test_each_tier_is_visited_once_in_order(void **state)
{
    uint16_t  a, b, c;

    a = owner_of(1, 0);
    b = owner_of(2, 0);
    c = owner_of(3, 0);

    stored(a, HOST, "1");               /* the device is behind the host */
    stored(a, DEVICE, "1 2");
    removed(a, DEVICE, "101");
    expect(a, "1 2", 0, 1, 0, 0);

    stored(b, DEVICE, "1");             /* the host is behind the disk */
    stored(b, DISK, "101: 2");
    stored(b, HOST, "102: 3");
    expect(b, "1 2 3", 1, 0, 1, 0);

    stored(c, HOST, "1 2");             /* the host goes on behind the disk */
    stored(c, DISK, "102: 3");
    stored(c, HOST, "103: 4");
    stored(c, EXTERNAL, "103: 4 5");
    stored(c, DISK, "105: 6");
    expect(c, "1 2 3 4 5 6", 0, 2, 1, 2);
}


static void
test_a_hole_ends_the_credit(void **state)
{
    uint16_t  a;

    a = owner_of(1, 0);

    stored(a, DEVICE, "1");
    stored(a, HOST, "101: 2 3 4");
    stored(a, DISK, "104: 5 6");
    stored(a, EXTERNAL, "106: 7");
    expect(a, "1 2 3 4 5 6 7", 1, 3, 2, 1);

    removed(a, HOST, "103");
    expect(a, "1 2 3 4 5 6 7", 1, 1, 0, 0);
    expect(a, "1 3 4", 1, 0, 0, 0);
    expect_blocks(a, 1, 2, 2, 1);
}


static void
test_a_refilled_hole_brings_the_rest_back(void **state)
{
    uint16_t    a;
    sel_tier_t  tier;

    for (tier = HOST; tier < SEL_TIERS; tier++) {
        a = owner_of(tier, 0);

        stored(a, tier, "1 2 3 4");
        removed(a, tier, "102 103");
        assert_int_equal(sel_index_owner_blocks(steps, a, tier), 2);

        stored(a, tier, "102: 3");      /* not the block next to it yet */
        assert_int_equal(credited(PARTITION, "2"), 0);
        stored(a, tier, "101: 2");
        assert_int_equal(sel_index_owner_blocks(steps, a, tier), 4);
        expect(a, "1 2 3 4 5", 0, tier == HOST ? 4 : 0, tier == DISK ? 4 : 0,
               tier == EXTERNAL ? 4 : 0);
    }
}


static void
test_a_rank_enters_at_its_first_tier(void **state)
{
    uint16_t  a, b, c, d;

    a = owner_of(1, 0);
    b = owner_of(2, 0);
    c = owner_of(3, 0);
    d = owner_of(4, 0);

    stored(a, HOST, "1 2");
    stored(b, DISK, "1 2 3");
    stored(b, HOST, "101: 2");          /* no first block there */
    stored(c, EXTERNAL, "1");
    stored(d, DEVICE, "7");

    expect(a, "1 2 3", 0, 2, 0, 0);
    expect(b, "1 2 3", 0, 0, 3, 0);
    expect(c, "1 2 3", 0, 0, 0, 1);
    expect(d, "1 2 3", 0, 0, 0, 0);
    assert_int_equal(credited(PARTITION, "1 2 3"), 3);
    assert_int_equal(credited(PARTITION, "2 3"), 0);
}


static void
test_an_orphan_waits_for_the_chain(void **state)
{
    uint16_t  a;

    a = owner_of(1, 0);

    stored(a, DISK, "103: 4");
    stored(a, HOST, "102: 3");
    expect(a, "1 2 3 4", 0, 0, 0, 0);
    expect(a, "3 4", 0, 0, 0, 0);
    expect_blocks(a, 0, 1, 1, 0);

    stored(a, DEVICE, "1 2");
    expect(a, "1 2 3 4", 2, 1, 1, 0);

    removed(a, DEVICE, "102");
    expect(a, "1 2 3 4", 1, 0, 0, 0);
    removed(a, DEVICE, "101");
    expect(a, "1 2 3 4", 0, 0, 0, 0);
    expect_blocks(a, 0, 1, 1, 0);

    stored(a, HOST, "1 2");             /* the chain may be in host memory */
    expect(a, "1 2 3 4", 0, 3, 1, 0);

    assert_int_equal(store(a, DEVICE, "199: 9"), SEL_INDEX_UNKNOWN_PARENT);
    assert_int_equal(store(a, DEVICE, "103: 9"), SEL_INDEX_UNKNOWN_PARENT);
}


static void
test_a_removal_stays_in_its_tier(void **state)
{
    uint16_t    a;
    sel_tier_t  tier;

    a = owner_of(1, 0);

    for (tier = DEVICE; tier < SEL_TIERS; tier++) {
        stored(a, tier, "1 2");
    }

    removed(a, HOST, "101 102");
    expect_blocks(a, 2, 0, 2, 2);
    unknown(a, HOST, "101");
    expect(a, "1 2", 2, 0, 0, 0);

    removed(a, DEVICE, "101 102");
    expect_blocks(a, 0, 0, 2, 2);
    expect(a, "1 2", 0, 0, 2, 0);

    removed(a, DISK, "102");
    expect_blocks(a, 0, 0, 1, 2);
    expect(a, "1 2", 0, 0, 1, 1);

    removed(a, EXTERNAL, "101");
    expect(a, "1 2", 0, 0, 1, 1);
    removed(a, DISK, "101");
    expect(a, "1 2", 0, 0, 0, 0);
    expect_blocks(a, 0, 0, 0, 1);
}


static void
test_unknown_hashes_do_not_stop_a_removal(void **state)
{
    uint16_t  a, b;

    a = owner_of(1, 0);
    b = owner_of(1, 1);

    unknown(a, EXTERNAL, "101");        /* nothing was ever stored there */
    removed(a, EXTERNAL, "");

    stored(a, HOST, "1 2 3");
    stored(a, DISK, "9");
    stored(b, HOST, "1 2 3 4");

    unknown(a, HOST, "109 103 999 102 102 104");
    expect(a, "1 2 3 4", 0, 1, 0, 0);
    expect(b, "1 2 3 4", 0, 4, 0, 0);
    expect_blocks(a, 0, 1, 1, 0);
}


static void
test_two_stores_and_one_removal(void **state)
{
    uint16_t    a;
    sel_tier_t  tier;

    a = owner_of(1, 0);

    for (tier = HOST; tier < SEL_TIERS; tier++) {
        stored(a, tier, "1 2");
        stored(a, tier, "1 2");
        stored(a, tier, "101: 2");
        stored(a, tier, "999:");
        assert_int_equal(sel_index_owner_blocks(steps, a, tier), 2);
        removed(a, tier, "101 102");
        unknown(a, tier, "101");
        expect(a, "1 2", 0, 0, 0, 0);
    }

    expect_blocks(a, 0, 0, 0, 0);
}


static void
in_all_tiers(uint16_t owner)
{
    stored(owner, DEVICE, "1 2");
    stored(owner, HOST, "102: 3");
    stored(owner, DISK, "103: 4 5");
    stored(owner, EXTERNAL, "105: 6");
    expect(owner, "1 2 3 4 5 6 7", 2, 1, 2, 1);
}


static void
test_a_clear_empties_every_tier(void **state)
{
    uint16_t  a, b;

    a = owner_of(1, 0);
    b = owner_of(1, 1);
    in_all_tiers(a);
    in_all_tiers(b);

    cleared(a);
    expect(a, "1 2 3 4 5 6 7", 0, 0, 0, 0);
    expect_blocks(a, 0, 0, 0, 0);
    expect(b, "1 2 3 4 5 6 7", 2, 1, 2, 1);
    unknown(a, DISK, "104");
    assert_int_equal(store(a, DEVICE, "101: 2"), SEL_INDEX_UNKNOWN_PARENT);

    stored(a, DEVICE, "1 2");           /* nothing old behind it */
    expect(a, "1 2 3 4 5 6 7", 2, 0, 0, 0);
    swept();
    expect(a, "1 2 3 4 5 6 7", 2, 0, 0, 0);
    expect(b, "1 2 3 4 5 6 7", 2, 1, 2, 1);

    in_all_tiers(a);
    cleared(b);
    swept();
    expect(a, "1 2 3 4 5 6 7", 2, 1, 2, 1);
    expect_stats(2, 1, 2, 1);
}


static void
test_a_retired_rank_leaves_every_tier(void **state)
{
    uint16_t  a, b;

    a = owner_of(1, 0);
    b = owner_of(1, 1);
    in_all_tiers(a);
    in_all_tiers(b);

    sel_index_retire(steps, a);
    steps_check();
    assert_int_equal(credited(PARTITION, "1 2 3 4 5 6 7"), 1);
    assert_int_equal(store(a, HOST, "8"), SEL_INDEX_NO_SUCH_OWNER);
    assert_int_equal(take(a, DISK, "104"), SEL_INDEX_NO_SUCH_OWNER);
    expect_stats(2, 1, 2, 1);

    a = owner_of(1, 0);
    expect_blocks(a, 0, 0, 0, 0);
    stored(a, DEVICE, "1 2");
    swept();
    expect(a, "1 2 3 4 5 6 7", 2, 0, 0, 0);
    expect(b, "1 2 3 4 5 6 7", 2, 1, 2, 1);
    expect_stats(4, 1, 2, 1);
}


static void
test_a_retired_worker_leaves_every_tier(void **state)
{
    uint16_t           a, b, other;
    sel_index_stats_t  stats;

    other = owner_in(PARTITION + 1, 1, 0);
    stored(other, HOST, "1");

    in_all_tiers(owner_of(1, 0));
    in_all_tiers(owner_of(1, 1));
    b = owner_of(2, 0);
    in_all_tiers(b);

    sel_index_retire_worker(steps, PARTITION, 1);
    steps_check();
    assert_int_equal(credited(PARTITION, "1 2 3 4 5 6 7"), 1);
    assert_int_equal(credited(PARTITION + 1, "1"), 1);
    swept();
    expect(b, "1 2 3 4 5 6 7", 2, 1, 2, 1);

    a = owner_of(1, 0);                 /* perhaps with an old number */
    expect_blocks(a, 0, 0, 0, 0);
    expect(a, "1 2 3 4 5 6 7", 0, 0, 0, 0);

    sel_index_retire_worker(steps, PARTITION, 2);
    sel_index_retire(steps, other);
    swept();

    sel_index_stats(steps, &stats);
    assert_int_equal(stats.nodes, 0);
    assert_int_equal(stats.owners, 1);
}


static void
test_ranks_are_apart(void **state)
{
    uint16_t  a, b;

    a = owner_of(1, 0);
    b = owner_of(1, 1);

    stored(a, DEVICE, "1");
    stored(a, HOST, "101: 2");
    stored(b, DEVICE, "1");
    stored(b, HOST, "102: 3");
    stored(b, DISK, "101: 2");
    stored(b, EXTERNAL, "102: 3");

    expect(a, "1 2 3", 1, 1, 0, 0);
    expect(b, "1 2 3", 1, 0, 1, 1);

    unknown(b, HOST, "102");
    removed(b, DISK, "102");
    expect(a, "1 2 3", 1, 1, 0, 0);
    expect(b, "1 2 3", 1, 0, 0, 0);

    stored(b, HOST, "101: 2");
    removed(a, HOST, "102");
    expect(a, "1 2 3", 1, 0, 0, 0);
    expect(b, "1 2 3", 1, 2, 0, 0);
}


static void
test_partitions_are_apart(void **state)
{
    uint16_t        a, b;
    const uint32_t  one[SEL_TIERS] = { 0, 1, 0, 0 };
    const uint32_t  two[SEL_TIERS] = { 0, 1, 1, 0 };

    a = owner_in(1, 1, 0);
    b = owner_in(2, 1, 0);

    stored(a, HOST, "1 2");
    stored(b, HOST, "1=900");           /* no conflict with the other */
    stored(b, DISK, "900: 2=901");

    expect_in(2, b, "1 2", two);
    assert_int_equal(credited(1, "1 2"), 1);
    assert_int_equal(credited(2, "1 2"), 1);
    assert_int_equal(credited(PARTITION, "1 2"), 0);

    removed(a, HOST, "102");
    expect_in(1, a, "1 2", one);
    expect_in(2, b, "1 2", two);

    sel_index_retire_worker(steps, 1, 1);
    swept();
    assert_int_equal(credited(1, "1 2"), 0);
    expect_in(2, b, "1 2", two);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        steps_test(test_a_tier_only_extends),
        steps_test(test_each_tier_is_visited_once_in_order),
        steps_test(test_a_hole_ends_the_credit),
        steps_test(test_a_refilled_hole_brings_the_rest_back),
        steps_test(test_a_rank_enters_at_its_first_tier),
        steps_test(test_an_orphan_waits_for_the_chain),
        steps_test(test_a_removal_stays_in_its_tier),
        steps_test(test_unknown_hashes_do_not_stop_a_removal),
        steps_test(test_two_stores_and_one_removal),
        steps_test(test_a_clear_empties_every_tier),
        steps_test(test_a_retired_rank_leaves_every_tier),
        steps_test(test_a_retired_worker_leaves_every_tier),
        steps_test(test_ranks_are_apart),
        steps_test(test_partitions_are_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
