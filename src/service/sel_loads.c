#include "service/sel_loads.h"
#include "service/sel_lookup.h"
#include "service/sel_select.h"


static void sel_loads_print(sel_json_out_t *out, const sel_view_rank_t *rank,
    uint64_t prefill_tokens, uint64_t decode_blocks,
    uint64_t active_requests);


bool
sel_potential_loads(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_buf_t *buf, sel_fault_t *fault)
{
    uint32_t                i;
    uint64_t                prefill_tokens;
    sel_lookup_t            lookup;
    sel_json_out_t          out;
    sel_candidate_t         candidate;
    sel_cost_prompt_t       prompt;
    sel_cost_settings_t     cost;
    const sel_view_rank_t  *rank;

    if (!sel_lookup(service, arena, body, false, &lookup, fault)) {
        return false;
    }

    prompt = sel_lookup_cost_prompt(&lookup);
    sel_select_settings(&settings->cost, body, &cost);

    sel_json_out_init(&out, buf);
    sel_json_out_array(&out);

    for (i = 0; i < lookup.partition->n_ranks; i++) {
        rank = lookup.partition->ranks[i];
        candidate = sel_lookup_candidate(service, rank);
        prefill_tokens = cost.track_prefill_tokens
                         ? sel_cost_prefill_tokens(&cost, &prompt, &candidate)
                         : 0;

        sel_loads_print(&out, rank, prefill_tokens, prompt.tracked_blocks, 0);
    }

    sel_json_out_array_end(&out);

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
