/*
 * A row for every rank of a schedulable worker and for every rank that only
 * the index knows, ordered by worker and rank.
 */

#include <stdlib.h>
#include "service/sel_select.h"
#include "service/sel_selection.h"


typedef struct {
    uint64_t       worker_id;
    uint32_t       dp_rank;
    sel_overlap_t  overlap;
} sel_overlap_row_t;


static sel_overlap_row_t *sel_overlap_rows(sel_service_t *service,
    sel_arena_t *arena, const sel_lookup_t *lookup, uint32_t *n);
static int sel_overlap_compare(const void *one, const void *two);
static void sel_overlap_print(sel_json_out_t *out,
    const sel_cost_settings_t *cost, const sel_overlap_row_t *row);


bool
sel_overlap_scores(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_buf_t *buf, sel_fault_t *fault)
{
    uint32_t              i, n;
    sel_lookup_t          lookup;
    sel_json_out_t        out;
    sel_overlap_row_t    *rows;
    sel_cost_settings_t   cost;

    if (!sel_lookup(service, arena, settings, body, SEL_PROMPT_FOR_LOOKUP,
                    &lookup, fault))
    {
        return false;
    }

    rows = sel_overlap_rows(service, arena, &lookup, &n);

    if (rows == NULL) {
        return sel_fault_memory(fault);
    }

    sel_select_settings(&settings->cost, body, &cost);

    sel_json_out_init(&out, buf);
    sel_json_out_object(&out);
    sel_json_out_key(&out, "block_size");
    sel_json_out_u64(&out, lookup.partition->key.block_size);
    sel_json_out_key(&out, "num_blocks");
    sel_json_out_u64(&out, lookup.prompt.n_blocks);
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
    const sel_lookup_t *lookup, uint32_t *n)
{
    uint32_t                     i, number;
    uint16_t                     owner;
    sel_scratch_t               *s;
    sel_view_rank_t             *rank;
    sel_overlap_row_t           *rows;
    const sel_view_partition_t  *partition;

    s = &service->scratch;
    partition = lookup->partition;
    rows = sel_arena_alloc(arena, ((size_t) partition->n_ranks + lookup->n)
                                  * sizeof(*rows));
    if (rows == NULL) {
        return NULL;
    }

    for (i = 0; i < partition->n_ranks; i++) {
        rank = partition->ranks[i];
        rows[i] = (sel_overlap_row_t) { rank->worker_id, rank->dp_rank,
                                        sel_lookup_overlap(service, rank) };

        if (rank->owner < s->n_matches) {
            s->found[rank->owner] = 0;
        }
    }

    *n = partition->n_ranks;

    /* what is left belongs to ranks that nobody registered */

    for (i = 0; i < lookup->n; i++) {
        owner = s->matches[i].owner;

        if (s->found[owner] != 0
            && sel_index_owner_key(service->index, owner, &number,
                                   &rows[*n].worker_id, &rows[*n].dp_rank))
        {
            rows[(*n)++].overlap = sel_lookup_match(&s->matches[i]);
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
    uint32_t              host;
    const sel_overlap_t  *o;

    o = &row->overlap;
    host = o->device + o->host;

    sel_json_out_object(out);
    sel_json_out_key(out, "worker_id");
    sel_json_out_u64(out, row->worker_id);
    sel_json_out_key(out, "dp_rank");
    sel_json_out_u64(out, row->dp_rank);
    sel_json_out_key(out, "device_blocks");
    sel_json_out_u64(out, o->device);
    sel_json_out_key(out, "host_pinned_blocks");
    sel_json_out_u64(out, host);
    sel_json_out_key(out, "disk_blocks");
    sel_json_out_u64(out, host + o->disk);
    sel_json_out_key(out, "host_pinned_extension_blocks");
    sel_json_out_u64(out, o->host);
    sel_json_out_key(out, "disk_extension_blocks");
    sel_json_out_u64(out, o->disk);
    sel_json_out_key(out, "shared_beyond_device_blocks");
    sel_json_out_null(out);
    sel_json_out_key(out, "router_credit_blocks");
    sel_json_out_f64(out, cost->overlap_score_credit * o->device
                          + cost->host_weight * o->host
                          + cost->disk_weight * o->disk);
    sel_json_out_object_end(out);
}
