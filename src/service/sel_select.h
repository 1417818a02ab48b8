/*
 * The operations that choose or look up, without booking anything.
 */

#ifndef SEL_SELECT_H
#define SEL_SELECT_H

#include "core/sel_buf.h"
#include "service/sel_request.h"
#include "service/sel_service.h"


/*
 * Each prints its answer into buf; on a fault buf holds nothing of use.
 *
 * POST /select: the cheapest rank for a prompt, kept as a pending selection
 * if the request has an id.
 */
bool sel_select(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_buf_t *buf, sel_fault_t *fault);

/* POST /best_worker_id: the same choice in few words. */
bool sel_best_worker(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_buf_t *buf, sel_fault_t *fault);

/* POST /overlap_scores: what every rank of a partition holds of a prompt. */
bool sel_overlap_scores(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_buf_t *buf, sel_fault_t *fault);


#endif /* SEL_SELECT_H */
