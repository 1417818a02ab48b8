/*
 * The status page.  Without it a counter could stand under another's name,
 * twice, or not at all, and a scraper could refuse the whole page.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "metrics_page.h"
#include "state_test.h"
#include "service_expect.h"


static sel_zone_t  zone;
static world_t     a;


static int
begin(void **state)
{
    state_private(&zone, STATE_SIZE);
    world_init(&a, &zone, 0, false);
    page = NULL;

    return 0;
}


static int
end(void **state)
{
    free(page);
    world_free(&a);
    state_private_free(&zone);

    return 0;
}


static void
test_empty(void **state)
{
    parse(&a.service);
    expect(0, "select_workers{lifecycle=\"schedulable\"}");
    expect(0, "select_workers{lifecycle=\"incomplete\"}");
    expect(0, "select_partitions");
    expect(0, "select_catalog_version");
    expect(0, "select_zone_slots_used");
    expect(zone.n_slots, "select_zone_slots_free");
}


static void
test_catalog(void **state)
{
    sel_zone_stats_t  stats;

    assert_true(world_post(&a, "{\"worker_id\":1,\"endpoint\":\"e\","
                           "\"block_size\":16,\"data_parallel_size\":3}"));
    assert_true(world_post(&a, "{\"worker_id\":2,\"endpoint\":\"e\","
                           "\"block_size\":16,\"routing_group\":\"g\"}"));
    assert_true(world_post(&a, "{\"worker_id\":3}"));
    assert_true(world_post(&a, "{\"worker_id\":4}"));
    assert_true(world_delete(&a, 4));
    stats = state_stats(&zone);

    parse(&a.service);
    expect(2, "select_workers{lifecycle=\"schedulable\"}");
    expect(1, "select_workers{lifecycle=\"incomplete\"}");
    expect(2, "select_partitions");
    expect(5, "select_catalog_version");
    expect(4, "select_zone_slots_used");
    expect(zone.n_slots - 4, "select_zone_slots_free");
    expect(stats.chunks_free, "select_zone_chunks_free");
    expect(stats.chunks - stats.chunks_free, "select_zone_chunks_used");

    /* another process says the same, whether it has looked or not */
    world_free(&a);
    world_init(&a, &zone, 1, false);
    parse(&a.service);
    expect(2, "select_workers{lifecycle=\"schedulable\"}");
    expect(1, "select_workers{lifecycle=\"incomplete\"}");
}


#define SAMPLE(metric, labels)                                                \
    "select_" metric "%s%s%s", *(labels) ? "{" : "", labels,                  \
    *(labels) ? "}" : ""

#define ADD(name, type, metric, labels, help)                                 \
    sel_count(&zone, SEL_COUNT_##name, UINT64_C(1) << 40 | SEL_COUNT_##name);

#define EXPECT(name, type, metric, labels, help)                              \
    if (SEL_COUNT_##name > SEL_COUNT_LOCK_WAIT_NS) {                          \
        expect(UINT64_C(1) << 40 | SEL_COUNT_##name, SAMPLE(metric, labels)); \
    }


static void
test_zone_counters(void **state)
{
    SEL_ZONE_COUNTERS(ADD)
    parse(&a.service);
    SEL_ZONE_COUNTERS(EXPECT)
}


/* row i of the process with this number */
#define VALUE(number, i)  (UINT64_C(1000000) * ((number) + 1) + (i))

#define APPLIED(name, label, help)                                            \
    expect(VALUE(number, SEL_KV_##name),                                      \
           "select_kv_events_total{process=\"%u\",kind=\"%s\"}", number,      \
           label);

#define REFUSED(name, label, help)                                            \
    expect(VALUE(number, SEL_KV_##name),                                      \
           "select_kv_events_refused_total{process=\"%u\",reason=\"%s\"}",    \
           number, label);

#define MESSAGES(name, label, help)                                           \
    expect(VALUE(number, SEL_KV_##name),                                      \
           "select_kv_messages_total{process=\"%u\",kind=\"%s\"}", number,    \
           label);

#define GAUGE(name, metric, labels, help)                                     \
    expect(VALUE(number, SEL_GAUGE_##name), "select_" metric                  \
           "{process=\"%u\"%s%s}", number, *(labels) ? "," : "", labels);


static void
test_process_values(void **state)
{
    uint32_t           i, k, number;
    uint64_t           counts[SEL_KV_COUNTS];
    _Atomic uint64_t  *values;

    static const uint32_t  numbers[] = { 0, 3, 17, SEL_ZONE_PROCS - 1 };

    for (k = 0; k < sel_countof(numbers); k++) {
        number = numbers[k];
        values = sel_meter_attach(&zone, number);
        assert_non_null(values);

        /* in two portions */
        for (i = 0; i < SEL_KV_COUNTS; i++) {
            counts[i] = VALUE(number, i) - 5;
        }

        sel_metrics_add(values, counts);

        for (i = 0; i < SEL_KV_COUNTS; i++) {
            assert_true(counts[i] == 0);
            counts[i] = 5;
        }

        sel_metrics_add(values, counts);

        for (i = SEL_GAUGE_FIRST + 1; i < SEL_PROCESS_VALUES; i++) {
            atomic_store(&values[i], VALUE(number, i));
        }
    }

    parse(&a.service);

    for (k = 0; k < sel_countof(numbers); k++) {
        number = numbers[k];
        SEL_KV_APPLIED(APPLIED)
        SEL_KV_REFUSED(REFUSED)
        SEL_KV_MESSAGES(MESSAGES)
        SEL_PROCESS_GAUGES(GAUGE)
    }

    /* no other processes, no other values */
    assert_null(strstr(page, "process=\"1\""));
    assert_int_equal(n_samples, 13 + SEL_COUNTERS
                     + sel_countof(numbers) * SEL_PROCESS_VALUES);
}


static void
test_index_gauges(void **state)
{
    sel_index_stats_t  stats;
    _Atomic uint64_t  *values;

    values = sel_meter_attach(&zone, 5);
    assert_non_null(values);
    assert_true(world_post(&a, "{\"worker_id\":7,\"endpoint\":\"e\","
                           "\"block_size\":16,\"data_parallel_size\":3}"));
    world_refresh(&a);
    assert_int_equal(world_store(&a, 7, 0, 0, 1, 10), SEL_INDEX_OK);
    assert_int_equal(world_store(&a, 7, 1, 1, 1, 12), SEL_INDEX_OK);
    assert_true(world_patch(&a, 7, "{\"data_parallel_size\":2}"));
    world_refresh(&a);
    sel_index_stats(a.service.index, &stats);

    sel_metrics_index(values, &a.service);
    parse(&a.service);
    expect(22, "select_index_blocks{process=\"5\"}");
    expect(12, "select_index_nodes{process=\"5\"}");
    expect(2, "select_index_ranks{process=\"5\"}");
    expect(1, "select_index_ranks_retired{process=\"5\"}");
    expect(stats.bytes, "select_index_bytes{process=\"5\"}");
    expect(0, "select_kv_listeners{process=\"5\",state=\"active\"}");

    /* gauges are set, not added */
    sel_metrics_index(values, &a.service);
    parse(&a.service);
    expect(22, "select_index_blocks{process=\"5\"}");
}


/* The documentation names every metric, and no other. */
static void
test_documented(void **state)
{
    char      line[1024], *p, *q;
    bool      seen[MAX_METRICS];
    FILE     *file;
    uint32_t  i;

    assert_non_null(sel_meter_attach(&zone, 0));
    parse(&a.service);
    memset(seen, 0, sizeof(seen));
    file = fopen("docs/metrics.md", "r");
    assert_non_null(file);

    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "| `", 3) != 0) {
            continue;
        }

        *strchr(&line[1], '|') = '\0';          /* the first column */

        for (p = strchr(line, '`'); p != NULL; p = strchr(q + 1, '`')) {
            q = strchr(p + 1, '`');
            assert_non_null(q);
            *q = '\0';

            for (i = 0; i < n_metrics; i++) {
                if (strcmp(metrics[i], p + 1) == 0) {
                    break;
                }
            }

            if (i == n_metrics) {
                fail_msg("documented, not printed: %s", p + 1);
            }

            seen[i] = true;
        }
    }

    fclose(file);

    for (i = 0; i < n_metrics; i++) {
        if (!seen[i]) {
            fail_msg("printed, not documented: %s", metrics[i]);
        }
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_empty, begin, end),
        cmocka_unit_test_setup_teardown(test_catalog, begin, end),
        cmocka_unit_test_setup_teardown(test_zone_counters, begin, end),
        cmocka_unit_test_setup_teardown(test_process_values, begin, end),
        cmocka_unit_test_setup_teardown(test_index_gauges, begin, end),
        cmocka_unit_test_setup_teardown(test_documented, begin, end)
    };

    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
