/*
 * A random run of catalog operations beside the model: its state, and what a
 * commit may do.  Include after cmocka.h.
 */

#ifndef CATALOG_WALK_H
#define CATALOG_WALK_H

#include "catalog_reader.h"


#define WORKERS     40
#define READERS     3
#define METERS      4


typedef struct {
    sel_zone_t         zone;
    sel_rand_t         rand;
    cat_book_t         book;
    cat_worker_t       workers[WORKERS];
    cat_reader_t       readers[READERS];
    uint64_t           meters[METERS];      /* 0: not attached yet */
    uint64_t           version;
    uint64_t           fresh;               /* next id never used before */
    uint32_t           long_blobs;          /* per cent */
    uint64_t           results[SEL_COMMIT_FULL + 1];
} run_t;


static inline uint32_t
below(run_t *run, uint32_t bound)
{
    return (uint32_t) sel_rand_below(&run->rand, bound);
}


static inline uint64_t
id_of(uint32_t i)
{
    return i == 0 ? 0 : i == 1 ? UINT64_MAX : 1000 + i;
}


static inline uint32_t
slots_used(run_t *run)
{
    uint32_t  i, n;

    n = 0;
    for (i = 0; i < WORKERS; i++) {
        n += run->workers[i].now.n_ranks;
    }

    return n;
}


/* Partitions stay when their last worker has left. */
static inline bool
ever_made(run_t *run, uint32_t partition)
{
    return memchr(run->book.numbers, (int) partition + 1, CAT_NUMBERS) != NULL;
}


/* Whether a commit may end with this result. */
static inline bool
may_be(run_t *run, const cat_worker_t *old, const cat_intent_t *intent,
    sel_commit_t result, const sel_zone_stats_t *before)
{
    uint32_t  i, fresh, kept, chunks;

    if (intent->expected != old->version) {
        return result == SEL_COMMIT_STALE;
    }

    if (intent->state == SEL_WORKER_GONE) {
        return result == SEL_COMMIT_OK;
    }

    chunks = sel_zone_chain_need(intent->blob_len + 1000) + 8;

    if (result == SEL_COMMIT_FULL) {
        return before->chunks_free < 2 * chunks;
    }

    if (intent->flip_eagle) {
        return result == SEL_COMMIT_EAGLE;
    }

    if (intent->block_size != 0) {
        return result == SEL_COMMIT_BLOCK_SIZE;
    }

    kept = 0;
    for (i = 0; i < intent->n_ranks; i++) {
        kept += intent->ranks[i].slot != SEL_SLOT_NONE;
    }

    fresh = intent->n_ranks - kept;

    if (result == SEL_COMMIT_NO_SLOTS) {
        return fresh > before->slots - before->slots_used;
    }

    return result == SEL_COMMIT_OK
           && fresh + kept + before->slots_used - old->now.n_ranks
              <= before->slots;
}


static inline const char *
expect_stats(run_t *run, const sel_zone_stats_t *before)
{
    uint32_t           i, workers, partitions;
    sel_zone_stats_t   stats;

    stats = state_stats(&run->zone);
    workers = 0;
    partitions = 0;

    for (i = 0; i < WORKERS; i++) {
        workers += run->workers[i].version != 0;
    }

    for (i = 0; i < CAT_PARTITIONS; i++) {
        partitions += ever_made(run, i);
    }

    if (stats.workers != workers || stats.slots_used != slots_used(run)
        || stats.catalog_version != run->version
        || sel_catalog_version(&run->zone) != run->version
        || stats.partitions != partitions)
    {
        return cat_say(&run->book, "%" PRIu64 " workers, %" PRIu64 " slots, "
                       "%" PRIu64 " partitions, version %" PRIu64 "; expected "
                       "%u, %u, %u and %" PRIu64, stats.workers,
                       stats.slots_used, stats.partitions,
                       stats.catalog_version, workers, slots_used(run),
                       partitions, run->version);
    }

    if (before != NULL && memcmp(before, &stats, sizeof(stats)) != 0) {
        return "a refused commit changed the statistics";
    }

    return NULL;
}


/* Every slot that a commit took was free. */
static inline const char *
expect_slots(run_t *run, const cat_worker_t *worker)
{
    uint32_t             i, k, w;
    const char          *error;
    const cat_worker_t  *other;

    for (i = 0; i < worker->now.n_ranks; i++) {
        error = cat_book_slot(&run->book, worker->number,
                              worker->now.worker_id, &worker->now.ranks[i]);
        if (error != NULL) {
            return error;
        }

        for (w = 0; w < WORKERS; w++) {
            other = &run->workers[w];

            for (k = 0; other != worker && k < other->now.n_ranks; k++) {
                if (other->now.ranks[k].slot == worker->now.ranks[i].slot) {
                    return "a slot of two workers";
                }
            }
        }
    }

    return NULL;
}


static inline const char *
committed(run_t *run, cat_worker_t *worker, const cat_intent_t *asked,
    const cat_intent_t *got, uint64_t version, uint32_t number)
{
    bool         scheduled;
    const char  *error;

    if (version != run->version + 1) {
        return "a version that is not the next";
    }

    scheduled = asked->state == SEL_WORKER_SCHEDULABLE;

    if (!scheduled && number != 0) {
        return "a partition for a worker that is in none";
    }

    if (scheduled && ever_made(run, asked->partition)
        && run->book.numbers[number] != asked->partition + 1)
    {
        return "a partition has another number";
    }

    error = scheduled ? cat_book_number(&run->book, number, asked->partition)
                      : NULL;

    if (error == NULL) {
        error = cat_check_ranks(&run->book, &run->zone, asked, &worker->now,
                                got->ranks);
    }

    if (error != NULL) {
        return error;
    }

    run->version = version;
    worker->version = asked->state == SEL_WORKER_GONE ? 0 : version;
    worker->number = number;
    worker->now = *got;

    if (asked->state == SEL_WORKER_GONE) {
        memset(&worker->now, 0, sizeof(worker->now));
    }

    return expect_slots(run, worker);
}


/* A partition that was made for a worker that is not in it. */
static inline const char *
learn_partition(run_t *run, uint32_t partition)
{
    int              rc;
    char             text[2][64];
    sel_arena_t      arena;
    sel_partition_t  named;

    cat_names(partition, text, &named);
    sel_arena_init(&arena, 0);
    rc = sel_catalog_find_partition(&run->zone, named.model_name,
                                    named.routing_group, &arena, &named);
    sel_arena_free(&arena);

    if (rc != 1) {
        return "a partition was not made";
    }

    return cat_book_number(&run->book, named.number, partition);
}


static inline const char *
expect_existing(run_t *run, sel_commit_t result, const cat_intent_t *asked,
    const sel_partition_t *existing)
{
    if (result != SEL_COMMIT_BLOCK_SIZE && result != SEL_COMMIT_EAGLE) {
        return NULL;
    }

    if (existing->block_size != cat_block_size(asked->partition)
        || existing->is_eagle != cat_is_eagle(asked->partition)
        || existing->model_name.len != 0 || existing->routing_group.len != 0
        || run->book.numbers[existing->number] != asked->partition + 1)
    {
        return "the existing partition is described otherwise";
    }

    return NULL;
}


#endif /* CATALOG_WALK_H */
