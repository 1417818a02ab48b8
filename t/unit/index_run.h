/*
 * A random run on the block index: its state, and what it chooses from.  Few
 * different blocks and hashes, so that paths meet and hashes move.  Include
 * after cmocka.h.
 */

#ifndef INDEX_RUN_H
#define INDEX_RUN_H

#include "index_compare.h"
#include "sel_rand.h"


#define LIST_MAX     48
#define DEPTH_MAX    64
#define DEAD_MAX     32

#define N_PARTITIONS 4
#define N_WORKERS    4          /* but in the test with many */
#define N_RANKS      3
#define N_BLOCKS     10
#define N_EXTERNALS  24


typedef struct {
    compare_t          compare;
    model_t            model;
    sel_rand_t         rand;
    size_t             max_bytes;
    bool               limited;         /* FULL is to be expected */
    uint32_t           n_dead;
    uint16_t           dead[DEAD_MAX];  /* retired, maybe not swept */
    uint32_t           n_partitions;
    uint32_t           n_workers;
    uint32_t           many_pairs;      /* then they are removed faster */
    uint64_t           blocks[N_BLOCKS];
    uint64_t           externals[N_EXTERNALS];
    uint64_t           full;
    uint64_t           credited;
    uint64_t           external[LIST_MAX];
    uint64_t           block[LIST_MAX];
} run_t;


/* the extremes are the keys that an empty table slot is likely to hold */
static const uint32_t  partitions[N_PARTITIONS] = { 1, 2, 0, UINT32_MAX };
static const uint64_t  workers[N_WORKERS] = { 1, 2, 0, UINT64_MAX };
static const uint32_t  ranks[N_RANKS] = { 0, 1, UINT32_MAX };


static inline uint32_t
below(run_t *run, uint32_t bound)
{
    return (uint32_t) sel_rand_below(&run->rand, bound);
}


static inline void
run_init(run_t *run, uint64_t seed, size_t max_bytes)
{
    uint32_t  i;

    memset(run, 0, sizeof(run_t));
    run->rand.state = seed;
    model_init(&run->model);

    run->max_bytes = max_bytes;
    run->limited = max_bytes != 0;
    run->n_partitions = N_PARTITIONS;
    run->n_workers = N_WORKERS;
    run->many_pairs = 250;
    run->compare.model = &run->model;
    run->compare.index = sel_index_create(max_bytes, sel_rand(&run->rand));

    for (i = 0; i < N_BLOCKS; i++) {
        run->blocks[i] = sel_rand(&run->rand);
    }

    for (i = 0; i < N_EXTERNALS; i++) {
        run->externals[i] = sel_rand(&run->rand);
    }

    run->blocks[2] = 0;
    run->blocks[3] = UINT64_MAX;
    run->externals[0] = 0;
    run->externals[1] = UINT64_MAX;
    run->externals[2] = run->blocks[0];
    run->externals[3] = 1;
}


static inline void
run_free(run_t *run)
{
    if (run->compare.index != NULL) {
        sel_index_destroy(run->compare.index);
    }

    model_free(&run->model);
}


static inline uint32_t
any_partition(run_t *run)
{
    return partitions[below(run, run->n_partitions)];
}


static inline uint64_t
any_worker(run_t *run)
{
    uint32_t  i;

    i = below(run, run->n_workers);

    return i < N_WORKERS ? workers[i] : 1000 + i;
}


static inline model_rank_t *
any_rank(run_t *run)
{
    if (run->model.n_ranks == 0) {
        return NULL;
    }

    return &run->model.ranks[below(run, run->model.n_ranks)];
}


/* Few different blocks, the first ones most often, so that paths meet. */
static inline uint64_t
any_block(run_t *run)
{
    uint32_t  dice;

    dice = below(run, 100);

    if (dice < 60) {
        return run->blocks[0];
    }

    if (dice < 80) {
        return run->blocks[1];
    }

    return run->blocks[below(run, N_BLOCKS)];
}


/* An engine's hash of a path, or any of a few that are used everywhere. */
static inline uint64_t
any_external(run_t *run, uint32_t path)
{
    if (below(run, 100) < 75) {
        return path * UINT64_C(0x9e3779b97f4a7c15);
    }

    return run->externals[below(run, N_EXTERNALS)];
}


static inline uint64_t
known_external(run_t *run, const model_rank_t *r)
{
    if (r->n > 0 && below(run, 100) < 85) {
        return r->pairs[below(run, r->n)].external;
    }

    return run->externals[below(run, N_EXTERNALS)];
}


#endif /* INDEX_RUN_H */
