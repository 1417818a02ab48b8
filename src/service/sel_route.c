#include "service/sel_reserve.h"
#include "service/sel_route.h"


static bool sel_route_model(sel_service_t *service, sel_arena_t *arena,
    sel_route_t *route, sel_fault_t *fault);
static bool sel_route_name(sel_arena_t *arena, sel_route_t *route,
    const sel_view_partition_t *partition, sel_fault_t *fault);
static const sel_view_partition_t *sel_route_partition(
    sel_service_t *service, sel_str_t model_name, sel_str_t routing_group,
    bool *failed);
static bool sel_route_any(sel_service_t *service, sel_arena_t *arena,
    sel_route_t *route, sel_fault_t *fault);
static bool sel_route_choose(sel_service_t *service, sel_arena_t *arena,
    const sel_route_t *route, sel_prompt_use_t use, double *cost,
    sel_fault_t *fault);


bool
sel_route(sel_service_t *service, sel_arena_t *arena, sel_route_t *route,
    sel_fault_t *fault)
{
    double            cost;
    sel_selection_t   s;
    sel_reserving_t   r;
    sel_prompt_use_t  use;

    if (!sel_route_model(service, arena, route, fault)) {
        return false;
    }

    use = route->tokens ? SEL_PROMPT_FOR_SELECT : SEL_PROMPT_FOR_NOTHING;

    if (!route->booked) {
        return route->tokens
               ? sel_route_choose(service, arena, route, use, &cost, fault)
               : sel_route_any(service, arena, route, fault);
    }

    r = (sel_reserving_t) {
        .select = { route->settings, &route->body, use, route->allow, true },
        .kind = SEL_BOOKING_ROUTER
    };

    return sel_reserve_id(service, arena, &r.id, fault)
           && sel_reserve_best(service, arena, &r, &s, fault);
}


static bool
sel_route_model(sel_service_t *service, sel_arena_t *arena,
    sel_route_t *route, sel_fault_t *fault)
{
    bool                         failed;
    const sel_view_partition_t  *partition;

    if (!sel_view_refresh(&service->view)) {
        return sel_fault_memory(fault);
    }

    route->body.routing_group = route->routing_group;

    partition = sel_route_partition(service, route->body.model_name,
                                    route->routing_group, &failed);
    if (failed) {
        return sel_fault_memory(fault);
    }

    if (partition == NULL) {
        return sel_fault(fault, arena, SEL_FAULT_NOT_READY,
                         "no schedulable workers for " SEL_PARTITION_FORMAT,
                         sel_str_arg(route->body.model_name),
                         sel_str_arg(route->routing_group));
    }

    return sel_route_name(arena, route, partition, fault);
}


/* The view may change before the name is used. */

static bool
sel_route_name(sel_arena_t *arena, sel_route_t *route,
    const sel_view_partition_t *partition, sel_fault_t *fault)
{
    route->body.model_name = sel_arena_str(arena, partition->key.model_name);

    return route->body.model_name.data != NULL || sel_fault_memory(fault);
}


static const sel_view_partition_t *
sel_route_partition(sel_service_t *service, sel_str_t model_name,
    sel_str_t routing_group, bool *failed)
{
    uint32_t               i;
    sel_view_partition_t  *partition;

    partition = sel_view_find(&service->view, model_name, routing_group,
                              failed);

    if (*failed || (partition != NULL && partition->n_workers != 0)) {
        return partition;
    }

    partition = sel_view_find(&service->view, sel_str("default"),
                              routing_group, failed);

    if (partition != NULL && partition->n_workers != 0) {
        return partition;
    }

    for (i = 0; model_name.len == 0 && i < service->view.n_partitions; i++) {
        partition = service->view.partitions[i];

        if (partition->n_workers != 0
            && sel_str_eq(partition->key.routing_group, routing_group))
        {
            return partition;
        }
    }

    return NULL;
}


/* The least loaded rank of the group, whatever its model. */

static bool
sel_route_any(sel_service_t *service, sel_arena_t *arena, sel_route_t *route,
    sel_fault_t *fault)
{
    bool                         found;
    double                       cost, least;
    uint32_t                     i;
    sel_choice_t                 choice;
    const sel_view_partition_t  *partition;

    found = false;
    least = 0;
    choice = (sel_choice_t) { 0 };

    for (i = 0; i < service->view.n_partitions; i++) {
        partition = service->view.partitions[i];

        if (partition->n_workers == 0
            || !sel_str_eq(partition->key.routing_group,
                           route->routing_group))
        {
            continue;
        }

        if (sel_route_name(arena, route, partition, fault)
            && sel_route_choose(service, arena, route, SEL_PROMPT_FOR_NOTHING,
                                &cost, fault)
            && (!found || cost < least))
        {
            found = true;
            least = cost;
            choice = service->choice;
        }
    }

    service->choice = choice;

    return found;
}


static bool
sel_route_choose(sel_service_t *service, sel_arena_t *arena,
    const sel_route_t *route, sel_prompt_use_t use, double *cost,
    sel_fault_t *fault)
{
    uint32_t          tries;
    sel_selecting_t   in;
    sel_selection_t   s;
    sel_rank_load_t  *loads;

    in = (sel_selecting_t) {
        route->settings, &route->body, use, route->allow, false
    };

    for (tries = 0; tries < SEL_RESERVE_TRIES; tries++) {

        if (!sel_selection_begin(&s, service, arena, &in, fault))
        {
            return false;
        }

        loads = service->scratch.loads;
        sel_books_read(service->zone, s.lookup.path,
                       s.lookup.prompt.n_sequence, loads, s.n);

        if (sel_selection_choose(&s, NULL, loads, s.n) != SEL_CHOOSE_NONE) {
            *cost = s.candidate.cost;
            return sel_selection_done(&s, arena, (sel_str_t) { 0, NULL })
                   || sel_fault_memory(fault);
        }
    }

    return sel_reserve_unsteady(arena, fault);
}
