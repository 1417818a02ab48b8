#include "service/sel_endpoint.h"
#include "service/sel_register.h"


/* how many missing rank endpoints are named one by one */
#define SEL_REASONS_RANKS  256


static bool sel_register_members(const sel_service_t *service,
    sel_arena_t *arena, const sel_worker_t *worker, sel_reasons_t *reasons);
static bool sel_register_mismatch(sel_arena_t *arena,
    const sel_worker_t *worker, const sel_partition_t *existing,
    sel_reasons_t *reasons);
static bool sel_register_endpoints(sel_arena_t *arena,
    const sel_worker_t *worker, sel_reasons_t *reasons);
static bool sel_register_endpoint(sel_arena_t *arena,
    const sel_worker_t *worker, sel_str_t endpoint, uint32_t dp_rank,
    sel_reasons_t *reasons);
static bool sel_register_reason(sel_reasons_t *reasons, char *text);


bool
sel_register_reasons(sel_service_t *service, sel_arena_t *arena,
    const sel_worker_t *worker, sel_reasons_t *reasons, bool *consistent)
{
    int              rc;
    sel_partition_t  existing;

    reasons->n = 0;
    reasons->text[0] = NULL;
    *consistent = false;

    if (!sel_register_members(service, arena, worker, reasons)) {
        return false;
    }

    if (reasons->n != 0) {
        return true;
    }

    rc = sel_catalog_find_partition(service->zone, worker->model_name,
                                    worker->routing_group, arena, &existing);
    if (rc < 0
        || (rc == 1
            && !sel_register_mismatch(arena, worker, &existing, reasons)))
    {
        return false;
    }

    if (reasons->n != 0) {
        return true;
    }

    *consistent = true;

    return !service->settings.kv_events
           || sel_register_endpoints(arena, worker, reasons);
}


static bool
sel_register_members(const sel_service_t *service, sel_arena_t *arena,
    const sel_worker_t *worker, sel_reasons_t *reasons)
{
    uint32_t  rank, end, missing;

    if (worker->endpoint.len == 0
        && !sel_register_reason(reasons, "endpoint is required"))
    {
        return false;
    }

    if (worker->block_size == 0
        && !sel_register_reason(reasons,
                                "block_size must be greater than 0"))
    {
        return false;
    }

    if (worker->block_size != 0 && service->settings.block_size != 0
        && worker->block_size != service->settings.block_size
        && !sel_register_reason(reasons, sel_arena_printf(arena,
               "block_size %u is not the %u of select_block_size",
               worker->block_size, service->settings.block_size)))
    {
        return false;
    }

    if (worker->dp_size == 0
        && !sel_register_reason(reasons,
                                "data_parallel_size must be greater than 0"))
    {
        return false;
    }

    if (worker->dp_size > SEL_MAX_DP_SIZE) {
        return sel_register_reason(reasons, sel_arena_printf(arena,
                   "data_parallel_size must not be greater than %u",
                   SEL_MAX_DP_SIZE));
    }

    if (!service->settings.kv_events) {
        return true;
    }

    end = sel_worker_end_rank(worker);
    missing = 0;

    for (rank = worker->start_rank; rank < end; rank++) {
        if (sel_worker_events_endpoint(worker, rank).len != 0) {
            continue;
        }

        if (missing++ < SEL_REASONS_RANKS
            && !sel_register_reason(reasons, sel_arena_printf(arena,
                    "kv_events endpoint is required for dp_rank %u", rank)))
        {
            return false;
        }
    }

    if (missing > SEL_REASONS_RANKS
        && !sel_register_reason(reasons, sel_arena_printf(arena,
                "kv_events endpoint is required for %u more rank%s",
                missing - SEL_REASONS_RANKS,
                missing - SEL_REASONS_RANKS == 1 ? "" : "s")))
    {
        return false;
    }

    if (worker->dp_size > 1
        && sel_worker_has(worker, SEL_WORKER_REPLAY_ENDPOINT))
    {
        return sel_register_reason(reasons, "replay_endpoint is supported "
                                   "only for data_parallel_size 1");
    }

    return true;
}


static bool
sel_register_mismatch(sel_arena_t *arena, const sel_worker_t *worker,
    const sel_partition_t *existing, sel_reasons_t *reasons)
{
    char  *text;

    if (existing->block_size != worker->block_size) {
        text = sel_arena_printf(arena, "reconciliation failed: block_size "
                   "mismatch for model=%.*s routing_group=%.*s: "
                   "existing=%u requested=%u",
                   sel_str_arg(worker->model_name),
                   sel_str_arg(worker->routing_group),
                   existing->block_size, worker->block_size);

        return sel_register_reason(reasons, text);
    }

    if (existing->is_eagle != worker->is_eagle) {
        text = sel_arena_printf(arena, "reconciliation failed: is_eagle "
                   "mismatch for model=%.*s routing_group=%.*s: "
                   "existing=%s requested=%s",
                   sel_str_arg(worker->model_name),
                   sel_str_arg(worker->routing_group),
                   existing->is_eagle ? "true" : "false",
                   worker->is_eagle ? "true" : "false");

        return sel_register_reason(reasons, text);
    }

    return true;
}


/* Every endpoint of the map is checked, also those of ranks that are none. */

static bool
sel_register_endpoints(sel_arena_t *arena, const sel_worker_t *worker,
    sel_reasons_t *reasons)
{
    uint32_t     i;
    const char  *why;

    if (worker->kv_events_endpoints.n == 0) {
        if (!sel_register_endpoint(arena, worker, worker->kv_events_endpoint,
                                   worker->start_rank, reasons))
        {
            return false;
        }
    }

    for (i = 0; i < worker->kv_events_endpoints.n && reasons->n == 0; i++) {
        if (!sel_register_endpoint(arena, worker,
                                   worker->kv_events_endpoints.data[i].value,
                                   worker->kv_events_endpoints.data[i].rank,
                                   reasons))
        {
            return false;
        }
    }

    if (reasons->n != 0
        || !sel_worker_has(worker, SEL_WORKER_REPLAY_ENDPOINT))
    {
        return true;
    }

    why = sel_endpoint_fault(worker->replay_endpoint, arena);

    return why == NULL
           || sel_register_reason(reasons, sel_arena_printf(arena,
                  "reconciliation failed: invalid replay endpoint for "
                  "worker %llu: %s",
                  (unsigned long long) worker->worker_id, why));
}


static bool
sel_register_endpoint(sel_arena_t *arena, const sel_worker_t *worker,
    sel_str_t endpoint, uint32_t dp_rank, sel_reasons_t *reasons)
{
    const char  *why;

    why = sel_endpoint_fault(endpoint, arena);

    return why == NULL
           || sel_register_reason(reasons, sel_arena_printf(arena,
                  "reconciliation failed: invalid kv_events endpoint for "
                  "worker %llu dp_rank %u: %s",
                  (unsigned long long) worker->worker_id, dp_rank, why));
}


static bool
sel_register_reason(sel_reasons_t *reasons, char *text)
{
    if (text == NULL) {
        return false;
    }

    if (reasons->n < SEL_REASONS_MAX) {
        reasons->text[reasons->n++] = text;
        reasons->text[reasons->n] = NULL;
    }

    return true;
}
