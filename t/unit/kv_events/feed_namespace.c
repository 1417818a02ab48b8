/*
 * Cache salts, which engines send with the first block of a chain alone.
 * Without it the later blocks of a tenant's prompt would be indexed as
 * everybody's, or under another tenant.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

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
deliver(uint32_t rank)
{
    sel_pack_rank(&pk, rank);
    sel_kv_record_reset(&rec);
    assert_true(sel_kv_send(feed, &rec, seq++, pk.data, pk.len));
}


/* Stores n blocks from hash first on; salt NULL: none, medium NULL: none. */
static void
store(uint32_t rank, uint64_t first, uint32_t n, uint64_t parent,
    const char *salt, const char *medium)
{
    sel_pack_batch(&pk, 1);
    sel_pack_stored(&pk, n, first, parent, 50,
                    (salt != NULL) + (medium != NULL));

    if (salt != NULL) {
        sel_pack_member(&pk, "cache_salt", salt);
    }

    if (medium != NULL) {
        sel_pack_member(&pk, "medium", medium);
    }

    deliver(rank);
}


static void
removal(uint32_t rank, uint64_t first, uint32_t n)
{
    sel_pack_batch(&pk, 1);
    sel_pack_removed(&pk, n, first, 0);
    deliver(rank);
    assert_int_equal(rec.n, 1);
}


static void
clear(uint32_t rank)
{
    sel_pack_batch(&pk, 1);
    sel_pack_cleared(&pk);
    deliver(rank);
    assert_int_equal(rec.n, 1);
}


/* The blocks just stored have the hashes of this salt, "" for none. */
static void
expect_salt(const char *salt)
{
    uint32_t  i, tokens[4 * SEL_KV_SINK_BLOCKS];
    uint64_t  blocks[SEL_KV_SINK_BLOCKS];

    assert_int_equal(rec.n, 1);
    assert_int_equal(rec.seen[0].kind, SEL_INDEX_STORED);
    assert_in_range(rec.seen[0].n, 1, SEL_KV_SINK_BLOCKS);

    for (i = 0; i < 4 * rec.seen[0].n; i++) {
        tokens[i] = 50 + i;
    }

    (void) sel_hash_blocks(tokens, 4 * rec.seen[0].n, 4, false,
                           sel_hash_block_seed((sel_str_t) { 0, NULL },
                                               sel_cstr(salt)),
                           NULL, 0, blocks);

    for (i = 0; i < rec.seen[0].n; i++) {
        assert_true(rec.seen[0].block[i] == blocks[i]);
    }

    assert_int_equal(rec.counts[SEL_KV_STORED], 1);
}


static void
expect_ambiguous(void)
{
    assert_int_equal(rec.n, 0);
    assert_int_equal(rec.counts[SEL_KV_AMBIGUOUS], 1);
    assert_int_equal(rec.counts[SEL_KV_STORED], 0);
}


static void
test_inheritance(void **state)
{
    store(0, 100, 2, 0, "te", NULL);
    expect_salt("te");

    /* from any block of the chain, over generations, into the host tier */
    store(0, 110, 2, 101, NULL, NULL);
    expect_salt("te");
    store(0, 120, 1, 110, NULL, NULL);
    expect_salt("te");
    store(0, 130, 1, 120, NULL, "CPU");
    expect_salt("te");
    store(0, 140, 1, 130, NULL, NULL);
    expect_salt("te");
    store(0, 150, 1, 100, "", NULL);
    expect_salt("te");

    /* an own salt wins, and is what the children get */
    store(0, 160, 1, 100, "b", NULL);
    expect_salt("b");
    store(0, 161, 1, 160, NULL, NULL);
    expect_salt("b");

    /* no parent, or one that never was salted, or is unknown */
    store(0, 200, 2, 0, NULL, NULL);
    expect_salt("");
    store(0, 210, 1, 201, NULL, NULL);
    expect_salt("");
    store(0, 220, 1, 999, NULL, NULL);
    expect_salt("");
}


static void
test_ranks_apart(void **state)
{
    store(0, 100, 1, 0, "te", NULL);
    store(1, 200, 1, 100, NULL, NULL);
    expect_salt("");
    store(1, 100, 1, 0, "b", NULL);
    expect_salt("b");
    store(1, 201, 1, 100, NULL, NULL);
    expect_salt("b");
    store(0, 202, 1, 100, NULL, NULL);
    expect_salt("te");

    clear(1);
    store(1, 203, 1, 100, NULL, NULL);
    expect_salt("");
    store(0, 204, 1, 100, NULL, NULL);
    expect_salt("te");
}


static void
test_ambiguity(void **state)
{
    /* two salts */
    store(0, 100, 1, 0, "te", NULL);
    store(0, 100, 1, 0, "te", NULL);
    store(0, 110, 1, 100, NULL, NULL);
    expect_salt("te");
    store(0, 100, 1, 0, "b", NULL);
    expect_salt("b");
    store(0, 111, 1, 100, NULL, NULL);
    expect_ambiguous();

    /* a child that says its own is not in doubt */
    store(0, 112, 1, 100, "te", NULL);
    expect_salt("te");

    /* salted first, then not */
    store(0, 300, 1, 0, "te", NULL);
    store(0, 300, 1, 0, NULL, NULL);
    expect_salt("");
    store(0, 310, 1, 300, NULL, NULL);
    expect_ambiguous();

    /* removal does not settle it, clearing does */
    removal(0, 300, 1);
    store(0, 311, 1, 300, NULL, NULL);
    expect_ambiguous();
    clear(0);
    store(0, 312, 1, 300, NULL, NULL);
    expect_salt("");
}


/* An event refused for its parent leaves nothing behind. */
static void
test_refused_teaches_nothing(void **state)
{
    store(0, 100, 1, 0, "te", NULL);
    store(0, 100, 1, 0, "b", NULL);
    store(0, 200, 1, 100, NULL, NULL);
    expect_ambiguous();
    store(0, 210, 1, 200, NULL, NULL);
    expect_salt("");
}


static void
test_removal(void **state)
{
    store(0, 100, 3, 0, "te", NULL);
    removal(0, 101, 1);
    store(0, 110, 1, 101, NULL, NULL);
    expect_salt("");
    store(0, 111, 1, 102, NULL, NULL);
    expect_salt("te");

    clear(0);
    store(0, 112, 1, 102, NULL, NULL);
    expect_salt("");

    /* a removed hash may come again with another salt */
    store(0, 101, 1, 0, "te", NULL);
    removal(0, 101, 1);
    store(0, 101, 1, 0, "b", NULL);
    store(0, 113, 1, 101, NULL, NULL);
    expect_salt("b");
}


/* Disk and external blocks neither learn nor inherit. */
static void
test_lower_tiers(void **state)
{
    store(0, 100, 1, 0, "te", NULL);
    store(0, 110, 1, 100, NULL, "DISK");
    expect_salt("");
    store(0, 111, 1, 100, NULL, "EXTERNAL");
    expect_salt("");

    store(0, 100, 1, 0, "te", NULL);
    store(0, 100, 1, 0, "b", NULL);
    store(0, 120, 1, 100, NULL, "DISK");
    expect_salt("");
}


/* Thousands of salted blocks come and go, each remembered for itself. */
static void
test_many(void **state)
{
    char      salt[16];
    uint32_t  rank;
    uint64_t  i;

    for (i = 0; i < 4500; i++) {
        rank = (uint32_t) (i % 3);
        sprintf(salt, "t%d", (int) (i % 97));
        store(rank, 1000 + 7919 * (i / 3), 1, 0, salt, NULL);
    }

    for (i = 0; i < 4500; i += 4) {
        removal((uint32_t) (i % 3), 1000 + 7919 * (i / 3), 1);
    }

    for (i = 0; i < 4500; i++) {
        rank = (uint32_t) (i % 3);
        sprintf(salt, "t%d", (int) (i % 97));
        store(rank, 500000000 + i, 1, 1000 + 7919 * (i / 3), NULL, NULL);
        expect_salt(i % 4 == 0 ? "" : salt);
    }
}


#define TEST(name)  cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest  tests[] = {
    TEST(test_inheritance),
    TEST(test_ranks_apart),
    TEST(test_ambiguity),
    TEST(test_refused_teaches_nothing),
    TEST(test_removal),
    TEST(test_lower_tiers),
    TEST(test_many)
};


int
main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
