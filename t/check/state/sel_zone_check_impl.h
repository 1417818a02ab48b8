/*
 * Inside the check of a zone: what its parts share.
 */

#ifndef SEL_ZONE_CHECK_IMPL_H
#define SEL_ZONE_CHECK_IMPL_H

#include "state/sel_zone_check.h"
#include "state/sel_zone_impl.h"


/* Whether a chunk was used and has this tag; how many have. */
bool sel_check_is(const sel_zone_t *zone, uint32_t number,
    sel_chunk_tag_t tag);
uint32_t sel_check_count(const sel_zone_t *zone, sel_chunk_tag_t tag);

/* sel_zone_check_partition.c: chunks must have been verified before */
const char *sel_zone_check_partitions(sel_zone_t *zone);

/* sel_zone_check_worker.c: chunks and partitions must have been */
const char *sel_zone_check_workers(sel_zone_t *zone);
const char *sel_zone_check_changes(sel_zone_t *zone);
const char *sel_zone_check_slots(sel_zone_t *zone);


#endif /* SEL_ZONE_CHECK_IMPL_H */
