/*
 * GET /loads and POST /potential_loads over the life of partitions.  Without
 * it a partition whose workers left could vanish from the list or keep their
 * loads, a name that comes back could show what another time has booked, and
 * two processes could tell of different ranks.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "reserve_test.h"


#define MODELS  20000

#define NAMES(model, group)                                                   \
    "{\"model_name\":\"" model "\",\"routing_group\":\"" group "\",\"loads\":["
#define ROW(w, r, tokens, blocks, requests)                                   \
    "{\"worker_id\":" w ",\"dp_rank\":" r ","                                 \
    "\"potential_prefill_tokens\":" tokens ","                                \
    "\"potential_decode_blocks\":" blocks ",\"active_requests\":" requests "}"
#define END     "],\"pending_count\":0,\"pending_isl_tokens\":0}"
#define WORKER(id, model, group)                                              \
    "{\"worker_id\":" id ",\"model_name\":\"" model "\","                     \
    "\"routing_group\":\"" group "\",\"endpoint\":\"e\",\"block_size\":16}"


static int
begin(void **state)
{
    worlds_begin(STATE_SIZE, false);

    return 0;
}


static void
expect_list(const char *model, const char *group, const char *expected)
{
    expect_text(world_loads(&a, model, group), expected);
    expect_text(world_loads(&b, model, group), expected);
}


static void
test_list(void **state)
{
    expect_list(NULL, NULL, "[]");

    must(&a, world_post(&a, WORKER("2", "m", "x")));
    must(&a, world_post(&a, SEVEN));
    must(&a, world_post(&a, WORKER("18446744073709551615", "m", "x")));
    must(&a, world_post(&a, WORKER("1", "m", "a")));
    must(&a, world_post(&a, WORKER("3", "\\u00e9\\\"", "")));
    must(&b, world_reserve(&b, "{" ID("r") "," EAST "," TO("7", "1") ","
             "\"sequence_hashes\":[301,302],\"isl_tokens\":32,"
             "\"effective_prefill_tokens\":20}"));

    expect_list(NULL, NULL, "["
        NAMES("llama", "east") ROW("7", "0", "0", "0", "0") ","
            ROW("7", "1", "20", "2", "1") END ","
        NAMES("m", "a") ROW("1", "0", "0", "0", "0") END ","
        NAMES("m", "x") ROW("2", "0", "0", "0", "0") ","
            ROW("18446744073709551615", "0", "0", "0", "0") END ","
        NAMES("\xc3\xa9\\\"", "") ROW("3", "0", "0", "0", "0") END "]");

    expect_list("m", NULL, "["
        NAMES("m", "a") ROW("1", "0", "0", "0", "0") END ","
        NAMES("m", "x") ROW("2", "0", "0", "0", "0") ","
            ROW("18446744073709551615", "0", "0", "0", "0") END "]");
    expect_list("m", "a", "[" NAMES("m", "a") ROW("1", "0", "0", "0", "0")
                END "]");
    expect_list(NULL, "a", "[" NAMES("m", "a") ROW("1", "0", "0", "0", "0")
                END "]");
    expect_list("m", "", "[]");
    expect_list("", NULL, "[]");
    expect_list("M", "a", "[]");
}


/* It stays when its workers leave, and begins at nothing when they return. */
static void
test_empty(void **state)
{
    must(&a, world_post(&a, SEVEN));
    must(&a, world_select_and_reserve(&a, "{" ID("r") "," EAST "," HASHES
                                      "}"));
    must(&a, world_delete(&a, 7));
    expect_list(NULL, NULL, "[" NAMES("llama", "east") END "]");
    refused(&b, world_release(&b, "r"), SEL_FAULT_NOT_FOUND,
            "reservation r not found");

    must(&b, world_post(&b, SEVEN));
    expect_loads("7/0 0 0 0, 7/1 0 0 0");
    must(&b, world_select_and_reserve(&b, "{" ID("r") "," EAST "," HASHES
             ",\"pinned_worker\":{" TO("7", "1") "}}"));

    /* a rank less, one more, another partition: what is gone is gone */
    must(&a, world_patch(&a, 7, "{\"data_parallel_size\":3}"));
    expect_loads("7/0 0 0 0, 7/1 1 33 2, 7/2 0 0 0");
    must(&a, world_patch(&a, 7, "{\"data_parallel_size\":1}"));
    expect_loads("7/0 0 0 0");
    must(&a, world_patch(&a, 7, "{\"data_parallel_size\":2}"));
    expect_loads("7/0 0 0 0, 7/1 0 0 0");

    must(&b, world_select_and_reserve(&b, "{" ID("r") "," EAST "," HASHES
             "}"));
    must(&a, world_post(&a, WORKER("7", "llama", "west")));
    expect_list(NULL, NULL, "[" NAMES("llama", "east") END ","
                NAMES("llama", "west") ROW("7", "0", "0", "0", "0") END "]");
    must(&b, world_reserve(&b, "{" ID("r") ",\"model_name\":\"llama\","
             "\"routing_group\":\"west\",\"worker_id\":7,\"token_ids\":[]}"));
}


/* Workers that cannot serve have no rows. */
static void
test_incomplete(void **state)
{
    must(&a, world_post(&a, WORKER("1", "m", "a")));
    must(&a, world_reserve(&a, "{" ID("r") ",\"model_name\":\"m\","
             "\"routing_group\":\"a\",\"worker_id\":1,\"token_ids\":[]}"));
    must(&a, world_post(&a, "{\"worker_id\":5,\"model_name\":\"m\","
                        "\"routing_group\":\"a\"}"));
    expect_list(NULL, NULL, "[" NAMES("m", "a") ROW("1", "0", "0", "0", "1")
                END "]");
    must(&b, world_patch(&b, 5, "{\"endpoint\":\"e\",\"block_size\":16}"));
    expect_list(NULL, NULL, "[" NAMES("m", "a") ROW("1", "0", "0", "0", "1")
                "," ROW("5", "0", "0", "0", "0") END "]");
}


static void
visit(const char *model, bool stay)
{
    char  text[256];

    (void) snprintf(text, sizeof(text), WORKER("%d", "%s", "g"), stay ? 2 : 1,
                    model);
    must(&a, world_post(&a, text));

    if (!stay) {
        must(&a, world_delete(&a, 1));
    }
}


/*
 * Names without workers are dropped when there are too many, the oldest
 * first.  One that comes back is another partition, for a process that has
 * seen all of it and for one that has not.
 */

static void
test_names_back(void **state)
{
    int      n;
    char     name[32];
    world_t  late;

    (void) worlds_end(NULL);
    worlds_begin(16 * STATE_SIZE, false);

    visit("first", false);
    expect_list("first", NULL, "[" NAMES("first", "g") END "]");
    must(&a, world_post(&a, WORKER("3", "kept", "g")));
    must(&b, world_reserve(&b, "{" ID("k") ",\"model_name\":\"kept\","
             "\"routing_group\":\"g\"," TO("3", "0") ",\"token_ids\":[]}"));

    for (n = 0; strcmp(world_loads(&a, "first", NULL), "[]") != 0; n++) {
        assert_true(n < MODELS);
        (void) snprintf(name, sizeof(name), "m%d", n);
        visit(name, false);
    }

    state_check(&zone);
    assert_true(n > 200);       /* a list takes several readings */
    expect_list("first", NULL, "[]");

    visit("first", true);
    expect_list("first", NULL, "[" NAMES("first", "g")
                ROW("2", "0", "0", "0", "0") END "]");
    must(&b, world_select_and_reserve(&b, "{" ID("r") ","
             "\"model_name\":\"first\",\"routing_group\":\"g\"," HASHES "}"));
    expect_list("first", NULL, "[" NAMES("first", "g")
                ROW("2", "0", "33", "2", "1") END "]");
    expect_list("kept", NULL, "[" NAMES("kept", "g")
                ROW("3", "0", "0", "0", "1") END "]");

    /* all that there are, once each, for one that comes late, too */
    world_init(&late, &zone, 2, false);
    expect_text(world_loads(&late, NULL, NULL), world_loads(&a, NULL, NULL));
    expect_text(world_loads(&b, NULL, NULL), world_loads(&a, NULL, NULL));
    world_free(&late);
}


/* What every rank would have with one more prompt. */
static void
test_potential(void **state)
{
    must(&a, world_post(&a, SEVEN));
    must(&a, world_reserve(&a, "{" ID("r") "," EAST "," TO("7", "0") ","
             "\"sequence_hashes\":[201,205,206],\"isl_tokens\":48,"
             "\"effective_prefill_tokens\":32}"));

    must(&b, world_potential(&b, "{" EAST "," HASHES "}"));
    expect_text(world_text(&b), "[" ROW("7", "0", "65", "4", "1") ","
                ROW("7", "1", "33", "2", "0") "]");

    must(&b, world_potential(&b, "{" EAST "," HASHES ","
             "\"router_config_override\":{\"track_prefill_tokens\":"
             "false}}"));
    expect_text(world_text(&b), "[" ROW("7", "0", "32", "4", "1") ","
                ROW("7", "1", "0", "2", "0") "]");
    expect_loads("7/0 1 32 3, 7/1 0 0 0");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_list, begin, worlds_end),
        cmocka_unit_test_setup_teardown(test_empty, begin, worlds_end),
        cmocka_unit_test_setup_teardown(test_incomplete, begin, worlds_end),
        cmocka_unit_test_setup_teardown(test_names_back, begin, worlds_end),
        cmocka_unit_test_setup_teardown(test_potential, begin, worlds_end),
    };

    return cmocka_run_group_tests_name("reserve_loads", tests, NULL, NULL);
}
