/*
 * The event stream of one registered rank: sequence watermark, what it has
 * learned of cache groups and salts, and the way from a decoded event to an
 * index change.  No I/O: whoever owns the socket hands messages in.
 */

#ifndef SEL_KV_FEED_H
#define SEL_KV_FEED_H

#include "index/sel_index.h"
#include "kv_events/sel_kv_decode.h"


typedef struct sel_kv_feed_s  sel_kv_feed_t;


/*
 * Where changes go.  apply() gets one change (owner not filled in) for a rank
 * of the feed's worker; its return value is counted.  The change and its
 * lists are valid during the call only.
 */
typedef struct {
    sel_index_result_t  (*apply)(void *data, uint32_t dp_rank,
        sel_index_change_t *change);
    void                 *data;
} sel_kv_sink_t;


/* NULL when memory is exhausted.  block_size > 0, dp_rank as registered. */
sel_kv_feed_t *sel_kv_feed_create(uint32_t block_size, uint32_t dp_rank);
void sel_kv_feed_destroy(sel_kv_feed_t *feed);

/*
 * Takes one ZMQ message as its frames (topic, sequence, payload), applies
 * what it holds to the sink and adds to counts[SEL_KV_COUNTS].  True when its
 * batch was applied (the watermark moved).
 */
bool sel_kv_feed_message(sel_kv_feed_t *feed, const sel_str_t *frames,
    uint32_t n, const sel_kv_sink_t *sink, uint64_t *counts);

/* The last applied sequence number; false when there is none yet. */
bool sel_kv_feed_watermark(const sel_kv_feed_t *feed, uint64_t *seq);


#endif /* SEL_KV_FEED_H */
