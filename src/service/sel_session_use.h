/*
 * The session of a request: a name that the client gives, and the rank that
 * it is bound to.
 */

#ifndef SEL_SESSION_USE_H
#define SEL_SESSION_USE_H

#include "service/sel_request.h"
#include "service/sel_service.h"
#include "state/sel_session.h"


/*
 * The id of the session that a selection belongs to; data NULL: none.  There
 * are sessions only if bindings have a time to live, and none counts beside a
 * target or a pin.
 */
sel_str_t sel_session_id(const sel_service_t *service,
    const sel_select_body_t *body);

/* The rank of a binding as the target of a selection; false: it has none. */
bool sel_session_target(const sel_binding_t *binding, sel_target_t *target);

/* Faults.  Each returns false. */

bool sel_session_too_long(sel_arena_t *arena, sel_fault_t *fault);

/* The session is bound to another rank than was chosen. */
bool sel_session_bound(sel_arena_t *arena, sel_str_t id,
    const sel_binding_t *binding, const sel_view_rank_t *rank,
    sel_fault_t *fault);


#endif /* SEL_SESSION_USE_H */
