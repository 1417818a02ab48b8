/*
 * KV events from msgpack bytes into the index: messages as vLLM publishes
 * them (maps, token ids below 152,000), given to a feed, whose changes go to
 * an index of one rank.
 *
 * Growing: the index from empty to 1,048,576 blocks.  Turnover: at that size,
 * each message removes as many blocks as it stores.  The same messages into a
 * sink that does nothing tell what reading and hashing alone cost.
 *
 * Only the feed's work is timed, in CPU time; each message is made just
 * before, as if it had just been received.  The cases take turns.
 */

#include "pack.h"
#include "index/sel_index.h"
#include "kv_events/sel_kv_feed.h"


#define INGEST_BLOCKS    1048576
#define INGEST_RUNS      5
#define INGEST_TURNOVER  (INGEST_BLOCKS / 4)


typedef struct {
    const char       *name;
    uint32_t          events;           /* stored, a message */
    bool              index;
    bool              turnover;
    bench_samples_t   rate;             /* million blocks/s */
    bench_samples_t   bytes;            /* MB/s */
} ingest_case_t;


typedef struct {
    uint64_t          sequence;
    uint64_t          spent;            /* ns */
    uint64_t          bytes;
    uint64_t          counts[SEL_KV_COUNTS];
    sel_index_t      *index;            /* NULL: none */
    sel_kv_feed_t    *feed;
    bench_pack_t      pack;
} ingest_t;


static void ingest_run(ingest_case_t *c, uint64_t seed);
static void ingest_pass(ingest_t *in, const ingest_case_t *c, uint64_t from,
    uint64_t to, bool remove);
static void ingest_message(ingest_t *in);
static sel_index_result_t ingest_apply(void *data, uint32_t dp_rank,
    sel_index_change_t *change);


static ingest_case_t  ingest_cases[] = {
    { .name = "growing, messages of 64 x 64 blocks", .events = 64,
      .index = true },
    { .name = "growing, messages of 8 x 64 blocks", .events = 8,
      .index = true },
    { .name = "growing, messages of 1 x 64 blocks", .events = 1,
      .index = true },
    { .name = "turnover, stored and removed, 8 x 64", .events = 8,
      .index = true, .turnover = true },
    { .name = "reading and hashing alone, 8 x 64", .events = 8 }
};


int
main(void)
{
    size_t          k;
    uint32_t        i;
    sel_random_t    random;
    ingest_case_t  *c;

    sel_random_seed(&random);

    printf("KV events through the feed into the index, %u blocks of %u "
           "tokens, %u runs\n\n", INGEST_BLOCKS, BENCH_SIZE, INGEST_RUNS);

    for (k = 0; k < sel_countof(ingest_cases); k++) {
        c = &ingest_cases[k];
        c->rate = bench_samples(INGEST_RUNS);
        c->bytes = bench_samples(INGEST_RUNS);
    }

    for (i = 0; i < INGEST_RUNS; i++) {
        for (k = 0; k < sel_countof(ingest_cases); k++) {
            ingest_run(&ingest_cases[k], sel_random_u64(&random));
        }
    }

    for (k = 0; k < sel_countof(ingest_cases); k++) {
        c = &ingest_cases[k];
        bench_print(c->name, &c->rate, "million blocks/s");
        bench_print("   payload", &c->bytes, "MB/s");
    }

    return 0;
}


static void
ingest_run(ingest_case_t *c, uint64_t seed)
{
    uint64_t  blocks;
    ingest_t  in;

    memset(&in, 0, sizeof(ingest_t));

    in.feed = sel_kv_feed_create(BENCH_SIZE, 0);
    in.index = c->index ? sel_index_create(0, seed) : NULL;

    if (in.feed == NULL
        || (c->index && (in.index == NULL
                         || sel_index_owner(in.index, 1, 1, 0) != 0)))
    {
        bench_fail("out of memory");
    }

    blocks = INGEST_BLOCKS;
    ingest_pass(&in, c, 0, INGEST_BLOCKS, false);

    if (c->turnover) {
        in.spent = 0;
        in.bytes = 0;
        blocks = 2 * INGEST_TURNOVER;
        ingest_pass(&in, c, INGEST_BLOCKS, INGEST_BLOCKS + INGEST_TURNOVER,
                    true);
    }

    if (in.counts[SEL_KV_STORED] * BENCH_EVENT
        != INGEST_BLOCKS + (c->turnover ? INGEST_TURNOVER : 0)
        || in.counts[SEL_KV_UNKNOWN_BLOCK] != 0)
    {
        bench_fail("an event was refused");
    }

    bench_add(&c->rate, (double) blocks * 1e3 / (double) in.spent);
    bench_add(&c->bytes, (double) in.bytes * 1e3 / (double) in.spent);

    if (in.index != NULL) {
        sel_index_destroy(in.index);
    }

    sel_kv_feed_destroy(in.feed);
    free(in.pack.data);
}


static void
ingest_pass(ingest_t *in, const ingest_case_t *c, uint64_t from, uint64_t to,
    bool remove)
{
    uint32_t  i;

    while (from < to) {
        bench_pack_open(&in->pack, c->events << remove);

        for (i = 0; i < c->events; i++) {
            bench_pack_event(&in->pack, from,
                             remove ? INGEST_BLOCKS : 0);
            from += BENCH_EVENT;
        }

        bench_pack_close(&in->pack);
        ingest_message(in);
    }
}


static void
ingest_message(ingest_t *in)
{
    uint64_t        start, sequence;
    sel_str_t       frames[3];
    sel_kv_sink_t   sink;

    sink = (sel_kv_sink_t) { ingest_apply, in->index };
    sequence = __builtin_bswap64(in->sequence++);

    frames[0] = sel_str("kv-events");
    frames[1] = (sel_str_t) { sizeof(sequence), (uint8_t *) &sequence };
    frames[2] = (sel_str_t) { in->pack.len, in->pack.data };

    start = bench_cpu_ns();
    (void) sel_kv_feed_message(in->feed, frames, 3, &sink, in->counts);
    in->spent += bench_cpu_ns() - start;
    in->bytes += in->pack.len;
}


static sel_index_result_t
ingest_apply(void *data, uint32_t dp_rank, sel_index_change_t *change)
{
    if (data == NULL) {
        bench_keep(change->block[change->n - 1]);
        return SEL_INDEX_OK;
    }

    change->owner = 0;

    return sel_index_apply(data, change);
}
