/*
 * A process's private view of the catalog: the zone's records compiled into
 * what a selection needs, brought up to date whenever the catalog's version
 * has changed.  It also keeps the index in step: a rank's owner lives as long
 * as its event source stays the same.
 */

#ifndef SEL_VIEW_H
#define SEL_VIEW_H

#include "index/sel_index.h"
#include "service/sel_rank_stats.h"
#include "service/sel_worker.h"
#include "state/sel_catalog.h"


typedef struct sel_view_s            sel_view_t;
typedef struct sel_view_worker_s     sel_view_worker_t;
typedef struct sel_view_partition_s  sel_view_partition_t;
typedef struct sel_view_rank_s       sel_view_rank_t;


struct sel_view_rank_s {
    sel_view_worker_t  *worker;
    uint32_t            partition;
    uint64_t            worker_id;
    uint32_t            dp_rank;
    uint32_t            epoch;
    uint32_t            feed;
    uint16_t            slot;
    uint16_t            owner;      /* SEL_INDEX_NO_OWNER: none could be had */
    void               *listener;   /* the host's, NULL at first */
    sel_rank_stats_t    stats;
    sel_view_rank_t    *next_source;    /* see sel_sources.h */
};


struct sel_view_worker_s {
    sel_arena_t         arena;
    sel_worker_t        record;
    sel_str_t           json;       /* the record as printed */
    uint64_t            version;
    sel_worker_state_t  state;
    uint32_t            partition;  /* number; 0: in none */
    sel_view_partition_t
                       *home;       /* the partition, or NULL */
    uint32_t            foreign;    /* ranks that only its events named */
    uint32_t            n_ranks;
    sel_view_rank_t   **ranks;      /* by dp_rank */
    void               *peer;       /* the host's, in arena; NULL at first */
    uint32_t            address;    /* of its endpoint, see
                                       sel_catalog_found() */
    uint8_t             routable;   /* the host's, 0 at first */
    bool                seen;       /* by the reading that is going on */
};


struct sel_view_partition_s {
    sel_arena_t        arena;
    sel_partition_t    key;
    uint64_t           queries;     /* look-ups of one block or more */
    bool               needed;      /* while those that are not go */
    uint32_t           n_workers;   /* schedulable */
    uint32_t           n_ranks;
    sel_view_rank_t  **ranks;       /* of schedulable workers, by worker id
                                       and rank; see sel_view_find() */
};


/*
 * A rank has a second owner, where the index learns from bookings beside the
 * events: in a partition of this number, made with its first decision.
 */
#define SEL_VIEW_SIDE  0x80000000


/*
 * What the host does about ranks: it opens a listener for an added one and
 * closes it for one that goes (the rank is freed afterwards).
 */
typedef struct {
    void  (*added)(void *data, sel_view_rank_t *rank);
    void  (*removed)(void *data, sel_view_rank_t *rank);
    void   *data;
} sel_view_host_t;


struct sel_view_s {
    sel_zone_t             *zone;
    sel_index_t            *index;
    sel_view_host_t         host;
    uint64_t                version;        /* of the catalog, compiled */
    uint32_t                n_workers;
    uint32_t                cap_workers;
    sel_view_worker_t     **workers;        /* by id */
    uint32_t                n_schedulable;
    uint32_t                n_partitions;
    uint32_t                cap_partitions;
    sel_view_partition_t  **partitions;     /* by name */
    sel_view_worker_t     **sorted;         /* by partition name and id */
    sel_view_rank_t       **ranks;          /* partitions' ranks, in order */
    sel_view_rank_t       **by_slot;        /* NULL: memory was exhausted */
    bool                    stale;          /* sorted and ranks are */
};


void sel_view_init(sel_view_t *view, sel_zone_t *zone, sel_index_t *index,
    const sel_view_host_t *host);

/*
 * Tells the host that every rank goes, and frees everything.  The index is
 * left alone: it goes as well.
 */
void sel_view_free(sel_view_t *view);

/*
 * Brings the view up to date; false when memory is exhausted (the view is
 * then older than the catalog, but whole).  Cheap when nothing has changed.
 */
bool sel_view_refresh(sel_view_t *view);

/*
 * The partition of a name, NULL when there is none; its ranks are up to date.
 * Call after sel_view_refresh().  Sets *failed when memory is exhausted.
 */
sel_view_partition_t *sel_view_find(sel_view_t *view, sel_str_t model_name,
    sel_str_t routing_group, bool *failed);

/* The rank of a slot in this epoch; NULL when there is none. */
static inline sel_view_rank_t *
sel_view_slot(const sel_view_t *view, uint16_t slot, uint32_t epoch)
{
    sel_view_rank_t  *rank;

    if (view->by_slot == NULL || slot >= view->zone->n_slots) {
        return NULL;
    }

    rank = view->by_slot[slot];

    return rank != NULL && rank->epoch == epoch ? rank : NULL;
}


/*
 * All workers by (model name, routing group, id), n_workers of them; NULL
 * when memory is exhausted.
 */
sel_view_worker_t **sel_view_sorted(sel_view_t *view);


#endif /* SEL_VIEW_H */
