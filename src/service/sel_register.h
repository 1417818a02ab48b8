/*
 * What makes a worker schedulable.
 */

#ifndef SEL_REGISTER_H
#define SEL_REGISTER_H

#include "service/sel_service.h"


/* More ranks than this no worker can have. */
#define SEL_MAX_DP_SIZE  SEL_ZONE_MAX_SLOTS


/* Sentences, NULL-ended; the first `n` are used. */
#define SEL_REASONS_MAX  272

typedef struct {
    uint32_t  n;
    char     *text[SEL_REASONS_MAX + 1];
} sel_reasons_t;


/*
 * Collects why a worker cannot be scheduled, in the order that the API
 * documents: its own members, then its partition, then its endpoints.
 * *consistent tells that the members alone are in order, so that its
 * partition exists from now on.  False when memory is exhausted.
 */
bool sel_register_reasons(sel_service_t *service, sel_arena_t *arena,
    const sel_worker_t *worker, sel_reasons_t *reasons, bool *consistent);


#endif /* SEL_REGISTER_H */
