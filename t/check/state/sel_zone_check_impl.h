/*
 * Inside the check of a zone: what its parts share.
 */

#ifndef SEL_ZONE_CHECK_IMPL_H
#define SEL_ZONE_CHECK_IMPL_H

#include "state/sel_zone_check.h"
#include "state/sel_books_impl.h"
#include "state/sel_partition_impl.h"
#include "state/sel_pending_impl.h"
#include "state/sel_session_impl.h"


/* Whether a chunk was used and has this tag; how many have. */
bool sel_check_is(const sel_zone_t *zone, uint32_t number,
    sel_chunk_tag_t tag);
uint32_t sel_check_count(const sel_zone_t *zone, sel_chunk_tag_t tag);

/* Marks a chunk that was met; false when it has another tag or was met
   before. */
bool sel_check_see(sel_zone_t *zone, uint32_t number, sel_chunk_tag_t tag);

/* Marks a chain that holds exactly len bytes, or n keys, or n chunks; adds
   its chunks to *used. */
bool sel_check_chain(sel_zone_t *zone, uint32_t number, uint64_t len,
    uint32_t *used);
bool sel_check_keys(sel_zone_t *zone, uint32_t number, uint32_t n,
    uint32_t *used);
bool sel_check_list(sel_zone_t *zone, uint32_t number, sel_chunk_tag_t tag,
    uint32_t n, uint32_t *used);

/* sel_zone_check_chunks.c: chunks of the books' records */
const char *sel_zone_check_booking(sel_zone_t *zone,
    const sel_booking_chunk_t *booking, uint32_t *used);
const char *sel_zone_check_pending(sel_zone_t *zone,
    const sel_pending_chunk_t *pending, uint32_t *used);
const char *sel_zone_check_session(sel_zone_t *zone,
    const sel_session_chunk_t *session, uint32_t *used);
const char *sel_zone_check_edge(sel_zone_t *zone,
    const sel_edge_chunk_t *edge, uint32_t *used);

/* sel_zone_check_partition.c: chunks must have been verified before */
const char *sel_zone_check_partitions(sel_zone_t *zone);

/* sel_zone_check_worker.c: chunks and partitions must have been */
const char *sel_zone_check_workers(sel_zone_t *zone);
const char *sel_zone_check_changes(sel_zone_t *zone);
const char *sel_zone_check_slots(sel_zone_t *zone);

/* sel_zone_check_books.c, _tree.c, _pending.c, _session.c: all of the above
   must have been */
const char *sel_zone_check_books(sel_zone_t *zone);
const char *sel_zone_check_tree(sel_zone_t *zone);
const char *sel_zone_check_cells(sel_zone_t *zone);
const char *sel_zone_check_pendings(sel_zone_t *zone);
const char *sel_zone_check_sessions(sel_zone_t *zone);


#endif /* SEL_ZONE_CHECK_IMPL_H */
