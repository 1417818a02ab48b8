/*
 * Records of bindings: the table by partition and id, the bookings that hold
 * them, and the order in which idle ones end.
 */

#include "core/sel_clock.h"
#include "core/sel_hash.h"
#include "state/sel_partition_impl.h"
#include "state/sel_session_impl.h"


static void sel_session_rest(sel_zone_t *zone, sel_session_chunk_t *session);
static void sel_session_wake(sel_zone_t *zone, sel_session_chunk_t *session);


/* Ids are any client's: whoever does not know the seed cannot make them fall
   into one bucket. */

uint64_t
sel_session_hash(const sel_zone_t *zone, uint32_t partition, sel_str_t id)
{
    return sel_hash_bytes(id.data, id.len, zone->header->seed + partition);
}


sel_session_chunk_t *
sel_zone_session_find(const sel_zone_t *zone, uint64_t hash,
    uint32_t partition, sel_str_t id)
{
    uint32_t              number;
    sel_session_chunk_t  *session;

    number = *sel_zone_session_bucket(zone, hash);

    while (number != SEL_CHUNK_NONE) {
        session = sel_zone_session(zone, number);
        number = session->bucket_next;

        if (session->hash == hash && session->partition == partition
            && sel_zone_id_equal(zone, id, session->id_len, session->id,
                                 session->id_chain))
        {
            return session;
        }
    }

    return NULL;
}


sel_session_chunk_t *
sel_zone_session_live(const sel_zone_t *zone, uint64_t hash,
    uint32_t partition, sel_str_t id, uint64_t now)
{
    sel_session_chunk_t  *session;

    session = sel_zone_session_find(zone, hash, partition, id);

    return session != NULL && !sel_zone_session_dead(zone, session, now)
           ? session : NULL;
}


bool
sel_zone_session_dead(const sel_zone_t *zone,
    const sel_session_chunk_t *session, uint64_t now)
{
    return session->leases == 0
           && now >= session->since + zone->header->session_ttl;
}


sel_session_chunk_t *
sel_zone_session_held(const sel_zone_t *zone,
    const sel_booking_chunk_t *booking)
{
    return booking->session != SEL_CHUNK_NONE
           ? sel_zone_session(zone, booking->session) : NULL;
}


void
sel_zone_session_touch(sel_session_chunk_t *session)
{
    __atomic_store_n(&session->since, sel_clock_ns(), __ATOMIC_RELEASE);
    SEL_ZONE_STEP();
}


void
sel_zone_session_link(sel_zone_t *zone, sel_session_chunk_t *session)
{
    sel_partition_chunk_t  *partition;

    session->leases = 0;

    sel_bucket_insert(zone, sel_zone_session_bucket(zone, session->hash),
                      &session->bucket_next);

    zone->header->sessions++;
    SEL_ZONE_STEP();

    partition = sel_zone_partition_number(zone, session->partition);

    if (partition != NULL) {
        partition->sessions++;
    }

    sel_session_rest(zone, session);
}


void
sel_zone_session_hold(sel_zone_t *zone, sel_session_chunk_t *session)
{
    if (session->leases == 0 && !sel_zone_session_ended(session)) {
        sel_session_wake(zone, session);
    }

    session->leases++;
    SEL_ZONE_STEP();
}


void
sel_zone_session_drop(sel_zone_t *zone, sel_session_chunk_t *session)
{
    session->leases--;
    SEL_ZONE_STEP();

    if (session->leases != 0) {
        return;
    }

    if (sel_zone_session_ended(session)) {
        sel_zone_session_give(zone, session);

    } else {
        sel_session_rest(zone, session);
    }
}


void
sel_zone_session_give(sel_zone_t *zone, sel_session_chunk_t *session)
{
    sel_chunk_set_tag(&session->head, SEL_CHUNK_FREE);
    SEL_ZONE_STEP();

    sel_zone_chain_give(zone, session->id_chain);
    sel_zone_chain_give(zone, sel_zone_chunk_number(zone, session));
}


void
sel_zone_session_renew(sel_zone_t *zone, sel_session_chunk_t *session)
{
    if (session->leases != 0) {
        return;
    }

    sel_session_wake(zone, session);
    sel_zone_session_touch(session);
    sel_session_rest(zone, session);
}


static void
sel_session_rest(sel_zone_t *zone, sel_session_chunk_t *session)
{
    sel_zone_header_t  *header;

    header = zone->header;

    sel_list_insert(zone, &header->session_list, header->session_list.newest,
                    &session->idle);

    header->sessions_idle++;
    header->session_chunks += sel_session_chunks(session->id_len);
    SEL_ZONE_STEP();
}


static void
sel_session_wake(sel_zone_t *zone, sel_session_chunk_t *session)
{
    sel_zone_header_t  *header;

    header = zone->header;

    sel_list_remove(zone, &header->session_list, &session->idle);

    header->sessions_idle--;
    header->session_chunks -= sel_session_chunks(session->id_len);
    SEL_ZONE_STEP();
}


void
sel_zone_session_end(sel_zone_t *zone, sel_session_chunk_t *session)
{
    sel_partition_chunk_t  *partition;

    sel_chunk_set_tag(&session->head, SEL_CHUNK_SESSION_ENDED);
    SEL_ZONE_STEP();

    sel_bucket_remove(zone, sel_zone_session_bucket(zone, session->hash),
                      &session->bucket_next);

    zone->header->sessions--;
    SEL_ZONE_STEP();

    partition = sel_zone_partition_number(zone, session->partition);

    if (partition != NULL) {
        partition->sessions--;
    }

    if (session->leases == 0) {
        sel_session_wake(zone, session);
        sel_zone_session_give(zone, session);
    }
}


void
sel_zone_session_idle_end(sel_zone_t *zone, sel_counter_t counter)
{
    uint32_t  oldest;

    oldest = zone->header->session_list.oldest;
    sel_zone_session_end(zone, sel_zone_session(zone, oldest));
    sel_count(zone, counter, 1);
}


uint32_t
sel_zone_sessions_reap(sel_zone_t *zone, uint64_t now, uint32_t max)
{
    uint32_t                    n;
    const sel_session_chunk_t  *oldest;

    for (n = 0; n < max && zone->header->sessions_idle != 0; n++) {
        oldest = sel_zone_session(zone, zone->header->session_list.oldest);

        if (!sel_zone_session_dead(zone, oldest, now)) {
            break;
        }

        sel_zone_session_idle_end(zone, SEL_COUNT_SESSION_IDLE);
    }

    return n;
}
