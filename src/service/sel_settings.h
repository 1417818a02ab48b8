/*
 * What the configuration says to the operations.
 */

#ifndef SEL_SETTINGS_H
#define SEL_SETTINGS_H

#include "schedule/sel_cost.h"
#include "state/sel_pending.h"


/* one set a service */
typedef struct {
    bool      kv_events;        /* follow the workers' KV events */
    uint64_t  silence;          /* of a rank's events before it is told,
                                   nanoseconds; 0: for ever */
    uint32_t  block_size;       /* that all workers must have; 0: any */
    uint64_t  learn_ttl;        /* how long the index believes a booking,
                                   nanoseconds; 0: not at all */
    uint64_t  expire;           /* of bookings, nanoseconds after they were
                                   made */
    uint64_t  session_ttl;      /* of a binding that no booking holds,
                                   nanoseconds; 0: nothing is bound */
    sel_pending_limits_t
              pending;          /* selections that wait to be booked */
} sel_settings_t;


/* one set a location */
typedef struct {
    sel_cost_settings_t  cost;
    double               prefill_busy;      /* of prefill_token_capacity;
                                               below 0: off */
    double               decode_busy;       /* of total_kv_blocks; below 0:
                                               off */
    bool                 assume_kv_reuse;   /* equal prompts share blocks */
    bool                 track_blocks;      /* bookings have blocks */
    bool                 look_up;           /* cached prefixes count */
} sel_route_settings_t;


#endif /* SEL_SETTINGS_H */
