/*
 * Many owners in one index.  Without it a number could be given out twice or
 * never come back, a block with thousands of owners could lose some, and an
 * index that is full could be unable to forget.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>
#include "index_chains.h"


#define CROWD  400
#define EVERY  65535                   /* all owners that there can be */


/* However often an owner is cleared between two sweeps, all is gone. */
static void
clear_often(sel_index_t *index, uint16_t owner)
{
    uint32_t            i;
    uint64_t            block;
    sel_index_match_t   out;
    sel_index_change_t  clear;

    memset(&clear, 0, sizeof(clear));
    clear.kind = SEL_INDEX_CLEARED;
    clear.owner = owner;

    for (i = 0; i < 1000; i++) {
        store(index, owner, 0, i % 3, 0, LENGTH);
        assert_int_equal(sel_index_apply(index, &clear), SEL_INDEX_OK);
        assert_int_equal(sel_index_owner_blocks(index, owner,
                                                SEL_TIER_DEVICE), 0);

        block = block_of(i % 3, 0);
        assert_int_equal(sel_index_match(index, 1, &block, 1, &out, 1), 0);
    }
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

    given = calloc(1, EVERY);

    for (i = 0; i < EVERY; i++) {
        owner = sel_index_owner(index, i % 5, i, 0);
        assert_true(owner < EVERY);
        assert_int_equal(given[owner], 0);
        given[owner] = 1;
    }

    free(given);

    assert_int_equal(sel_index_owner_limit(index), EVERY);
    assert_int_equal(sel_index_owner(index, 1, UINT64_MAX, 0),
                     SEL_INDEX_NO_OWNER);
    assert_int_not_equal(sel_index_owner(index, 1, 1, 0), SEL_INDEX_NO_OWNER);
    clear_often(index, sel_index_find_owner(index, 1, 1, 0));

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
        owner = sel_index_owner(index, PARTITION, i / 8, i % 8);
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

    n = sel_index_match(index, PARTITION, block, 2, out, limit);
    assert_int_equal(n, 3000);

    for (i = 0; i < n; i++) {
        assert_true(out[i].owner < limit);
        assert_int_equal(seen[out[i].owner], 0);
        seen[out[i].owner] = out[i].hits[SEL_TIER_DEVICE];
    }

    for (i = 0; i < 3000; i++) {
        owner = sel_index_find_owner(index, PARTITION, i / 8, i % 8);
        assert_int_equal(seen[owner], 1 + i % 2);
    }

    for (i = 0; i < 3000; i += 8) {
        sel_index_retire_worker(index, PARTITION, i / 8);
        n = sel_index_match(index, PARTITION, block, 2, out, limit);
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

    n = sel_index_match(index, PARTITION, block, LENGTH, out, CROWD);

    for (i = 0; i < n; i++) {
        if (out[i].owner == owner) {
            return out[i].hits[SEL_TIER_DEVICE];
        }
    }

    return 0;
}


typedef struct {
    sel_index_t  *index;
    uint16_t      owners[CROWD];
    uint32_t      left[CROWD];      /* blocks of the chain, from its start */
} crowd_t;


static sel_index_result_t
crowd_change(crowd_t *crowd, sel_index_kind_t kind, uint32_t k, uint32_t i)
{
    uint64_t            block, external;
    sel_index_change_t  change;

    block = block_of(0, i);
    external = external_of(k, 0, i);

    change = (sel_index_change_t) {
        .kind = kind, .owner = crowd->owners[k], .n = 1,
        .external = &external, .block = &block,
        .has_parent = i > 0, .parent = i > 0 ? external_of(k, 0, i - 1) : 0
    };

    return sel_index_apply(crowd->index, &change);
}


/* Stores one block each in turn, until there is no room for any. */
static void
crowd_fill(crowd_t *crowd)
{
    uint32_t  i, k, full;

    full = 0;

    for (i = 0; full < CROWD && i < CROWD * LENGTH; i++) {
        k = (uint32_t) (mix(i) % CROWD);

        if (crowd->left[k] == LENGTH) {
            continue;
        }

        if (crowd_change(crowd, SEL_INDEX_STORED, k, crowd->left[k])
            == SEL_INDEX_OK)
        {
            crowd->left[k]++;

        } else {
            full++;
        }
    }

    assert_int_equal(full, CROWD);
    check(crowd->index);
}


/*
 * An index that is full must still be able to forget: ranks that share a
 * chain give up blocks of its end one by one, in any order, which makes ever
 * new sets of owners.
 */
static void
test_removals_when_full(void **state)
{
    uint32_t            i, k;
    crowd_t             crowd;
    sel_index_stats_t   stats;

    memset(&crowd, 0, sizeof(crowd));
    crowd.index = sel_index_create(400000, 46);
    assert_non_null(crowd.index);

    for (i = 0; i < CROWD; i++) {
        crowd.owners[i] = sel_index_owner(crowd.index, PARTITION, i, 0);
        assert_int_not_equal(crowd.owners[i], SEL_INDEX_NO_OWNER);
    }

    crowd_fill(&crowd);

    for (i = 0; i < 20000; i++) {
        k = (uint32_t) (mix(i * 7) % CROWD);

        if (crowd.left[k] == 0) {
            continue;
        }

        assert_int_equal(crowd_change(&crowd, SEL_INDEX_REMOVED, k,
                                      --crowd.left[k]), SEL_INDEX_OK);

        if (i % 64 == 0) {
            assert_int_equal(held(crowd.index, crowd.owners[k]),
                             crowd.left[k]);
        }
    }

    for (k = 0; k < CROWD; k++) {
        assert_int_equal(held(crowd.index, crowd.owners[k]), crowd.left[k]);
    }

    sel_index_stats(crowd.index, &stats);
    assert_true(stats.bytes <= 400000);
    check(crowd.index);
    sel_index_destroy(crowd.index);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_all_owners),
        cmocka_unit_test(test_shared_block),
        cmocka_unit_test(test_removals_when_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
