/*
 * Verification of a zone, the books' part: table, lists and sums of the
 * bookings.  Chunks, workers and slots have been verified before.
 */

#include <stdlib.h>
#include "state/sel_zone_check_impl.h"


/* What a slot should have. */
typedef struct {
    uint32_t  listed;
    uint32_t  requests;
    uint64_t  prefill;
    double    blocks;
} sel_check_sum_t;


static const char *sel_check_ids(sel_zone_t *zone, uint32_t records);
static const char *sel_check_ages(sel_zone_t *zone, uint32_t records,
    sel_check_sum_t *sums);
static const char *sel_check_slot_list(sel_zone_t *zone, uint16_t number,
    uint32_t records, sel_check_sum_t *sum);
static void sel_check_add_edges(sel_zone_t *zone, sel_check_sum_t *sums);
static const char *sel_check_sums(sel_zone_t *zone, uint32_t records,
    sel_check_sum_t *sums);
static const char *sel_check_routed(const sel_zone_t *zone);


const char *
sel_zone_check_books(sel_zone_t *zone)
{
    uint32_t          records;
    const char       *wrong;
    sel_check_sum_t  *sums;

    records = sel_check_count(zone, SEL_CHUNK_BOOKING);

    if (records != zone->header->bookings) {
        return "the count of bookings is wrong";
    }

    sums = calloc((size_t) zone->n_slots + 1, sizeof(sel_check_sum_t));

    if (sums == NULL) {
        return "no memory to verify the books";
    }

    if ((wrong = sel_check_ids(zone, records)) == NULL
        && (wrong = sel_check_ages(zone, records, sums)) == NULL)
    {
        sel_check_add_edges(zone, sums);
        wrong = sel_check_sums(zone, records, sums);
    }

    free(sums);

    return wrong != NULL ? wrong : sel_check_routed(zone);
}


static const char *
sel_check_ids(sel_zone_t *zone, uint32_t records)
{
    uint8_t               id[SEL_BOOK_MAX_ID];
    uint32_t              i, n, number;
    sel_str_t             str;
    sel_booking_chunk_t  *booking;

    n = 0;

    for (i = 0; i < zone->n_book_buckets; i++) {

        for (number = zone->id_buckets[i]; number != SEL_CHUNK_NONE;
             number = booking->id_next)
        {
            booking = sel_zone_booking(zone, number);

            if (n++ == records
                || !sel_check_is(zone, number, SEL_CHUNK_BOOKING)
                || sel_zone_id_bucket(zone, booking->hash)
                   != &zone->id_buckets[i])
            {
                return "the table of ids holds something else";
            }

            str = (sel_str_t) { booking->id_len, booking->id };

            if (booking->id_len > SEL_BOOKING_ID) {
                str.data = id;
                (void) sel_zone_chain_read(zone, booking->id_chain, id,
                                           booking->id_len);
            }

            if (sel_booking_hash(str) != booking->hash
                || sel_booking_find(zone, booking->hash, str) != booking)
            {
                return "a booking is not found by its id, or two have it";
            }
        }
    }

    return n == records ? NULL : "a booking is not in the table of ids";
}


static const char *
sel_check_ages(sel_zone_t *zone, uint32_t records, sel_check_sum_t *sums)
{
    uint32_t              n, number, older;
    sel_slot_t           *slot;
    sel_check_sum_t      *sum;
    sel_booking_chunk_t  *booking, *before;

    n = 0;
    older = SEL_CHUNK_NONE;

    for (number = zone->header->booking_list.oldest; number != SEL_CHUNK_NONE;
         number = booking->order.newer)
    {
        booking = sel_zone_booking(zone, number);

        if (n++ == records || !sel_check_is(zone, number, SEL_CHUNK_BOOKING)
            || booking->order.older != older)
        {
            return "the list by age leads to something else";
        }

        if (older != SEL_CHUNK_NONE) {
            before = sel_zone_booking(zone, older);

            if (before->started > booking->started
                || (before->started == booking->started
                    && before->attempt >= booking->attempt))
            {
                return "the list by age is in another order";
            }
        }

        older = number;

        if (booking->slot >= zone->header->slot_high) {
            return "a booking has a slot that was never given out";
        }

        slot = &zone->slots[booking->slot];

        if (slot->used == SEL_SLOT_FREE || slot->epoch != booking->epoch) {
            return "a booking's rank has gone";
        }

        sum = &sums[booking->slot];
        sum->requests++;
        sum->prefill += booking->prefill;
        sum->blocks += sel_booking_output_weight(zone, booking);
    }

    return n == records && zone->header->booking_list.newest == older
           ? NULL : "a booking is not in the list by age";
}


static void
sel_check_add_edges(sel_zone_t *zone, sel_check_sum_t *sums)
{
    uint32_t            i, more, number;
    sel_chunk_t        *chunk;
    sel_edge_chunk_t   *edge;
    sel_cells_chunk_t  *cells;

    for (number = 1; number <= zone->header->chunk_high;
         number += sel_chunk_span(chunk))
    {
        chunk = sel_zone_chunk(zone, number);

        if (sel_chunk_tag(chunk) != SEL_CHUNK_EDGE) {
            continue;
        }

        edge = (sel_edge_chunk_t *) chunk;

        for (i = 0; i < edge->n_cells && i < SEL_CELLS_AN_EDGE; i++) {
            sums[edge->slots[i]].blocks += edge->weights[i] * edge->length;
        }

        for (more = edge->cells; more != SEL_CHUNK_NONE;
             more = cells->head.next)
        {
            cells = (sel_cells_chunk_t *) sel_zone_chunk(zone, more);

            for (i = 0; i < cells->head.count; i++) {
                sums[cells->slots[i]].blocks += cells->weights[i]
                                                * edge->length;
            }
        }
    }
}


static const char *
sel_check_sums(sel_zone_t *zone, uint32_t records, sel_check_sum_t *sums)
{
    double       apart;
    uint32_t     i;
    sel_slot_t  *slot;
    const char  *wrong;

    for (i = 0; i < zone->header->slot_high; i++) {
        wrong = sel_check_slot_list(zone, (uint16_t) i, records, &sums[i]);

        if (wrong != NULL) {
            return wrong;
        }

        slot = &zone->slots[i];

        if (slot->requests != sums[i].requests
            || slot->prefill != sums[i].prefill)
        {
            return "a slot's requests or prefill tokens are wrong";
        }

        apart = slot->blocks - sums[i].blocks;

        if (!(apart < 1e-6 && apart > -1e-6)
            || (slot->requests == 0 && slot->blocks != 0))
        {
            return "a slot's sum of blocks is wrong";
        }
    }

    return NULL;
}


static const char *
sel_check_slot_list(sel_zone_t *zone, uint16_t slot, uint32_t records,
    sel_check_sum_t *sum)
{
    uint32_t              number, newer;
    sel_booking_chunk_t  *booking;

    newer = SEL_CHUNK_NONE;

    for (number = zone->slots[slot].bookings; number != SEL_CHUNK_NONE;
         number = booking->slot_older)
    {
        booking = sel_zone_booking(zone, number);

        if (sum->listed++ == records
            || !sel_check_is(zone, number, SEL_CHUNK_BOOKING)
            || booking->slot != slot || booking->slot_newer != newer)
        {
            return "a slot's list of bookings leads to something else";
        }

        newer = number;
    }

    return sum->listed == sum->requests
           ? NULL : "a booking is not in the list of its slot";
}


static const char *
sel_check_routed(const sel_zone_t *zone)
{
    uint32_t                    i, number;
    uint32_t                    routed[SEL_ZONE_PROCS];
    const sel_booking_chunk_t  *booking;

    memset(routed, 0, sizeof(routed));

    for (number = zone->header->booking_list.oldest; number != SEL_CHUNK_NONE;
         number = booking->order.newer)
    {
        booking = sel_zone_booking(zone, number);

        if (booking->kind == SEL_BOOKING_ROUTER
            && booking->proc < SEL_ZONE_PROCS)
        {
            routed[booking->proc]++;
        }
    }

    for (i = 0; i < SEL_ZONE_PROCS; i++) {

        if (zone->procs[i].routed != routed[i]) {
            return "the count of what a process serves is wrong";
        }
    }

    return NULL;
}
