/*
 * What a change of a worker does to its ranks in every process: listeners,
 * owners in the index, blocks, slots.  Without it a PATCH of a capacity could
 * throw a warm cache away, or a moved or replaced worker keep blocks that its
 * engine does not have.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "index/sel_index_check.h"
#include "state_test.h"
#include "service_expect.h"


static sel_zone_t  zone;
static world_t     a, b;


static int
begin(void **state)
{
    state_private(&zone, STATE_SIZE);
    world_init(&a, &zone, 0, true);
    world_init(&b, &zone, 1, true);

    return 0;
}


static int
end(void **state)
{
    const char  *error;

    state_check(&zone);
    error = sel_index_check(a.service.index);
    assert_null(error);
    error = sel_index_check(b.service.index);
    assert_null(error);

    world_free(&a);
    world_free(&b);
    state_private_free(&zone);

    return 0;
}


/* A worker's record with ranks from start on; extra members begin with ",". */
#define WORKER(id, start, size, endpoints, extra)                             \
    "{\"worker_id\":" id ",\"endpoint\":\"http://e\",\"block_size\":16,"      \
    "\"data_parallel_start_rank\":" start ","                                 \
    "\"data_parallel_size\":" size ","                                        \
    "\"kv_events_endpoints\":{" endpoints "}" extra "}"

#define E0  "\"0\":\"tcp://h:1\""
#define E1  "\"1\":\"tcp://h:2\""
#define E2  "\"2\":\"tcp://h:3\""


static void
post(world_t *world, const char *text)
{
    if (!world_post(world, text)) {
        fail_msg("%s: %s", text, world->fault.text);
    }
}


static void
patch(world_t *world, const char *text)
{
    if (!world_patch(world, 7, text)) {
        fail_msg("%s: %s", text, world->fault.text);
    }
}


/* Both processes tell their hosts the same, and agree on the slots used. */
static void
expect_events(const char *expected, uint32_t slots)
{
    world_refresh(&a);
    world_refresh(&b);
    world_expect_events(&a, expected);
    world_expect_events(&b, expected);
    assert_true(state_stats(&zone).slots_used == slots);
    assert_int_equal(a.n_listeners, slots);
    assert_int_equal(b.n_listeners, slots);
    world_same(&a, &b);
}


/* Each rank of worker 7 stores n + rank blocks from first on, everywhere. */
static void
store(uint32_t ranks, uint64_t first, uint32_t n)
{
    uint32_t  i;

    for (i = 0; i < ranks; i++) {
        assert_int_equal(world_store(&a, 7, i, i, first, n + i),
                         SEL_INDEX_OK);
        assert_int_equal(world_store(&b, 7, i, i, first, n + i),
                         SEL_INDEX_OK);
    }
}


static void
expect_blocks(const char *group, uint32_t dp_rank, int expected)
{
    assert_int_equal(world_blocks(&a, "default", group, 7, dp_rank, 1, 10),
                     expected);
    assert_int_equal(world_blocks(&b, "default", group, 7, dp_rank, 1, 10),
                     expected);
}


static void
test_metadata_keeps(void **state)
{
    sel_view_rank_t  *rank;

    post(&a, WORKER("7", "0", "2", E0 "," E1, ""));
    expect_events("+7/0 +7/1", 2);
    store(2, 1, 3);
    rank = world_listener(&b, 7, 1)->rank;

    patch(&a, "{\"max_num_batched_tokens\":1,\"total_kv_blocks\":2,"
          "\"taints\":[\"t\"],\"topology_domains\":{\"a\":\"b\"},"
          "\"stable_routing_id\":\"s\",\"kv_transfer_domain\":\"d\","
          "\"router_hint_worker_type\":\"x\",\"endpoint\":\"http://new\"}");
    expect_events("", 2);
    expect_blocks("default", 0, 3);
    expect_blocks("default", 1, 4);

    /* the same again, by a registration in the other process */
    post(&b, WORKER("7", "0", "2", E1 "," E0, ",\"total_kv_blocks\":9"));
    expect_events("", 2);
    expect_blocks("default", 0, 3);
    expect_blocks("default", 1, 4);
    assert_ptr_equal(world_listener(&b, 7, 1)->rank, rank);
    assert_true(rank->worker->record.total_kv_blocks == 9);
}


static void
test_new_source_starts_empty(void **state)
{
    post(&a, WORKER("7", "0", "2", E0 "," E1, ""));
    expect_events("+7/0 +7/1", 2);
    store(2, 1, 3);

    patch(&b, "{\"kv_events_endpoints\":{" E0 ",\"1\":\"tcp://h:9\"}}");
    expect_events("-7/1 +7/1", 2);
    expect_blocks("default", 0, 3);
    expect_blocks("default", 1, 0);

    /* there and back again is two changes, although nothing differs now */
    store(2, 1, 3);
    patch(&a, "{\"kv_events_endpoints\":{" E0 "," E1 "}}");
    patch(&a, "{\"kv_events_endpoints\":{" E0 ",\"1\":\"tcp://h:9\"}}");
    world_forget(&a);
    world_refresh(&b);
    world_expect_events(&b, "-7/1 +7/1");
    expect_blocks("default", 0, 3);
    expect_blocks("default", 1, 0);
}


static void
test_replay_endpoint(void **state)
{
    post(&a, WORKER("7", "0", "1", E0, ""));
    expect_events("+7/0", 1);
    store(1, 1, 3);

    patch(&a, "{\"replay_endpoint\":\"tcp://h:8\"}");
    expect_events("-7/0 +7/0", 1);
    expect_blocks("default", 0, 0);

    store(1, 1, 3);
    patch(&a, "{\"replay_endpoint\":\"tcp://h:8\"}");
    expect_events("", 1);
    expect_blocks("default", 0, 3);

    /* the same source under another member */
    post(&a, "{\"worker_id\":7,\"endpoint\":\"http://e\",\"block_size\":16,"
         "\"kv_events_endpoint\":\"tcp://h:1\","
         "\"replay_endpoint\":\"tcp://h:8\"}");
    expect_events("", 1);
    expect_blocks("default", 0, 3);

    post(&a, WORKER("7", "0", "1", E0, ""));
    expect_events("-7/0 +7/0", 1);
    expect_blocks("default", 0, 0);
}


static void
test_ranges(void **state)
{
    post(&a, WORKER("7", "0", "3", E0 "," E1 "," E2, ""));
    expect_events("+7/0 +7/1 +7/2", 3);
    store(3, 1, 3);

    /* fewer ranks */
    patch(&a, "{\"data_parallel_size\":2}");
    expect_events("-7/2", 2);
    expect_blocks("default", 0, 3);
    expect_blocks("default", 1, 4);
    expect_blocks("default", 2, -1);

    /* other ranks: what is in both ranges stays */
    patch(&a, "{\"data_parallel_start_rank\":1}");
    expect_events("-7/0 +7/2", 2);
    expect_blocks("default", 0, -1);
    expect_blocks("default", 1, 4);
    expect_blocks("default", 2, 0);

    patch(&a, "{\"data_parallel_start_rank\":0,\"data_parallel_size\":3}");
    expect_events("+7/0", 3);
    expect_blocks("default", 0, 0);
    expect_blocks("default", 1, 4);
}


static void
test_lost_and_found(void **state)
{
    post(&a, WORKER("7", "0", "2", E0 "," E1, ""));
    expect_events("+7/0 +7/1", 2);
    store(2, 1, 3);
    post(&a, WORKER("8", "0", "1", E0, ""));
    expect_events("+8/0", 3);

    /* incomplete: gone from everywhere, also from the index */
    patch(&b, "{\"endpoint\":\"\"}");
    expect_events("-7/0 -7/1", 1);
    expect_blocks("default", 0, -1);

    patch(&a, "{\"endpoint\":\"http://e\"}");
    expect_events("+7/0 +7/1", 3);
    expect_blocks("default", 0, 0);
    expect_blocks("default", 1, 0);

    /* deleted and registered again */
    store(2, 1, 3);
    assert_true(world_delete(&a, 7));
    expect_events("-7/0 -7/1", 1);
    post(&b, WORKER("7", "0", "2", E0 "," E1, ""));
    expect_events("+7/0 +7/1", 3);
    expect_blocks("default", 0, 0);

    /* the same before the other process looks */
    store(2, 1, 3);
    assert_true(world_delete(&a, 7));
    post(&a, WORKER("7", "0", "2", E0 "," E1, ""));
    world_forget(&a);
    world_refresh(&b);
    world_expect_events(&b, "-7/0 -7/1 +7/0 +7/1");
    expect_blocks("default", 0, 0);
    expect_blocks("default", 1, 0);
}


static void
test_move(void **state)
{
    post(&a, WORKER("7", "0", "1", E0, ""));
    post(&a, WORKER("8", "0", "1", E0, ""));
    expect_events("+7/0 +8/0", 2);
    store(1, 1, 3);

    post(&b, WORKER("7", "0", "1", E0, ",\"routing_group\":\"g\""));
    expect_events("-7/0 +7/0", 2);
    expect_blocks("default", 0, -1);
    expect_blocks("g", 0, 0);

    /* the new partition is fed, the old one is not */
    store(1, 1, 5);
    expect_blocks("g", 0, 5);
    expect_blocks("default", 0, -1);

    /* a move into a partition that does not fit takes it out of both */
    assert_true(world_post(&b, "{\"worker_id\":7,\"endpoint\":\"http://e\","
                           "\"block_size\":32,\"routing_group\":\"default\","
                           "\"kv_events_endpoint\":\"tcp://h:1\"}"));
    world_expect(&b, "block_size mismatch");
    expect_events("-7/0", 1);
    expect_blocks("default", 0, -1);

    post(&a, WORKER("7", "0", "1", E0, ",\"routing_group\":\"g\""));
    expect_events("+7/0", 2);
    expect_blocks("g", 0, 0);
}


/* A process that slept through more deletions than there are tombs. */
static void
test_far_behind(void **state)
{
    char      text[256];
    uint32_t  i;

    for (i = 0; i < 100; i++) {
        (void) snprintf(text, sizeof(text), WORKER("%u", "0", "1",
                                                   "\"0\":\"tcp://h:%u\"",
                                                   ""), i, i + 1);
        post(&a, text);
    }

    world_refresh(&b);
    assert_int_equal(b.n_listeners, 100);
    assert_int_equal(world_store(&b, 90, 0, 0, 1, 3), SEL_INDEX_OK);
    world_forget(&b);

    for (i = 0; i < 80; i++) {
        assert_true(world_delete(&a, i));
    }

    for (i = 200; i < 270; i++) {
        (void) snprintf(text, sizeof(text), WORKER("%u", "0", "1",
                                                   "\"0\":\"tcp://h:%u\"",
                                                   ""), i, i + 1);
        post(&a, text);
        assert_true(i < 205 || world_delete(&a, i));
    }

    world_refresh(&b);
    assert_int_equal(b.n_listeners, 25);
    assert_int_equal(b.n_events, 80 + 5);
    assert_true(state_stats(&zone).slots_used == 25);
    world_same(&a, &b);
    assert_int_equal(world_blocks(&b, "default", "default", 90, 0, 1, 10), 3);
    assert_int_equal(world_blocks(&b, "default", "default", 5, 0, 1, 10), -1);

    /* a process that begins now sees the same */
    world_free(&b);
    world_init(&b, &zone, 1, true);
    world_same(&a, &b);
    assert_int_equal(b.n_listeners, 25);
}


/* Ranks keep their slots and get no one else's. */
static void
test_slots(void **state)
{
    char                 text[256];
    uint32_t             i, k;
    sel_arena_t          arena;
    sel_view_rank_t     *rank;
    sel_worker_record_t  record;

    for (i = 0; i < 60; i++) {
        (void) snprintf(text, sizeof(text), WORKER("%u", "0", "2",
                        "\"0\":\"tcp://h:1\",\"1\":\"tcp://h:2\"", ""),
                        i % 20);
        assert_true(i % 20 % 3 != 0 || i < 20 || world_delete(&a, i % 20));
        post(&a, text);
    }

    world_refresh(&b);

    for (i = 0; i < 20; i++) {
        sel_arena_init(&arena, 0);
        assert_int_equal(sel_catalog_worker(&zone, i, &arena, &record), 1);
        assert_int_equal(record.n_ranks, 2);

        for (k = 0; k < 2; k++) {
            rank = world_listener(&b, i, k)->rank;
            assert_int_equal(rank->slot, record.ranks[k].slot);
            assert_int_equal(rank->epoch, record.ranks[k].epoch);
            assert_int_equal(rank->feed, record.ranks[k].feed);
            assert_int_equal(rank->partition, record.partition);
            rank = world_listener(&a, i, k)->rank;
            assert_int_equal(rank->slot, record.ranks[k].slot);
            assert_int_equal(rank->epoch, record.ranks[k].epoch);
        }

        sel_arena_free(&arena);
    }

    assert_true(state_stats(&zone).slots_used == 40);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_metadata_keeps, begin, end),
        cmocka_unit_test_setup_teardown(test_new_source_starts_empty, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_replay_endpoint, begin, end),
        cmocka_unit_test_setup_teardown(test_ranges, begin, end),
        cmocka_unit_test_setup_teardown(test_lost_and_found, begin, end),
        cmocka_unit_test_setup_teardown(test_move, begin, end),
        cmocka_unit_test_setup_teardown(test_far_behind, begin, end),
        cmocka_unit_test_setup_teardown(test_slots, begin, end)
    };

    return cmocka_run_group_tests_name("worker_ranks", tests, NULL, NULL);
}
