/*
 * The lower tiers and the engines' hashes.  Without it two hashes for one
 * place could leave a store half done or for ever refused, equal blocks in
 * different places could be taken for each other, and a rank whose hashes
 * differ from those of another could lose what follows its device blocks, or
 * get what follows the other's.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "tier_steps.h"


/* An external hash of the rank that is in another place already. */
static void
test_a_hash_in_a_second_place(void **state)
{
    uint16_t    a;
    sel_tier_t  tier;

    for (tier = HOST; tier < SEL_TIERS; tier++) {
        a = owner_of(tier, 0);

        stored(a, tier, "1 2 3");
        conflict(a, tier, "150: 7 2 8");
        assert_int_equal(sel_index_owner_blocks(steps, a, tier), 4);

        unknown(a, tier, "108");        /* the rest was dropped */
        removed(a, tier, "107");        /* what came before it was not */
        removed(a, tier, "102");
        stored(a, tier, "150: 7 2 8");
        assert_int_equal(sel_index_owner_blocks(steps, a, tier), 5);
        conflict(a, tier, "101: 2");

        conflict(a, tier, "5=500 6=500 7=501");
        assert_int_equal(sel_index_owner_blocks(steps, a, tier), 6);
        unknown(a, tier, "501");
        removed(a, tier, "500");
    }
}


/* A rank's hash binds neither its other tiers nor other ranks. */
static void
test_a_second_place_elsewhere(void **state)
{
    uint16_t  a, b;

    a = owner_of(1, 0);
    b = owner_of(1, 1);

    stored(a, DEVICE, "1 2");
    stored(a, HOST, "150: 2");
    stored(a, DISK, "101: 2");
    stored(a, EXTERNAL, "2");
    stored(b, HOST, "101: 2 3");
    stored(b, DISK, "1 2");
    expect_blocks(a, 2, 1, 1, 1);
    expect(a, "1 2 3", 2, 0, 0, 0);
    expect(a, "2 3", 0, 0, 0, 1);
    expect(b, "1 2 3", 0, 0, 2, 0);
    conflict(a, HOST, "101: 2");
    conflict(a, DISK, "102: 2");
}


/* A place that has another hash already. */
static void
test_a_place_with_another_hash(void **state)
{
    uint16_t    a, b;
    sel_tier_t  tier;

    for (tier = HOST; tier < SEL_TIERS; tier++) {
        a = owner_of(tier, 0);
        b = owner_of(tier, 1);

        stored(a, tier, "1 2 3");
        conflict(b, tier, "1=201");
        assert_int_equal(sel_index_owner_blocks(steps, b, tier), 0);
        conflict(b, tier, "1 2=202 3=203");
        assert_int_equal(sel_index_owner_blocks(steps, b, tier), 1);
        unknown(b, tier, "202");
        unknown(b, tier, "203");
        removed(b, tier, "101");

        conflict(a, tier, "1 2=202 4");     /* its own place as well */
        unknown(a, tier, "202 104");
        assert_int_equal(sel_index_owner_blocks(steps, a, tier), 3);

        removed(a, tier, "102");
        stored(b, tier, "1 2=202 3=203");   /* nobody is there any more */
        conflict(a, tier, "101: 2 3");
        assert_int_equal(credited(PARTITION, "1 2 3"), 2);
        expect(a, "1 2 3", 0, tier == HOST, tier == DISK, tier == EXTERNAL);
        expect(b, "1 2 3", 0, 3 * (tier == HOST), 3 * (tier == DISK),
               3 * (tier == EXTERNAL));
        removed(a, tier, "101");
        removed(b, tier, "203 202 101");
    }
}


static void
test_a_clear_frees_the_place(void **state)
{
    uint16_t  a, b;

    a = owner_of(1, 0);
    b = owner_of(2, 0);

    stored(a, HOST, "1 2");
    stored(a, DISK, "102: 3");
    cleared(a);
    stored(b, HOST, "1=201 2=202");
    stored(b, DISK, "202: 3=203");
    expect(b, "1 2 3", 0, 2, 1, 0);

    conflict(a, HOST, "1 2");
    swept();
    conflict(a, HOST, "1 2");
    expect(a, "1 2 3", 0, 0, 0, 0);
    expect(b, "1 2 3", 0, 2, 1, 0);

    cleared(b);
    swept();
    stored(a, HOST, "1 2");
    expect(a, "1 2 3", 0, 2, 0, 0);
}


/* The same rank may come back with other hashes at once. */
static void
test_a_rank_changes_its_hashes(void **state)
{
    uint16_t  a;

    a = owner_of(1, 0);

    stored(a, HOST, "1 2 3");
    cleared(a);
    stored(a, HOST, "1=201 2=101 3=103");
    expect(a, "1 2 3", 0, 3, 0, 0);
    expect_blocks(a, 0, 3, 0, 0);

    swept();
    expect(a, "1 2 3", 0, 3, 0, 0);
    expect_blocks(a, 0, 3, 0, 0);
    removed(a, HOST, "201 101 103");
    unknown(a, HOST, "102");
}


static void
test_a_retired_rank_frees_the_place(void **state)
{
    uint16_t  a, b;

    a = owner_of(1, 0);
    b = owner_of(2, 0);

    stored(a, HOST, "1 2");
    sel_index_retire(steps, a);
    stored(b, HOST, "1=201 2=202");
    expect(b, "1 2", 0, 2, 0, 0);
    swept();
    expect(b, "1 2", 0, 2, 0, 0);

    sel_index_retire_worker(steps, PARTITION, 2);
    swept();
    a = owner_of(1, 0);
    stored(a, HOST, "1 2");
    expect(a, "1 2", 0, 2, 0, 0);
}


static void
test_one_block_under_several_parents(void **state)
{
    uint16_t  a, b;

    a = owner_of(1, 0);
    b = owner_of(1, 1);

    stored(a, HOST, "5 1=601");
    stored(a, HOST, "1 5=205 5=305");
    stored(a, HOST, "999: 5=405");
    stored(b, HOST, "5");
    stored(b, HOST, "205: 5=305");

    expect(a, "5 1 5", 0, 2, 0, 0);
    expect(a, "1 5 5 5", 0, 3, 0, 0);
    expect(b, "5 5", 0, 1, 0, 0);
    expect(b, "1 5 5", 0, 0, 0, 0);
    expect_blocks(a, 0, 6, 0, 0);

    removed(a, HOST, "205");
    expect(a, "1 5 5", 0, 1, 0, 0);
    expect(a, "5 1", 0, 2, 0, 0);
    removed(a, HOST, "105");
    expect(a, "5 1", 0, 0, 0, 0);
    expect(b, "5 5", 0, 1, 0, 0);
    expect_blocks(a, 0, 4, 0, 0);
}


static void
test_one_block_again_and_again(void **state)
{
    uint16_t  a, b;

    a = owner_of(1, 0);
    b = owner_of(1, 1);

    stored(a, HOST, "1=101 1=102 1=103");
    expect(a, "1", 0, 1, 0, 0);
    expect(a, "1 1 1 1 1", 0, 3, 0, 0);

    stored(b, DEVICE, "1=101 1=102");
    stored(b, HOST, "102: 1=103");
    stored(b, EXTERNAL, "103: 1=104 1=105");
    expect(b, "1 1 1 1 1 1", 2, 1, 0, 2);
    expect(b, "1 1", 2, 0, 0, 0);

    removed(a, HOST, "102");
    expect(a, "1 1 1 1 1", 0, 1, 0, 0);
    expect(b, "1 1 1 1 1", 2, 1, 0, 2);
    stored(a, HOST, "101: 1=102");
    expect(a, "1 1 1 1 1", 0, 3, 0, 0);
    conflict(a, HOST, "103: 1=102");
}


/* Nothing forbids orphans that lead in a circle: the prompt ends the walk. */
static void
test_a_circle_ends_with_the_prompt(void **state)
{
    uint16_t  a;

    a = owner_of(1, 0);

    stored(a, DEVICE, "1");
    stored(a, HOST, "101: 2");
    stored(a, HOST, "102: 1");
    expect(a, "1", 1, 0, 0, 0);
    expect(a, "1 2 1 2 1 2 1", 1, 6, 0, 0);
    removed(a, HOST, "102");
    expect(a, "1 2 1 2 1 2 1", 1, 0, 0, 0);
}


/* No parent is one place, and each number as a parent is another. */
static void
test_no_parent_is_not_a_number(void **state)
{
    uint16_t  a;

    a = owner_of(1, 0);

    stored(a, HOST, "0: 1");
    stored(a, HOST, "18446744073709551615: 2");
    expect(a, "1", 0, 0, 0, 0);
    expect(a, "2", 0, 0, 0, 0);

    stored(a, DEVICE, "5=0");
    stored(a, DEVICE, "6=18446744073709551615");
    expect(a, "5 1", 1, 1, 0, 0);
    expect(a, "6 2", 1, 1, 0, 0);
    expect(a, "5 2", 1, 0, 0, 0);

    stored(a, DISK, "1=0 2=18446744073709551615 0=7");
    expect(a, "1 2 0", 0, 0, 3, 0);
    removed(a, DISK, "0");
    expect(a, "1 2 0", 0, 0, 0, 0);
}


/* a and b have the same blocks on the device, under hashes of their own. */
static void
own_anchors(uint16_t a, uint16_t b)
{
    stored(a, HOST, "102: 3");
    stored(b, HOST, "202: 3=203");
    stored(a, DISK, "103: 4");
    stored(b, DISK, "203: 4=204");
    expect(a, "1 2 3 4", 2, 1, 1, 0);
    expect(b, "1 2 3 4", 2, 1, 1, 0);

    stored(a, EXTERNAL, "202: 3=203");  /* behind the other's hash */
    stored(b, EXTERNAL, "102: 3");
    removed(a, HOST, "103");
    removed(b, HOST, "203");
    expect(a, "1 2 3 4", 2, 0, 0, 0);
    expect(b, "1 2 3 4", 2, 0, 0, 0);

    stored(a, HOST, "102: 3");
    stored(b, HOST, "202: 3=203");
}


static void
test_each_rank_goes_on_from_its_own_hash(void **state)
{
    uint16_t  a, b;

    a = owner_of(1, 0);
    b = owner_of(2, 0);
    stored(a, DEVICE, "1 2");
    stored(b, DEVICE, "1=201 2=202");
    own_anchors(a, b);

    sel_index_retire(steps, a);
    expect(b, "1 2 3 4", 2, 1, 1, 0);
    swept();
    expect(b, "1 2 3 4", 2, 1, 1, 0);
    removed(b, DEVICE, "202");
    expect(b, "1 2 3 4", 1, 0, 0, 0);
    stored(b, DEVICE, "201: 2=202");
    expect(b, "1 2 3 4", 2, 1, 1, 0);
}


static void
test_the_same_the_other_way_round(void **state)
{
    uint16_t  a, b;

    a = owner_of(1, 0);
    b = owner_of(2, 0);
    stored(b, DEVICE, "1=201 2=202");
    stored(a, DEVICE, "1 2");
    own_anchors(a, b);

    cleared(b);
    expect(a, "1 2 3 4", 2, 1, 1, 0);
    swept();
    expect(a, "1 2 3 4", 2, 1, 1, 0);

    stored(b, DEVICE, "1=301 2=302");
    stored(b, HOST, "302: 3=303");
    expect(a, "1 2 3 4", 2, 1, 1, 0);
    expect(b, "1 2 3 4", 2, 1, 0, 0);
    removed(a, DEVICE, "101 102");
    expect(b, "1 2 3 4", 2, 1, 0, 0);
}


/*
 * One device block under two hashes of one rank.  Which of the two leads on
 * while both are there is not said; one that was removed never does.
 */
static void
test_two_hashes_of_one_rank(void **state)
{
    uint16_t  a, b;

    a = owner_of(1, 0);
    b = owner_of(2, 0);

    stored(b, DEVICE, "1");
    stored(a, DEVICE, "1");
    stored(a, DEVICE, "1=201");
    stored(a, HOST, "101: 2");
    stored(a, HOST, "201: 2=202 3=203");
    expect_blocks(a, 1, 3, 0, 0);
    expect(a, "1 2", 1, 1, 0, 0);
    expect(b, "1 2", 1, 0, 0, 0);

    removed(a, DEVICE, "101");
    expect(a, "1 2 3", 1, 2, 0, 0);
    removed(a, HOST, "202");
    expect(a, "1 2 3", 1, 0, 0, 0);

    stored(a, DEVICE, "1");
    removed(a, DEVICE, "201");
    expect(a, "1 2 3", 1, 1, 0, 0);
    stored(a, HOST, "201: 2=202");
    expect(a, "1 2 3", 1, 1, 0, 0);

    removed(a, DEVICE, "101");
    expect(a, "1 2 3", 0, 0, 0, 0);
    expect_blocks(a, 0, 3, 0, 0);
    expect(b, "1 2", 1, 0, 0, 0);
}


/* A device hash that moves to another block leads on from there. */
static void
test_a_hash_that_moves(void **state)
{
    uint16_t  a;

    a = owner_of(1, 0);

    stored(a, DEVICE, "1 2");
    stored(a, HOST, "102: 3");
    stored(a, DEVICE, "5=102");
    expect(a, "1 2 3", 1, 0, 0, 0);
    expect(a, "5 3", 1, 1, 0, 0);
    expect_blocks(a, 2, 1, 0, 0);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        steps_test(test_a_hash_in_a_second_place),
        steps_test(test_a_second_place_elsewhere),
        steps_test(test_a_place_with_another_hash),
        steps_test(test_a_clear_frees_the_place),
        steps_test(test_a_rank_changes_its_hashes),
        steps_test(test_a_retired_rank_frees_the_place),
        steps_test(test_one_block_under_several_parents),
        steps_test(test_one_block_again_and_again),
        steps_test(test_a_circle_ends_with_the_prompt),
        steps_test(test_no_parent_is_not_a_number),
        steps_test(test_each_rank_goes_on_from_its_own_hash),
        steps_test(test_the_same_the_other_way_round),
        steps_test(test_two_hashes_of_one_rank),
        steps_test(test_a_hash_that_moves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
