/*
 * The choice for a request that is forwarded.
 */

#ifndef SEL_ROUTE_H
#define SEL_ROUTE_H

#include "service/sel_selection.h"


typedef struct {
    const sel_route_settings_t  *settings;
    const sel_allow_t           *allow;
    sel_str_t                    routing_group;
    bool                         booked;
    bool                         tokens;    /* the body has a prompt */
    sel_select_body_t            body;
} sel_route_t;


/*
 * Chooses a rank, the service's choice then, and books it if it is to be
 * booked, under an id that is made for it.  The partition is that of the
 * body's model and the routing group; if nobody there can serve, that of the
 * model "default"; without a model, the first of the group that has workers.
 * What is neither booked nor has a prompt may go to any model of the group.
 */
bool sel_route(sel_service_t *service, sel_arena_t *arena, sel_route_t *route,
    sel_fault_t *fault);


#endif /* SEL_ROUTE_H */
