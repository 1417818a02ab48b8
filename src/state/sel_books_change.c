/*
 * What happens to a booking after it was made.
 */

#include "state/sel_session_impl.h"


typedef sel_book_result_t (*sel_book_change_pt)(sel_zone_t *zone,
    sel_booking_chunk_t *booking, double fraction);


static sel_book_result_t sel_book_change(sel_zone_t *zone, sel_str_t id,
    bool served, sel_book_change_pt change, double fraction);
static sel_book_result_t sel_book_no_prefill(sel_zone_t *zone,
    sel_booking_chunk_t *booking, double fraction);
static sel_book_result_t sel_book_one_output(sel_zone_t *zone,
    sel_booking_chunk_t *booking, double fraction);
static sel_book_result_t sel_book_gone(sel_zone_t *zone,
    sel_booking_chunk_t *booking, double fraction);
static sel_book_result_t sel_book_failed(sel_zone_t *zone,
    sel_booking_chunk_t *booking, double fraction);


bool
sel_booked(sel_zone_t *zone, sel_str_t id)
{
    bool      booked;
    uint64_t  hash;

    hash = sel_booking_hash(id);

    sel_zone_lock(zone);
    booked = sel_booking_find(zone, hash, id) != NULL;
    sel_zone_unlock(zone);

    return booked;
}


sel_book_result_t
sel_book_prefilled(sel_zone_t *zone, sel_str_t id)
{
    return sel_book_change(zone, id, false, sel_book_no_prefill, 0);
}


sel_book_result_t
sel_book_output(sel_zone_t *zone, sel_str_t id, double fraction)
{
    return sel_book_change(zone, id, false, sel_book_one_output, fraction);
}


sel_book_result_t
sel_book_free(sel_zone_t *zone, sel_str_t id)
{
    return sel_book_change(zone, id, false, sel_book_gone, 0);
}


sel_book_result_t
sel_served_prefilled(sel_zone_t *zone, sel_str_t id)
{
    return sel_book_change(zone, id, true, sel_book_no_prefill, 0);
}


sel_book_result_t
sel_served_output(sel_zone_t *zone, sel_str_t id)
{
    return sel_book_change(zone, id, true, sel_book_one_output, -1);
}


sel_book_result_t
sel_served_free(sel_zone_t *zone, sel_str_t id)
{
    return sel_book_change(zone, id, true, sel_book_gone, 0);
}


sel_book_result_t
sel_served_failed(sel_zone_t *zone, sel_str_t id)
{
    return sel_book_change(zone, id, true, sel_book_failed, 0);
}


/* served: a booking of kind ROUTER is meant, else one of another kind. */

static sel_book_result_t
sel_book_change(sel_zone_t *zone, sel_str_t id, bool served,
    sel_book_change_pt change, double fraction)
{
    uint64_t              hash;
    sel_book_result_t     rc;
    sel_booking_chunk_t  *booking;

    hash = sel_booking_hash(id);

    sel_zone_lock(zone);

    booking = sel_booking_find(zone, hash, id);
    rc = booking != NULL && (booking->kind == SEL_BOOKING_ROUTER) == served
         ? change(zone, booking, fraction) : SEL_BOOK_NONE;

    sel_zone_unlock(zone);

    return rc;
}


static sel_book_result_t
sel_book_no_prefill(sel_zone_t *zone, sel_booking_chunk_t *booking,
    double fraction)
{
    uint64_t  prefill;

    prefill = booking->prefill;

    __atomic_store_n(&booking->prefill, 0, __ATOMIC_RELEASE);
    SEL_ZONE_STEP();
    zone->slots[booking->slot].prefill -= prefill;
    SEL_ZONE_STEP();

    return SEL_BOOK_OK;
}


static sel_book_result_t
sel_book_one_output(sel_zone_t *zone, sel_booking_chunk_t *booking,
    double fraction)
{
    if (!(fraction >= 0)
        || (fraction >= 1 && booking->life == SEL_CHUNK_NONE))
    {
        sel_zone_set(&booking->outputs,
                     sel_booking_outputs(zone, booking) + 1);
        SEL_ZONE_STEP();
        zone->slots[booking->slot].blocks += 1;
        SEL_ZONE_STEP();

        return SEL_BOOK_OK;
    }

    return sel_life_decay(zone, booking, fraction < 1 ? fraction : 1)
           ? SEL_BOOK_OK : SEL_BOOK_FULL;
}


static sel_book_result_t
sel_book_gone(sel_zone_t *zone, sel_booking_chunk_t *booking, double fraction)
{
    sel_booking_end(zone, booking);
    sel_count(zone, SEL_COUNT_BOOKING_FREED, 1);

    return SEL_BOOK_OK;
}


static sel_book_result_t
sel_book_failed(sel_zone_t *zone, sel_booking_chunk_t *booking,
    double fraction)
{
    sel_session_chunk_t  *session;

    session = sel_zone_session_held(zone, booking);

    if (session != NULL && !sel_zone_session_ended(session)) {
        sel_zone_session_end(zone, session);
        sel_count(zone, SEL_COUNT_SESSION_FAILED, 1);
    }

    return sel_book_gone(zone, booking, fraction);
}


uint32_t
sel_books_expire(sel_zone_t *zone, uint64_t before, uint32_t max)
{
    uint32_t  n;

    sel_zone_lock(zone);
    n = sel_bookings_expire(zone, before, max);
    sel_zone_unlock(zone);

    return n;
}


void
sel_books_expiry(sel_zone_t *zone, uint64_t age)
{
    sel_zone_lock(zone);
    zone->header->expiry = age;
    sel_zone_unlock(zone);
}


uint32_t
sel_books_bury(sel_zone_t *zone, uint32_t proc)
{
    uint32_t  n;

    sel_zone_lock(zone);
    n = sel_bookings_bury(zone, proc);
    sel_zone_unlock(zone);

    return n;
}
