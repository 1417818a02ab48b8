#include "service/sel_worker.h"


static void sel_worker_print_text(sel_json_out_t *out,
    const sel_worker_t *worker, sel_worker_member_t member, sel_str_t value);
static void sel_worker_print_number(sel_json_out_t *out,
    const sel_worker_t *worker, sel_worker_member_t member, uint64_t value);
static void sel_worker_print_bool(sel_json_out_t *out,
    const sel_worker_t *worker, sel_worker_member_t member, bool value);
static void sel_worker_print_taints(sel_json_out_t *out,
    const sel_worker_t *worker);
static void sel_worker_print_map(sel_json_out_t *out,
    sel_worker_member_t member, const sel_map_t *map);
static void sel_worker_print_transfer(sel_json_out_t *out,
    const sel_worker_t *worker);
static void sel_worker_print_hints(sel_json_out_t *out,
    const sel_worker_t *worker);
static void sel_worker_print_reasons(sel_json_out_t *out,
    char *const *reasons);


void
sel_worker_print(sel_buf_t *buf, const sel_worker_t *worker,
    const char *lifecycle, char *const *reasons)
{
    sel_json_out_t  out;

    sel_json_out_init(&out, buf);
    sel_json_out_object(&out);

    sel_json_out_key(&out, "worker_id");
    sel_json_out_u64(&out, worker->worker_id);
    sel_json_out_key(&out, "model_name");
    sel_json_out_str(&out, worker->model_name);
    sel_json_out_key(&out, "routing_group");
    sel_json_out_str(&out, worker->routing_group);
    sel_json_out_key(&out, "lifecycle");
    sel_json_out_text(&out, lifecycle);

    sel_worker_print_text(&out, worker, SEL_WORKER_ENDPOINT,
                          worker->endpoint);
    sel_worker_print_text(&out, worker, SEL_WORKER_EVENTS_ENDPOINT,
                          worker->kv_events_endpoint);

    if (worker->kv_events_endpoints.n) {
        sel_worker_print_map(&out, SEL_WORKER_EVENTS_ENDPOINTS,
                             &worker->kv_events_endpoints);
    }

    sel_worker_print_text(&out, worker, SEL_WORKER_REPLAY_ENDPOINT,
                          worker->replay_endpoint);
    sel_worker_print_number(&out, worker, SEL_WORKER_BLOCK_SIZE,
                            worker->block_size);
    sel_worker_print_number(&out, worker, SEL_WORKER_START_RANK,
                            worker->start_rank);
    sel_worker_print_number(&out, worker, SEL_WORKER_DP_SIZE,
                            worker->dp_size);
    sel_worker_print_number(&out, worker, SEL_WORKER_MAX_BATCHED_TOKENS,
                            worker->max_num_batched_tokens);
    sel_worker_print_number(&out, worker, SEL_WORKER_KV_BLOCKS,
                            worker->total_kv_blocks);
    sel_worker_print_text(&out, worker, SEL_WORKER_STABLE_ID,
                          worker->stable_routing_id);

    sel_worker_print_bool(&out, worker, SEL_WORKER_IS_EAGLE,
                          worker->is_eagle);
    sel_worker_print_taints(&out, worker);
    sel_worker_print_map(&out, SEL_WORKER_TOPOLOGY,
                         &worker->topology_domains);
    sel_worker_print_transfer(&out, worker);
    sel_worker_print_hints(&out, worker);
    sel_worker_print_reasons(&out, reasons);
    sel_json_out_object_end(&out);
}


static void
sel_worker_print_text(sel_json_out_t *out, const sel_worker_t *worker,
    sel_worker_member_t member, sel_str_t value)
{
    sel_json_out_key(out, sel_worker_member_name(member));

    if (sel_worker_has(worker, member)) {
        sel_json_out_str(out, value);

    } else {
        sel_json_out_null(out);
    }
}


static void
sel_worker_print_number(sel_json_out_t *out, const sel_worker_t *worker,
    sel_worker_member_t member, uint64_t value)
{
    sel_json_out_key(out, sel_worker_member_name(member));

    if (sel_worker_has(worker, member)) {
        sel_json_out_u64(out, value);

    } else {
        sel_json_out_null(out);
    }
}


static void
sel_worker_print_bool(sel_json_out_t *out, const sel_worker_t *worker,
    sel_worker_member_t member, bool value)
{
    sel_json_out_key(out, sel_worker_member_name(member));

    if (sel_worker_has(worker, member)) {
        sel_json_out_bool(out, value);

    } else {
        sel_json_out_null(out);
    }
}


static void
sel_worker_print_taints(sel_json_out_t *out, const sel_worker_t *worker)
{
    uint32_t  i;

    sel_json_out_key(out, sel_worker_member_name(SEL_WORKER_TAINTS));
    sel_json_out_array(out);

    for (i = 0; i < worker->taints.n; i++) {
        sel_json_out_str(out, worker->taints.data[i]);
    }

    sel_json_out_array_end(out);
}


static void
sel_worker_print_map(sel_json_out_t *out, sel_worker_member_t member,
    const sel_map_t *map)
{
    uint32_t  i;

    sel_json_out_key(out, sel_worker_member_name(member));
    sel_json_out_object(out);

    for (i = 0; i < map->n; i++) {
        sel_json_out_key_str(out, map->data[i].key);
        sel_json_out_str(out, map->data[i].value);
    }

    sel_json_out_object_end(out);
}


static void
sel_worker_print_transfer(sel_json_out_t *out, const sel_worker_t *worker)
{
    sel_worker_print_text(out, worker, SEL_WORKER_TRANSFER_DOMAIN,
                          worker->kv_transfer_domain);
    sel_worker_print_text(out, worker, SEL_WORKER_TRANSFER_ENFORCEMENT,
                          sel_cstr(sel_worker_enforcements[
                                       worker->kv_transfer_enforcement]));

    sel_json_out_key(out, sel_worker_member_name(SEL_WORKER_TRANSFER_WEIGHT));

    if (sel_worker_has(worker, SEL_WORKER_TRANSFER_WEIGHT)) {
        sel_json_out_f32(out, worker->kv_transfer_preferred_weight);

    } else {
        sel_json_out_null(out);
    }
}


/* These are left out rather than null. */

static void
sel_worker_print_hints(sel_json_out_t *out, const sel_worker_t *worker)
{
    if (sel_worker_has(worker, SEL_WORKER_HINT_TYPE)) {
        sel_worker_print_text(out, worker, SEL_WORKER_HINT_TYPE,
                              worker->router_hint_worker_type);
    }

    if (worker->router_hint_source_control_endpoints.n) {
        sel_worker_print_map(out, SEL_WORKER_HINT_ENDPOINTS,
                             &worker->router_hint_source_control_endpoints);
    }

    if (sel_worker_has(worker, SEL_WORKER_EVENT_MODE)) {
        sel_worker_print_text(out, worker, SEL_WORKER_EVENT_MODE,
                              worker->kv_event_source_mode);
    }
}


static void
sel_worker_print_reasons(sel_json_out_t *out, char *const *reasons)
{
    if (reasons == NULL || *reasons == NULL) {
        return;
    }

    sel_json_out_key(out, "not_schedulable_reasons");
    sel_json_out_array(out);

    for ( /* void */ ; *reasons != NULL; reasons++) {
        sel_json_out_text(out, *reasons);
    }

    sel_json_out_array_end(out);
}
