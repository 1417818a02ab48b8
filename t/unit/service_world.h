/*
 * One process of the service, without nginx: its own view and index on a zone
 * that others may share, and a host that follows the ranks it is told of.
 * Include after cmocka.h and state_test.h.
 */

#ifndef SERVICE_WORLD_H
#define SERVICE_WORLD_H

#include <inttypes.h>

#include "service/sel_ingest.h"
#include "service/sel_service.h"


#define WORLD_EVENTS  64        /* remembered since the last reset */


/* What the host keeps of a rank, at rank->listener. */
typedef struct world_listener_s  world_listener_t;

struct world_listener_s {
    world_listener_t  *next;
    sel_view_rank_t   *rank;
    uint64_t           worker_id;       /* as the rank said when it came */
    uint32_t           dp_rank;
    sel_ingest_t       ingest;
    sel_kv_sink_t      sink;
};


typedef struct {
    bool      added;            /* else removed */
    uint64_t  worker_id;
    uint32_t  dp_rank;
} world_event_t;


typedef struct {
    sel_service_t      service;
    sel_arena_t        arena;           /* of the last operation */
    sel_fault_t        fault;           /* of it, when it failed */
    sel_buf_t          answer;          /* of it, NUL-terminated */
    uint32_t           changed;         /* calls */
    uint32_t           warned;
    uint32_t           n_events;
    world_event_t      events[WORLD_EVENTS];
    uint32_t           n_listeners;
    world_listener_t  *listeners;

    /* told when an operation begins and ends, and around the host's work */
    void             (*inside)(bool inside);
} world_t;


static inline void
world_inside(const world_t *world, bool inside)
{
    if (world->inside != NULL) {
        world->inside(inside);
    }
}


static inline void
world_event(world_t *world, bool added, const sel_view_rank_t *rank)
{
    world_event_t  *event;

    if (world->n_events < WORLD_EVENTS) {
        event = &world->events[world->n_events];
        event->added = added;
        event->worker_id = rank->worker_id;
        event->dp_rank = rank->dp_rank;
    }

    world->n_events++;
}


/* No rank may come twice or with a listener of another. */
static inline void
world_added(void *data, sel_view_rank_t *rank)
{
    world_t           *world;
    world_listener_t  *listener;

    world = data;
    assert_null(rank->listener);
    assert_non_null(rank->worker);

    for (listener = world->listeners;
         listener != NULL;
         listener = listener->next)
    {
        assert_false(listener->worker_id == rank->worker_id
                     && listener->dp_rank == rank->dp_rank);
    }

    world_inside(world, false);
    listener = calloc(1, sizeof(*listener));
    world_inside(world, true);
    assert_non_null(listener);
    listener->rank = rank;
    listener->worker_id = rank->worker_id;
    listener->dp_rank = rank->dp_rank;
    listener->ingest.service = &world->service;
    listener->ingest.rank = rank;
    listener->sink = sel_ingest_sink(&listener->ingest);
    listener->next = world->listeners;
    world->listeners = listener;
    world->n_listeners++;
    rank->listener = listener;
    world_event(world, true, rank);
}


static inline void
world_removed(void *data, sel_view_rank_t *rank)
{
    world_t            *world;
    world_listener_t  **place, *listener;

    world = data;
    listener = rank->listener;
    assert_non_null(listener);
    assert_ptr_equal(listener->rank, rank);
    assert_true(listener->worker_id == rank->worker_id
                && listener->dp_rank == rank->dp_rank);

    place = &world->listeners;

    while (*place != listener) {
        assert_non_null(*place);
        place = &(*place)->next;
    }

    *place = listener->next;
    world->n_listeners--;
    rank->listener = NULL;
    free(listener);
    world_event(world, false, rank);
}


static inline void
world_changed(void *data)
{
    ((world_t *) data)->changed++;
}


static inline void
world_warned(void *data, const sel_view_rank_t *rank, const char *text)
{
    assert_non_null(rank->worker);
    assert_non_null(text);
    ((world_t *) data)->warned++;
}


static inline void
world_init(world_t *world, sel_zone_t *zone, uint32_t number, bool kv_events)
{
    sel_service_t    *service;
    sel_view_host_t   host;

    memset(world, 0, sizeof(*world));
    service = &world->service;
    service->zone = zone;
    service->settings.kv_events = kv_events;
    service->settings.pending.ttl = UINT64_MAX;
    service->settings.pending.max = 4096;
    service->settings.pending.size = 1 << 28;
    service->changed = world_changed;
    service->warned = world_warned;
    service->data = world;
    sel_random_seed_with(&service->random, number + 1);
    service->index = sel_index_create(0, 7 + number);
    assert_non_null(service->index);
    service->proc = sel_proc_enter(zone, (uint32_t) getpid(), number, 1);
    assert_true(service->proc != SEL_PROC_NONE);

    host = (sel_view_host_t) { world_added, world_removed, world };
    sel_view_init(&service->view, zone, service->index, &host);
    sel_arena_init(&world->arena, 0);
    sel_buf_init(&world->answer);
}


/* From now on it records its bookings, and believes them for so long. */
static inline void
world_learn(world_t *world, uint64_t ttl)
{
    sel_service_t  *service;

    service = &world->service;
    service->settings.learn_ttl = ttl;
    service->learn.recent = sel_recent_create(service->index, 0, 5);
    assert_non_null(service->learn.recent);
}


static inline void
world_free(world_t *world)
{
    sel_recent_destroy(world->service.learn.recent);
    sel_view_free(&world->service.view);
    assert_int_equal(world->n_listeners, 0);
    sel_index_destroy(world->service.index);
    sel_proc_leave(world->service.zone, world->service.proc);

    sel_service_free(&world->service);
    sel_arena_free(&world->arena);
    sel_buf_free(&world->answer);
}


static inline void
world_forget(world_t *world)
{
    world->n_events = 0;
    world->changed = 0;
}


static inline void
world_refresh(world_t *world)
{
    assert_true(sel_view_refresh(&world->service.view));
}


static inline world_listener_t *
world_listener(world_t *world, uint64_t worker_id, uint32_t dp_rank)
{
    world_listener_t  *listener;

    for (listener = world->listeners;
         listener != NULL;
         listener = listener->next)
    {
        if (listener->worker_id == worker_id && listener->dp_rank == dp_rank) {
            break;
        }
    }

    return listener;
}


/*
 * The stream of a registered rank says that batch_rank stores n blocks from
 * the root: block hashes first, first + 1, ..., external hashes 100 more.
 */
static inline sel_index_result_t
world_store(world_t *world, uint64_t worker_id, uint32_t dp_rank,
    uint32_t batch_rank, uint64_t first, uint32_t n)
{
    uint32_t             i;
    uint64_t             blocks[64], externals[64];
    world_listener_t    *listener;
    sel_index_change_t   change;

    assert_true(n <= 64);
    listener = world_listener(world, worker_id, dp_rank);
    assert_non_null(listener);

    for (i = 0; i < n; i++) {
        blocks[i] = first + i;
        externals[i] = first + i + 100;
    }

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_STORED;
    change.tier = SEL_TIER_DEVICE;
    change.owner = SEL_INDEX_NO_OWNER;
    change.n = n;
    change.block = blocks;
    change.external = externals;

    return listener->sink.apply(listener->sink.data, batch_rank, &change);
}


#endif /* SERVICE_WORLD_H */
