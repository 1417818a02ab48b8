/*
 * The rebuild: derived state anew from the primary records.
 *
 *   1. Derived state is emptied.
 *   2. One pass over all chunks that were ever used: records are put in their
 *      tables, of two records of one worker the older one ends here, and
 *      every other chunk counts as free.
 *   3. Worker records are sorted by version; their chains and those of the
 *      partitions are marked as used, and the slots they name.  Bookings of
 *      other slots end; the chains of those that stay are marked.
 *   4. What is still free becomes the free lists.
 *   5. Bookings are booked again.
 *
 * These steps touch nothing that step 2 would read otherwise the next time,
 * except to end a record that would end then too.  So a death in a rebuild
 * costs only the next owner's rebuild.
 */

#include "state/sel_partition_impl.h"
#include "state/sel_rebuild_impl.h"


/* chunks that a pass over all of them asks memory for in advance */
#define SEL_AHEAD  16


static void sel_rebuild_reset(sel_zone_t *zone);
static void sel_rebuild_records(sel_zone_t *zone);
static void sel_rebuild_worker(sel_zone_t *zone, sel_worker_chunk_t *worker);
static void sel_rebuild_changes(sel_zone_t *zone);
static uint32_t sel_rebuild_sort(sel_zone_t *zone);
static bool sel_rebuild_first(const sel_zone_t *zone, uint32_t a, uint32_t b);
static void sel_rebuild_use(sel_zone_t *zone);
static void sel_rebuild_ranks(sel_zone_t *zone,
    const sel_worker_chunk_t *worker);
static void sel_rebuild_free(sel_zone_t *zone);


static const sel_order_t  sel_rebuild_worker_order = {
    offsetof(sel_worker_chunk_t, order.newer), sel_rebuild_first
};


void
sel_zone_rebuild(sel_zone_t *zone)
{
    sel_rebuild_reset(zone);
    sel_rebuild_records(zone);
    sel_rebuild_changes(zone);
    sel_rebuild_use(zone);
    sel_rebuild_free(zone);
    sel_rebuild_books(zone);
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
    header->changes = SEL_LIST_EMPTY;
    header->n_tombs = 0;
    header->idle = SEL_LIST_EMPTY;
    header->idle_chunks = 0;
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

    sel_rebuild_books_reset(zone);

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
        __builtin_prefetch(sel_zone_chunk(zone, number + SEL_AHEAD), 1);

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

        case SEL_CHUNK_BOOKING:
            sel_rebuild_booking(zone, number);
            break;

        case SEL_CHUNK_PENDING:
            sel_rebuild_pending(zone, number);
            break;

        case SEL_CHUNK_SESSION:
        case SEL_CHUNK_SESSION_ENDED:
            sel_rebuild_session(zone, number);
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

    sel_bucket_insert(zone, sel_zone_worker_bucket(zone, worker->worker_id),
                      &worker->bucket_next);
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

    header->changes.oldest = sel_rebuild_sort(zone);
    SEL_ZONE_STEP();

    for (number = header->changes.oldest; number != SEL_CHUNK_NONE;
         number = worker->order.newer)
    {
        worker = sel_zone_worker(zone, number);
        worker->order.older = older;
        older = number;

        if (sel_worker_version(worker) > version) {
            version = sel_worker_version(worker);
        }

        if (worker->gone != 0) {
            header->tombs[header->n_tombs++] = number;

        } else {
            header->workers++;
            (void) sel_zone_partition_use(zone, worker->partition);
        }

        SEL_ZONE_STEP();
    }

    header->changes.newest = older;
    SEL_ZONE_STEP();

    if (version > sel_catalog_version(zone)) {
        atomic_store_explicit(&header->catalog_version, version,
                              memory_order_release);
        SEL_ZONE_STEP();
    }
}


/* All records of the table, by version. */

static uint32_t
sel_rebuild_sort(sel_zone_t *zone)
{
    uint32_t             i, number, list;
    sel_worker_chunk_t  *worker;

    list = SEL_CHUNK_NONE;

    for (i = 0; i < zone->n_worker_buckets; i++) {

        for (number = zone->worker_buckets[i]; number != SEL_CHUNK_NONE;
             number = worker->bucket_next)
        {
            worker = sel_zone_worker(zone, number);
            worker->order.newer = list;
            SEL_ZONE_STEP();
            list = number;
        }
    }

    return sel_zone_sort(zone, list, &sel_rebuild_worker_order);
}


static bool
sel_rebuild_first(const sel_zone_t *zone, uint32_t a, uint32_t b)
{
    return sel_worker_version(sel_zone_worker(zone, a))
           < sel_worker_version(sel_zone_worker(zone, b));
}


/* Marks what the records use. */

static void
sel_rebuild_use(sel_zone_t *zone)
{
    uint32_t                i, number;
    sel_worker_chunk_t     *worker;
    sel_partition_chunk_t  *partition;

    for (number = zone->header->changes.oldest; number != SEL_CHUNK_NONE;
         number = worker->order.newer)
    {
        worker = sel_zone_worker(zone, number);

        if (worker->gone != 0) {
            sel_worker_bare(worker);
            SEL_ZONE_STEP();
            continue;
        }

        sel_rebuild_chain(zone, worker->ranks, SEL_CHUNK_BYTES);
        sel_rebuild_chain(zone, worker->blob, SEL_CHUNK_BYTES);
        sel_rebuild_ranks(zone, worker);
    }

    for (i = 0; i < zone->n_partition_buckets; i++) {

        for (number = zone->partition_buckets[i]; number != SEL_CHUNK_NONE;
             number = partition->name_next)
        {
            partition = sel_zone_partition(zone, number);
            sel_rebuild_chain(zone, partition->names, SEL_CHUNK_BYTES);
        }
    }

    sel_rebuild_books_use(zone);
}


void
sel_rebuild_chain(sel_zone_t *zone, uint32_t number, sel_chunk_tag_t tag)
{
    sel_chunk_t  *chunk;

    for ( /* void */ ; number != SEL_CHUNK_NONE; number = chunk->next) {
        chunk = sel_zone_chunk(zone, number);

        sel_chunk_set_tag(chunk, tag);
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
        __builtin_prefetch(sel_zone_chunk(zone, number + SEL_AHEAD), 1);

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
