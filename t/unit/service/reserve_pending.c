/*
 * POST /reservations without a worker: what POST /select has answered is
 * booked, in whatever process.  Without it a selection could be booked twice
 * or be lost by a failure that a second try would mend, or something else
 * could be booked than was selected.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "reserve_test.h"


#define SELECT    "{" ID("r") "," EAST "," HASHES ","                         \
                  "\"pinned_worker\":{" TO("7", "1") "}}"
#define REPLAY    "{" ID("r") "," EAST "}"


static int
begin(void **state)
{
    worlds_begin(STATE_SIZE, false);
    must(&a, world_post(&a, SEVEN));

    return 0;
}


static void
replay_missing(void)
{
    refused(&a, world_reserve(&a, REPLAY), SEL_FAULT_NOT_FOUND,
            NO_PENDING("r", IN_EAST));
    refused(&b, world_reserve(&b, REPLAY), SEL_FAULT_NOT_FOUND,
            NO_PENDING("r", IN_EAST));
}


static void
test_replay(void **state)
{
    replay_missing();
    must(&a, world_select(&a, SELECT));
    expect_loads("7/0 0 0 0, 7/1 0 0 0");

    must(&b, world_reserve(&b, REPLAY));
    expect_text(world_text(&b), "{" ID("r") "," EAST ",\"worker_id\":7,"
                "\"dp_rank\":1,\"endpoint\":\"http://10.0.0.7:8000\"}");
    expect_loads("7/0 0 0 0, 7/1 1 33 2");

    /* used up, also when the booking has ended */
    replay_missing();
    must(&a, world_release(&a, "r"));
    replay_missing();
}


/* All but id and names must be well-formed, and is not looked at. */
static void
test_replay_members(void **state)
{
    must(&a, world_select(&a, "{" ID("r") "," EAST "," HASHES ","
             "\"pinned_worker\":{" TO("7", "1") "},"
             "\"router_config_override\":{\"track_prefill_tokens\":"
             "false}}"));
    must(&b, world_reserve(&b, "{" ID("r") "," EAST ",\"dp_rank\":0,"
             "\"sequence_hashes\":[1,2,3,4,5],\"isl_tokens\":900,"
             "\"effective_prefill_tokens\":1000,\"track_prefill_tokens\":"
             "true,\"worker_id\":null}"));
    expect_loads("7/0 0 0 0, 7/1 1 0 2");
}


/* The prompt is the one that was selected with, the credit too. */
static void
test_replay_credit(void **state)
{
    (void) worlds_end(NULL);
    worlds_begin(STATE_SIZE, true);
    must(&a, world_post(&a, "{\"worker_id\":7," EAST ",\"endpoint\":\"e\","
             "\"block_size\":16,\"kv_events_endpoints\":{\"0\":"
             "\"tcp://h:1\"}}"));
    world_refresh(&b);
    assert_int_equal(world_store(&b, 7, 0, 0, 101, 1), SEL_INDEX_OK);

    must(&b, world_select(&b, "{" ID("r") "," EAST "," HASHES "}"));
    world_expect(&b, "\"effective_prefill_tokens\":17,");
    must(&a, world_reserve(&a, REPLAY));
    expect_loads("7/0 1 17 2");
}


static void
test_replaced(void **state)
{
    must(&a, world_select(&a, SELECT));
    must(&b, world_select(&b, "{" ID("r") "," EAST ",\"advisory\":true,"
             "\"token_ids\":[1],\"pinned_worker\":{" TO("7", "0") "}}"));
    must(&a, world_reserve(&a, REPLAY));
    expect_loads("7/0 1 1 0, 7/1 0 0 0");
    replay_missing();
}


/* The id is the partition's; reservations under it are the service's. */
static void
test_partitions(void **state)
{
    must(&a, world_post(&a, "{\"worker_id\":9,\"endpoint\":\"e\","
             "\"block_size\":16}"));
    must(&a, world_select(&a, "{" ID("r") ",\"token_ids\":[1,2,3]}"));
    replay_missing();
    must(&b, world_select(&b, SELECT));

    must(&a, world_reserve(&a, REPLAY));
    refused(&b, world_reserve(&b, "{" ID("r") "}"), SEL_FAULT_CONFLICT,
            TAKEN("r"));
    must(&b, world_release(&b, "r"));
    must(&b, world_reserve(&b, "{" ID("r") "}"));
    expect_loads("9/0 1 3 0, 7/0 0 0 0, 7/1 0 0 0");

    refused(&b, world_reserve(&b, "{" ID("s") ",\"model_name\":\"x\"}"),
            SEL_FAULT_NOT_FOUND,
            NO_PENDING("s", "model=x routing_group=default"));
}


/* A selection may be made under a live booking's id. */
static void
test_selected_while_booked(void **state)
{
    must(&a, world_select_and_reserve(&a, SELECT));
    must(&b, world_select(&b, SELECT));
    refused(&a, world_reserve(&a, REPLAY), SEL_FAULT_CONFLICT, TAKEN("r"));
    refused(&b, world_reserve(&b, REPLAY), SEL_FAULT_CONFLICT, TAKEN("r"));
    must(&b, world_release(&b, "r"));
    must(&b, world_reserve(&b, REPLAY));
    expect_loads("7/0 0 0 0, 7/1 1 33 2");
}


/* A booking under the id of a pending selection leaves that alone. */
static void
test_booked_while_pending(void **state)
{
    must(&a, world_select(&a, SELECT));
    must(&b, world_select_and_reserve(&b, SELECT));
    must(&a, world_release(&a, "r"));
    must(&b, world_reserve(&b, REPLAY));
}


/* What is there is kept until worker and rank are back. */
static void
test_worker_away(void **state)
{
    must(&a, world_select(&a, SELECT));

    must(&a, world_post(&a, EIGHT));
    must(&a, world_patch(&a, 7, "{\"data_parallel_size\":1}"));
    refused(&b, world_reserve(&b, REPLAY), SEL_FAULT_NOT_FOUND,
            "schedulable worker 7 (dp_rank 1) not found for " IN_EAST);
    must(&a, world_delete(&a, 7));
    refused(&b, world_reserve(&b, REPLAY), SEL_FAULT_NOT_FOUND,
            "schedulable worker 7 (dp_rank 1) not found for " IN_EAST);

    /* before the id: 404, not 409 */
    must(&a, world_reserve(&a, "{" ID("other") "," EAST ","
                           TO("8", "3") ",\"token_ids\":[1]}"));
    refused(&a, world_reserve(&a, REPLAY), SEL_FAULT_NOT_FOUND,
            "schedulable worker 7 (dp_rank 1) not found for " IN_EAST);

    must(&a, world_delete(&a, 8));
    refused(&b, world_reserve(&b, REPLAY), SEL_FAULT_NOT_READY,
            "no schedulable workers are available");
    must(&a, world_post(&a, "{\"worker_id\":9,\"endpoint\":\"e\","
             "\"block_size\":16}"));
    refused(&b, world_reserve(&b, REPLAY), SEL_FAULT_NOT_READY,
            "no schedulable workers for " IN_EAST);

    /* nothing pending: 404 before 503 */
    refused(&b, world_reserve(&b, "{" ID("s") "," EAST "}"),
            SEL_FAULT_NOT_FOUND, NO_PENDING("s", IN_EAST));

    must(&a, world_post(&a, SEVEN));
    must(&b, world_reserve(&b, REPLAY));
    expect_loads("9/0 0 0 0, 7/0 0 0 0, 7/1 1 33 2");
}


/* The explicit form drops it, whatever comes of the rest. */
static void
test_explicit_drops(void **state)
{
    size_t  i;
    bool    done;

    static const struct {
        const char         *body;
        sel_fault_class_t   class;
    } rows[] = {
        { "{" ID("r") "," EAST "," TO("9", "0") "}", SEL_FAULT_BAD_REQUEST },
        { "{" ID("r") "," EAST "," TO("9", "0") ",\"token_ids\":[]}",
          SEL_FAULT_NOT_FOUND },
        { "{" ID("r") "," EAST "," TO("7", "9") ",\"token_ids\":[]}",
          SEL_FAULT_NOT_FOUND },
        { "{" ID("r") "," EAST "," TO("7", "0") ",\"token_ids\":[]}",
          SEL_FAULT_NONE },
        { "{" ID("r") "," EAST "," TO("7", "0") ",\"token_ids\":[]}",
          SEL_FAULT_CONFLICT },
    };

    for (i = 0; i < sel_countof(rows); i++) {
        must(&a, world_select(&a, SELECT));
        done = world_reserve(&b, rows[i].body);
        assert_int_equal(done, rows[i].class == SEL_FAULT_NONE);
        assert_int_equal(b.fault.class, rows[i].class);
        replay_missing();
    }

    /* also when nobody could serve it, but in its own partition alone */
    must(&a, world_select(&a, SELECT));
    must(&b, world_delete(&b, 7));
    refused(&a, world_reserve(&a, "{" ID("r") "," TO("7", "0") "}"),
            SEL_FAULT_NOT_READY, "no schedulable workers are available");
    refused(&a, world_reserve(&a, REPLAY), SEL_FAULT_NOT_READY,
            "no schedulable workers are available");
    refused(&a, world_reserve(&a, "{" ID("r") "," EAST "," TO("7", "0")
                              "}"), SEL_FAULT_NOT_READY,
            "no schedulable workers are available");
    replay_missing();
}


static void
test_limits(void **state)
{
    a.service.settings.pending.ttl = 1;
    b.service.settings.pending.ttl = 1;
    must(&a, world_select(&a, SELECT));
    replay_missing();

    a.service.settings.pending.ttl = UINT64_MAX;
    b.service.settings.pending.ttl = UINT64_MAX;
    a.service.settings.pending.max = 0;
    must(&a, world_select(&a, SELECT));
    replay_missing();

    a.service.settings.pending.max = 1;
    a.service.settings.pending.size = 2 * 8 + 1 + 5 + 4 - 1;
    must(&a, world_select(&a, SELECT));
    replay_missing();

    a.service.settings.pending.size++;
    must(&a, world_select(&a, SELECT));
    must(&b, world_reserve(&b, REPLAY));
    must(&b, world_release(&b, "r"));

    must(&a, world_select(&a, SELECT));
    must(&a, world_select(&a, "{" ID("s") "," EAST ",\"token_ids\":[1]}"));
    replay_missing();

    /* block hashes count where they are recorded, and LoRA names */
    world_learn(&a, UINT64_C(1) << 60);
    a.service.settings.pending.size = 2 * 16 + 1 + 5 + 4 - 1;
    must(&a, world_select(&a, SELECT));
    replay_missing();
    a.service.settings.pending.size = 2 * 16 + 1 + 5 + 4 + 3;
    must(&a, world_select(&a, SELECT));
    must(&b, world_reserve(&b, REPLAY));
    must(&b, world_release(&b, "r"));
    must(&a, world_select(&a, "{" ID("r") "," EAST "," HASHES ","
             "\"lora_name\":\"four\"}"));
    replay_missing();
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_replay, begin, worlds_end),
        cmocka_unit_test_setup_teardown(test_replay_members, begin,
                                        worlds_end),
        cmocka_unit_test_setup_teardown(test_replay_credit, begin,
                                        worlds_end),
        cmocka_unit_test_setup_teardown(test_replaced, begin, worlds_end),
        cmocka_unit_test_setup_teardown(test_partitions, begin, worlds_end),
        cmocka_unit_test_setup_teardown(test_selected_while_booked, begin,
                                        worlds_end),
        cmocka_unit_test_setup_teardown(test_booked_while_pending, begin,
                                        worlds_end),
        cmocka_unit_test_setup_teardown(test_worker_away, begin, worlds_end),
        cmocka_unit_test_setup_teardown(test_explicit_drops, begin,
                                        worlds_end),
        cmocka_unit_test_setup_teardown(test_limits, begin, worlds_end),
    };

    return cmocka_run_group_tests_name("reserve_pending", tests, NULL, NULL);
}
