#include "core/sel_json_write.h"
#include "service/sel_selection.h"


/* prefill tokens a worker can take at once when it did not say */
#define SEL_PREFILL_CAPACITY  10000000


static void sel_selection_print_booked(sel_json_out_t *out,
    const sel_selection_t *s);
static void sel_selection_print_overlap(sel_json_out_t *out,
    const sel_selection_t *s);
static void sel_selection_print_load(sel_json_out_t *out,
    const sel_selection_t *s);
static uint32_t sel_selection_tokens(uint32_t blocks, uint32_t block_size);


void
sel_selection_print(const sel_selection_t *s, sel_str_t id, bool booked,
    sel_buf_t *buf)
{
    uint64_t             blocks;
    sel_json_out_t       out;
    const sel_worker_t  *worker;

    worker = &s->rank->worker->record;
    blocks = sel_cost_decode_blocks(&s->prompt, &s->candidate);

    sel_json_out_init(&out, buf);
    sel_json_out_object(&out);

    if (id.data != NULL) {
        sel_json_out_key(&out, "selection_id");
        sel_json_out_str(&out, id);
    }

    if (booked) {
        sel_selection_print_booked(&out, s);
    }

    sel_json_out_key(&out, "model_name");
    sel_json_out_str(&out, s->lookup.partition->key.model_name);
    sel_json_out_key(&out, "routing_group");
    sel_json_out_str(&out, s->lookup.partition->key.routing_group);
    sel_json_out_key(&out, "worker_id");
    sel_json_out_u64(&out, worker->worker_id);
    sel_json_out_key(&out, "dp_rank");
    sel_json_out_u64(&out, s->rank->dp_rank);
    sel_json_out_key(&out, "endpoint");
    sel_json_out_str(&out, worker->endpoint);
    sel_json_out_key(&out, "block_size");
    sel_json_out_u64(&out, s->prompt.block_size);

    sel_selection_print_overlap(&out, s);

    sel_json_out_key(&out, "effective_prefill_tokens");
    sel_json_out_u64(&out, s->prefill_tokens);
    sel_json_out_key(&out, "potential_decode_blocks");
    sel_json_out_u64(&out, blocks);

    if (s->in.settings->decode_busy >= 0
        && sel_worker_has(worker, SEL_WORKER_KV_BLOCKS))
    {
        sel_json_out_key(&out, "decode_busy");
        sel_json_out_bool(&out, (double) blocks > s->in.settings->decode_busy
                                    * (double) worker->total_kv_blocks);
    }

    if (s->in.body->advisory) {
        sel_selection_print_load(&out, s);
    }

    sel_json_out_object_end(&out);
}


static void
sel_selection_print_booked(sel_json_out_t *out, const sel_selection_t *s)
{
    uint32_t             i;
    const sel_prompt_t  *prompt;

    prompt = &s->lookup.prompt;

    sel_json_out_key(out, "sequence_hashes");
    sel_json_out_array(out);

    for (i = 0; i < prompt->n_sequence; i++) {
        sel_json_out_i64(out, (int64_t) prompt->sequence[i]);
    }

    sel_json_out_array_end(out);
    sel_json_out_key(out, "isl_tokens");
    sel_json_out_u64(out, prompt->isl_tokens);
    sel_json_out_key(out, "track_prefill_tokens");
    sel_json_out_bool(out, s->cost.track_prefill_tokens);
}


/*
 * Each number is the best rank's of the worker, so they may come from
 * different ones.  What reaches the disk is the longest.
 */

static void
sel_selection_print_overlap(sel_json_out_t *out, const sel_selection_t *s)
{
    uint32_t                  i, block_size, gpu, cpu, disk;
    sel_overlap_t             o;
    const sel_view_worker_t  *worker;

    worker = s->rank->worker;
    block_size = s->prompt.block_size;
    gpu = 0;
    cpu = 0;
    disk = 0;

    for (i = 0; i < worker->n_ranks; i++) {
        o = sel_lookup_overlap(s->service, worker->ranks[i]);
        gpu = sel_max(gpu, o.device);
        cpu = sel_max(cpu, o.device + o.host);
        disk = sel_max(disk, o.device + o.host + o.disk);
    }

    sel_json_out_key(out, "overlap");
    sel_json_out_object(out);
    sel_json_out_key(out, "longest_matched");
    sel_json_out_u64(out, sel_selection_tokens(disk, block_size));
    sel_json_out_key(out, "gpu");
    sel_json_out_u64(out, sel_selection_tokens(gpu, block_size));
    sel_json_out_key(out, "dp");
    sel_json_out_object(out);

    for (i = 0; i < worker->n_ranks; i++) {
        o = sel_lookup_overlap(s->service, worker->ranks[i]);
        sel_json_out_key_u64(out, worker->ranks[i]->dp_rank);
        sel_json_out_u64(out, sel_selection_tokens(o.device, block_size));
    }

    sel_json_out_object_end(out);
    sel_json_out_key(out, "cpu");
    sel_json_out_u64(out, sel_selection_tokens(cpu, block_size));
    sel_json_out_key(out, "disk");
    sel_json_out_u64(out, sel_selection_tokens(disk, block_size));
    sel_json_out_object_end(out);
}


static uint32_t
sel_selection_tokens(uint32_t blocks, uint32_t block_size)
{
    uint64_t  tokens;

    tokens = (uint64_t) blocks * block_size;

    return tokens > UINT32_MAX ? UINT32_MAX : (uint32_t) tokens;
}


static void
sel_selection_print_load(sel_json_out_t *out, const sel_selection_t *s)
{
    uint64_t             tokens, capacity;
    const sel_worker_t  *worker;

    worker = &s->rank->worker->record;
    tokens = s->candidate.prefill_tokens;
    capacity = sel_worker_has(worker, SEL_WORKER_MAX_BATCHED_TOKENS)
               ? worker->max_num_batched_tokens : SEL_PREFILL_CAPACITY;

    sel_json_out_key(out, "worker_load");
    sel_json_out_object(out);
    sel_json_out_key(out, "active_prefill_tokens");
    sel_json_out_u64(out, tokens);
    sel_json_out_key(out, "prefill_token_capacity");
    sel_json_out_u64(out, capacity);

    if (sel_worker_has(worker, SEL_WORKER_KV_BLOCKS)) {
        sel_json_out_key(out, "total_kv_blocks");
        sel_json_out_u64(out, worker->total_kv_blocks);
    }

    if (s->in.settings->prefill_busy >= 0) {
        sel_json_out_key(out, "prefill_busy");
        sel_json_out_bool(out, (double) tokens > s->in.settings->prefill_busy
                                                 * (double) capacity);
    }

    sel_json_out_object_end(out);
}
