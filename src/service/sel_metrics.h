/*
 * Counters and gauges of a process, and the status page.
 *
 * A process keeps its values in the zone, so that any process can print those
 * of all: first what happened to KV events, then the gauges below.
 */

#ifndef SEL_METRICS_H
#define SEL_METRICS_H

#include "kv_events/sel_kv_counts.h"
#include "service/sel_service.h"


/* row(NAME, "metric name", "labels", "help") */

#define SEL_PROCESS_GAUGES(row)                                               \
    row(LISTENERS_PENDING, "kv_listeners", "state=\"pending\"",               \
        "event listeners by state")                                           \
    row(LISTENERS_ACTIVE, "kv_listeners", "state=\"active\"",                 \
        "event listeners by state")                                           \
    row(LISTENERS_FAILED, "kv_listeners", "state=\"failed\"",                 \
        "event listeners by state")                                           \
    row(INDEX_BLOCKS, "index_blocks", "",                                     \
        "blocks that ranks hold, each rank's counted")                        \
    row(INDEX_DEVICE, "index_tier_blocks", "tier=\"device\"",                 \
        "blocks that ranks hold, by tier")                                    \
    row(INDEX_HOST_PINNED, "index_tier_blocks", "tier=\"host_pinned\"",       \
        "blocks that ranks hold, by tier")                                    \
    row(INDEX_DISK, "index_tier_blocks", "tier=\"disk\"",                     \
        "blocks that ranks hold, by tier")                                    \
    row(INDEX_EXTERNAL, "index_tier_blocks", "tier=\"external\"",             \
        "blocks that ranks hold, by tier")                                    \
    row(INDEX_NODES, "index_nodes", "",                                       \
        "distinct blocks in the index")                                       \
    row(INDEX_RANKS, "index_ranks", "", "ranks in the index")                 \
    row(INDEX_RETIRED, "index_ranks_retired", "",                             \
        "ranks that left and whose blocks are not swept yet")                 \
    row(INDEX_BYTES, "index_bytes", "", "memory of the index")


#define SEL_GAUGE_ROW(name, metric, labels, help)  SEL_GAUGE_##name,
typedef enum {
    SEL_GAUGE_FIRST = SEL_KV_COUNTS - 1,
    SEL_PROCESS_GAUGES(SEL_GAUGE_ROW)
    SEL_PROCESS_VALUES
} sel_gauge_t;
#undef SEL_GAUGE_ROW

_Static_assert(SEL_PROCESS_VALUES <= SEL_METER_VALUES, "values of a process");


/* Adds counts[SEL_KV_COUNTS] to the process's values and zeroes them. */
void sel_metrics_add(_Atomic uint64_t *values, uint64_t *counts);

/* Sets the index gauges. */
void sel_metrics_index(_Atomic uint64_t *values,
    const sel_service_t *service);

/* Zeroes all gauges: the process ends. */
void sel_metrics_gone(_Atomic uint64_t *values);

/*
 * Prints everything in Prometheus' text format.  False when memory is
 * exhausted.
 */
bool sel_metrics_print(sel_service_t *service, sel_buf_t *buf);


#endif /* SEL_METRICS_H */
