/*
 * Random operations on the block index and on its model; both must agree at
 * each step.  Include after cmocka.h.
 */

#ifndef INDEX_WALK_H
#define INDEX_WALK_H

#include "index/sel_index_check.h"
#include "index_run.h"


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

    run->compare.retired++;
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
        run->compare.retired = 0;
        run->compare.cleared = 0;
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

    run->compare.retired = 0;
    run->compare.cleared = 0;
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


#endif /* INDEX_WALK_H */
