/*
 * The nested objects of selection bodies: overrides and their rules,
 * constraints, sessions.  Without it a setting out of range would reach the
 * cost formula, or the deprecated alias would mean something else.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sel_body_text.h"
#include "sel_expect.h"
#include "service/sel_select.h"
#include "service/sel_selection.h"


static uint64_t  seed;


static void
read_select(sel_json_t *json, FILE *out)
{
    sel_select_body_t  body;

    memset(&body, 0xa5, sizeof(body));

    if (sel_read_select(json, &body) && sel_json_end(json)) {
        sel_body_print(&body, out);
    }
}


typedef struct {
    const char  *value;
    const char  *out;           /* NULL: refused */
    const char  *words;         /* of the refusal */
} row_t;


static void
expect_rows(const char *member, const row_t *rows, size_t n)
{
    char    text[1024], out[1024];
    size_t  i;

    for (i = 0; i < n; i++) {
        (void) snprintf(text, sizeof(text), "{\"%s\":%s}", member,
                        rows[i].value);

        if (rows[i].out == NULL) {
            sel_expect(text, read_select, SEL_JSON_DATA, "", member, seed);
            sel_expect(text, read_select, SEL_JSON_DATA, "", rows[i].words,
                       seed);

        } else {
            (void) snprintf(out, sizeof(out), "%s%s", SEL_BODY_NONE,
                            rows[i].out);
            sel_expect(text, read_select, SEL_JSON_OK, out, NULL, seed);
        }
    }
}


#define CREDIT  "overlap_score_credit must be a finite, non-negative number"
#define SCALE   "prefill_load_scale must be greater than or equal to 0"
#define TEMP    "router_temperature must be greater than or equal to 0"
#define SHARED  "shared_cache_multiplier must be between 0 and 1"


static void
test_overrides(void **state)
{
    static const row_t  rows[] = {
        { "null", "", NULL },
        { "{}", " override={ }", NULL },
        { "{\"unknown\":-1}", " override={ }", NULL },
        { "[1]", NULL, NULL },
        { "7", NULL, NULL },
        { "{\"overlap_score_credit\":0}",
          " override={ overlap_score_credit=0 }", NULL },
        { "{\"overlap_score_credit\":2.5}",
          " override={ overlap_score_credit=2.5 }", NULL },
        { "{\"overlap_score_credit\":null}", " override={ }", NULL },
        { "{\"overlap_score_credit\":-0.5}", NULL, CREDIT },
        { "{\"overlap_score_credit\":-1e-300}", NULL, CREDIT },
        { "{\"overlap_score_credit\":\"1\"}", NULL, "overlap_score_credit" },
        { "{\"overlap_score_credit\":true}", NULL, "overlap_score_credit" },
        { "{\"prefill_load_scale\":0.25}",
          " override={ prefill_load_scale=0.25 }", NULL },
        { "{\"prefill_load_scale\":-1}", NULL, SCALE },
        { "{\"prefill_load_scale\":[]}", NULL, "prefill_load_scale" },
        { "{\"router_temperature\":0}",
          " override={ router_temperature=0 }", NULL },
        { "{\"router_temperature\":-0.001}", NULL, TEMP },
        { "{\"router_temperature\":\"hot\"}", NULL, "router_temperature" },
        { "{\"assume_kv_reuse\":false}", " override={ assume_kv_reuse=0 }",
          NULL },
        { "{\"assume_kv_reuse\":0}", NULL, "assume_kv_reuse" },
        { "{\"track_prefill_tokens\":true}",
          " override={ track_prefill_tokens=1 }", NULL },
        { "{\"track_prefill_tokens\":null}", " override={ }", NULL },
        { "{\"track_prefill_tokens\":\"no\"}", NULL,
          "track_prefill_tokens" },
        { "{\"shared_cache_multiplier\":0}",
          " override={ shared_cache_multiplier=0 }", NULL },
        { "{\"shared_cache_multiplier\":1}",
          " override={ shared_cache_multiplier=1 }", NULL },
        { "{\"shared_cache_multiplier\":1.0000001}", NULL, SHARED },
        { "{\"shared_cache_multiplier\":-0.1}", NULL, SHARED },
        { "{\"shared_cache_multiplier\":{}}", NULL,
          "shared_cache_multiplier" },
        { "{\"overlap_score_weight\":true}", NULL, "overlap_score_weight" },
        { "{\"router_temperature\":1,\"router_temperature\":1}", NULL,
          "duplicate field `router_temperature`" },
        { "{\"prefill_load_scale\":3,\"overlap_score_credit\":0.5,"
          "\"shared_cache_multiplier\":null,\"router_temperature\":1}",
          " override={ overlap_score_credit=0.5 prefill_load_scale=3 "
          "router_temperature=1 }", NULL }
    };

    expect_rows("router_config_override", rows, sel_countof(rows));
}


/* What the settings become with an override. */
static void
expect_settings(const char *override, const char *expected)
{
    char                 text[256], got[256];
    sel_json_t           json;
    sel_arena_t          arena;
    sel_select_body_t    body;
    sel_cost_settings_t  out;

    static const sel_cost_settings_t  in = { 1, 2, 3, 4, 0.75, 0.25, 5,
                                             true };

    (void) snprintf(text, sizeof(text), "{\"router_config_override\":%s}",
                    override);
    sel_arena_init(&arena, 0);
    sel_json_init_text(&json, &arena, sel_cstr(text));
    memset(&out, 0xa5, sizeof(out));

    if (!sel_read_select(&json, &body)) {
        fail_msg("%s: %s", text, json.message);
    }

    sel_select_settings(&in, &body, &out);
    (void) snprintf(got, sizeof(got), "%g %g %g %g %g %g %g %d",
                    out.overlap_score_credit, out.overlap_score_credit_decay,
                    out.prefill_load_scale, out.active_request_weight,
                    out.host_weight, out.disk_weight, out.temperature,
                    out.track_prefill_tokens);

    if (strcmp(got, expected) != 0) {
        fail_msg("%s: %s, expected %s", override, got, expected);
    }

    sel_arena_free(&arena);
}


static void
test_settings(void **state)
{
    expect_settings("null", "1 2 3 4 0.75 0.25 5 1");
    expect_settings("{}", "1 2 3 4 0.75 0.25 5 1");
    expect_settings("{\"overlap_score_credit\":0.5}",
                    "0.5 2 3 4 0.75 0.25 5 1");
    expect_settings("{\"overlap_score_credit\":0}",
                    "0 2 3 4 0.75 0.25 5 1");
    expect_settings("{\"prefill_load_scale\":0}",
                    "1 2 0 4 0.75 0.25 5 1");
    expect_settings("{\"router_temperature\":0}",
                    "1 2 3 4 0.75 0.25 0 1");
    expect_settings("{\"track_prefill_tokens\":false}",
                    "1 2 3 4 0.75 0.25 5 0");
    expect_settings("{\"track_prefill_tokens\":null,"
                    "\"overlap_score_credit\":null}",
                    "1 2 3 4 0.75 0.25 5 1");
    expect_settings("{\"assume_kv_reuse\":false,"
                    "\"shared_cache_multiplier\":1}",
                    "1 2 3 4 0.75 0.25 5 1");

    /* the deprecated one is the load scale, and wins */
    expect_settings("{\"overlap_score_weight\":7}",
                    "1 2 7 4 0.75 0.25 5 1");
    expect_settings("{\"overlap_score_weight\":7,\"prefill_load_scale\":8}",
                    "1 2 7 4 0.75 0.25 5 1");
    expect_settings("{\"prefill_load_scale\":8,\"overlap_score_weight\":7,"
                    "\"overlap_score_credit\":0.5}",
                    "0.5 2 7 4 0.75 0.25 5 1");
    expect_settings("{\"overlap_score_weight\":0}",
                    "0 2 0 4 0.75 0.25 5 1");
    expect_settings("{\"overlap_score_weight\":0,"
                    "\"overlap_score_credit\":0.5}",
                    "0 2 0 4 0.75 0.25 5 1");
    expect_settings("{\"overlap_score_weight\":null,"
                    "\"prefill_load_scale\":8}",
                    "1 2 8 4 0.75 0.25 5 1");
}


/* It sets the load scale, so the load scale's rule holds for it. */
static void
test_alias_range(void **state)
{
    static const row_t  rows[] = {
        { "{\"overlap_score_weight\":-1}", NULL,
          "must be greater than or equal to 0" }
    };

    expect_rows("router_config_override", rows, sel_countof(rows));
}


static void
test_constraints(void **state)
{
    static const row_t  rows[] = {
        { "{}", " constraints={ }", NULL },
        { "null", NULL, "null" },
        { "[\"a\"]", NULL, NULL },
        { "\"a\"", NULL, NULL },
        { "{\"required_taints\":[],\"preferred_taints\":{}}",
          " constraints={ }", NULL },
        { "{\"required_taints\":[\"b\",\"a\"]}",
          " constraints={ required=\"b\" required=\"a\" }", NULL },
        { "{\"required_taints\":[\"\",\"\\u0000\"]}",
          " constraints={ required=\"\" required=\"\\0\" }", NULL },
        { "{\"required_taints\":null}", NULL, "required_taints" },
        { "{\"required_taints\":[1]}", NULL, "required_taints" },
        { "{\"required_taints\":[null]}", NULL, "required_taints" },
        { "{\"required_taints\":\"a\"}", NULL, "required_taints" },
        { "{\"required_taints\":{}}", NULL, "required_taints" },
        { "{\"preferred_taints\":{\"a\":1}}",
          " constraints={ preferred=\"a\":1 }", NULL },
        { "{\"preferred_taints\":{\"a\":-2.5,\"\":0.1}}",
          " constraints={ preferred=\"a\":-2.5 preferred=\"\":0.100000001 }",
          NULL },
        { "{\"preferred_taints\":{\"a\":3.4028234663852886e38}}",
          " constraints={ preferred=\"a\":3.40282347e+38 }", NULL },
        { "{\"preferred_taints\":null}", NULL, "preferred_taints" },
        { "{\"preferred_taints\":[]}", NULL, "preferred_taints" },
        { "{\"preferred_taints\":[\"a\"]}", NULL, "preferred_taints" },
        { "{\"preferred_taints\":{\"a\":null}}", NULL, "preferred_taints" },
        { "{\"preferred_taints\":{\"a\":\"1\"}}", NULL, "preferred_taints" },
        { "{\"preferred_taints\":{\"a\":true}}", NULL, "preferred_taints" },
        { "{\"preferred_taints\":{\"a\":1e39}}", NULL, "preferred_taints" },
        { "{\"required_taints\":[],\"required_taints\":[]}", NULL,
          "duplicate field `required_taints`" }
    };

    expect_rows("routing_constraints", rows, sel_countof(rows));
}


/* A taint that is preferred twice has the last weight, not the sum. */
static void
test_repeated_taint(void **state)
{
    uint32_t           i;
    double             sum;
    sel_json_t         json;
    sel_arena_t        arena;
    sel_select_body_t  body;
    sel_taint_list_t  *list;

    sel_arena_init(&arena, 0);
    sel_json_init_text(&json, &arena, sel_str("{\"routing_constraints\":"
        "{\"preferred_taints\":{\"a\":1,\"b\":2,\"a\":4,\"a\":8}}}"));
    assert_true(sel_read_select(&json, &body));
    list = &body.constraints.preferred_taints;
    sum = 0;

    for (i = 0; i < list->n; i++) {
        if (sel_str_eq(list->data[i].name, sel_str("a"))) {
            sum += list->data[i].weight;
        }
    }

    assert_true(sum == 8);
    sel_arena_free(&arena);
}


static void
test_session(void **state)
{
    static const row_t  rows[] = {
        { "null", "", NULL },
        { "{\"session_id\":\"\"}", " session.id=\"\"", NULL },
        { "{\"session_id\":\"s\",\"parent_session_id\":\"p\","
          "\"session_final\":true,\"input_trigger\":\"tool_result\","
          "\"agent_headers\":{\"x\":[\"a\",\"b\"],\"\":[]},\"y\":1}",
          " session.id=\"s\" session.parent=\"p\" session.final=1 "
          "session.trigger=1", NULL },
        { "{\"session_id\":\"s\",\"parent_session_id\":null,"
          "\"session_final\":null,\"input_trigger\":null,"
          "\"agent_headers\":null}", " session.id=\"s\"", NULL },
        { "{\"session_id\":\"s\",\"input_trigger\":\"user_message\"}",
          " session.id=\"s\" session.trigger=0", NULL },
        { "{\"session_id\":\"s\",\"input_trigger\":\"other\"}",
          " session.id=\"s\" session.trigger=2", NULL },
        { "{\"session_id\":\"s\",\"agent_headers\":{}}",
          " session.id=\"s\"", NULL },
        { "{}", NULL, "missing field `session_id`" },
        { "{\"session_id\":null}", NULL, "session_id" },
        { "{\"session_id\":7}", NULL, "session_id" },
        { "{\"session_id\":\"s\",\"parent_session_id\":7}", NULL,
          "parent_session_id" },
        { "{\"session_id\":\"s\",\"session_final\":0}", NULL,
          "session_final" },
        { "{\"session_id\":\"s\",\"input_trigger\":\"User\"}", NULL,
          "input_trigger" },
        { "{\"session_id\":\"s\",\"input_trigger\":1}", NULL,
          "input_trigger" },
        { "{\"session_id\":\"s\",\"agent_headers\":{\"x\":\"a\"}}", NULL,
          "agent_headers" },
        { "{\"session_id\":\"s\",\"agent_headers\":{\"x\":[1]}}", NULL,
          "agent_headers" },
        { "{\"session_id\":\"s\",\"agent_headers\":{\"x\":null}}", NULL,
          "agent_headers" },
        { "{\"session_id\":\"s\",\"agent_headers\":[]}", NULL,
          "agent_headers" },
        { "{\"session_id\":\"s\",\"session_id\":\"s\"}", NULL,
          "duplicate field `session_id`" },
        { "\"s\"", NULL, NULL },
        { "7", NULL, NULL }
    };

    expect_rows("session_context", rows, sel_countof(rows));
}


static int
setup(void **state)
{
    seed = sel_rand_seed("request_parts");

    return 0;
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_overrides),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_alias_range),
        cmocka_unit_test(test_constraints),
        cmocka_unit_test(test_repeated_taint),
        cmocka_unit_test(test_session)
    };

    return cmocka_run_group_tests_name("request_parts", tests, setup, NULL);
}
