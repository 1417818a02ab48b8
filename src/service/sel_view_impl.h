/*
 * Between the files of the view.
 */

#ifndef SEL_VIEW_IMPL_H
#define SEL_VIEW_IMPL_H

#include "service/sel_view.h"


/*
 * Compiles a record (not a tomb) into a worker; ranks that stay the same are
 * old's rank objects, whose worker still is old.  NULL on exhaustion.
 */
sel_view_worker_t *sel_view_worker_make(const sel_worker_record_t *record,
    const sel_view_worker_t *old);

/* Frees a worker that was never put in force. */
void sel_view_worker_discard(sel_view_worker_t *worker);

/* Tells the host that a worker's ranks go, and frees it. */
void sel_view_worker_free(sel_view_t *view, sel_view_worker_t *worker);

/*
 * Puts a worker in force in place of old: either may be NULL.  Ranks of old
 * that are not taken over lose their owners and are told to the host, new
 * ones get owners and are told.  old is freed.
 */
void sel_view_worker_replace(sel_view_t *view, sel_view_worker_t *old,
    sel_view_worker_t *worker);

/*
 * Makes sure that the partition of a worker's record is known; false when
 * memory is exhausted.
 */
sel_view_partition_t *sel_view_partition_need(sel_view_t *view,
    uint32_t number, const sel_worker_t *worker);


#endif /* SEL_VIEW_IMPL_H */
