#include <stdlib.h>
#include "service/sel_diagnostics.h"
#include "service/sel_service.h"


static void sel_worker_print_diagnostics(const sel_service_t *service,
    const sel_view_worker_t *worker, sel_buf_t *buf);


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


bool
sel_worker_list(sel_service_t *service, const sel_worker_filter_t *filter,
    sel_buf_t *buf, sel_fault_t *fault)
{
    bool                 comma;
    uint32_t             i;
    const sel_worker_t  *worker;
    sel_view_worker_t  **sorted;

    if (!sel_view_refresh(&service->view)) {
        return sel_fault_memory(fault);
    }

    sorted = sel_view_sorted(&service->view);

    if (sorted == NULL) {
        return sel_fault_memory(fault);
    }

    comma = false;
    sel_buf_byte(buf, '[');

    for (i = 0; i < service->view.n_workers; i++) {
        worker = &sorted[i]->record;

        if ((filter->model_name.data != NULL
             && !sel_str_eq(filter->model_name, worker->model_name))
            || (filter->routing_group.data != NULL
                && !sel_str_eq(filter->routing_group, worker->routing_group)))
        {
            continue;
        }

        if (comma) {
            sel_buf_byte(buf, ',');
        }

        if (filter->diagnostics) {
            sel_worker_print_diagnostics(service, sorted[i], buf);

        } else {
            sel_buf_str(buf, sorted[i]->json);
        }

        comma = true;
    }

    sel_buf_byte(buf, ']');

    return true;
}


/* One more member at the end of the record. */

static void
sel_worker_print_diagnostics(const sel_service_t *service,
    const sel_view_worker_t *worker, sel_buf_t *buf)
{
    sel_json_out_t  out;

    sel_buf_str(buf, (sel_str_t) { worker->json.len - 1, worker->json.data });
    sel_buf_printf(buf, ",\"diagnostics\":");

    sel_json_out_init(&out, buf);
    sel_diagnostics_print(service, worker, &out);
    sel_buf_byte(buf, '}');
}


bool
sel_service_ready(sel_service_t *service, sel_buf_t *buf, bool *ready,
    sel_fault_t *fault)
{
    sel_worker_filter_t  any;

    if (!sel_view_refresh(&service->view)) {
        return sel_fault_memory(fault);
    }

    *ready = service->view.n_schedulable > 0;

    sel_buf_printf(buf, "{\"ready\":%s,\"schedulable_workers\":%u,"
                   "\"workers\":", *ready ? "true" : "false",
                   service->view.n_schedulable);

    any = (sel_worker_filter_t) { .diagnostics = false };

    if (!sel_worker_list(service, &any, buf, fault)) {
        return false;
    }

    sel_buf_byte(buf, '}');

    return true;
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
