/*
 * Rank slots.  The table has no primary fields but epoch and feed.  The epoch
 * only grows: when a slot is retired, so that books and views know at once,
 * and when it is given out, so that the pair of index and epoch is new before
 * any record names it, whatever a death has left undone.  The feed that
 * counts is that of the record, since it must change with the record; the
 * table has it too, to go on from when the slot has another rank.
 *
 * Slots come back to the end of a queue: the longer a slot rests, the likelier
 * all processes have swept what they knew of its former rank.
 */

#include "state/sel_books_impl.h"


static sel_slot_t *sel_slot_kept(sel_zone_t *zone,
    const sel_slot_owner_t *owner, const sel_rank_slot_t *rank,
    sel_slot_use_t use);
static uint16_t sel_slot_take(sel_zone_t *zone, const sel_slot_owner_t *owner,
    uint32_t dp_rank);


sel_rank_entry_t *
sel_rank_next(const sel_zone_t *zone, sel_rank_walk_t *walk)
{
    sel_chunk_t       *chunk;
    sel_rank_entry_t  *rank;

    if (walk->chunk == SEL_CHUNK_NONE) {
        return NULL;
    }

    chunk = sel_zone_chunk(zone, walk->chunk);
    rank = (sel_rank_entry_t *) (sel_chunk_data(chunk) + walk->pos);

    walk->pos += sizeof(sel_rank_entry_t);

    if (walk->pos + sizeof(sel_rank_entry_t) > chunk->count) {
        walk->chunk = chunk->next;
        walk->pos = 0;
    }

    return rank;
}


uint32_t
sel_zone_slots_mark(sel_zone_t *zone, const sel_slot_owner_t *owner,
    const sel_rank_slot_t *ranks, uint32_t n)
{
    uint32_t     i, needed;
    sel_slot_t  *slot;

    needed = 0;

    for (i = 0; i < n; i++) {
        slot = sel_slot_kept(zone, owner, &ranks[i], SEL_SLOT_USED);

        if (slot == NULL) {
            needed++;
            continue;
        }

        slot->used = SEL_SLOT_KEPT;
        SEL_ZONE_STEP();
    }

    return needed;
}


void
sel_zone_slots_unmark(sel_zone_t *zone, const sel_slot_owner_t *owner,
    const sel_rank_slot_t *ranks, uint32_t n)
{
    uint32_t     i;
    sel_slot_t  *slot;

    for (i = 0; i < n; i++) {
        slot = sel_slot_kept(zone, owner, &ranks[i], SEL_SLOT_KEPT);

        if (slot != NULL) {
            slot->used = SEL_SLOT_USED;
        }
    }
}


/* The slot that a rank asks to keep, if it is this rank's to keep. */

static sel_slot_t *
sel_slot_kept(sel_zone_t *zone, const sel_slot_owner_t *owner,
    const sel_rank_slot_t *rank, sel_slot_use_t use)
{
    sel_slot_t  *slot;

    if (rank->slot >= zone->header->slot_high) {
        return NULL;
    }

    slot = &zone->slots[rank->slot];

    if (slot->used != use
        || slot->worker_id != owner->worker_id
        || slot->partition != owner->partition
        || slot->dp_rank != rank->dp_rank)
    {
        return NULL;
    }

    return slot;
}


void
sel_zone_slot_assign(sel_zone_t *zone, const sel_slot_owner_t *owner,
    sel_rank_slot_t *rank)
{
    sel_slot_t  *slot;

    slot = sel_slot_kept(zone, owner, rank, SEL_SLOT_KEPT);

    if (slot == NULL) {
        rank->slot = sel_slot_take(zone, owner, rank->dp_rank);
        slot = &zone->slots[rank->slot];

    } else {
        slot->used = SEL_SLOT_CARRIED;
        SEL_ZONE_STEP();

        if (rank->new_feed) {
            sel_zone_set(&slot->feed, slot->feed + 1);
            SEL_ZONE_STEP();
        }
    }

    rank->epoch = slot->epoch;
    rank->feed = slot->feed;
}


/* Gives out a free slot: next epoch, next feed.  There must be one. */

static uint16_t
sel_slot_take(sel_zone_t *zone, const sel_slot_owner_t *owner,
    uint32_t dp_rank)
{
    uint32_t            number;
    sel_slot_t         *slot;
    sel_zone_header_t  *header;

    header = zone->header;
    number = header->slot_free_first;

    if (number != SEL_SLOT_NONE) {
        slot = &zone->slots[number];

        header->slot_free_first = slot->next_free;
        SEL_ZONE_STEP();

        if (header->slot_free_first == SEL_SLOT_NONE) {
            header->slot_free_last = SEL_SLOT_NONE;
            SEL_ZONE_STEP();
        }

    } else {
        number = header->slot_high;
        slot = &zone->slots[number];

        sel_zone_set(&header->slot_high, number + 1);
        SEL_ZONE_STEP();
    }

    sel_zone_set(&slot->epoch, slot->epoch + 1);
    SEL_ZONE_STEP();
    sel_zone_set(&slot->feed, slot->feed + 1);
    SEL_ZONE_STEP();

    slot->worker_id = owner->worker_id;
    slot->dp_rank = dp_rank;
    slot->partition = owner->partition;
    slot->used = SEL_SLOT_USED;
    SEL_ZONE_STEP();

    header->slots_used++;
    SEL_ZONE_STEP();

    return (uint16_t) number;
}


void
sel_zone_slot_give(sel_zone_t *zone, uint16_t number)
{
    sel_slot_t         *slot;
    sel_zone_header_t  *header;

    header = zone->header;
    slot = &zone->slots[number];

    sel_zone_set(&slot->epoch, slot->epoch + 1);
    SEL_ZONE_STEP();

    slot->used = SEL_SLOT_FREE;
    slot->next_free = SEL_SLOT_NONE;
    SEL_ZONE_STEP();

    if (header->slot_free_last == SEL_SLOT_NONE) {
        header->slot_free_first = number;

    } else {
        zone->slots[header->slot_free_last].next_free = number;
    }

    SEL_ZONE_STEP();
    header->slot_free_last = number;
    SEL_ZONE_STEP();
}


void
sel_zone_slots_release(sel_zone_t *zone, const sel_worker_chunk_t *worker)
{
    sel_slot_t        *slot;
    sel_rank_walk_t    walk;
    sel_rank_entry_t  *rank;

    walk = sel_rank_walk(worker->ranks);

    while ((rank = sel_rank_next(zone, &walk)) != NULL) {
        slot = &zone->slots[rank->slot];

        if (slot->used == SEL_SLOT_CARRIED) {
            slot->used = SEL_SLOT_USED;
            SEL_ZONE_STEP();
            continue;
        }

        sel_bookings_drop(zone, rank->slot);

        zone->header->slots_used--;
        SEL_ZONE_STEP();
        sel_zone_slot_give(zone, rank->slot);
    }
}
