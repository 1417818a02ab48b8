/*
 * What the ranks of a partition have to do.
 */

#ifndef SEL_LOADS_H
#define SEL_LOADS_H

#include "service/sel_request.h"
#include "service/sel_service.h"


/*
 * POST /potential_loads: the load of every rank if the prompt went there.
 * Prints into buf; on a fault buf holds nothing of use.
 */
bool sel_potential_loads(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_buf_t *buf, sel_fault_t *fault);


#endif /* SEL_LOADS_H */
