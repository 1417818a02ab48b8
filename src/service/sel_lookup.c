#include <stdlib.h>
#include "service/sel_learn.h"
#include "service/sel_lookup.h"


static void sel_lookup_decided(sel_service_t *service, sel_lookup_t *lookup);
static void sel_lookup_side(sel_service_t *service, sel_lookup_t *lookup,
    const sel_index_match_t *side);
static bool sel_lookup_grow(void *array, uint32_t n, size_t size);
static bool sel_lookup_room(sel_scratch_t *s, uint32_t limit);


bool
sel_lookup(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_prompt_use_t use, sel_lookup_t *lookup, sel_fault_t *fault)
{
    uint32_t        i;
    sel_prompt_t   *prompt;
    sel_scratch_t  *s;

    s = &service->scratch;
    prompt = &lookup->prompt;

    (void) sel_learn(service);

    lookup->partition = sel_service_partition(service, arena,
                                              body->model_name,
                                              body->routing_group, fault);
    if (lookup->partition == NULL
        || !sel_lookup_prompt(service, arena, settings, body, use, lookup,
                              fault))
    {
        return false;
    }

    if (!sel_lookup_room(s, sel_index_owner_limit(service->index))) {
        return sel_fault_memory(fault);
    }

    if (s->n_matches != 0) {
        memset(s->found, 0, s->n_matches * sizeof(*s->found));
    }

    lookup->n = sel_index_match(service->index, lookup->partition->key.number,
                                prompt->blocks, prompt->n_blocks, s->matches,
                                s->n_matches);

    for (i = 0; i < lookup->n; i++) {
        s->found[s->matches[i].owner] = i + 1;
        s->matched[s->matches[i].owner]++;
    }

    sel_lookup_decided(service, lookup);

    lookup->partition->queries += (prompt->n_blocks != 0);

    return true;
}


/*
 * Adds to the matches what decisions say of the same prompt: each rank has
 * the more of both on the device.
 */

static void
sel_lookup_decided(sel_service_t *service, sel_lookup_t *lookup)
{
    uint32_t            i, n;
    sel_index_match_t  *side;

    if (service->learn.recent == NULL || !service->settings.kv_events) {
        return;
    }

    side = service->scratch.side;

    n = sel_index_match(service->index,
                        lookup->partition->key.number | SEL_VIEW_SIDE,
                        lookup->prompt.blocks, lookup->prompt.n_blocks,
                        side, service->scratch.n_matches);

    for (i = 0; i < n; i++) {
        sel_lookup_side(service, lookup, &side[i]);
    }
}


static void
sel_lookup_side(sel_service_t *service, sel_lookup_t *lookup,
    const sel_index_match_t *side)
{
    uint16_t            owner;
    uint32_t            partition, dp_rank;
    uint64_t            worker_id;
    sel_scratch_t      *s;
    sel_index_match_t  *match;

    s = &service->scratch;

    if (!sel_index_owner_key(service->index, side->owner, &partition,
                             &worker_id, &dp_rank))
    {
        return;
    }

    owner = sel_index_find_owner(service->index, partition & ~SEL_VIEW_SIDE,
                                 worker_id, dp_rank);

    if (owner >= s->n_matches) {
        return;
    }

    if (s->found[owner] == 0) {
        match = &s->matches[lookup->n++];
        *match = (sel_index_match_t) { .owner = owner };
        s->found[owner] = lookup->n;
    }

    match = &s->matches[s->found[owner] - 1];
    match->hits[SEL_TIER_DEVICE] = sel_max(match->hits[SEL_TIER_DEVICE],
                                           side->hits[SEL_TIER_DEVICE]);
}


bool
sel_lookup_prompt(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_prompt_use_t use, sel_lookup_t *lookup, sel_fault_t *fault)
{
    bool           reuse;
    uint64_t      *path;
    sel_prompt_t  *prompt;

    prompt = &lookup->prompt;

    reuse = (body->override.given >> SEL_OVERRIDE_KV_REUSE) & 1
            ? body->override.assume_kv_reuse : settings->assume_kv_reuse;

    if (!sel_prompt_read(lookup->partition, arena, body, use,
                         reuse ? NULL : &service->random, prompt, fault))
    {
        return false;
    }

    if (!settings->track_blocks) {
        prompt->n_sequence = 0;
    }

    if (!settings->look_up) {
        prompt->n_blocks = 0;
    }

    path = sel_arena_alloc(arena, prompt->n_sequence * sizeof(uint64_t));

    if (path == NULL) {
        return sel_fault_memory(fault);
    }

    sel_path_keys(lookup->partition->key.number, prompt->sequence,
                  prompt->n_sequence, path);
    lookup->path = path;

    return true;
}


/* Gives an array of the scratch room for n elements; false: as it was. */

static bool
sel_lookup_grow(void *array, uint32_t n, size_t size)
{
    void  *p;

    memcpy(&p, array, sizeof(p));
    p = realloc(p, n * size);

    if (p == NULL) {
        return false;
    }

    memcpy(array, &p, sizeof(p));

    return true;
}


static bool
sel_lookup_room(sel_scratch_t *s, uint32_t limit)
{
    if (limit <= s->n_matches) {
        return true;
    }

    if (!sel_lookup_grow(&s->matches, limit, sizeof(*s->matches))
        || !sel_lookup_grow(&s->side, limit, sizeof(*s->side))
        || !sel_lookup_grow(&s->found, limit, sizeof(*s->found))
        || !sel_lookup_grow(&s->matched, limit, sizeof(*s->matched)))
    {
        return false;
    }

    memset(s->matched + s->n_matches, 0,
           (limit - s->n_matches) * sizeof(*s->matched));
    s->n_matches = limit;

    return true;
}


bool
sel_lookup_candidates(sel_service_t *service, uint32_t n)
{
    sel_scratch_t  *s;

    s = &service->scratch;

    if (n <= s->n_candidates) {
        return true;
    }

    if (!sel_lookup_grow(&s->candidates, n, sizeof(*s->candidates))
        || !sel_lookup_grow(&s->ranks, n, sizeof(*s->ranks))
        || !sel_lookup_grow(&s->loads, n, sizeof(*s->loads)))
    {
        return false;
    }

    s->n_candidates = n;

    return true;
}


void
sel_lookup_candidate(sel_service_t *service, uint32_t i,
    sel_view_rank_t *rank)
{
    sel_overlap_t   overlap;
    sel_scratch_t  *s;

    s = &service->scratch;
    overlap = sel_lookup_overlap(service, rank);

    s->ranks[i] = rank;
    s->loads[i] = (sel_rank_load_t) {
        .slot = rank->slot, .epoch = rank->epoch
    };
    s->candidates[i] = (sel_candidate_t) {
        .device = overlap.device, .host = overlap.host, .disk = overlap.disk
    };
}


void
sel_lookup_loads(sel_service_t *service, const sel_lookup_t *lookup,
    const sel_rank_load_t *loads, uint32_t n)
{
    uint32_t          i;
    sel_candidate_t  *candidate;

    for (i = 0; i < n; i++) {
        candidate = &service->scratch.candidates[i];

        candidate->prefill_tokens = loads[i].prefill_tokens;
        candidate->active_blocks = (double) sel_load_blocks(loads[i].blocks);
        candidate->new_blocks = lookup->prompt.n_sequence - loads[i].depth;
        candidate->active_requests = loads[i].requests;
    }
}
