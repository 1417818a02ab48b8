/*
 * The books: loads as choosers see them, and how a booking is made.
 *
 * Making one is a critical section: loads are read, a rank is chosen, chunks
 * are counted, and only then the first store is made.  The record is true
 * from its tag on; the tree, which is derived, has the path already then.
 */

#include "core/sel_hash.h"
#include "state/sel_session_impl.h"


/* Between 2^20 and 2^21 a double counts in steps of 2^-32. */
#define SEL_BLOCKS_STEP  1572864.0


/* A booking under way. */
typedef struct {
    sel_booking_t          *in;
    uint64_t                hash;
    sel_path_t              path;
    sel_place_t             place;
    sel_session_plan_t      session;
    const sel_rank_load_t  *rank;       /* chosen */
    bool                    uneven;
} sel_book_plan_t;


static sel_place_t sel_books_load(const sel_zone_t *zone, sel_path_t path,
    uint32_t n_blocks, sel_rank_load_t *ranks, uint32_t n);
static void sel_rank_load(const sel_zone_t *zone, sel_rank_load_t *rank);
static sel_book_result_t sel_book_choose(sel_zone_t *zone,
    sel_book_plan_t *plan, sel_rank_load_t *ranks, uint32_t n,
    sel_choose_pt choose, void *data, uint32_t *chosen);
static sel_book_result_t sel_book_perform(sel_zone_t *zone,
    sel_book_plan_t *plan);
static void sel_book_due(sel_zone_t *zone, uint64_t now);


/* How deep a path is live on each slot.  Memory of this process, which has
   one zone, and used only inside its lock; the slots themselves would go from
   one core's cache to another's. */
static uint32_t  sel_books_depths[SEL_ZONE_MAX_SLOTS + 1];


void
sel_path_keys(uint32_t partition, const uint64_t *sequence, uint32_t n,
    uint64_t *path)
{
    uint32_t  i;
    uint64_t  key;

    key = partition;

    for (i = 0; i < n; i++) {
        key = sel_hash_chain_next(key, sequence[i], SEL_HASH_SEED);
        path[i] = key;
    }
}


uint64_t
sel_load_blocks(double blocks)
{
    uint64_t  whole;

    if (!(blocks > 0)) {
        return 0;
    }

    whole = (uint64_t) blocks;

    return whole + (blocks - (double) whole >= 0.5);
}


void
sel_books_read(sel_zone_t *zone, const uint64_t *path, uint32_t n_blocks,
    sel_rank_load_t *ranks, uint32_t n)
{
    sel_zone_lock(zone);
    (void) sel_books_load(zone, (sel_path_t) { path, SEL_CHUNK_NONE, 0 },
                          n_blocks, ranks, n);
    sel_zone_unlock(zone);
}


static sel_place_t
sel_books_load(const sel_zone_t *zone, sel_path_t path, uint32_t n_blocks,
    sel_rank_load_t *ranks, uint32_t n)
{
    uint32_t     i;
    sel_place_t  place;

    for (i = 0; i < n; i++) {
        sel_books_depths[ranks[i].slot] = 0;
        sel_rank_load(zone, &ranks[i]);
    }

    place = sel_tree_walk(zone, path, n_blocks, sel_books_depths);

    for (i = 0; i < n; i++) {
        ranks[i].depth = ranks[i].gone ? 0 : sel_books_depths[ranks[i].slot];
    }

    return place;
}


static void
sel_rank_load(const sel_zone_t *zone, sel_rank_load_t *rank)
{
    const sel_slot_t  *slot;

    rank->gone = true;
    rank->prefill_tokens = 0;
    rank->blocks = 0;
    rank->requests = 0;

    if (rank->slot >= zone->header->slot_high) {
        return;
    }

    slot = &zone->slots[rank->slot];

    if (slot->used == SEL_SLOT_FREE || slot->epoch != rank->epoch) {
        return;
    }

    rank->gone = false;
    rank->prefill_tokens = slot->prefill;
    rank->requests = slot->requests;

    /* sums of fractions depend a little on the order of additions: without
       this 0.5 could be rounded down */

    rank->blocks = slot->blocks + SEL_BLOCKS_STEP;
    rank->blocks -= SEL_BLOCKS_STEP;
}


sel_book_result_t
sel_book(sel_zone_t *zone, sel_booking_t *booking, sel_rank_load_t *ranks,
    uint32_t n, sel_choose_pt choose, void *data, uint32_t *chosen)
{
    sel_book_plan_t    plan;
    sel_book_result_t  rc;

    if (booking->id.len > SEL_BOOK_MAX_ID
        || booking->n_blocks > SEL_BOOK_MAX_BLOCKS)
    {
        return SEL_BOOK_FULL;
    }

    memset(&plan, 0, sizeof(sel_book_plan_t));

    plan.in = booking;
    plan.hash = sel_booking_hash(booking->id);
    plan.path.keys = booking->path;

    sel_zone_lock(zone);

    sel_book_due(zone, booking->now);

    rc = SEL_BOOK_TAKEN;

    if (sel_booking_find(zone, plan.hash, booking->id) == NULL) {
        rc = sel_session_plan(zone, booking, &plan.session)
             ? sel_book_choose(zone, &plan, ranks, n, choose, data, chosen)
             : SEL_BOOK_MOVED;
    }

    if (rc == SEL_BOOK_OK) {
        rc = sel_book_perform(zone, &plan);
    }

    sel_zone_unlock(zone);

    return rc;
}


static void
sel_book_due(sel_zone_t *zone, uint64_t now)
{
    uint64_t  age;

    age = zone->header->expiry;

    if (age != 0 && now > age) {
        (void) sel_bookings_expire(zone, now - age, SEL_BOOK_EXPIRES);
    }
}


static sel_book_result_t
sel_book_choose(sel_zone_t *zone, sel_book_plan_t *plan,
    sel_rank_load_t *ranks, uint32_t n, sel_choose_pt choose, void *data,
    uint32_t *chosen)
{
    uint32_t  i;

    plan->place = sel_books_load(zone, plan->path, plan->in->n_blocks, ranks,
                                 n);

    i = choose != NULL ? choose(data, plan->in, ranks, n) : 0;

    if (i >= n) {
        return SEL_BOOK_REFUSED;
    }

    *chosen = i;
    plan->rank = &ranks[i];

    return ranks[i].gone ? SEL_BOOK_GONE : SEL_BOOK_OK;
}


static sel_book_result_t
sel_book_perform(sel_zone_t *zone, sel_book_plan_t *plan)
{
    uint64_t               need;
    const sel_rank_load_t  *rank;
    sel_booking_chunk_t    *booking;

    rank = plan->rank;

    if (!sel_session_settle(zone, plan->in, rank->slot, &plan->session)) {
        return SEL_BOOK_BOUND;
    }

    need = sel_booking_need(plan->in)
           + sel_tree_need(zone, &plan->place, plan->in->n_blocks, rank->slot,
                           rank->depth, &plan->uneven);

    if (!sel_session_room(zone, &plan->session, need + plan->uneven)) {
        return SEL_BOOK_FULL;
    }

    booking = sel_booking_make(zone, plan->in, plan->hash, rank->slot,
                               rank->epoch);

    booking->session = sel_session_bind(zone, &plan->session, booking);
    SEL_ZONE_STEP();

    booking->leaf = sel_tree_insert(zone, &plan->place, plan->path,
                                    plan->in->n_blocks, rank->slot,
                                    rank->depth);
    if (plan->uneven) {
        booking->life = sel_life_make(zone, booking->leaf, rank->slot, -1, 0,
                                      1);
    }

    sel_chunk_set_tag(&booking->head, SEL_CHUNK_BOOKING);
    SEL_ZONE_STEP();

    sel_booking_link(zone, booking);
    sel_session_leave(zone, &plan->session);
    sel_count(zone, SEL_COUNT_BOOKED, 1);

    sel_decisions_append(zone, plan->in, rank->slot, rank->epoch);

    return SEL_BOOK_OK;
}
