/*
 * The rebuild: derived state anew from the primary records.
 *
 *   1. Derived state is emptied.
 *   2. One pass over all chunks that were ever used: records are put in their
 *      tables, of two records of one worker the older one ends here, and
 *      every other chunk counts as free.
 *   3. Worker records are sorted by version; their chains and those of the
 *      partitions are marked as used, and the slots they name.
 *   4. What is still free becomes the free lists.
 *
 * Steps 2 and 3 touch nothing that step 2 would read otherwise the next time,
 * except to end a record that would end then too.  So a death in a rebuild
 * costs only the next owner's rebuild.
 */

#include "state/sel_zone_impl.h"


/* sorted lists of 2^i records, for i up to 31 */
#define SEL_SORT_BINS  32


static void sel_rebuild_reset(sel_zone_t *zone);
static void sel_rebuild_records(sel_zone_t *zone);
static void sel_rebuild_worker(sel_zone_t *zone, sel_worker_chunk_t *worker);
static void sel_rebuild_changes(sel_zone_t *zone);
static uint32_t sel_rebuild_sort(sel_zone_t *zone);
static uint32_t sel_rebuild_merge(sel_zone_t *zone, uint32_t a, uint32_t b);
static void sel_rebuild_use(sel_zone_t *zone);
static void sel_rebuild_chain(sel_zone_t *zone, uint32_t number);
static void sel_rebuild_ranks(sel_zone_t *zone,
    const sel_worker_chunk_t *worker);
static void sel_rebuild_free(sel_zone_t *zone);


void
sel_zone_rebuild(sel_zone_t *zone)
{
    sel_rebuild_reset(zone);
    sel_rebuild_records(zone);
    sel_rebuild_changes(zone);
    sel_rebuild_use(zone);
    sel_rebuild_free(zone);
}


static void
sel_rebuild_reset(sel_zone_t *zone)
{
    uint32_t            i;
    sel_zone_header_t  *header;

    header = zone->header;

    header->chunk_free = SEL_CHUNK_NONE;
    header->chunks_returned = 0;
    header->slot_free_first = SEL_SLOT_NONE;
    header->slot_free_last = SEL_SLOT_NONE;
    header->slots_used = 0;
    header->workers = 0;
    header->partitions = 0;
    header->oldest = SEL_CHUNK_NONE;
    header->newest = SEL_CHUNK_NONE;
    header->n_tombs = 0;
    SEL_ZONE_STEP();

    memset(zone->worker_buckets, 0,
           zone->n_worker_buckets * sizeof(uint32_t));
    memset(zone->partition_buckets, 0,
           2 * zone->n_partition_buckets * sizeof(uint32_t));
    SEL_ZONE_STEP();

    for (i = 0; i < header->slot_high; i++) {
        zone->slots[i].used = SEL_SLOT_FREE;
    }

    SEL_ZONE_STEP();

    /* meters are read without the lock: what is right stays */

    for (i = 0; i < SEL_ZONE_PROCS; i++) {

        if (!sel_zone_meter_right(zone, i)) {
            atomic_store_explicit(&header->meters[i], SEL_CHUNK_NONE,
                                  memory_order_release);
        }
    }
}


static void
sel_rebuild_records(sel_zone_t *zone)
{
    uint32_t      number;
    sel_chunk_t  *chunk;

    for (number = 1; number <= zone->header->chunk_high;
         number += sel_chunk_span(chunk))
    {
        chunk = sel_zone_chunk(zone, number);
        chunk->aux &= (uint8_t) ~SEL_CHUNK_SEEN;

        switch (sel_chunk_tag(chunk)) {

        case SEL_CHUNK_WORKER:
            sel_rebuild_worker(zone, (sel_worker_chunk_t *) chunk);
            break;

        case SEL_CHUNK_PARTITION:
            sel_zone_partition_link(zone, (sel_partition_chunk_t *) chunk);
            break;

        case SEL_CHUNK_METER:
            sel_zone_meter_link(zone, (sel_meter_chunk_t *) chunk);
            break;

        default:
            sel_chunk_set_tag(chunk, SEL_CHUNK_FREE);
            SEL_ZONE_STEP();
        }
    }
}


/* Puts a record in the table, unless a newer one of the worker is there. */

static void
sel_rebuild_worker(sel_zone_t *zone, sel_worker_chunk_t *worker)
{
    uint32_t             *link;
    sel_worker_chunk_t   *other;

    link = sel_zone_worker_bucket(zone, worker->worker_id);

    while (*link != SEL_CHUNK_NONE) {
        other = sel_zone_worker(zone, *link);

        if (other->worker_id != worker->worker_id) {
            link = &other->bucket_next;
            continue;
        }

        if (sel_worker_version(other) > sel_worker_version(worker)) {
            sel_chunk_set_tag(&worker->head, SEL_CHUNK_FREE);
            SEL_ZONE_STEP();
            return;
        }

        *link = other->bucket_next;
        SEL_ZONE_STEP();
        sel_chunk_set_tag(&other->head, SEL_CHUNK_FREE);
        SEL_ZONE_STEP();
        break;
    }

    link = sel_zone_worker_bucket(zone, worker->worker_id);
    worker->bucket_next = *link;
    SEL_ZONE_STEP();
    *link = sel_zone_chunk_number(zone, worker);
    SEL_ZONE_STEP();
}


/* The order of changes, and what is known from it. */

static void
sel_rebuild_changes(sel_zone_t *zone)
{
    uint64_t             version;
    uint32_t             number, older;
    sel_worker_chunk_t  *worker;
    sel_zone_header_t   *header;

    header = zone->header;
    older = SEL_CHUNK_NONE;
    version = sel_catalog_forgotten(zone);

    header->oldest = sel_rebuild_sort(zone);
    SEL_ZONE_STEP();

    for (number = header->oldest; number != SEL_CHUNK_NONE;
         number = worker->newer)
    {
        worker = sel_zone_worker(zone, number);
        worker->older = older;
        older = number;

        if (sel_worker_version(worker) > version) {
            version = sel_worker_version(worker);
        }

        if (worker->gone != 0) {
            header->tombs[header->n_tombs++] = number;

        } else {
            header->workers++;
        }

        SEL_ZONE_STEP();
    }

    header->newest = older;
    SEL_ZONE_STEP();

    if (version > sel_catalog_version(zone)) {
        atomic_store_explicit(&header->catalog_version, version,
                              memory_order_release);
        SEL_ZONE_STEP();
    }
}


/* Merge sort over the links `newer`: bin i holds a sorted list of 2^i. */

static uint32_t
sel_rebuild_sort(sel_zone_t *zone)
{
    uint32_t             i, bucket, number, list, bins[SEL_SORT_BINS];
    sel_worker_chunk_t  *worker;

    memset(bins, 0, sizeof(bins));

    for (bucket = 0; bucket < zone->n_worker_buckets; bucket++) {

        for (number = zone->worker_buckets[bucket]; number != SEL_CHUNK_NONE;
             number = worker->bucket_next)
        {
            worker = sel_zone_worker(zone, number);
            worker->newer = SEL_CHUNK_NONE;
            SEL_ZONE_STEP();

            list = number;

            for (i = 0; bins[i] != SEL_CHUNK_NONE; i++) {
                list = sel_rebuild_merge(zone, bins[i], list);
                bins[i] = SEL_CHUNK_NONE;
            }

            bins[i] = list;
        }
    }

    list = SEL_CHUNK_NONE;

    for (i = 0; i < SEL_SORT_BINS; i++) {
        list = sel_rebuild_merge(zone, bins[i], list);
    }

    return list;
}


static uint32_t
sel_rebuild_merge(sel_zone_t *zone, uint32_t a, uint32_t b)
{
    uint32_t  first, *link;

    link = &first;

    while (a != SEL_CHUNK_NONE && b != SEL_CHUNK_NONE) {

        if (sel_worker_version(sel_zone_worker(zone, a))
            < sel_worker_version(sel_zone_worker(zone, b)))
        {
            *link = a;
            link = &sel_zone_worker(zone, a)->newer;
            a = *link;

        } else {
            *link = b;
            link = &sel_zone_worker(zone, b)->newer;
            b = *link;
        }

        SEL_ZONE_STEP();
    }

    *link = a != SEL_CHUNK_NONE ? a : b;

    return first;
}


/* Marks what the records use. */

static void
sel_rebuild_use(sel_zone_t *zone)
{
    uint32_t                i, number;
    sel_worker_chunk_t     *worker;
    sel_partition_chunk_t  *partition;

    for (number = zone->header->oldest; number != SEL_CHUNK_NONE;
         number = worker->newer)
    {
        worker = sel_zone_worker(zone, number);

        if (worker->gone != 0) {
            sel_worker_bare(worker);
            SEL_ZONE_STEP();
            continue;
        }

        sel_rebuild_chain(zone, worker->ranks);
        sel_rebuild_chain(zone, worker->blob);
        sel_rebuild_ranks(zone, worker);
    }

    for (i = 0; i < zone->n_partition_buckets; i++) {

        for (number = zone->partition_buckets[i]; number != SEL_CHUNK_NONE;
             number = partition->name_next)
        {
            partition = sel_zone_partition(zone, number);
            sel_rebuild_chain(zone, partition->names);
        }
    }
}


static void
sel_rebuild_chain(sel_zone_t *zone, uint32_t number)
{
    sel_chunk_t  *chunk;

    for ( /* void */ ; number != SEL_CHUNK_NONE; number = chunk->next) {
        chunk = sel_zone_chunk(zone, number);

        sel_chunk_set_tag(chunk, SEL_CHUNK_BYTES);
        SEL_ZONE_STEP();
    }
}


static void
sel_rebuild_ranks(sel_zone_t *zone, const sel_worker_chunk_t *worker)
{
    sel_slot_t        *slot;
    sel_rank_walk_t    walk;
    sel_rank_entry_t  *rank;

    walk = sel_rank_walk(worker->ranks);

    while ((rank = sel_rank_next(zone, &walk)) != NULL) {
        slot = &zone->slots[rank->slot];

        slot->worker_id = worker->worker_id;
        slot->dp_rank = rank->dp_rank;
        slot->partition = worker->partition;
        slot->feed = rank->feed;
        slot->used = SEL_SLOT_USED;
        SEL_ZONE_STEP();

        zone->header->slots_used++;
        SEL_ZONE_STEP();
    }
}


static void
sel_rebuild_free(sel_zone_t *zone)
{
    uint32_t            i, number;
    sel_chunk_t        *chunk;
    sel_zone_header_t  *header;

    header = zone->header;

    for (number = 1; number <= header->chunk_high;
         number += sel_chunk_span(chunk))
    {
        chunk = sel_zone_chunk(zone, number);

        if (sel_chunk_tag(chunk) == SEL_CHUNK_FREE) {
            chunk->next = header->chunk_free;
            SEL_ZONE_STEP();
            header->chunk_free = number;
            SEL_ZONE_STEP();
            header->chunks_returned++;
        }
    }

    for (i = 0; i < header->slot_high; i++) {

        if (zone->slots[i].used == SEL_SLOT_FREE) {
            sel_zone_slot_give(zone, (uint16_t) i);
        }
    }
}
