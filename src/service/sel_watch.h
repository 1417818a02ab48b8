/*
 * What makes the ranks' caches be missed without anybody noticing, told.
 *
 * Each process watches by itself.  A warning that comes on is set in the
 * rank's slot in the zone, so that it is told and counted once for the
 * service, whoever notices it first; it goes again when any process sees its
 * end.
 */

#ifndef SEL_WATCH_H
#define SEL_WATCH_H

#include "service/sel_service.h"


/* look-ups without a hit before a rank's blocks are thought to be of no use */
#define SEL_WATCH_QUERIES  100


/*
 * What GET /workers?diagnostics=1 names, see sel_watch_warnings().
 * row(NAME, "name")
 */
#define SEL_WARNINGS(row)                                                     \
    row(SILENT, "silent")                                                     \
    row(BLOCK_SIZE, "block_size")                                             \
    row(SHARED_ENDPOINT, "shared_endpoint")                                   \
    row(REFUSED, "refused")                                                   \
    row(NEVER_MATCHED, "never_matched")


#define SEL_WARNING_ROW(name, label)  SEL_WARNING_##name,
typedef enum {
    SEL_WARNINGS(SEL_WARNING_ROW)
    SEL_WARNING_NAMES
} sel_warning_t;
#undef SEL_WARNING_ROW


/*
 * A message of the rank's endpoint has had counts[SEL_KV_COUNTS] of effects.
 * now: sel_clock_ns().
 */
void sel_watch_message(sel_service_t *service, sel_view_rank_t *rank,
    uint64_t now, const uint64_t *counts);

/* Looks after a rank, about once a second. */
void sel_watch_look(sel_service_t *service, sel_view_rank_t *rank,
    uint64_t now);

/* The rank's first block is about to be stored. */
void sel_watch_stored(const sel_service_t *service, sel_view_rank_t *rank);

/*
 * Look-ups of the rank's partition since its first stored block, and how many
 * of them found a block of it.
 */
void sel_watch_use(const sel_service_t *service, const sel_view_rank_t *rank,
    uint64_t *queries, uint64_t *matched);

/* The warnings that are on, in any process: bits 1 << SEL_WARNING_*. */
uint32_t sel_watch_warnings(const sel_service_t *service,
    const sel_view_rank_t *rank);


#endif /* SEL_WATCH_H */
