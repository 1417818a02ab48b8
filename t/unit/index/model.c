/*
 * The index beside a slow model.  Without it a block could be credited to a
 * rank that gave it away, a removal could hit another rank or another path, a
 * number given to a second owner could inherit blocks, and a full table could
 * leave half a block behind; none of these shows in a short scenario.
 *
 * SEL_SEED repeats a run.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "core/sel_hash.h"
#include "index/sel_memory.h"
#include "index_compare.h"
#include "sel_rand.h"


#define OPERATIONS   100000
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


typedef const char *(*operation_pt)(run_t *run);

static const char *run_store(run_t *run);
static const char *run_remove(run_t *run);
static const char *run_query(run_t *run);
static const char *run_clear(run_t *run);
static const char *run_owner(run_t *run);
static const char *run_retire(run_t *run);
static const char *run_retire_worker(run_t *run);
static const char *run_dead(run_t *run);
static const char *run_sweep(run_t *run);
static const char *run_sweep_all(run_t *run);
static const char *run_look(run_t *run);
static const char *run_check(run_t *run);


static const struct {
    uint32_t      weight;
    operation_pt  call;
} operations[] = {
    { 3400, run_store },
    { 2000, run_remove },
    { 3000, run_query },
    {   60, run_clear },
    {  400, run_owner },
    {   90, run_retire },
    {   20, run_retire_worker },
    {  150, run_dead },
    {  400, run_sweep },
    {   50, run_sweep_all },
    {  400, run_look },
    {   30, run_check },
};


/* the extremes are the keys that an empty table slot is likely to hold */
static const uint32_t  partitions[N_PARTITIONS] = { 1, 2, 0, UINT32_MAX };
static const uint64_t  workers[N_WORKERS] = { 1, 2, 0, UINT64_MAX };
static const uint32_t  ranks[N_RANKS] = { 0, 1, UINT32_MAX };


static uint32_t
below(run_t *run, uint32_t bound)
{
    return (uint32_t) sel_rand_below(&run->rand, bound);
}


static void
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


static void
run_free(run_t *run)
{
    if (run->compare.index != NULL) {
        sel_index_destroy(run->compare.index);
    }

    model_free(&run->model);
}


static uint32_t
any_partition(run_t *run)
{
    return partitions[below(run, run->n_partitions)];
}


static uint64_t
any_worker(run_t *run)
{
    uint32_t  i;

    i = below(run, run->n_workers);

    return i < N_WORKERS ? workers[i] : 1000 + i;
}


static model_rank_t *
any_rank(run_t *run)
{
    if (run->model.n_ranks == 0) {
        return NULL;
    }

    return &run->model.ranks[below(run, run->model.n_ranks)];
}


/* Few different blocks, the first ones most often, so that paths meet. */
static uint64_t
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
static uint64_t
any_external(run_t *run, uint32_t path)
{
    if (below(run, 100) < 75) {
        return path * UINT64_C(0x9e3779b97f4a7c15);
    }

    return run->externals[below(run, N_EXTERNALS)];
}


static uint64_t
known_external(run_t *run, const model_rank_t *r)
{
    if (r->n > 0 && below(run, 100) < 85) {
        return r->pairs[below(run, r->n)].external;
    }

    return run->externals[below(run, N_EXTERNALS)];
}


static const char *
run_store(run_t *run)
{
    uint32_t             i, path;
    model_rank_t        *r;
    sel_index_change_t   change;

    r = any_rank(run);
    if (r == NULL) {
        return NULL;
    }

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_STORED;
    change.owner = r->owner;
    change.has_parent = below(run, 100) < 55;
    change.parent = known_external(run, r);
    change.n = below(run, 100) < 90 ? below(run, 6) : below(run, LIST_MAX + 1);
    change.external = run->external;
    change.block = run->block;

    path = MODEL_ROOT;

    if (change.has_parent) {
        path = model_known(r, change.parent);

        if (path == MODEL_NONE) {
            path = MODEL_ROOT;

        } else if (run->model.paths[path].depth + change.n > DEPTH_MAX) {
            return NULL;
        }
    }

    for (i = 0; i < change.n; i++) {
        run->block[i] = any_block(run);
        path = model_path_make(&run->model, path, run->block[i]);
        run->external[i] = any_external(run, path);
    }

    return compare_apply(&run->compare, &change, run->limited);
}


static const char *
run_remove(run_t *run)
{
    uint32_t             i;
    model_rank_t        *r;
    sel_index_change_t   change;

    r = any_rank(run);
    if (r == NULL) {
        return NULL;
    }

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_REMOVED;
    change.owner = r->owner;
    change.n = r->n > run->many_pairs ? LIST_MAX : below(run, 8);
    change.external = run->external;

    for (i = 0; i < change.n; i++) {
        run->external[i] = known_external(run, r);
    }

    return compare_apply(&run->compare, &change, run->limited);
}


/* Mostly along what some rank holds, with a wrong turn somewhere. */
static const char *
run_query(run_t *run)
{
    uint32_t             n, more, partition;
    uint64_t             blocks[2 * DEPTH_MAX];
    const char          *error;
    model_rank_t        *r;
    sel_index_match_t    out[MODEL_RANKS];

    n = 0;
    partition = any_partition(run);
    r = any_rank(run);

    if (r != NULL && r->n > 0 && below(run, 100) < 70) {
        partition = r->partition;
        n = model_path_blocks(&run->model, r->pairs[below(run, r->n)].path,
                              blocks);
    }

    if (n > 0 && below(run, 100) < 20) {
        blocks[below(run, n)] = any_block(run);
    }

    for (more = below(run, 6); more > 0; more--) {
        blocks[n++] = any_block(run);
    }

    error = compare_match(&run->compare, partition, blocks, n,
                          below(run, 100) < 90 ? MODEL_RANKS : below(run, 4));

    run->credited += sel_index_match(run->compare.index, partition, blocks, n,
                                     out, MODEL_RANKS);
    return error;
}


static const char *
run_clear(run_t *run)
{
    model_rank_t        *r;
    sel_index_change_t   change;

    r = any_rank(run);
    if (r == NULL) {
        return NULL;
    }

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_CLEARED;
    change.owner = r->owner;

    return compare_apply(&run->compare, &change, false);
}


/* Asks for an owner, known or new. */
static const char *
run_owner(run_t *run)
{
    uint16_t       owner;
    uint32_t       i, partition, rank;
    uint64_t       worker;
    model_rank_t  *r;

    partition = any_partition(run);
    worker = any_worker(run);
    rank = ranks[below(run, N_RANKS)];

    r = model_rank_of(&run->model, partition, worker, rank);
    owner = sel_index_owner(run->compare.index, partition, worker, rank);

    if (r != NULL) {
        return owner == r->owner ? NULL : "a known owner got another number";
    }

    if (owner == SEL_INDEX_NO_OWNER) {
        return run->limited ? NULL : "no owner could be made";
    }

    if (model_rank(&run->model, owner) != NULL) {
        return "a number was given to two owners";
    }

    for (i = 0; i < run->n_dead; i++) {
        if (run->dead[i] == owner) {
            run->dead[i] = run->dead[--run->n_dead];
            break;
        }
    }

    (void) model_rank_add(&run->model, owner, partition, worker, rank);

    return NULL;
}


static void
run_dropped(run_t *run, model_rank_t *r)
{
    if (run->n_dead < DEAD_MAX) {
        run->dead[run->n_dead++] = r->owner;
    }

    run->compare.waiting++;
    model_rank_drop(&run->model, r);
}


static const char *
run_retire(run_t *run)
{
    uint32_t       partition, rank;
    uint64_t       worker;
    model_rank_t  *r;

    r = any_rank(run);
    if (r == NULL) {
        return NULL;
    }

    partition = r->partition;
    worker = r->worker;
    rank = r->rank;

    sel_index_retire(run->compare.index, r->owner);
    run_dropped(run, r);

    return sel_index_find_owner(run->compare.index, partition, worker, rank)
           == SEL_INDEX_NO_OWNER ? NULL : "a retired owner is found";
}


static const char *
run_retire_worker(run_t *run)
{
    uint32_t       i, partition;
    uint64_t       worker;
    model_rank_t  *r;

    partition = any_partition(run);
    worker = any_worker(run);

    sel_index_retire_worker(run->compare.index, partition, worker);

    for (i = 0; i < N_RANKS; i++) {
        r = model_rank_of(&run->model, partition, worker, ranks[i]);

        if (r != NULL) {
            run_dropped(run, r);
        }
    }

    return NULL;
}


/* Owners that are not in use take no change and have no key. */
static const char *
run_dead(run_t *run)
{
    uint16_t            owner;
    uint32_t            partition, rank;
    uint64_t            worker;
    sel_index_change_t  change;

    if (run->n_dead > 0 && below(run, 4) != 0) {
        owner = run->dead[below(run, run->n_dead)];

    } else {
        owner = SEL_INDEX_NO_OWNER - (uint16_t) below(run, 2);
    }

    if (sel_index_owner_key(run->compare.index, owner, &partition, &worker,
                            &rank))
    {
        return "owner_key of an owner that is not in use";
    }

    if (below(run, 4) == 0) {
        sel_index_retire(run->compare.index, owner);
    }

    memset(&change, 0, sizeof(change));
    change.kind = (sel_index_kind_t) below(run, 3);
    change.owner = owner;
    change.n = 1;
    change.external = run->externals;
    change.block = run->blocks;

    return compare_apply(&run->compare, &change, false);
}


static const char *
run_sweep(run_t *run)
{
    if (sel_index_sweep(run->compare.index, 1 + below(run, 30))) {
        run->compare.waiting = 0;
    }

    return NULL;
}


static const char *
run_sweep_all(run_t *run)
{
    uint32_t  turns;

    for (turns = 0; !sel_index_sweep(run->compare.index, 100); turns++) {
        if (turns == 100000) {
            return "sweeping does not come to an end";
        }
    }

    run->compare.waiting = 0;
    run->n_dead = 0;

    return compare_stats(&run->compare);
}


static const char *
run_look(run_t *run)
{
    const char         *error;
    model_rank_t       *r;
    sel_index_stats_t   stats;

    sel_index_stats(run->compare.index, &stats);

    if (run->max_bytes != 0 && stats.bytes > run->max_bytes) {
        return "more memory than max_bytes";
    }

    r = any_rank(run);
    error = r == NULL ? NULL : compare_rank(&run->compare, r);

    return error != NULL ? error : compare_stats(&run->compare);
}


static const char *
run_check(run_t *run)
{
    return sel_index_check(run->compare.index);
}


static void
run_operations(run_t *run, uint32_t n)
{
    uint32_t            i, op, dice, sum;
    const char         *error;
    sel_index_stats_t   stats;

    sum = 0;
    for (op = 0; op < sel_countof(operations); op++) {
        sum += operations[op].weight;
    }

    for (i = 0; i < n; i++) {
        dice = below(run, sum);

        for (op = 0; dice >= operations[op].weight; op++) {
            dice -= operations[op].weight;
        }

        error = operations[op].call(run);

        if (error == NULL && run->compare.full) {
            run->full++;
            error = sel_index_check(run->compare.index);
        }

        run->compare.full = false;

        if (error != NULL) {
            fail_msg("operation %u (of kind %u): %s", i, op, error);
        }
    }

    sel_index_stats(run->compare.index, &stats);
    print_message("# %" PRIu64 " credits, %" PRIu64 " times full, %" PRIu64
                  " owners lost, %" PRIu64 " bytes at the end\n",
                  run->credited, run->full, run->compare.lost, stats.bytes);

    assert_null(sel_index_check(run->compare.index));
}


static void
test_unlimited(void **state)
{
    run_t  run;

    run_init(&run, sel_rand_seed("index model"), 0);
    assert_non_null(run.compare.index);
    run_operations(&run, OPERATIONS);
    assert_true(run.credited > OPERATIONS / 10);
    run_free(&run);
}


/*
 * Block hashes that are the sequence hash of another path, as a client can
 * choose them: the paths stay different.
 */
static void
test_chosen_hashes(void **state)
{
    run_t     run;
    uint64_t  chain[4];

    run_init(&run, sel_rand_seed("chosen hashes"), 0);
    assert_non_null(run.compare.index);

    sel_hash_chain(run.blocks, 4, SEL_HASH_SEED, chain);
    run.blocks[4] = chain[1];
    run.blocks[5] = chain[2];
    run.blocks[6] = sel_hash_chain_next(run.blocks[0], run.blocks[0],
                                        SEL_HASH_SEED);
    run_operations(&run, OPERATIONS / 4);
    run_free(&run);
}


/*
 * With little memory, from as little as an index can be made with to more
 * than is used.  FULL is an ordinary result here.
 */
static void
test_limited(void **state)
{
    run_t     run;
    size_t    max_bytes;
    uint64_t  seed, full, credited;

    full = 0;
    credited = 0;
    seed = sel_rand_seed("limited index model");

    for (max_bytes = 4096; max_bytes <= 300000; max_bytes += max_bytes / 5) {
        run_init(&run, seed + max_bytes, max_bytes);

        if (run.compare.index != NULL) {
            run_operations(&run, OPERATIONS / 8);
            full += run.full;
            credited += run.credited;
        }

        run_free(&run);
    }

    assert_true(full > 0);
    assert_true(credited > OPERATIONS / 20);
}


/* Sets of hundreds of ranks, with a few blocks each. */
static void
test_many_ranks(void **state)
{
    run_t     run;
    uint32_t  i;

    run_init(&run, sel_rand_seed("many ranks"), 0);
    assert_non_null(run.compare.index);

    run.n_partitions = 1;
    run.n_workers = 250;
    run.many_pairs = 20;

    for (i = 0; i < 2000; i++) {
        assert_null(run_owner(&run));
    }

    assert_true(run.model.n_ranks > 500);
    run_operations(&run, OPERATIONS / 4);
    assert_true(run.credited > OPERATIONS);
    run_free(&run);
}


static sel_rand_t  failures;


static bool
sometimes(size_t size)
{
    return sel_rand_below(&failures, 3) != 0;
}


/* With memory that fails now and then. */
static void
test_failing_memory(void **state)
{
    run_t  run;

    run_init(&run, sel_rand_seed("failing memory"), 0);
    assert_non_null(run.compare.index);

    run.limited = true;
    failures.state = sel_rand(&run.rand);

    sel_memory_hook = sometimes;
    run_operations(&run, OPERATIONS / 4);
    sel_memory_hook = NULL;

    assert_true(run.full > 0);
    assert_true(run.credited > OPERATIONS / 100);
    run_free(&run);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_unlimited),
        cmocka_unit_test(test_many_ranks),
        cmocka_unit_test(test_limited),
        cmocka_unit_test(test_failing_memory),
        cmocka_unit_test(test_chosen_hashes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
