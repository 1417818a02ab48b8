/*
 * Blocks that are believed for a while (sel_recent.h), beside a slow model: a
 * list of paths with their times for every rank.  Without it a count that
 * went wrong for one of many prompts on one path would take credit early, or
 * never, and only far from where it happened.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>
#include "index/sel_index_check.h"
#include "index/sel_recent.h"
#include "sel_rand.h"


#define RANKS       6
#define DEPTH       12
#define PATHS       4096
#define OPERATIONS  50000
#define GRAIN       UINT64_C(100000000)
#define TTL         (20 * GRAIN)


typedef struct {
    uint32_t        depth;
    uint64_t        until;
    uint64_t        blocks[DEPTH];
} path_t;


typedef struct {
    uint16_t        owner;
    uint32_t        n;
    path_t          paths[PATHS];
} rank_t;


typedef struct {
    sel_rand_t      rand;
    sel_index_t    *index;
    sel_recent_t   *recent;
    uint64_t        now;
    uint64_t        retired;
    bool            due;            /* the last expiry had more to do */
    rank_t          ranks[RANKS];
} run_t;


static run_t  run;


static uint32_t
below(uint32_t bound)
{
    return (uint32_t) sel_rand_below(&run.rand, bound);
}


static uint64_t
round_up(uint64_t time)
{
    return (time + GRAIN - 1) / GRAIN * GRAIN;
}


/* few different ones, so that prompts share every part of them */
static uint32_t
any_prompt(uint64_t *blocks)
{
    uint32_t  i, n;

    n = below(DEPTH + 1);

    for (i = 0; i < n; i++) {
        blocks[i] = below(10) < 7 ? i : i + 100 * below(3);
    }

    return n;
}


static path_t *
find(rank_t *rank, const uint64_t *blocks, uint32_t depth)
{
    uint32_t  i;

    for (i = 0; i < rank->n; i++) {
        if (rank->paths[i].depth == depth
            && memcmp(rank->paths[i].blocks, blocks,
                      depth * sizeof(uint64_t)) == 0)
        {
            return &rank->paths[i];
        }
    }

    return NULL;
}


static void
store(void)
{
    rank_t    *rank;
    path_t    *path;
    uint32_t   i, n;
    uint64_t   blocks[DEPTH];

    rank = &run.ranks[below(RANKS)];
    n = any_prompt(blocks);

    assert_int_equal(sel_recent_store(run.recent, rank->owner, blocks, n,
                                      run.now + TTL), SEL_INDEX_OK);

    for (i = 1; i <= n; i++) {
        path = find(rank, blocks, i);

        if (path == NULL) {
            assert_true(rank->n < PATHS);
            path = &rank->paths[rank->n++];
            path->depth = i;
            memcpy(path->blocks, blocks, i * sizeof(uint64_t));
        }

        path->until = round_up(run.now + TTL);
    }
}


static void
forget(rank_t *rank)
{
    uint32_t  i;

    for (i = 0; i < rank->n; ) {
        if (rank->paths[i].until <= run.now) {
            rank->paths[i] = rank->paths[--rank->n];

        } else {
            i++;
        }
    }
}


/* With a small budget there is less to be said before the end. */
static void
expire(void)
{
    uint32_t  i;

    run.due = !sel_recent_expire(run.recent, run.now,
                                 below(3) ? UINT32_MAX : below(20));

    for (i = 0; i < RANKS && !run.due; i++) {
        forget(&run.ranks[i]);
    }
}


static uint32_t
expected(rank_t *rank, const uint64_t *blocks, uint32_t n, uint64_t now)
{
    path_t    *path;
    uint32_t   i;

    for (i = 0; i < n; i++) {
        path = find(rank, blocks, i + 1);

        if (path == NULL || path->until <= now) {
            break;
        }
    }

    return i;
}


/* What is due may be gone already while there is more to forget. */
static void
look(void)
{
    rank_t             *rank;
    uint32_t            i, k, n, rows, hits;
    uint64_t            blocks[DEPTH];
    sel_index_match_t   out[4 * RANKS];

    n = any_prompt(blocks);
    assert_true(sel_index_owner_limit(run.index) <= 4 * RANKS);
    rows = sel_index_match(run.index, 1, blocks, n, out, 4 * RANKS);

    for (i = 0; i < RANKS; i++) {
        rank = &run.ranks[i];

        for (hits = k = 0; k < rows; k++) {
            if (out[k].owner == rank->owner) {
                hits = out[k].hits[SEL_TIER_DEVICE];
            }
        }

        assert_in_range(hits, expected(rank, blocks, n, run.due ? run.now : 0),
                        expected(rank, blocks, n, 0));
    }
}


static void
count(void)
{
    uint32_t  i;

    for (i = 0; i < RANKS && !run.due; i++) {
        assert_int_equal(sel_index_owner_blocks(run.index, run.ranks[i].owner,
                                                SEL_TIER_DEVICE),
                         run.ranks[i].n);
    }

    assert_null(sel_index_check(run.index));
}


/* Another rank comes in its place, often under the number of an old one. */
static void
replace(void)
{
    rank_t  *rank;

    rank = &run.ranks[below(RANKS)];
    sel_index_retire(run.index, rank->owner);
    run.retired++;

    if (below(2)) {
        while (!sel_index_sweep(run.index, 5)) { }
    }

    rank->owner = sel_index_owner(run.index, 1, run.retired, 0);
    assert_int_not_equal(rank->owner, SEL_INDEX_NO_OWNER);
    rank->n = 0;
}


static void
step(void)
{
    uint32_t  dice;

    dice = below(1000);

    if (dice < 350) {
        store();

    } else if (dice < 650) {
        look();

    } else if (dice < 800) {
        expire();

    } else if (dice < 980) {
        run.now += below(3) ? below(GRAIN / 8) : below(2 * GRAIN);

    } else if (dice < 984) {
        run.now = round_up(run.now + below(4) * GRAIN) - below(2);

    } else if (dice < 988) {
        replace();

    } else if (dice < 996) {
        (void) sel_index_sweep(run.index, 1 + below(40));

    } else {
        count();
    }
}


static void
test_model(void **state)
{
    uint32_t           i;
    sel_index_stats_t  stats;

    for (i = 0; i < OPERATIONS; i++) {
        step();
    }

    run.now += 2 * TTL;
    assert_true(sel_recent_expire(run.recent, run.now, UINT32_MAX));

    while (!sel_index_sweep(run.index, 1000)) { }

    sel_index_stats(run.index, &stats);
    assert_int_equal(stats.nodes, 0);
    assert_int_equal(stats.blocks[SEL_TIER_DEVICE], 0);
    assert_true(run.retired > 50);
    assert_null(sel_index_check(run.index));
}


static int
setup(void **state)
{
    uint32_t  i;

    run.rand.state = sel_rand_seed("recent_model");
    run.index = sel_index_create(0, sel_rand(&run.rand));
    run.recent = sel_recent_create(run.index, 0, sel_rand(&run.rand));

    if (run.index == NULL || run.recent == NULL) {
        return -1;
    }

    for (i = 0; i < RANKS; i++) {
        run.ranks[i].owner = sel_index_owner(run.index, 1, 0, i);
    }

    return 0;
}


static int
teardown(void **state)
{
    sel_recent_destroy(run.recent);
    sel_index_destroy(run.index);

    return 0;
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_model, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
