/*
 * Registrations for which there is no room: in the zone, in its rank slots,
 * in a process's memory.  Without it half a worker could stay behind, or a
 * full zone would need a restart.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "index/sel_memory.h"
#include "state_test.h"
#include "service_world.h"


static sel_zone_t  zone;
static world_t     a, b;


static int
begin(void **state)
{
    state_private(&zone, SEL_ZONE_MIN_SIZE);
    world_init(&a, &zone, 0, false);
    world_init(&b, &zone, 1, false);

    return 0;
}


static int
end(void **state)
{
    sel_memory_hook = NULL;
    state_check(&zone);
    assert_null(sel_index_check(a.service.index));
    world_free(&a);
    world_free(&b);
    state_private_free(&zone);

    return 0;
}


/* A worker of some ranks with a record of some size. */
static bool
post(world_t *world, uint32_t id, uint32_t ranks, size_t pad,
    const char *group)
{
    bool       done;
    sel_buf_t  text;

    sel_buf_init(&text);
    sel_buf_printf(&text, "{\"worker_id\":%u,\"endpoint\":\"http://e\","
                   "\"block_size\":16,\"data_parallel_size\":%u,"
                   "\"routing_group\":\"%s\",\"stable_routing_id\":\"", id,
                   ranks, group);

    while (pad-- != 0) {
        sel_buf_byte(&text, 'x');
    }

    sel_buf_text(&text, "\"}");
    sel_buf_byte(&text, 0);
    done = world_post(world, (char *) text.data);
    sel_buf_free(&text);

    return done;
}


/* Whatever the operation tried, both processes list what was there before. */
static void
expect_same(const char *before)
{
    assert_string_equal(world_list(&a, NULL, NULL), before);
    assert_string_equal(world_list(&b, NULL, NULL), before);
    state_check(&zone);
}


static void
expect_full(uint64_t *count)
{
    assert_int_equal(a.fault.class, SEL_FAULT_FULL);
    assert_true(a.fault.text[0] != '\0');
    assert_true(sel_counted(&zone, SEL_COUNT_ZONE_FULL) == ++*count);
    assert_int_equal(a.changed, 0);
    world_expect_events(&a, "");
}


static void
test_full_zone(void **state)
{
    char       text[4000];
    char      *before;
    uint32_t   n;
    uint64_t   count;

    for (n = 0; post(&a, n, 1, 9000, "default"); n++) {
        assert_true(n < 200);
    }

    world_refresh(&a);
    world_forget(&a);
    count = sel_counted(&zone, SEL_COUNT_ZONE_FULL) - 1;
    assert_true(n > 20);
    expect_full(&count);
    before = strdup(world_list(&b, NULL, NULL));
    assert_non_null(before);
    expect_same(before);

    /* again, and a record that could never fit */
    assert_false(post(&a, 500, 1, 9000, "default"));
    expect_full(&count);
    assert_false(post(&a, 501, 1, 4 << 20, "default"));
    expect_full(&count);
    expect_same(before);

    /* a change that needs more room leaves the old record in force */
    assert_false(post(&a, 0, 1, 40000, "default"));
    expect_full(&count);

    for (n = 1000; post(&a, n, 1, 10, "default"); n++) {
        assert_true(n < 2000);
    }

    count++;
    world_forget(&a);
    free(before);
    before = strdup(world_list(&b, NULL, NULL));
    assert_non_null(before);
    memset(text, '.', sizeof(text));
    (void) snprintf(text, 32, "{\"kv_transfer_domain\":");
    text[strlen(text)] = '"';
    (void) snprintf(&text[sizeof(text) - 3], 3, "\"}");
    assert_false(world_patch(&a, 1000, text));
    expect_full(&count);
    expect_same(before);

    /* deleting always works and makes room */
    assert_true(world_delete(&a, 0));
    assert_true(world_delete(&b, 1));
    assert_true(post(&a, 600, 1, 9000, "default"));
    world_same(&a, &b);
    free(before);
}


static void
test_partitions_fill(void **state)
{
    char      group[64], *before;
    uint32_t  n;
    uint64_t  count;

    for (n = 0; ; n++) {
        (void) snprintf(group, sizeof(group), "group-%u", n);

        /* partitions stay, workers go */
        if (!post(&a, 1, 1, 10, group)) {
            break;
        }

        assert_true(n < 10000);
    }

    assert_int_equal(a.fault.class, SEL_FAULT_FULL);
    count = sel_counted(&zone, SEL_COUNT_ZONE_FULL);
    world_forget(&a);
    before = strdup(world_list(&b, NULL, NULL));
    assert_non_null(before);
    assert_false(post(&a, 1, 1, 10, "another"));
    expect_full(&count);
    expect_same(before);
    assert_true(world_delete(&b, 1));
    free(before);
}


static void
test_no_slots(void **state)
{
    char      *before;
    uint32_t   slots;
    uint64_t   count;

    slots = zone.n_slots;
    count = 0;
    assert_true(slots < 1000);

    assert_false(post(&a, 7, slots + 1, 10, "default"));
    expect_full(&count);
    expect_same("[]");
    assert_false(post(&a, 7, 65535, 10, "default"));
    expect_full(&count);

    assert_true(post(&a, 7, slots, 10, "default"));
    assert_true(state_stats(&zone).slots_used == slots);
    world_refresh(&a);
    world_refresh(&b);
    assert_int_equal(b.n_listeners, slots);
    world_forget(&a);
    before = strdup(world_list(&a, NULL, NULL));
    assert_non_null(before);

    assert_false(post(&a, 8, 1, 10, "default"));
    expect_full(&count);
    assert_false(post(&a, 7, slots + 1, 10, "default"));
    expect_full(&count);
    expect_same(before);
    assert_int_equal(b.n_listeners, slots);

    /* what keeps its ranks needs no slots; nor does an incomplete worker */
    assert_true(world_patch(&a, 7, "{\"total_kv_blocks\":1}"));
    assert_true(world_post(&a, "{\"worker_id\":8}"));

    assert_true(world_patch(&a, 7, "{\"data_parallel_size\":1}"));
    assert_true(state_stats(&zone).slots_used == 1);
    assert_true(post(&a, 8, slots - 1, 10, "other"));
    assert_true(state_stats(&zone).slots_used == slots);
    world_same(&a, &b);
    free(before);
}


static bool
refuse(size_t size)
{
    return false;
}


/* An index without memory: workers serve without overlap until there is. */
static void
test_no_index_memory(void **state)
{
    uint32_t     n;
    const char  *ask;

    ask = "{\"token_ids\":[1,2,3]}";
    world_free(&b);
    sel_memory_hook = refuse;

    for (n = 0; n < 40; n++) {
        assert_true(post(&a, n, 2, 10, "default"));
    }

    world_refresh(&a);
    assert_int_equal(a.n_listeners, 80);
    assert_true(world_select(&a, ask));
    world_expect(&a, "\"longest_matched\":0");
    assert_true(world_scores(&a, ask));
    assert_int_equal(world_listener(&a, 39, 1)->rank->owner,
                     SEL_INDEX_NO_OWNER);
    assert_int_equal(world_store(&a, 39, 1, 1, 1, 5),
                     SEL_INDEX_NO_SUCH_OWNER);
    assert_int_equal(world_store(&a, 39, 1, 9, 1, 5),
                     SEL_INDEX_NO_SUCH_OWNER);
    assert_int_equal(world_blocks(&a, "default", "default", 39, 1, 1, 5), 0);

    sel_memory_hook = NULL;
    assert_int_equal(world_store(&a, 39, 1, 1, 1, 5), SEL_INDEX_OK);
    assert_int_equal(world_blocks(&a, "default", "default", 39, 1, 1, 5), 5);
    assert_int_equal(world_blocks(&a, "default", "default", 38, 1, 1, 5), 0);
    world_init(&b, &zone, 1, false);
}


/* A request without memory is refused as a whole. */
static void
test_no_request_memory(void **state)
{
    bool          done;
    size_t        max;
    sel_str_t     record;
    sel_fault_t   fault;
    sel_arena_t   arena, small;
    sel_json_t    json;
    sel_worker_t  worker;

    sel_arena_init(&arena, 0);
    sel_json_init_text(&json, &arena, sel_str("{\"worker_id\":7,"
        "\"endpoint\":\"http://e\",\"block_size\":16}"));
    assert_true(sel_worker_read(&json, &worker));

    for (done = false, max = 1; !done; max += 1 + max / 2) {
        assert_true(max < 16 << 20);
        sel_arena_init(&small, max);
        fault = (sel_fault_t) { SEL_FAULT_NONE, NULL };
        done = sel_worker_register(&a.service, &small, &worker, &record,
                                   &fault);

        if (!done) {
            assert_int_equal(fault.class, SEL_FAULT_INTERNAL);
            assert_non_null(fault.text);
            expect_same("[]");
            assert_true(state_stats(&zone).slots_used == 0);
        }

        sel_arena_free(&small);
    }

    world_same(&a, &b);
    sel_arena_free(&arena);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_full_zone, begin, end),
        cmocka_unit_test_setup_teardown(test_partitions_fill, begin, end),
        cmocka_unit_test_setup_teardown(test_no_slots, begin, end),
        cmocka_unit_test_setup_teardown(test_no_index_memory, begin, end),
        cmocka_unit_test_setup_teardown(test_no_request_memory, begin, end)
    };

    return cmocka_run_group_tests_name("worker_room", tests, NULL, NULL);
}
