/*
 * The workers as they are listed.
 */

#include "service/sel_diagnostics.h"
#include "service/sel_service.h"


static void sel_worker_print_diagnostics(const sel_service_t *service,
    const sel_view_worker_t *worker, sel_buf_t *buf);


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
