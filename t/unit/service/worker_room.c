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

#include "index/sel_index_check.h"
#include "index/sel_memory.h"
#include "state_test.h"
#include "service_expect.h"


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

        /* each partition has its worker, so none may go */
        if (!post(&a, n, 1, 10, group)) {
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


/* An arena that has room bytes left and will get no more. */
static void
tight(sel_arena_t *arena, size_t room)
{
    size_t  left;

    sel_arena_init(arena, 0);
    assert_non_null(sel_arena_alloc(arena, 1));
    arena->max = arena->used;
    left = (size_t) (arena->end - arena->pos);
    assert_true(left > room + 64);
    assert_non_null(sel_arena_alloc(arena, left - room));
}


typedef struct {
    enum { POST, PATCH, DELETE, SELECT, SCORES }  kind;
    bool                                          answered;
    const char                                   *text;
} operation_t;


/* The operation on worker 7 of what was read, in this arena. */
static bool
operate(const operation_t *o, sel_worker_t *worker, sel_select_body_t *body,
    sel_arena_t *arena, sel_fault_t *fault)
{
    bool        done;
    sel_buf_t   buf;
    sel_str_t   record;

    sel_buf_init(&buf);
    done = false;

    switch (o->kind) {
    case POST:
        done = sel_worker_register(&a.service, arena, worker, &record, fault);
        break;
    case PATCH:
        done = sel_worker_update(&a.service, arena, 7, worker, &record,
                                 fault);
        break;
    case DELETE:
        done = sel_worker_delete(&a.service, arena, 7, &record, fault);
        break;
    case SELECT:
        done = sel_select(&a.service, arena, &world_settings, body, &buf,
                          fault);
        break;
    case SCORES:
        done = sel_overlap_scores(&a.service, arena, &world_settings, body,
                                  &buf, fault);
    }

    sel_buf_free(&buf);

    return done;
}


/* With a little more room each time, until it is enough. */
static void
starve(const operation_t *o)
{
    char               *before;
    bool                done;
    size_t              room;
    sel_json_t          json;
    sel_arena_t         arena, small;
    sel_fault_t         fault;
    sel_worker_t        worker;
    sel_select_body_t   body;

    sel_arena_init(&arena, 0);
    sel_json_init_text(&json, &arena, sel_cstr(o->text));
    assert_true(o->kind == POST ? sel_worker_read(&json, &worker)
                : o->kind >= SELECT ? sel_read_select(&json, &body)
                : sel_worker_read_patch(&json, &worker));
    before = strdup(world_list(&b, NULL, NULL));
    assert_non_null(before);

    for (room = 0; ; room += 16) {
        assert_true(room < 16384);
        tight(&small, room);
        fault = (sel_fault_t) { SEL_FAULT_NONE, NULL };
        done = operate(o, &worker, &body, &small, &fault);

        if (!done) {
            assert_non_null(fault.text);
            assert_true(fault.class == SEL_FAULT_INTERNAL || !o->answered);
            expect_same(before);
        }

        sel_arena_free(&small);

        if (done || (!o->answered && fault.class != SEL_FAULT_INTERNAL)) {
            break;
        }
    }

    assert_true(done == o->answered);
    assert_true(room != 0);             /* it does need memory */
    free(before);
    sel_arena_free(&arena);
}


/* A request that runs out of memory anywhere is refused as a whole. */
static void
test_no_request_memory(void **state)
{
    size_t  i;

    static const operation_t  operations[] = {
        { POST, true, "{\"worker_id\":7,\"endpoint\":\"http://e\","
          "\"block_size\":16,\"data_parallel_size\":3,\"taints\":[\"t\"],"
          "\"kv_events_endpoints\":{\"0\":\"tcp://h:1\",\"1\":\"tcp://h:2\","
          "\"2\":\"tcp://h:3\"}}" },
        { POST, true, "{\"worker_id\":8,\"data_parallel_size\":20}" },
        { POST, true, "{\"worker_id\":9,\"endpoint\":\"e\","
          "\"block_size\":16,\"kv_events_endpoint\":\"tcp://h\"}" },
        { POST, true, "{\"worker_id\":10,\"endpoint\":\"e\","
          "\"block_size\":32,\"kv_events_endpoint\":\"tcp://h:1\"}" },
        { PATCH, true, "{\"data_parallel_size\":2,\"total_kv_blocks\":4,"
          "\"stable_routing_id\":\"s\"}" },
        { SELECT, true, "{\"token_ids\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,"
          "16,17],\"allowed_worker_ids\":[9,8,7],\"routing_constraints\":"
          "{\"required_taints\":[\"t\"],\"preferred_taints\":{\"t\":1}}}" },
        { SCORES, true, "{\"token_ids\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,"
          "16,17]}" },
        { SELECT, false, "{\"token_ids\":[1],\"routing_group\":\"none\"}" },
        { SELECT, false, "{\"token_ids\":[1],\"allowed_worker_ids\":[1],"
          "\"pinned_worker\":{\"worker_id\":7,\"dp_rank\":0}}" },
        { SELECT, false, "{\"block_hashes\":[1],\"sequence_hashes\":[],"
          "\"isl_tokens\":7}" },
        { DELETE, true, "{}" },
        { DELETE, false, "{}" }
    };

    a.service.settings.kv_events = true;

    for (i = 0; i < sel_countof(operations); i++) {
        starve(&operations[i]);
        world_same(&a, &b);
    }

    assert_true(state_stats(&zone).slots_used == 0);
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
