#include <stdlib.h>
#include "service/sel_lookup.h"


static bool sel_lookup_room(sel_scratch_t *s, uint32_t limit);


bool
sel_lookup(sel_service_t *service, sel_arena_t *arena,
    const sel_select_body_t *body, bool select, sel_lookup_t *lookup,
    sel_fault_t *fault)
{
    uint32_t        i;
    sel_prompt_t   *prompt;
    sel_scratch_t  *s;

    s = &service->scratch;
    prompt = &lookup->prompt;

    lookup->partition = sel_service_partition(service, arena,
                                              body->model_name,
                                              body->routing_group, fault);
    if (lookup->partition == NULL
        || !sel_prompt_read(lookup->partition, arena, body, select, prompt,
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

    lookup->partition->queries += (prompt->n_blocks != 0);

    return true;
}


static bool
sel_lookup_room(sel_scratch_t *s, uint32_t limit)
{
    void  *p;

    if (limit <= s->n_matches) {
        return true;
    }

    p = realloc(s->matches, limit * sizeof(*s->matches));

    if (p == NULL) {
        return false;
    }

    s->matches = p;
    p = realloc(s->found, limit * sizeof(*s->found));

    if (p == NULL) {
        return false;
    }

    s->found = p;
    p = realloc(s->matched, limit * sizeof(*s->matched));

    if (p == NULL) {
        return false;
    }

    s->matched = p;
    memset(s->matched + s->n_matches, 0,
           (limit - s->n_matches) * sizeof(*s->matched));
    s->n_matches = limit;

    return true;
}


bool
sel_lookup_candidates(sel_service_t *service, uint32_t n)
{
    void           *p;
    sel_scratch_t  *s;

    s = &service->scratch;

    if (n <= s->n_candidates) {
        return true;
    }

    p = realloc(s->candidates, n * sizeof(*s->candidates));

    if (p == NULL) {
        return false;
    }

    s->candidates = p;
    p = realloc(s->ranks, n * sizeof(*s->ranks));

    if (p == NULL) {
        return false;
    }

    s->ranks = p;
    s->n_candidates = n;

    return true;
}
