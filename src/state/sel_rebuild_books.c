/*
 * The rebuild of the books: tables and lists, and the prefix tree by booking
 * everything again.  The order does not matter to the loads, since lives
 * repeat what blocks weigh.  So the tree is made slot by slot: then a search
 * for a rank's cell is short, however many ranks share a prompt.
 *
 * The tree needs no more chunks than the one that was there: its edges are
 * cut where those were cut, at most.  Should chunks be missing all the same,
 * what gives way goes (sel_room.c), and then bookings.
 */

#include "state/sel_pending_impl.h"
#include "state/sel_rebuild_impl.h"
#include "state/sel_session_impl.h"


static bool sel_rebuild_first_booking(const sel_zone_t *zone, uint32_t a,
    uint32_t b);
static bool sel_rebuild_first_pending(const sel_zone_t *zone, uint32_t a,
    uint32_t b);
static bool sel_rebuild_first_session(const sel_zone_t *zone, uint32_t a,
    uint32_t b);
static void sel_rebuild_note(sel_zone_t *zone, sel_list_t *list,
    sel_links_t *links);
static void sel_rebuild_link_pending(sel_zone_t *zone);
static uint32_t sel_rebuild_link_sessions(sel_zone_t *zone);
static void sel_rebuild_give_sessions(sel_zone_t *zone, uint32_t number);
static void sel_rebuild_link_bookings(sel_zone_t *zone);
static void sel_rebuild_tree(sel_zone_t *zone);
static bool sel_rebuild_book(sel_zone_t *zone, sel_booking_chunk_t *booking);


static const sel_order_t  sel_rebuild_booking_order = {
    offsetof(sel_booking_chunk_t, order.newer), sel_rebuild_first_booking
};

static const sel_order_t  sel_rebuild_pending_order = {
    offsetof(sel_pending_chunk_t, order.newer), sel_rebuild_first_pending
};

static const sel_order_t  sel_rebuild_session_order = {
    offsetof(sel_session_chunk_t, idle.newer), sel_rebuild_first_session
};


void
sel_rebuild_books_reset(sel_zone_t *zone)
{
    size_t              size;
    uint32_t            i;
    sel_slot_t         *slot;
    sel_zone_header_t  *header;

    header = zone->header;

    header->bookings = 0;
    header->booking_list = SEL_LIST_EMPTY;
    header->edges = 0;
    header->pending = 0;
    header->pending_list = SEL_LIST_EMPTY;
    header->pending_chunks = 0;
    header->pending_size = 0;
    header->sessions = 0;
    header->sessions_idle = 0;
    header->session_list = SEL_LIST_EMPTY;
    header->session_chunks = 0;
    SEL_ZONE_STEP();

    size = zone->n_book_buckets * sizeof(uint32_t);

    memset(zone->id_buckets, 0, size);
    memset(zone->edge_buckets, 0, size);
    memset(zone->pending_buckets, 0, size);
    memset(zone->session_buckets, 0, size);
    SEL_ZONE_STEP();

    for (i = 0; i < header->slot_high; i++) {
        slot = &zone->slots[i];

        slot->requests = 0;
        slot->prefill = 0;
        slot->blocks = 0;
        slot->bookings = SEL_CHUNK_NONE;
    }

    SEL_ZONE_STEP();

    for (i = 0; i < SEL_ZONE_PROCS; i++) {
        zone->procs[i].routed = 0;
    }
}


void
sel_rebuild_booking(sel_zone_t *zone, uint32_t number)
{
    sel_rebuild_note(zone, &zone->header->booking_list,
                     &sel_zone_booking(zone, number)->order);
}


void
sel_rebuild_pending(sel_zone_t *zone, uint32_t number)
{
    sel_rebuild_note(zone, &zone->header->pending_list,
                     &sel_zone_pending(zone, number)->order);
}


void
sel_rebuild_session(sel_zone_t *zone, uint32_t number)
{
    sel_rebuild_note(zone, &zone->header->session_list,
                     &sel_zone_session(zone, number)->idle);
}


/* Lists a record in front of the others, in no order yet. */

static void
sel_rebuild_note(sel_zone_t *zone, sel_list_t *list, sel_links_t *links)
{
    links->newer = list->oldest;
    SEL_ZONE_STEP();
    list->oldest = sel_zone_chunk_number(zone, links);
    SEL_ZONE_STEP();
}


void
sel_rebuild_books_use(sel_zone_t *zone)
{
    uint32_t              number, *link;
    sel_slot_t           *slot;
    sel_booking_chunk_t  *booking;
    sel_pending_chunk_t  *pending;
    sel_session_chunk_t  *session;

    link = &zone->header->booking_list.oldest;

    while (*link != SEL_CHUNK_NONE) {
        booking = sel_zone_booking(zone, *link);
        slot = &zone->slots[booking->slot];

        if (slot->used == SEL_SLOT_FREE || slot->epoch != booking->epoch) {
            session = sel_zone_session_held(zone, booking);

            if (session != NULL) {
                sel_zone_session_touch(session);
            }

            sel_chunk_set_tag(&booking->head, SEL_CHUNK_FREE);
            SEL_ZONE_STEP();
            *link = booking->order.newer;
            sel_count(zone, SEL_COUNT_BOOKING_RANK_GONE, 1);
            continue;
        }

        sel_rebuild_chain(zone, booking->path, SEL_CHUNK_KEYS);
        sel_rebuild_chain(zone, booking->id_chain, SEL_CHUNK_BYTES);
        sel_rebuild_chain(zone, booking->life, SEL_CHUNK_LIFE);

        link = &booking->order.newer;
    }

    for (number = zone->header->pending_list.oldest; number != SEL_CHUNK_NONE;
         number = pending->order.newer)
    {
        pending = sel_zone_pending(zone, number);

        sel_rebuild_chain(zone, pending->sequence, SEL_CHUNK_KEYS);
        sel_rebuild_chain(zone, pending->hashes, SEL_CHUNK_KEYS);
        sel_rebuild_chain(zone, pending->id_chain, SEL_CHUNK_BYTES);
        sel_rebuild_chain(zone, pending->texts, SEL_CHUNK_BYTES);
    }

    for (number = zone->header->session_list.oldest; number != SEL_CHUNK_NONE;
         number = session->idle.newer)
    {
        session = sel_zone_session(zone, number);
        sel_rebuild_chain(zone, session->id_chain, SEL_CHUNK_BYTES);
    }
}


void
sel_rebuild_books(sel_zone_t *zone)
{
    uint32_t  ended;

    sel_rebuild_link_pending(zone);
    ended = sel_rebuild_link_sessions(zone);
    sel_rebuild_link_bookings(zone);
    sel_rebuild_give_sessions(zone, ended);
    sel_rebuild_tree(zone);
}


static void
sel_rebuild_link_pending(sel_zone_t *zone)
{
    uint32_t              number, next;
    sel_zone_header_t    *header;
    sel_pending_chunk_t  *pending;

    header = zone->header;

    number = sel_zone_sort(zone, header->pending_list.oldest,
                           &sel_rebuild_pending_order);
    header->pending_list.oldest = SEL_CHUNK_NONE;

    for ( /* void */ ; number != SEL_CHUNK_NONE; number = next) {
        pending = sel_zone_pending(zone, number);
        next = pending->order.newer;
        sel_zone_pending_link(zone, pending);
    }
}


/* Nobody holds them until the bookings are linked.  Returns a list of those
   that have ended. */

static uint32_t
sel_rebuild_link_sessions(sel_zone_t *zone)
{
    uint32_t              number, next, ended;
    sel_zone_header_t    *header;
    sel_session_chunk_t  *session;

    header = zone->header;

    number = sel_zone_sort(zone, header->session_list.oldest,
                           &sel_rebuild_session_order);
    header->session_list.oldest = SEL_CHUNK_NONE;
    ended = SEL_CHUNK_NONE;

    for ( /* void */ ; number != SEL_CHUNK_NONE; number = next) {
        session = sel_zone_session(zone, number);
        next = session->idle.newer;

        if (sel_zone_session_ended(session)) {
            session->leases = 0;
            session->idle.newer = ended;
            ended = number;

        } else {
            sel_zone_session_link(zone, session);
        }
    }

    return ended;
}


static void
sel_rebuild_give_sessions(sel_zone_t *zone, uint32_t number)
{
    uint32_t              next;
    sel_session_chunk_t  *session;

    for ( /* void */ ; number != SEL_CHUNK_NONE; number = next) {
        session = sel_zone_session(zone, number);
        next = session->idle.newer;

        if (session->leases == 0) {
            sel_zone_session_give(zone, session);
        }
    }
}


static void
sel_rebuild_link_bookings(sel_zone_t *zone)
{
    uint32_t              number, next;
    sel_zone_header_t    *header;
    sel_booking_chunk_t  *booking;

    header = zone->header;

    number = sel_zone_sort(zone, header->booking_list.oldest,
                           &sel_rebuild_booking_order);
    header->booking_list.oldest = SEL_CHUNK_NONE;

    for ( /* void */ ; number != SEL_CHUNK_NONE; number = next) {
        booking = sel_zone_booking(zone, number);
        next = booking->order.newer;

        booking->leaf = SEL_CHUNK_NONE;
        sel_booking_link(zone, booking);
    }
}


static void
sel_rebuild_tree(sel_zone_t *zone)
{
    uint32_t              i, number;
    sel_booking_chunk_t  *booking;

    for (i = 0; i < zone->header->slot_high; i++) {

        for (number = zone->slots[i].bookings; number != SEL_CHUNK_NONE;
             /* void */ )
        {
            booking = sel_zone_booking(zone, number);
            number = booking->slot_older;

            if (!sel_rebuild_book(zone, booking)) {
                sel_booking_end(zone, booking);
                sel_count(zone, SEL_COUNT_BOOKING_NO_ROOM, 1);
            }
        }
    }
}


/* Books again what is in all tables and lists but the tree. */

static bool
sel_rebuild_book(sel_zone_t *zone, sel_booking_chunk_t *booking)
{
    bool         uneven;
    uint32_t     n, depth;
    sel_path_t   path;
    sel_place_t  place;

    n = booking->n_blocks;
    path = (sel_path_t) { NULL, booking->path, 0 };
    place = sel_tree_walk(zone, path, n, NULL);
    depth = sel_tree_depth(zone, &place, booking->slot);

    if (!sel_zone_room(zone, sel_tree_need(zone, &place, n, booking->slot,
                                           depth, &uneven)))
    {
        return false;
    }

    booking->leaf = sel_tree_insert(zone, &place, path, n, booking->slot,
                                    depth);

    return sel_life_restore(zone, booking);
}


static bool
sel_rebuild_first_booking(const sel_zone_t *zone, uint32_t a, uint32_t b)
{
    const sel_booking_chunk_t  *one, *two;

    one = sel_zone_booking(zone, a);
    two = sel_zone_booking(zone, b);

    return one->started != two->started ? one->started < two->started
                                        : one->attempt < two->attempt;
}


static bool
sel_rebuild_first_pending(const sel_zone_t *zone, uint32_t a, uint32_t b)
{
    return sel_zone_pending(zone, a)->generation
           < sel_zone_pending(zone, b)->generation;
}


static bool
sel_rebuild_first_session(const sel_zone_t *zone, uint32_t a, uint32_t b)
{
    return sel_zone_session(zone, a)->since
           < sel_zone_session(zone, b)->since;
}
