/*
 * What an index learns from bookings, its own process's and others'.  Without
 * it one process could send a prompt elsewhere than where another has just
 * booked it, believe a booking for ever or one that was never made, or lose
 * blocks that an engine has told of.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "reserve_test.h"
#include "service/sel_learn.h"


#define LONG_TTL  (UINT64_C(1) << 50)
#define SHORT_TTL UINT64_C(400000000)
#define RING      10000                     /* bookings, at most */

#define FIVE      "\"block_hashes\":[1,2,3,4,5],"                             \
                  "\"sequence_hashes\":[1,2,3,4,5],\"isl_tokens\":80"
#define ON(w, r)  ",\"pinned_worker\":{" TO(w, r) "}"
#define WORKER(id)                                                            \
    "{\"worker_id\":" id "," EAST ",\"endpoint\":\"e\",\"block_size\":16,"    \
    "\"kv_events_endpoints\":{\"0\":\"tcp://h:1\"}}"


/* Without events. */
static int
begin(void **state)
{
    worlds_begin(STATE_SIZE, false);
    world_learn(&a, LONG_TTL);
    world_learn(&b, LONG_TTL);
    must(&a, world_post(&a, SEVEN));

    return 0;
}


/* Beside events. */
static int
begin_side(void **state)
{
    worlds_begin(STATE_SIZE, true);
    world_learn(&a, LONG_TTL);
    world_learn(&b, LONG_TTL);
    must(&a, world_post(&a, WORKER("7")));
    must(&a, world_post(&a, WORKER("8")));
    world_refresh(&b);

    return 0;
}


static int
knows(world_t *world, uint64_t worker, uint32_t rank)
{
    return world_blocks(world, "llama", "east", worker, rank, 1, 9);
}


static void
both_know(uint64_t worker, uint32_t rank, int blocks)
{
    assert_int_equal(knows(&b, worker, rank), blocks);
    assert_int_equal(knows(&a, worker, rank), blocks);
}


static void
test_recorded(void **state)
{
    must(&a, world_select_and_reserve(&a, "{" ID("r") "," EAST "," FIVE
                                      ON("7", "1") "}"));
    both_know(7, 1, 5);
    both_know(7, 0, 0);

    /* the very next selection anywhere */
    must(&b, world_select(&b, "{" EAST "," FIVE "}"));
    world_expect(&b, "\"dp_rank\":1,");
    world_expect(&b, "\"longest_matched\":80,\"gpu\":80,\"dp\":{\"0\":0,"
                 "\"1\":80}");

    /* no reservation's end takes anything away */
    must(&a, world_release(&a, "r"));
    both_know(7, 1, 5);
}


/*
 * A process that learns between requests has not read the catalog since; the
 * rank may be new to it.
 */

static void
test_rank_new(void **state)
{
    must(&a, world_select_and_reserve(&a, "{" EAST "," FIVE ON("7", "1")
                                      "}"));
    assert_true(sel_learn(&b.service));
    both_know(7, 1, 5);
}


static void
test_ways_to_book(void **state)
{
    /* selecting is no booking; its replay is one */
    must(&a, world_select(&a, "{" ID("p") "," EAST "," FIVE ON("7", "0")
                          "}"));
    both_know(7, 0, 0);
    must(&b, world_reserve(&b, "{" ID("p") "," EAST "}"));
    both_know(7, 0, 5);

    /* tracking hashes alone tell nothing, nor do refused bookings */
    must(&b, world_reserve(&b, "{" ID("q") "," EAST "," TO("7", "1") ","
             "\"sequence_hashes\":[1,2,3],\"isl_tokens\":80}"));
    refused(&b, world_reserve(&b, "{" ID("q") "," EAST "," TO("7", "1") ","
                              FIVE "}"), SEL_FAULT_CONFLICT, TAKEN("q"));
    refused(&a, world_select_and_reserve(&a, "{" ID("q") "," EAST "," FIVE
                                         ON("7", "1") "}"),
            SEL_FAULT_CONFLICT, TAKEN("q"));
    must(&b, world_potential(&b, "{" EAST "," FIVE "}"));
    both_know(7, 1, 0);

    must(&b, world_reserve(&b, "{" ID("s") "," EAST "," TO("7", "1") ","
             "\"block_hashes\":[1,2,3],\"sequence_hashes\":[8,8,8],"
             "\"isl_tokens\":1}"));
    both_know(7, 1, 3);
}


/* Tokens are recorded by the hashes that they have; without reuse, too. */
static void
test_tokens(void **state)
{
    static const char  tokens[] =
        "\"token_ids\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18]";
    char  body[256];

    (void) snprintf(body, sizeof(body), "{" EAST "," TO("7", "1") ",%s,"
                    ID("r") ",\"router_config_override\":"
                    "{\"assume_kv_reuse\":false}}", tokens);
    must(&a, world_reserve(&a, body));

    (void) snprintf(body, sizeof(body), "{" EAST ",%s}", tokens);
    must(&b, world_select(&b, body));
    world_expect(&b, "\"dp_rank\":1,");
    world_expect(&b, "\"longest_matched\":16,");
}


/* Who does not record does not tell, and does not listen. */
static void
test_not_recording(void **state)
{
    world_t  other;

    world_init(&other, &zone, 2, false);
    must(&other, world_select_and_reserve(&other, "{" EAST "," FIVE
                                          ON("7", "0") "}"));
    both_know(7, 0, 0);
    must(&a, world_select_and_reserve(&a, "{" EAST "," FIVE ON("7", "1")
                                      "}"));
    both_know(7, 1, 5);
    assert_int_equal(knows(&other, 7, 1), 0);
    world_free(&other);
}


/* A rank that is gone takes it along, for those who learn late, too. */
static void
test_rank_gone(void **state)
{
    must(&a, world_select_and_reserve(&a, "{" EAST "," FIVE ON("7", "1")
                                      "}"));
    assert_int_equal(knows(&a, 7, 1), 5);
    must(&a, world_delete(&a, 7));
    must(&a, world_post(&a, SEVEN));
    both_know(7, 1, 0);
    both_know(7, 0, 0);

    must(&b, world_select_and_reserve(&b, "{" EAST "," FIVE ON("7", "0")
                                      "}"));
    must(&b, world_patch(&b, 7, "{\"data_parallel_size\":1}"));
    both_know(7, 0, 5);
    must(&b, world_patch(&b, 7, "{\"data_parallel_size\":2}"));
    both_know(7, 0, 5);
    both_know(7, 1, 0);
}


/* Believed for so long and 100 ms at most, and as long anew. */
static void
test_forgotten(void **state)
{
    uint64_t  begun, done;

    (void) worlds_end(NULL);
    worlds_begin(STATE_SIZE, false);
    world_learn(&a, SHORT_TTL);
    world_learn(&b, SHORT_TTL);
    must(&a, world_post(&a, SEVEN));

    begun = sel_clock_ns();
    must(&a, world_select_and_reserve(&a, "{" EAST "," FIVE ON("7", "1")
                                      "}"));
    done = sel_clock_ns();

    while (knows(&b, 7, 1) == 5) {
        assert_true(sel_clock_ns() < done + SHORT_TTL + UINT64_C(9000000000));
        (void) usleep(1000);
    }

    assert_true(sel_clock_ns() >= begun + SHORT_TTL);
    assert_int_equal(knows(&b, 7, 1), 0);

    /* a process that looks only now has nothing to learn any more */
    assert_int_equal(knows(&a, 7, 1), 0);
    must(&a, world_select_and_reserve(&a, "{" EAST "," FIVE ON("7", "1")
                                      "}"));

    if (sel_clock_ns() < done + 2 * SHORT_TTL) {
        assert_int_equal(knows(&a, 7, 1), 5);
    }
}


static void
book_many(uint32_t from, uint32_t n)
{
    char      body[256];
    uint32_t  i;

    for (i = from; i < from + n; i++) {
        (void) snprintf(body, sizeof(body), "{" ID("many") "," EAST ","
                        TO("7", "0") ",\"block_hashes\":[%u,2],"
                        "\"sequence_hashes\":[1,2],\"isl_tokens\":32}",
                        1000 + i);
        must(&a, world_reserve(&a, body));
        must(&a, world_release(&a, "many"));
    }
}


static int
knows_one(world_t *world, uint32_t i)
{
    return world_blocks(world, "llama", "east", 7, 0, 1000 + i, 1);
}


/*
 * More decisions than the log holds: others are told to read in time, a
 * process that does not goes on with what there is and counts what it missed.
 */

static void
test_lapped(void **state)
{
    uint32_t  known, i, told;
    uint64_t  head, size;

    size = sel_decisions_size(&zone);
    book_many(0, 1);
    assert_int_equal(knows_one(&b, 0), 1);
    head = sel_decisions_head(&zone);
    world_forget(&a);

    for (i = 1; sel_decisions_head(&zone) < head + 3 * size; i++) {
        assert_true(i < RING);
        book_many(i, 1);
    }

    told = a.changed;
    assert_in_range(told, 11, 13);
    assert_true(sel_counted(&zone, SEL_COUNT_DECISIONS_LOST) == 0);

    /* the newest, and of all before what still was in the log */
    assert_int_equal(knows_one(&b, i - 1), 1);
    assert_int_equal(knows_one(&b, 1), 0);
    assert_int_equal(knows_one(&b, 0), 1);

    for (known = 0; knows_one(&b, i - 1 - known) == 1; known++) { }

    assert_in_range(known, i / 3 - 3, i / 3 + 3);
    assert_true(sel_counted(&zone, SEL_COUNT_DECISIONS_LOST)
                == sel_decisions_tail(&zone) - head);
}


/* A booking stands when there is no room to believe it. */
static void
test_no_room(void **state)
{
    uint32_t  i;

    sel_recent_destroy(b.service.learn.recent);
    b.service.learn.recent = sel_recent_create(b.service.index, 40000, 1);
    assert_non_null(b.service.learn.recent);

    for (i = 0; sel_counted(&zone, SEL_COUNT_DECISIONS_REFUSED) == 0; i++) {
        assert_true(i < RING);
        book_many(i, 1);
        (void) knows_one(&b, i);
    }

    assert_true(i > 3);
    must(&b, world_select_and_reserve(&b, "{" ID("r") "," EAST "," FIVE
                                      ON("7", "1") "}"));
    assert_int_equal(knows(&a, 7, 1), 5);
    expect_loads("7/0 0 0 0, 7/1 1 80 5");
}


/* Each rank has the more of both; lower tiers and other ranks do not move. */
static void
test_side(void **state)
{
    assert_int_equal(world_store(&a, 7, 0, 0, 1, 2), SEL_INDEX_OK);
    assert_int_equal(world_store(&b, 7, 0, 0, 1, 2), SEL_INDEX_OK);
    both_know(7, 0, 2);

    must(&a, world_reserve(&a, "{" ID("r") "," EAST "," TO("8", "0") ","
             "\"block_hashes\":[1,2,3],\"sequence_hashes\":[1,2,3],"
             "\"isl_tokens\":48}"));
    must(&b, world_reserve(&b, "{" ID("s") "," EAST "," TO("7", "0") ","
             "\"block_hashes\":[1],\"sequence_hashes\":[1],"
             "\"isl_tokens\":16}"));
    both_know(8, 0, 3);
    both_know(7, 0, 2);

    must(&b, world_reserve(&b, "{" ID("t") "," EAST "," TO("7", "0") ","
             FIVE "}"));
    both_know(7, 0, 5);
    both_know(8, 0, 3);
}


static sel_index_result_t
clear(world_t *world, uint64_t worker)
{
    world_listener_t    *listener;
    sel_index_change_t   change;

    listener = world_listener(world, worker, 0);
    assert_non_null(listener);
    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_CLEARED;

    return listener->sink.apply(listener->sink.data, 0, &change);
}


/* What engines say and what is believed live on their own. */
static void
test_side_apart(void **state)
{
    assert_int_equal(world_store(&a, 7, 0, 0, 1, 4), SEL_INDEX_OK);
    must(&a, world_reserve(&a, "{" ID("r") "," EAST "," TO("7", "0") ","
             "\"block_hashes\":[1,2],\"sequence_hashes\":[1,2],"
             "\"isl_tokens\":32}"));
    assert_int_equal(knows(&a, 7, 0), 4);
    assert_int_equal(clear(&a, 7), SEL_INDEX_OK);
    assert_int_equal(knows(&a, 7, 0), 2);
    both_know(7, 0, 2);

    must(&b, world_delete(&b, 7));
    must(&b, world_post(&b, WORKER("7")));
    both_know(7, 0, 0);
}


static uint16_t
owner_of(world_t *world, uint64_t worker)
{
    world_listener_t  *listener;

    listener = world_listener(world, worker, 0);
    assert_non_null(listener);

    return listener->rank->owner;
}


/*
 * An engine's hashes may well be the public sequence hashes.  When a worker
 * goes whose bookings are still believed, and another one comes that gets the
 * same number in the index, what its engine has told of must stay when the
 * belief ends.
 */

static void
test_side_number_used_again(void **state)
{
    int                  n;
    char                 text[256];
    uint16_t             side;
    uint64_t             id, end;
    sel_index_change_t   change;

    static const uint64_t  blocks[] = { 1, 2, 3, 4, 5 };
    uint64_t               hashes[5];

    a.service.settings.learn_ttl = SHORT_TTL;
    must(&a, world_reserve(&a, "{" ID("r") "," EAST "," TO("7", "0") "," FIVE
                           "}"));
    end = sel_clock_ns() + SHORT_TTL + UINT64_C(100000000);
    assert_int_equal(knows(&a, 7, 0), 5);
    side = sel_index_find_owner(a.service.index,
                                world_listener(&a, 7, 0)->rank->partition
                                | SEL_VIEW_SIDE, 7, 0);
    assert_int_not_equal(side, SEL_INDEX_NO_OWNER);

    must(&a, world_delete(&a, 7));

    while (!sel_index_sweep(a.service.index, 1000)) { }

    /* workers come until one has the number */
    for (id = 100; ; id++) {
        assert_true(id < 110);
        (void) snprintf(text, sizeof(text), "{\"worker_id\":%d," EAST ","
                        "\"endpoint\":\"e\",\"block_size\":16,"
                        "\"kv_events_endpoints\":{\"0\":\"tcp://h:1\"}}",
                        (int) id);
        must(&a, world_post(&a, text));

        if (owner_of(&a, id) == side) {
            break;
        }
    }

    sel_hash_chain(blocks, 5, SEL_HASH_SEED, hashes);
    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_STORED;
    change.n = 5;
    change.block = blocks;
    change.external = hashes;
    assert_int_equal(world_listener(&a, id, 0)->sink.apply(
                         world_listener(&a, id, 0)->sink.data, 0, &change),
                     SEL_INDEX_OK);
    assert_int_equal(knows(&a, id, 0), 5);

    for (n = 0; sel_clock_ns() < end; n++) {
        assert_true(n < 100000);
        assert_int_equal(knows(&a, id, 0), 5);
        (void) usleep(1000);
    }

    assert_int_equal(knows(&a, id, 0), 5);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_recorded, begin, worlds_end),
        cmocka_unit_test_setup_teardown(test_rank_new, begin, worlds_end),
        cmocka_unit_test_setup_teardown(test_ways_to_book, begin, worlds_end),
        cmocka_unit_test_setup_teardown(test_tokens, begin, worlds_end),
        cmocka_unit_test_setup_teardown(test_not_recording, begin,
                                        worlds_end),
        cmocka_unit_test_setup_teardown(test_rank_gone, begin, worlds_end),
        cmocka_unit_test_setup_teardown(test_forgotten, begin, worlds_end),
        cmocka_unit_test_setup_teardown(test_lapped, begin, worlds_end),
        cmocka_unit_test_setup_teardown(test_no_room, begin, worlds_end),
        cmocka_unit_test_setup_teardown(test_side, begin_side, worlds_end),
        cmocka_unit_test_setup_teardown(test_side_apart, begin_side,
                                        worlds_end),
        cmocka_unit_test_setup_teardown(test_side_number_used_again,
                                        begin_side, worlds_end),
    };

    return cmocka_run_group_tests_name("reserve_learn", tests, NULL, NULL);
}
