/*
 * The status page.  Without it a counter could stand under another's name,
 * twice, or not at all, and a scraper could refuse the whole page.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>

#include "state_test.h"
#include "service_world.h"
#include "service/sel_metrics.h"


#define MAX_SAMPLES  2000
#define MAX_METRICS  100


typedef struct {
    char      name[128];        /* with its labels, as printed */
    uint64_t  value;
} sample_t;


static sel_zone_t  zone;
static world_t     a;
static char       *page;
static sample_t    samples[MAX_SAMPLES];
static uint32_t    n_samples;
static char        metrics[MAX_METRICS][128];
static uint32_t    n_metrics;


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


/* name or name{label="value",...}; its length without the labels */
static size_t
check_name(const char *name)
{
    size_t       len;
    const char  *p;

    len = strspn(name, "abcdefghijklmnopqrstuvwxyz_");
    assert_int_equal(strncmp(name, "select_", 7), 0);
    p = &name[len];

    if (*p == '\0') {
        return len;
    }

    do {
        p++;                                    /* { or , */
        assert_true(islower((unsigned char) *p));
        p += strspn(p, "abcdefghijklmnopqrstuvwxyz_");
        assert_int_equal(strncmp(p, "=\"", 2), 0);
        p += 2;
        p += strspn(p, "abcdefghijklmnopqrstuvwxyz_0123456789");
        assert_true(*p == '"');
        p++;
    } while (*p == ',');

    assert_string_equal(p, "}");

    return len;
}


/* One sample of the metric that HELP and TYPE have just introduced. */
static void
parse_sample(char *line)
{
    char      *space, *rest;
    size_t     len;
    uint32_t   i;
    sample_t  *sample;

    space = strrchr(line, ' ');
    assert_non_null(space);
    *space = '\0';
    len = check_name(line);
    assert_true(n_metrics != 0);
    assert_int_equal(len, strlen(metrics[n_metrics - 1]));
    assert_int_equal(strncmp(line, metrics[n_metrics - 1], len), 0);

    for (i = 0; i < n_samples; i++) {
        if (strcmp(samples[i].name, line) == 0) {
            fail_msg("%s stands twice", line);
        }
    }

    assert_true(n_samples < MAX_SAMPLES);
    sample = &samples[n_samples++];
    assert_true(strlen(line) < sizeof(sample->name));
    (void) strcpy(sample->name, line);
    assert_true(isdigit((unsigned char) space[1]));
    sample->value = strtoull(space + 1, &rest, 10);
    assert_string_equal(rest, "");
}


static void
parse_help(char *line)
{
    char      *text;
    uint32_t   i;

    text = strchr(line, ' ');
    assert_non_null(text);
    *text++ = '\0';
    assert_true(strlen(text) > 3);
    assert_int_equal(check_name(line), strlen(line));

    for (i = 0; i < n_metrics; i++) {
        if (strcmp(metrics[i], line) == 0) {
            fail_msg("%s is described twice", line);
        }
    }

    assert_true(n_metrics < MAX_METRICS);
    (void) snprintf(metrics[n_metrics++], sizeof(metrics[0]), "%s", line);
}


static void
parse_type(char *line)
{
    size_t       len;
    const char  *name;

    assert_true(n_metrics != 0);
    name = metrics[n_metrics - 1];
    len = strlen(name);
    assert_int_equal(strncmp(line, name, len), 0);

    /* what is named a total is a counter, all else can fall */
    assert_string_equal(&line[len], len > 6
                        && strcmp(&name[len - 6], "_total") == 0
                        ? " counter" : " gauge");
}


/* Prints the page and takes it apart. */
static void
parse(void)
{
    bool       typed;
    char      *line, *next;
    sel_buf_t  buf;

    sel_buf_init(&buf);
    assert_true(sel_metrics_print(&a.service, &buf));
    assert_false(buf.failed);
    assert_true(buf.len != 0 && buf.data[buf.len - 1] == '\n');
    assert_null(memchr(buf.data, 0, buf.len));
    sel_buf_byte(&buf, 0);
    free(page);
    page = strdup((char *) buf.data);
    assert_non_null(page);
    n_samples = n_metrics = 0;
    typed = true;

    for (line = (char *) buf.data; *line != '\0'; line = next) {
        next = strchr(line, '\n');
        assert_non_null(next);
        *next++ = '\0';

        if (strncmp(line, "# HELP ", 7) == 0) {
            assert_true(typed);
            typed = false;
            parse_help(line + 7);

        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            assert_false(typed);
            typed = true;
            parse_type(line + 7);

        } else {
            assert_true(typed);
            parse_sample(line);
        }
    }

    sel_buf_free(&buf);
}


static void
expect(uint64_t value, const char *format, ...)
{
    char      name[160];
    va_list   args;
    uint32_t  i;

    va_start(args, format);
    (void) vsnprintf(name, sizeof(name), format, args);
    va_end(args);

    for (i = 0; i < n_samples; i++) {
        if (strcmp(samples[i].name, name) == 0) {
            break;
        }
    }

    if (i == n_samples) {
        fail_msg("there is no %s", name);
    }

    if (samples[i].value != value) {
        fail_msg("%s is %" PRIu64 ", expected %" PRIu64, name,
                 samples[i].value, value);
    }
}


static void
test_empty(void **state)
{
    parse();
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

    parse();
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
    parse();
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
    parse();
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

    parse();

    for (k = 0; k < sel_countof(numbers); k++) {
        number = numbers[k];
        SEL_KV_APPLIED(APPLIED)
        SEL_KV_REFUSED(REFUSED)
        SEL_KV_MESSAGES(MESSAGES)
        SEL_PROCESS_GAUGES(GAUGE)
    }

    /* no other processes, no other values */
    assert_null(strstr(page, "process=\"1\""));
    assert_int_equal(n_samples, 8 + SEL_COUNTERS
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

    sel_metrics_index(values, a.service.index);
    parse();
    expect(22, "select_index_blocks{process=\"5\"}");
    expect(12, "select_index_nodes{process=\"5\"}");
    expect(2, "select_index_ranks{process=\"5\"}");
    expect(1, "select_index_ranks_retired{process=\"5\"}");
    expect(stats.bytes, "select_index_bytes{process=\"5\"}");
    expect(0, "select_kv_listeners{process=\"5\",state=\"active\"}");

    /* gauges are set, not added */
    sel_metrics_index(values, a.service.index);
    parse();
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
    parse();
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
