/*
 * A replay of operations by one thread, as an event loop would do it: in each
 * turn the look-ups that are due, then messages through the feeds for a
 * millisecond.  It is open loop: an operation is due at its time of the trace,
 * divided by the speed, whether or not the ones before are done.
 *
 * Time is the CPU time of the thread, which waits by looking at it: what
 * other programs take of a shared machine does not count.  Only single
 * look-ups are timed with the clock.
 */

#ifndef BENCH_LOOP_H
#define BENCH_LOOP_H

#include "engines.h"
#include "index/sel_index.h"
#include "kv_events/sel_kv_feed.h"


#define LOOP_SEED     42
#define LOOP_BUDGET   1000000           /* ns for messages, a turn */
#define LOOP_PROBE    16                /* blocks */
#define LOOP_PROBES   8                 /* look-ups behind a message */
#define LOOP_PROMPTS  32                /* that take turns */
#define LOOP_RENEW    512               /* messages with the same prompts */


typedef struct {
    uint16_t           owner;
    uint64_t           sequence;
    sel_index_t       *index;
    sel_kv_feed_t     *feed;
} loop_rank_t;


typedef struct {
    double             speed;           /* 0: as fast as it can */
    bool               probes;
    uint32_t           engines;
    uint32_t           looked_up;       /* next operation */
    uint32_t           published;
    uint64_t           start;
    sel_index_t       *index;
    loop_rank_t        ranks[ENGINES_MAX];
    uint64_t           counts[SEL_KV_COUNTS];

    double             seconds;
    uint64_t           found;           /* blocks */
    double             queued;          /* share of the messages at the end */
    sel_index_stats_t  stats;
    bench_samples_t    service;         /* of look-ups, us */
    bench_samples_t    wait;            /* before them */
    bench_samples_t    late;            /* messages: from due to done */
    bench_samples_t    first;           /* of 16 blocks, ns */
    bench_samples_t    next;
} loop_t;


static inline loop_t *
loop_create(const engines_ops_t *ops, uint32_t engines)
{
    loop_t  *run;

    run = bench_alloc(sizeof(loop_t));

    run->engines = engines;
    run->service = bench_samples(ops->look_ups);
    run->wait = bench_samples(ops->look_ups);
    run->late = bench_samples(ops->n);
    run->first = bench_samples(ops->n);
    run->next = bench_samples(ops->n * LOOP_PROBES);

    return run;
}


static inline void
loop_free(loop_t *run)
{
    bench_samples_free(&run->service);
    bench_samples_free(&run->wait);
    bench_samples_free(&run->late);
    bench_samples_free(&run->first);
    bench_samples_free(&run->next);
    free(run);
}


static inline sel_index_result_t
loop_apply(void *data, uint32_t dp_rank, sel_index_change_t *change)
{
    loop_rank_t  *rank;

    rank = data;
    change->owner = rank->owner;

    return sel_index_apply(rank->index, change);
}


static inline void
loop_open(loop_t *run)
{
    uint32_t      i;
    loop_rank_t  *rank;

    memset(run->counts, 0, sizeof(run->counts));
    run->index = sel_index_create(0, LOOP_SEED);

    if (run->index == NULL) {
        bench_fail("out of memory");
    }

    for (i = 0; i < run->engines; i++) {
        rank = &run->ranks[i];

        rank->index = run->index;
        rank->owner = sel_index_owner(run->index, 1, i, 0);
        rank->feed = sel_kv_feed_create(ENGINES_SIZE, 0);
        rank->sequence = 0;

        if (rank->owner == SEL_INDEX_NO_OWNER || rank->feed == NULL) {
            bench_fail("out of memory");
        }
    }
}


static inline void
loop_close(loop_t *run)
{
    uint32_t  i;

    for (i = 0; i < run->engines; i++) {
        sel_kv_feed_destroy(run->ranks[i].feed);
    }

    sel_index_destroy(run->index);
}


/* ns from the start */
static inline uint64_t
loop_due(const loop_t *run, const engines_op_t *op)
{
    return run->speed == 0 ? 0 : (uint64_t) ((double) op->at / run->speed);
}


/* Blocks of the rank that has most of them. */
static inline uint32_t
loop_longest(const sel_index_match_t *out, uint32_t n)
{
    uint32_t  i, hits;

    hits = 0;

    for (i = 0; i < n; i++) {
        if (out[i].hits[SEL_TIER_DEVICE] > hits) {
            hits = out[i].hits[SEL_TIER_DEVICE];
        }
    }

    return hits;
}


static inline void
loop_look_up(loop_t *run, const engines_op_t *op)
{
    uint32_t            n;
    uint64_t            start;
    sel_index_match_t   out[ENGINES_MAX];

    if (op->blocks == NULL) {
        return;
    }

    bench_add(&run->wait, (double) (bench_cpu_ns() - run->start
                                    - loop_due(run, op)) / 1000);

    start = sel_clock_ns();
    n = sel_index_match(run->index, 1, op->blocks, op->n, out, ENGINES_MAX);
    bench_add(&run->service, (double) (sel_clock_ns() - start) / 1000);

    run->found += loop_longest(out, n);
}


static inline void
loop_publish(loop_t *run, const engines_op_t *op)
{
    uint64_t        sequence;
    sel_str_t       frames[3];
    loop_rank_t    *rank;
    sel_kv_sink_t   sink;

    if (op->message.len == 0) {
        return;
    }

    rank = &run->ranks[op->engine];
    sink = (sel_kv_sink_t) { loop_apply, rank };
    sequence = __builtin_bswap64(rank->sequence++);

    frames[0] = sel_str("kv-events");
    frames[1] = (sel_str_t) { sizeof(sequence), (uint8_t *) &sequence };
    frames[2] = (sel_str_t) { op->message.len, op->message.data };

    (void) sel_kv_feed_message(rank->feed, frames, 3, &sink, run->counts);

    bench_add(&run->late, (double) (bench_cpu_ns() - run->start
                                    - loop_due(run, op)) / 1000);
}


static inline void
loop_probe(const engines_ops_t *ops, loop_t *run, uint32_t i)
{
    double               spent;
    uint32_t             k, n;
    uint64_t             start;
    sel_index_match_t    out[ENGINES_MAX];
    const engines_op_t  *op;

    if (i < LOOP_RENEW || ops->list[i].message.len == 0) {
        return;
    }

    for (k = 0; k < LOOP_PROBES; k++) {

        op = &ops->list[i / LOOP_RENEW * LOOP_RENEW - 1
                         - (i * LOOP_PROBES + k) % LOOP_PROMPTS];

        if (op->blocks == NULL || op->n < LOOP_PROBE) {
            continue;
        }

        start = sel_clock_ns();
        n = sel_index_match(run->index, 1, op->blocks, LOOP_PROBE, out,
                            ENGINES_MAX);
        spent = (double) (sel_clock_ns() - start);

        bench_add(k == 0 ? &run->first : &run->next, spent);
        bench_keep(n);
    }
}


static inline void
loop_turn(const engines_ops_t *ops, loop_t *run)
{
    uint64_t             now, deadline;
    const engines_op_t  *op;

    now = bench_cpu_ns() - run->start;

    while (run->looked_up < ops->n) {
        op = &ops->list[run->looked_up];

        if (loop_due(run, op) > now) {
            break;
        }

        loop_look_up(run, op);
        run->looked_up++;
    }

    now = bench_cpu_ns() - run->start;
    deadline = now + LOOP_BUDGET;

    while (run->published < run->looked_up && now < deadline) {
        loop_publish(run, &ops->list[run->published]);
        run->published++;
        now = bench_cpu_ns() - run->start;
    }
}


static inline void
loop_turns(const engines_ops_t *ops, loop_t *run)
{
    bool      ended;
    uint32_t  i, left;

    if (run->speed == 0) {

        for (i = 0; i < ops->n; i++) {
            loop_look_up(run, &ops->list[i]);
            loop_publish(run, &ops->list[i]);

            if (run->probes) {
                loop_probe(ops, run, i);
            }
        }

        return;
    }

    ended = false;

    while (run->looked_up < ops->n || run->published < ops->n) {

        loop_turn(ops, run);

        if (!ended && bench_cpu_ns() - run->start
                      >= loop_due(run, &ops->list[ops->n - 1]))
        {
            ended = true;
            left = 0;

            for (i = run->published; i < ops->n; i++) {
                left += ops->list[i].message.len != 0;
            }

            run->queued = (double) left / (double) ops->messages;
        }
    }
}


static inline void
loop_run(const engines_ops_t *ops, loop_t *run)
{
    run->looked_up = 0;
    run->published = 0;
    run->queued = 0;
    run->found = 0;
    run->service.n = 0;
    run->wait.n = 0;
    run->late.n = 0;
    run->first.n = 0;
    run->next.n = 0;

    loop_open(run);

    run->start = bench_cpu_ns();
    loop_turns(ops, run);
    run->seconds = (double) (bench_cpu_ns() - run->start) / 1e9;

    sel_index_stats(run->index, &run->stats);

    if (run->counts[SEL_KV_UNKNOWN_BLOCK] != 0
        || run->counts[SEL_KV_PARENT] != 0
        || run->counts[SEL_KV_BATCHES] != ops->messages
        || run->stats.blocks[SEL_TIER_DEVICE]
           != ops->stored - ops->removed)
    {
        bench_fail("the index is not what the engines said");
    }

    loop_close(run);
}


#endif /* BENCH_LOOP_H */
