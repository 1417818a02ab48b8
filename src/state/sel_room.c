/*
 * Room: what gives way when the zone is full.  Bindings that no live booking
 * holds are the cheapest to lose: their next request may find its blocks all
 * the same.  Then come pending selections, which somebody may ask for.
 */

#include "state/sel_pending_impl.h"
#include "state/sel_session_impl.h"


bool
sel_zone_room(sel_zone_t *zone, uint64_t n)
{
    if (n > sel_zone_room_most(zone)) {
        return false;
    }

    sel_zone_room_make(zone, n);

    return true;
}


void
sel_zone_room_make(sel_zone_t *zone, uint64_t n)
{
    sel_zone_header_t  *header;

    header = zone->header;

    while (n > sel_zone_chunks_free(zone) && header->sessions_idle != 0) {
        sel_zone_session_idle_end(zone, SEL_COUNT_SESSION_NO_ROOM);
    }

    while (n > sel_zone_chunks_free(zone) && header->pending != 0) {
        sel_zone_pending_drop(zone, SEL_COUNT_PENDING_NO_ROOM);
    }
}


uint64_t
sel_zone_room_most(const sel_zone_t *zone)
{
    return (uint64_t) sel_zone_chunks_free(zone) + zone->header->pending_chunks
           + zone->header->session_chunks;
}
