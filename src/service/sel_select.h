/*
 * POST /select: the cheapest rank for a prompt, nothing booked.
 */

#ifndef SEL_SELECT_H
#define SEL_SELECT_H

#include "service/sel_prompt.h"
#include "service/sel_service.h"


/*
 * Chooses and prints the answer into buf; on a fault buf holds nothing of
 * use.
 */
bool sel_select(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_buf_t *buf, sel_fault_t *fault);

/*
 * POST /overlap_scores: what every rank of a partition holds of a prompt.
 */
bool sel_overlap_scores(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_buf_t *buf, sel_fault_t *fault);

/* The settings of a request: the route's, changed by its override. */
void sel_select_settings(const sel_cost_settings_t *settings,
    const sel_select_body_t *body, sel_cost_settings_t *out);


#endif /* SEL_SELECT_H */
