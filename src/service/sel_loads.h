/*
 * Loads: what every rank has to do now, and what it would have with one more
 * prompt.
 */

#ifndef SEL_LOADS_H
#define SEL_LOADS_H

#include "core/sel_buf.h"
#include "service/sel_request.h"
#include "service/sel_service.h"


/* POST /potential_loads: prints the body. */
bool sel_potential_loads(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_buf_t *buf, sel_fault_t *fault);

/* GET /loads: prints the body; names with data NULL match all. */
bool sel_loads(sel_service_t *service, sel_arena_t *arena,
    sel_str_t model_name, sel_str_t routing_group, sel_buf_t *buf,
    sel_fault_t *fault);


#endif /* SEL_LOADS_H */
