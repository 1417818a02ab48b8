#include <stdlib.h>
#include "service/sel_lookup.h"


bool
sel_lookup(sel_service_t *service, const sel_view_partition_t *partition,
    const sel_prompt_t *prompt, uint32_t *n)
{
    void           *p;
    uint32_t        i, limit;
    sel_scratch_t  *s;

    s = &service->scratch;
    limit = sel_index_owner_limit(service->index);

    if (limit > s->n_matches) {
        p = realloc(s->matches, limit * sizeof(*s->matches));

        if (p == NULL) {
            return false;
        }

        s->matches = p;
        p = realloc(s->depth, limit * sizeof(*s->depth));

        if (p == NULL) {
            return false;
        }

        s->depth = p;
        s->n_matches = limit;
    }

    if (s->n_matches != 0) {
        memset(s->depth, 0, s->n_matches * sizeof(*s->depth));
    }

    *n = sel_index_match(service->index, partition->key.number, prompt->blocks,
                         prompt->n_blocks, s->matches, s->n_matches);

    for (i = 0; i < *n; i++) {
        s->depth[s->matches[i].owner] = s->matches[i].blocks;
    }

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
