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
    row(DECISIONS_LOST, counter, "decisions_lost_bytes_total", "",            \
        "bytes of the decision log overwritten before a process read them")   \
    row(DECISIONS_REFUSED, counter, "decisions_refused_total", "",            \
        "decisions that a process's index had no room for")                   \
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
    row(BOOKED, counter, "bookings_total", "",                                \
        "bookings made")                                                      \
    row(BOOKING_FREED, counter, "bookings_ended_total", "cause=\"freed\"",    \
        "bookings that ended")                                                \
    row(BOOKING_EXPIRED, counter, "bookings_ended_total",                     \
        "cause=\"expired\"", "bookings that ended")                           \
    row(BOOKING_RANK_GONE, counter, "bookings_ended_total",                   \
        "cause=\"rank_gone\"", "bookings that ended")                         \
    row(BOOKING_OWNER_DIED, counter, "bookings_ended_total",                  \
        "cause=\"owner_died\"", "bookings that ended")                        \
    row(BOOKING_NO_ROOM, counter, "bookings_ended_total",                     \
        "cause=\"no_room\"", "bookings that ended")                           \
    row(PENDING_KEPT, counter, "pending_kept_total", "",                      \
        "selections kept for their reservation")                              \
    row(PENDING_AGED, counter, "pending_dropped_total", "cause=\"age\"",      \
        "kept selections dropped before they were used")                      \
    row(PENDING_LIMITED, counter, "pending_dropped_total",                    \
        "cause=\"limits\"", "kept selections dropped before they were used")  \
    row(PENDING_NO_ROOM, counter, "pending_dropped_total",                    \
        "cause=\"no_room\"", "kept selections dropped before they were used") \
    row(SESSION_BOUND, counter, "sessions_bound_total", "",                   \
        "bindings of sessions to ranks made")                                 \
    row(SESSION_UNBOUND, counter, "sessions_unbound_total", "",               \
        "bookings whose session was not bound for want of room")              \
    row(SESSION_IDLE, counter, "sessions_ended_total", "cause=\"idle\"",      \
        "bindings that ended")                                                \
    row(SESSION_RANK_GONE, counter, "sessions_ended_total",                   \
        "cause=\"rank_gone\"", "bindings that ended")                         \
    row(SESSION_MOVED, counter, "sessions_ended_total", "cause=\"moved\"",    \
        "bindings that ended")                                                \
    row(SESSION_REFUSED, counter, "sessions_ended_total",                     \
        "cause=\"refused\"", "bindings that ended")                           \
    row(SESSION_FAILED, counter, "sessions_ended_total", "cause=\"failed\"",  \
        "bindings that ended")                                                \
    row(SESSION_NO_ROOM, counter, "sessions_ended_total",                     \
        "cause=\"no_room\"", "bindings that ended")                           \
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
