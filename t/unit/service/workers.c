/*
 * Registering, changing and deleting workers, seen by two processes on one
 * zone.  Without it the processes could disagree about who may serve, or an
 * answer could tell of something that was not stored.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "state_test.h"
#include "service_expect.h"


static sel_zone_t  zone;
static world_t     a, b;        /* two processes that follow events */
static world_t     quiet;       /* one that does not */


static int
begin(void **state)
{
    state_private(&zone, STATE_SIZE);
    world_init(&a, &zone, 0, true);
    world_init(&b, &zone, 1, true);
    world_init(&quiet, &zone, 2, false);

    return 0;
}


static int
end(void **state)
{
    state_check(&zone);
    world_free(&a);
    world_free(&b);
    world_free(&quiet);
    state_private_free(&zone);

    return 0;
}


static void
post(world_t *world, const char *text, const char *reasons)
{
    if (!world_post(world, text)) {
        fail_msg("%s: %s", text, world->fault.text);
    }

    world_expect_reasons(world, reasons);
}


static void
patch(world_t *world, uint64_t worker_id, const char *text,
    const char *reasons)
{
    if (!world_patch(world, worker_id, text)) {
        fail_msg("%s: %s", text, world->fault.text);
    }

    world_expect_reasons(world, reasons);
}


#define EP  "\"endpoint\":\"http://e\""


static void
test_patch_and_delete(void **state)
{
    assert_false(world_patch(&a, 99, "{\"block_size\":16}"));
    world_expect_fault(&a, SEL_FAULT_NOT_FOUND, "worker 99 not found");
    assert_false(world_delete(&a, UINT64_MAX));
    world_expect_fault(&a, SEL_FAULT_NOT_FOUND,
                       "worker 18446744073709551615 not found");

    post(&quiet, "{\"worker_id\":7,\"model_name\":\"m\"}",
         "endpoint is required | block_size must be greater than 0");
    patch(&quiet, 7, "{" EP ",\"model_name\":\"other\",\"worker_id\":8,"
          "\"routing_group\":\"other\"}",
          "block_size must be greater than 0");
    world_expect(&quiet, "\"worker_id\":7,\"model_name\":\"m\","
                 "\"routing_group\":\"default\"");
    patch(&quiet, 7, "{\"block_size\":16,\"endpoint\":null}", "");
    world_expect(&quiet, EP);
    patch(&quiet, 7, "{}", "");
    patch(&quiet, 7, "{\"endpoint\":\"\"}", "endpoint is required");
    patch(&quiet, 7, "{" EP "}", "");

    /* the answer of DELETE is the record, without reasons */
    patch(&quiet, 7, "{\"block_size\":0}",
          "block_size must be greater than 0");
    assert_true(world_delete(&quiet, 7));
    world_expect(&quiet, "\"worker_id\":7,\"model_name\":\"m\","
                 "\"routing_group\":\"default\","
                 "\"lifecycle\":\"unschedulable\"," EP);
    world_expect_not(&quiet, "reasons");
    assert_false(world_delete(&quiet, 7));
    world_expect_fault(&quiet, SEL_FAULT_NOT_FOUND, "worker 7 not found");
    assert_false(world_patch(&quiet, 7, "{}"));
    assert_string_equal(world_list(&quiet, NULL, NULL), "[]");
}


/* A registration inherits nothing. */
static void
test_replace(void **state)
{
    post(&quiet, "{\"worker_id\":7," EP ",\"block_size\":16,\"taints\":"
         "[\"t\"],\"total_kv_blocks\":5,\"topology_domains\":{\"a\":\"b\"},"
         "\"is_eagle\":true,\"kv_event_source_mode\":\"x\"}", "");
    post(&quiet, "{\"worker_id\":7," EP ",\"is_eagle\":true}",
         "block_size must be greater than 0");
    world_expect(&quiet, "\"block_size\":null");
    world_expect(&quiet, "\"total_kv_blocks\":null");
    world_expect(&quiet, "\"taints\":[],\"topology_domains\":{}");
    world_expect_not(&quiet, "kv_event_source_mode");
    world_expect_not(&quiet, "\"t\"");

    /* what was answered is what is listed, everywhere */
    post(&quiet, "{\"worker_id\":7," EP ",\"block_size\":16,"
         "\"is_eagle\":true}", "");
    assert_int_equal(strncmp(&world_list(&a, NULL, NULL)[1],
                             world_text(&quiet),
                             strlen(world_text(&quiet))), 0);
}


/* Processes that work from an old view lose nothing of the others' work. */
static void
test_stale_views(void **state)
{
    post(&quiet, "{\"worker_id\":7," EP ",\"block_size\":16}", "");
    world_refresh(&a);
    world_refresh(&b);

    patch(&quiet, 7, "{\"total_kv_blocks\":100}", "");
    patch(&a, 7, "{\"max_num_batched_tokens\":200,\"kv_events_endpoint\":"
          "\"tcp://h:1\"}", "");
    patch(&b, 7, "{\"taints\":[\"t\"]}", "");
    world_expect(&b, "\"max_num_batched_tokens\":200,"
                 "\"total_kv_blocks\":100");
    world_expect(&b, "\"taints\":[\"t\"]");

    assert_true(world_delete(&a, 7));
    assert_false(world_patch(&b, 7, "{\"taints\":[]}"));
    world_expect_fault(&b, SEL_FAULT_NOT_FOUND, "worker 7 not found");
    assert_false(world_delete(&quiet, 7));

    /* deleted and registered behind a view's back */
    post(&b, "{\"worker_id\":7," EP ",\"block_size\":16,"
         "\"kv_events_endpoint\":\"tcp://h:2\"}", "");
    world_refresh(&a);
    assert_true(world_delete(&b, 7));
    post(&b, "{\"worker_id\":7,\"routing_group\":\"g\"," EP
         ",\"block_size\":8,\"kv_events_endpoint\":\"tcp://h:2\"}", "");
    patch(&a, 7, "{\"total_kv_blocks\":3}", "");
    world_expect(&a, "\"routing_group\":\"g\"");
    world_same(&a, &b);
    world_same(&a, &quiet);
}


static void
expect_count(const char *model_name, const char *group, size_t expected)
{
    json_t  *root;

    (void) world_list(&b, model_name, group);
    root = world_json(&b);
    assert_int_equal(json_array_size(root), expected);
    json_decref(root);
}


static void
test_list(void **state)
{
    char     text[256];
    size_t   i, k;
    json_t  *root, *row;

    static const char *const  names[][2] = {
        { "b", "a" }, { "a", "b" }, { "a", "a" }, { "", "z" }, { "aa", "" },
        { "a", "" }, { "\xc3\xa9", "x" }, { "B", "x" }
    };

    static const char *const  sorted[] = {
        "/z", "B/x", "a/", "a/a", "a/b", "aa/", "b/a", "\xc3\xa9/x"
    };

    assert_string_equal(world_list(&a, NULL, NULL), "[]");

    for (i = 0; i < 3 * sel_countof(names); i++) {
        (void) snprintf(text, sizeof(text), "{\"worker_id\":%zu,"
                        "\"model_name\":\"%s\",\"routing_group\":\"%s\"%s}",
                        (i * 7) % 24, names[i % 8][0], names[i % 8][1],
                        i % 3 ? "," EP ",\"block_size\":16" : "");
        assert_true(world_post(&quiet, text));
    }

    (void) world_list(&a, NULL, NULL);
    root = world_json(&a);
    assert_int_equal(json_array_size(root), 24);

    json_array_foreach(root, i, row) {
        (void) snprintf(text, sizeof(text), "%s/%s",
            json_string_value(json_object_get(row, "model_name")),
            json_string_value(json_object_get(row, "routing_group")));
        assert_string_equal(text, sorted[i / 3]);

        if (i % 3 != 0) {
            k = (size_t) json_integer_value(json_object_get(
                    json_array_get(root, i - 1), "worker_id"));
            assert_true(k < (size_t) json_integer_value(
                                json_object_get(row, "worker_id")));
        }
    }

    json_decref(root);

    expect_count("a", NULL, 9);
    expect_count(NULL, "x", 6);
    expect_count("a", "", 3);
    assert_string_equal(world_list(&b, "A", NULL), "[]");
    assert_string_equal(world_list(&b, "a", "x"), "[]");
    assert_string_equal(world_list(&b, "", ""), "[]");
}


static void
test_ready(void **state)
{
    bool  ready;

    ready = true;
    assert_string_equal(world_ready(&a, &ready),
        "{\"ready\":false,\"schedulable_workers\":0,\"workers\":[]}");
    assert_false(ready);

    post(&quiet, "{\"worker_id\":1}",
         "endpoint is required | block_size must be greater than 0");
    (void) world_ready(&a, &ready);
    assert_false(ready);
    world_expect(&a, "{\"ready\":false,\"schedulable_workers\":0,"
                 "\"workers\":[{\"worker_id\":1,");

    post(&quiet, "{\"worker_id\":2,\"model_name\":\"x\"," EP
         ",\"block_size\":16}", "");
    post(&quiet, "{\"worker_id\":3," EP ",\"block_size\":16}", "");
    (void) world_ready(&a, &ready);
    assert_true(ready);
    world_expect(&a, "{\"ready\":true,\"schedulable_workers\":2,"
                 "\"workers\":[{\"worker_id\":1,");

    assert_true(world_delete(&quiet, 2));
    assert_true(world_delete(&quiet, 3));
    (void) world_ready(&a, &ready);
    assert_false(ready);
}


static void
expect_partition(const char *model_name, const char *group, const char *fault)
{
    sel_view_partition_t  *partition;

    world_begin(&a);
    partition = sel_service_partition(&a.service, &a.arena,
                                      sel_cstr(model_name), sel_cstr(group),
                                      &a.fault);

    if (fault == NULL) {
        assert_non_null(partition);
        assert_true(sel_str_eq(partition->key.model_name,
                               sel_cstr(model_name)));
        assert_true(sel_str_eq(partition->key.routing_group,
                               sel_cstr(group)));
        return;
    }

    assert_null(partition);
    world_expect_fault(&a, SEL_FAULT_NOT_READY, fault);
}


static void
test_partition(void **state)
{
    expect_partition("default", "default",
                     "no schedulable workers are available");

    post(&quiet, "{\"worker_id\":1}",
         "endpoint is required | block_size must be greater than 0");
    expect_partition("default", "default",
                     "no schedulable workers are available");

    post(&quiet, "{\"worker_id\":2,\"routing_group\":\"g\"," EP
         ",\"block_size\":16}", "");
    expect_partition("default", "default", "no schedulable workers for "
                     "model=default routing_group=default");
    expect_partition("default", "g", NULL);
    expect_partition("x\"", "g", "no schedulable workers for "
                     "model=x\" routing_group=g");

    assert_true(world_delete(&quiet, 2));
    expect_partition("default", "g",
                     "no schedulable workers are available");
}


/* Every change is told to the other processes, nothing else is. */
static void
test_changed(void **state)
{
    world_forget(&quiet);
    post(&quiet, "{\"worker_id\":7," EP ",\"block_size\":16}", "");
    assert_int_equal(quiet.changed, 1);
    patch(&quiet, 7, "{\"total_kv_blocks\":1}", "");
    assert_int_equal(quiet.changed, 2);
    (void) world_list(&quiet, NULL, NULL);
    assert_false(world_patch(&quiet, 8, "{}"));
    assert_false(world_delete(&quiet, 8));
    assert_int_equal(quiet.changed, 2);
    assert_true(world_delete(&quiet, 7));
    assert_int_equal(quiet.changed, 3);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_patch_and_delete, begin, end),
        cmocka_unit_test_setup_teardown(test_replace, begin, end),
        cmocka_unit_test_setup_teardown(test_stale_views, begin, end),
        cmocka_unit_test_setup_teardown(test_list, begin, end),
        cmocka_unit_test_setup_teardown(test_ready, begin, end),
        cmocka_unit_test_setup_teardown(test_partition, begin, end),
        cmocka_unit_test_setup_teardown(test_changed, begin, end)
    };

    return cmocka_run_group_tests_name("workers", tests, NULL, NULL);
}
