/*
 * The counters, each described once: enum, status page and documentation
 * follow from these lists.
 *
 * ZONE rows count for the service as a whole.  PROCESS rows are kept for each
 * worker process number, since every process follows all KV events by itself.
 *
 *     row(NAME, type, "metric name", "labels", "help")
 *
 * type is counter or gauge; metric names are given without the "select_"
 * prefix; rows of one metric stand together.
 */

#ifndef SEL_COUNTERS_H
#define SEL_COUNTERS_H


#define SEL_ZONE_COUNTERS(row)                                                \
    row(LOCK_WAITS, counter, "lock_waits_total", "",                          \
        "times a process had to wait for the zone's lock")                    \
    row(LOCK_WAIT_NS, counter, "lock_wait_nanoseconds_total", "",             \
        "time processes waited for the zone's lock")                          \
    row(REBUILDS, counter, "rebuilds_total", "",                              \
        "rebuilds of the zone after a process died inside its lock")          \
    row(DEATHS, counter, "process_deaths_total", "",                          \
        "worker processes that ended without saying so")                      \
    row(ZONE_FULL, counter, "zone_full_total", "",                            \
        "operations refused because the zone had no room")                    \
    row(SELECTIONS, counter, "selections_total", "",                          \
        "selections answered with a worker")                                  \
    row(SELECTIONS_COLD, counter, "selections_without_overlap_total", "",     \
        "selections whose worker held no block of the prompt")                \
    row(WARN_SILENT, counter, "warnings_total", "cause=\"silent\"",           \
        "causes for a rank to be missed that came on")                        \
    row(WARN_BLOCK_SIZE, counter, "warnings_total", "cause=\"block_size\"",   \
        "causes for a rank to be missed that came on")                        \
    row(WARN_SHARED_ENDPOINT, counter, "warnings_total",                      \
        "cause=\"shared_endpoint\"",                                          \
        "causes for a rank to be missed that came on")                        \
    row(WARN_REFUSED, counter, "warnings_total", "cause=\"refused\"",         \
        "causes for a rank to be missed that came on")                        \
    row(WARN_NEVER_MATCHED, counter, "warnings_total",                        \
        "cause=\"never_matched\"",                                            \
        "causes for a rank to be missed that came on")                        \
    row(BODY_TOO_LARGE, counter, "requests_refused_total",                    \
        "reason=\"body_size\"", "requests refused before any operation")      \
    row(BODY_MEDIA_TYPE, counter, "requests_refused_total",                   \
        "reason=\"media_type\"", "requests refused before any operation")     \
    row(BODY_SYNTAX, counter, "requests_refused_total",                       \
        "reason=\"syntax\"", "requests refused before any operation")         \
    row(BODY_DATA, counter, "requests_refused_total",                         \
        "reason=\"data\"", "requests refused before any operation")


#define SEL_COUNTER_ROW(name, type, metric, labels, help)  SEL_COUNT_##name,
typedef enum {
    SEL_ZONE_COUNTERS(SEL_COUNTER_ROW)
    SEL_COUNTERS
} sel_counter_t;
#undef SEL_COUNTER_ROW


/* u64 values a process can keep in the zone, see sel_meter_attach() */
#define SEL_METER_VALUES  96


#endif /* SEL_COUNTERS_H */
