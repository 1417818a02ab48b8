/*
 * Inside of the rebuild: what its parts share.
 */

#ifndef SEL_REBUILD_IMPL_H
#define SEL_REBUILD_IMPL_H

#include "state/sel_zone_impl.h"


/* How records are listed and which of two comes first. */
typedef struct {
    size_t   newer;             /* where a record has its link */
    bool   (*before)(const sel_zone_t *zone, uint32_t a, uint32_t b);
} sel_order_t;


/* sel_sort.c: sorts a list; returns its first record */
uint32_t sel_zone_sort(sel_zone_t *zone, uint32_t list,
    const sel_order_t *order);

/* sel_rebuild.c: marks the chunks of a chain as used */
void sel_rebuild_chain(sel_zone_t *zone, uint32_t number,
    sel_chunk_tag_t tag);


/* sel_rebuild_books.c: bookings, pending selections, sessions */

void sel_rebuild_books_reset(sel_zone_t *zone);

/* Notes a record that was met. */
void sel_rebuild_booking(sel_zone_t *zone, uint32_t number);
void sel_rebuild_pending(sel_zone_t *zone, uint32_t number);
void sel_rebuild_session(sel_zone_t *zone, uint32_t number);

/* Ends bookings whose rank has gone and marks what the others use; slots must
   be right by now. */
void sel_rebuild_books_use(sel_zone_t *zone);

/* Tables, lists, the tree and the sums; free chunks must be known. */
void sel_rebuild_books(sel_zone_t *zone);


#endif /* SEL_REBUILD_IMPL_H */
