/*
 * One look-up of a prompt in the index, for all ranks of a partition.
 */

#ifndef SEL_LOOKUP_H
#define SEL_LOOKUP_H

#include "service/sel_prompt.h"
#include "service/sel_service.h"


/*
 * What a rank holds of a prompt, in blocks: on the device from the first on,
 * by how many host memory goes on from there, and then disk and external
 * storage.
 */
typedef struct {
    uint32_t  device;
    uint32_t  host;
    uint32_t  disk;
} sel_overlap_t;


typedef struct {
    sel_view_partition_t  *partition;
    sel_prompt_t           prompt;
    const uint64_t        *path;        /* keys of its tracking hashes, see
                                           sel_path_keys() */
    uint32_t               n;           /* matches */
} sel_lookup_t;


/*
 * Looks the prompt of a request up in its partition, which has a schedulable
 * worker: scratch.matches lists the n owners that hold some of it,
 * scratch.found leads there from every owner below sel_index_owner_limit().
 */
bool sel_lookup(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_prompt_use_t use, sel_lookup_t *lookup, sel_fault_t *fault);

/*
 * Reads the prompt of a request alone, into lookup.prompt and lookup.path,
 * for lookup.partition.
 */
bool sel_lookup_prompt(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_prompt_use_t use, sel_lookup_t *lookup, sel_fault_t *fault);

static inline sel_cost_prompt_t
sel_lookup_cost_prompt(const sel_lookup_t *lookup)
{
    return (sel_cost_prompt_t) {
        lookup->prompt.isl_tokens, lookup->partition->key.block_size,
        lookup->prompt.n_sequence
    };
}

static inline sel_overlap_t
sel_lookup_match(const sel_index_match_t *match)
{
    return (sel_overlap_t) {
        match->hits[SEL_TIER_DEVICE], match->hits[SEL_TIER_HOST_PINNED],
        match->hits[SEL_TIER_DISK] + match->hits[SEL_TIER_EXTERNAL]
    };
}

/* The overlap of a registered rank, after sel_lookup(). */
static inline sel_overlap_t
sel_lookup_overlap(const sel_service_t *service, const sel_view_rank_t *rank)
{
    uint32_t              found;
    const sel_scratch_t  *s;

    s = &service->scratch;
    found = rank->owner < s->n_matches ? s->found[rank->owner] : 0;

    return found != 0 ? sel_lookup_match(&s->matches[found - 1])
                      : (sel_overlap_t) { 0, 0, 0 };
}

/* Look-ups in which the rank's owner, whoever it was, had a match. */
static inline uint64_t
sel_lookup_matched(const sel_service_t *service, const sel_view_rank_t *rank)
{
    return rank->owner < service->scratch.n_matches
           ? service->scratch.matched[rank->owner] : 0;
}

/*
 * Makes room for n candidates, their ranks and loads; false when memory is
 * exhausted.
 */
bool sel_lookup_candidates(sel_service_t *service, uint32_t n);

/* Makes a registered rank candidate i, idle as yet. */
void sel_lookup_candidate(sel_service_t *service, uint32_t i,
    sel_view_rank_t *rank);

/* Fills the loads that were read into n candidates. */
void sel_lookup_loads(sel_service_t *service, const sel_lookup_t *lookup,
    const sel_rank_load_t *loads, uint32_t n);


#endif /* SEL_LOOKUP_H */
