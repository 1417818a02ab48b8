#include <stdlib.h>
#include "core/sel_hash.h"
#include "service/sel_sources.h"


static bool sel_sources_room(sel_sources_t *sources);
static sel_view_rank_t **sel_sources_bucket(const sel_sources_t *sources,
    const sel_view_rank_t *rank);
static uint32_t sel_sources_same(const sel_sources_t *sources,
    const sel_view_rank_t *rank, sel_view_rank_t **last);
static sel_str_t sel_sources_endpoint(const sel_view_rank_t *rank);


void
sel_sources_add(sel_sources_t *sources, sel_view_rank_t *rank)
{
    sel_view_rank_t  *last, **bucket;

    if (sel_sources_endpoint(rank).len == 0 || !sel_sources_room(sources)) {
        return;
    }

    /* if others share it already, they know */

    rank->stats.shared = sel_sources_same(sources, rank, &last) != 0;

    if (rank->stats.shared) {
        last->stats.shared = true;
    }

    bucket = sel_sources_bucket(sources, rank);
    rank->next_source = *bucket;
    *bucket = rank;
    sources->n++;
}


void
sel_sources_remove(sel_sources_t *sources, sel_view_rank_t *rank)
{
    sel_view_rank_t  *last, **place;

    if (sources->n_buckets == 0) {
        return;
    }

    for (place = sel_sources_bucket(sources, rank); *place != rank;
         place = &(*place)->next_source)
    {
        if (*place == NULL) {
            return;
        }
    }

    *place = rank->next_source;
    sources->n--;

    if (sel_sources_same(sources, rank, &last) == 1) {
        last->stats.shared = false;
    }
}


void
sel_sources_free(sel_sources_t *sources)
{
    free(sources->buckets);
    *sources = (sel_sources_t) { NULL, 0, 0 };
}


/* A bucket a rank or more; if memory is short, longer chains will do. */

static bool
sel_sources_room(sel_sources_t *sources)
{
    uint32_t           i;
    sel_sources_t      old;
    sel_view_rank_t   *rank, *next, **buckets, **bucket;

    if (sources->n < sources->n_buckets) {
        return true;
    }

    old = *sources;
    buckets = calloc(sel_max(old.n_buckets * 2, 16), sizeof(*buckets));

    if (buckets == NULL) {
        return old.n_buckets != 0;
    }

    sources->buckets = buckets;
    sources->n_buckets = sel_max(old.n_buckets * 2, 16);

    for (i = 0; i < old.n_buckets; i++) {
        for (rank = old.buckets[i]; rank != NULL; rank = next) {
            next = rank->next_source;
            bucket = sel_sources_bucket(sources, rank);
            rank->next_source = *bucket;
            *bucket = rank;
        }
    }

    free(old.buckets);

    return true;
}


static sel_view_rank_t **
sel_sources_bucket(const sel_sources_t *sources, const sel_view_rank_t *rank)
{
    sel_str_t  endpoint;

    endpoint = sel_sources_endpoint(rank);

    return &sources->buckets[sel_hash_bytes(endpoint.data, endpoint.len, 0)
                             & (sources->n_buckets - 1)];
}


/* How many ranks have the endpoint of one, and any of them. */

static uint32_t
sel_sources_same(const sel_sources_t *sources, const sel_view_rank_t *rank,
    sel_view_rank_t **last)
{
    uint32_t          n;
    sel_str_t         endpoint;
    sel_view_rank_t  *other;

    n = 0;
    endpoint = sel_sources_endpoint(rank);

    for (other = *sel_sources_bucket(sources, rank); other != NULL;
         other = other->next_source)
    {
        if (sel_str_eq(sel_sources_endpoint(other), endpoint)) {
            *last = other;
            n++;
        }
    }

    return n;
}


static sel_str_t
sel_sources_endpoint(const sel_view_rank_t *rank)
{
    return sel_worker_events_endpoint(&rank->worker->record, rank->dp_rank);
}
