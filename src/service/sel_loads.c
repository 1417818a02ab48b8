#include <stdlib.h>
#include "service/sel_loads.h"
#include "service/sel_selection.h"


/* partitions read from the zone at once */
#define SEL_LOADS_BATCH  64


typedef struct {
    uint32_t          n;
    sel_partition_t  *data;         /* by name */
} sel_partition_list_t;


static bool sel_loads_partitions(sel_service_t *service, sel_arena_t *arena,
    sel_str_t model_name, sel_str_t routing_group,
    sel_partition_list_t *list);
static int sel_loads_compare(const void *one, const void *two);
static bool sel_loads_partition(sel_service_t *service, sel_json_out_t *out,
    const sel_partition_t *partition);
static bool sel_loads_read(sel_service_t *service,
    const sel_view_partition_t *partition, const sel_lookup_t *lookup);
static void sel_loads_print(sel_json_out_t *out, const sel_view_rank_t *rank,
    uint64_t prefill_tokens, uint64_t decode_blocks,
    uint64_t active_requests);


bool
sel_potential_loads(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_buf_t *buf, sel_fault_t *fault)
{
    uint32_t                i;
    uint64_t                more, prefill_tokens;
    sel_lookup_t            lookup;
    sel_json_out_t          out;
    sel_cost_prompt_t       prompt;
    sel_cost_settings_t     cost;
    const sel_candidate_t  *candidate;

    if (!sel_lookup(service, arena, settings, body, SEL_PROMPT_FOR_LOOKUP,
                    &lookup, fault))
    {
        return false;
    }

    if (!sel_loads_read(service, lookup.partition, &lookup)) {
        return sel_fault_memory(fault);
    }

    prompt = sel_lookup_cost_prompt(&lookup);
    sel_select_settings(&settings->cost, body, &cost);

    sel_json_out_init(&out, buf);
    sel_json_out_array(&out);

    for (i = 0; i < lookup.partition->n_ranks; i++) {

        if (service->scratch.loads[i].gone) {
            continue;
        }

        candidate = &service->scratch.candidates[i];
        prefill_tokens = candidate->prefill_tokens;

        if (cost.track_prefill_tokens) {
            more = sel_cost_prefill_tokens(&cost, &prompt, candidate);
            prefill_tokens = more < UINT64_MAX - prefill_tokens
                             ? prefill_tokens + more : UINT64_MAX;
        }

        sel_loads_print(&out, service->scratch.ranks[i], prefill_tokens,
                        (uint64_t) candidate->active_blocks
                        + candidate->new_blocks, candidate->active_requests);
    }

    sel_json_out_array_end(&out);

    return true;
}


bool
sel_loads(sel_service_t *service, sel_arena_t *arena, sel_str_t model_name,
    sel_str_t routing_group, sel_buf_t *buf, sel_fault_t *fault)
{
    uint32_t              i;
    sel_json_out_t        out;
    sel_partition_list_t  list;

    if (!sel_view_refresh(&service->view)
        || !sel_loads_partitions(service, arena, model_name, routing_group,
                                 &list))
    {
        return sel_fault_memory(fault);
    }

    sel_json_out_init(&out, buf);
    sel_json_out_array(&out);

    for (i = 0; i < list.n; i++) {
        if (!sel_loads_partition(service, &out, &list.data[i])) {
            return sel_fault_memory(fault);
        }
    }

    sel_json_out_array_end(&out);

    return true;
}


/* The partitions that there are, also those without a worker. */

static bool
sel_loads_partitions(sel_service_t *service, sel_arena_t *arena,
    sel_str_t model_name, sel_str_t routing_group, sel_partition_list_t *list)
{
    int               i, n;
    uint32_t          after, cap;
    sel_partition_t  *data, batch[SEL_LOADS_BATCH];

    cap = 0;
    after = 0;
    *list = (sel_partition_list_t) { 0, NULL };

    while ((n = sel_catalog_partitions(service->zone, &after, SEL_LOADS_BATCH,
                                       arena, batch))
           > 0)
    {
        for (i = 0; i < n; i++) {

            if ((model_name.data != NULL
                 && !sel_str_eq(model_name, batch[i].model_name))
                || (routing_group.data != NULL
                    && !sel_str_eq(routing_group, batch[i].routing_group)))
            {
                continue;
            }

            if (list->n == cap) {
                data = sel_arena_alloc(arena, (cap * 2 + 16) * sizeof(*data));

                if (data == NULL) {
                    return false;
                }

                if (cap != 0) {
                    memcpy(data, list->data, cap * sizeof(*data));
                }

                cap = cap * 2 + 16;
                list->data = data;
            }

            list->data[list->n++] = batch[i];
        }
    }

    if (list->n != 0) {
        qsort(list->data, list->n, sizeof(*data), sel_loads_compare);
    }

    return n == 0;
}


static int
sel_loads_compare(const void *one, const void *two)
{
    int                     rc;
    const sel_partition_t  *a, *b;

    a = one;
    b = two;

    rc = sel_str_cmp(a->model_name, b->model_name);

    return rc != 0 ? rc : sel_str_cmp(a->routing_group, b->routing_group);
}


static bool
sel_loads_partition(sel_service_t *service, sel_json_out_t *out,
    const sel_partition_t *partition)
{
    bool                         failed;
    uint32_t                     i, n;
    const sel_view_partition_t  *known;

    known = sel_view_find(&service->view, partition->model_name,
                          partition->routing_group, &failed);

    if (failed
        || (known != NULL && !sel_loads_read(service, known, NULL)))
    {
        return false;
    }

    sel_json_out_object(out);
    sel_json_out_key(out, "model_name");
    sel_json_out_str(out, partition->model_name);
    sel_json_out_key(out, "routing_group");
    sel_json_out_str(out, partition->routing_group);
    sel_json_out_key(out, "loads");
    sel_json_out_array(out);

    n = known != NULL ? known->n_ranks : 0;

    for (i = 0; i < n; i++) {

        if (!service->scratch.loads[i].gone) {
            sel_loads_print(out, service->scratch.ranks[i],
                            service->scratch.loads[i].prefill_tokens,
                            sel_load_blocks(service->scratch.loads[i].blocks),
                            service->scratch.loads[i].requests);
        }
    }

    sel_json_out_array_end(out);
    sel_json_out_key(out, "pending_count");
    sel_json_out_u64(out, 0);
    sel_json_out_key(out, "pending_isl_tokens");
    sel_json_out_u64(out, 0);
    sel_json_out_object_end(out);

    return true;
}


/*
 * Makes all ranks of a partition candidates and reads their loads; with a
 * look-up (or NULL) also what its prompt shares with them.
 */

static bool
sel_loads_read(sel_service_t *service, const sel_view_partition_t *partition,
    const sel_lookup_t *lookup)
{
    uint32_t  i, n;

    n = partition->n_ranks;

    if (!sel_lookup_candidates(service, n)) {
        return false;
    }

    for (i = 0; i < n; i++) {
        sel_lookup_candidate(service, i, partition->ranks[i]);
    }

    if (lookup == NULL) {
        sel_books_read(service->zone, NULL, 0, service->scratch.loads, n);
        return true;
    }

    sel_books_read(service->zone, lookup->path, lookup->prompt.n_sequence,
                   service->scratch.loads, n);
    sel_lookup_loads(service, lookup, service->scratch.loads, n);

    return true;
}


static void
sel_loads_print(sel_json_out_t *out, const sel_view_rank_t *rank,
    uint64_t prefill_tokens, uint64_t decode_blocks, uint64_t active_requests)
{
    sel_json_out_object(out);
    sel_json_out_key(out, "worker_id");
    sel_json_out_u64(out, rank->worker_id);
    sel_json_out_key(out, "dp_rank");
    sel_json_out_u64(out, rank->dp_rank);
    sel_json_out_key(out, "potential_prefill_tokens");
    sel_json_out_u64(out, prefill_tokens);
    sel_json_out_key(out, "potential_decode_blocks");
    sel_json_out_u64(out, decode_blocks);
    sel_json_out_key(out, "active_requests");
    sel_json_out_u64(out, active_requests);
    sel_json_out_object_end(out);
}
