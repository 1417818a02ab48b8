/*
 * Commits.  What can be refused is refused before the first store that means
 * anything; then everything that the new record needs is taken and filled,
 * its tag makes it true, and only then the old record goes.  A death in
 * between leaves both, and the newer one counts.
 *
 * A slot that the new record keeps is marked in the slot table on the way
 * (KEPT, then CARRIED), so the end of the old record knows what to spare
 * without any memory of its own.
 */

#include "state/sel_partition_impl.h"


/* A commit under way. */
typedef struct {
    sel_zone_t                 *zone;
    const sel_worker_commit_t  *in;
    sel_worker_chunk_t         *old;        /* tomb, live record or NULL */
    const sel_partition_t      *wanted;     /* NULL: no partition is named */
    uint64_t                    hash;       /* of its names */
    sel_slot_owner_t            owner;
    uint64_t                    version;
    uint64_t                    need;       /* chunks */
    uint32_t                    n_ranks;
    sel_str_t                   blob;
} sel_change_t;


static void sel_change_init(sel_change_t *change, sel_zone_t *zone,
    const sel_worker_commit_t *in);
static sel_commit_t sel_change_check(sel_change_t *change,
    sel_partition_t *existing);
static sel_commit_t sel_change_check_partition(sel_change_t *change,
    sel_partition_t *existing);
static bool sel_change_has_room(const sel_change_t *change);
static bool sel_change_makes_partition(const sel_change_t *change);
static void sel_change_perform(sel_change_t *change);
static void sel_change_make_room(sel_change_t *change);
static void sel_change_publish(sel_change_t *change);
static uint32_t sel_change_partition(const sel_change_t *change);
static sel_worker_chunk_t *sel_change_record(sel_change_t *change);
static uint32_t sel_change_ranks(sel_change_t *change);


uint64_t
sel_catalog_version(const sel_zone_t *zone)
{
    return atomic_load_explicit(&zone->header->catalog_version,
                                memory_order_acquire);
}


sel_commit_t
sel_catalog_commit(sel_zone_t *zone, const sel_worker_commit_t *commit,
    uint64_t *version, uint32_t *partition, sel_partition_t *existing)
{
    sel_commit_t  rc;
    sel_change_t  change;

    sel_change_init(&change, zone, commit);

    sel_zone_lock(zone);

    rc = sel_change_check(&change, existing);

    if (rc == SEL_COMMIT_OK) {
        sel_change_perform(&change);

        *version = change.version;
        *partition = sel_change_partition(&change);
    }

    sel_zone_unlock(zone);

    return rc;
}


/* All that depends on the request alone, outside the lock. */

static void
sel_change_init(sel_change_t *change, sel_zone_t *zone,
    const sel_worker_commit_t *in)
{
    memset(change, 0, sizeof(sel_change_t));

    change->zone = zone;
    change->in = in;
    change->owner.worker_id = in->worker_id;
    change->need = 1;

    if (in->state == SEL_WORKER_GONE) {
        return;
    }

    change->blob = in->blob;
    change->need += sel_zone_chain_need(in->blob.len);

    if (in->partition != NULL) {
        change->wanted = in->partition;
        change->hash = sel_partition_hash(in->partition->model_name,
                                          in->partition->routing_group);
    }

    if (in->state == SEL_WORKER_SCHEDULABLE) {
        change->n_ranks = in->n_ranks;
        change->need += ((uint64_t) in->n_ranks + SEL_RANKS_A_CHUNK - 1)
                        / SEL_RANKS_A_CHUNK;
    }
}


/* Whether the change can be made.  If so, kept slots are marked. */

static sel_commit_t
sel_change_check(sel_change_t *change, sel_partition_t *existing)
{
    uint64_t      current;
    uint32_t      slots;
    sel_zone_t   *zone;
    sel_commit_t  rc;

    zone = change->zone;
    current = 0;

    change->old = sel_zone_worker_find(zone, change->in->worker_id);

    if (change->old != NULL && change->old->gone == 0) {
        current = change->old->written;
    }

    if (current != change->in->expected) {
        return SEL_COMMIT_STALE;
    }

    if (change->in->state == SEL_WORKER_GONE && change->old != NULL) {
        change->need = 0;
        return SEL_COMMIT_OK;
    }

    if (change->wanted != NULL) {
        rc = sel_change_check_partition(change, existing);

        if (rc != SEL_COMMIT_OK) {
            return rc;
        }
    }

    slots = sel_zone_slots_mark(zone, &change->owner, change->in->ranks,
                                change->n_ranks);

    if (slots > zone->n_slots - zone->header->slots_used) {
        rc = SEL_COMMIT_NO_SLOTS;

    } else if (!sel_change_has_room(change)) {
        rc = SEL_COMMIT_FULL;

    } else {
        return SEL_COMMIT_OK;
    }

    sel_zone_slots_unmark(zone, &change->owner, change->in->ranks,
                          change->n_ranks);

    return rc;
}


static sel_commit_t
sel_change_check_partition(sel_change_t *change, sel_partition_t *existing)
{
    sel_commit_t            rc;
    const sel_partition_t  *wanted;
    sel_partition_chunk_t  *record;

    wanted = change->wanted;

    record = sel_zone_partition_find(change->zone, change->hash,
                                     wanted->model_name,
                                     wanted->routing_group);

    if (record == NULL) {
        change->need += sel_zone_partition_need(wanted);
        return SEL_COMMIT_OK;
    }

    if (record->block_size != wanted->block_size) {
        rc = SEL_COMMIT_BLOCK_SIZE;

    } else if ((record->is_eagle != 0) != wanted->is_eagle) {
        rc = SEL_COMMIT_EAGLE;

    } else {
        change->owner.partition = record->number;
        return SEL_COMMIT_OK;
    }

    memset(existing, 0, sizeof(sel_partition_t));

    existing->number = record->number;
    existing->block_size = record->block_size;
    existing->is_eagle = record->is_eagle != 0;

    return rc;
}


/* What gives way and tombs count as room, and when a partition is to be made,
   so do those that are idle. */

static bool
sel_change_has_room(const sel_change_t *change)
{
    uint64_t                  room;
    const sel_zone_header_t  *header;

    header = change->zone->header;

    room = sel_zone_room_most(change->zone) + header->n_tombs;

    if (sel_change_makes_partition(change)) {
        room += header->idle_chunks;
    }

    return change->need <= room;
}


static bool
sel_change_makes_partition(const sel_change_t *change)
{
    return change->wanted != NULL && change->owner.partition == 0;
}


static void
sel_change_make_room(sel_change_t *change)
{
    bool                another;
    sel_zone_t         *zone;
    sel_zone_header_t  *header;

    zone = change->zone;
    header = zone->header;

    if (sel_change_makes_partition(change)
        && header->partitions >= zone->n_partition_buckets / 2
        && header->idle.oldest != SEL_CHUNK_NONE)
    {
        sel_zone_partition_drop(zone);
    }

    sel_zone_room_make(zone, change->need);

    while (change->need > sel_zone_chunks_free(zone)
           && sel_change_makes_partition(change)
           && header->idle.oldest != SEL_CHUNK_NONE)
    {
        sel_zone_partition_drop(zone);
    }

    another = change->in->state == SEL_WORKER_GONE
              && (change->old == NULL || change->old->gone == 0);

    while ((another && header->n_tombs == SEL_TOMBS)
           || change->need > sel_zone_chunks_free(zone))
    {
        if (change->old == sel_zone_worker(zone, header->tombs[0])) {
            change->old = NULL;
        }

        sel_zone_tomb_drop(zone);
    }
}


static void
sel_change_perform(sel_change_t *change)
{
    change->version = sel_catalog_version(change->zone) + 1;

    sel_change_make_room(change);

    if (change->in->state == SEL_WORKER_GONE && change->old != NULL) {
        sel_zone_worker_bury(change->zone, change->old, change->version);

    } else {
        sel_change_publish(change);
    }

    atomic_store_explicit(&change->zone->header->catalog_version,
                          change->version, memory_order_release);
    SEL_ZONE_STEP();
}


static void
sel_change_publish(sel_change_t *change)
{
    sel_zone_t          *zone;
    sel_worker_chunk_t  *worker;

    zone = change->zone;

    if (sel_change_makes_partition(change)) {
        change->owner.partition = sel_zone_partition_make(zone, change->wanted,
                                                          change->hash);
    }

    worker = sel_change_record(change);

    sel_chunk_set_tag(&worker->head, SEL_CHUNK_WORKER);
    SEL_ZONE_STEP();

    sel_zone_worker_link(zone, worker);

    if (change->old != NULL) {
        sel_zone_worker_retire(zone, change->old);
    }
}


/* The partition that the worker is in. */

static uint32_t
sel_change_partition(const sel_change_t *change)
{
    return change->in->state == SEL_WORKER_SCHEDULABLE
           ? change->owner.partition : 0;
}


/* The new record, whole but for its tag. */

static sel_worker_chunk_t *
sel_change_record(sel_change_t *change)
{
    sel_zone_t          *zone;
    sel_worker_chunk_t  *worker;

    zone = change->zone;
    worker = sel_zone_worker(zone, sel_zone_chunk_take(zone));

    worker->worker_id = change->in->worker_id;
    worker->written = change->version;
    worker->gone = change->in->state == SEL_WORKER_GONE ? change->version : 0;
    worker->state = change->in->state;
    worker->partition = sel_change_partition(change);
    worker->n_ranks = change->n_ranks;
    worker->ranks = sel_change_ranks(change);
    worker->address = 0;

    worker->blob_len = change->blob.len;
    worker->blob = sel_zone_chain_write(zone, change->blob.data,
                                        change->blob.len);
    SEL_ZONE_STEP();

    return worker;
}


static uint32_t
sel_change_ranks(sel_change_t *change)
{
    uint32_t           i, ranks;
    sel_rank_slot_t   *rank;
    sel_rank_walk_t    walk;
    sel_rank_entry_t  *entry;

    ranks = sel_zone_chain_make(change->zone,
                                change->n_ranks * sizeof(sel_rank_entry_t),
                                SEL_RANKS_A_CHUNK * sizeof(sel_rank_entry_t));
    walk = sel_rank_walk(ranks);

    for (i = 0; i < change->n_ranks; i++) {
        rank = &change->in->ranks[i];
        entry = sel_rank_next(change->zone, &walk);

        sel_zone_slot_assign(change->zone, &change->owner, rank);

        entry->dp_rank = rank->dp_rank;
        entry->feed = rank->feed;
        entry->slot = rank->slot;
        entry->zero = 0;
        SEL_ZONE_STEP();
    }

    return ranks;
}
