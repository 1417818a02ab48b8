/*
 * KV events from msgpack bytes into the index: messages as vLLM publishes
 * them (maps, token ids below 152,000), given to a feed, whose changes go to
 * an index of one rank that grows from empty to 1,048,576 blocks.
 *
 * Only the feed's work is timed, in CPU time; each message is made just
 * before.
 */

#include "bench.h"
#include "index/sel_index.h"
#include "kv_events/sel_kv_feed.h"


#define INGEST_BLOCKS   1048576
#define INGEST_EVENT    64              /* blocks of an event */
#define INGEST_SIZE     16              /* tokens of a block */
#define INGEST_DEPTH    512             /* blocks of a prompt */
#define INGEST_EVENTS   64              /* of the large messages */
#define INGEST_BYTES    (INGEST_EVENTS * INGEST_EVENT                         \
                         * (INGEST_SIZE * 5 + 9) + 65536)


typedef struct {
    size_t    len;
    uint8_t  *data;
} ingest_pack_t;


static void ingest_run(uint32_t events, sel_random_t *random);
static void ingest_message(ingest_pack_t *pack, uint32_t events,
    uint64_t first, sel_random_t *random);
static void ingest_event(ingest_pack_t *pack, uint64_t first,
    sel_random_t *random);
static void ingest_head(ingest_pack_t *pack, uint8_t first, uint64_t value,
    unsigned bytes);
static void ingest_text(ingest_pack_t *pack, const char *text);
static sel_index_result_t ingest_apply(void *data, uint32_t dp_rank,
    sel_index_change_t *change);


int
main(void)
{
    sel_random_t  random;

    sel_random_seed(&random);

    printf("KV events through the feed into the index, %u blocks of %u "
           "tokens\n\n", INGEST_BLOCKS, INGEST_SIZE);

    ingest_run(INGEST_EVENTS, &random);
    ingest_run(1, &random);

    return 0;
}


static void
ingest_run(uint32_t events, sel_random_t *random)
{
    char             name[80];
    uint64_t         i, bytes, spent, start, sequence;
    uint64_t         counts[SEL_KV_COUNTS];
    sel_str_t        frames[3];
    sel_index_t     *index;
    ingest_pack_t    pack;
    sel_kv_feed_t   *feed;
    sel_kv_sink_t    sink;

    pack.data = bench_alloc(INGEST_BYTES);
    feed = sel_kv_feed_create(INGEST_SIZE, 0);
    index = sel_index_create(0, sel_random_u64(random));

    if (feed == NULL || index == NULL
        || sel_index_owner(index, 1, 1, 0) != 0)
    {
        bench_fail("out of memory");
    }

    sink = (sel_kv_sink_t) { ingest_apply, index };
    memset(counts, 0, sizeof(counts));
    bytes = 0;
    spent = 0;

    for (i = 0; i < INGEST_BLOCKS / INGEST_EVENT / events; i++) {
        ingest_message(&pack, events, i * events * INGEST_EVENT, random);
        sequence = __builtin_bswap64(i);

        frames[0] = sel_str("kv-events");
        frames[1] = (sel_str_t) { sizeof(sequence), (uint8_t *) &sequence };
        frames[2] = (sel_str_t) { pack.len, pack.data };

        start = bench_cpu_ns();
        (void) sel_kv_feed_message(feed, frames, 3, &sink, counts);
        spent += bench_cpu_ns() - start;
        bytes += pack.len;
    }

    if (counts[SEL_KV_STORED] != INGEST_BLOCKS / INGEST_EVENT) {
        bench_fail("an event was refused");
    }

    (void) snprintf(name, sizeof(name), "messages of %u x %u blocks", events,
                    INGEST_EVENT);
    bench_print_one(name, INGEST_BLOCKS * 1e3 / (double) spent,
                    "million blocks/s");
    bench_print_one("   payload", (double) bytes * 1e3 / (double) spent,
                    "MB/s");

    sel_index_destroy(index);
    sel_kv_feed_destroy(feed);
    free(pack.data);
}


static void
ingest_message(ingest_pack_t *pack, uint32_t events, uint64_t first,
    sel_random_t *random)
{
    uint32_t  i;

    pack->len = 0;

    ingest_head(pack, 0x93, 0, 0);
    ingest_head(pack, 0xcb, 0x41d96ee000000000, 8);
    ingest_head(pack, 0xdc, events, 2);

    for (i = 0; i < events; i++) {
        ingest_event(pack, first + (uint64_t) i * INGEST_EVENT, random);
    }

    ingest_head(pack, 0, 0, 0);
}


/* Block n is known by n + 2^63; a prompt's blocks come one after another. */
static void
ingest_event(ingest_pack_t *pack, uint64_t first, sel_random_t *random)
{
    uint32_t  i, token;

    first |= (uint64_t) 1 << 63;

    ingest_head(pack, 0x86, 0, 0);
    ingest_text(pack, "type");
    ingest_text(pack, "BlockStored");
    ingest_text(pack, "block_hashes");
    ingest_head(pack, 0xdc, INGEST_EVENT, 2);

    for (i = 0; i < INGEST_EVENT; i++) {
        ingest_head(pack, 0xcf, first + i, 8);
    }

    ingest_text(pack, "parent_block_hash");

    if (first % INGEST_DEPTH == 0) {
        ingest_head(pack, 0xc0, 0, 0);

    } else {
        ingest_head(pack, 0xcf, first - 1, 8);
    }

    ingest_text(pack, "token_ids");
    ingest_head(pack, 0xdc, INGEST_EVENT * INGEST_SIZE, 2);

    for (i = 0; i < INGEST_EVENT * INGEST_SIZE; i++) {
        token = (uint32_t) sel_random_below(random, 152000);

        ingest_head(pack, token < 65536 ? 0xcd : 0xce, token,
                    token < 65536 ? 2 : 4);
    }

    ingest_text(pack, "block_size");
    ingest_head(pack, INGEST_SIZE, 0, 0);
    ingest_text(pack, "medium");
    ingest_text(pack, "GPU");
}


/* A first byte, then a number of some bytes, big endian. */
static void
ingest_head(ingest_pack_t *pack, uint8_t first, uint64_t value,
    unsigned bytes)
{
    if (pack->len + 9 > INGEST_BYTES) {
        bench_fail("a message is too long");
    }

    pack->data[pack->len++] = first;

    while (bytes-- != 0) {
        pack->data[pack->len++] = (uint8_t) (value >> 8 * bytes);
    }
}


static void
ingest_text(ingest_pack_t *pack, const char *text)
{
    ingest_head(pack, (uint8_t) (0xa0 | strlen(text)), 0, 0);

    while (*text != '\0') {
        ingest_head(pack, (uint8_t) *text++, 0, 0);
    }
}


static sel_index_result_t
ingest_apply(void *data, uint32_t dp_rank, sel_index_change_t *change)
{
    change->owner = 0;

    return sel_index_apply(data, change);
}
