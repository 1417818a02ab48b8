/*
 * Reads of worker records.  Memory may not be allocated inside the lock, and
 * how much is needed is known only there.  So a read has two locked parts:
 * the first lists versions and sizes, the second copies what still has the
 * version that was listed.  A record that changed in between has a newer
 * version and is found by a later call.
 */

#include <limits.h>
#include "state/sel_zone_impl.h"


/* bytes after which a batch ends, however few records it has */
#define SEL_BATCH_BYTES  (256 * 1024)


static sel_worker_chunk_t *sel_changes_first(const sel_zone_t *zone,
    uint64_t since);
static sel_worker_chunk_t *sel_worker_at(const sel_zone_t *zone,
    uint32_t number);
static uint32_t sel_changes_list(const sel_zone_t *zone, uint64_t since,
    uint32_t max, sel_worker_record_t *records, size_t *size);
static int sel_changes_copy(sel_zone_t *zone, uint8_t *data,
    sel_worker_record_t *records, uint32_t n);
static size_t sel_record_list(const sel_worker_chunk_t *worker,
    sel_worker_record_t *record);
static size_t sel_record_size(const sel_worker_record_t *record);
static bool sel_record_copy(const sel_zone_t *zone,
    const sel_worker_chunk_t *worker, uint8_t *data,
    sel_worker_record_t *record);


int
sel_catalog_worker(sel_zone_t *zone, uint64_t worker_id, sel_arena_t *arena,
    sel_worker_record_t *record)
{
    int                        rc;
    size_t                     size;
    uint8_t                   *data;
    const sel_worker_chunk_t  *worker;

    do {
        sel_zone_lock(zone);

        size = 0;
        worker = sel_zone_worker_find(zone, worker_id);

        if (worker != NULL && worker->gone != 0) {
            worker = NULL;
        }

        if (worker != NULL) {
            size = sel_record_list(worker, record);
        }

        sel_zone_unlock(zone);

        if (worker == NULL) {
            return 0;
        }

        data = sel_arena_alloc(arena, size);

        if (data == NULL) {
            return -1;
        }

        sel_zone_lock(zone);
        rc = sel_changes_copy(zone, data, record, 1);
        sel_zone_unlock(zone);

    } while (rc == 0);

    return rc;
}


int
sel_catalog_changes(sel_zone_t *zone, uint64_t since, uint32_t max,
    sel_arena_t *arena, sel_worker_record_t *records)
{
    int        rc;
    size_t     size;
    uint8_t   *data;
    uint32_t   n;

    do {
        sel_zone_lock(zone);
        n = sel_changes_list(zone, since, max, records, &size);
        sel_zone_unlock(zone);

        if (n == 0) {
            return 0;
        }

        data = sel_arena_alloc(arena, size);

        if (data == NULL) {
            return -1;
        }

        sel_zone_lock(zone);
        rc = sel_changes_copy(zone, data, records, n);
        sel_zone_unlock(zone);

    } while (rc == 0);

    return rc;
}


uint64_t
sel_catalog_forgotten(const sel_zone_t *zone)
{
    return atomic_load_explicit(&zone->header->forgotten,
                                memory_order_acquire);
}


/*
 * The oldest record above a version, looked for from both ends at once: most
 * readers want the newest few, one that starts again begins at the oldest.
 */

static sel_worker_chunk_t *
sel_changes_first(const sel_zone_t *zone, uint64_t since)
{
    sel_worker_chunk_t  *low, *high, *above;

    low = sel_worker_at(zone, zone->header->changes.oldest);
    high = sel_worker_at(zone, zone->header->changes.newest);
    above = NULL;

    while (low != NULL && sel_worker_version(low) <= since
           && high != NULL && sel_worker_version(high) > since)
    {
        above = high;
        high = sel_worker_at(zone, high->order.older);
        low = sel_worker_at(zone, low->order.newer);
    }

    if (low != NULL && sel_worker_version(low) > since) {
        return low;
    }

    return above;
}


static sel_worker_chunk_t *
sel_worker_at(const sel_zone_t *zone, uint32_t number)
{
    return number != SEL_CHUNK_NONE ? sel_zone_worker(zone, number) : NULL;
}


static uint32_t
sel_changes_list(const sel_zone_t *zone, uint64_t since, uint32_t max,
    sel_worker_record_t *records, size_t *size)
{
    uint32_t                   n;
    const sel_worker_chunk_t  *worker;

    *size = 0;
    worker = sel_changes_first(zone, since);
    max = max < INT_MAX ? max : INT_MAX;

    for (n = 0; n < max && worker != NULL && *size < SEL_BATCH_BYTES; n++) {
        *size += sel_record_list(worker, &records[n]);
        worker = sel_worker_at(zone, worker->order.newer);
    }

    return n;
}


/* What a record is and needs; ranks and blob are not there yet. */

static size_t
sel_record_list(const sel_worker_chunk_t *worker, sel_worker_record_t *record)
{
    record->address = worker->address;
    record->worker_id = worker->worker_id;
    record->version = sel_worker_version(worker);
    record->state = worker->gone != 0 ? SEL_WORKER_GONE
                                      : (sel_worker_state_t) worker->state;
    record->partition = worker->partition;
    record->n_ranks = worker->n_ranks;
    record->ranks = NULL;
    record->blob = (sel_str_t) { worker->blob_len, NULL };

    return sel_record_size(record);
}


static size_t
sel_record_size(const sel_worker_record_t *record)
{
    return record->n_ranks * sizeof(sel_rank_slot_t)
           + (record->blob.len + 7) / 8 * 8;
}


/* Copies the listed records that are still the same, and closes the gaps;
   returns how many, -1 when a chain is not what its record says. */

static int
sel_changes_copy(sel_zone_t *zone, uint8_t *data,
    sel_worker_record_t *records, uint32_t n)
{
    uint32_t                   i, kept;
    const sel_worker_chunk_t  *worker;

    kept = 0;

    for (i = 0; i < n; i++) {
        worker = sel_zone_worker_find(zone, records[i].worker_id);

        if (worker == NULL
            || sel_worker_version(worker) != records[i].version)
        {
            continue;
        }

        records[kept] = records[i];

        if (!sel_record_copy(zone, worker, data, &records[kept])) {
            return -1;
        }

        data += sel_record_size(&records[kept]);
        kept++;
    }

    return (int) kept;
}


static bool
sel_record_copy(const sel_zone_t *zone, const sel_worker_chunk_t *worker,
    uint8_t *data, sel_worker_record_t *record)
{
    uint8_t                 *blob;
    uint32_t                 i;
    sel_rank_slot_t         *rank;
    sel_rank_walk_t          walk;
    const sel_rank_entry_t  *entry;

    record->ranks = (sel_rank_slot_t *) data;
    walk = sel_rank_walk(worker->ranks);

    for (i = 0; i < record->n_ranks; i++) {
        entry = sel_rank_next(zone, &walk);

        if (entry == NULL) {
            return false;
        }

        rank = &record->ranks[i];

        rank->dp_rank = entry->dp_rank;
        rank->slot = entry->slot;
        rank->epoch = zone->slots[entry->slot].epoch;
        rank->feed = entry->feed;
        rank->new_feed = false;
    }

    blob = data + record->n_ranks * sizeof(sel_rank_slot_t);
    record->blob.data = blob;

    return sel_zone_chain_read(zone, worker->blob, blob, record->blob.len);
}


void
sel_catalog_found(sel_zone_t *zone, uint64_t worker_id, uint64_t version,
    uint32_t address)
{
    sel_worker_chunk_t  *worker;

    sel_zone_lock(zone);

    worker = sel_zone_worker_find(zone, worker_id);

    if (worker != NULL && worker->gone == 0 && worker->written == version) {
        worker->address = address;
    }

    sel_zone_unlock(zone);
}
