/*
 * What the configuration says to the operations.
 */

#ifndef SEL_SETTINGS_H
#define SEL_SETTINGS_H

#include "schedule/sel_cost.h"


/* one set a service */
typedef struct {
    bool      kv_events;        /* follow the workers' KV events */
    uint64_t  silence;          /* of a rank's events before it is told,
                                   nanoseconds; 0: for ever */
} sel_settings_t;


/* one set a location */
typedef struct {
    sel_cost_settings_t  cost;
    double               prefill_busy;      /* of prefill_token_capacity;
                                               below 0: off */
    double               decode_busy;       /* of total_kv_blocks; below 0:
                                               off */
} sel_route_settings_t;


#endif /* SEL_SETTINGS_H */
