/*
 * Fuzzes the way of KV events from the wire into the index: the input is a
 * list of operations, most of them messages of any bytes for the feeds of
 * four ranks in two partitions, whose changes all go to one index.  Between
 * them ranks are retired, prompts looked up and sweeps made.
 *
 * Beside the index stands the slow model of its unit test.  It is asked as
 * long as memory is unlimited and its arrays suffice; the tables must always
 * be sound, and after it all, once everything is retired and swept, the index
 * must be empty and a good message must come through.
 *
 * The first three bytes choose the block size, a limit of the index's memory
 * and how often allocations fail (0: neither).  Then an operation is one byte
 * and its arguments, a byte each; a message has its length, two bytes, in
 * front.  An input that ends early is continued with zeros.
 */

#include "index/sel_index_check.h"
#include "index/sel_memory.h"
#include "ingest.h"
#include "sel_pack.h"


static void fuzz_message(fuzz_t *fuzz);
static void fuzz_frames(fuzz_t *fuzz);
static void fuzz_query(fuzz_t *fuzz);
static void fuzz_retire(fuzz_t *fuzz);
static void fuzz_sweep(fuzz_t *fuzz);
static void fuzz_look(fuzz_t *fuzz);


static void (*const operations[])(fuzz_t *fuzz) = {
    fuzz_message,
    fuzz_message,
    fuzz_message,
    fuzz_query,
    fuzz_query,
    fuzz_retire,
    fuzz_sweep,
    fuzz_frames,
    fuzz_look,
};


static const struct {
    uint32_t  partition;
    uint64_t  worker;
    uint32_t  rank;
} places[FUZZ_FEEDS] = { { 1, 7, 0 }, { 1, 7, 1 }, { 1, 8, 0 }, { 2, 7, 0 } };


static sel_pack_t  pack;
static uint32_t    allocations, failing;


static bool
fuzz_hook(size_t size)
{
    return ++allocations % (failing + 1) != 0;
}


static uint8_t
take(fuzz_t *fuzz)
{
    return fuzz->pos == fuzz->end ? 0 : *fuzz->pos++;
}


static size_t
least(size_t a, size_t b)
{
    return a < b ? a : b;
}


static void
must_be_sound(fuzz_t *fuzz)
{
    const char  *error;

    error = sel_index_check(fuzz->index);
    FUZZ_CHECK(error == NULL, "%s", error);
}


/* The sequence number: as many steps behind the last one. */
static void
fuzz_message(fuzz_t *fuzz)
{
    bool          applied;
    size_t        len;
    uint8_t       step;
    uint64_t      seq, last;
    fuzz_feed_t  *feed;

    feed = &fuzz->feeds[take(fuzz) % FUZZ_FEEDS];
    step = take(fuzz);
    seq = step == 255 ? UINT64_MAX : feed->seq + step;
    len = take(fuzz);
    len |= (size_t) take(fuzz) << 8;
    len = least(len, (size_t) (fuzz->end - fuzz->pos));

    applied = fuzz_payload(fuzz, feed, seq, fuzz->pos, len);
    fuzz->pos += len;

    if (applied) {
        FUZZ_CHECK(sel_kv_feed_watermark(feed->feed, &last) && last == seq,
                   "the watermark is not the message's number");
        feed->seq = seq;
    }
}


/* Frames that no engine sends: they count, and change nothing. */
static void
fuzz_frames(fuzz_t *fuzz)
{
    uint8_t       kind;
    uint64_t      before;
    sel_str_t     frames[4];
    fuzz_feed_t  *feed;

    static const uint32_t  counts[] = { 3, 4, 0, 1, 2 };

    feed = &fuzz->feeds[take(fuzz) % FUZZ_FEEDS];
    kind = take(fuzz) % sel_countof(counts);

    frames[0] = sel_str("kv");
    frames[1] = (sel_str_t) { kind == 0 ? 7 : 8,
                              (const uint8_t *) "\0\0\0\0\0\0\0\xff" };
    frames[2] = sel_str("\x92\x00\x90");
    frames[3] = frames[2];
    before = fuzz->counts[SEL_KV_FRAMES];

    FUZZ_CHECK(!fuzz_send(fuzz, feed, frames, counts[kind]),
               "odd frames are taken");
    FUZZ_CHECK(fuzz->counts[SEL_KV_FRAMES] == before + 1,
               "odd frames are not counted");
}


static void
fuzz_rows(fuzz_t *fuzz, const sel_index_match_t *out, uint32_t rows,
    uint32_t partition, uint32_t n)
{
    uint32_t       i, k, tier, sum;
    model_rank_t  *r;

    for (i = 0; i < rows; i++) {
        r = model_owner(&model, out[i].owner);
        FUZZ_CHECK(r != NULL && r->partition == partition,
                   "a rank of somewhere else has hits");

        for (tier = sum = 0; tier < SEL_TIERS; tier++) {
            sum += out[i].hits[tier];
        }

        FUZZ_CHECK(sum != 0 && sum <= n, "%u hits for %u blocks", sum, n);

        for (k = 0; k < i; k++) {
            FUZZ_CHECK(out[k].owner != out[i].owner, "a rank in two rows");
        }
    }
}


static void
fuzz_query(fuzz_t *fuzz)
{
    uint32_t             hits[SEL_TIERS], expected[SEL_TIERS];
    uint32_t             cap, i, k, n, partition, rows;
    model_rank_t        *r;
    sel_index_match_t    out[FUZZ_OWNERS];

    i = take(fuzz);
    partition = 1 + i % 2;
    cap = i & 2 ? 2 : FUZZ_OWNERS;
    n = (uint32_t) least(fuzz->prompt_n, take(fuzz));

    rows = sel_index_match(fuzz->index, partition, fuzz->prompt, n, out, cap);
    FUZZ_CHECK(rows <= cap, "more matches than there is room for");
    fuzz_rows(fuzz, out, rows, partition, n);

    for (i = 0; i < FUZZ_OWNERS && fuzz->modelled && cap == FUZZ_OWNERS; i++) {
        r = &model.ranks[i];

        if (!r->alive || r->partition != partition) {
            continue;
        }

        memset(hits, 0, sizeof(hits));

        for (k = 0; k < rows; k++) {
            if (out[k].owner == r->owner) {
                memcpy(hits, out[k].hits, sizeof(hits));
            }
        }

        FUZZ_CHECK(model_agrees(r, fuzz->prompt, n, hits, expected),
                   "hits %u %u %u %u, expected %u %u %u %u", hits[0], hits[1],
                   hits[2], hits[3], expected[0], expected[1], expected[2],
                   expected[3]);
    }
}


/* One rank, or all of a worker; those that a batch has named are of it. */
static void
fuzz_retire(fuzz_t *fuzz)
{
    uint32_t       i;
    uint8_t        byte;
    fuzz_feed_t   *feed;
    model_rank_t  *r;

    byte = take(fuzz);
    feed = &fuzz->feeds[byte % FUZZ_FEEDS];

    if (byte & 4) {
        sel_index_retire_worker(fuzz->index, feed->partition, feed->worker);

    } else {
        sel_index_retire(fuzz->index,
                         sel_index_find_owner(fuzz->index, feed->partition,
                                              feed->worker, feed->rank));
    }

    for (i = 0; i < FUZZ_OWNERS; i++) {
        r = &model.ranks[i];

        if (r->alive && r->partition == feed->partition
            && r->worker == feed->worker
            && (byte & 4 || r->rank == feed->rank))
        {
            r->alive = false;
        }
    }
}


static void
fuzz_sweep(fuzz_t *fuzz)
{
    (void) sel_index_sweep(fuzz->index, 1 + take(fuzz) % 16);
}


static void
fuzz_look(fuzz_t *fuzz)
{
    uint32_t       i, tier;
    model_rank_t  *r;

    for (i = 0; i < FUZZ_OWNERS; i++) {
        r = &model.ranks[i];

        if (!r->alive) {
            continue;
        }

        FUZZ_CHECK(sel_index_find_owner(fuzz->index, r->partition, r->worker,
                                        r->rank) == r->owner,
                   "an owner has another number");

        for (tier = 0; tier < SEL_TIERS && fuzz->modelled; tier++) {
            FUZZ_CHECK(sel_index_owner_blocks(fuzz->index, r->owner,
                                              (sel_tier_t) tier)
                       == model_blocks(r, tier), "blocks are miscounted");
        }
    }
}


static bool
fuzz_begin(fuzz_t *fuzz)
{
    uint8_t   limit;
    uint32_t  i;

    static const uint32_t  sizes[] = { 4, 1, 2, 16 };

    fuzz->block_size = sizes[take(fuzz) % sel_countof(sizes)];
    limit = take(fuzz);
    failing = take(fuzz) % 32;
    allocations = 0;
    fuzz->modelled = limit == 0 && failing == 0;

    for (i = 0; i < MODEL_RANKS; i++) {
        model.ranks[i].alive = false;
    }

    fuzz->index = sel_index_create(limit == 0 ? 0 : (64 << 10)
                                                    + ((size_t) limit << 9),
                                   7);

    if (fuzz->index == NULL) {
        FUZZ_CHECK(limit != 0, "no index could be made");
        return false;
    }

    for (i = 0; i < FUZZ_FEEDS; i++) {
        fuzz->feeds[i].partition = places[i].partition;
        fuzz->feeds[i].worker = places[i].worker;
        fuzz->feeds[i].rank = places[i].rank;
        fuzz->feeds[i].feed = sel_kv_feed_create(fuzz->block_size,
                                                 places[i].rank);
        FUZZ_CHECK(fuzz->feeds[i].feed != NULL, "no memory");
    }

    sel_memory_hook = failing != 0 ? fuzz_hook : NULL;

    return true;
}


/* Everybody is counted out. */
static void
fuzz_empty(fuzz_t *fuzz)
{
    uint32_t           i, turns;
    sel_index_stats_t  stats;

    for (i = 0; i < FUZZ_FEEDS; i++) {
        sel_index_retire_worker(fuzz->index, places[i].partition,
                                places[i].worker);
    }

    for (i = 0; i < FUZZ_OWNERS; i++) {
        model.ranks[i].alive = false;
    }

    for (turns = 0; !sel_index_sweep(fuzz->index, 64); turns++) {
        FUZZ_CHECK(turns < 100000, "the sweep does not end");
    }

    sel_index_stats(fuzz->index, &stats);
    FUZZ_CHECK(stats.nodes == 0 && stats.owners == 0 && stats.retired == 0,
               "something is left");
}


/* In a stream that begins, on a rank that only its events name. */
static void
fuzz_good(fuzz_t *fuzz)
{
    uint32_t           rows;
    fuzz_feed_t        feed;
    sel_index_match_t  out[FUZZ_OWNERS];

    feed = fuzz->feeds[FUZZ_FEEDS - 1];
    feed.feed = sel_kv_feed_create(4, feed.rank);
    FUZZ_CHECK(feed.feed != NULL, "no memory");

    sel_pack_batch(&pack, 1);
    sel_pack_stored(&pack, 2, 5, 0, 90, 0);
    sel_pack_rank(&pack, 77);

    FUZZ_CHECK(fuzz_payload(fuzz, &feed, 0, pack.data, pack.len),
               "a good message is refused");

    rows = sel_index_match(fuzz->index, feed.partition, fuzz->prompt, 2, out,
                           FUZZ_OWNERS);
    fuzz_rows(fuzz, out, rows, feed.partition, 2);
    FUZZ_CHECK(rows == 1 && out[0].hits[SEL_TIER_DEVICE] == 2,
               "what a good message stored is not found");

    sel_kv_feed_destroy(feed.feed);
}


static void
fuzz_end(fuzz_t *fuzz)
{
    uint32_t  i;

    sel_memory_hook = NULL;
    fuzz_look(fuzz);
    must_be_sound(fuzz);

    FUZZ_CHECK(fuzz->counts[SEL_KV_PARENT]
                   == fuzz->results[SEL_INDEX_UNKNOWN_PARENT]
               && fuzz->counts[SEL_KV_UNKNOWN_BLOCK]
                      == fuzz->results[SEL_INDEX_UNKNOWN_BLOCK]
               && fuzz->counts[SEL_KV_FULL] == fuzz->results[SEL_INDEX_FULL]
               && fuzz->counts[SEL_KV_CONFLICT]
                      == fuzz->results[SEL_INDEX_CONFLICT],
               "the index's answers are miscounted");

    fuzz_empty(fuzz);
    fuzz_good(fuzz);
    must_be_sound(fuzz);

    sel_index_destroy(fuzz->index);

    for (i = 0; i < FUZZ_FEEDS; i++) {
        sel_kv_feed_destroy(fuzz->feeds[i].feed);
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_t  fuzz;

    memset(&fuzz, 0, sizeof(fuzz));
    fuzz.pos = data;
    fuzz.end = data + size;

    if (!fuzz_begin(&fuzz)) {
        return 0;
    }

    while (fuzz.pos < fuzz.end) {
        operations[take(&fuzz) % sel_countof(operations)](&fuzz);
    }

    fuzz_end(&fuzz);

    return 0;
}
