#include "service/sel_session_use.h"


sel_str_t
sel_session_id(const sel_service_t *service, const sel_select_body_t *body)
{
    sel_str_t  id;

    id = (sel_str_t) { 0, NULL };

    if (service->settings.session_ttl == 0
        || sel_body_has(body, SEL_SELECT_AFFINITY)
        || sel_body_has(body, SEL_SELECT_PINNED))
    {
        return id;
    }

    if (sel_body_has(body, SEL_SELECT_SESSION)) {
        id = body->session.session_id;

    } else if (sel_body_has(body, SEL_SELECT_SESSION_ID)) {
        id = body->session_id;

    } else {
        return id;
    }

    return id.len != 0 ? id : sel_str("");
}


bool
sel_session_target(const sel_binding_t *binding, sel_target_t *target)
{
    *target = (sel_target_t) {
        .given = SEL_TARGET_RANK, .worker_id = binding->worker_id,
        .dp_rank = binding->dp_rank
    };

    return binding->revision != 0;
}


bool
sel_session_too_long(sel_arena_t *arena, sel_fault_t *fault)
{
    return sel_fault(fault, arena, SEL_FAULT_BAD_REQUEST,
                     "session affinity ID must not exceed %u bytes",
                     SEL_SESSION_MAX_ID);
}


bool
sel_session_bound(sel_arena_t *arena, sel_str_t id,
    const sel_binding_t *binding, const sel_view_rank_t *rank,
    sel_fault_t *fault)
{
    if (binding->worker_id != rank->worker_id) {
        return sel_fault(fault, arena, SEL_FAULT_BAD_REQUEST,
                         "session %.*s is bound to worker %llu, not %llu",
                         sel_str_arg(id),
                         (unsigned long long) binding->worker_id,
                         (unsigned long long) rank->worker_id);
    }

    return sel_fault(fault, arena, SEL_FAULT_BAD_REQUEST,
                     "session %.*s is bound to DP rank %u, not %u",
                     sel_str_arg(id), binding->dp_rank, rank->dp_rank);
}
