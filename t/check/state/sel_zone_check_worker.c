/*
 * Verification of a zone, the workers' part: table, order of changes and
 * slots against the records.  Chunks and partitions have been verified
 * before, so the chains of records are whole.
 */

#include "state/sel_zone_check_impl.h"


/* marks a slot that was met; no use of the zone's own */
#define SEL_SLOT_SEEN  0xff


static const char *sel_check_ranks(sel_zone_t *zone,
    const sel_worker_chunk_t *worker, uint32_t *ranks);
static const char *sel_check_free_slots(sel_zone_t *zone, uint32_t used);
static void sel_check_clear_slots(sel_zone_t *zone);


const char *
sel_zone_check_workers(sel_zone_t *zone)
{
    uint32_t             i, n, number, records;
    sel_worker_chunk_t  *worker;

    n = 0;
    records = sel_check_count(zone, SEL_CHUNK_WORKER);

    for (i = 0; i < zone->n_worker_buckets; i++) {

        for (number = zone->worker_buckets[i]; number != SEL_CHUNK_NONE;
             number = worker->bucket_next)
        {
            worker = sel_zone_worker(zone, number);

            if (n++ == records
                || !sel_check_is(zone, number, SEL_CHUNK_WORKER)
                || sel_zone_worker_bucket(zone, worker->worker_id)
                   != &zone->worker_buckets[i])
            {
                return "the table of workers holds something else";
            }

            if (sel_zone_worker_find(zone, worker->worker_id) != worker) {
                return "a worker has two records";
            }
        }
    }

    return n == records ? NULL : "a worker is not in the table";
}


const char *
sel_zone_check_changes(sel_zone_t *zone)
{
    uint64_t             version;
    uint32_t             number, older, tombs, workers;
    sel_worker_chunk_t  *worker;
    sel_zone_header_t   *header;

    header = zone->header;
    version = 0;
    older = SEL_CHUNK_NONE;
    tombs = 0;
    workers = 0;

    for (number = header->changes.oldest; number != SEL_CHUNK_NONE;
         number = worker->order.newer)
    {
        if (!sel_check_is(zone, number, SEL_CHUNK_WORKER)) {
            return "the order of changes leads to something else";
        }

        worker = sel_zone_worker(zone, number);

        if (sel_worker_version(worker) <= version
            || worker->order.older != older)
        {
            return "the order of changes is not that of the versions";
        }

        version = sel_worker_version(worker);
        older = number;

        if (worker->gone == 0) {
            workers++;
            continue;
        }

        if (tombs == header->n_tombs || header->tombs[tombs++] != number) {
            return "the list of tombs is not that of the records";
        }
    }

    if (header->changes.newest != older) {
        return "the newest change is not the last";
    }

    if (version > sel_catalog_version(zone)
        || sel_catalog_forgotten(zone) > sel_catalog_version(zone))
    {
        return "a version is above the catalog's";
    }

    if (workers != header->workers || tombs != header->n_tombs) {
        return "the count of workers or tombs is wrong";
    }

    if (workers + tombs != sel_check_count(zone, SEL_CHUNK_WORKER)) {
        return "a worker is not in the order of changes";
    }

    return NULL;
}


const char *
sel_zone_check_slots(sel_zone_t *zone)
{
    uint32_t             number, ranks;
    const char          *wrong;
    sel_worker_chunk_t  *worker;

    ranks = 0;
    wrong = NULL;

    for (number = zone->header->changes.oldest;
         number != SEL_CHUNK_NONE && wrong == NULL;
         number = worker->order.newer)
    {
        worker = sel_zone_worker(zone, number);

        if (worker->gone == 0 && worker->state == SEL_WORKER_SCHEDULABLE
            && sel_zone_partition_number(zone, worker->partition) == NULL)
        {
            wrong = "a schedulable worker is in no partition";

        } else {
            wrong = sel_check_ranks(zone, worker, &ranks);
        }
    }

    if (wrong == NULL && ranks != zone->header->slots_used) {
        wrong = "the count of used slots is wrong";
    }

    if (wrong == NULL) {
        wrong = sel_check_free_slots(zone, ranks);
    }

    sel_check_clear_slots(zone);

    return wrong;
}


static const char *
sel_check_ranks(sel_zone_t *zone, const sel_worker_chunk_t *worker,
    uint32_t *ranks)
{
    sel_slot_t              *slot;
    sel_rank_walk_t          walk;
    const sel_rank_entry_t  *rank;

    walk = sel_rank_walk(worker->ranks);

    while ((rank = sel_rank_next(zone, &walk)) != NULL) {

        if (rank->slot >= zone->header->slot_high) {
            return "a rank has a slot that was never given out";
        }

        slot = &zone->slots[rank->slot];

        if (slot->used != SEL_SLOT_USED) {
            return "a rank has a free slot, or one that another rank has";
        }

        if (slot->worker_id != worker->worker_id
            || slot->dp_rank != rank->dp_rank
            || slot->partition != worker->partition
            || slot->feed != rank->feed
            || slot->epoch == 0)
        {
            return "a slot is not that of its rank";
        }

        slot->used = SEL_SLOT_SEEN;
        (*ranks)++;
    }

    return NULL;
}


/* Used slots are marked by now; so whatever else is not free is wrong. */

static const char *
sel_check_free_slots(sel_zone_t *zone, uint32_t used)
{
    uint32_t            n, number;
    sel_zone_header_t  *header;

    header = zone->header;
    n = 0;

    for (number = header->slot_free_first; number != SEL_SLOT_NONE;
         number = zone->slots[number].next_free)
    {
        if (n++ == header->slot_high - used
            || number >= header->slot_high
            || zone->slots[number].used != SEL_SLOT_FREE)
        {
            return "the queue of free slots leads to one that is not free";
        }

        if (zone->slots[number].next_free == SEL_SLOT_NONE
            && header->slot_free_last != number)
        {
            return "the queue of free slots has another end";
        }
    }

    if (n == 0 && header->slot_free_last != SEL_SLOT_NONE) {
        return "the empty queue of free slots has an end";
    }

    return n + used == header->slot_high
           ? NULL : "a slot is neither free nor a rank's";
}


static void
sel_check_clear_slots(sel_zone_t *zone)
{
    uint32_t  i;

    for (i = 0; i < zone->header->slot_high; i++) {

        if (zone->slots[i].used == SEL_SLOT_SEEN) {
            zone->slots[i].used = SEL_SLOT_USED;
        }
    }
}
