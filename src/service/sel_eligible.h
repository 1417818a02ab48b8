/*
 * Which ranks of a partition may serve a request.
 */

#ifndef SEL_ELIGIBLE_H
#define SEL_ELIGIBLE_H

#include "service/sel_selection.h"


/*
 * Puts the eligible ranks and their candidates (overlap and preferred taints
 * filled in, the rest zero) into the service's scratch; *n tells how many.
 * allow may be NULL.  Call after sel_lookup().  A fault when a pin is not
 * allowed or nobody is left.
 */
bool sel_eligible(sel_service_t *service, sel_arena_t *arena,
    const sel_view_partition_t *partition, const sel_select_body_t *body,
    const sel_allow_t *allow, uint32_t *n, sel_fault_t *fault);

/* Leaves the target's alone, if any of n is; returns how many are left. */
uint32_t sel_eligible_narrow(sel_service_t *service,
    const sel_target_t *target, uint32_t n);


#endif /* SEL_ELIGIBLE_H */
