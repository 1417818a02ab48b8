/*
 * The lower tiers of the block index at their limits: hundreds of ranks, long
 * prompts, little room for the answer, no memory left.  Without it a rank in
 * the second hundred could lose its tiers, a full index could keep half a
 * block or refuse to give memory back, and the counters could drift.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "tier_steps.h"


#define RANKS   200
#define PREFIX  4
#define LONG    10000
#define LITTLE  400000          /* bytes */
#define PIECE   40              /* blocks in one store */
#define CROWD   7


/* Blocks from .. to-1 of one chain; block i has the external hash i + shift */
static sel_index_result_t
store_run(uint16_t owner, sel_tier_t tier, uint32_t from, uint32_t to,
    uint64_t shift)
{
    uint32_t             i;
    uint64_t            *external, *block;
    sel_index_change_t   change;
    sel_index_result_t   result;

    external = malloc((to - from + 1) * sizeof(uint64_t));
    block = malloc((to - from + 1) * sizeof(uint64_t));

    for (i = from; i < to; i++) {
        external[i - from] = i + shift;
        block[i - from] = i + 1;
    }

    change = (sel_index_change_t) {
        .kind = SEL_INDEX_STORED, .tier = tier, .owner = owner,
        .has_parent = from > 0, .parent = from - 1 + shift, .n = to - from,
        .external = external, .block = block
    };

    result = sel_index_apply(steps, &change);

    free(external);
    free(block);

    return result;
}


static sel_index_result_t
take_one(uint16_t owner, sel_tier_t tier, uint64_t external)
{
    sel_index_change_t  change;

    change = (sel_index_change_t) {
        .kind = SEL_INDEX_REMOVED, .tier = tier, .owner = owner, .n = 1,
        .external = &external
    };

    return sel_index_apply(steps, &change);
}


/* Matches the first n blocks of the chain. */
static uint32_t
match_run(uint32_t n, sel_index_match_t *out, uint32_t cap)
{
    uint32_t   i;
    uint64_t  *block;

    block = malloc((n + 1) * sizeof(uint64_t));

    for (i = 0; i < n; i++) {
        block[i] = i + 1;
    }

    n = sel_index_match(steps, PARTITION, block, n, out, cap);
    free(block);

    return n;
}


/* How far rank i goes in each tier; its device part may be missing. */
static void
shape(uint32_t i, uint32_t *hits)
{
    hits[DEVICE] = i % 11 == 0 ? 0 : PREFIX + i % 2;
    hits[HOST] = i % 11 == 0 ? 1 + i % 5 : i % 7;
    hits[DISK] = i % 5;
    hits[EXTERNAL] = i % 3;
}


static void
store_shape(uint16_t owner, const uint32_t *hits, uint64_t shift)
{
    uint32_t    from;
    sel_tier_t  tier;

    from = 0;

    for (tier = DEVICE; tier < SEL_TIERS; tier++) {
        assert_int_equal(store_run(owner, tier, from, from + hits[tier],
                                   shift), SEL_INDEX_OK);
        from += hits[tier];
    }
}


/* Every second rank is there, or all. */
static void
expect_shapes(const uint16_t *owners, uint32_t step, uint32_t depth)
{
    uint32_t           i, k, n, rest;
    uint32_t           hits[SEL_TIERS];
    sel_tier_t         tier;
    sel_index_match_t  out[2 * RANKS];

    n = match_run(depth, out, 2 * RANKS);
    assert_int_equal(n, RANKS / step);

    for (i = 0; i < RANKS; i += step) {
        shape(i, hits);
        rest = depth;

        for (k = 0; k < n && out[k].owner != owners[i]; k++) {
            /* void */
        }

        assert_true(k < n);

        for (tier = DEVICE; tier < SEL_TIERS; tier++) {
            hits[tier] = hits[tier] < rest ? hits[tier] : rest;
            rest -= hits[tier];
            assert_int_equal(out[k].hits[tier], hits[tier]);
        }
    }
}


/* Ranks that share their first blocks and go on differently. */
static void
test_two_hundred_ranks(void **state)
{
    uint16_t           owners[RANKS];
    uint32_t           i, k, n, hits[SEL_TIERS];
    sel_index_match_t  out[10];

    for (i = 0; i < RANKS; i++) {
        owners[i] = owner_of(1 + i / 8, i % 8);
        shape(i, hits);
        store_shape(owners[i], hits, 1000);
    }

    steps_check();
    expect_shapes(owners, 1, 40);
    expect_shapes(owners, 1, PREFIX + 2);
    expect_shapes(owners, 1, 1);

    for (i = 1; i < RANKS; i += 2) {
        sel_index_retire(steps, owners[i]);
    }

    expect_shapes(owners, 2, 40);
    swept();
    expect_shapes(owners, 2, 40);

    /* no more answers than there is room for */
    memset(out, 0xa5, sizeof(out));
    n = match_run(40, out, 9);
    assert_int_equal(n, 9);
    assert_int_equal(out[9].owner, 0xa5a5);
    assert_int_equal(match_run(40, out, 0), 0);

    for (i = 0; i < n; i++) {
        assert_true(out[i].hits[DEVICE] + out[i].hits[HOST] > 0);

        for (k = 0; k < i; k++) {
            assert_int_not_equal(out[i].owner, out[k].owner);
        }
    }
}


/* The same where each rank has device hashes of its own. */
static void
test_two_hundred_ranks_with_own_hashes(void **state)
{
    uint16_t    owners[RANKS];
    uint32_t    i, hits[SEL_TIERS];

    for (i = 0; i < RANKS; i++) {
        owners[i] = owner_of(1 + i / 8, i % 8);
        shape(i, hits);

        /* places without a parent are shared, so their hash is */
        store_shape(owners[i], hits, hits[DEVICE] == 0 ? 1000
                                                       : 100000 * (i + 1));
    }

    steps_check();
    expect_shapes(owners, 1, 40);

    for (i = 1; i < RANKS; i += 2) {
        sel_index_retire(steps, owners[i]);
    }

    swept();
    expect_shapes(owners, 2, 40);
}


static void
test_long_prompts(void **state)
{
    uint16_t           a, b;
    uint32_t           n;
    sel_index_match_t  out[2];

    a = owner_of(1, 0);
    assert_int_equal(match_run(0, out, 2), 0);
    assert_int_equal(match_run(LONG, out, 2), 0);

    assert_int_equal(store_run(a, DEVICE, 0, 2500, 7), SEL_INDEX_OK);
    assert_int_equal(store_run(a, HOST, 2500, 5000, 7), SEL_INDEX_OK);
    assert_int_equal(store_run(a, DISK, 5000, 7500, 7), SEL_INDEX_OK);
    assert_int_equal(store_run(a, EXTERNAL, 7500, LONG, 7), SEL_INDEX_OK);
    steps_check();

    for (n = 0; n <= LONG; n += n < 2 ? 1 : 833) {
        assert_int_equal(match_run(n, out, 2), n > 0);

        if (n > 0) {
            assert_int_equal(out[0].owner, a);
            assert_int_equal(out[0].hits[DEVICE], n < 2500 ? n : 2500);
            assert_int_equal(out[0].hits[DEVICE] + out[0].hits[HOST]
                             + out[0].hits[DISK] + out[0].hits[EXTERNAL], n);
        }
    }

    assert_int_equal(match_run(LONG, out, 2), 1);
    assert_int_equal(out[0].hits[HOST], 2500);
    assert_int_equal(out[0].hits[DISK], 2500);
    assert_int_equal(out[0].hits[EXTERNAL], 2500);

    b = owner_of(2, 0);
    assert_int_equal(store_run(b, DISK, 0, LONG, 7), SEL_INDEX_OK);
    assert_int_equal(take_one(a, DEVICE, 7), SEL_INDEX_OK);
    assert_int_equal(match_run(LONG, out, 2), 1);
    assert_int_equal(out[0].owner, b);
    assert_int_equal(out[0].hits[DISK], LONG);
}


static void
test_counters(void **state)
{
    uint16_t  a, b;

    a = owner_of(1, 0);
    b = owner_of(1, 1);

    stored(a, DEVICE, "1 2 3");
    stored(b, DEVICE, "1");
    stored(a, HOST, "1 2");
    stored(b, HOST, "1 2 3");
    stored(b, EXTERNAL, "1 2 3 4");
    conflict(b, EXTERNAL, "7 2");
    expect_blocks(a, 3, 2, 0, 0);
    expect_blocks(b, 1, 3, 0, 5);
    expect_stats(4, 5, 0, 5);

    stored(a, DEVICE, "1=201");         /* two hashes, still one block */
    expect_stats(4, 5, 0, 5);
    removed(a, DEVICE, "101");
    expect_stats(4, 5, 0, 5);
    removed(a, DEVICE, "201 102");
    expect_stats(2, 5, 0, 5);

    unknown(b, DISK, "101");
    removed(b, HOST, "101");
    expect_stats(2, 4, 0, 5);

    cleared(b);
    expect_blocks(b, 0, 0, 0, 0);
    expect_stats(1, 2, 0, 0);

    sel_index_retire(steps, a);
    expect_stats(0, 0, 0, 0);
    swept();
    expect_stats(0, 0, 0, 0);
}


/* Stores pieces of the chain until memory is at its end; how many blocks. */
static uint32_t
fill(uint16_t owner, sel_tier_t tier)
{
    uint32_t            n;
    sel_index_stats_t   stats;
    sel_index_result_t  result;

    for (n = 0; n < LITTLE; n += PIECE) {
        result = store_run(owner, tier, n, n + PIECE, 7);
        sel_index_stats(steps, &stats);
        assert_true(stats.bytes <= LITTLE);

        if (result == SEL_INDEX_FULL) {
            break;
        }

        assert_int_equal(result, SEL_INDEX_OK);
        assert_int_equal(sel_index_owner_blocks(steps, owner, tier),
                         n + PIECE);
    }

    assert_true(n < LITTLE);
    steps_check();

    return n;
}


static int
little_begin(void **state)
{
    steps = sel_index_create(LITTLE, 1);

    return steps == NULL;
}


#define little_test(test)                                                     \
    cmocka_unit_test_setup_teardown(test, little_begin, steps_end)


/* Blocks before the end are stored, those behind are not at all. */
static void
full_in_tier(sel_tier_t tier)
{
    uint16_t           a;
    uint32_t           i, n, held;
    sel_index_match_t  out[2];

    a = owner_of(1, 0);
    n = fill(a, tier);
    held = (uint32_t) sel_index_owner_blocks(steps, a, tier);
    assert_true(held >= n && held < n + PIECE);
    assert_true(n > 500);

    assert_int_equal(match_run(n + PIECE, out, 2), 1);
    assert_int_equal(out[0].hits[tier], held);
    assert_int_equal(store_run(a, tier, 0, PIECE, 7), SEL_INDEX_OK);
    assert_int_equal(take_one(a, tier, held + 7), SEL_INDEX_UNKNOWN_BLOCK);

    for (i = held; i > 0; i--) {
        assert_int_equal(take_one(a, tier, i - 1 + 7), SEL_INDEX_OK);
        assert_int_equal(sel_index_owner_blocks(steps, a, tier), i - 1);
    }

    assert_int_equal(match_run(n, out, 2), 0);
    swept();
    expect_blocks(a, 0, 0, 0, 0);
    assert_true(fill(a, tier) > n / 2);
}


static void
test_full_of_host_memory(void **state)
{
    full_in_tier(HOST);
}


static void
test_full_of_disk(void **state)
{
    full_in_tier(DISK);
}


static void
test_full_of_external(void **state)
{
    full_in_tier(EXTERNAL);
}


/*
 * Several ranks and tiers fill the memory together.  A removal that needs
 * memory and has none clears its owner; nobody else loses a block.
 */
static void
store_crowd(uint16_t *owners)
{
    uint32_t  i, tier;

    for (i = 0; i < CROWD; i++) {
        owners[i] = owner_of(1 + i, 0);
    }

    for (i = 1; i < CROWD; i++) {
        for (tier = 0; tier < SEL_TIERS; tier++) {
            (void) store_run(owners[i], (sel_tier_t) tier, 0, 100 + 50 * i, 7);
        }
    }

    (void) fill(owners[0], HOST);
}


static void
held_by(uint16_t owner, uint64_t *held)
{
    uint32_t  tier;

    for (tier = 0; tier < SEL_TIERS; tier++) {
        held[tier] = sel_index_owner_blocks(steps, owner, (sel_tier_t) tier);
    }
}


static void
test_full_and_given_back(void **state)
{
    uint16_t             owners[CROWD];
    uint32_t             i, k, n;
    uint64_t             held[CROWD][SEL_TIERS];
    sel_index_stats_t    stats;
    sel_index_result_t   result;

    store_crowd(owners);

    for (i = 0; i < CROWD; i++) {
        held_by(owners[i], held[i]);
    }

    for (i = 0; i < CROWD; i++) {
        n = (uint32_t) held[i][HOST];

        for (k = 0; k < n; k++) {
            result = take_one(owners[i], HOST, k + 7);
            held[i][HOST]--;

            if (result == SEL_INDEX_FULL) {
                memset(held[i], 0, sizeof(held[i]));
                break;
            }

            assert_int_equal(result, SEL_INDEX_OK);
        }

        steps_check();

        for (k = 0; k < CROWD; k++) {
            expect_blocks_of(owners[k], held[k]);
        }
    }

    for (i = 0; i < CROWD; i++) {
        cleared(owners[i]);
    }

    swept();
    sel_index_stats(steps, &stats);
    assert_int_equal(stats.nodes, 0);
    assert_int_equal(store_run(owners[5], DISK, 0, 500, 7), SEL_INDEX_OK);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        steps_test(test_two_hundred_ranks),
        steps_test(test_two_hundred_ranks_with_own_hashes),
        steps_test(test_long_prompts),
        steps_test(test_counters),
        little_test(test_full_of_host_memory),
        little_test(test_full_of_disk),
        little_test(test_full_of_external),
        little_test(test_full_and_given_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
