/*
 * Bodies as large as the API takes them (8 MiB), of one kind of member each.
 * Without it a single request could hold a process for seconds or take many
 * times its size in memory.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "core/sel_buf.h"
#include "service/sel_request.h"
#include "service/sel_worker.h"


#define BODY    (8 << 20)
#define SHORT   (1 << 18)       /* of bodies that are read many times */
#define MEMORY  ((size_t) 256 << 20)


static sel_arena_t        arena;
static sel_buf_t          text;
static sel_json_t         json;
static sel_select_body_t  body;


static int
begin(void **state)
{
    sel_arena_init(&arena, MEMORY);
    sel_buf_init(&text);

    return 0;
}


static int
end(void **state)
{
    sel_arena_free(&arena);
    sel_buf_free(&text);

    return 0;
}


/* head, then element after element, each with its number, up to a size */
static uint32_t
fill_to(size_t size, const char *head, const char *element, const char *tail)
{
    uint32_t  n;

    text.len = 0;
    sel_buf_text(&text, head);

    for (n = 0; text.len < size - 256; n++) {
        sel_buf_text(&text, n != 0 ? "," : "");
        sel_buf_printf(&text, element, n);
    }

    sel_buf_text(&text, tail);
    assert_false(text.failed);
    assert_true(text.len <= size);

    return n;
}


static uint32_t
fill(const char *head, const char *element, const char *tail)
{
    return fill_to(BODY, head, element, tail);
}


static bool
read_body(void)
{
    bool  done;

    sel_json_init_text(&json, &arena, sel_buf_view(&text));
    done = sel_read_select(&json, &body) && sel_json_end(&json);

    if (!done && json.status == SEL_JSON_NO_MEMORY) {
        fail_msg("%.40s...: more than %zu bytes", (char *) text.data, MEMORY);
    }

    return done;
}


static void
test_lists(void **state)
{
    uint32_t  n;

    n = fill("{\"token_ids\":[", "%u", "]}");
    assert_true(read_body());
    assert_true(body.prompt.token_ids.n == n);
    assert_true(body.prompt.token_ids.data[n - 1] == n - 1);

    n = fill("{\"sequence_hashes\":[", "-1%u", "]}");
    assert_true(read_body());
    assert_true(body.prompt.sequence_hashes.n == n);

    n = fill("{\"allowed_worker_ids\":[", "%u", "]}");
    assert_true(read_body());
    assert_true(body.allowed_worker_ids.n == n);
}


static void
test_mm(void **state)
{
    uint32_t  n;

    n = fill("{\"block_mm_infos\":[", "{\"mm_objects\":[{\"mm_hash\":%u,"
             "\"offsets\":[[0,1]]}]}", "]}");
    assert_true(read_body());
    assert_true(body.prompt.block_mm_infos.n == n);
    assert_true(body.prompt.block_mm_infos.blocks[n - 1].hashes[0] == n - 1);
}


static void
test_mm_empty(void **state)
{
    uint32_t  n;

    n = fill("{\"block_mm_infos\":[", "{\"mm_objects\":[]}", "]}");
    assert_true(read_body());
    assert_true(body.prompt.block_mm_infos.n == n);
    assert_true(body.prompt.block_mm_infos.blocks[n - 1].n == 0);
}


static void
test_mm_of_one_block(void **state)
{
    uint32_t  n;

    n = fill("{\"block_mm_infos\":[{\"mm_objects\":[",
             "{\"mm_hash\":%u,\"offsets\":[]}", "]}]}");
    assert_true(read_body());
    assert_true(body.prompt.block_mm_infos.n == 1);
    assert_true(body.prompt.block_mm_infos.blocks[0].n == n);
}


/* Offsets and headers have no effect, so they need not take memory either. */
static void
test_mm_offsets(void **state)
{
    (void) fill("{\"block_mm_infos\":[{\"mm_objects\":[{\"mm_hash\":1,"
                "\"offsets\":[", "[0,%u]", "]}]}]}");
    assert_true(read_body());
    assert_true(body.prompt.block_mm_infos.blocks[0].n == 1);
}


static void
test_agent_headers(void **state)
{
    (void) fill("{\"session_context\":{\"session_id\":\"s\","
                "\"agent_headers\":{", "\"%u\":[\"\"]", "}}}");
    assert_true(read_body());
    assert_true(sel_str_eq(body.session.session_id, sel_str("s")));
}


static void
preferred(uint32_t n)
{
    uint32_t  i;

    text.len = 0;
    sel_buf_text(&text, "{\"routing_constraints\":{\"preferred_taints\":{");

    for (i = 0; i < n; i++) {
        sel_buf_printf(&text, "%s\"t%u\":%u", i != 0 ? "," : "", i, i);
    }

    sel_buf_text(&text, "}}}");
}


static void
required(uint32_t n)
{
    uint32_t  i;

    text.len = 0;
    sel_buf_text(&text, "{\"routing_constraints\":{\"required_taints\":[");

    for (i = 0; i < n; i++) {
        sel_buf_printf(&text, "%s\"t%u\"", i != 0 ? "," : "", i);
    }

    sel_buf_text(&text, "]}}");
}


static void
test_taints(void **state)
{
    uint32_t  i;

    preferred(SEL_MAX_TAINTS);
    assert_true(read_body());
    assert_true(body.constraints.preferred_taints.n == SEL_MAX_TAINTS);

    for (i = 0; i < SEL_MAX_TAINTS; i++) {
        assert_true(body.constraints.preferred_taints.data[i].name.len != 0);
    }

    preferred(SEL_MAX_TAINTS + 1);
    assert_false(read_body());
    assert_int_equal(json.status, SEL_JSON_DATA);
    assert_non_null(strstr(json.message, "preferred_taints"));

    /* of equal names the last weight counts */
    (void) fill_to(1024, "{\"routing_constraints\":{\"preferred_taints\":{",
                   "\"x\":%u", "}}}");
    assert_true(read_body());
    assert_true(body.constraints.preferred_taints.n == 1);

    required(SEL_MAX_TAINTS);
    assert_true(read_body());
    assert_true(body.constraints.required_taints.n == SEL_MAX_TAINTS);

    required(SEL_MAX_TAINTS + 1);
    assert_false(read_body());
    assert_int_equal(json.status, SEL_JSON_DATA);
    assert_non_null(strstr(json.message, "required_taints"));
}


/*
 * With more and more memory each of these bodies is refused for want of it,
 * until it can be read.
 */
static void
test_no_memory(void **state)
{
    bool          done, worker;
    size_t        i, max;
    sel_worker_t  record;

    static const char *const  bodies[][3] = {
        { "{\"token_ids\":[", "%u", "]}" },
        { "{\"allowed_worker_ids\":[", "%u", "]}" },
        { "{\"block_mm_infos\":[", "{\"mm_objects\":[{\"mm_hash\":%u,"
          "\"offsets\":[[0,1]]}]}", "]}" },
        { "{\"block_mm_infos\":[{\"mm_objects\":[", "{\"mm_hash\":%u,"
          "\"offsets\":[]}", "]}]}" },
        { "{\"mm_routing_info\":{\"routing_token_ids\":[],"
          "\"block_mm_infos\":[", "null,{\"mm_objects\":[{\"mm_hash\":%u,"
          "\"offsets\":[]}]}", "]}}" },
        { "{\"lora_name\":\"", "%u\\n", "\"}" },
        { "{\"worker_id\":7,\"taints\":[", "\"t%u\"", "]}" },
        { "{\"worker_id\":7,\"kv_events_endpoints\":{", "\"%u\":\"x\"",
          "}}" },
        { "{\"worker_id\":7,\"topology_domains\":{", "\"%u\":\"\\n\"",
          "}}" }
    };

    for (i = 0; i < sel_countof(bodies); i++) {
        (void) fill_to(SHORT, bodies[i][0], bodies[i][1], bodies[i][2]);
        worker = strncmp((char *) text.data, "{\"worker_id\"", 12) == 0;

        for (done = false, max = 1; !done; max += 4096 + max / 16) {
            assert_true(max < (size_t) 16 << 20);
            sel_arena_free(&arena);
            sel_arena_init(&arena, max);
            sel_json_init_text(&json, &arena, sel_buf_view(&text));
            done = worker ? sel_worker_read(&json, &record)
                          : sel_read_select(&json, &body);
            assert_int_equal(json.status, done ? SEL_JSON_OK
                                               : SEL_JSON_NO_MEMORY);
        }

        assert_true(max > 4096);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_lists, begin, end),
        cmocka_unit_test_setup_teardown(test_mm, begin, end),
        cmocka_unit_test_setup_teardown(test_mm_empty, begin, end),
        cmocka_unit_test_setup_teardown(test_mm_of_one_block, begin, end),
        cmocka_unit_test_setup_teardown(test_mm_offsets, begin, end),
        cmocka_unit_test_setup_teardown(test_agent_headers, begin, end),
        cmocka_unit_test_setup_teardown(test_taints, begin, end),
        cmocka_unit_test_setup_teardown(test_no_memory, begin, end)
    };

    return cmocka_run_group_tests_name("request_sizes", tests, NULL, NULL);
}
