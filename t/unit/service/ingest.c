/*
 * From a rank's stream into the index: which rank a batch is about, what
 * becomes of ranks that nobody registered, and of streams whose worker has
 * gone.  Without it one rank could write another's blocks, or a stream could
 * fill the index with made-up ranks.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "index/sel_index_check.h"
#include "sel_kv_sink.h"
#include "sel_pack.h"
#include "state_test.h"
#include "service_expect.h"


static sel_zone_t  zone;
static world_t     a;


#define RECORD(id, start, size)                                               \
    "{\"worker_id\":" id ",\"endpoint\":\"e\",\"block_size\":16,"             \
    "\"data_parallel_start_rank\":" start ","                                 \
    "\"data_parallel_size\":" size ","                                        \
    "\"kv_events_endpoints\":{\"0\":\"tcp://h:1\",\"1\":\"tcp://h:2\","       \
    "\"2\":\"tcp://h:3\",\"3\":\"tcp://h:4\"}}"


static int
begin(void **state)
{
    state_private(&zone, STATE_SIZE);
    world_init(&a, &zone, 0, true);
    assert_true(world_post(&a, RECORD("7", "1", "2")));
    assert_true(world_post(&a, RECORD("8", "0", "1")));
    world_refresh(&a);

    return 0;
}


static int
end(void **state)
{
    assert_null(sel_index_check(a.service.index));
    world_free(&a);
    state_private_free(&zone);

    return 0;
}


static void
expect(uint64_t worker_id, uint32_t dp_rank, int blocks)
{
    int  got;

    got = world_blocks(&a, "default", "default", worker_id, dp_rank, 1, 20);

    if (got != blocks) {
        fail_msg("%" PRIu64 "/%" PRIu32 ": %d blocks, expected %d", worker_id,
                 dp_rank, got, blocks);
    }
}


static void
test_batch_rank(void **state)
{
    /* its own rank, then another registered one of the same worker */
    assert_int_equal(world_store(&a, 7, 1, 1, 1, 3), SEL_INDEX_OK);
    assert_int_equal(world_store(&a, 7, 1, 2, 1, 5), SEL_INDEX_OK);
    expect(7, 1, 3);
    expect(7, 2, 5);
    expect(8, 0, 0);

    /* ranks that nobody registered, both sides of the range */
    assert_int_equal(world_store(&a, 7, 2, 0, 1, 2), SEL_INDEX_OK);
    assert_int_equal(world_store(&a, 7, 2, 4294967295, 1, 4), SEL_INDEX_OK);
    expect(7, 0, 2);
    expect(7, UINT32_MAX, 4);

    /* rank 0 of this worker is not that of the other */
    expect(8, 0, 0);

    /* they are never chosen */
    assert_true(world_select(&a, "{\"block_hashes\":[1,2,3,4],"
                             "\"sequence_hashes\":[1,2,3,4],"
                             "\"isl_tokens\":64,\"allowed_worker_ids\":[7]}"));
    world_expect(&a, "\"dp_rank\":2,");
    world_expect(&a, "\"dp\":{\"1\":48,\"2\":64},");
    assert_false(world_select(&a, "{\"block_hashes\":[1],"
                              "\"sequence_hashes\":[1],\"isl_tokens\":16,"
                              "\"pinned_worker\":{\"worker_id\":7,"
                              "\"dp_rank\":0}}"));
    world_expect_fault(&a, SEL_FAULT_NOT_READY,
                       "no endpoints available to route work");
}


/* Removing and clearing reach the rank that the batch names, no other. */
static void
test_remove_and_clear(void **state)
{
    uint64_t             external;
    world_listener_t    *listener;
    sel_index_change_t   change;

    assert_int_equal(world_store(&a, 7, 1, 1, 1, 3), SEL_INDEX_OK);
    assert_int_equal(world_store(&a, 7, 1, 2, 1, 3), SEL_INDEX_OK);
    assert_int_equal(world_store(&a, 7, 1, 9, 1, 3), SEL_INDEX_OK);
    listener = world_listener(&a, 7, 1);
    external = 103;

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_REMOVED;
    change.n = 1;
    change.external = &external;
    assert_int_equal(listener->sink.apply(listener->sink.data, 2, &change),
                     SEL_INDEX_OK);
    expect(7, 1, 3);
    expect(7, 2, 2);
    expect(7, 9, 3);
    assert_int_equal(listener->sink.apply(listener->sink.data, 9, &change),
                     SEL_INDEX_OK);
    expect(7, 9, 2);

    change.kind = SEL_INDEX_CLEARED;
    change.n = 0;
    assert_int_equal(listener->sink.apply(listener->sink.data, 1, &change),
                     SEL_INDEX_OK);
    expect(7, 1, 0);
    expect(7, 2, 2);
    assert_int_equal(listener->sink.apply(listener->sink.data, 9, &change),
                     SEL_INDEX_OK);
    assert_true(world_blocks(&a, "default", "default", 7, 9, 1, 9) <= 0);
    expect(7, 2, 2);
}


/* A stream cannot make ranks without end. */
static void
test_foreign_bound(void **state)
{
    uint32_t  i;

    for (i = 0; i < SEL_MAX_FOREIGN_RANKS; i++) {
        assert_int_equal(world_store(&a, 7, 1 + i % 2, 1000 + i, 1, 1),
                         SEL_INDEX_OK);
    }

    for (i = 0; i < 1000; i++) {
        assert_int_equal(world_store(&a, 7, 1, 5000 + i, 1, 1),
                         SEL_INDEX_NO_SUCH_OWNER);
    }

    expect(7, 5000, -1);

    /* those that there are go on, and registered ones, and other workers */
    assert_int_equal(world_store(&a, 7, 1, 1000, 1, 2), SEL_INDEX_OK);
    assert_int_equal(world_store(&a, 7, 1, 2, 1, 2), SEL_INDEX_OK);
    assert_int_equal(world_store(&a, 8, 0, 5000, 1, 2), SEL_INDEX_OK);
    expect(7, 1000, 2);
    expect(7, 2, 2);
    expect(8, 5000, 2);

    /* a worker that comes again begins anew */
    assert_true(world_delete(&a, 7));
    assert_true(world_post(&a, RECORD("7", "1", "2")));
    world_refresh(&a);
    expect(7, 1000, -1);
    assert_int_equal(world_store(&a, 7, 1, 5000, 1, 1), SEL_INDEX_OK);
    expect(7, 5000, 1);
    expect(8, 5000, 2);
}


/* What a rank that nobody registered holds goes with its worker only. */
static void
test_foreign_life(void **state)
{
    assert_int_equal(world_store(&a, 7, 1, 9, 1, 3), SEL_INDEX_OK);
    assert_true(world_patch(&a, 7, "{\"total_kv_blocks\":7}"));
    world_refresh(&a);
    expect(7, 9, 3);

    /* its stream's rank has gone, the worker has not */
    assert_true(world_patch(&a, 7, "{\"data_parallel_start_rank\":2,"
                            "\"data_parallel_size\":1}"));
    world_refresh(&a);
    expect(7, 9, 3);
    expect(7, 1, -1);

    assert_true(world_patch(&a, 7, "{\"endpoint\":\"\"}"));
    world_refresh(&a);
    expect(7, 9, -1);
    assert_true(world_patch(&a, 7, "{\"endpoint\":\"e\"}"));
    world_refresh(&a);
    expect(7, 9, -1);
    expect(7, 2, 0);

    assert_int_equal(world_store(&a, 7, 2, 9, 1, 3), SEL_INDEX_OK);
    assert_true(world_delete(&a, 7));
    expect(7, 9, -1);
    expect(8, 0, 0);
}


/* A rank that was only named before is registered, and leaves again. */
static void
test_foreign_becomes_known(void **state)
{
    assert_int_equal(world_store(&a, 7, 1, 3, 1, 3), SEL_INDEX_OK);
    assert_true(world_patch(&a, 7, "{\"data_parallel_size\":3}"));
    world_refresh(&a);
    assert_true(world_blocks(&a, "default", "default", 7, 3, 1, 9) >= 0);
    assert_int_equal(world_store(&a, 7, 3, 3, 1, 4), SEL_INDEX_OK);
    assert_int_equal(world_store(&a, 7, 1, 3, 1, 5), SEL_INDEX_OK);
    expect(7, 3, 5);
    assert_true(world_select(&a, "{\"block_hashes\":[1,2],"
                             "\"sequence_hashes\":[1,2],\"isl_tokens\":32,"
                             "\"allowed_worker_ids\":[7]}"));
    world_expect(&a, "\"dp\":{\"1\":0,\"2\":0,\"3\":32}");

    assert_true(world_patch(&a, 7, "{\"data_parallel_size\":2}"));
    world_refresh(&a);
    expect(7, 3, -1);
    assert_int_equal(world_store(&a, 7, 1, 3, 1, 2), SEL_INDEX_OK);
    expect(7, 3, 2);
}


/* Between a change by another process and the view that learns of it. */
static void
test_behind(void **state)
{
    world_t  b;

    world_init(&b, &zone, 1, true);
    assert_int_equal(world_store(&a, 7, 1, 1, 1, 3), SEL_INDEX_OK);
    assert_true(world_delete(&b, 7));
    (void) world_store(&a, 7, 1, 1, 1, 5);      /* still its listener's */
    (void) world_store(&a, 7, 1, 9, 1, 5);
    expect(7, 1, -1);                           /* looks, and knows then */
    expect(7, 9, -1);
    assert_null(world_listener(&a, 7, 1));

    assert_true(world_post(&b, RECORD("7", "1", "2")));
    world_refresh(&a);
    expect(7, 1, 0);
    expect(7, 9, -1);
    world_free(&b);
}


/* All the way from a message. */
static void
test_feed(void **state)
{
    uint64_t          blocks[2];
    sel_buf_t         ask;
    sel_kv_feed_t    *feed;
    sel_kv_record_t   record;

    static sel_pack_t      pack;
    static const uint32_t  tokens[8] = { 90, 91, 92, 93, 94, 95, 96, 97 };

    feed = sel_kv_feed_create(4, 1);        /* an index knows no block size */
    assert_non_null(feed);
    memset(&record, 0, sizeof(record));
    record.sink = world_listener(&a, 7, 1)->sink;

    sel_pack_batch(&pack, 1);
    sel_pack_stored(&pack, 2, 5, 0, 90, 0);
    sel_pack_rank(&pack, 2);
    assert_true(sel_kv_send(feed, &record, 0, pack.data, pack.len));
    assert_true(record.counts[SEL_KV_STORED] == 1);
    assert_int_equal(sel_hash_blocks(tokens, 8, 4, false,
                                     sel_hash_block_seed(sel_str(""),
                                                         sel_str("")),
                                     NULL, 0, blocks), 2);
    sel_buf_init(&ask);
    sel_buf_printf(&ask, "{\"block_hashes\":[%" PRIu64 ",%" PRIu64 "],"
                   "\"sequence_hashes\":[1,2],\"isl_tokens\":32}", blocks[0],
                   blocks[1]);
    sel_buf_byte(&ask, 0);
    assert_true(world_select(&a, (char *) ask.data));
    world_expect(&a, "\"worker_id\":7,\"dp_rank\":2,");
    world_expect(&a, "\"dp\":{\"1\":0,\"2\":32}");
    sel_buf_free(&ask);
    sel_kv_feed_destroy(feed);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_batch_rank, begin, end),
        cmocka_unit_test_setup_teardown(test_remove_and_clear, begin, end),
        cmocka_unit_test_setup_teardown(test_foreign_bound, begin, end),
        cmocka_unit_test_setup_teardown(test_foreign_life, begin, end),
        cmocka_unit_test_setup_teardown(test_foreign_becomes_known, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_behind, begin, end),
        cmocka_unit_test_setup_teardown(test_feed, begin, end)
    };

    return cmocka_run_group_tests_name("ingest", tests, NULL, NULL);
}
