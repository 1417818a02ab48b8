/*
 * Buckets of the look-up tables: lists of records, each linked by a field of
 * its own.
 */

#include "state/sel_zone_impl.h"


void
sel_bucket_insert(sel_zone_t *zone, uint32_t *bucket, uint32_t *next)
{
    *next = *bucket;
    SEL_ZONE_STEP();
    *bucket = sel_zone_chunk_number(zone, next);
    SEL_ZONE_STEP();
}


void
sel_bucket_remove(sel_zone_t *zone, uint32_t *bucket, const uint32_t *next)
{
    uint32_t  number, *link;

    number = sel_zone_chunk_number(zone, next);
    link = bucket;

    while (*link != number) {
        link = sel_zone_same(zone, next, *link);
    }

    *link = *next;
    SEL_ZONE_STEP();
}
