/*
 * Broken messages, made from good ones.  Without it a message from the
 * network could crash the process, make it read behind the message, or stop
 * the stream for the good messages that follow.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sel_kv_sink.h"
#include "sel_pack.h"
#include "sel_rand.h"
#include "sel_vectors.h"


#define ROUNDS    20000
#define MAX_SEED  32


static sel_rand_t  rnd;
static sel_str_t   good[MAX_SEED];
static size_t      good_n;


static int
load(void **state)
{
    size_t   i;
    json_t  *root, *messages, *message, *frames;

    root = sel_vectors_load("kv-events");
    messages = sel_vectors_get(root, "messages");

    json_array_foreach(messages, i, message) {
        frames = sel_vectors_get(message, "frames_hex");
        good[good_n++] = sel_vectors_hex(json_string_value(
                                             json_array_get(frames, 2)));
        assert_true(good_n < MAX_SEED);
    }

    json_decref(root);

    return 0;
}


static int
unload(void **state)
{
    while (good_n != 0) {
        free((void *) good[--good_n].data);
    }

    return 0;
}


/* Bytes changed to random or to telling ones, cut, doubled, taken out. */
static size_t
mutate(uint8_t *data, size_t len, size_t max)
{
    static const uint8_t  telling[] = {
        0x00, 0x7f, 0x80, 0x81, 0x8f, 0x90, 0x91, 0x92, 0x9f, 0xa0, 0xa5,
        0xbf, 0xc0, 0xc1, 0xc2, 0xc4, 0xc6, 0xc7, 0xca, 0xcb, 0xcc, 0xcd,
        0xce, 0xcf, 0xd0, 0xd3, 0xd4, 0xd8, 0xd9, 0xda, 0xdb, 0xdc, 0xdd,
        0xde, 0xdf, 0xe0, 0xff
    };

    size_t  at, n;

    if (len == 0) {
        return 0;
    }

    at = sel_rand_below(&rnd, len);
    n = 1 + sel_rand_below(&rnd, len - at < 9 ? len - at : 9);

    switch (sel_rand_below(&rnd, 8)) {

    case 0:
        memmove(&data[at], &data[at + n], len - at - n);
        return len - n;

    case 1:
        if (len + n > max) {
            return len;
        }

        memmove(&data[at + n], &data[at], len - at);
        return len + n;

    case 2:
        return at;

    case 3:
    case 4:
        data[at] = (uint8_t) sel_rand(&rnd);
        return len;

    default:
        data[at] = telling[sel_rand_below(&rnd, sizeof(telling))];
        return len;
    }
}


/* A store of block 5, and nothing else, comes through as it should. */
static void
expect_good(sel_kv_feed_t *feed, sel_kv_record_t *record, uint64_t seq)
{
    static sel_pack_t  pk;

    uint64_t               block;
    static const uint32_t  tokens[] = { 90, 91, 92, 93 };

    sel_pack_batch(&pk, 1);
    sel_pack_stored(&pk, 1, 5, 0, 90, 1);
    sel_pack_member(&pk, "kv_cache_spec_kind", "full_attention");
    sel_pack_rank(&pk, 77);

    sel_kv_record_reset(record);
    assert_true(sel_kv_send(feed, record, seq, pk.data, pk.len));

    (void) sel_hash_blocks(tokens, 4, 4, false, SEL_HASH_SEED, NULL, 0,
                           &block);
    assert_int_equal(record->n, 1);
    assert_int_equal(record->counts[SEL_KV_STORED], 1);
    assert_int_equal(record->counts[SEL_KV_BATCHES], 1);
    assert_int_equal(record->seen[0].kind, SEL_INDEX_STORED);
    assert_int_equal(record->seen[0].rank, 77);
    assert_int_equal(record->seen[0].n, 1);
    assert_true(record->seen[0].external[0] == 5);
    assert_true(record->seen[0].block[0] == block);
}


/* What a message may do at most, whatever is in it. */
static void
expect_bounded(const sel_kv_record_t *record, bool applied, size_t len)
{
    int       i;
    uint32_t  n;
    uint64_t  events;

    assert_int_equal(record->counts[SEL_KV_BATCHES], applied);
    assert_int_equal(record->counts[SEL_KV_BATCH], !applied);

    events = 0;

    for (i = 0; i < SEL_KV_FRAMES; i++) {
        events += record->counts[i];
    }

    /* an event takes two bytes at least and counts twice at most */
    assert_true(events <= len);
    assert_true(record->n <= events);
    assert_true(applied || (events == 0 && record->n == 0));

    for (n = 0; n < record->n && n < SEL_KV_SINK_CHANGES; n++) {
        assert_true(record->seen[n].tier < SEL_TIERS);
        assert_true(record->seen[n].n <= len);
    }
}


static void
test_mutations(void **state)
{
    int                     i;
    bool                    applied;
    size_t                  len;
    uint8_t                 data[2048];
    uint64_t                seq;
    sel_kv_feed_t          *feed;
    static sel_kv_record_t  record;

    const sel_str_t        *from;

    feed = sel_kv_feed_create(4, 0);
    assert_non_null(feed);
    seq = 0;

    for (i = 0; i < ROUNDS; i++) {
        from = &good[sel_rand_below(&rnd, good_n)];
        len = from->len;
        assert_true(len < sizeof(data));
        memcpy(data, from->data, len);

        do {
            len = mutate(data, len, sizeof(data));
        } while (sel_rand_below(&rnd, 3) == 0);

        sel_kv_record_reset(&record);
        applied = sel_kv_send(feed, &record, seq, data, len);
        seq += applied;
        expect_bounded(&record, applied, len);
        expect_good(feed, &record, seq++);

        if (i % 1000 == 999) {                  /* clears what was learned */
            sel_kv_feed_destroy(feed);
            feed = sel_kv_feed_create(4, 0);
            assert_non_null(feed);
            seq = 0;
        }
    }

    sel_kv_feed_destroy(feed);
}


/* Every byte of every good message, with every value of it. */
static void
test_each_byte(void **state)
{
    bool                    applied;
    size_t                  i, at;
    uint8_t                *data;
    uint64_t                seq;
    unsigned                value;
    sel_kv_feed_t          *feed;
    static sel_kv_record_t  record;

    for (i = 0; i < good_n; i++) {
        feed = sel_kv_feed_create(4, 0);
        assert_non_null(feed);
        data = sel_kv_copy(good[i].data, good[i].len);
        seq = 0;

        for (at = 0; at < good[i].len; at++) {

            for (value = 0; value < 256; value += 1 + at % 3) {
                data[at] = (uint8_t) value;
                sel_kv_record_reset(&record);
                applied = sel_kv_send(feed, &record, seq, data, good[i].len);
                seq += applied;
                expect_bounded(&record, applied, good[i].len);
            }

            data[at] = good[i].data[at];
        }

        expect_good(feed, &record, seq);
        free(data);
        sel_kv_feed_destroy(feed);
    }
}


static const struct CMUnitTest  tests[] = {
    cmocka_unit_test(test_mutations),
    cmocka_unit_test(test_each_byte)
};


int
main(void)
{
    rnd.state = sel_rand_seed("feed_random");

    return cmocka_run_group_tests(tests, load, unload);
}
