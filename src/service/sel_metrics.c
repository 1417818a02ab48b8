/*
 * Rows of one metric stand together in their list; the first of them prints
 * the metric's HELP and TYPE lines.
 */

#include <stdlib.h>
#include "service/sel_metrics.h"


typedef struct {
    const char  *type;
    const char  *metric;
    const char  *labels;
    const char  *help;
} sel_metric_t;


typedef struct {
    uint32_t  number;
    uint64_t  values[SEL_METER_VALUES];
} sel_metrics_process_t;


static void sel_metrics_zone(sel_service_t *service, sel_buf_t *buf);
static void sel_metrics_catalog(sel_service_t *service, sel_buf_t *buf);
static bool sel_metrics_processes(sel_service_t *service, sel_buf_t *buf);
static void sel_metrics_head(sel_buf_t *buf, const sel_metric_t *metrics,
    uint32_t i);
static void sel_metrics_gauge(sel_buf_t *buf, const char *metric,
    const char *help, uint64_t value);


#define SEL_METRIC_ZONE(name, type, metric, labels, help)                     \
    { #type, metric, labels, help },

static const sel_metric_t  sel_metrics_counters[] = {
    SEL_ZONE_COUNTERS(SEL_METRIC_ZONE)
};


#define SEL_METRIC_APPLIED(name, label, help)                                 \
    { "counter", "kv_events_total", "kind=\"" label "\"",                     \
      "KV events that were applied" },

#define SEL_METRIC_REFUSED(name, label, help)                                 \
    { "counter", "kv_events_refused_total", "reason=\"" label "\"",           \
      "KV events that were refused, wholly or in part" },

#define SEL_METRIC_MESSAGE(name, label, help)                                 \
    { "counter", "kv_messages_total", "kind=\"" label "\"",                   \
      "messages of the KV event streams" },

#define SEL_METRIC_GAUGE(name, metric, labels, help)                          \
    { "gauge", metric, labels, help },

/* in the order of a process's values */

static const sel_metric_t  sel_metrics_values[] = {
    SEL_KV_APPLIED(SEL_METRIC_APPLIED)
    SEL_KV_REFUSED(SEL_METRIC_REFUSED)
    SEL_KV_MESSAGES(SEL_METRIC_MESSAGE)
    SEL_PROCESS_GAUGES(SEL_METRIC_GAUGE)
};

_Static_assert(sel_countof(sel_metrics_values) == SEL_PROCESS_VALUES,
               "a metric for each value of a process");


void
sel_metrics_add(_Atomic uint64_t *values, uint64_t *counts)
{
    uint32_t  i;

    for (i = 0; i < SEL_KV_COUNTS; i++) {
        if (counts[i] != 0) {
            atomic_fetch_add_explicit(&values[i], counts[i],
                                      memory_order_relaxed);
            counts[i] = 0;
        }
    }
}


void
sel_metrics_index(_Atomic uint64_t *values, const sel_service_t *service)
{
    uint32_t           i;
    uint64_t           blocks;
    sel_index_stats_t  stats;

    blocks = 0;
    sel_index_stats(service->index, &stats);

    for (i = 0; i < SEL_TIERS; i++) {
        values[SEL_GAUGE_INDEX_DEVICE + i] = stats.blocks[i];
        blocks += stats.blocks[i];
    }

    if (service->learn.recent != NULL) {
        stats.bytes += sel_recent_bytes(service->learn.recent);
    }

    values[SEL_GAUGE_INDEX_BLOCKS] = blocks;
    values[SEL_GAUGE_INDEX_NODES] = stats.nodes;
    values[SEL_GAUGE_INDEX_RANKS] = stats.owners - stats.retired;
    values[SEL_GAUGE_INDEX_RETIRED] = stats.retired;
    values[SEL_GAUGE_INDEX_BYTES] = stats.bytes;
}


void
sel_metrics_gone(_Atomic uint64_t *values)
{
    uint32_t  i;

    for (i = SEL_KV_COUNTS; i < SEL_PROCESS_VALUES; i++) {
        values[i] = 0;
    }
}


bool
sel_metrics_print(sel_service_t *service, sel_buf_t *buf)
{
    if (!sel_view_refresh(&service->view)) {
        return false;
    }

    sel_metrics_catalog(service, buf);
    sel_metrics_zone(service, buf);

    return sel_metrics_processes(service, buf) && !buf->failed;
}


static void
sel_metrics_catalog(sel_service_t *service, sel_buf_t *buf)
{
    sel_zone_stats_t   stats;
    const sel_view_t  *view;

    view = &service->view;

    sel_buf_printf(buf, "# HELP select_workers registered workers by "
                   "lifecycle\n# TYPE select_workers gauge\n"
                   "select_workers{lifecycle=\"schedulable\"} %u\n"
                   "select_workers{lifecycle=\"incomplete\"} %u\n",
                   view->n_schedulable,
                   view->n_workers - view->n_schedulable);

    sel_zone_stats(service->zone, &stats);

    sel_metrics_gauge(buf, "partitions", "partitions that exist",
                      stats.partitions);
    sel_metrics_gauge(buf, "reservations", "live bookings", stats.bookings);
    sel_metrics_gauge(buf, "reservation_edges",
                      "runs of blocks that the same bookings share",
                      stats.edges);
    sel_metrics_gauge(buf, "pending_selections",
                      "selections kept for their reservation", stats.pending);
    sel_metrics_gauge(buf, "pending_chunks",
                      "chunks of the zone that they take",
                      stats.pending_chunks);
    sel_metrics_gauge(buf, "sessions", "sessions bound to a rank",
                      stats.sessions);
    sel_metrics_gauge(buf, "catalog_version", "version of the catalog",
                      stats.catalog_version);
    sel_metrics_gauge(buf, "zone_chunks_used",
                      "chunks of the zone that hold records",
                      stats.chunks - stats.chunks_free);
    sel_metrics_gauge(buf, "zone_chunks_free",
                      "chunks of the zone that are free", stats.chunks_free);
    sel_metrics_gauge(buf, "zone_slots_used", "rank slots in use",
                      stats.slots_used);
    sel_metrics_gauge(buf, "zone_slots_free", "rank slots that are free",
                      stats.slots - stats.slots_used);
}


static void
sel_metrics_zone(sel_service_t *service, sel_buf_t *buf)
{
    uint32_t             i;
    const sel_metric_t  *m;

    for (i = 0; i < SEL_COUNTERS; i++) {
        m = &sel_metrics_counters[i];

        sel_metrics_head(buf, sel_metrics_counters, i);
        sel_buf_printf(buf, *m->labels ? "select_%s{%s} %llu\n"
                                       : "select_%s%s %llu\n",
                       m->metric, m->labels,
                       (unsigned long long) sel_counted(service->zone, i));
    }
}


static bool
sel_metrics_processes(sel_service_t *service, sel_buf_t *buf)
{
    uint32_t                 i, j, n;
    const sel_metric_t      *m;
    sel_metrics_process_t   *processes;

    processes = malloc(SEL_ZONE_PROCS * sizeof(*processes));

    if (processes == NULL) {
        return false;
    }

    for (i = 0, n = 0; i < SEL_ZONE_PROCS; i++) {
        processes[n].number = i;
        n += sel_meter_read(service->zone, i, processes[n].values);
    }

    for (i = 0; i < SEL_PROCESS_VALUES; i++) {
        m = &sel_metrics_values[i];
        sel_metrics_head(buf, sel_metrics_values, i);

        for (j = 0; j < n; j++) {
            sel_buf_printf(buf, "select_%s{process=\"%u\"%s%s} %llu\n",
                           m->metric, processes[j].number,
                           *m->labels ? "," : "", m->labels,
                           (unsigned long long) processes[j].values[i]);
        }
    }

    free(processes);

    return true;
}


static void
sel_metrics_head(sel_buf_t *buf, const sel_metric_t *metrics, uint32_t i)
{
    if (i > 0 && strcmp(metrics[i - 1].metric, metrics[i].metric) == 0) {
        return;
    }

    sel_buf_printf(buf, "# HELP select_%s %s\n# TYPE select_%s %s\n",
                   metrics[i].metric, metrics[i].help, metrics[i].metric,
                   metrics[i].type);
}


static void
sel_metrics_gauge(sel_buf_t *buf, const char *metric, const char *help,
    uint64_t value)
{
    sel_buf_printf(buf, "# HELP select_%s %s\n# TYPE select_%s gauge\n"
                   "select_%s %llu\n", metric, help, metric, metric,
                   (unsigned long long) value);
}
