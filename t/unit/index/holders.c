/*
 * More ranks with tiers than there is room for, and look-ups without memory.
 * Without it the last ranks could take blocks of others, an index without a
 * free place could refuse a clear, or a look-up that gets no memory could
 * fail where the device alone would do.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "index/sel_memory.h"
#include "tier_steps.h"


#define PLACES  65536           /* one for each tier of a rank with blocks */


static sel_index_result_t
store_one(uint16_t owner, sel_tier_t tier)
{
    uint64_t            block, external;
    sel_index_change_t  change;

    block = 1;
    external = 101;

    change = (sel_index_change_t) {
        .kind = SEL_INDEX_STORED, .tier = tier, .owner = owner, .n = 1,
        .external = &external, .block = &block
    };

    return sel_index_apply(steps, &change);
}


static void
test_no_place_left(void **state)
{
    uint16_t             first, last, more;
    uint32_t             i, tier;
    uint64_t             block;
    sel_index_match_t   *out;

    for (i = 0; i < PLACES / SEL_TIERS; i++) {
        last = owner_of(i, 0);

        for (tier = 0; tier < SEL_TIERS; tier++) {
            assert_int_equal(store_one(last, (sel_tier_t) tier),
                             SEL_INDEX_OK);
        }
    }

    first = owner_of(0, 0);
    more = owner_of(i, 0);
    assert_int_equal(store_one(more, DEVICE), SEL_INDEX_FULL);
    assert_int_equal(store_one(more, DISK), SEL_INDEX_FULL);
    expect_blocks(more, 0, 0, 0, 0);
    steps_check();

    /* a clear needs no place, and what it leaves is soon one */
    cleared(first);
    assert_int_equal(store_one(more, DISK), SEL_INDEX_OK);
    assert_int_equal(store_one(first, DEVICE), SEL_INDEX_OK);
    cleared(first);
    assert_int_equal(store_one(first, EXTERNAL), SEL_INDEX_OK);
    expect_stats(i - 1, i - 1, i, i);

    block = 1;
    out = calloc(i + 2, sizeof(sel_index_match_t));
    assert_int_equal(sel_index_match(steps, PARTITION, &block, 1, out, i + 2),
                     i + 1);

    while (i > 0) {
        assert_int_equal(out[--i].hits[HOST], 0);
        assert_int_equal(out[i].hits[DEVICE] + out[i].hits[DISK]
                         + out[i].hits[EXTERNAL], 1);
    }

    free(out);
    sel_index_retire(steps, last);
    swept();
}


static bool
no_memory(size_t size)
{
    return false;
}


static void
test_no_memory_for_a_lookup(void **state)
{
    uint16_t  a, b;

    a = owner_of(1, 0);
    b = owner_of(2, 0);
    stored(a, DEVICE, "1 2");
    stored(a, HOST, "102: 3");
    stored(b, HOST, "1 2 3");

    sel_memory_hook = no_memory;
    expect(a, "1 2 3", 2, 0, 0, 0);
    expect(b, "1 2 3", 0, 0, 0, 0);

    sel_memory_hook = NULL;
    expect(a, "1 2 3", 2, 1, 0, 0);
    expect(b, "1 2 3", 0, 3, 0, 0);
    steps_check();

    /* what it took is given back with the last block */
    sel_memory_hook = no_memory;
    cleared(a);
    cleared(b);
    swept();
    expect_stats(0, 0, 0, 0);
    sel_memory_hook = NULL;
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        steps_test(test_no_place_left),
        steps_test(test_no_memory_for_a_lookup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
