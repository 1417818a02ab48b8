/*
 * The service as one process runs it: zone, index, view and settings, and the
 * operations on them.  No HTTP and no I/O.
 */

#ifndef SEL_SERVICE_H
#define SEL_SERVICE_H

#include "core/sel_random.h"
#include "index/sel_recent.h"
#include "service/sel_fault.h"
#include "service/sel_settings.h"
#include "service/sel_sources.h"
#include "service/sel_view.h"
#include "state/sel_books.h"
#include "state/sel_proc.h"


/*
 * What a look-up and a selection write to, kept from one to the next; grows
 * only.
 */
typedef struct {
    uint32_t            n_matches;
    uint32_t            n_candidates;
    sel_index_match_t  *matches;
    sel_index_match_t  *side;           /* what decisions say */
    uint32_t           *found;          /* by owner: its match's number + 1,
                                           0: none */
    uint64_t           *matched;        /* by owner: look-ups with a match */
    sel_candidate_t    *candidates;
    sel_view_rank_t   **ranks;          /* of the candidates */
    sel_rank_load_t    *loads;          /* of the candidates */
} sel_scratch_t;


/* What was chosen for a request. */
typedef struct {
    uint64_t  worker_id;
    uint32_t  dp_rank;
    uint32_t  epoch;
    uint16_t  slot;
    uint32_t  block_size;               /* tokens */
    uint32_t  ranks;                    /* that its partition has */
    uint32_t  device_blocks;            /* of the prompt, on the device */
    uint64_t  overlap_tokens;           /* with host memory and disk */
    uint64_t  prefill_tokens;           /* effective */
    bool      by_session;               /* its session was bound to the rank */
    sel_str_t id;                       /* of the booking or selection; data
                                           NULL: none */
    sel_str_t endpoint;                 /* in the arena of the request, as
                                           the id */
} sel_choice_t;


/* How far the index has learned from bookings. */
typedef struct {
    sel_recent_t
             *recent;           /* the host's; NULL: nothing is learned */
    uint64_t  at;               /* place in the log of decisions */
    uint64_t  told;             /* quarter of the log told of last */
    size_t    size;
    void     *buffer;
} sel_learn_t;


typedef struct {
    sel_zone_t       *zone;
    sel_index_t      *index;
    sel_view_t        view;
    sel_settings_t    settings;
    sel_random_t      random;
    sel_scratch_t     scratch;
    sel_sources_t     sources;
    sel_learn_t       learn;
    uint32_t          proc;         /* entry in the process table */
    sel_choice_t      choice;       /* the last one; data of its endpoint is
                                       NULL if the last operation made none */

    /* tells the other processes that the catalog has changed, or that there
       is much to learn */
    void            (*changed)(void *data);

    /* logs what was noticed of a rank, see sel_watch.h */
    void            (*warned)(void *data, const sel_view_rank_t *rank,
                        const char *text);
    void             *data;
} sel_service_t;


/* how messages name a partition */
#define SEL_PARTITION_FORMAT  "model=%.*s routing_group=%.*s"
#define sel_partition_arg(key)                                                \
    sel_str_arg((key)->model_name), sel_str_arg((key)->routing_group)


/* Are bookings recorded, for an index that learns from decisions? */
static inline bool
sel_service_records(const sel_service_t *service)
{
    return service->settings.learn_ttl != 0;
}

/* Frees scratch memory and sources; zone, index and view are the host's. */
void sel_service_free(sel_service_t *service);


/* Workers.  Each answers with the record as JSON, in the arena. */

bool sel_worker_register(sel_service_t *service, sel_arena_t *arena,
    const sel_worker_t *worker, sel_str_t *json, sel_fault_t *fault);

bool sel_worker_update(sel_service_t *service, sel_arena_t *arena,
    uint64_t worker_id, const sel_worker_t *patch, sel_str_t *json,
    sel_fault_t *fault);

bool sel_worker_delete(sel_service_t *service, sel_arena_t *arena,
    uint64_t worker_id, sel_str_t *json, sel_fault_t *fault);

/* Which workers to list, and how. */
typedef struct {
    sel_str_t  model_name;      /* data NULL: any */
    sel_str_t  routing_group;
    bool       diagnostics;     /* see sel_diagnostics.h */
} sel_worker_filter_t;

/* Prints the workers that match, as an array. */
bool sel_worker_list(sel_service_t *service,
    const sel_worker_filter_t *filter, sel_buf_t *buf, sel_fault_t *fault);

/* Prints the body of GET /ready; *ready tells whether it is. */
bool sel_service_ready(sel_service_t *service, sel_buf_t *buf, bool *ready,
    sel_fault_t *fault);


/*
 * The partition for a request: up to date, with a schedulable worker; else a
 * fault.
 */
sel_view_partition_t *sel_service_partition(sel_service_t *service,
    sel_arena_t *arena, sel_str_t model_name, sel_str_t routing_group,
    sel_fault_t *fault);


#endif /* SEL_SERVICE_H */
