/*
 * Worker records: the table by id, the order of changes, and tombs.
 *
 * A record is true from the moment its head has the tag WORKER until that tag
 * is cleared; everything else here only makes it found.  Of two records of
 * one worker, which only a death can leave, the newer one counts.
 *
 * A deletion makes a tomb of the record by one store, so it needs no room.
 * Tombs are few: when one more comes, the oldest is dropped and its version
 * remembered in `forgotten`, so that a reader that has not come so far knows
 * that it may have missed a deletion.
 */

#include "state/sel_partition_impl.h"


static void sel_zone_worker_strip(sel_zone_t *zone,
    sel_worker_chunk_t *worker);
static void sel_zone_changes_append(sel_zone_t *zone,
    sel_worker_chunk_t *worker);
static void sel_zone_changes_remove(sel_zone_t *zone,
    sel_worker_chunk_t *worker);
static void sel_zone_tomb_remove(sel_zone_t *zone, uint32_t number);


sel_worker_chunk_t *
sel_zone_worker_find(const sel_zone_t *zone, uint64_t worker_id)
{
    uint32_t             number;
    sel_worker_chunk_t  *worker;

    number = *sel_zone_worker_bucket(zone, worker_id);

    while (number != SEL_CHUNK_NONE) {
        worker = sel_zone_worker(zone, number);

        if (worker->worker_id == worker_id) {
            return worker;
        }

        number = worker->bucket_next;
    }

    return NULL;
}


void
sel_zone_worker_link(sel_zone_t *zone, sel_worker_chunk_t *worker)
{
    sel_bucket_insert(zone, sel_zone_worker_bucket(zone, worker->worker_id),
                      &worker->bucket_next);

    sel_zone_changes_append(zone, worker);
}


void
sel_zone_worker_retire(sel_zone_t *zone, sel_worker_chunk_t *worker)
{
    sel_chunk_set_tag(&worker->head, SEL_CHUNK_FREE);
    SEL_ZONE_STEP();

    sel_bucket_remove(zone, sel_zone_worker_bucket(zone, worker->worker_id),
                      &worker->bucket_next);

    sel_zone_changes_remove(zone, worker);
    sel_zone_worker_strip(zone, worker);
    sel_zone_chain_give(zone, sel_zone_chunk_number(zone, worker));
}


void
sel_zone_worker_bury(sel_zone_t *zone, sel_worker_chunk_t *worker,
    uint64_t version)
{
    sel_zone_changes_remove(zone, worker);

    __atomic_store_n(&worker->gone, version, __ATOMIC_RELEASE);
    SEL_ZONE_STEP();

    sel_zone_changes_append(zone, worker);
    sel_zone_worker_strip(zone, worker);
}


/* Gives back what a record has that is no record, or a tomb, already. */

static void
sel_zone_worker_strip(sel_zone_t *zone, sel_worker_chunk_t *worker)
{
    uint32_t  ranks, blob;

    sel_zone_slots_release(zone, worker);

    ranks = worker->ranks;
    blob = worker->blob;

    sel_worker_bare(worker);
    SEL_ZONE_STEP();

    sel_zone_chain_give(zone, ranks);
    sel_zone_chain_give(zone, blob);
}


static void
sel_zone_changes_append(sel_zone_t *zone, sel_worker_chunk_t *worker)
{
    uint32_t            number;
    sel_zone_header_t  *header;

    header = zone->header;
    number = sel_zone_chunk_number(zone, worker);

    sel_list_insert(zone, &header->changes, header->changes.newest,
                    &worker->order);

    if (worker->gone != 0) {
        header->tombs[header->n_tombs] = number;
        SEL_ZONE_STEP();
        header->n_tombs++;

    } else {
        header->workers++;
        SEL_ZONE_STEP();
        (void) sel_zone_partition_use(zone, worker->partition);
    }

    SEL_ZONE_STEP();
}


static void
sel_zone_changes_remove(sel_zone_t *zone, sel_worker_chunk_t *worker)
{
    sel_zone_header_t  *header;

    header = zone->header;

    sel_list_remove(zone, &header->changes, &worker->order);

    if (worker->gone != 0) {
        sel_zone_tomb_remove(zone, sel_zone_chunk_number(zone, worker));

    } else {
        header->workers--;
        SEL_ZONE_STEP();
        sel_zone_partition_unuse(zone, worker->partition);
    }
}


static void
sel_zone_tomb_remove(sel_zone_t *zone, uint32_t number)
{
    uint32_t            i;
    sel_zone_header_t  *header;

    header = zone->header;

    for (i = 0; header->tombs[i] != number; i++) {
        /* void */
    }

    for (i++; i < header->n_tombs; i++) {
        header->tombs[i - 1] = header->tombs[i];
        SEL_ZONE_STEP();
    }

    header->n_tombs--;
    SEL_ZONE_STEP();
}


void
sel_zone_tomb_drop(sel_zone_t *zone)
{
    sel_worker_chunk_t  *tomb;

    tomb = sel_zone_worker(zone, zone->header->tombs[0]);

    /* tombs go in the order of their versions, so this only grows */

    atomic_store_explicit(&zone->header->forgotten, tomb->gone,
                          memory_order_release);
    SEL_ZONE_STEP();

    sel_zone_worker_retire(zone, tomb);
}
