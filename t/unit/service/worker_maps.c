/*
 * Maps and sets of a worker record, ranks and their event endpoints.  Without
 * it a repeated or oddly written key would make two entries of one rank, and
 * a registration of many entries could hold the process for minutes.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "sel_rand.h"
#include "service/sel_worker.h"


#define MANY   100000


static sel_rand_t    rnd;
static sel_arena_t   arena;
static sel_buf_t     text, printed;
static sel_worker_t  worker;


static int
setup(void **state)
{
    rnd.state = sel_rand_seed("worker_maps");

    return 0;
}


static int
begin(void **state)
{
    sel_arena_init(&arena, 0);
    sel_buf_init(&text);
    sel_buf_init(&printed);

    return 0;
}


static int
end(void **state)
{
    sel_arena_free(&arena);
    sel_buf_free(&text);
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


/* The last of equal keys counts, as in a map that is filled in turn. */
static void
test_repeated_keys(void **state)
{
    uint32_t  i;

    take(sel_str("{\"worker_id\":7,\"data_parallel_size\":3,"
                 "\"kv_events_endpoints\":{\"1\":\"a\",\"0\":\"b\","
                 "\"1\":\"c\",\"2\":\"d\",\"1\":\"e\"},"
                 "\"topology_domains\":{\"z\":\"1\",\"a\":\"2\",\"\":\"3\","
                 "\"z\":\"4\",\"zz\":\"5\"},"
                 "\"taints\":[\"b\",\"a\",\"b\",\"\",\"b\",\"ab\",\"\"]}"));

    assert_int_equal(worker.kv_events_endpoints.n, 3);
    expect_endpoint(0, "b");
    expect_endpoint(1, "e");
    expect_endpoint(2, "d");
    expect_endpoint(3, "");
    expect("\"topology_domains\":{\"\":\"3\",\"a\":\"2\",\"z\":\"4\","
           "\"zz\":\"5\"}");
    expect("\"taints\":[\"\",\"a\",\"ab\",\"b\"]");
    assert_int_equal(worker.taints.n, 4);

    for (i = 1; i < worker.taints.n; i++) {
        assert_true(sel_str_cmp(worker.taints.data[i - 1],
                                worker.taints.data[i]) < 0);
    }
}


/* One rank has one entry, however its key is written. */
static void
test_odd_rank_keys(void **state)
{
    size_t      i;
    char        record[128];
    sel_json_t  json;

    static const char *const  keys[] = { "01", "+1", "0001", "00", "+0" };

    for (i = 0; i < sel_countof(keys); i++) {
        (void) snprintf(record, sizeof(record), "{\"worker_id\":7,"
                        "\"kv_events_endpoints\":{\"1\":\"a\",\"%s\":\"b\","
                        "\"0\":\"c\"},\"data_parallel_size\":2}", keys[i]);
        sel_json_init_text(&json, &arena, sel_cstr(record));

        if (!sel_worker_read(&json, &worker)) {
            assert_int_equal(json.status, SEL_JSON_DATA);
            assert_non_null(strstr(json.message, "kv_events_endpoints"));
            continue;
        }

        assert_int_equal(worker.kv_events_endpoints.n, 2);
        expect_endpoint(1, strchr(keys[i], '1') != NULL ? "b" : "a");
        expect_endpoint(0, "c");
        assert_null(strstr(print(), keys[i]));
    }

    take(sel_str("{\"worker_id\":7,\"data_parallel_start_rank\":4294967294,"
                 "\"kv_events_endpoints\":{\"4294967295\":\"a\","
                 "\"10\":\"b\",\"9\":\"c\",\"4294967294\":\"d\"}}"));
    expect_endpoint(UINT32_MAX, "a");
    expect_endpoint(10, "b");
    expect_endpoint(9, "c");
    expect_endpoint(UINT32_MAX - 1, "d");
    expect_endpoint(8, "");
    expect_endpoint(0, "");
}


static void
test_odd_texts(void **state)
{
    take(sel_str("{\"worker_id\":7,\"topology_domains\":{\"a\\u0000\":\"1\","
                 "\"a\":\"2\",\"\\u00e9\":\"\\u0000\",\"\\\"\":\"\\n\"},"
                 "\"taints\":[\"\\u0000\",\"\\u00e9\",\"\xf0\x9f\x98\x80\","
                 "\"\\ud83d\\ude00\"],\"endpoint\":\"\"}"));

    assert_int_equal(worker.topology_domains.n, 4);
    assert_int_equal(worker.taints.n, 3);
    expect("\"taints\":[\"\\u0000\",\"\xc3\xa9\",\"\xf0\x9f\x98\x80\"]");
    expect("\"a\":\"2\"");
    expect("\"a\\u0000\":\"1\"");
    expect("\"\xc3\xa9\":\"\\u0000\"");
    expect("\"\\\"\":\"\\n\"");
    expect("\"endpoint\":\"\"");
}


static void
test_event_endpoints(void **state)
{
    /* one rank, one endpoint */
    take(sel_str("{\"worker_id\":7,\"kv_events_endpoint\":\"x\"}"));
    expect_endpoint(0, "x");

    take(sel_str("{\"worker_id\":7,\"kv_events_endpoint\":\"x\","
                 "\"data_parallel_start_rank\":4,\"data_parallel_size\":1}"));
    expect_endpoint(4, "x");

    /* the single endpoint is of no use to several ranks */
    take(sel_str("{\"worker_id\":7,\"kv_events_endpoint\":\"x\","
                 "\"data_parallel_size\":2}"));
    expect_endpoint(0, "");
    expect_endpoint(1, "");

    /* a map with entries is the only source, by global rank */
    take(sel_str("{\"worker_id\":7,\"kv_events_endpoint\":\"x\","
                 "\"kv_events_endpoints\":{\"4\":\"y\"}}"));
    expect_endpoint(0, "");
    expect_endpoint(4, "y");

    take(sel_str("{\"worker_id\":7,\"kv_events_endpoint\":\"x\","
                 "\"kv_events_endpoints\":{}}"));
    expect_endpoint(0, "x");

    /* an empty text is none */
    take(sel_str("{\"worker_id\":7,\"kv_events_endpoint\":\"\"}"));
    expect_endpoint(0, "");
    take(sel_str("{\"worker_id\":7,\"kv_events_endpoint\":\"x\","
                 "\"kv_events_endpoints\":{\"0\":\"\"}}"));
    expect_endpoint(0, "");
}


/* Maps of every size, each of their ranks and the ranks between. */
static void
test_every_rank(void **state)
{
    char      expected[16];
    uint32_t  i, n;

    for (n = 1; n < 40; n++) {
        text.len = 0;
        sel_buf_text(&text, "{\"worker_id\":7,\"kv_events_endpoints\":{");

        for (i = n; i != 0; i--) {
            sel_buf_printf(&text, "%s\"%u\":\"e%u\"", i != n ? "," : "",
                           2 * i, i);
        }

        sel_buf_text(&text, "}}");
        take(sel_buf_view(&text));

        for (i = 0; i < 2 * n + 4; i++) {
            (void) snprintf(expected, sizeof(expected), "e%u", i / 2);
            expect_endpoint(i, i % 2 == 0 && i != 0 && i <= 2 * n ? expected
                                                                  : "");
        }
    }
}


static void
expect_end(uint32_t start, uint32_t size, uint32_t expected)
{
    worker.start_rank = start;
    worker.dp_size = size;
    assert_true(sel_worker_end_rank(&worker) == expected);
}


static void
test_end_rank(void **state)
{
    take(sel_str("{\"worker_id\":7}"));
    expect_end(0, 0, 0);
    expect_end(3, 2, 5);
    expect_end(UINT32_MAX - 1, 1, UINT32_MAX);
    expect_end(UINT32_MAX, 0, UINT32_MAX);
    expect_end(UINT32_MAX, 1, UINT32_MAX);
    expect_end(1, UINT32_MAX, UINT32_MAX);
    expect_end(UINT32_MAX, UINT32_MAX, UINT32_MAX);
}


/* keys of a huge record: ascending, descending, mixed, few */
static uint64_t
key_of(unsigned shape, uint32_t i)
{
    switch (shape) {
    case 0:
        return i;
    case 1:
        return MANY - i;
    case 2:
        return sel_rand_below(&rnd, UINT32_MAX);
    default:
        return i % 3;
    }
}


static void
huge(unsigned shape)
{
    uint32_t  i;
    uint64_t  key;

    sel_buf_text(&text, "{\"worker_id\":7,\"kv_events_endpoints\":{");

    for (i = 0; i < MANY; i++) {
        sel_buf_printf(&text, "%s\"%" PRIu64 "\":\"tcp://h:1\"",
                       i != 0 ? "," : "", key_of(shape, i));
    }

    sel_buf_text(&text, "},\"topology_domains\":{");

    for (i = 0; i < MANY; i++) {
        key = key_of(shape, i);
        sel_buf_printf(&text, "%s\"domain-%06" PRIu64 "\":\"v\"",
                       i != 0 ? "," : "", key);
    }

    sel_buf_text(&text, "},\"taints\":[");

    for (i = 0; i < MANY; i++) {
        key = key_of(shape, i);
        sel_buf_printf(&text, "%s\"taint-%06" PRIu64 "\"",
                       i != 0 ? "," : "", key);
    }

    sel_buf_text(&text, "]}");
    assert_false(text.failed);

    take(sel_buf_view(&text));
    (void) print();

    for (i = 0; i < MANY; i++) {
        (void) sel_worker_events_endpoint(&worker, i);
    }

    if (shape != 2) {
        assert_int_equal(worker.taints.n, shape == 3 ? 3 : MANY);
        assert_int_equal(worker.topology_domains.n, worker.taints.n);
        assert_int_equal(worker.kv_events_endpoints.n, worker.taints.n);
        expect_endpoint(1, "tcp://h:1");
    }
}


static void
test_huge(void **state)
{
    unsigned  shape;

    for (shape = 0; shape < 4; shape++) {
        (void) end(state);
        (void) begin(state);
        huge(shape);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_repeated_keys, begin, end),
        cmocka_unit_test_setup_teardown(test_odd_rank_keys, begin, end),
        cmocka_unit_test_setup_teardown(test_odd_texts, begin, end),
        cmocka_unit_test_setup_teardown(test_event_endpoints, begin, end),
        cmocka_unit_test_setup_teardown(test_every_rank, begin, end),
        cmocka_unit_test_setup_teardown(test_end_rank, begin, end),
        cmocka_unit_test_setup_teardown(test_huge, begin, end)
    };

    return cmocka_run_group_tests_name("worker_maps", tests, setup, NULL);
}
