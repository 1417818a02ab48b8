/*
 * The worker record in JSON: what a registration and a PATCH may say, what is
 * refused, and what is printed.  Without it a client would be told of members
 * it never sent, a wrong type would be taken for something else, or a PATCH
 * would lose what it does not name.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sel_expect.h"
#include "service/sel_worker.h"


static uint64_t  seed;


/* the record with nothing but its identity */
#define BARE(id, model, group)                                                \
    "{\"worker_id\":" id ",\"model_name\":\"" model "\",\"routing_group\":\"" \
    group "\",\"lifecycle\":\"incomplete\",\"endpoint\":null,"                \
    "\"kv_events_endpoint\":null,\"replay_endpoint\":null,"                   \
    "\"block_size\":null,\"data_parallel_start_rank\":null,"                  \
    "\"data_parallel_size\":null,\"max_num_batched_tokens\":null,"            \
    "\"total_kv_blocks\":null,\"stable_routing_id\":null,"                    \
    "\"is_eagle\":null,\"taints\":[],\"topology_domains\":{},"                \
    "\"kv_transfer_domain\":null,\"kv_transfer_enforcement\":null,"           \
    "\"kv_transfer_preferred_weight\":null}"


/* every member, in the order in which they are printed */
#define FULL(lifecycle)                                                       \
    "{\"worker_id\":18446744073709551615,\"model_name\":\"llama\","           \
    "\"routing_group\":\"east\"," lifecycle                                   \
    "\"endpoint\":\"http://10.0.0.7:8000\","                                  \
    "\"kv_events_endpoint\":\"tcp://10.0.0.7:5556\","                         \
    "\"kv_events_endpoints\":{\"3\":\"tcp://10.0.0.7:5557\"},"                \
    "\"replay_endpoint\":\"tcp://10.0.0.7:5558\",\"block_size\":16,"          \
    "\"data_parallel_start_rank\":3,\"data_parallel_size\":2,"                \
    "\"max_num_batched_tokens\":9007199254740993,"                            \
    "\"total_kv_blocks\":18446744073709551615,"                               \
    "\"stable_routing_id\":\"w-7\",\"is_eagle\":true,"                        \
    "\"taints\":[\"a\",\"zone-a\"],"                                          \
    "\"topology_domains\":{\"zone\":\"us-1a\"},"                              \
    "\"kv_transfer_domain\":\"rack\","                                        \
    "\"kv_transfer_enforcement\":\"preferred\","                              \
    "\"kv_transfer_preferred_weight\":0.1,"                                   \
    "\"router_hint_worker_type\":\"vllm\","                                   \
    "\"router_hint_source_control_endpoints\":{\"4\":\"http://c\"},"          \
    "\"kv_event_source_mode\":\"state_agent_v2\"}"


static void
print_worker(FILE *out, const sel_worker_t *worker, const char *lifecycle,
    char *const *reasons)
{
    sel_buf_t  buf;

    sel_buf_init(&buf);
    sel_worker_print(&buf, worker, lifecycle, reasons);
    assert_false(buf.failed);
    assert_true(fwrite(buf.data, 1, buf.len, out) == buf.len);
    sel_buf_free(&buf);
}


static void
read_worker(sel_json_t *json, FILE *out)
{
    sel_worker_t  worker;

    memset(&worker, 0xa5, sizeof(worker));

    if (sel_worker_read(json, &worker) && sel_json_end(json)) {
        print_worker(out, &worker, "incomplete", NULL);
    }
}


/* A PATCH of the full record. */
static void
read_patch(sel_json_t *json, FILE *out)
{
    sel_json_t    other;
    sel_arena_t   arena;
    sel_worker_t  worker, patch;

    memset(&patch, 0xa5, sizeof(patch));

    if (!sel_worker_read_patch(json, &patch) || !sel_json_end(json)) {
        return;
    }

    sel_arena_init(&arena, 0);
    sel_json_init_text(&other, &arena, sel_str(FULL("")));
    assert_true(sel_worker_read(&other, &worker));
    sel_worker_patch(&worker, &patch);
    print_worker(out, &worker, "schedulable", NULL);
    sel_arena_free(&arena);
}


static void
good(const char *text, const char *out)
{
    sel_expect(text, read_worker, SEL_JSON_OK, out, NULL, seed);
}


static void
bad(const char *text, sel_json_status_t status, const char *words)
{
    sel_expect(text, read_worker, status, "", words, seed);
}


static void
test_defaults(void **state)
{
    sel_json_t    json;
    sel_arena_t   arena;
    sel_worker_t  worker;

    good("{\"worker_id\":0}", BARE("0", "default", "default"));
    good("{\"worker_id\":7,\"model_name\":\"\",\"routing_group\":\"\"}",
         BARE("7", "", ""));
    good("{\"routing_group\":\"g\",\"worker_id\":18446744073709551615,"
         "\"tenant_id\":\"t\",\"model_name\":\"m\",\"other\":[{\"a\":{}}]}",
         BARE("18446744073709551615", "m", "g"));

    sel_arena_init(&arena, 0);
    memset(&worker, 0xa5, sizeof(worker));
    sel_json_init_text(&json, &arena, sel_str("{\"worker_id\":7}"));
    assert_true(sel_worker_read(&json, &worker));
    assert_true(worker.given == UINT64_C(1) << SEL_WORKER_ID);
    assert_true(worker.worker_id == 7);
    assert_true(sel_str_eq(worker.model_name, sel_str("default")));
    assert_true(sel_str_eq(worker.routing_group, sel_str("default")));
    assert_true(worker.endpoint.len == 0);
    assert_true(worker.start_rank == 0);
    assert_true(worker.dp_size == 1);
    assert_true(worker.block_size == 0);
    assert_false(worker.is_eagle);
    assert_true(worker.taints.n == 0);
    assert_true(worker.topology_domains.n == 0);
    assert_true(worker.kv_events_endpoints.n == 0);
    assert_true(worker.router_hint_source_control_endpoints.n == 0);
    assert_true(sel_worker_end_rank(&worker) == 1);

    memset(&worker, 0xa5, sizeof(worker));
    sel_json_init_text(&json, &arena, sel_str("{}"));
    assert_true(sel_worker_read_patch(&json, &worker));
    assert_true(worker.given == 0);
    sel_arena_free(&arena);
}


static void
test_every_member(void **state)
{
    unsigned      member;
    sel_json_t    json;
    sel_arena_t   arena;
    sel_worker_t  worker;

    good(FULL(""), FULL("\"lifecycle\":\"incomplete\","));

    /* a printed record can be read, whatever else stands in it */
    good(FULL("\"lifecycle\":\"schedulable\",\"not_schedulable_reasons\":"
              "[\"x\"],"), FULL("\"lifecycle\":\"incomplete\","));

    sel_arena_init(&arena, 0);
    sel_json_init_text(&json, &arena, sel_str(FULL("")));
    assert_true(sel_worker_read(&json, &worker));

    for (member = 0; member < SEL_WORKER_MEMBERS; member++) {
        assert_true(sel_worker_has(&worker, member));
        assert_non_null(strstr(FULL(""), sel_worker_member_name(member)));
    }

    assert_true(worker.kv_transfer_preferred_weight == 0.1f);
    assert_string_equal(
        sel_worker_enforcements[worker.kv_transfer_enforcement],
        "preferred");
    sel_arena_free(&arena);
}


static void
test_names(void **state)
{
    unsigned  i, member;

    static const char *const  names[SEL_WORKER_MEMBERS] = {
        "endpoint", "kv_events_endpoint", "kv_events_endpoints",
        "replay_endpoint", "block_size", "data_parallel_start_rank",
        "data_parallel_size", "max_num_batched_tokens", "total_kv_blocks",
        "stable_routing_id", "is_eagle", "taints", "topology_domains",
        "kv_transfer_domain", "kv_transfer_enforcement",
        "kv_transfer_preferred_weight", "router_hint_worker_type",
        "router_hint_source_control_endpoints", "kv_event_source_mode",
        "worker_id", "model_name", "routing_group"
    };

    for (member = 0; member < SEL_WORKER_MEMBERS; member++) {
        assert_string_equal(sel_worker_member_name(member), names[member]);
    }

    for (i = 0; sel_worker_enforcements[i] != NULL; i++) {
        assert_true(i < 2);
    }

    assert_int_equal(i, 2);
}


/* Absence is printed as what the API says: null, an empty list, nothing. */
static void
test_reasons(void **state)
{
    char          *text, *none[1];
    size_t         len;
    FILE          *out;
    sel_json_t     json;
    sel_arena_t    arena;
    sel_worker_t   worker;

    char *const  reasons[] = {
        "endpoint is required", "a \"quoted\" one", NULL
    };

    sel_arena_init(&arena, 0);
    sel_json_init_text(&json, &arena, sel_str("{\"worker_id\":7}"));
    assert_true(sel_worker_read(&json, &worker));

    out = open_memstream(&text, &len);
    assert_non_null(out);
    print_worker(out, &worker, "draining", reasons);
    fclose(out);
    assert_non_null(strstr(text, "\"lifecycle\":\"draining\","));
    assert_non_null(strstr(text, "\"kv_transfer_preferred_weight\":null,"
                           "\"not_schedulable_reasons\":"
                           "[\"endpoint is required\","
                           "\"a \\\"quoted\\\" one\"]}"));
    free(text);

    none[0] = NULL;
    out = open_memstream(&text, &len);
    assert_non_null(out);
    print_worker(out, &worker, "incomplete", none);
    fclose(out);
    assert_string_equal(text, BARE("7", "default", "default"));
    free(text);
    sel_arena_free(&arena);
}


typedef struct {
    const char  *member;
    const char  *values[32];        /* NULL-ended */
} refused_t;


static const refused_t  refused[] = {
    { "worker_id", { "-1", "1.0", "1.5", "1e3", "18446744073709551616", "-0.5",
                     "\"7\"", "true", "[]", "[7]", "{}" } },
    { "model_name", { "1", "true", "[]", "[\"a\"]", "{}" } },
    { "routing_group", { "1", "false", "[]", "{}" } },
    { "endpoint", { "1", "true", "[]", "{}" } },
    { "kv_events_endpoint", { "5557", "true", "[\"tcp://a:1\"]", "{}" } },
    { "kv_events_endpoints",
      { "[]", "\"tcp://a:1\"", "1", "true", "[\"tcp://a:1\"]", "{\"0\":1}",
        "{\"0\":null}", "{\"0\":[\"a\"]}", "{\"a\":\"x\"}", "{\"\":\"x\"}",
        "{\"-1\":\"x\"}", "{\"4294967296\":\"x\"}", "{\"1.0\":\"x\"}",
        "{\"1e0\":\"x\"}", "{\" 1\":\"x\"}", "{\"1 \":\"x\"}",
        "{\"0x1\":\"x\"}", "{\"0\":\"x\",\"b\":\"y\"}",
        "{\"/\":\"x\"}", "{\"1:\":\"x\"}", "{\"4294967299\":\"x\"}",
        "{\"42949672950\":\"x\"}", "{\"-0\":\"x\"}",
        "{\"18446744073709551616\":\"x\"}", "{\"1\\u0000\":\"x\"}" } },
    { "replay_endpoint", { "1", "true", "[]", "{}" } },
    { "block_size", { "-1", "16.0", "1e1", "4294967296", "\"16\"", "true",
                      "[]", "{}", "-16" } },
    { "data_parallel_start_rank", { "-1", "0.0", "4294967296", "\"0\"" } },
    { "data_parallel_size", { "-1", "1.0", "4294967296", "\"1\"", "false" } },
    { "max_num_batched_tokens", { "-1", "1.0", "18446744073709551616",
                                  "\"1\"", "1e19", "[]" } },
    { "total_kv_blocks", { "-1", "1.0", "18446744073709551616", "\"1\"",
                           "true" } },
    { "stable_routing_id", { "1", "[]", "{}" } },
    { "is_eagle", { "0", "1", "\"true\"", "[]", "{}" } },
    { "taints", { "\"a\"", "{}", "1", "[1]", "[null]", "[\"a\",null]",
                  "[\"a\",[\"b\"]]", "{\"a\":\"b\"}" } },
    { "topology_domains", { "[]", "\"a\"", "1", "{\"a\":1}", "{\"a\":null}",
                            "{\"a\":{\"b\":\"c\"}}", "[\"a\"]" } },
    { "kv_transfer_domain", { "1", "[]", "{}" } },
    { "kv_transfer_enforcement", { "\"\"", "\"Required\"", "\"required \"",
                                   "\"none\"", "0", "1", "true", "[]" } },
    { "kv_transfer_preferred_weight", { "\"0.5\"", "true", "[]", "{}",
                                        "1e39", "-1e39" } },
    { "router_hint_worker_type", { "1", "[]", "{}" } },
    { "router_hint_source_control_endpoints",
      { "[]", "\"x\"", "{\"a\":\"x\"}", "{\"0\":null}", "{\"0\":7}",
        "{\"4294967296\":\"x\"}" } },
    { "kv_event_source_mode", { "1", "true", "[]", "{}" } }
};


static void
test_refused(void **state)
{
    bool    identity;
    char    text[256];
    size_t  i, k;

    for (i = 0; i < sel_countof(refused); i++) {
        identity = i < 3;

        for (k = 0; refused[i].values[k] != NULL; k++) {
            (void) snprintf(text, sizeof(text), "{%s\"%s\":%s}",
                            i != 0 ? "\"worker_id\":7," : "",
                            refused[i].member, refused[i].values[k]);
            bad(text, SEL_JSON_DATA, refused[i].member);

            (void) snprintf(text, sizeof(text), "{\"%s\":%s}",
                            refused[i].member, refused[i].values[k]);
            sel_expect(text, read_patch,
                       identity ? SEL_JSON_OK : SEL_JSON_DATA,
                       identity ? FULL("\"lifecycle\":\"schedulable\",")
                                : "",
                       identity ? NULL : refused[i].member, seed);
        }
    }
}


/* Null is absence, but not where there is a default value; PATCH skips it. */
static void
test_null(void **state)
{
    bool    not_null;
    char    text[256];
    size_t  i, k;

    static const char *const  strict[] = {
        "worker_id", "model_name", "routing_group", "kv_events_endpoints",
        "taints", "topology_domains", "router_hint_source_control_endpoints"
    };

    for (i = 0; i < sel_countof(refused); i++) {
        not_null = false;

        for (k = 0; k < sel_countof(strict); k++) {
            not_null |= strcmp(strict[k], refused[i].member) == 0;
        }

        (void) snprintf(text, sizeof(text), "{%s\"%s\":null}",
                        i != 0 ? "\"worker_id\":7," : "", refused[i].member);

        if (not_null) {
            bad(text, SEL_JSON_DATA, refused[i].member);

        } else {
            good(text, BARE("7", "default", "default"));
        }

        (void) snprintf(text, sizeof(text), "{\"%s\":null}",
                        refused[i].member);
        sel_expect(text, read_patch, SEL_JSON_OK,
                   FULL("\"lifecycle\":\"schedulable\","), NULL, seed);
    }
}


static void
test_documents(void **state)
{
    bad("", SEL_JSON_SYNTAX, NULL);
    bad("{", SEL_JSON_SYNTAX, NULL);
    bad("{\"worker_id\":7", SEL_JSON_SYNTAX, NULL);
    bad("{\"worker_id\":7}}", SEL_JSON_SYNTAX, "trailing characters");
    bad("{\"worker_id\":7,}", SEL_JSON_SYNTAX, NULL);
    bad("{\"worker_id\":7,\"taints\":[\"a\",]}", SEL_JSON_SYNTAX, NULL);
    bad("{\"worker_id\":7,\"endpoint\":\"\xff\"}", SEL_JSON_SYNTAX, NULL);
    bad("null", SEL_JSON_DATA, NULL);
    bad("7", SEL_JSON_DATA, NULL);
    bad("\"worker_id\"", SEL_JSON_DATA, NULL);
    bad("{}", SEL_JSON_DATA, "missing field `worker_id`");
    bad("{\"worker_idx\":7}", SEL_JSON_DATA, "missing field `worker_id`");
    bad("{\"Worker_id\":7}", SEL_JSON_DATA, "missing field `worker_id`");
    bad("{\"worker_id\":7,\"worker_id\":7}", SEL_JSON_DATA,
        "duplicate field `worker_id`");
    bad("{\"worker_id\":7,\"taints\":[],\"taints\":[]}", SEL_JSON_DATA,
        "duplicate field `taints`");
    bad("{\"worker_id\":7,\"endpoint\":null,\"endpoint\":\"x\"}",
        SEL_JSON_DATA, "duplicate field `endpoint`");
    bad("{\"worker_id\":7,\"kv_transfer_enforcement\":\"x\"}", SEL_JSON_DATA,
        "unknown variant `x`, expected `required` or `preferred`");
    bad("{\"worker_id\":7,\"block_size\":-1}", SEL_JSON_DATA,
        "invalid value: integer `-1`, expected u32");
    bad("{\"worker_id\":7,\"block_size\":\"x\"}", SEL_JSON_DATA,
        "invalid type: string \"x\", expected u32");
    bad("{\"worker_id\":7,\"model_name\":null}", SEL_JSON_DATA,
        "invalid type: null, expected a string");
    sel_expect("[1]", read_patch, SEL_JSON_DATA, "", NULL, seed);
    sel_expect("{\"block_size\":1,\"block_size\":1}", read_patch,
               SEL_JSON_DATA, "", "duplicate field `block_size`", seed);
}


static int
setup(void **state)
{
    seed = sel_rand_seed("worker");

    return 0;
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_every_member),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_documents)
    };

    return cmocka_run_group_tests_name("worker", tests, setup, NULL);
}
