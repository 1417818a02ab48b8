/*
 * The index's tables when they grow and when they empty.  Without it blocks
 * could be lost or doubled while a table moves in steps, an engine that comes
 * and goes could cost memory each time, and the memory that the index admits
 * to could be less than it takes.
 *
 * What is stored follows from numbers alone, so no model is needed: chain c
 * has LENGTH blocks, and rank r holds it when c is a multiple of 8 or has the
 * remainder r by RANKS.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include "index/sel_index.h"


#define LENGTH   100
#define CHAINS   3000       /* 300,000 blocks, more memberships */
#define RANKS    4
#define OWNERS   10000


#if defined(__SANITIZE_ADDRESS__)
#define RESIDENT_COUNTS  0  /* the sanitizer's own memory is in the way */
#else
#define RESIDENT_COUNTS  1
#endif


static uint64_t
mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);

    return x ^ (x >> 31);
}


static uint64_t
block_of(uint32_t chain, uint32_t i)
{
    return mix((uint64_t) chain << 32 | i);
}


/* each rank has hashes of its own */
static uint64_t
external_of(uint32_t rank, uint32_t chain, uint32_t i)
{
    return mix(block_of(chain, i) + rank + 1);
}


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


static void
store(sel_index_t *index, uint16_t owner, uint32_t rank, uint32_t chain,
    uint32_t from, uint32_t to)
{
    uint32_t            i;
    uint64_t            external[LENGTH], block[LENGTH];
    sel_index_change_t  change;

    for (i = from; i < to; i++) {
        external[i - from] = external_of(rank, chain, i);
        block[i - from] = block_of(chain, i);
    }

    change = (sel_index_change_t) {
        .kind = SEL_INDEX_STORED, .owner = owner, .n = to - from,
        .external = external, .block = block,
        .has_parent = from > 0,
        .parent = from > 0 ? external_of(rank, chain, from - 1) : 0
    };

    assert_int_equal(sel_index_apply(index, &change), SEL_INDEX_OK);
}


static void
take(sel_index_t *index, uint16_t owner, uint32_t rank, uint32_t chain,
    uint32_t from)
{
    uint32_t            i;
    uint64_t            external[LENGTH];
    sel_index_change_t  change;

    for (i = from; i < LENGTH; i++) {
        external[i - from] = external_of(rank, chain, i);
    }

    change = (sel_index_change_t) {
        .kind = SEL_INDEX_REMOVED, .owner = owner, .n = LENGTH - from,
        .external = external
    };

    assert_int_equal(sel_index_apply(index, &change), SEL_INDEX_OK);
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

    n = sel_index_match(index, 7, block, LENGTH, out, RANKS);
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
        assert_int_equal(out[k].blocks, left);
    }

    assert_int_equal(n, expected);
}


static void
check(sel_index_t *index)
{
    const char  *error;

    error = sel_index_check(index);

    if (error != NULL) {
        fail_msg("%s", error);
    }
}


static void
expect_stats(sel_index_t *index, uint64_t nodes, uint64_t blocks)
{
    sel_index_stats_t  stats;

    sel_index_stats(index, &stats);
    assert_int_equal(stats.nodes, nodes);
    assert_int_equal(stats.blocks, blocks);
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
        assert_int_equal(sel_index_owner_blocks(index, owners[rank]), 0);
        check(index);
    }

    for (chain = 0; chain < CHAINS; chain += 100) {
        match(index, owners, chain, 0);
    }
}


static void
sweep_all(sel_index_t *index)
{
    uint32_t  turns;

    for (turns = 0; !sel_index_sweep(index, 1000); turns++) {
        assert_true(turns < 100000);
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
        owners[rank] = sel_index_owner(index, 7, 1, rank);
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

    owner = sel_index_owner(index, 7, 1, 0);
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

    assert_int_equal(sel_index_owner_blocks(index, owner), LENGTH);
    sel_index_destroy(index);
}


/* Every number is given out, none twice, and one comes back. */
static void
test_all_owners(void **state)
{
    uint8_t      *given;
    uint16_t      owner;
    uint32_t      i;
    sel_index_t  *index;

    index = sel_index_create(0, 44);
    assert_non_null(index);

    given = calloc(1, SEL_INDEX_MAX_OWNERS);

    for (i = 0; i < SEL_INDEX_MAX_OWNERS; i++) {
        owner = sel_index_owner(index, i % 5, i, 0);
        assert_true(owner < SEL_INDEX_MAX_OWNERS);
        assert_int_equal(given[owner], 0);
        given[owner] = 1;
    }

    free(given);

    assert_int_equal(sel_index_owner_limit(index), SEL_INDEX_MAX_OWNERS);
    assert_int_equal(sel_index_owner(index, 1, UINT64_MAX, 0),
                     SEL_INDEX_NO_OWNER);
    assert_int_not_equal(sel_index_owner(index, 1, 1, 0), SEL_INDEX_NO_OWNER);

    sel_index_retire(index, sel_index_find_owner(index, 2, 7, 0));
    sweep_all(index);
    assert_int_not_equal(sel_index_owner(index, 1, UINT64_MAX, 0),
                         SEL_INDEX_NO_OWNER);
    check(index);

    sel_index_destroy(index);
}


/*
 * A worker with as many owners of one block as there can be ranks: a look-up
 * must find all of them.
 */
static void
test_shared_block(void **state)
{
    uint32_t             i, n, limit;
    uint8_t             *seen;
    uint16_t             owner;
    uint64_t             block[2];
    sel_index_t         *index;
    sel_index_match_t   *out;

    index = sel_index_create(0, 45);
    assert_non_null(index);

    for (i = 0; i < 3000; i++) {
        owner = sel_index_owner(index, 7, i / 8, i % 8);
        store(index, owner, 0, 5, 0, 1 + i % 2);

        if (i % 500 == 0) {
            check(index);
        }
    }

    block[0] = block_of(5, 0);
    block[1] = block_of(5, 1);

    limit = sel_index_owner_limit(index);
    out = malloc(limit * sizeof(sel_index_match_t));
    seen = calloc(1, limit);

    n = sel_index_match(index, 7, block, 2, out, limit);
    assert_int_equal(n, 3000);

    for (i = 0; i < n; i++) {
        assert_true(out[i].owner < limit);
        assert_int_equal(seen[out[i].owner], 0);
        seen[out[i].owner] = out[i].blocks;
    }

    for (i = 0; i < 3000; i++) {
        owner = sel_index_find_owner(index, 7, i / 8, i % 8);
        assert_int_equal(seen[owner], 1 + i % 2);
    }

    for (i = 0; i < 3000; i += 8) {
        sel_index_retire_worker(index, 7, i / 8);
        n = sel_index_match(index, 7, block, 2, out, limit);
        assert_int_equal(n, 3000 - 8 - i);
        (void) sel_index_sweep(index, 5);
    }

    sweep_all(index);
    check(index);
    expect_stats(index, 0, 0);
    assert_int_equal(sel_index_owner_limit(index), 0);

    free(out);
    free(seen);
    sel_index_destroy(index);
}


#define CROWD  400


/* What one of a crowd holds of the chain, as a query sees it. */
static uint32_t
held(sel_index_t *index, uint16_t owner)
{
    uint32_t            i, n;
    uint64_t            block[LENGTH];
    sel_index_match_t   out[CROWD];

    for (i = 0; i < LENGTH; i++) {
        block[i] = block_of(0, i);
    }

    n = sel_index_match(index, 7, block, LENGTH, out, CROWD);

    for (i = 0; i < n; i++) {
        if (out[i].owner == owner) {
            return out[i].blocks;
        }
    }

    return 0;
}


/*
 * An index that is full must still be able to forget: ranks that share a
 * chain give up blocks of its end one by one, in any order, which makes ever
 * new sets of owners.
 */
static void
test_removals_when_full(void **state)
{
    uint16_t            owners[CROWD];
    uint32_t            i, k, full, left[CROWD];
    uint64_t            block, external;
    sel_index_t        *index;
    sel_index_stats_t   stats;
    sel_index_change_t  change;

    index = sel_index_create(400000, 46);
    assert_non_null(index);

    for (i = 0; i < CROWD; i++) {
        owners[i] = sel_index_owner(index, 7, i, 0);
        assert_int_not_equal(owners[i], SEL_INDEX_NO_OWNER);
    }

    memset(left, 0, sizeof(left));
    full = 0;

    /* one block each in turn, until there is no room for any */
    for (i = 0; full < CROWD && i < CROWD * LENGTH; i++) {
        k = (uint32_t) (mix(i) % CROWD);
        external = external_of(k, 0, left[k]);

        change = (sel_index_change_t) {
            .kind = SEL_INDEX_STORED, .owner = owners[k], .n = 1,
            .external = &external, .block = &block,
            .has_parent = left[k] > 0,
            .parent = external_of(k, 0, left[k] - 1)
        };

        if (left[k] == LENGTH) {
            continue;
        }

        block = block_of(0, left[k]);

        if (sel_index_apply(index, &change) == SEL_INDEX_OK) {
            left[k]++;

        } else {
            full++;
        }
    }

    assert_int_equal(full, CROWD);
    check(index);

    for (i = 0; i < 20000; i++) {
        k = (uint32_t) (mix(i * 7) % CROWD);

        if (left[k] == 0) {
            continue;
        }

        external = external_of(k, 0, left[k] - 1);
        change = (sel_index_change_t) {
            .kind = SEL_INDEX_REMOVED, .owner = owners[k], .n = 1,
            .external = &external
        };

        assert_int_equal(sel_index_apply(index, &change), SEL_INDEX_OK);
        left[k]--;

        if (i % 64 == 0) {
            assert_int_equal(held(index, owners[k]), left[k]);
        }
    }

    for (k = 0; k < CROWD; k++) {
        assert_int_equal(held(index, owners[k]), left[k]);
    }

    sel_index_stats(index, &stats);
    assert_true(stats.bytes <= 400000);
    check(index);
    sel_index_destroy(index);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_growth_with_sweeps),
        cmocka_unit_test(test_memory_goes_back),
        cmocka_unit_test(test_all_owners),
        cmocka_unit_test(test_shared_block),
        cmocka_unit_test(test_removals_when_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
