/*
 * The workers of a random run of the books: ranks come, stay and go.  Include
 * after cmocka.h.
 */

#ifndef BOOKS_WORKERS_H
#define BOOKS_WORKERS_H

#include "books_walk.h"


/* What a commit has made of a worker's ranks. */
static inline void
walk_ranks(walk_t *walk, model_rank_t *ranks, const sel_rank_slot_t *slots,
    uint32_t n_ranks, uint32_t number)
{
    uint32_t  i;

    for (i = 0; i < MODEL_DP; i++) {
        if (ranks[i].live && (i >= n_ranks || slots[i].slot != ranks[i].slot
                              || slots[i].epoch != ranks[i].epoch))
        {
            walk->gone[walk->n_gone++ % WALK_GONE] =
                (sel_rank_load_t) { .slot = ranks[i].slot,
                                    .epoch = ranks[i].epoch };
            walk->rank_gone += model_clear(&walk->model, (uint32_t)
                                           (&ranks[i] - walk->model.ranks));
        }

        if (i < n_ranks) {
            ranks[i].live = true;
            ranks[i].slot = slots[i].slot;
            ranks[i].epoch = slots[i].epoch;
            ranks[i].partition = number;
        }
    }
}


/* Commits a worker with some of its ranks kept and follows it in the model. */
static inline const char *
walk_commit(walk_t *walk, uint32_t w, sel_worker_state_t state,
    uint32_t partition, uint32_t n_ranks)
{
    char                  name[16];
    uint32_t              i, number;
    uint64_t              version;
    model_rank_t         *ranks;
    sel_commit_t          result;
    sel_partition_t       named, existing;
    sel_rank_slot_t       slots[MODEL_DP];
    sel_worker_commit_t   commit;

    ranks = &walk->model.ranks[w * MODEL_DP];
    (void) snprintf(name, sizeof(name), "group %u", partition);
    named = (sel_partition_t) { .block_size = 16,
                                .model_name = sel_str("model"),
                                .routing_group = sel_cstr(name) };

    for (i = 0; i < n_ranks; i++) {
        slots[i] = (sel_rank_slot_t) { .dp_rank = i, .slot = SEL_SLOT_NONE };

        if (ranks[i].live && walk->workers[w].partition == partition
            && below(walk, 10))
        {
            slots[i].slot = ranks[i].slot;
            slots[i].new_feed = below(walk, 4) == 0;
        }
    }

    commit = (sel_worker_commit_t) {
        .worker_id = w + 1, .expected = walk->workers[w].version,
        .state = state, .n_ranks = n_ranks, .ranks = slots,
        .partition = state == SEL_WORKER_SCHEDULABLE ? &named : NULL,
        .blob = state == SEL_WORKER_GONE ? sel_str("") : sel_str("blob")
    };

    result = sel_catalog_commit(&walk->zone, &commit, &version, &number,
                                &existing);

    if (result == SEL_COMMIT_FULL) {
        return state_stats(&walk->zone).chunks_free < 64
               ? NULL : "a commit finds no room";
    }

    if (result != SEL_COMMIT_OK
        || (state == SEL_WORKER_SCHEDULABLE && number != partition))
    {
        return walk_say(walk, "commit: result %d, partition %u", result,
                        number);
    }

    walk_ranks(walk, ranks, slots, n_ranks, number);

    walk->workers[w].version = state == SEL_WORKER_GONE ? 0 : version;
    walk->workers[w].schedulable = state == SEL_WORKER_SCHEDULABLE;
    walk->workers[w].partition = partition;

    return NULL;
}


static inline const char *
walk_worker(walk_t *walk)
{
    uint32_t        w, partition;
    walk_worker_t  *worker;

    w = below(walk, MODEL_WORKERS);
    worker = &walk->workers[w];

    switch (below(walk, 8)) {
    case 0:
        return worker->version == 0 ? NULL
               : walk_commit(walk, w, SEL_WORKER_GONE, 0, 0);
    case 1:
        return walk_commit(walk, w, SEL_WORKER_INCOMPLETE, 0, 0);
    default:
        partition = worker->schedulable && below(walk, 8)
                    ? worker->partition
                    : below(walk, 2) ? 1 : 1 + below(walk, WALK_PARTITIONS);
        return walk_commit(walk, w, SEL_WORKER_SCHEDULABLE, partition,
                             1 + below(walk, MODEL_DP));
    }
}


/* All workers there with all ranks, and as many tombs as there can be. */
static inline uint64_t
walk_settle(walk_t *walk)
{
    uint32_t             i, number;
    uint64_t             version;
    sel_partition_t      existing;
    sel_worker_commit_t  commit;

    for (i = 0; i < MODEL_WORKERS; i++) {
        assert_null(walk_commit(walk, i, SEL_WORKER_SCHEDULABLE,
                                  i < WALK_PARTITIONS ? i + 1 : 1,
                                  MODEL_DP));
    }

    for (i = 0; i < 70; i++) {
        commit = (sel_worker_commit_t) { .worker_id = walk->visitor++,
                                         .state = SEL_WORKER_INCOMPLETE };
        assert_int_equal(sel_catalog_commit(&walk->zone, &commit, &version,
                                            &number, &existing),
                         SEL_COMMIT_OK);
        commit.expected = version;
        commit.state = SEL_WORKER_GONE;
        assert_int_equal(sel_catalog_commit(&walk->zone, &commit, &version,
                                            &number, &existing),
                         SEL_COMMIT_OK);
    }

    return state_stats(&walk->zone).chunks_free;
}


#endif /* BOOKS_WORKERS_H */
