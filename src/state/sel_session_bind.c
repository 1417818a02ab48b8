/*
 * What a booking does to its session.
 *
 * The rank was chosen outside of the lock's section, or in it, by the binding
 * that was there before; a binding that is another by now is for the chooser
 * to see first.  So two first bookings of a session cannot both bind it.
 */

#include "core/sel_clock.h"
#include "state/sel_partition_impl.h"
#include "state/sel_session_impl.h"


static bool sel_session_full(const sel_zone_t *zone, uint32_t partition);
static sel_session_chunk_t *sel_session_make(sel_zone_t *zone,
    const sel_session_plan_t *plan, const sel_booking_chunk_t *booking);


bool
sel_session_plan(sel_zone_t *zone, const sel_booking_t *booking,
    sel_session_plan_t *plan)
{
    sel_session_chunk_t          *found;
    const sel_booking_session_t  *in;

    in = &booking->session;

    if (in->id.data == NULL) {
        return true;
    }

    (void) sel_zone_sessions_reap(zone, booking->now, SEL_SESSION_REAPS);

    plan->in = in;
    plan->hash = sel_session_hash(zone, booking->partition, in->id);

    found = sel_zone_session_find(zone, plan->hash, booking->partition,
                                  in->id);

    if (found != NULL && sel_zone_session_dead(zone, found, booking->now)) {
        plan->dead = found;

    } else {
        plan->record = found;
    }

    return in->revision == (plan->record != NULL ? plan->record->revision : 0);
}


bool
sel_session_settle(sel_zone_t *zone, const sel_booking_t *booking,
    uint16_t slot, sel_session_plan_t *plan)
{
    if (plan->in == NULL) {
        return true;
    }

    if (plan->record == NULL) {

        if (plan->dead != NULL) {
            sel_zone_session_end(zone, plan->dead);
            sel_count(zone, SEL_COUNT_SESSION_IDLE, 1);
        }

        plan->full = sel_session_full(zone, booking->partition);
        plan->binds = !plan->full;

        return true;
    }

    if (plan->record->worker_id != zone->slots[slot].worker_id
        || plan->record->dp_rank != zone->slots[slot].dp_rank)
    {
        plan->gone = !sel_session_there(zone, plan->record);

        if (!plan->in->follows && !plan->gone) {
            sel_zone_session_end(zone, plan->record);
            sel_count(zone, SEL_COUNT_SESSION_REFUSED, 1);
            return false;
        }

        plan->moves = true;
        plan->binds = true;
    }

    return true;
}


bool
sel_session_there(const sel_zone_t *zone, const sel_session_chunk_t *session)
{
    sel_rank_walk_t            walk;
    const sel_rank_entry_t    *rank;
    const sel_worker_chunk_t  *worker;

    worker = sel_zone_worker_find(zone, session->worker_id);

    if (worker == NULL || worker->partition != session->partition) {
        return false;
    }

    walk = sel_rank_walk(worker->ranks);

    while ((rank = sel_rank_next(zone, &walk)) != NULL) {
        if (rank->dp_rank == session->dp_rank) {
            return true;
        }
    }

    return false;
}


static bool
sel_session_full(const sel_zone_t *zone, uint32_t partition)
{
    const sel_partition_chunk_t  *record;

    record = sel_zone_partition_number(zone, partition);

    return record != NULL && record->sessions >= SEL_SESSION_MAX;
}


bool
sel_session_room(sel_zone_t *zone, sel_session_plan_t *plan, uint64_t need)
{
    uint64_t  chunks, more, most;

    if (plan->in == NULL) {
        return sel_zone_room(zone, need);
    }

    chunks = sel_session_chunks(plan->in->id.len);
    more = plan->binds ? chunks : 0;
    most = sel_zone_room_most(zone);

    if (plan->record != NULL && plan->record->leases == 0) {

        /* is not to be dropped for it, and has the room of what follows it */

        most -= chunks;
        more = 0;
    }

    if (need > most) {
        return false;
    }

    if (need + more > most) {
        plan->full = true;
        plan->binds = false;
        more = 0;
    }

    if (plan->record != NULL) {
        sel_zone_session_hold(zone, plan->record);
    }

    sel_zone_room_make(zone, need + more);

    return true;
}


uint32_t
sel_session_bind(sel_zone_t *zone, sel_session_plan_t *plan,
    const sel_booking_chunk_t *booking)
{
    sel_session_chunk_t  *session;

    if (plan->moves) {
        sel_zone_session_end(zone, plan->record);
        sel_zone_session_drop(zone, plan->record);
        sel_count(zone, plan->gone ? SEL_COUNT_SESSION_RANK_GONE
                                   : SEL_COUNT_SESSION_MOVED, 1);
        plan->record = NULL;
    }

    if (plan->full) {
        sel_count(zone, SEL_COUNT_SESSION_UNBOUND, 1);
    }

    session = plan->binds ? sel_session_make(zone, plan, booking)
                          : plan->record;

    return session != NULL ? sel_zone_chunk_number(zone, session)
                           : SEL_CHUNK_NONE;
}


static sel_session_chunk_t *
sel_session_make(sel_zone_t *zone, const sel_session_plan_t *plan,
    const sel_booking_chunk_t *booking)
{
    sel_str_t             id;
    sel_session_chunk_t  *session;

    id = plan->in->id;
    session = sel_zone_session(zone, sel_zone_chunk_take(zone));

    session->hash = plan->hash;
    session->revision = booking->attempt;
    session->worker_id = zone->slots[booking->slot].worker_id;
    session->since = sel_clock_ns();
    session->dp_rank = zone->slots[booking->slot].dp_rank;
    session->partition = booking->partition;
    session->id_len = (uint32_t) id.len;
    session->id_chain = sel_zone_id_write(zone, id, session->id,
                                          SEL_SESSION_ID);
    SEL_ZONE_STEP();
    sel_chunk_set_tag(&session->head, SEL_CHUNK_SESSION);
    SEL_ZONE_STEP();

    sel_zone_session_link(zone, session);
    sel_count(zone, SEL_COUNT_SESSION_BOUND, 1);

    return session;
}


void
sel_session_leave(sel_zone_t *zone, const sel_session_plan_t *plan)
{
    if (plan->record != NULL) {
        sel_zone_session_drop(zone, plan->record);
    }
}
