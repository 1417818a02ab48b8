/*
 * Merge sort of records over their links, without memory of its own: bin i
 * holds a sorted list of 2^i records.
 */

#include "state/sel_rebuild_impl.h"


/* lists of 2^i records, for i up to 31 */
#define SEL_SORT_BINS  32


static uint32_t *sel_sort_link(const sel_zone_t *zone, uint32_t number,
    const sel_order_t *order);
static uint32_t sel_sort_merge(sel_zone_t *zone, uint32_t a, uint32_t b,
    const sel_order_t *order);


uint32_t
sel_zone_sort(sel_zone_t *zone, uint32_t list, const sel_order_t *order)
{
    uint32_t  i, number, next, *link, bins[SEL_SORT_BINS];

    memset(bins, 0, sizeof(bins));

    for (number = list; number != SEL_CHUNK_NONE; number = next) {
        link = sel_sort_link(zone, number, order);
        next = *link;
        *link = SEL_CHUNK_NONE;
        SEL_ZONE_STEP();

        list = number;

        for (i = 0; bins[i] != SEL_CHUNK_NONE; i++) {
            list = sel_sort_merge(zone, bins[i], list, order);
            bins[i] = SEL_CHUNK_NONE;
        }

        bins[i] = list;
    }

    list = SEL_CHUNK_NONE;

    for (i = 0; i < SEL_SORT_BINS; i++) {
        list = sel_sort_merge(zone, bins[i], list, order);
    }

    return list;
}


static uint32_t *
sel_sort_link(const sel_zone_t *zone, uint32_t number,
    const sel_order_t *order)
{
    return (uint32_t *) (void *) ((uint8_t *) sel_zone_chunk(zone, number)
                                  + order->newer);
}


static uint32_t
sel_sort_merge(sel_zone_t *zone, uint32_t a, uint32_t b,
    const sel_order_t *order)
{
    uint32_t  first, *link;

    link = &first;

    while (a != SEL_CHUNK_NONE && b != SEL_CHUNK_NONE) {

        if (order->before(zone, a, b)) {
            *link = a;
            link = sel_sort_link(zone, a, order);
            a = *link;

        } else {
            *link = b;
            link = sel_sort_link(zone, b, order);
            b = *link;
        }

        SEL_ZONE_STEP();
    }

    *link = a != SEL_CHUNK_NONE ? a : b;

    return first;
}
