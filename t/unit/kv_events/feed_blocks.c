/*
 * From tokens to blocks: how many are indexed, under which hashes.  Without
 * it blocks without tokens would be credited, or a broken store wipe out what
 * was right.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "index/sel_index.h"
#include "index/sel_index_check.h"
#include "sel_kv_sink.h"
#include "sel_pack.h"


static uint64_t         seq;
static sel_pack_t       pk;
static sel_kv_feed_t   *feed;
static sel_kv_record_t  rec;


static int
setup(void **state)
{
    sel_kv_record_reset(&rec);
    feed = sel_kv_feed_create(4, 0);
    seq = 0;

    return feed == NULL;
}


static int
teardown(void **state)
{
    sel_kv_feed_destroy(feed);

    return 0;
}


static void
deliver(void)
{
    sel_pack_no_rank(&pk);
    sel_kv_record_reset(&rec);
    assert_true(sel_kv_send(feed, &rec, seq++, pk.data, pk.len));
    sel_kv_record_squeeze(&rec);
}


/* A store in array form: hashes 10 .., tokens 0 .. in pairs or not. */
static void
store(uint32_t hashes, uint32_t tokens, bool pairs, uint64_t block_size)
{
    uint32_t  i;

    sel_pack_batch(&pk, 1);
    sel_pack_array(&pk, 5);
    sel_pack_text(&pk, "BlockStored");
    sel_pack_range(&pk, hashes, 10);
    sel_pack_nil(&pk);

    if (pairs) {
        sel_pack_array(&pk, tokens);

        for (i = 0; i < tokens; i++) {
            sel_pack_range(&pk, 2, i);
        }

    } else {
        sel_pack_range(&pk, tokens, 0);
    }

    sel_pack_uint(&pk, block_size);
    deliver();
}


/* n blocks entered, with the right hashes; why counts what was left out. */
static void
expect_blocks(uint32_t n, bool eagle, sel_kv_count_t why)
{
    uint32_t  i, tokens[128];
    uint64_t  blocks[32];

    assert_int_equal(rec.counts[SEL_KV_BLOCK_SIZE],
                     why == SEL_KV_BLOCK_SIZE);
    assert_int_equal(rec.counts[SEL_KV_TOKENS], why == SEL_KV_TOKENS);
    assert_int_equal(rec.n, n != 0);

    if (n == 0) {
        assert_int_equal(rec.counts[SEL_KV_STORED], 0);
        return;
    }

    for (i = 0; i < sel_countof(tokens); i++) {
        tokens[i] = i;
    }

    assert_int_equal(rec.counts[SEL_KV_STORED], 1);
    assert_int_equal(rec.seen[0].n, n);
    assert_int_equal(sel_hash_blocks(tokens, 4 * n + eagle, 4, eagle,
                                     SEL_HASH_SEED, NULL, 0, blocks), n);

    for (i = 0; i < n; i++) {
        assert_true(rec.seen[0].external[i] == 10 + i);
        assert_true(rec.seen[0].block[i] == blocks[i]);
    }
}


static void
test_tokens(void **state)
{
    store(3, 12, false, 4);
    expect_blocks(3, false, SEL_KV_COUNTS);

    /* more tokens than the blocks need */
    store(3, 15, false, 4);
    expect_blocks(3, false, SEL_KV_COUNTS);
    store(1, 40, false, 4);
    expect_blocks(1, false, SEL_KV_COUNTS);

    /* fewer: what is complete enters */
    store(3, 11, false, 4);
    expect_blocks(2, false, SEL_KV_TOKENS);
    store(3, 4, false, 4);
    expect_blocks(1, false, SEL_KV_TOKENS);
    store(3, 3, false, 4);
    expect_blocks(0, false, SEL_KV_TOKENS);
    store(1, 0, false, 4);
    expect_blocks(0, false, SEL_KV_TOKENS);

    /* no block at all is no fault */
    store(0, 0, false, 4);
    expect_blocks(0, false, SEL_KV_COUNTS);
    store(0, 8, false, 4);
    expect_blocks(0, false, SEL_KV_COUNTS);
}


static void
test_eagle(void **state)
{
    /* k pairs are k + 1 tokens, of which n blocks need 4 n + 1 */
    store(2, 8, true, 4);
    expect_blocks(2, true, SEL_KV_COUNTS);
    store(2, 9, true, 4);
    expect_blocks(2, true, SEL_KV_COUNTS);
    store(2, 7, true, 4);
    expect_blocks(1, true, SEL_KV_TOKENS);
    store(1, 3, true, 4);
    expect_blocks(0, true, SEL_KV_TOKENS);
}


static void
test_block_size(void **state)
{
    static const uint64_t  sizes[] = {
        0, 1, 3, 5, 8, 16, 0x100000004, UINT64_MAX
    };

    size_t  i;

    for (i = 0; i < sel_countof(sizes); i++) {
        store(2, 32, false, sizes[i]);
        expect_blocks(0, false, SEL_KV_BLOCK_SIZE);
    }

    /* the stream goes on */
    store(2, 8, false, 4);
    expect_blocks(2, false, SEL_KV_COUNTS);
}


/* An absent block size is as wrong as a different one. */
static void
test_no_block_size(void **state)
{
    int  form;

    for (form = 0; form < 2; form++) {
        sel_pack_batch(&pk, 1);
        sel_pack_map(&pk, 3 + (uint32_t) form);
        sel_pack_member(&pk, "type", "BlockStored");
        sel_pack_text(&pk, "block_hashes");
        sel_pack_range(&pk, 1, 10);
        sel_pack_text(&pk, "token_ids");
        sel_pack_range(&pk, 4, 0);

        if (form == 1) {
            sel_pack_text(&pk, "block_size");
            sel_pack_nil(&pk);
        }

        deliver();
        assert_int_equal(rec.n, 0);
        assert_int_equal(rec.counts[SEL_KV_MALFORMED]
                         + rec.counts[SEL_KV_BLOCK_SIZE], 1);
    }
}


static void
test_repeated(void **state)
{
    static const uint64_t  lists[][4] = {
        { 7, 8, 8, 9 }, { 7, 8, 9, 7 }, { 7, 7, 8, 9 }
    };

    size_t  i;

    for (i = 0; i < 4; i++) {
        sel_pack_batch(&pk, 2);
        sel_pack_array(&pk, 5);
        sel_pack_text(&pk, "BlockStored");

        if (i < 3) {
            sel_pack_list(&pk, 4, lists[i]);
            sel_pack_nil(&pk);

        } else {
            sel_pack_range(&pk, 4, 7);
            sel_pack_uint(&pk, 9);              /* its own parent */
        }

        sel_pack_range(&pk, 16, 0);
        sel_pack_uint(&pk, 4);
        sel_pack_removed(&pk, 1, 99, 0);
        deliver();

        assert_int_equal(rec.counts[SEL_KV_REPEATED], 1);
        assert_int_equal(rec.counts[SEL_KV_STORED], 0);
        assert_int_equal(rec.n, 1);
        assert_int_equal(rec.seen[0].kind, SEL_INDEX_REMOVED);
        assert_true(rec.seen[0].external[0] == 99);
    }

    /* many different ones, and the last again */
    sel_pack_batch(&pk, 1);
    sel_pack_array(&pk, 5);
    sel_pack_text(&pk, "BlockStored");
    sel_pack_array(&pk, 600);

    for (i = 0; i < 599; i++) {
        sel_pack_uint(&pk, i * 0x9e3779b97f4a7c15);
    }

    sel_pack_uint(&pk, 598 * 0x9e3779b97f4a7c15);
    sel_pack_nil(&pk);
    sel_pack_range(&pk, 2400, 0);
    sel_pack_uint(&pk, 4);
    deliver();
    assert_int_equal(rec.n, 0);
    assert_int_equal(rec.counts[SEL_KV_REPEATED], 1);
}


/* LoRA name, salt and image of a block are all in its hash. */
static void
test_identity(void **state)
{
    uint64_t        blocks[2];
    sel_mm_block_t  mm[2];

    static const uint32_t  tokens[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    static const uint64_t  image = 0x77;

    sel_pack_batch(&pk, 1);
    sel_pack_stored(&pk, 2, 10, 5, 0, 3);
    sel_pack_member(&pk, "lora_name", "ad");
    sel_pack_member(&pk, "cache_salt", "te");
    sel_pack_text(&pk, "block_mm_infos");
    sel_pack_array(&pk, 2);
    sel_pack_nil(&pk);
    sel_pack_map(&pk, 1);
    sel_pack_text(&pk, "mm_objects");
    sel_pack_array(&pk, 1);
    sel_pack_map(&pk, 1);
    sel_pack_member_uint(&pk, "mm_hash", image);
    deliver();

    mm[0] = (sel_mm_block_t) { 0, NULL };
    mm[1] = (sel_mm_block_t) { 1, &image };
    (void) sel_hash_blocks(tokens, 8, 4, false,
                           sel_hash_block_seed(sel_str("ad"), sel_str("te")),
                           mm, 2, blocks);

    assert_int_equal(rec.n, 1);
    assert_true(rec.seen[0].has_parent && rec.seen[0].parent == 5);
    assert_true(rec.seen[0].block[0] == blocks[0]);
    assert_true(rec.seen[0].block[1] == blocks[1]);
}


static void
test_removed_lists(void **state)
{
    static const uint64_t  twice[] = { 5, 6, 5 };

    sel_pack_batch(&pk, 2);
    sel_pack_array(&pk, 2);
    sel_pack_text(&pk, "BlockRemoved");
    sel_pack_list(&pk, 3, twice);
    sel_pack_removed(&pk, 0, 0, 0);
    deliver();

    assert_int_equal(rec.n, 1);
    assert_int_equal(rec.seen[0].n, 3);
    assert_true(rec.seen[0].external[2] == 5);
    assert_int_equal(rec.counts[SEL_KV_REPEATED], 0);
}


static sel_index_result_t
apply_to_index(void *data, uint32_t dp_rank, sel_index_change_t *change)
{
    sel_index_t  *index;

    index = data;
    change->owner = sel_index_owner(index, 1, 7, dp_rank);

    return sel_index_apply(index, change);
}


/* Through the real index: what is stored is found, until it is removed. */
static void
test_through_index(void **state)
{
    uint64_t           blocks[4];
    uint32_t           i, tokens[16];
    sel_index_t       *index;
    sel_index_match_t  match[4];

    index = sel_index_create(0, 1);
    assert_non_null(index);
    sel_kv_record_reset(&rec);
    rec.sink = (sel_kv_sink_t) { apply_to_index, index };

    sel_pack_batch(&pk, 3);
    sel_pack_stored(&pk, 2, 100, 0, 0, 0);
    sel_pack_stored(&pk, 2, 102, 101, 8, 0);
    sel_pack_stored(&pk, 1, 200, 999, 0, 0);        /* unknown parent */
    sel_pack_rank(&pk, 2);
    assert_true(sel_kv_send(feed, &rec, 0, pk.data, pk.len));
    assert_int_equal(rec.counts[SEL_KV_STORED], 2);
    assert_int_equal(rec.counts[SEL_KV_PARENT], 1);

    for (i = 0; i < 16; i++) {
        tokens[i] = i;
    }

    (void) sel_hash_blocks(tokens, 16, 4, false, SEL_HASH_SEED, NULL, 0,
                           blocks);
    assert_int_equal(sel_index_match(index, 1, blocks, 4, match, 4), 1);
    assert_int_equal(match[0].hits[SEL_TIER_DEVICE], 4);
    assert_int_equal(match[0].owner, sel_index_find_owner(index, 1, 7, 2));

    sel_pack_batch(&pk, 1);
    sel_pack_removed(&pk, 2, 102, 0);
    sel_pack_rank(&pk, 2);
    assert_true(sel_kv_send(feed, &rec, 1, pk.data, pk.len));
    assert_int_equal(sel_index_match(index, 1, blocks, 4, match, 4), 1);
    assert_int_equal(match[0].hits[SEL_TIER_DEVICE], 2);

    sel_pack_batch(&pk, 2);
    sel_pack_removed(&pk, 1, 102, 0);               /* gone already */
    sel_pack_cleared(&pk);
    sel_pack_rank(&pk, 2);
    assert_true(sel_kv_send(feed, &rec, 2, pk.data, pk.len));
    assert_int_equal(rec.counts[SEL_KV_UNKNOWN_BLOCK], 1);
    assert_int_equal(sel_index_match(index, 1, blocks, 4, match, 4), 0);
    assert_null(sel_index_check(index));

    sel_index_destroy(index);
}


#define TEST(name)  cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest  tests[] = {
    TEST(test_tokens),
    TEST(test_eagle),
    TEST(test_block_size),
    TEST(test_no_block_size),
    TEST(test_repeated),
    TEST(test_identity),
    TEST(test_removed_lists),
    TEST(test_through_index)
};


int
main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
