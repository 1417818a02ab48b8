/*
 * Records of bookings: the table by id, the list by age, the lists of the
 * slots, and the sums of the slots.
 *
 * The list by age is in the order of the times that bookings were made with.
 * They come almost in this order: a process reads the clock before it has the
 * lock.  So a new one finds its place after a few steps.
 */

#include "core/sel_hash.h"
#include "state/sel_session_impl.h"


static bool sel_booking_younger(const sel_booking_chunk_t *a,
    const sel_booking_chunk_t *b);
static void sel_booking_age(sel_zone_t *zone, sel_booking_chunk_t *booking);
static void sel_booking_renew(sel_zone_t *zone, sel_booking_chunk_t *booking,
    uint64_t before);
static void sel_booking_unage(sel_zone_t *zone,
    const sel_booking_chunk_t *booking);
static void sel_booking_join(sel_zone_t *zone, sel_booking_chunk_t *booking);
static void sel_booking_leave(sel_zone_t *zone,
    const sel_booking_chunk_t *booking);
static uint32_t *sel_booking_routed(const sel_zone_t *zone,
    const sel_booking_chunk_t *booking);


uint64_t
sel_booking_hash(sel_str_t id)
{
    return sel_hash_bytes(id.data, id.len, 0);
}


sel_booking_chunk_t *
sel_booking_find(const sel_zone_t *zone, uint64_t hash, sel_str_t id)
{
    uint32_t              number;
    sel_booking_chunk_t  *booking;

    number = *sel_zone_id_bucket(zone, hash);

    while (number != SEL_CHUNK_NONE) {
        booking = sel_zone_booking(zone, number);
        number = booking->id_next;

        if (booking->hash == hash
            && sel_zone_id_equal(zone, id, booking->id_len, booking->id,
                                 booking->id_chain))
        {
            return booking;
        }
    }

    return NULL;
}


uint64_t
sel_booking_need(const sel_booking_t *in)
{
    return 1 + (uint64_t) sel_keys_need(in->n_blocks)
           + sel_zone_id_need(in->id.len, SEL_BOOKING_ID);
}


sel_booking_chunk_t *
sel_booking_make(sel_zone_t *zone, const sel_booking_t *in, uint64_t hash,
    uint16_t slot, uint32_t epoch)
{
    uint32_t              last;
    sel_path_t            path;
    sel_booking_chunk_t  *booking;

    booking = sel_zone_booking(zone, sel_zone_chunk_take(zone));

    memset((uint8_t *) booking + sizeof(sel_chunk_t), 0,
           offsetof(sel_booking_chunk_t, id) - sizeof(sel_chunk_t));

    booking->hash = hash;
    booking->attempt = ++zone->header->attempts;
    booking->started = in->now;
    booking->prefill = in->prefill_tokens < SEL_BOOK_MAX_PREFILL
                       ? in->prefill_tokens : SEL_BOOK_MAX_PREFILL;
    booking->partition = in->partition;
    booking->epoch = epoch;
    booking->proc = in->proc;
    booking->expected = in->expected_output_tokens;
    booking->slot = slot;
    booking->kind = (uint8_t) in->kind;
    booking->id_len = (uint32_t) in->id.len;
    SEL_ZONE_STEP();

    booking->id_chain = sel_zone_id_write(zone, in->id, booking->id,
                                          SEL_BOOKING_ID);

    path = (sel_path_t) { in->path, SEL_CHUNK_NONE, 0 };
    booking->n_blocks = in->n_blocks;
    booking->path = sel_keys_write(zone, path, 0, in->n_blocks, &last);
    SEL_ZONE_STEP();

    return booking;
}


void
sel_booking_link(sel_zone_t *zone, sel_booking_chunk_t *booking)
{
    sel_slot_t           *slot;
    sel_session_chunk_t  *session;

    sel_bucket_insert(zone, sel_zone_id_bucket(zone, booking->hash),
                      &booking->id_next);

    sel_booking_age(zone, booking);
    sel_booking_join(zone, booking);

    session = sel_zone_session_held(zone, booking);

    if (session != NULL) {
        sel_zone_session_hold(zone, session);
    }

    slot = &zone->slots[booking->slot];

    slot->requests++;
    slot->prefill += booking->prefill;
    slot->blocks += sel_booking_output_weight(zone, booking);
    SEL_ZONE_STEP();
}


void
sel_booking_end(sel_zone_t *zone, sel_booking_chunk_t *booking)
{
    sel_slot_t           *slot;
    sel_session_chunk_t  *session;

    session = sel_zone_session_held(zone, booking);


    if (session != NULL) {
        sel_zone_session_touch(session);
    }

    sel_chunk_set_tag(&booking->head, SEL_CHUNK_FREE);
    SEL_ZONE_STEP();

    sel_bucket_remove(zone, sel_zone_id_bucket(zone, booking->hash),
                      &booking->id_next);

    sel_booking_unage(zone, booking);
    sel_booking_leave(zone, booking);
    sel_tree_remove(zone, booking->leaf, booking->slot);

    if (session != NULL) {
        sel_zone_session_drop(zone, session);
    }

    slot = &zone->slots[booking->slot];

    slot->requests--;
    slot->prefill -= booking->prefill;
    slot->blocks -= sel_booking_output_weight(zone, booking);
    SEL_ZONE_STEP();

    if (slot->requests == 0) {
        slot->prefill = 0;
        slot->blocks = 0;
    }

    sel_zone_chain_give(zone, booking->path);
    sel_zone_chain_give(zone, booking->id_chain);
    sel_zone_chain_give(zone, booking->life);
    sel_zone_chain_give(zone, sel_zone_chunk_number(zone, booking));
}


static bool
sel_booking_younger(const sel_booking_chunk_t *a, const sel_booking_chunk_t *b)
{
    return a->started != b->started ? a->started > b->started
                                    : a->attempt > b->attempt;
}


static void
sel_booking_age(sel_zone_t *zone, sel_booking_chunk_t *booking)
{
    uint32_t              older;
    sel_zone_header_t    *header;
    sel_booking_chunk_t  *other;

    header = zone->header;
    older = header->booking_list.newest;

    while (older != SEL_CHUNK_NONE) {
        other = sel_zone_booking(zone, older);

        if (!sel_booking_younger(other, booking)) {
            break;
        }

        older = other->order.older;
    }

    sel_list_insert(zone, &header->booking_list, older, &booking->order);

    header->bookings++;
}


static void
sel_booking_unage(sel_zone_t *zone, const sel_booking_chunk_t *booking)
{
    sel_zone_header_t  *header;

    header = zone->header;

    sel_list_remove(zone, &header->booking_list, &booking->order);

    header->bookings--;
}


/* The slot's list, and the count of what a process serves. */

static void
sel_booking_join(sel_zone_t *zone, sel_booking_chunk_t *booking)
{
    uint32_t     number, *routed;
    sel_slot_t  *slot;

    slot = &zone->slots[booking->slot];
    number = sel_zone_chunk_number(zone, booking);

    booking->slot_newer = SEL_CHUNK_NONE;
    booking->slot_older = slot->bookings;
    SEL_ZONE_STEP();

    if (slot->bookings != SEL_CHUNK_NONE) {
        sel_zone_booking(zone, slot->bookings)->slot_newer = number;
    }

    SEL_ZONE_STEP();
    slot->bookings = number;
    SEL_ZONE_STEP();

    routed = sel_booking_routed(zone, booking);

    if (routed != NULL) {
        (*routed)++;
    }
}


static void
sel_booking_leave(sel_zone_t *zone, const sel_booking_chunk_t *booking)
{
    uint32_t  *routed;

    if (booking->slot_newer == SEL_CHUNK_NONE) {
        zone->slots[booking->slot].bookings = booking->slot_older;

    } else {
        sel_zone_booking(zone, booking->slot_newer)->slot_older =
                                                         booking->slot_older;
    }

    SEL_ZONE_STEP();

    if (booking->slot_older != SEL_CHUNK_NONE) {
        sel_zone_booking(zone, booking->slot_older)->slot_newer =
                                                         booking->slot_newer;
    }

    SEL_ZONE_STEP();

    routed = sel_booking_routed(zone, booking);

    if (routed != NULL) {
        (*routed)--;
    }
}


static uint32_t *
sel_booking_routed(const sel_zone_t *zone, const sel_booking_chunk_t *booking)
{
    if (booking->kind != SEL_BOOKING_ROUTER
        || booking->proc >= SEL_ZONE_PROCS)
    {
        return NULL;
    }

    return &zone->procs[booking->proc].routed;
}


void
sel_bookings_drop(sel_zone_t *zone, uint16_t slot)
{
    while (zone->slots[slot].bookings != SEL_CHUNK_NONE) {
        sel_booking_end(zone,
                        sel_zone_booking(zone, zone->slots[slot].bookings));
        sel_count(zone, SEL_COUNT_BOOKING_RANK_GONE, 1);
    }
}


uint32_t
sel_bookings_expire(sel_zone_t *zone, uint64_t before, uint32_t max)
{
    uint32_t              n;
    sel_booking_chunk_t  *booking;

    for (n = 0; n < max && zone->header->bookings != 0; n++) {
        booking = sel_zone_booking(zone, zone->header->booking_list.oldest);

        if (booking->started >= before) {
            break;
        }

        if (booking->kind == SEL_BOOKING_ROUTER) {
            sel_booking_renew(zone, booking, before);
            continue;
        }

        sel_booking_end(zone, booking);
        sel_count(zone, SEL_COUNT_BOOKING_EXPIRED, 1);
    }

    return n;
}


/*
 * Whoever serves a request ends its booking, however long it takes; so this
 * one becomes young again.
 */

static void
sel_booking_renew(sel_zone_t *zone, sel_booking_chunk_t *booking,
    uint64_t before)
{
    uint64_t  age;

    age = zone->header->expiry;

    sel_booking_unage(zone, booking);
    SEL_ZONE_STEP();
    booking->started = before + (age != 0 ? age : 1);
    SEL_ZONE_STEP();
    sel_booking_age(zone, booking);
}


uint32_t
sel_bookings_bury(sel_zone_t *zone, uint32_t proc)
{
    uint32_t              n, number;
    sel_booking_chunk_t  *booking;

    if (proc >= SEL_ZONE_PROCS) {
        return 0;
    }

    number = zone->header->booking_list.oldest;

    for (n = 0; zone->procs[proc].routed != 0; /* void */ ) {
        booking = sel_zone_booking(zone, number);
        number = booking->order.newer;

        if (booking->kind == SEL_BOOKING_ROUTER && booking->proc == proc) {
            sel_booking_end(zone, booking);
            sel_count(zone, SEL_COUNT_BOOKING_OWNER_DIED, 1);
            n++;
        }
    }

    return n;
}
