/*
 * POST /select: which rank is chosen and what the answer says.  Without it a
 * prompt rule could go unnoticed, ties could always fall on one rank, or a
 * client would read numbers that the choice was not made with.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "sel_rand.h"
#include "state_test.h"
#include "service_expect.h"


static sel_zone_t            zone;
static world_t               a;
static sel_route_settings_t  settings;


static int
begin(void **state)
{
    state_private(&zone, STATE_SIZE);
    world_init(&a, &zone, 0, false);
    settings = world_settings;

    return 0;
}


static int
end(void **state)
{
    world_free(&a);
    state_private_free(&zone);

    return 0;
}


static void
post(const char *text)
{
    if (!world_post(&a, text)) {
        fail_msg("%s: %s", text, a.fault.text);
    }

    world_expect(&a, "\"lifecycle\":\"schedulable\"");
}


static void
expect_answer(const char *text, const char *answer)
{
    if (!world_ask(&a, true, &settings, text)) {
        fail_msg("%s: %s", text, a.fault.text);
    }

    if (strcmp(world_text(&a), answer) != 0) {
        fail_msg("%s: %s, expected %s", text, world_text(&a), answer);
    }
}


static void
expect_words(const char *text, const char *words)
{
    if (!world_ask(&a, true, &settings, text)) {
        fail_msg("%s: %s", text, a.fault.text);
    }

    world_expect(&a, words);
}


#define SEVEN                                                                 \
    "{\"worker_id\":7,\"model_name\":\"llama\",\"routing_group\":\"east\","   \
    "\"endpoint\":\"http://10.0.0.7:8000\",\"block_size\":16,"                \
    "\"data_parallel_size\":2,\"max_num_batched_tokens\":8192,"               \
    "\"total_kv_blocks\":4096}"

#define EAST    "\"model_name\":\"llama\",\"routing_group\":\"east\""
#define HASHES  "\"block_hashes\":[101,102],\"sequence_hashes\":[201,202],"   \
                "\"isl_tokens\":32"
#define PIN     "\"pinned_worker\":{\"worker_id\":7,\"dp_rank\":1}"
#define CHOICE                                                                \
    EAST ",\"worker_id\":7,\"dp_rank\":1,"                                    \
    "\"endpoint\":\"http://10.0.0.7:8000\",\"block_size\":16,"                \
    "\"overlap\":{\"longest_matched\":0,\"gpu\":0,\"dp\":{\"0\":0,\"1\":0},"  \
    "\"cpu\":0,\"disk\":0},\"effective_prefill_tokens\":32,"                  \
    "\"potential_decode_blocks\":2"


static void
test_answer(void **state)
{
    post(SEVEN);

    expect_answer("{" EAST "," HASHES "," PIN "}", "{" CHOICE "}");
    expect_answer("{\"selection_id\":\"sel-1\"," EAST "," HASHES "," PIN "}",
                  "{\"selection_id\":\"sel-1\"," CHOICE "}");
    expect_answer("{\"selection_id\":\"\"," EAST "," HASHES "," PIN "}",
                  "{\"selection_id\":\"\"," CHOICE "}");
    expect_words("{\"selection_id\":\"a\\u0000\\\"\\u00e9\"," EAST ","
                 HASHES "}",
                 "{\"selection_id\":\"a\\u0000\\\"\xc3\xa9\",");

    /* kept members have no effect */
    expect_answer("{" EAST "," HASHES "," PIN ",\"priority_jump\":5,"
                  "\"strict_priority\":3,\"expected_output_tokens\":9,"
                  "\"session_id\":\"s\",\"session_context\":{\"session_id\":"
                  "\"t\"},\"router_config_override\":{\"assume_kv_reuse\":"
                  "false,\"shared_cache_multiplier\":1}}", "{" CHOICE "}");
}


static void
test_busy(void **state)
{
    post(SEVEN);
    post("{\"worker_id\":8,\"endpoint\":\"e\",\"block_size\":16}");

    /* advisory answers tell of the load, with what is known */
    expect_answer("{" EAST "," HASHES "," PIN ",\"advisory\":true}",
                  "{" CHOICE ",\"worker_load\":{\"active_prefill_tokens\":0,"
                  "\"prefill_token_capacity\":8192,"
                  "\"total_kv_blocks\":4096}}");
    expect_words("{" HASHES ",\"advisory\":true}",
                 "\"potential_decode_blocks\":2,\"worker_load\":{"
                 "\"active_prefill_tokens\":0,"
                 "\"prefill_token_capacity\":10000000}}");

    settings.prefill_busy = 0.5;
    settings.decode_busy = 0.9;
    expect_answer("{" EAST "," HASHES "," PIN ",\"advisory\":true}",
                  "{" CHOICE ",\"decode_busy\":false,\"worker_load\":{"
                  "\"active_prefill_tokens\":0,"
                  "\"prefill_token_capacity\":8192,\"total_kv_blocks\":4096,"
                  "\"prefill_busy\":false}}");
    expect_answer("{" EAST "," HASHES "," PIN "}",
                  "{" CHOICE ",\"decode_busy\":false}");
    expect_answer("{" EAST "," HASHES "," PIN ",\"advisory\":false}",
                  "{" CHOICE ",\"decode_busy\":false}");

    /* without a capacity nobody can tell */
    expect_words("{" HASHES ",\"advisory\":true}",
                 "\"potential_decode_blocks\":2,\"worker_load\":{"
                 "\"active_prefill_tokens\":0,"
                 "\"prefill_token_capacity\":10000000,"
                 "\"prefill_busy\":false}}");
    world_expect_not(&a, "decode_busy");

    /* strictly more than the share */
    settings.decode_busy = 0;
    expect_words("{" EAST "," HASHES "}", "\"decode_busy\":true}");
    settings.decode_busy = 2.0 / 4096;
    expect_words("{" EAST "," HASHES "}", "\"decode_busy\":false}");
    settings.decode_busy = nextafter(2.0 / 4096, 0);
    expect_words("{" EAST "," HASHES "}", "\"decode_busy\":true}");
    settings.prefill_busy = 0;
    expect_words("{" EAST "," HASHES ",\"advisory\":true}",
                 "\"prefill_busy\":false}");

    /* 3392 tokens are 212 blocks of 4096 */
    settings.decode_busy = 0.05;
    expect_words("{" EAST ",\"block_hashes\":[],\"sequence_hashes\":[],"
                 "\"isl_tokens\":3392}", "\"potential_decode_blocks\":212,"
                 "\"decode_busy\":true");
    settings.decode_busy = 0.5;
    expect_words("{" EAST ",\"block_hashes\":[],\"sequence_hashes\":[],"
                 "\"isl_tokens\":3392}", "\"decode_busy\":false");
}


/* Blocks that the hashes do not cover, and hashes beyond the prompt. */
static void
test_decode_blocks(void **state)
{
    size_t  i;

    static const struct {
        const char  *ask;
        const char  *words;
    } rows[] = {
        { "{\"block_hashes\":[1,2],\"sequence_hashes\":[1,2],"
          "\"isl_tokens\":100}",
          "\"effective_prefill_tokens\":100,\"potential_decode_blocks\":7}" },
        { "{\"block_hashes\":[1,2,3],\"sequence_hashes\":[1,2,3],"
          "\"isl_tokens\":5}",
          "\"effective_prefill_tokens\":5,\"potential_decode_blocks\":3}" },
        { "{\"block_hashes\":[],\"sequence_hashes\":[],\"isl_tokens\":1}",
          "\"effective_prefill_tokens\":1,\"potential_decode_blocks\":1}" },
        { "{\"block_hashes\":[],\"sequence_hashes\":[],"
          "\"isl_tokens\":18446744073709551615}",
          "\"effective_prefill_tokens\":18446744073709551615,"
          "\"potential_decode_blocks\":1152921504606846976}" },
        { "{\"token_ids\":[1]}",
          "\"effective_prefill_tokens\":1,\"potential_decode_blocks\":1}" },
        { "{\"token_ids\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}",
          "\"effective_prefill_tokens\":16,\"potential_decode_blocks\":1}" },
        { "{\"token_ids\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]}",
          "\"effective_prefill_tokens\":17,\"potential_decode_blocks\":2}" },
        { "{\"token_ids\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"
          "\"is_eagle\":true}",
          "\"effective_prefill_tokens\":16,\"potential_decode_blocks\":1}" },
        { "{\"token_ids\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2],"
          "\"router_config_override\":{\"assume_kv_reuse\":false,"
          "\"track_prefill_tokens\":false}}",
          "\"effective_prefill_tokens\":17,\"potential_decode_blocks\":2}" }
    };

    post("{\"worker_id\":8,\"endpoint\":\"e\",\"block_size\":16}");

    for (i = 0; i < sel_countof(rows); i++) {
        expect_words(rows[i].ask, rows[i].words);
    }
}


/* Bodies, and what is said of them; "=": what /select says. */
static const struct {
    const char  *ask;
    const char  *select;        /* NULL: answered */
    const char  *scores;
} rules[] = {
    { "{}", "block_hashes is required without token_ids", "=" },
    { "{\"isl_tokens\":0,\"sequence_hashes\":[1,2]}",
      "block_hashes is required without token_ids", "=" },
    { "{\"token_ids\":null,\"block_hashes\":null,\"isl_tokens\":4}",
      "block_hashes is required without token_ids", "=" },
    { "{\"block_hashes\":[1],\"isl_tokens\":0}",
      "sequence_hashes is required without token_ids", "=" },
    { "{\"block_hashes\":[1],\"sequence_hashes\":[1,2]}",
      "isl_tokens is required without token_ids", "=" },
    { "{\"block_hashes\":[1],\"sequence_hashes\":[1,2],"
      "\"isl_tokens\":0}", "isl_tokens must be greater than 0", "=" },
    { "{\"block_hashes\":[1],\"sequence_hashes\":[1,2],"
      "\"isl_tokens\":16}",
      "block_hashes length 1 must match sequence_hashes length 2", "=" },
    { "{\"block_hashes\":[1,2,3],\"sequence_hashes\":[],"
      "\"isl_tokens\":16}",
      "block_hashes length 3 must match sequence_hashes length 0", "=" },
    { "{\"block_hashes\":[],\"sequence_hashes\":[],\"isl_tokens\":16}",
      NULL, NULL },

    /* no tokens in the array that decides */
    { "{\"token_ids\":[]}", "isl_tokens must be greater than 0", NULL },
    { "{\"token_ids\":[],\"block_hashes\":[1],\"sequence_hashes\":[1],"
      "\"isl_tokens\":16}", "isl_tokens must be greater than 0", NULL },
    { "{\"mm_routing_info\":{\"routing_token_ids\":[]},"
      "\"token_ids\":[]}", "isl_tokens must be greater than 0", NULL },
    { "{\"mm_routing_info\":{\"routing_token_ids\":[]}}",
      "block_hashes is required without token_ids", "=" },
    { "{\"mm_routing_info\":{\"routing_token_ids\":[]},"
      "\"block_hashes\":[1],\"sequence_hashes\":[1],\"isl_tokens\":16}",
      NULL, NULL },

    /* hashes beside tokens are not looked at */
    { "{\"token_ids\":[1],\"block_hashes\":[1],\"isl_tokens\":0}", NULL,
      NULL },
    { "{\"mm_routing_info\":{\"routing_token_ids\":[1]},"
      "\"token_ids\":[],\"isl_tokens\":0}", NULL, NULL }
};


/* In the order of the API, for both routes that have a prompt. */
static void
test_prompt_rules(void **state)
{
    bool         scores;
    size_t       i;
    const char  *fault;

    /* nobody to ask is told first */
    assert_false(world_select(&a, "{}"));
    world_expect_fault(&a, SEL_FAULT_NOT_READY,
                       "no schedulable workers are available");
    assert_false(world_scores(&a, "{}"));
    world_expect_fault(&a, SEL_FAULT_NOT_READY,
                       "no schedulable workers are available");
    post("{\"worker_id\":8,\"endpoint\":\"e\",\"block_size\":16}");
    assert_false(world_select(&a, "{\"routing_group\":\"g\"}"));
    world_expect_fault(&a, SEL_FAULT_NOT_READY, "no schedulable workers for "
                       "model=default routing_group=g");

    for (i = 0; i < 2 * sel_countof(rules); i++) {
        scores = i % 2;
        fault = scores ? rules[i / 2].scores : rules[i / 2].select;

        if (fault == NULL) {
            if (!world_ask(&a, !scores, &settings, rules[i / 2].ask)) {
                fail_msg("%s: %s", rules[i / 2].ask, a.fault.text);
            }

            continue;
        }

        assert_false(world_ask(&a, !scores, &settings, rules[i / 2].ask));
        world_expect_fault(&a, SEL_FAULT_BAD_REQUEST,
                           strcmp(fault, "=") == 0 ? rules[i / 2].select
                                                   : fault);
    }

    assert_true(world_scores(&a, "{\"token_ids\":[]}"));
    world_expect(&a, "\"num_blocks\":0,");

    /* the prompt comes before the candidates */
    assert_false(world_select(&a, "{\"token_ids\":[],"
                              "\"allowed_worker_ids\":[]," PIN "}"));
    world_expect_fault(&a, SEL_FAULT_BAD_REQUEST,
                       "isl_tokens must be greater than 0");
}


/*
 * How often each of n ranks 0 ... n-1 of worker 7 was chosen in `draws`
 * selections, by chi-square against p; wrong once in 10^10.
 */
static void
expect_shares(const char *ask, const double *p, uint32_t n, uint32_t draws)
{
    double       chi, d;
    uint32_t     i, rank, seen[16];
    const char  *at;

    memset(seen, 0, sizeof(seen));

    for (i = 0; i < draws; i++) {
        assert_true(world_ask(&a, true, &settings, ask));
        at = strstr(world_text(&a), "\"dp_rank\":");
        assert_non_null(at);
        rank = (uint32_t) strtoul(at + 10, NULL, 10);
        assert_true(rank < n);
        seen[rank]++;
    }

    chi = 0;
    d = n - 1;

    for (i = 0; i < n; i++) {
        chi += (seen[i] - p[i] * draws) * (seen[i] - p[i] * draws)
               / (p[i] * draws);
    }

    if (chi > d + 2 * sqrt(d * 25) + 50) {
        fail_msg("%s: chi-square %g", ask, chi);
    }
}


static void
test_ties_spread(void **state)
{
    uint32_t  i;
    double    p[7];

    for (i = 0; i < 7; i++) {
        p[i] = 1.0 / 7;
    }

    sel_random_seed_with(&a.service.random, sel_rand_seed("select"));
    post("{\"worker_id\":7,\"endpoint\":\"e\",\"block_size\":16,"
         "\"data_parallel_size\":7}");
    expect_shares("{" HASHES "}", p, 7, 7000);
    expect_shares("{\"token_ids\":[1]}", p, 7, 7000);

    /* and with chance all costs being equal */
    expect_shares("{" HASHES ",\"router_config_override\":"
                  "{\"router_temperature\":0.5}}", p, 7, 7000);
}


static void
test_temperature(void **state)
{
    double               x[3];
    world_t              feeder;
    static const double  p[3] = { 0.574097, 0.348207, 0.077696 };

    /*
     * Blocks for costs in the ratio of 10, 12 and 18: of 20 blocks rank 0
     * holds 16, rank 1 holds 12, rank 2 none.
     */
    sel_random_seed_with(&a.service.random, sel_rand_seed("select"));
    world_init(&feeder, &zone, 1, true);
    assert_true(world_post(&feeder, "{\"worker_id\":7,\"endpoint\":\"e\","
        "\"block_size\":16,\"data_parallel_size\":3,\"kv_events_endpoints\":"
        "{\"0\":\"tcp://h:1\",\"1\":\"tcp://h:2\",\"2\":\"tcp://h:3\"}}"));
    world_refresh(&a);
    world_free(&feeder);
    assert_int_equal(world_store(&a, 7, 0, 0, 1, 16), SEL_INDEX_OK);
    assert_int_equal(world_store(&a, 7, 1, 1, 1, 12), SEL_INDEX_OK);

#define TWENTY "\"isl_tokens\":320,\"block_hashes\":[1,2,3,4,5,6,7,8,9,10,"   \
               "11,12,13,14,15,16,17,18,19,20],\"sequence_hashes\":[1,2,3,"   \
               "4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]"

    expect_shares("{" TWENTY ",\"router_config_override\":"
                  "{\"router_temperature\":0.5}}", p, 3, 10000);

    settings.cost.temperature = 0.5;
    expect_shares("{" TWENTY "}", p, 3, 10000);

    /* a request that does not want chance */
    x[0] = 1;
    x[1] = x[2] = 1e-300;
    expect_shares("{" TWENTY ",\"router_config_override\":"
                  "{\"router_temperature\":0}}", x, 3, 500);
}


static void
test_counters(void **state)
{
    post("{\"worker_id\":8,\"endpoint\":\"e\",\"block_size\":16}");
    assert_true(world_select(&a, "{" HASHES "}"));
    assert_true(world_select(&a, "{" HASHES "}"));
    assert_false(world_select(&a, "{}"));
    assert_false(world_select(&a, "{" HASHES ",\"allowed_worker_ids\":[]}"));
    assert_true(world_scores(&a, "{" HASHES "}"));
    assert_true(sel_counted(&zone, SEL_COUNT_SELECTIONS) == 2);
    assert_true(sel_counted(&zone, SEL_COUNT_SELECTIONS_COLD) == 2);

    assert_int_equal(world_store(&a, 8, 0, 0, 101, 1), SEL_INDEX_OK);
    assert_true(world_select(&a, "{" HASHES "}"));
    assert_true(sel_counted(&zone, SEL_COUNT_SELECTIONS) == 3);
    assert_true(sel_counted(&zone, SEL_COUNT_SELECTIONS_COLD) == 2);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_answer, begin, end),
        cmocka_unit_test_setup_teardown(test_busy, begin, end),
        cmocka_unit_test_setup_teardown(test_decode_blocks, begin, end),
        cmocka_unit_test_setup_teardown(test_prompt_rules, begin, end),
        cmocka_unit_test_setup_teardown(test_ties_spread, begin, end),
        cmocka_unit_test_setup_teardown(test_temperature, begin, end),
        cmocka_unit_test_setup_teardown(test_counters, begin, end)
    };

    return cmocka_run_group_tests_name("select", tests, NULL, NULL);
}
