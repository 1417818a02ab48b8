#include "core/sel_clock.h"
#include "schedule/sel_pick.h"
#include "service/sel_eligible.h"
#include "service/sel_selection.h"


static bool sel_selection_session(sel_selection_t *s, sel_arena_t *arena,
    sel_fault_t *fault);
static const sel_target_t *sel_selection_target(const sel_selection_t *s,
    sel_target_t *bound);
static uint32_t sel_selection_compact(sel_scratch_t *scratch,
    const sel_rank_load_t *loads, uint32_t n);
static uint32_t sel_selection_place(const sel_rank_load_t *loads, uint32_t i);


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


bool
sel_selection_begin(sel_selection_t *s, sel_service_t *service,
    sel_arena_t *arena, const sel_selecting_t *in, sel_fault_t *fault)
{
    sel_target_t         bound;
    const sel_target_t  *target;

    s->service = service;
    s->in = *in;
    service->choice.endpoint.data = NULL;

    if (!sel_selection_session(s, arena, fault)
        || !sel_lookup(service, arena, in->settings, in->body, in->use,
                       &s->lookup, fault)
        || !sel_eligible(service, arena, s->lookup.partition, in->body,
                         in->allow, &s->n, fault))
    {
        return false;
    }

    target = sel_selection_target(s, &bound);

    if (target != NULL) {
        s->n = sel_eligible_narrow(service, target, s->n);
    }

    s->prompt = sel_lookup_cost_prompt(&s->lookup);
    sel_select_settings(&in->settings->cost, in->body, &s->cost);

    /* requests without a prompt would weigh nothing */

    if (in->use == SEL_PROMPT_FOR_NOTHING) {
        s->cost.active_request_weight += 1;
    }

    return true;
}


/* The session is looked at before the prompt, once its partition is there;
   so it also counts for a reservation that fails. */

static bool
sel_selection_session(sel_selection_t *s, sel_arena_t *arena,
    sel_fault_t *fault)
{
    const sel_select_body_t     *body;
    const sel_view_partition_t  *partition;

    body = s->in.body;
    s->session = sel_session_id(s->service, body);
    s->binding = (sel_binding_t) { 0, 0, 0 };

    if (s->session.data == NULL) {
        return true;
    }

    partition = sel_service_partition(s->service, arena, body->model_name,
                                      body->routing_group, fault);
    if (partition == NULL) {
        return false;
    }

    if (s->session.len > SEL_SESSION_MAX_ID) {
        return sel_session_too_long(arena, fault);
    }

    s->binding = (s->in.books ? sel_session_use : sel_session_find)(
                     s->service->zone, partition->key.number, s->session,
                     sel_clock_ns());
    return true;
}


/* The target that the request gives, or its session; NULL: none. */

static const sel_target_t *
sel_selection_target(const sel_selection_t *s, sel_target_t *bound)
{
    const sel_select_body_t  *body;

    body = s->in.body;

    if (sel_body_has(body, SEL_SELECT_PINNED)) {
        return NULL;
    }

    if (sel_body_has(body, SEL_SELECT_AFFINITY)) {
        return &body->affinity_target;
    }

    return sel_session_target(&s->binding, bound) ? bound : NULL;
}


uint32_t
sel_selection_choose(void *data, sel_booking_t *booking,
    const sel_rank_load_t *loads, uint32_t n)
{
    uint32_t          i;
    sel_scratch_t    *scratch;
    sel_selection_t  *s;

    s = data;
    scratch = &s->service->scratch;

    sel_lookup_loads(s->service, &s->lookup, loads, n);

    n = sel_selection_compact(scratch, loads, n);

    if (n == 0) {
        return SEL_CHOOSE_NONE;
    }

    sel_cost(&s->cost, &s->prompt,
             s->in.body->constraints.preferred_taints.n != 0,
             scratch->candidates, n);

    i = sel_pick(scratch->candidates, n, s->cost.temperature,
                 &s->service->random);

    s->rank = scratch->ranks[i];
    s->candidate = scratch->candidates[i];
    s->prefill_tokens = sel_cost_prefill_tokens(&s->cost, &s->prompt,
                                                &s->candidate);

    if (booking != NULL && s->cost.track_prefill_tokens
        && s->in.use != SEL_PROMPT_FOR_NOTHING)
    {
        booking->prefill_tokens = s->prefill_tokens;
    }

    return sel_selection_place(loads, i);
}


/* Takes ranks out that went since the view was read. */

static uint32_t
sel_selection_compact(sel_scratch_t *scratch, const sel_rank_load_t *loads,
    uint32_t n)
{
    uint32_t  i, live;

    for (i = 0, live = 0; i < n; i++) {

        if (!loads[i].gone) {
            scratch->ranks[live] = scratch->ranks[i];
            scratch->candidates[live] = scratch->candidates[i];
            live++;
        }
    }

    return live;
}


/* Where the rank with number i of those that are not gone stands. */

static uint32_t
sel_selection_place(const sel_rank_load_t *loads, uint32_t i)
{
    uint32_t  place;

    for (place = 0; loads[place].gone || i-- != 0; place++) { /* void */ }

    return place;
}


bool
sel_selection_done(const sel_selection_t *s, sel_arena_t *arena, sel_str_t id)
{
    uint64_t                overlap;
    sel_service_t          *service;
    const sel_candidate_t  *candidate;
    const sel_view_rank_t  *rank;

    rank = s->rank;
    service = s->service;
    candidate = &s->candidate;
    overlap = (uint64_t) candidate->device + candidate->host
              + candidate->disk;

    sel_count(service->zone, SEL_COUNT_SELECTIONS, 1);

    if (overlap == 0) {
        sel_count(service->zone, SEL_COUNT_SELECTIONS_COLD, 1);
    }

    service->choice = (sel_choice_t) {
        .worker_id = rank->worker_id,
        .dp_rank = rank->dp_rank,
        .epoch = rank->epoch,
        .slot = rank->slot,
        .block_size = s->prompt.block_size,
        .ranks = s->lookup.partition->n_ranks,
        .by_session = s->binding.revision != 0
                      && s->binding.worker_id == rank->worker_id
                      && s->binding.dp_rank == rank->dp_rank,
        .device_blocks = candidate->device,
        .overlap_tokens = overlap * s->prompt.block_size,
        .prefill_tokens = s->prefill_tokens,
        .id = id,
        .endpoint = sel_arena_str(arena, rank->worker->record.endpoint)
    };

    return service->choice.endpoint.data != NULL;
}
