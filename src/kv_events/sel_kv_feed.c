/*
 * A feed: where a message stands in the sequence, and the way of its batch
 * into the index.
 *
 * The two are kept apart.  sel_kv_feed_place() judges a sequence number
 * against the watermark and changes nothing; sel_kv_feed_apply() applies a
 * batch and sets the watermark to its number, whatever it was.  So batches
 * that come another way than live (a replay) can be applied unjudged.
 *
 * A gap is accepted as it is: the blocks that were stored before it stay, as
 * they most likely are still there, and the hole is counted.
 */

#include <stdlib.h>
#include "core/sel_random.h"
#include "kv_events/sel_kv_run.h"


#define SEL_KV_FEED_FRAMES    3             /* topic, sequence, payload */
#define SEL_KV_FEED_SEQUENCE  8             /* bytes */

/* scratch memory of one event, and what may pile up before it is freed */
#define SEL_KV_ARENA_MAX   (256u << 20)
#define SEL_KV_ARENA_KEEP  (1u << 20)


typedef enum {
    SEL_KV_PLACE_OLD,
    SEL_KV_PLACE_NEXT,
    SEL_KV_PLACE_GAP
} sel_kv_place_t;


static uint64_t sel_kv_feed_sequence(sel_str_t frame);
static sel_kv_place_t sel_kv_feed_place(const sel_kv_feed_t *feed,
    uint64_t seq, uint64_t *missed);
static void sel_kv_feed_apply(sel_kv_feed_t *feed, uint64_t seq,
    sel_kv_batch_t *batch, const sel_kv_sink_t *sink, uint64_t *counts);


sel_kv_feed_t *
sel_kv_feed_create(uint32_t block_size, uint32_t dp_rank)
{
    sel_random_t    random;
    sel_kv_feed_t  *feed;

    feed = calloc(1, sizeof(sel_kv_feed_t));

    if (feed == NULL) {
        return NULL;
    }

    sel_random_seed(&random);

    feed->block_size = block_size;
    feed->dp_rank = dp_rank;
    feed->seed = sel_random_u64(&random);

    sel_kv_salts_init(&feed->salts, &feed->ranks, sel_random_u64(&random));
    sel_arena_init(&feed->arena, SEL_KV_ARENA_MAX);

    return feed;
}


void
sel_kv_feed_destroy(sel_kv_feed_t *feed)
{
    if (feed == NULL) {
        return;
    }

    sel_kv_salts_free(&feed->salts);
    sel_kv_ranks_free(&feed->ranks);
    sel_arena_free(&feed->arena);
    free(feed);
}


bool
sel_kv_feed_watermark(const sel_kv_feed_t *feed, uint64_t *seq)
{
    if (feed->has_last) {
        *seq = feed->last;
    }

    return feed->has_last;
}


bool
sel_kv_feed_message(sel_kv_feed_t *feed, const sel_str_t *frames, uint32_t n,
    const sel_kv_sink_t *sink, uint64_t *counts)
{
    uint64_t        seq, missed;
    sel_kv_place_t  at;
    sel_kv_batch_t  batch;

    if (n != SEL_KV_FEED_FRAMES || frames[1].len != SEL_KV_FEED_SEQUENCE) {
        counts[SEL_KV_FRAMES]++;
        return false;
    }

    seq = sel_kv_feed_sequence(frames[1]);
    at = sel_kv_feed_place(feed, seq, &missed);

    if (at == SEL_KV_PLACE_OLD) {
        counts[SEL_KV_OLD]++;
        return false;
    }

    if (!sel_kv_batch_open(&batch, frames[2], &feed->arena)) {
        counts[SEL_KV_BATCH]++;
        return false;
    }

    if (at == SEL_KV_PLACE_GAP) {
        counts[SEL_KV_GAP]++;
        counts[SEL_KV_MISSED] += missed;
    }

    sel_kv_feed_apply(feed, seq, &batch, sink, counts);

    return true;
}


static uint64_t
sel_kv_feed_sequence(sel_str_t frame)
{
    size_t    i;
    uint64_t  seq;

    seq = 0;

    for (i = 0; i < SEL_KV_FEED_SEQUENCE; i++) {
        seq = seq << 8 | frame.data[i];
    }

    return seq;
}


static sel_kv_place_t
sel_kv_feed_place(const sel_kv_feed_t *feed, uint64_t seq, uint64_t *missed)
{
    if (feed->has_last && seq <= feed->last) {
        return SEL_KV_PLACE_OLD;
    }

    *missed = feed->has_last ? seq - feed->last - 1 : seq;

    return *missed == 0 ? SEL_KV_PLACE_NEXT : SEL_KV_PLACE_GAP;
}


static void
sel_kv_feed_apply(sel_kv_feed_t *feed, uint64_t seq, sel_kv_batch_t *batch,
    const sel_kv_sink_t *sink, uint64_t *counts)
{
    int             rc;
    sel_kv_run_t    run;
    sel_kv_count_t  why;
    sel_kv_event_t  event;

    run.feed = feed;
    run.sink = sink;
    run.counts = counts;
    run.rank = sel_kv_ranks_get(&feed->ranks,
                                batch->has_dp_rank ? batch->dp_rank
                                                   : feed->dp_rank);

    while ((rc = sel_kv_batch_next(batch, &event, &why)) != 0) {

        if (rc == 1) {
            sel_kv_run_event(&run, &event);

        } else {
            counts[why]++;
        }

        if (feed->arena.used > SEL_KV_ARENA_KEEP) {
            sel_arena_free(&feed->arena);
        }
    }

    sel_arena_free(&feed->arena);

    feed->has_last = true;
    feed->last = seq;

    counts[SEL_KV_BATCHES]++;
}
