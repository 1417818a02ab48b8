/*
 * What the parts of a feed share while they work on one event.
 */

#ifndef SEL_KV_RUN_H
#define SEL_KV_RUN_H

#include "kv_events/sel_kv_feed.h"
#include "kv_events/sel_kv_namespace.h"


struct sel_kv_feed_s {
    uint32_t         block_size;
    uint32_t         dp_rank;       /* as registered */
    bool             has_last;
    uint64_t         last;          /* the watermark */
    uint64_t         seed;
    sel_kv_ranks_t   ranks;
    sel_kv_salts_t   salts;
    sel_arena_t      arena;         /* of the message in work */
};

typedef struct {
    sel_kv_feed_t        *feed;
    sel_kv_rank_t        *rank;     /* whose blocks the batch is about */
    const sel_kv_sink_t  *sink;
    uint64_t             *counts;
} sel_kv_run_t;


/* Does what one event asks for. */
void sel_kv_run_event(sel_kv_run_t *run, const sel_kv_event_t *event);

/* Gives a change to the sink and counts what came of it. */
void sel_kv_run_apply(sel_kv_run_t *run, sel_index_change_t *change);

/* A stored event that passed the filters, to its tier. */
void sel_kv_run_store(sel_kv_run_t *run, const sel_kv_event_t *event,
    sel_tier_t tier);


#endif /* SEL_KV_RUN_H */
