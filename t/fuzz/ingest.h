/*
 * The sink of fuzz_ingest.c: changes that feeds make go to the index and, as
 * long as it can keep up, to the slow model of the index's unit test.
 */

#ifndef INGEST_H
#define INGEST_H

#include "fuzz.h"
#include "sel_kv_sink.h"
#include "tier_model.h"


#define FUZZ_FEEDS   4
#define FUZZ_OWNERS  16             /* alive, most of them of foreign ranks */
#define FUZZ_PROMPT  64


typedef struct {
    uint32_t        partition;
    uint64_t        worker;
    uint32_t        rank;
    uint64_t        seq;
    sel_kv_feed_t  *feed;
} fuzz_feed_t;


typedef struct {
    const uint8_t  *pos;
    const uint8_t  *end;
    sel_index_t    *index;
    fuzz_feed_t     feeds[FUZZ_FEEDS];
    uint32_t        block_size;
    bool            modelled;
    bool            failing;
    uint32_t        prompt_n;
    uint64_t        prompt[FUZZ_PROMPT];
    uint64_t        counts[SEL_KV_COUNTS];
    uint64_t        results[SEL_INDEX_CONFLICT + 1];
} fuzz_t;


typedef struct {
    fuzz_t         *fuzz;
    fuzz_feed_t    *feed;
} fuzz_sink_t;


static model_t  model;


/* a free record of the model, NULL when there are owners enough */
static inline model_rank_t *
fuzz_room(void)
{
    uint32_t       i, n;
    model_rank_t  *room;

    room = NULL;
    n = 0;

    for (i = 0; i < FUZZ_OWNERS; i++) {
        if (model.ranks[i].alive) {
            n++;

        } else {
            room = &model.ranks[i];
        }
    }

    return n < FUZZ_OWNERS ? room : NULL;
}


/* As the service does: the first block makes an owner, and nothing else. */
static inline uint16_t
fuzz_owner(fuzz_sink_t *sink, uint32_t dp_rank, bool make)
{
    uint16_t       owner;
    fuzz_feed_t   *feed;
    model_rank_t  *r;

    feed = sink->feed;
    owner = sel_index_find_owner(sink->fuzz->index, feed->partition,
                                 feed->worker, dp_rank);
    r = fuzz_room();

    if (owner != SEL_INDEX_NO_OWNER || !make || r == NULL) {
        return owner;
    }

    owner = sel_index_owner(sink->fuzz->index, feed->partition, feed->worker,
                            dp_rank);

    FUZZ_CHECK(owner != SEL_INDEX_NO_OWNER || !sink->fuzz->modelled,
               "no owner could be made");
    FUZZ_CHECK(owner == SEL_INDEX_NO_OWNER
               || model_owner(&model, owner) == NULL,
               "a number was given to two owners");

    if (owner != SEL_INDEX_NO_OWNER) {
        model_empty(r);
        r->alive = true;
        r->owner = owner;
        r->partition = feed->partition;
        r->worker = feed->worker;
        r->rank = dp_rank;
    }

    return owner;
}


/* Stored blocks become the prompt that is asked for later. */
static inline void
fuzz_remember(fuzz_t *fuzz, const sel_index_change_t *change)
{
    uint32_t  i;

    if (!change->has_parent) {
        fuzz->prompt_n = 0;
    }

    for (i = 0; i < change->n && fuzz->prompt_n < FUZZ_PROMPT; i++) {
        fuzz->prompt[fuzz->prompt_n++] = change->block[i];
    }
}


/* whether the model's arrays suffice */
static inline bool
fuzz_fits(const sel_index_change_t *change)
{
    uint32_t             k, depth;
    const model_rank_t  *r;

    r = model_owner(&model, change->owner);

    if (r == NULL || change->kind != SEL_INDEX_STORED) {
        return true;
    }

    k = model_find(r, SEL_TIER_DEVICE, change->parent);
    depth = change->has_parent && k < r->n[SEL_TIER_DEVICE]
            ? r->device[k].depth : 0;

    return r->n[change->tier] + (uint64_t) change->n <= MODEL_LIST
           && (change->tier != SEL_TIER_DEVICE
               || depth + change->n <= MODEL_DEPTH);
}


static inline sel_index_result_t
fuzz_apply(void *data, uint32_t dp_rank, sel_index_change_t *change)
{
    fuzz_t              *fuzz;
    fuzz_sink_t         *sink;
    sel_index_result_t   expected, got;

    sink = data;
    fuzz = sink->fuzz;
    change->owner = fuzz_owner(sink, dp_rank,
                               change->kind == SEL_INDEX_STORED);

    if (change->kind == SEL_INDEX_STORED) {
        fuzz_remember(fuzz, change);
    }

    fuzz->modelled = fuzz->modelled && fuzz_fits(change);
    got = sel_index_apply(fuzz->index, change);
    fuzz->results[got]++;

    FUZZ_CHECK(got != SEL_INDEX_FULL || change->kind != SEL_INDEX_CLEARED,
               "a clear needs memory");

    if (fuzz->modelled) {
        expected = model_apply(&model, change);
        FUZZ_CHECK(got == expected, "result %d, expected %d", (int) got,
                   (int) expected);
    }

    return got;
}


static inline bool
fuzz_send(fuzz_t *fuzz, fuzz_feed_t *feed, const sel_str_t *frames,
    uint32_t n)
{
    fuzz_sink_t    sink;
    sel_kv_sink_t  way;

    sink = (fuzz_sink_t) { fuzz, feed };
    way = (sel_kv_sink_t) { fuzz_apply, &sink };

    return sel_kv_feed_message(feed->feed, frames, n, &way, fuzz->counts);
}


/* The payload is in memory of its exact size and gone after the call. */
static inline bool
fuzz_payload(fuzz_t *fuzz, fuzz_feed_t *feed, uint64_t seq,
    const uint8_t *data, size_t len)
{
    bool        applied;
    uint8_t    *copy, number[8];
    uint32_t    i;
    sel_str_t   frames[3];

    for (i = 0; i < 8; i++) {
        number[i] = (uint8_t) (seq >> (56 - 8 * i));
    }

    copy = sel_kv_copy(data, len);
    frames[0] = sel_str("");
    frames[1] = (sel_str_t) { 8, number };
    frames[2] = (sel_str_t) { len, copy };

    applied = fuzz_send(fuzz, feed, frames, 3);

    memset(copy, 0xc1, len);
    free(copy);

    return applied;
}


#endif /* INGEST_H */
