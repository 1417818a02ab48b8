/*
 * The index's tables when they grow and when they empty.  Without it blocks
 * could be lost or doubled while a table moves in steps, an engine that comes
 * and goes could cost memory each time, and the memory that the index admits
 * to could be less than it takes.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>
#include "index_chains.h"


#define CHAINS   3000       /* 300,000 blocks, more memberships */
#define RANKS    4
#define OWNERS   10000


#if defined(__SANITIZE_ADDRESS__)
#define RESIDENT_COUNTS  0  /* the sanitizer's own memory is in the way */
#else
#define RESIDENT_COUNTS  1
#endif


/* Each chain has one holder of RANKS, each eighth has all. */
static bool
holds(uint32_t rank, uint32_t chain)
{
    return chain % 8 == 0 || chain % RANKS == rank;
}


static uint64_t
resident_bytes(void)
{
    long   pages, all;
    FILE  *file;

    file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &all, &pages), 2);
    (void) fclose(file);

    return (uint64_t) pages * (uint64_t) sysconf(_SC_PAGESIZE);
}


/* Every rank's credit for a chain; left is how many of its blocks remain. */
static void
match(sel_index_t *index, const uint16_t *owners, uint32_t chain,
    uint32_t left)
{
    uint32_t            i, k, n, rank, expected;
    uint64_t            block[LENGTH];
    sel_index_match_t   out[RANKS];

    for (i = 0; i < LENGTH; i++) {
        block[i] = block_of(chain, i);
    }

    n = sel_index_match(index, PARTITION, block, LENGTH, out, RANKS);
    expected = 0;

    for (rank = 0; rank < RANKS; rank++) {
        if (left == 0 || !holds(rank, chain)) {
            continue;
        }

        expected++;

        for (k = 0; k < n && out[k].owner != owners[rank]; k++) {
            /* void */
        }

        assert_true(k < n);
        assert_int_equal(out[k].hits[SEL_TIER_DEVICE], left);
    }

    assert_int_equal(n, expected);
}


/* Stores all chains; old ones must be found while the tables move. */
static uint64_t
grow(sel_index_t *index, const uint16_t *owners, bool sweeps)
{
    uint32_t  chain, rank;
    uint64_t  blocks;

    blocks = 0;

    for (chain = 0; chain < CHAINS; chain++) {
        for (rank = 0; rank < RANKS; rank++) {
            if (holds(rank, chain)) {
                store(index, owners[rank], rank, chain, 0, 60);
                store(index, owners[rank], rank, chain, 60, LENGTH);
                blocks += LENGTH;
            }
        }

        match(index, owners, chain, LENGTH);
        match(index, owners, (uint32_t) (mix(chain) % (chain + 1)), LENGTH);
        match(index, owners, CHAINS + chain, 0);

        if (sweeps) {
            (void) sel_index_sweep(index, 64);
        }

        if (chain % 600 == 599) {
            expect_stats(index, (uint64_t) (chain + 1) * LENGTH, blocks);
            check(index);
        }
    }

    return blocks;
}


static void
shrink(sel_index_t *index, const uint16_t *owners, uint64_t blocks)
{
    uint32_t            chain, rank;
    sel_index_change_t  clear;

    for (chain = 0; chain < CHAINS; chain++) {
        for (rank = 0; rank < RANKS; rank++) {
            if (holds(rank, chain)) {
                take(index, owners[rank], rank, chain, LENGTH / 2);
            }
        }

        match(index, owners, chain, LENGTH / 2);
        match(index, owners, CHAINS - 1 - chain,
              chain < CHAINS / 2 ? LENGTH : LENGTH / 2);
    }

    expect_stats(index, (uint64_t) CHAINS * LENGTH / 2, blocks / 2);
    check(index);

    for (rank = 0; rank < RANKS; rank++) {
        memset(&clear, 0, sizeof(clear));
        clear.kind = SEL_INDEX_CLEARED;
        clear.owner = owners[rank];

        assert_int_equal(sel_index_apply(index, &clear), SEL_INDEX_OK);
        assert_int_equal(sel_index_owner_blocks(index, owners[rank],
                                                SEL_TIER_DEVICE), 0);
        check(index);
    }

    for (chain = 0; chain < CHAINS; chain += 100) {
        match(index, owners, chain, 0);
    }
}


static void
growth(bool sweeps)
{
    uint32_t            rank;
    uint64_t            before, blocks;
    sel_index_t        *index;
    uint16_t            owners[RANKS];
    sel_index_stats_t   stats;

    before = resident_bytes();

    index = sel_index_create(0, 42);
    assert_non_null(index);

    for (rank = 0; rank < RANKS; rank++) {
        owners[rank] = sel_index_owner(index, PARTITION, 1, rank);
        assert_int_not_equal(owners[rank], SEL_INDEX_NO_OWNER);
    }

    blocks = grow(index, owners, sweeps);

    sel_index_stats(index, &stats);
    print_message("# %.1f bytes a block held, %.1f a distinct block\n",
                  (double) stats.bytes / blocks,
                  (double) stats.bytes / stats.nodes);

    if (RESIDENT_COUNTS) {
        assert_true(resident_bytes() - before
                    < stats.bytes + stats.bytes / 4 + (4 << 20));
    }

    shrink(index, owners, blocks);
    sweep_all(index);
    expect_stats(index, 0, 0);

    (void) grow(index, owners, sweeps);
    sel_index_destroy(index);
}


static void
test_growth(void **state)
{
    growth(false);
}


static void
test_growth_with_sweeps(void **state)
{
    growth(true);
}


/* Adds many owners of many partitions with a few blocks, and drops all. */
static void
wave(sel_index_t *index, uint64_t *most, uint64_t *left)
{
    uint32_t            i;
    uint16_t            owner;
    sel_index_stats_t   stats;

    for (i = 0; i < OWNERS; i++) {
        owner = sel_index_owner(index, 100 + i, i, i % 3);
        assert_int_not_equal(owner, SEL_INDEX_NO_OWNER);
        store(index, owner, 0, i % 10, 0, 20);
    }

    sel_index_stats(index, &stats);
    assert_int_equal(stats.owners, OWNERS + 1);
    assert_int_equal(stats.nodes, OWNERS * 20 + LENGTH);
    *most = stats.bytes;

    for (i = 0; i < OWNERS; i++) {
        if (i % 2) {
            sel_index_retire_worker(index, 100 + i, i);

        } else {
            owner = sel_index_find_owner(index, 100 + i, i, i % 3);
            sel_index_retire(index, owner);
        }
    }

    sweep_all(index);
    check(index);

    sel_index_stats(index, &stats);
    assert_int_equal(stats.owners, 1);
    assert_int_equal(stats.retired, 0);
    assert_int_equal(stats.nodes, LENGTH);
    assert_int_equal(sel_index_owner_limit(index), 1);
    *left = stats.bytes;
}


static void
test_memory_goes_back(void **state)
{
    uint16_t      owner;
    uint32_t      i;
    uint64_t      most, left, first_most, first_left;
    sel_index_t  *index;

    index = sel_index_create(0, 43);
    assert_non_null(index);

    owner = sel_index_owner(index, PARTITION, 1, 0);
    assert_int_equal(owner, 0);
    store(index, owner, 0, 0, 0, LENGTH);

    wave(index, &first_most, &first_left);

    print_message("# %u owners: %.1f MB, afterwards %.1f MB\n", OWNERS,
                  first_most / 1e6, first_left / 1e6);
    assert_true(first_left < first_most / 2);

    for (i = 0; i < 4; i++) {
        wave(index, &most, &left);
        assert_true(most <= first_most + first_most / 8);
        assert_true(left <= first_left + first_left / 8);
        match(index, (uint16_t[RANKS]) { owner, 1, 1, 1 }, 1, 0);
    }

    assert_int_equal(sel_index_owner_blocks(index, owner, SEL_TIER_DEVICE),
                     LENGTH);
    sel_index_destroy(index);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_growth_with_sweeps),
        cmocka_unit_test(test_memory_goes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
