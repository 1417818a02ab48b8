/*
 * A row for every rank of a schedulable worker and for every rank that only
 * the index knows, ordered by worker and rank.
 */

#include <stdlib.h>
#include "service/sel_lookup.h"
#include "service/sel_select.h"


typedef struct {
    uint64_t  worker_id;
    uint32_t  dp_rank;
    uint32_t  blocks;
} sel_overlap_row_t;


static sel_overlap_row_t *sel_overlap_rows(sel_service_t *service,
    sel_arena_t *arena, const sel_view_partition_t *partition,
    uint32_t matches, uint32_t *n);
static int sel_overlap_compare(const void *one, const void *two);
static void sel_overlap_print(sel_json_out_t *out,
    const sel_cost_settings_t *cost, const sel_overlap_row_t *row);


bool
sel_overlap_scores(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_buf_t *buf, sel_fault_t *fault)
{
    uint32_t               i, n, matches;
    sel_prompt_t           prompt;
    sel_json_out_t         out;
    sel_overlap_row_t     *rows;
    sel_cost_settings_t    cost;
    sel_view_partition_t  *partition;

    partition = sel_service_partition(service, arena, body->model_name,
                                      body->routing_group, fault);
    if (partition == NULL) {
        return false;
    }

    if (!sel_prompt_read(partition, arena, body, false, &prompt, fault)) {
        return false;
    }

    if (!sel_lookup(service, partition, &prompt, &matches)) {
        return sel_fault_memory(fault);
    }

    rows = sel_overlap_rows(service, arena, partition, matches, &n);

    if (rows == NULL) {
        return sel_fault_memory(fault);
    }

    sel_select_settings(&settings->cost, body, &cost);

    sel_json_out_init(&out, buf);
    sel_json_out_object(&out);
    sel_json_out_key(&out, "block_size");
    sel_json_out_u64(&out, partition->key.block_size);
    sel_json_out_key(&out, "num_blocks");
    sel_json_out_u64(&out, prompt.n_blocks);
    sel_json_out_key(&out, "workers");
    sel_json_out_array(&out);

    for (i = 0; i < n; i++) {
        sel_overlap_print(&out, &cost, &rows[i]);
    }

    sel_json_out_array_end(&out);
    sel_json_out_key(&out, "shared_cache");
    sel_json_out_object(&out);
    sel_json_out_key(&out, "enabled");
    sel_json_out_bool(&out, false);
    sel_json_out_key(&out, "total_hit_blocks");
    sel_json_out_u64(&out, 0);
    sel_json_out_key(&out, "ranges");
    sel_json_out_array(&out);
    sel_json_out_array_end(&out);
    sel_json_out_key(&out, "error");
    sel_json_out_null(&out);
    sel_json_out_object_end(&out);
    sel_json_out_object_end(&out);

    return true;
}


static sel_overlap_row_t *
sel_overlap_rows(sel_service_t *service, sel_arena_t *arena,
    const sel_view_partition_t *partition, uint32_t matches, uint32_t *n)
{
    uint32_t            i, number;
    uint16_t            owner;
    sel_scratch_t      *s;
    sel_view_rank_t    *rank;
    sel_overlap_row_t  *rows;

    s = &service->scratch;
    rows = sel_arena_alloc(arena, ((size_t) partition->n_ranks + matches)
                                  * sizeof(*rows));
    if (rows == NULL) {
        return NULL;
    }

    for (i = 0; i < partition->n_ranks; i++) {
        rank = partition->ranks[i];
        rows[i] = (sel_overlap_row_t) { rank->worker_id, rank->dp_rank,
                                        sel_lookup_depth(service, rank) };

        if (rank->owner < s->n_matches) {
            s->depth[rank->owner] = 0;
        }
    }

    *n = partition->n_ranks;

    /* what is left belongs to ranks that nobody registered */

    for (i = 0; i < matches; i++) {
        owner = s->matches[i].owner;

        if (s->depth[owner] != 0
            && sel_index_owner_key(service->index, owner, &number,
                                   &rows[*n].worker_id, &rows[*n].dp_rank))
        {
            rows[(*n)++].blocks = s->depth[owner];
        }
    }

    if (*n > partition->n_ranks) {
        qsort(rows, *n, sizeof(*rows), sel_overlap_compare);
    }

    return rows;
}


static int
sel_overlap_compare(const void *one, const void *two)
{
    const sel_overlap_row_t  *a, *b;

    a = one;
    b = two;

    if (a->worker_id != b->worker_id) {
        return a->worker_id < b->worker_id ? -1 : 1;
    }

    return (a->dp_rank > b->dp_rank) - (a->dp_rank < b->dp_rank);
}


static void
sel_overlap_print(sel_json_out_t *out, const sel_cost_settings_t *cost,
    const sel_overlap_row_t *row)
{
    sel_json_out_object(out);
    sel_json_out_key(out, "worker_id");
    sel_json_out_u64(out, row->worker_id);
    sel_json_out_key(out, "dp_rank");
    sel_json_out_u64(out, row->dp_rank);
    sel_json_out_key(out, "device_blocks");
    sel_json_out_u64(out, row->blocks);
    sel_json_out_key(out, "host_pinned_blocks");
    sel_json_out_u64(out, row->blocks);
    sel_json_out_key(out, "disk_blocks");
    sel_json_out_u64(out, row->blocks);
    sel_json_out_key(out, "host_pinned_extension_blocks");
    sel_json_out_u64(out, 0);
    sel_json_out_key(out, "disk_extension_blocks");
    sel_json_out_u64(out, 0);
    sel_json_out_key(out, "shared_beyond_device_blocks");
    sel_json_out_null(out);
    sel_json_out_key(out, "router_credit_blocks");
    sel_json_out_f64(out, cost->overlap_score_credit * row->blocks);
    sel_json_out_object_end(out);
}
