/*
 * Picks one of several costs.
 */

#ifndef SEL_PICK_H
#define SEL_PICK_H

#include "core/sel_random.h"
#include "schedule/sel_cost.h"


/*
 * The number of the chosen candidate, 0 .. n-1 (n > 0).  temperature 0: the
 * lowest cost, exact ties uniformly at random.  Above 0: by chance, with
 * probability proportional to exp(-normalised cost / temperature), where the
 * costs are normalised to 0 (lowest) .. 1 (highest).
 */
uint32_t sel_pick(const sel_candidate_t *candidates, uint32_t n,
    double temperature, sel_random_t *random);


#endif /* SEL_PICK_H */
