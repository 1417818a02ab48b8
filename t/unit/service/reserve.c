/*
 * POST /select_and_reserve, POST /reservations with a worker, and what happens
 * to a reservation, in two processes.  Without it a client could be told the
 * wrong fault of two and retry for ever, or load could be booked that nobody
 * has, or none.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "reserve_test.h"


#define NONE      "no schedulable workers are available"
#define NONE_HERE "no schedulable workers for "
#define MISSING(member)  member " is required without token_ids"


static int
begin(void **state)
{
    worlds_begin(STATE_SIZE, false);

    return 0;
}


static void
reserve_refused(const char *body, sel_fault_class_t class, const char *text)
{
    refused(&a, world_reserve(&a, body), class, text);
    refused(&b, world_reserve(&b, body), class, text);
}


static void
select_refused(const char *body, sel_fault_class_t class, const char *text)
{
    refused(&a, world_select_and_reserve(&a, body), class, text);
    refused(&b, world_select_and_reserve(&b, body), class, text);
}


/* Each row is worse off than the one behind it, so both faults at once tell
   which is looked at first. */
static void
test_order_explicit(void **state)
{
    reserve_refused("{" ID("r") "," EAST "," TO("9", "5") "}",
                    SEL_FAULT_NOT_READY, NONE);

    must(&a, world_post(&a, EIGHT));
    reserve_refused("{" ID("r") ",\"model_name\":\"llama\","
                    "\"routing_group\":\"west\"," TO("9", "5") "}",
                    SEL_FAULT_NOT_READY, NONE_HERE IN_WEST);

    must(&a, world_post(&a, SEVEN));
    must(&b, world_reserve(&b, "{" ID("r") "," EAST "," TO("7", "0")
                           ",\"sequence_hashes\":[],\"isl_tokens\":0}"));

    reserve_refused("{" ID("r") "," EAST "," TO("9", "5")
                    ",\"effective_prefill_tokens\":33}",
                    SEL_FAULT_BAD_REQUEST, MISSING("sequence_hashes"));
    reserve_refused("{" ID("r") "," EAST "," TO("9", "5")
                    ",\"sequence_hashes\":[1],\"effective_prefill_tokens\":"
                    "33}", SEL_FAULT_BAD_REQUEST, MISSING("isl_tokens"));
    reserve_refused("{" ID("r") "," EAST "," TO("9", "5")
                    ",\"sequence_hashes\":[1],\"isl_tokens\":32,"
                    "\"effective_prefill_tokens\":33}",
                    SEL_FAULT_BAD_REQUEST, "effective_prefill_tokens (33) "
                    "must not exceed isl_tokens (32)");
    reserve_refused("{" ID("r") "," EAST "," TO("9", "5")
                    ",\"sequence_hashes\":[1],\"isl_tokens\":32}",
                    SEL_FAULT_NOT_FOUND,
                    "schedulable worker 9 not found for " IN_EAST);
    reserve_refused("{" ID("r") "," EAST "," TO("7", "5")
                    ",\"sequence_hashes\":[1],\"isl_tokens\":32}",
                    SEL_FAULT_CONFLICT, TAKEN("r"));
    reserve_refused("{" ID("s") "," EAST "," TO("7", "5")
                    ",\"sequence_hashes\":[1],\"isl_tokens\":32}",
                    SEL_FAULT_NOT_FOUND, "Worker WorkerWithDpRank { "
                    "worker_id: 7, dp_rank: 5 } not found");

    /* the rank is 0, not the worker's first */
    reserve_refused("{" ID("s") "," EAST ",\"worker_id\":8"
                    ",\"sequence_hashes\":[1],\"isl_tokens\":32}",
                    SEL_FAULT_NOT_FOUND, "Worker WorkerWithDpRank { "
                    "worker_id: 8, dp_rank: 0 } not found");

    expect_loads("7/0 1 0 0, 7/1 0 0 0, 8/3 0 0 0");
}


/* Hashes that are recorded are checked after the worker, before the id. */
static void
test_order_recorded(void **state)
{
    must(&a, world_post(&a, SEVEN));
    must(&a, world_reserve(&a, "{" ID("r") "," EAST "," TO("7", "0")
                           ",\"sequence_hashes\":[1],\"isl_tokens\":0,"
                           "\"block_hashes\":[1,2]}"));

    world_learn(&a, UINT64_C(1) << 60);
    world_learn(&b, UINT64_C(1) << 60);

    reserve_refused("{" ID("r") "," EAST "," TO("9", "5")
                    ",\"sequence_hashes\":[1],\"isl_tokens\":32,"
                    "\"block_hashes\":[1,2]}", SEL_FAULT_NOT_FOUND,
                    "schedulable worker 9 not found for " IN_EAST);
    reserve_refused("{" ID("r") "," EAST "," TO("7", "5")
                    ",\"sequence_hashes\":[1],\"isl_tokens\":0,"
                    "\"block_hashes\":[1,2]}", SEL_FAULT_BAD_REQUEST,
                    "isl_tokens must be greater than 0");
    reserve_refused("{" ID("r") "," EAST "," TO("7", "5")
                    ",\"sequence_hashes\":[1],\"isl_tokens\":32,"
                    "\"block_hashes\":[1,2]}", SEL_FAULT_BAD_REQUEST,
                    "block_hashes length 2 must match sequence_hashes "
                    "length 1");
    reserve_refused("{" ID("r") "," EAST "," TO("7", "5")
                    ",\"sequence_hashes\":[1,2],\"isl_tokens\":32,"
                    "\"block_hashes\":[1,2]}", SEL_FAULT_CONFLICT,
                    TAKEN("r"));

    /* without any, or with tokens, there is nothing to check */
    must(&b, world_reserve(&b, "{" ID("s") "," EAST "," TO("7", "1")
                           ",\"sequence_hashes\":[1],\"isl_tokens\":0}"));
    must(&b, world_reserve(&b, "{" ID("t") "," EAST "," TO("7", "1")
                           ",\"token_ids\":[],\"block_hashes\":[1,2],"
                           "\"sequence_hashes\":[1]}"));
    expect_loads("7/0 1 0 1, 7/1 2 0 1");
}


static void
test_order_select_and_reserve(void **state)
{
    select_refused("{" ID("r") "," EAST "}", SEL_FAULT_NOT_READY, NONE);

    must(&a, world_post(&a, SEVEN));
    must(&a, world_select_and_reserve(&a, "{" ID("r") "," EAST "," HASHES
                                      "}"));
    select_refused("{" ID("r") ",\"model_name\":\"llama\","
                   "\"routing_group\":\"west\"}",
                   SEL_FAULT_NOT_READY, NONE_HERE IN_WEST);
    select_refused("{" ID("r") "," EAST "}", SEL_FAULT_CONFLICT, TAKEN("r"));
    select_refused("{" ID("s") "," EAST ",\"allowed_worker_ids\":[]}",
                   SEL_FAULT_BAD_REQUEST, MISSING("block_hashes"));
    select_refused("{" EAST ",\"block_hashes\":[1]}",
                   SEL_FAULT_BAD_REQUEST, MISSING("sequence_hashes"));
    select_refused("{" EAST ",\"block_hashes\":[1],\"sequence_hashes\":[]}",
                   SEL_FAULT_BAD_REQUEST, MISSING("isl_tokens"));
    select_refused("{" EAST ",\"token_ids\":[],\"allowed_worker_ids\":[]}",
                   SEL_FAULT_BAD_REQUEST, "isl_tokens must be greater than 0");
    select_refused("{" EAST "," HASHES ",\"allowed_worker_ids\":[8],"
                   "\"pinned_worker\":{" TO("7", "0") "}}",
                   SEL_FAULT_BAD_REQUEST,
                   "pinned worker 7 is not in allowed worker set");
    select_refused("{" ID("s") "," EAST "," HASHES
                   ",\"allowed_worker_ids\":[8]}", SEL_FAULT_NOT_READY,
                   "no endpoints available to route work");

    /* nothing of it has kept the id */
    must(&b, world_select_and_reserve(&b, "{" ID("s") "," EAST "," HASHES
                                      ",\"allowed_worker_ids\":[7]}"));
}


#define PICK(w, r)                                                            \
    EAST ",\"worker_id\":" w ",\"dp_rank\":" r ","                            \
    "\"endpoint\":\"http://10.0.0.7:8000\""


static void
test_answers(void **state)
{
    must(&a, world_post(&a, SEVEN));

    must(&b, world_select_and_reserve(&b, "{" ID("r") "," EAST ","
             "\"block_hashes\":[1,2],\"sequence_hashes\":[-1,"
             "9223372036854775808],\"isl_tokens\":33,\"pinned_worker\":{"
             TO("7", "1") "}}"));
    expect_text(world_text(&b), "{" ID("r") ",\"sequence_hashes\":[-1,"
                "-9223372036854775808],\"isl_tokens\":33,"
                "\"track_prefill_tokens\":true," PICK("7", "1")
                ",\"block_size\":16,\"overlap\":{\"longest_matched\":0,"
                "\"gpu\":0,\"dp\":{\"0\":0,\"1\":0},\"cpu\":0,\"disk\":0},"
                "\"effective_prefill_tokens\":33,"
                "\"potential_decode_blocks\":3}");
    expect_loads("7/0 0 0 0, 7/1 1 33 2");

    /* untracked, and as the other process sees the first one's blocks */
    must(&a, world_select_and_reserve(&a, "{" ID("") "," EAST ","
             "\"block_hashes\":[1,2],\"sequence_hashes\":[-1,7],"
             "\"isl_tokens\":32,\"pinned_worker\":{" TO("7", "1") "},"
             "\"router_config_override\":{\"track_prefill_tokens\":false}}"));
    world_expect(&a, "{" ID("") ",\"sequence_hashes\":[-1,7],\"isl_tokens\":"
                 "32,\"track_prefill_tokens\":false,");
    world_expect(&a, "\"effective_prefill_tokens\":32,"
                 "\"potential_decode_blocks\":3}");
    expect_loads("7/0 0 0 0, 7/1 2 33 3");

    must(&a, world_reserve(&a, "{" ID("a\\u0000\\\"\\u00e9") "," EAST ","
             TO("7", "0") ",\"sequence_hashes\":[301],\"isl_tokens\":32,"
             "\"effective_prefill_tokens\":20,\"expected_output_tokens\":"
             "128}"));
    expect_text(world_text(&a), "{" ID("a\\u0000\\\"\xc3\xa9") ","
                PICK("7", "0") "}");
    expect_loads("7/0 1 20 1, 7/1 2 33 3");
}


/* Which value of an explicit reservation is prefill load. */
static void
test_tracked(void **state)
{
    size_t  i;
    char    body[512], loads[64];

    static const struct {
        const char  *members;
        int          tokens;
    } rows[] = {
        { "", 0 },
        { "\"track_prefill_tokens\":true,", 0 },
        { "\"effective_prefill_tokens\":0,", 0 },
        { "\"effective_prefill_tokens\":384,", 384 },
        { "\"effective_prefill_tokens\":512,", 512 },
        { "\"effective_prefill_tokens\":384,\"track_prefill_tokens\":false,",
          0 },
        { "\"effective_prefill_tokens\":384,\"track_prefill_tokens\":true,"
          "\"router_config_override\":{\"track_prefill_tokens\":false},",
          384 },
        { "\"effective_prefill_tokens\":384,"
          "\"router_config_override\":{\"track_prefill_tokens\":false},",
          384 },
    };

    must(&a, world_post(&a, SEVEN));

    for (i = 0; i < sel_countof(rows); i++) {
        (void) snprintf(body, sizeof(body), "{%s" ID("r") "," EAST ","
                        "\"worker_id\":7,\"sequence_hashes\":[1,2],"
                        "\"isl_tokens\":512}", rows[i].members);
        (void) snprintf(loads, sizeof(loads), "7/0 1 %d 2, 7/1 0 0 0",
                        rows[i].tokens);
        must(&b, world_reserve(&b, body));
        expect_loads(loads);
        must(&a, world_release(&a, "r"));
    }

    expect_loads("7/0 0 0 0, 7/1 0 0 0");
}


static void
test_events(void **state)
{
    must(&a, world_post(&a, SEVEN));
    must(&a, world_select_and_reserve(&a, "{" ID("r") "," EAST "," HASHES
             ",\"pinned_worker\":{" TO("7", "0") "}}"));
    expect_loads("7/0 1 33 2, 7/1 0 0 0");

    must(&b, world_prefilled(&b, "r"));
    expect_loads("7/0 1 0 2, 7/1 0 0 0");
    must(&a, world_prefilled(&a, "r"));

    must(&b, world_output(&b, "r", "{}"));
    must(&a, world_output(&a, "r", "{\"decay_fraction\":null}"));
    expect_loads("7/0 1 0 4, 7/1 0 0 0");
    must(&b, world_output(&b, "r", "{\"decay_fraction\":0.5}"));
    expect_loads("7/0 1 0 3, 7/1 0 0 0");
    must(&b, world_output(&b, "r", "{\"decay_fraction\":1}"));
    expect_loads("7/0 1 0 6, 7/1 0 0 0");
    must(&b, world_output(&b, "r", "{\"decay_fraction\":0}"));
    expect_loads("7/0 1 0 0, 7/1 0 0 0");

    must(&b, world_release(&b, "r"));
    expect_loads("7/0 0 0 0, 7/1 0 0 0");

    refused(&a, world_release(&a, "r"), SEL_FAULT_NOT_FOUND,
            "reservation r not found");
    refused(&a, world_prefilled(&a, "r"), SEL_FAULT_NOT_FOUND,
            "reservation r not found");
    refused(&a, world_output(&a, "r", "{}"), SEL_FAULT_NOT_FOUND,
            "reservation r not found");
    refused(&a, world_output(&a, "", "{\"decay_fraction\":1}"),
            SEL_FAULT_NOT_FOUND, "reservation  not found");

    /* the fraction is looked at before the id */
    refused(&a, world_output(&a, "r", "{\"decay_fraction\":1.0000001}"),
            SEL_FAULT_BAD_REQUEST,
            "decay_fraction must be between 0.0 and 1.0");
    refused(&a, world_output(&a, "r", "{\"decay_fraction\":-1e-300}"),
            SEL_FAULT_BAD_REQUEST,
            "decay_fraction must be between 0.0 and 1.0");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_order_explicit, begin,
                                        worlds_end),
        cmocka_unit_test_setup_teardown(test_order_recorded, begin,
                                        worlds_end),
        cmocka_unit_test_setup_teardown(test_order_select_and_reserve, begin,
                                        worlds_end),
        cmocka_unit_test_setup_teardown(test_answers, begin, worlds_end),
        cmocka_unit_test_setup_teardown(test_tracked, begin, worlds_end),
        cmocka_unit_test_setup_teardown(test_events, begin, worlds_end),
    };

    return cmocka_run_group_tests_name("reserve", tests, NULL, NULL);
}
