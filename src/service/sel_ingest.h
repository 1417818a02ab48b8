/*
 * From a rank's event feed into the index.
 */

#ifndef SEL_INGEST_H
#define SEL_INGEST_H

#include "kv_events/sel_kv_feed.h"
#include "service/sel_service.h"


/* ranks of one worker that only its events name; more are refused */
#define SEL_MAX_FOREIGN_RANKS  256


typedef struct {
    sel_service_t    *service;
    sel_view_rank_t  *rank;
} sel_ingest_t;


/* A sink for the feed of a registered rank; the rank must outlive its use. */
sel_kv_sink_t sel_ingest_sink(sel_ingest_t *ingest);


#endif /* SEL_INGEST_H */
