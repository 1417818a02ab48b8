#include "schedule/sel_pick.h"
#include "service/sel_eligible.h"
#include "service/sel_lookup.h"
#include "service/sel_select.h"


/* prefill tokens a worker can take at once when it did not say */
#define SEL_PREFILL_CAPACITY  10000000


typedef struct {
    const sel_select_body_t     *body;
    const sel_view_partition_t  *partition;
    const sel_view_rank_t       *rank;
    const sel_candidate_t       *candidate;
    sel_cost_settings_t          cost;
    sel_cost_prompt_t            prompt;
} sel_selection_t;


static void sel_select_print(const sel_service_t *service,
    const sel_route_settings_t *settings, const sel_selection_t *s,
    sel_buf_t *buf);
static void sel_select_print_overlap(sel_json_out_t *out,
    const sel_service_t *service, const sel_selection_t *s);
static void sel_select_print_load(sel_json_out_t *out,
    const sel_route_settings_t *settings, const sel_selection_t *s);
static uint32_t sel_select_tokens(uint32_t blocks, uint32_t block_size);


bool
sel_select(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_buf_t *buf, sel_fault_t *fault)
{
    uint32_t         i, n;
    sel_lookup_t     lookup;
    sel_selection_t  s;

    if (!sel_lookup(service, arena, body, true, &lookup, fault)
        || !sel_eligible(service, arena, lookup.partition, body, &n, fault))
    {
        return false;
    }

    s.body = body;
    s.partition = lookup.partition;
    s.prompt = sel_lookup_cost_prompt(&lookup);

    for (i = 0; i < n; i++) {
        service->scratch.candidates[i].new_blocks = s.prompt.tracked_blocks;
    }

    sel_select_settings(&settings->cost, body, &s.cost);

    sel_cost(&s.cost, &s.prompt, body->constraints.preferred_taints.n != 0,
             service->scratch.candidates, n);

    i = sel_pick(service->scratch.candidates, n, s.cost.temperature,
                 &service->random);

    s.rank = service->scratch.ranks[i];
    s.candidate = &service->scratch.candidates[i];

    sel_count(service->zone, SEL_COUNT_SELECTIONS, 1);

    if (s.candidate->device + s.candidate->host + s.candidate->disk == 0) {
        sel_count(service->zone, SEL_COUNT_SELECTIONS_COLD, 1);
    }

    sel_select_print(service, settings, &s, buf);

    return true;
}


void
sel_select_settings(const sel_cost_settings_t *settings,
    const sel_select_body_t *body, sel_cost_settings_t *out)
{
    const sel_override_t  *o;

    *out = *settings;
    o = &body->override;

    if ((o->given >> SEL_OVERRIDE_SCORE_CREDIT) & 1) {
        out->overlap_score_credit = o->overlap_score_credit;
    }

    if ((o->given >> SEL_OVERRIDE_LOAD_SCALE) & 1) {
        out->prefill_load_scale = o->prefill_load_scale;
    }

    if ((o->given >> SEL_OVERRIDE_TEMPERATURE) & 1) {
        out->temperature = o->router_temperature;
    }

    if ((o->given >> SEL_OVERRIDE_TRACK_PREFILL) & 1) {
        out->track_prefill_tokens = o->track_prefill_tokens;
    }
}


static void
sel_select_print(const sel_service_t *service,
    const sel_route_settings_t *settings, const sel_selection_t *s,
    sel_buf_t *buf)
{
    uint64_t             blocks;
    sel_json_out_t       out;
    const sel_worker_t  *worker;

    worker = &s->rank->worker->record;
    blocks = sel_cost_decode_blocks(&s->prompt, s->candidate);

    sel_json_out_init(&out, buf);
    sel_json_out_object(&out);

    if (sel_body_has(s->body, SEL_SELECT_ID)) {
        sel_json_out_key(&out, "selection_id");
        sel_json_out_str(&out, s->body->selection_id);
    }

    sel_json_out_key(&out, "model_name");
    sel_json_out_str(&out, s->partition->key.model_name);
    sel_json_out_key(&out, "routing_group");
    sel_json_out_str(&out, s->partition->key.routing_group);
    sel_json_out_key(&out, "worker_id");
    sel_json_out_u64(&out, worker->worker_id);
    sel_json_out_key(&out, "dp_rank");
    sel_json_out_u64(&out, s->rank->dp_rank);
    sel_json_out_key(&out, "endpoint");
    sel_json_out_str(&out, worker->endpoint);
    sel_json_out_key(&out, "block_size");
    sel_json_out_u64(&out, s->partition->key.block_size);

    sel_select_print_overlap(&out, service, s);

    sel_json_out_key(&out, "effective_prefill_tokens");
    sel_json_out_u64(&out, sel_cost_prefill_tokens(&s->cost, &s->prompt,
                                                   s->candidate));
    sel_json_out_key(&out, "potential_decode_blocks");
    sel_json_out_u64(&out, blocks);

    if (settings->decode_busy >= 0
        && sel_worker_has(worker, SEL_WORKER_KV_BLOCKS))
    {
        sel_json_out_key(&out, "decode_busy");
        sel_json_out_bool(&out, (double) blocks > settings->decode_busy
                                    * (double) worker->total_kv_blocks);
    }

    if (s->body->advisory) {
        sel_select_print_load(&out, settings, s);
    }

    sel_json_out_object_end(&out);
}


/*
 * Each number is the best rank's of the worker, so they may come from
 * different ones.  What reaches the disk is the longest.
 */

static void
sel_select_print_overlap(sel_json_out_t *out, const sel_service_t *service,
    const sel_selection_t *s)
{
    uint32_t                  i, block_size, gpu, cpu, disk;
    sel_overlap_t             o;
    const sel_view_worker_t  *worker;

    worker = s->rank->worker;
    block_size = s->partition->key.block_size;
    gpu = 0;
    cpu = 0;
    disk = 0;

    for (i = 0; i < worker->n_ranks; i++) {
        o = sel_lookup_overlap(service, worker->ranks[i]);
        gpu = sel_max(gpu, o.device);
        cpu = sel_max(cpu, o.device + o.host);
        disk = sel_max(disk, o.device + o.host + o.disk);
    }

    sel_json_out_key(out, "overlap");
    sel_json_out_object(out);
    sel_json_out_key(out, "longest_matched");
    sel_json_out_u64(out, sel_select_tokens(disk, block_size));
    sel_json_out_key(out, "gpu");
    sel_json_out_u64(out, sel_select_tokens(gpu, block_size));
    sel_json_out_key(out, "dp");
    sel_json_out_object(out);

    for (i = 0; i < worker->n_ranks; i++) {
        o = sel_lookup_overlap(service, worker->ranks[i]);
        sel_json_out_key_u64(out, worker->ranks[i]->dp_rank);
        sel_json_out_u64(out, sel_select_tokens(o.device, block_size));
    }

    sel_json_out_object_end(out);
    sel_json_out_key(out, "cpu");
    sel_json_out_u64(out, sel_select_tokens(cpu, block_size));
    sel_json_out_key(out, "disk");
    sel_json_out_u64(out, sel_select_tokens(disk, block_size));
    sel_json_out_object_end(out);
}


static uint32_t
sel_select_tokens(uint32_t blocks, uint32_t block_size)
{
    uint64_t  tokens;

    tokens = (uint64_t) blocks * block_size;

    return tokens > UINT32_MAX ? UINT32_MAX : (uint32_t) tokens;
}


static void
sel_select_print_load(sel_json_out_t *out,
    const sel_route_settings_t *settings, const sel_selection_t *s)
{
    uint64_t             capacity;
    const sel_worker_t  *worker;

    worker = &s->rank->worker->record;
    capacity = sel_worker_has(worker, SEL_WORKER_MAX_BATCHED_TOKENS)
               ? worker->max_num_batched_tokens : SEL_PREFILL_CAPACITY;

    sel_json_out_key(out, "worker_load");
    sel_json_out_object(out);
    sel_json_out_key(out, "active_prefill_tokens");
    sel_json_out_u64(out, s->candidate->prefill_tokens);
    sel_json_out_key(out, "prefill_token_capacity");
    sel_json_out_u64(out, capacity);

    if (sel_worker_has(worker, SEL_WORKER_KV_BLOCKS)) {
        sel_json_out_key(out, "total_kv_blocks");
        sel_json_out_u64(out, worker->total_kv_blocks);
    }

    if (settings->prefill_busy >= 0) {
        sel_json_out_key(out, "prefill_busy");
        sel_json_out_bool(out, (double) s->candidate->prefill_tokens
                               > settings->prefill_busy * (double) capacity);
    }

    sel_json_out_object_end(out);
}
