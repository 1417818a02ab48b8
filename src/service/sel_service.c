#include <stdlib.h>
#include "service/sel_service.h"


void
sel_service_free(sel_service_t *service)
{
    free(service->scratch.matches);
    free(service->scratch.side);
    free(service->scratch.found);
    free(service->scratch.matched);
    free(service->scratch.candidates);
    free(service->scratch.ranks);
    free(service->scratch.loads);

    free(service->learn.buffer);

    service->scratch = (sel_scratch_t) { 0 };
    service->learn = (sel_learn_t) { 0 };
    sel_sources_free(&service->sources);
}


sel_view_partition_t *
sel_service_partition(sel_service_t *service, sel_arena_t *arena,
    sel_str_t model_name, sel_str_t routing_group, sel_fault_t *fault)
{
    bool                   failed;
    sel_view_partition_t  *partition;

    if (!sel_view_refresh(&service->view)) {
        (void) sel_fault_memory(fault);
        return NULL;
    }

    partition = sel_view_find(&service->view, model_name, routing_group,
                              &failed);
    if (failed) {
        (void) sel_fault_memory(fault);
        return NULL;
    }

    if (partition != NULL && partition->n_workers > 0) {
        return partition;
    }

    if (service->view.n_schedulable == 0) {
        (void) sel_fault(fault, arena, SEL_FAULT_NOT_READY,
                         "no schedulable workers are available");

    } else {
        (void) sel_fault(fault, arena, SEL_FAULT_NOT_READY,
                         "no schedulable workers for model=%.*s "
                         "routing_group=%.*s", sel_str_arg(model_name),
                         sel_str_arg(routing_group));
    }

    return NULL;
}
