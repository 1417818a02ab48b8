/*
 * What a PATCH does to a worker record.  Without it a PATCH would merge what
 * it must replace, lose what it does not name, or clear what it cannot.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>

#include "service/sel_worker.h"


/* a record with every member */
#define OLD                                                                   \
    "{\"worker_id\":7,\"endpoint\":\"o\",\"kv_events_endpoint\":\"o\","       \
    "\"kv_events_endpoints\":{\"1\":\"o\",\"2\":\"o\"},"                      \
    "\"replay_endpoint\":\"o\",\"block_size\":16,"                            \
    "\"data_parallel_start_rank\":1,\"data_parallel_size\":2,"                \
    "\"max_num_batched_tokens\":3,\"total_kv_blocks\":4,"                     \
    "\"stable_routing_id\":\"o\",\"is_eagle\":true,"                          \
    "\"taints\":[\"o\",\"p\"],\"topology_domains\":{\"o\":\"o\"},"            \
    "\"kv_transfer_domain\":\"o\","                                           \
    "\"kv_transfer_enforcement\":\"preferred\","                              \
    "\"kv_transfer_preferred_weight\":1.5,"                                   \
    "\"router_hint_worker_type\":\"o\","                                      \
    "\"router_hint_source_control_endpoints\":{\"1\":\"o\"},"                 \
    "\"kv_event_source_mode\":\"o\"}"


static sel_arena_t   arena;
static sel_buf_t     printed;
static sel_worker_t  worker;


static int
begin(void **state)
{
    sel_arena_init(&arena, 0);
    sel_buf_init(&printed);

    return 0;
}


static int
end(void **state)
{
    sel_arena_free(&arena);
    sel_buf_free(&printed);

    return 0;
}


static void
take(sel_str_t record)
{
    sel_json_t  json;

    sel_json_init_text(&json, &arena, record);

    if (!sel_worker_read(&json, &worker) || !sel_json_end(&json)) {
        fail_msg("%.60s: %s", (const char *) record.data, json.message);
    }
}


static void
patch(const char *members)
{
    sel_json_t    json;
    sel_worker_t  change;

    sel_json_init_text(&json, &arena, sel_cstr(members));

    if (!sel_worker_read_patch(&json, &change) || !sel_json_end(&json)) {
        fail_msg("%s: %s", members, json.message);
    }

    sel_worker_patch(&worker, &change);
}


static const char *
print(void)
{
    printed.len = 0;
    sel_worker_print(&printed, &worker, "schedulable", NULL);
    sel_buf_byte(&printed, 0);
    assert_false(printed.failed);

    return (const char *) printed.data;
}


/* The printed record holds these words. */
static void
expect(const char *words)
{
    if (strstr(print(), words) == NULL) {
        fail_msg("%s not in %s", words, print());
    }
}


static void
expect_endpoint(uint32_t dp_rank, const char *endpoint)
{
    sel_str_t  got;

    got = sel_worker_events_endpoint(&worker, dp_rank);

    if (!sel_str_eq(got, sel_cstr(endpoint))) {
        fail_msg("rank %u: %.*s, expected %s", dp_rank, (int) got.len,
                 (const char *) got.data, endpoint);
    }
}


/* The printed record without one member; free it. */
static json_t *
rest(const char *member)
{
    json_t  *root;

    root = json_loads(print(), 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_object_del(root, member), 0);

    return root;
}


/* Each member of a PATCH changes itself and nothing else. */
static void
test_patch(void **state)
{
    size_t   i;
    char     changed[128];
    json_t  *before, *after;

    static const char *const  rows[][2] = {
        { "endpoint", "\"new\"" },
        { "kv_events_endpoint", "\"tcp://new:1\"" },
        { "kv_events_endpoints", "{\"9\":\"tcp://new:2\"}" },
        { "replay_endpoint", "\"tcp://new:3\"" },
        { "block_size", "4294967295" },
        { "data_parallel_start_rank", "0" },
        { "data_parallel_size", "0" },
        { "max_num_batched_tokens", "9223372036854775807" },
        { "total_kv_blocks", "0" },
        { "stable_routing_id", "\"\"" },
        { "is_eagle", "false" },
        { "taints", "[\"new\"]" },
        { "topology_domains", "{\"new\":\"x\"}" },
        { "kv_transfer_domain", "\"new\"" },
        { "kv_transfer_enforcement", "\"required\"" },
        { "kv_transfer_preferred_weight", "-2.5" },
        { "router_hint_worker_type", "\"new\"" },
        { "router_hint_source_control_endpoints", "{\"8\":\"http://new\"}" },
        { "kv_event_source_mode", "\"new\"" }
    };

    assert_int_equal(sel_countof(rows), SEL_WORKER_PATCHED);

    for (i = 0; i < 2 * sel_countof(rows); i++) {

        /* onto nothing each, then onto everything one after the other */
        if (i < sel_countof(rows)) {
            take(sel_str("{\"worker_id\":7,\"kv_events_endpoints\":{"
                         "\"1\":\"o\"},\"router_hint_worker_type\":\"o\","
                         "\"router_hint_source_control_endpoints\":{"
                         "\"1\":\"o\"},\"kv_event_source_mode\":\"o\"}"));

        } else if (i == sel_countof(rows)) {
            take(sel_str(OLD));
        }

        before = rest(rows[i % sel_countof(rows)][0]);
        (void) snprintf(changed, sizeof(changed), "{\"%s\":%s}",
                        rows[i % sel_countof(rows)][0],
                        rows[i % sel_countof(rows)][1]);
        patch(changed);
        assert_true(sel_worker_has(&worker, i % sel_countof(rows)));
        changed[strlen(changed) - 1] = '\0';
        expect(&changed[1]);

        after = rest(rows[i % sel_countof(rows)][0]);
        assert_true(json_equal(before, after));
        json_decref(before);
        json_decref(after);
    }
}


static void
test_patch_clears(void **state)
{
    take(sel_str("{\"worker_id\":7,\"taints\":[\"o\",\"p\"],"
                 "\"topology_domains\":{\"o\":\"o\"},"
                 "\"kv_events_endpoint\":\"s\","
                 "\"kv_events_endpoints\":{\"0\":\"o\"},"
                 "\"router_hint_source_control_endpoints\":{\"1\":\"o\"}}"));

    patch("{\"taints\":null,\"topology_domains\":null,"
          "\"kv_events_endpoints\":null,"
          "\"router_hint_source_control_endpoints\":null}");
    expect("\"taints\":[\"o\",\"p\"],\"topology_domains\":{\"o\":\"o\"}");
    expect_endpoint(0, "o");

    patch("{\"taints\":[],\"topology_domains\":{},"
          "\"kv_events_endpoints\":{},"
          "\"router_hint_source_control_endpoints\":{}}");
    expect("\"taints\":[],\"topology_domains\":{}");
    assert_null(strstr(print(), "kv_events_endpoints"));
    assert_null(strstr(print(), "router_hint"));
    expect_endpoint(0, "s");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_patch, begin, end),
        cmocka_unit_test_setup_teardown(test_patch_clears, begin, end)
    };

    return cmocka_run_group_tests_name("worker_patch", tests, NULL, NULL);
}
