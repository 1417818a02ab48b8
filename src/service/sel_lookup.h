/*
 * One look-up of a prompt in the index, for all ranks of a partition.
 */

#ifndef SEL_LOOKUP_H
#define SEL_LOOKUP_H

#include "service/sel_prompt.h"
#include "service/sel_service.h"


/*
 * Looks the prompt up: scratch.depth[owner] is the owner's device prefix in
 * blocks for every owner below sel_index_owner_limit(), scratch.matches lists
 * the *n owners with some.  False when memory is exhausted.
 */
bool sel_lookup(sel_service_t *service, const sel_view_partition_t *partition,
    const sel_prompt_t *prompt, uint32_t *n);

/* The device prefix of a registered rank, after sel_lookup(). */
static inline uint32_t
sel_lookup_depth(const sel_service_t *service, const sel_view_rank_t *rank)
{
    return rank->owner < service->scratch.n_matches
           ? service->scratch.depth[rank->owner] : 0;
}

/*
 * Makes room for n candidates and their ranks; false when memory is
 * exhausted.
 */
bool sel_lookup_candidates(sel_service_t *service, uint32_t n);


#endif /* SEL_LOOKUP_H */
