/*
 * The stream of one rank: frames, sequence numbers, ranks of batches, and the
 * index's answers.  Without it a lost or repeated message would go unnoticed,
 * or a broken one stop the stream.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sel_kv_sink.h"
#include "sel_pack.h"


static sel_pack_t       pk;
static sel_kv_feed_t   *feed;
static sel_kv_record_t  rec;


static int
setup(void **state)
{
    sel_kv_record_reset(&rec);
    feed = sel_kv_feed_create(4, 3);

    return feed == NULL;
}


static int
teardown(void **state)
{
    sel_kv_feed_destroy(feed);

    return 0;
}


static bool
send_cleared(uint64_t seq)
{
    sel_pack_batch(&pk, 1);
    sel_pack_cleared(&pk);
    sel_pack_no_rank(&pk);

    return sel_kv_send(feed, &rec, seq, pk.data, pk.len);
}


static void
expect_watermark(uint64_t expected)
{
    uint64_t  seq;

    assert_true(sel_kv_feed_watermark(feed, &seq));
    assert_true(seq == expected);
}


static uint64_t
sum_of_counts(void)
{
    int       i;
    uint64_t  sum;

    sum = 0;

    for (i = 0; i < SEL_KV_COUNTS; i++) {
        sum += rec.counts[i];
    }

    return sum;
}


static void
test_in_order(void **state)
{
    uint64_t  i, seq;

    assert_false(sel_kv_feed_watermark(feed, &seq));

    for (i = 0; i < 300; i++) {
        assert_true(send_cleared(i));
        expect_watermark(i);
    }

    assert_int_equal(rec.n, 300);
    assert_int_equal(rec.counts[SEL_KV_CLEARED], 300);
    assert_int_equal(rec.counts[SEL_KV_BATCHES], 300);
    assert_int_equal(sum_of_counts(), 600);
    assert_int_equal(rec.seen[0].kind, SEL_INDEX_CLEARED);
    assert_int_equal(rec.seen[0].rank, 3);
}


static void
test_duplicates(void **state)
{
    assert_true(send_cleared(0));
    assert_true(send_cleared(1));
    assert_false(send_cleared(1));
    assert_false(send_cleared(0));
    assert_true(send_cleared(2));
    assert_false(send_cleared(1));
    expect_watermark(2);

    assert_int_equal(rec.n, 3);
    assert_int_equal(rec.counts[SEL_KV_OLD], 3);
    assert_int_equal(rec.counts[SEL_KV_BATCHES], 3);
    assert_int_equal(rec.counts[SEL_KV_GAP], 0);
    assert_int_equal(rec.counts[SEL_KV_MISSED], 0);
}


static void
test_gaps(void **state)
{
    assert_true(send_cleared(5));               /* 0 .. 4 */
    assert_int_equal(rec.counts[SEL_KV_GAP], 1);
    assert_int_equal(rec.counts[SEL_KV_MISSED], 5);

    assert_true(send_cleared(6));
    assert_int_equal(rec.counts[SEL_KV_GAP], 1);

    assert_true(send_cleared(8));               /* 7 */
    assert_int_equal(rec.counts[SEL_KV_GAP], 2);
    assert_int_equal(rec.counts[SEL_KV_MISSED], 6);

    /* the hole is over for good */
    assert_false(send_cleared(7));
    expect_watermark(8);

    assert_true(send_cleared(UINT64_MAX));
    assert_int_equal(rec.counts[SEL_KV_GAP], 3);
    assert_true(rec.counts[SEL_KV_MISSED] == 6 + (UINT64_MAX - 9));
    expect_watermark(UINT64_MAX);

    /* a publisher that starts again is not taken for a new one */
    assert_false(send_cleared(0));
    assert_false(send_cleared(UINT64_MAX));
    assert_int_equal(rec.counts[SEL_KV_OLD], 3);
    assert_int_equal(rec.counts[SEL_KV_GAP], 3);
}


static void
test_first_is_last(void **state)
{
    assert_true(send_cleared(UINT64_MAX));
    assert_int_equal(rec.counts[SEL_KV_GAP], 1);
    assert_true(rec.counts[SEL_KV_MISSED] == UINT64_MAX);
    assert_false(send_cleared(0));
}


/* One message of n frames and a sequence frame of len bytes. */
static bool
frames(uint32_t n, size_t len)
{
    static const uint8_t  seq[16] = { 0 };

    bool        applied;
    uint8_t    *number, *payload;
    sel_str_t   list[5];

    sel_pack_batch(&pk, 1);
    sel_pack_cleared(&pk);
    sel_pack_no_rank(&pk);
    number = sel_kv_copy(seq, len);
    payload = sel_kv_copy(pk.data, pk.len);

    list[0] = sel_str("");
    list[1] = (sel_str_t) { len, number };
    list[2] = (sel_str_t) { pk.len, payload };
    list[3] = sel_str("");
    list[4] = sel_str("");

    applied = sel_kv_feed_message(feed, list, n, &rec.sink, rec.counts);
    free(number);
    free(payload);

    return applied;
}


static void
test_frames(void **state)
{
    uint64_t  seq;

    assert_false(frames(0, 8));
    assert_false(frames(1, 8));
    assert_false(frames(2, 8));
    assert_false(frames(4, 8));
    assert_false(frames(5, 8));
    assert_int_equal(rec.counts[SEL_KV_FRAMES], 5);

    assert_false(frames(3, 0));
    assert_false(frames(3, 7));
    assert_false(frames(3, 9));
    assert_false(frames(3, 16));
    assert_int_equal(rec.counts[SEL_KV_FRAMES], 9);
    assert_int_equal(sum_of_counts(), 9);
    assert_int_equal(rec.n, 0);
    assert_false(sel_kv_feed_watermark(feed, &seq));

    assert_true(frames(3, 8));
    assert_int_equal(rec.n, 1);
    expect_watermark(0);
}


/* The watermark is that of what was read: the next message shows a gap. */
static void
test_no_batch(void **state)
{
    static const char *const  payloads[] = {
        "", "\xc0", "\x90", "\x93\x05\xc0\xc0", "\xdd\xff\xff\xff\xff",
        "\xdf\x7f\xff\xff\xff", "\x93\x05\x91\xa1"
    };

    size_t  i;

    assert_true(send_cleared(0));

    for (i = 0; i < sel_countof(payloads); i++) {
        assert_false(sel_kv_send(feed, &rec, 1, payloads[i],
                                 strlen(payloads[i])));
        assert_int_equal(rec.counts[SEL_KV_BATCH], i + 1);
        expect_watermark(0);
    }

    assert_int_equal(rec.counts[SEL_KV_GAP], 0);
    assert_int_equal(rec.counts[SEL_KV_BATCHES], 1);
    assert_true(send_cleared(2));
    assert_int_equal(rec.counts[SEL_KV_GAP], 1);
    assert_int_equal(rec.counts[SEL_KV_MISSED], 1);
    assert_int_equal(rec.n, 2);
}


/* One bad event among good ones, and the batch goes through. */
static void
test_bad_events(void **state)
{
    sel_pack_batch(&pk, 6);
    sel_pack_stored(&pk, 2, 10, 0, 1, 0);
    sel_pack_array(&pk, 1);
    sel_pack_text(&pk, "BlockMoved");
    sel_pack_removed(&pk, 1, 10, 0);
    sel_pack_array(&pk, 2);
    sel_pack_text(&pk, "BlockRemoved");
    sel_pack_text(&pk, "10");
    sel_pack_array(&pk, 1);
    sel_pack_text(&pk, "Ignored");
    sel_pack_cleared(&pk);
    sel_pack_no_rank(&pk);

    assert_true(sel_kv_send(feed, &rec, 0, pk.data, pk.len));
    expect_watermark(0);

    assert_int_equal(rec.n, 3);
    assert_int_equal(rec.seen[0].kind, SEL_INDEX_STORED);
    assert_int_equal(rec.seen[0].n, 2);
    assert_true(rec.seen[0].external[1] == 11);
    assert_int_equal(rec.seen[1].kind, SEL_INDEX_REMOVED);
    assert_int_equal(rec.seen[2].kind, SEL_INDEX_CLEARED);

    assert_int_equal(rec.counts[SEL_KV_STORED], 1);
    assert_int_equal(rec.counts[SEL_KV_UNKNOWN_TAG], 1);
    assert_int_equal(rec.counts[SEL_KV_REMOVED], 1);
    assert_int_equal(rec.counts[SEL_KV_MALFORMED], 1);
    assert_int_equal(rec.counts[SEL_KV_IGNORED], 1);
    assert_int_equal(rec.counts[SEL_KV_CLEARED], 1);
    assert_int_equal(rec.counts[SEL_KV_BATCHES], 1);
    assert_int_equal(sum_of_counts(), 7);
}


static void
test_rank(void **state)
{
    sel_pack_batch(&pk, 2);
    sel_pack_stored(&pk, 1, 10, 0, 1, 0);
    sel_pack_cleared(&pk);
    sel_pack_rank(&pk, 17);
    assert_true(sel_kv_send(feed, &rec, 0, pk.data, pk.len));
    assert_int_equal(rec.seen[0].rank, 17);
    assert_int_equal(rec.seen[1].rank, 17);

    /* the watermark is the registered rank's all the same */
    assert_false(send_cleared(0));
    expect_watermark(0);

    assert_true(send_cleared(1));
    assert_int_equal(rec.seen[2].rank, 3);

    sel_pack_batch(&pk, 1);
    sel_pack_cleared(&pk);
    sel_pack_int(&pk, -1);
    assert_true(sel_kv_send(feed, &rec, 2, pk.data, pk.len));
    assert_int_equal(rec.seen[3].rank, 3);

    sel_pack_batch(&pk, 1);
    sel_pack_cleared(&pk);
    sel_pack_rank(&pk, 0);
    assert_true(sel_kv_send(feed, &rec, 3, pk.data, pk.len));
    assert_int_equal(rec.seen[4].rank, 0);
}


/* What the index says is counted, and the rest of the batch goes on. */
static void
test_answers(void **state)
{
    static const struct {
        sel_index_result_t  answer;
        sel_kv_count_t      stored;
        sel_kv_count_t      removed;
    } rows[] = {
        { SEL_INDEX_OK, SEL_KV_STORED, SEL_KV_REMOVED },
        { SEL_INDEX_UNKNOWN_PARENT, SEL_KV_PARENT, SEL_KV_COUNTS },
        { SEL_INDEX_UNKNOWN_BLOCK, SEL_KV_COUNTS, SEL_KV_UNKNOWN_BLOCK },
        { SEL_INDEX_FULL, SEL_KV_FULL, SEL_KV_COUNTS },
        { SEL_INDEX_NO_SUCH_OWNER, SEL_KV_RANK, SEL_KV_RANK },
        { SEL_INDEX_CONFLICT, SEL_KV_CONFLICT, SEL_KV_CONFLICT }
    };

    size_t  i;

    for (i = 0; i < sel_countof(rows); i++) {
        sel_kv_record_reset(&rec);
        rec.answer = rows[i].answer;

        sel_pack_batch(&pk, 1);

        if (rows[i].stored != SEL_KV_COUNTS) {
            sel_pack_stored(&pk, 1, 10, 9, 1, 0);

        } else {
            sel_pack_removed(&pk, 1, 10, 0);
        }

        sel_pack_no_rank(&pk);
        assert_true(sel_kv_send(feed, &rec, 2 * i, pk.data, pk.len));
        assert_int_equal(rec.n, 1);
        assert_int_equal(rec.counts[rows[i].stored != SEL_KV_COUNTS
                                    ? rows[i].stored : rows[i].removed], 1);

        sel_pack_batch(&pk, 2);
        sel_pack_removed(&pk, 1, 10, 0);
        sel_pack_removed(&pk, 1, 11, 0);
        sel_pack_no_rank(&pk);
        assert_true(sel_kv_send(feed, &rec, 2 * i + 1, pk.data, pk.len));
        assert_int_equal(rec.n, 3);
        expect_watermark(2 * i + 1);

        if (rows[i].removed != SEL_KV_COUNTS) {
            assert_true(rec.counts[rows[i].removed] >= 2);
        }
    }
}


#define TEST(name)  cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest  tests[] = {
    TEST(test_in_order),
    TEST(test_duplicates),
    TEST(test_gaps),
    TEST(test_first_is_last),
    TEST(test_frames),
    TEST(test_no_batch),
    TEST(test_bad_events),
    TEST(test_rank),
    TEST(test_answers)
};


int
main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
