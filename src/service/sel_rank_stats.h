/*
 * What a process has seen of a rank's event stream and of its use.
 */

#ifndef SEL_RANK_STATS_H
#define SEL_RANK_STATS_H

#include "kv_events/sel_kv_counts.h"


typedef enum {
    SEL_LISTENER_NONE = 0,      /* events are not followed */
    SEL_LISTENER_PENDING,       /* not open yet */
    SEL_LISTENER_ACTIVE,
    SEL_LISTENER_FAILED,        /* tried again later */
    SEL_LISTENER_STATES
} sel_listener_state_t;


/* Times are those of sel_clock_ns(). */
typedef struct {
    sel_listener_state_t  listener;     /* the host keeps it */
    char                  reason[96];   /* why it failed */
    uint64_t              active;       /* since then, on and on */
    uint64_t              last_message; /* 0: none yet */
    uint64_t              messages;
    uint64_t              counts[SEL_KV_COUNTS];
    uint32_t              told;         /* warnings that are on for it */
    bool                  shared;       /* its endpoint is another's, too */
    bool                  stored;       /* a block, ever; since then */
    uint64_t              queries;      /* of its partition and */
    uint64_t              matched;      /* its own, when that began */
} sel_rank_stats_t;


#endif /* SEL_RANK_STATS_H */
