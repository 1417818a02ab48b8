/*
 * Verification of a zone: pending selections and the decision log.
 */

#include "state/sel_decisions.h"
#include "state/sel_zone_check_impl.h"


static const char *sel_check_pending_table(sel_zone_t *zone,
    uint32_t records);
static const char *sel_check_pending_order(sel_zone_t *zone,
    uint32_t records);
static const char *sel_check_log(const sel_zone_t *zone);


const char *
sel_zone_check_pendings(sel_zone_t *zone)
{
    uint32_t     records;
    const char  *wrong;

    records = sel_check_count(zone, SEL_CHUNK_PENDING);

    if (records != zone->header->pending) {
        return "the count of pending selections is wrong";
    }

    if ((wrong = sel_check_pending_table(zone, records)) != NULL
        || (wrong = sel_check_pending_order(zone, records)) != NULL)
    {
        return wrong;
    }

    return sel_check_log(zone);
}


static const char *
sel_check_pending_table(sel_zone_t *zone, uint32_t records)
{
    uint32_t              i, n, number;
    sel_str_t             id;
    sel_pending_chunk_t  *pending;

    n = 0;

    for (i = 0; i < zone->n_book_buckets; i++) {

        for (number = zone->pending_buckets[i]; number != SEL_CHUNK_NONE;
             number = pending->bucket_next)
        {
            pending = sel_zone_pending(zone, number);

            if (n++ == records
                || !sel_check_is(zone, number, SEL_CHUNK_PENDING)
                || sel_zone_pending_bucket(zone, pending->hash)
                   != &zone->pending_buckets[i])
            {
                return "the table of pending selections holds something else";
            }

            id = (sel_str_t) { pending->id_len, pending->id };

            if (id.len <= SEL_PENDING_ID
                && sel_zone_pending_find(zone, pending->hash,
                                         pending->partition, id) != pending)
            {
                return "two pending selections have one id";
            }
        }
    }

    return n == records ? NULL : "a pending selection is not in the table";
}


static const char *
sel_check_pending_order(sel_zone_t *zone, uint32_t records)
{
    uint32_t              n, number, older;
    uint64_t              generation, chunks, size;
    sel_pending_chunk_t  *pending;

    n = 0;
    older = SEL_CHUNK_NONE;
    generation = 0;
    chunks = 0;
    size = 0;

    for (number = zone->header->pending_list.oldest; number != SEL_CHUNK_NONE;
         number = pending->order.newer)
    {
        pending = sel_zone_pending(zone, number);

        if (n++ == records || !sel_check_is(zone, number, SEL_CHUNK_PENDING)
            || pending->order.older != older
            || pending->generation <= generation)
        {
            return "the order of pending selections is another";
        }

        older = number;
        generation = pending->generation;
        chunks += pending->chunks;
        size += pending->size;
    }

    if (n != records || zone->header->pending_list.newest != older
        || generation > zone->header->generations)
    {
        return "a pending selection is not in the order";
    }

    return chunks == zone->header->pending_chunks
           && size == zone->header->pending_size
           ? NULL : "the sums of pending selections are wrong";
}


/* The log's records lead from its tail to its head. */

static const char *
sel_check_log(const sel_zone_t *zone)
{
    uint32_t  i, n_hashes;
    uint64_t  at, head;

    at = zone->header->ring_tail;
    head = sel_decisions_head(zone);

    if (at > head || head - at > zone->ring_size) {
        return "the decision log has no end";
    }

    while (at < head) {

        /* n_hashes stands behind the time */

        for (i = 0, n_hashes = 0; i < 4; i++) {
            n_hashes |= (uint32_t) zone->ring[(at + 8 + i) % zone->ring_size]
                        << 8 * i;
        }

        if (n_hashes == 0 || n_hashes > zone->ring_size / 8) {
            return "a decision has an impossible length";
        }

        at += 24 + (uint64_t) n_hashes * 8;
    }

    return at == head ? NULL : "the decision log is not whole";
}
