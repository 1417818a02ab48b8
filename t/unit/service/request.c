/*
 * The bodies of /select and /overlap_scores: every member with values that
 * fit and that do not.  Without it a mistyped or null member would be taken
 * for an absent one, a hash would lose its upper bits, or the fault would be
 * told under another member's name.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sel_body_text.h"
#include "sel_expect.h"


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


static void
read_scores(sel_json_t *json, FILE *out)
{
    sel_select_body_t  body;

    memset(&body, 0xa5, sizeof(body));

    if (sel_read_prompt(json, &body) && sel_json_end(json)) {
        sel_body_print(&body, out);
    }
}


/* A value of a member, and what the body then says; NULL: refused. */
typedef struct {
    const char  *member;
    const char  *value;
    const char  *out;
} row_t;


static const row_t  prompt_rows[] = {
    { "token_ids", "[]", " token_ids=[]" },
    { "token_ids", "[0,4294967295, 7]", " token_ids=[0,4294967295,7]" },
    { "token_ids", "null", "" },
    { "token_ids", "[-1]", NULL },
    { "token_ids", "[4294967296]", NULL },
    { "token_ids", "[1.0]", NULL },
    { "token_ids", "[1e0]", NULL },
    { "token_ids", "[\"1\"]", NULL },
    { "token_ids", "[null]", NULL },
    { "token_ids", "[[1]]", NULL },
    { "token_ids", "[true]", NULL },
    { "token_ids", "{}", NULL },
    { "token_ids", "\"1\"", NULL },
    { "token_ids", "1", NULL },
    { "block_hashes", "[-9223372036854775808,-1,0,9223372036854775808,"
      "18446744073709551615]",
      " block_hashes=[9223372036854775808,18446744073709551615,0,"
      "9223372036854775808,18446744073709551615]" },
    { "block_hashes", "null", "" },
    { "block_hashes", "[18446744073709551616]", NULL },
    { "block_hashes", "[-9223372036854775809]", NULL },
    { "block_hashes", "[1.5]", NULL },
    { "block_hashes", "[\"1\"]", NULL },
    { "block_hashes", "[null]", NULL },
    { "block_hashes", "\"\"", NULL },
    { "block_hashes", "7", NULL },
    { "sequence_hashes", "[]", " sequence_hashes=[]" },
    { "sequence_hashes", "[-2,201]",
      " sequence_hashes=[18446744073709551614,201]" },
    { "sequence_hashes", "null", "" },
    { "sequence_hashes", "[18446744073709551616]", NULL },
    { "sequence_hashes", "[-9223372036854775809]", NULL },
    { "sequence_hashes", "{\"0\":1}", NULL },
    { "isl_tokens", "0", " isl_tokens=0" },
    { "isl_tokens", "18446744073709551615",
      " isl_tokens=18446744073709551615" },
    { "isl_tokens", "null", "" },
    { "isl_tokens", "-1", NULL },
    { "isl_tokens", "1.0", NULL },
    { "isl_tokens", "18446744073709551616", NULL },
    { "isl_tokens", "\"1\"", NULL },
    { "isl_tokens", "true", NULL },
    { "isl_tokens", "[1]", NULL },
    { "lora_name", "\"\"", " lora_name=\"\"" },
    { "lora_name", "\"l\\u00f6ra\"", " lora_name=\"l\xc3\xb6ra\"" },
    { "lora_name", "null", "" },
    { "lora_name", "1", NULL },
    { "lora_name", "[\"a\"]", NULL },
    { "cache_salt", "\"x\"", " cache_salt=\"x\"" },
    { "cache_salt", "null", "" },
    { "cache_salt", "false", NULL },
    { "cache_salt", "{}", NULL },
    { "is_eagle", "true", " is_eagle=1" },
    { "is_eagle", "false", " is_eagle=0" },
    { "is_eagle", "null", "" },
    { "is_eagle", "0", NULL },
    { "is_eagle", "\"true\"", NULL },
    { "cache_namespace", "[7]", "" },           /* not a member */
    { "tenant_id", "7", "" },
    { "model_name", "\"m\"", " model_name=\"m\"" },
    { "model_name", "\"\"", " model_name=\"\"" },
    { "model_name", "null", NULL },
    { "model_name", "7", NULL },
    { "routing_group", "\"g\"", " routing_group=\"g\"" },
    { "routing_group", "null", NULL },
    { "routing_group", "[]", NULL }
};


static const row_t  select_rows[] = {
    { "selection_id", "\"\"", " selection_id=\"\"" },
    { "selection_id", "\"s\\u0000/\"", " selection_id=\"s\\0/\"" },
    { "selection_id", "null", "" },
    { "selection_id", "1", NULL },
    { "expected_output_tokens", "4294967295",
      " expected_output_tokens=4294967295" },
    { "expected_output_tokens", "null", "" },
    { "expected_output_tokens", "4294967296", NULL },
    { "expected_output_tokens", "-1", NULL },
    { "expected_output_tokens", "1.0", NULL },
    { "expected_output_tokens", "\"1\"", NULL },
    { "priority_jump", "0", " priority_jump=0" },
    { "priority_jump", "-1.5", " priority_jump=-1.5" },
    { "priority_jump", "1e3", " priority_jump=1000" },
    { "priority_jump", "null", "" },
    { "priority_jump", "\"1\"", NULL },
    { "priority_jump", "true", NULL },
    { "strict_priority", "4294967295", " strict_priority=4294967295" },
    { "strict_priority", "null", "" },
    { "strict_priority", "-1", NULL },
    { "strict_priority", "0.5", NULL },
    { "session_id", "\"\"", " session_id=\"\"" },
    { "session_id", "null", "" },
    { "session_id", "1", NULL },
    { "allowed_worker_ids", "[]", " allowed_worker_ids=[]" },
    { "allowed_worker_ids", "[18446744073709551615,0,0]",
      " allowed_worker_ids=[18446744073709551615,0,0]" },
    { "allowed_worker_ids", "null", "" },
    { "allowed_worker_ids", "[-1]", NULL },
    { "allowed_worker_ids", "[18446744073709551616]", NULL },
    { "allowed_worker_ids", "[1.0]", NULL },
    { "allowed_worker_ids", "[null]", NULL },
    { "allowed_worker_ids", "[\"1\"]", NULL },
    { "allowed_worker_ids", "1", NULL },
    { "advisory", "true", " advisory=1" },
    { "advisory", "false", " advisory=0" },
    { "advisory", "null", NULL },
    { "advisory", "1", NULL },
    { "affinity_target", "{\"worker_id\":7}", " affinity_target={7}" },
    { "affinity_target", "{\"worker_id\":7,\"dp_rank\":null}",
      " affinity_target={7}" },
    { "affinity_target", "{\"dp_rank\":4294967295,\"worker_id\":0,\"x\":1}",
      " affinity_target={0,4294967295}" },
    { "affinity_target", "null", "" },
    { "affinity_target", "{}", NULL },
    { "affinity_target", "{\"dp_rank\":1}", NULL },
    { "affinity_target", "{\"worker_id\":null}", NULL },
    { "affinity_target", "{\"worker_id\":-1}", NULL },
    { "affinity_target", "{\"worker_id\":7,\"dp_rank\":4294967296}", NULL },
    { "affinity_target", "{\"worker_id\":7,\"dp_rank\":\"0\"}", NULL },
    { "affinity_target", "{\"worker_id\":7,\"worker_id\":7}", NULL },
    { "affinity_target", "7", NULL },
    { "affinity_target", "\"7\"", NULL },
    { "pinned_worker", "{\"worker_id\":18446744073709551615,\"dp_rank\":0}",
      " pinned_worker={18446744073709551615,0}" },
    { "pinned_worker", "null", "" },
    { "pinned_worker", "{\"worker_id\":7}", NULL },
    { "pinned_worker", "{\"worker_id\":7,\"dp_rank\":null}", NULL },
    { "pinned_worker", "{\"dp_rank\":7}", NULL },
    { "pinned_worker", "{\"worker_id\":7,\"dp_rank\":-1}", NULL },
    { "pinned_worker", "{\"worker_id\":7,\"dp_rank\":4294967296}", NULL },
    { "pinned_worker", "[]", NULL },
    { "pinned_worker", "7", NULL }
};


/* known: the members are this body's; else they are skipped. */
static void
expect_rows(const row_t *rows, size_t n, sel_ways_read_pt read, bool known)
{
    char    text[512], out[512];
    size_t  i;

    for (i = 0; i < n; i++) {
        (void) snprintf(text, sizeof(text), "{\"%s\":%s}", rows[i].member,
                        rows[i].value);
        (void) snprintf(out, sizeof(out), "%s%s", SEL_BODY_NONE,
                        known && rows[i].out != NULL ? rows[i].out : "");

        if (known && rows[i].out == NULL) {
            sel_expect(text, read, SEL_JSON_DATA, "", rows[i].member, seed);

        } else {
            sel_expect(text, read, SEL_JSON_OK, out, NULL, seed);
        }
    }
}


static void
test_members(void **state)
{
    expect_rows(prompt_rows, sel_countof(prompt_rows), read_select, true);
    expect_rows(select_rows, sel_countof(select_rows), read_select, true);
}


/* The members of /select alone are of no interest to /overlap_scores. */
static void
test_overlap_scores(void **state)
{
    expect_rows(prompt_rows, sel_countof(prompt_rows), read_scores, true);
    expect_rows(select_rows, sel_countof(select_rows), read_scores, false);
}


static void
test_together(void **state)
{
    sel_expect("{\"advisory\":true,\"isl_tokens\":32,\"unknown\":{\"a\":[1]},"
               "\"block_hashes\":[101,102],\"model_name\":\"llama\","
               "\"sequence_hashes\":[201,202],\"routing_group\":\"east\","
               "\"allowed_worker_ids\":[7],\"token_ids\":null}",
               read_select, SEL_JSON_OK,
               SEL_BODY_NONE " block_hashes=[101,102] "
               "sequence_hashes=[201,202] isl_tokens=32 model_name=\"llama\" "
               "routing_group=\"east\" allowed_worker_ids=[7] advisory=1",
               NULL, seed);

    sel_expect(" {} ", read_select, SEL_JSON_OK, SEL_BODY_NONE, NULL, seed);
    sel_expect("{}", read_scores, SEL_JSON_OK, SEL_BODY_NONE, NULL, seed);
}


static void
test_duplicates(void **state)
{
    char    text[256];
    size_t  i;

    static const char *const  members[] = {
        "token_ids", "mm_routing_info", "block_mm_infos", "block_hashes",
        "sequence_hashes", "isl_tokens", "lora_name", "cache_salt",
        "is_eagle", "router_config_override", "selection_id",
        "expected_output_tokens", "session_id", "session_context",
        "affinity_target", "pinned_worker", "allowed_worker_ids"
    };

    for (i = 0; i < sel_countof(members); i++) {
        (void) snprintf(text, sizeof(text), "{\"%s\":null,\"%s\":null}",
                        members[i], members[i]);
        sel_expect(text, read_select, SEL_JSON_DATA, "", members[i], seed);
        sel_expect(text, read_select, SEL_JSON_DATA, "", "duplicate field",
                   seed);
    }

    sel_expect("{\"model_name\":\"a\",\"model_name\":\"a\"}", read_select,
               SEL_JSON_DATA, "", "duplicate field `model_name`", seed);
    sel_expect("{\"advisory\":true,\"advisory\":true}", read_select,
               SEL_JSON_DATA, "", "duplicate field `advisory`", seed);

    /* what is not a member may be repeated */
    sel_expect("{\"x\":1,\"x\":2}", read_select, SEL_JSON_OK, SEL_BODY_NONE,
               NULL, seed);
    sel_expect("{\"advisory\":1,\"advisory\":2}", read_scores, SEL_JSON_OK,
               SEL_BODY_NONE, NULL, seed);
}


static void
test_documents(void **state)
{
    size_t  i;

    static const char *const  broken[] = {
        "", " ", "{", "{}}", "{} x", "{\"token_ids\":[1,]}",
        "{\"token_ids\":[1 2]}", "{\"isl_tokens\":01}",
        "{\"isl_tokens\":1e999}", "{\"priority_jump\":1e999}",
        "{\"priority_jump\":NaN}", "{\"lora_name\":\"\\ud800\"}",
        "{\"x\":\"\xff\"}", "{token_ids:[]}"
    };

    static const char *const  other[] = {
        "null", "7", "\"x\"", "true"
    };

    for (i = 0; i < sel_countof(broken); i++) {
        sel_expect(broken[i], read_select, SEL_JSON_SYNTAX, "", NULL, seed);
    }

    for (i = 0; i < sel_countof(other); i++) {
        sel_expect(other[i], read_select, SEL_JSON_DATA, "", NULL, seed);
        sel_expect(other[i], read_scores, SEL_JSON_DATA, "", NULL, seed);
    }
}


static int
setup(void **state)
{
    seed = sel_rand_seed("request");

    return 0;
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_overlap_scores),
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_documents)
    };

    return cmocka_run_group_tests_name("request", tests, setup, NULL);
}
