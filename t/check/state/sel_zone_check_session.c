/*
 * Verification of a zone: bindings of sessions.
 */

#include "state/sel_zone_check_impl.h"


static const char *sel_check_session_table(sel_zone_t *zone,
    uint32_t records);
static const char *sel_check_session_order(sel_zone_t *zone);
static const char *sel_check_session_leases(sel_zone_t *zone);
static const char *sel_check_session_partitions(sel_zone_t *zone);
static uint32_t sel_check_session_count(const sel_zone_t *zone,
    uint32_t partition);


const char *
sel_zone_check_sessions(sel_zone_t *zone)
{
    uint32_t     records;
    const char  *wrong;

    records = sel_check_count(zone, SEL_CHUNK_SESSION);

    if (records != zone->header->sessions) {
        return "the count of sessions is wrong";
    }

    if ((wrong = sel_check_session_table(zone, records)) != NULL
        || (wrong = sel_check_session_order(zone)) != NULL
        || (wrong = sel_check_session_leases(zone)) != NULL)
    {
        return wrong;
    }

    return sel_check_session_partitions(zone);
}


static const char *
sel_check_session_table(sel_zone_t *zone, uint32_t records)
{
    uint32_t              i, n, number;
    sel_str_t             id;
    sel_session_chunk_t  *session;

    n = 0;

    for (i = 0; i < zone->n_book_buckets; i++) {

        for (number = zone->session_buckets[i]; number != SEL_CHUNK_NONE;
             number = session->bucket_next)
        {
            session = sel_zone_session(zone, number);

            if (n++ == records
                || !sel_check_is(zone, number, SEL_CHUNK_SESSION)
                || sel_zone_session_bucket(zone, session->hash)
                   != &zone->session_buckets[i])
            {
                return "the table of sessions holds something else";
            }

            id = (sel_str_t) { session->id_len, session->id };

            if (id.len <= SEL_SESSION_ID
                && sel_zone_session_find(zone, session->hash,
                                         session->partition, id) != session)
            {
                return "a session has two bindings";
            }
        }
    }

    return n == records ? NULL : "a session is not in the table";
}


/* Idle ones, by since when. */

static const char *
sel_check_session_order(sel_zone_t *zone)
{
    uint32_t              n, number, older;
    uint64_t              since, chunks;
    sel_session_chunk_t  *session;

    n = 0;
    older = SEL_CHUNK_NONE;
    since = 0;
    chunks = 0;

    for (number = zone->header->session_list.oldest; number != SEL_CHUNK_NONE;
         number = session->idle.newer)
    {
        session = sel_zone_session(zone, number);

        if (n++ == zone->header->sessions_idle
            || !sel_check_is(zone, number, SEL_CHUNK_SESSION)
            || session->idle.older != older || session->leases != 0
            || session->since < since)
        {
            return "the order of idle sessions is another";
        }

        older = number;
        since = session->since;
        chunks += 1 + (session->id_len > SEL_SESSION_ID
                       ? sel_zone_chain_need(session->id_len) : 0);
    }

    if (n != zone->header->sessions_idle
        || zone->header->session_list.newest != older)
    {
        return "an idle session is not in the order";
    }

    return chunks == zone->header->session_chunks
           ? NULL : "the sum of idle sessions' chunks is wrong";
}


/* Leases are what bookings hold; who has none is idle. */

static const char *
sel_check_session_leases(sel_zone_t *zone)
{
    uint32_t              number, held, sum, idle;
    sel_chunk_t          *chunk;
    sel_session_chunk_t  *session;

    held = 0;
    sum = 0;
    idle = 0;

    for (number = 1; number <= zone->header->chunk_high;
         number += sel_chunk_span(chunk))
    {
        chunk = sel_zone_chunk(zone, number);

        if (sel_chunk_tag(chunk) == SEL_CHUNK_BOOKING) {
            held += sel_zone_session_held(zone, (sel_booking_chunk_t *) chunk)
                    != NULL;
        }

        if (sel_chunk_tag(chunk) == SEL_CHUNK_SESSION_ENDED) {
            session = (sel_session_chunk_t *) chunk;
            sum += session->leases;

            if (session->leases == 0) {
                return "an ended session stays for nobody";
            }
        }

        if (sel_chunk_tag(chunk) == SEL_CHUNK_SESSION) {
            session = (sel_session_chunk_t *) chunk;
            sum += session->leases;
            idle += session->leases == 0;

            if (session->revision == 0
                || session->revision > zone->header->attempts
                || session->id_len > SEL_SESSION_MAX_ID)
            {
                return "a session says what cannot be";
            }
        }
    }

    if (idle != zone->header->sessions_idle) {
        return "the count of idle sessions is wrong";
    }

    return held == sum ? NULL : "sessions have other leases than are held";
}


static const char *
sel_check_session_partitions(sel_zone_t *zone)
{
    uint32_t                      i, number;
    const sel_partition_chunk_t  *partition;

    for (i = 0; i < zone->n_partition_buckets; i++) {

        for (number = zone->partition_buckets[i]; number != SEL_CHUNK_NONE;
             number = partition->name_next)
        {
            partition = sel_zone_partition(zone, number);

            if (partition->sessions
                != sel_check_session_count(zone, partition->number))
            {
                return "a partition's count of sessions is wrong";
            }
        }
    }

    return NULL;
}


static uint32_t
sel_check_session_count(const sel_zone_t *zone, uint32_t partition)
{
    uint32_t              i, n, number;
    sel_session_chunk_t  *session;

    n = 0;

    for (i = 0; i < zone->n_book_buckets && zone->header->sessions != 0; i++) {

        for (number = zone->session_buckets[i]; number != SEL_CHUNK_NONE;
             number = session->bucket_next)
        {
            session = sel_zone_session(zone, number);
            n += session->partition == partition;
        }
    }

    return n;
}
