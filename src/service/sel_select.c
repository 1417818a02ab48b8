#include "core/sel_clock.h"
#include "core/sel_json_write.h"
#include "service/sel_reserve.h"
#include "service/sel_select.h"
#include "service/sel_selection.h"


static bool sel_select_best(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_selection_t *s, sel_fault_t *fault);
static void sel_select_keep(const sel_selection_t *s);
static uint64_t sel_select_size(const sel_selection_t *s,
    const sel_pending_t *pending);


bool
sel_select(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_buf_t *buf, sel_fault_t *fault)
{
    sel_str_t        id;
    sel_selection_t  s;

    if (!sel_reserve_check_id(arena, body->selection_id, fault)
        || !sel_select_best(service, arena, settings, body, &s, fault))
    {
        return false;
    }

    id = sel_body_has(body, SEL_SELECT_ID) ? body->selection_id
                                           : (sel_str_t) { 0, NULL };

    if (!sel_selection_done(&s, arena, id)) {
        return sel_fault_memory(fault);
    }

    if (id.data != NULL) {
        sel_select_keep(&s);
    }

    sel_selection_print(&s, id, false, buf);

    return true;
}


bool
sel_best_worker(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_buf_t *buf, sel_fault_t *fault)
{
    sel_selection_t  s;
    sel_json_out_t   out;

    if (!sel_select_best(service, arena, settings, body, &s, fault)) {
        return false;
    }

    if (!sel_selection_done(&s, arena, (sel_str_t) { 0, NULL })) {
        return sel_fault_memory(fault);
    }

    sel_json_out_init(&out, buf);
    sel_json_out_object(&out);
    sel_json_out_key(&out, "worker_id");
    sel_json_out_u64(&out, s.rank->worker_id);
    sel_json_out_key(&out, "dp_rank");
    sel_json_out_u64(&out, s.rank->dp_rank);
    sel_json_out_key(&out, "overlap_blocks");
    sel_json_out_u64(&out, s.candidate.device);
    sel_json_out_object_end(&out);

    return true;
}


static bool
sel_select_best(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_selection_t *s, sel_fault_t *fault)
{
    uint32_t          tries;
    sel_selecting_t   in;
    sel_rank_load_t  *loads;

    in = (sel_selecting_t) {
        settings, body, SEL_PROMPT_FOR_SELECT, NULL, false
    };

    for (tries = 0; tries < SEL_RESERVE_TRIES; tries++) {

        if (!sel_selection_begin(s, service, arena, &in, fault))
        {
            return false;
        }

        loads = service->scratch.loads;
        sel_books_read(service->zone, s->lookup.path,
                       s->lookup.prompt.n_sequence, loads, s->n);

        if (sel_selection_choose(s, NULL, loads, s->n) != SEL_CHOOSE_NONE) {
            return true;
        }
    }

    return sel_reserve_unsteady(arena, fault);
}


/* Keeps the selection for a reservation that replays it. */

static void
sel_select_keep(const sel_selection_t *s)
{
    sel_pending_t         pending;
    const sel_prompt_t   *prompt;
    const sel_service_t  *service;

    service = s->service;
    prompt = &s->lookup.prompt;

    pending = (sel_pending_t) {
        .id = s->in.body->selection_id,
        .partition = s->lookup.partition->key.number,
        .dp_rank = s->rank->dp_rank,
        .worker_id = s->rank->worker_id,
        .isl_tokens = prompt->isl_tokens,
        .prefill_tokens = s->prefill_tokens,
        .tracked = s->cost.track_prefill_tokens,
        .expected_output_tokens = s->in.body->expected_output_tokens,
        .n_blocks = prompt->n_sequence,
        .sequence = prompt->sequence,
        .n_hashes = sel_service_records(service) ? prompt->n_blocks : 0,
        .hashes = prompt->blocks,
        .lora_name = s->in.body->prompt.lora_name,
        .session_id = s->session,
        .made = sel_clock_ns()
    };

    pending.size = sel_select_size(s, &pending);

    (void) sel_pending_put(service->zone, &pending,
                           &service->settings.pending);
}


/* The estimate that select_pending's size is compared with. */

static uint64_t
sel_select_size(const sel_selection_t *s, const sel_pending_t *pending)
{
    const sel_partition_t  *key;

    key = &s->lookup.partition->key;

    return ((uint64_t) pending->n_blocks + pending->n_hashes)
           * sizeof(uint64_t)
           + pending->id.len + key->model_name.len + key->routing_group.len
           + pending->lora_name.len + pending->session_id.len;
}
