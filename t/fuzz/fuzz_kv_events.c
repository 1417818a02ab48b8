/*
 * Any bytes as the payload of a KV-event message.  The stream takes a message
 * when the decoder takes it as a batch; a batch does the same as its events
 * sent one by one, so no event hides or changes another; and a good message
 * afterwards comes through.
 */

#include "fuzz.h"
#include "sel_kv_sink.h"
#include "sel_pack.h"


static sel_pack_t       pack;
static sel_kv_record_t  whole, single;


/* Counts the events that the decoder gives and refuses. */
static bool
decode(const uint8_t *data, size_t size, uint64_t *events, uint64_t *refused)
{
    int              rc;
    bool             opened;
    uint8_t         *copy;
    sel_arena_t      arena;
    sel_kv_batch_t   batch;
    sel_kv_event_t   event;
    sel_kv_count_t   why;

    copy = sel_kv_copy(data, size);
    sel_arena_init(&arena, 0);
    *events = 0;
    *refused = 0;
    opened = sel_kv_batch_open(&batch, (sel_str_t) { size, copy }, &arena);

    while (opened && (rc = sel_kv_batch_next(&batch, &event, &why)) != 0) {
        FUZZ_CHECK(rc == 1 || (rc == -1 && (why == SEL_KV_MALFORMED
                                            || why == SEL_KV_UNKNOWN_TAG)),
                   "next() gives %d, %d", rc, why);
        ++*events;
        *refused += rc == -1;

        if (rc == 1) {
            FUZZ_CHECK((uint64_t) event.hashes.n + event.tokens.n <= 2 * size,
                       "more hashes and tokens than bytes");
        }
    }

    sel_arena_free(&arena);
    free(copy);

    return opened;
}


/* The events of a good batch, each in a batch of its own. */
static void
send_singly(sel_kv_feed_t *feed, const uint8_t *data, size_t size)
{
    uint32_t             i, n;
    uint64_t             seq;
    const uint8_t       *event, *rank;
    sel_msgpack_t        mp, behind;
    sel_msgpack_token_t  token;

    mp = sel_msgpack(data, size);
    FUZZ_CHECK(sel_msgpack_next(&mp, &token), "no batch");
    n = token.n;
    FUZZ_CHECK(sel_msgpack_skip(&mp), "no time");
    behind = mp;
    FUZZ_CHECK(sel_msgpack_skip(&behind), "no events");
    rank = behind.pos;

    if (n > 2) {
        FUZZ_CHECK(sel_msgpack_skip(&behind), "no rank");
    }

    FUZZ_CHECK(sel_msgpack_next(&mp, &token), "no events");
    seq = 0;

    for (i = token.n; i != 0; i--) {
        event = mp.pos;
        FUZZ_CHECK(sel_msgpack_skip(&mp), "no event");

        pack.len = 0;
        sel_pack_array(&pack, n > 2 ? 3 : 2);
        sel_pack_uint(&pack, 0);
        sel_pack_array(&pack, 1);
        sel_pack_bytes(&pack, event, (size_t) (mp.pos - event));
        sel_pack_bytes(&pack, rank, (size_t) (behind.pos - rank));

        FUZZ_CHECK(sel_kv_send(feed, &single, seq++, pack.data, pack.len),
                   "an event alone is no batch");
    }
}


static void
compare(void)
{
    int  i;

    for (i = 0; i < SEL_KV_FRAMES; i++) {
        FUZZ_CHECK(whole.counts[i] == single.counts[i],
                   "count %d: %llu together, %llu apart", i,
                   (unsigned long long) whole.counts[i],
                   (unsigned long long) single.counts[i]);
    }

    FUZZ_CHECK(whole.n == single.n && whole.sum == single.sum
               && memcmp(whole.seen, single.seen, sizeof(whole.seen)) == 0,
               "other changes when the events come apart");
}


/* What is good must come through, whatever came before. */
static void
send_good(sel_kv_feed_t *feed, uint64_t seq)
{
    uint64_t               block;
    static const uint32_t  tokens[] = { 90, 91, 92, 93 };

    sel_pack_batch(&pack, 2);
    sel_pack_stored(&pack, 1, 5, 0, 90, 2);
    sel_pack_member(&pack, "kv_cache_spec_kind", "full_attention");
    sel_pack_member(&pack, "cache_salt", "te");
    sel_pack_cleared(&pack);
    sel_pack_rank(&pack, 77);
    sel_kv_record_reset(&whole);

    (void) sel_hash_blocks(tokens, 4, 4, false,
                           sel_hash_block_seed(sel_str(""), sel_str("te")),
                           NULL, 0, &block);

    FUZZ_CHECK(sel_kv_send(feed, &whole, seq, pack.data, pack.len)
               && whole.n == 2 && whole.seen[0].rank == 77
               && whole.seen[0].kind == SEL_INDEX_STORED
               && whole.seen[0].n == 1 && whole.seen[0].block[0] == block
               && whole.seen[1].kind == SEL_INDEX_CLEARED,
               "a good message does not come through");
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool            applied, opened;
    uint32_t        i;
    uint64_t        events, refused, seq;
    sel_kv_feed_t  *feed, *other;

    if (size > sizeof(pack.data) - 64) {
        return 0;
    }

    opened = decode(data, size, &events, &refused);

    feed = sel_kv_feed_create(4, 0);
    other = sel_kv_feed_create(4, 0);
    FUZZ_CHECK(feed != NULL && other != NULL, "no memory");
    memset(&whole, 0, sizeof(whole));
    memset(&single, 0, sizeof(single));
    sel_kv_record_reset(&whole);
    sel_kv_record_reset(&single);

    applied = sel_kv_send(feed, &whole, 0, data, size);
    FUZZ_CHECK(applied == opened, "a batch or none: %d, %d", applied, opened);
    FUZZ_CHECK(sel_kv_feed_watermark(feed, &seq) == applied, "watermark");
    FUZZ_CHECK(whole.counts[SEL_KV_BATCHES] == applied
               && whole.counts[SEL_KV_BATCH] == !applied, "batches counted");
    FUZZ_CHECK(whole.counts[SEL_KV_MALFORMED]
               + whole.counts[SEL_KV_UNKNOWN_TAG] == refused,
               "refused events counted");
    FUZZ_CHECK(whole.n <= events, "more changes than events");

    for (i = 0; i < whole.n && i < SEL_KV_SINK_CHANGES; i++) {
        FUZZ_CHECK(whole.seen[i].tier < SEL_TIERS
                   && whole.seen[i].n <= size, "an impossible change");
    }

    if (applied) {
        send_singly(other, data, size);
        compare();
    }

    send_good(feed, applied);
    sel_kv_feed_destroy(feed);
    sel_kv_feed_destroy(other);

    return 0;
}
