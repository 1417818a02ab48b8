/*
 * A sink that remembers the index changes a feed makes, and the way of a
 * payload into the feed: in memory of its exact size that is gone after the
 * call.
 */

#ifndef SEL_KV_SINK_H
#define SEL_KV_SINK_H

#include <stdlib.h>
#include <string.h>

#include "kv_events/sel_kv_feed.h"


#define SEL_KV_SINK_CHANGES  64
#define SEL_KV_SINK_BLOCKS   64


typedef struct {
    sel_index_kind_t    kind;
    sel_tier_t          tier;
    uint32_t            rank;
    bool                has_parent;
    uint64_t            parent;
    uint32_t            n;
    uint64_t            external[SEL_KV_SINK_BLOCKS];
    uint64_t            block[SEL_KV_SINK_BLOCKS];
} sel_kv_seen_t;


typedef struct {
    uint32_t            n;              /* all; the first ones are kept */
    sel_kv_seen_t       seen[SEL_KV_SINK_CHANGES];
    sel_index_result_t  answer;
    uint64_t            sum;            /* makes every list be read */
    uint64_t            counts[SEL_KV_COUNTS];
    sel_kv_sink_t       sink;
} sel_kv_record_t;


static inline sel_index_result_t
sel_kv_record_apply(void *data, uint32_t dp_rank, sel_index_change_t *change)
{
    uint32_t          i;
    sel_kv_seen_t    *seen;
    sel_kv_record_t  *record;

    record = data;

    if (record->n < SEL_KV_SINK_CHANGES) {
        seen = &record->seen[record->n];
        memset(seen, 0, sizeof(*seen));
        seen->kind = change->kind;
        seen->tier = change->tier;
        seen->rank = dp_rank;

        if (change->kind == SEL_INDEX_STORED) {
            seen->has_parent = change->has_parent;
            seen->parent = change->has_parent ? change->parent : 0;
        }

        seen->n = change->kind == SEL_INDEX_CLEARED ? 0 : change->n;

        for (i = 0; i < seen->n && i < SEL_KV_SINK_BLOCKS; i++) {
            seen->external[i] = change->external[i];
            seen->block[i] = change->kind == SEL_INDEX_STORED
                             ? change->block[i] : 0;
        }
    }

    if (change->kind != SEL_INDEX_CLEARED) {

        for (i = 0; i < change->n; i++) {
            record->sum += change->external[i];
            record->sum += change->kind == SEL_INDEX_STORED
                           ? change->block[i] : 0;
        }
    }

    record->n++;

    return record->answer;
}


/* Forgets changes and counts. */
static inline void
sel_kv_record_reset(sel_kv_record_t *record)
{
    record->n = 0;
    record->answer = SEL_INDEX_OK;
    record->sum = 0;
    memset(record->counts, 0, sizeof(record->counts));
    record->sink.apply = sel_kv_record_apply;
    record->sink.data = record;
}


/* Changes of nothing are as good as none. */
static inline void
sel_kv_record_squeeze(sel_kv_record_t *record)
{
    uint32_t  i, n;

    for (i = n = 0; i < record->n && i < SEL_KV_SINK_CHANGES; i++) {

        if (record->seen[i].n != 0
            || record->seen[i].kind == SEL_INDEX_CLEARED)
        {
            record->seen[n++] = record->seen[i];
        }
    }

    record->n = n;
}


static inline uint8_t *
sel_kv_copy(const void *data, size_t len)
{
    uint8_t  *copy;

    copy = malloc(len != 0 ? len : 1);

    if (copy == NULL) {
        abort();
    }

    memcpy(copy, data, len);

    return copy;
}


/* Three frames with the topic "kv" and the sequence number seq. */
static inline bool
sel_kv_send(sel_kv_feed_t *feed, sel_kv_record_t *record, uint64_t seq,
    const void *payload, size_t len)
{
    int         i;
    bool        applied;
    uint8_t    *frame, number[8];
    sel_str_t   frames[3];

    for (i = 0; i < 8; i++) {
        number[i] = (uint8_t) (seq >> (56 - 8 * i));
    }

    frame = sel_kv_copy(payload, len);
    frames[0] = sel_str("kv");
    frames[1] = (sel_str_t) { 8, number };
    frames[2] = (sel_str_t) { len, frame };

    applied = sel_kv_feed_message(feed, frames, 3, &record->sink,
                                  record->counts);

    memset(frame, 0xc1, len);
    free(frame);

    return applied;
}


#endif /* SEL_KV_SINK_H */
