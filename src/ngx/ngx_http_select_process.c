#include <ngx_event.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include "ngx/ngx_http_select_bells.h"
#include "ngx/ngx_http_select_listeners.h"
#include "ngx/ngx_http_select_peers.h"
#include "core/sel_clock.h"
#include "ngx/ngx_http_select_process.h"
#include "service/sel_learn.h"
#include "service/sel_metrics.h"
#include "state/sel_session.h"


/* how often gauges are set and dead processes looked for, milliseconds */
#define NGX_HTTP_SELECT_TICK   1000

/* bytes that each heap of a process keeps; blocks from a sixteenth of it on
   are in no heap */
#define NGX_HTTP_SELECT_HEAP   (64 * 1024 * 1024)

/* bookings that expire, and bindings that are reaped, in one turn of the lock;
   turns of the lock in one turn of the event loop */
#define NGX_HTTP_SELECT_EXPIRE      32
#define NGX_HTTP_SELECT_REAP        64
#define NGX_HTTP_SELECT_TURNS       8

/* how often bookings are looked for that expire, nanoseconds: each fifth of
   their age within these bounds */
#define NGX_HTTP_SELECT_EXPIRE_MIN  1000000000ull
#define NGX_HTTP_SELECT_EXPIRE_MAX  60000000000ull

/* and bindings that have been idle for too long: each time to live, but this
   often */
#define NGX_HTTP_SELECT_REAP_MAX    30000000000ull

/* memberships swept in one turn of the event loop */
#define NGX_HTTP_SELECT_SWEEP  1024


typedef struct {
    sel_service_t              service;
    _Atomic uint64_t          *values;      /* in the zone; NULL: no room */
    ngx_http_select_watch_t    bell;
    ngx_event_t                tick;
    ngx_event_t                sweep;
    ngx_connection_t           dummy;       /* for the events' debug log */
    ngx_log_t                 *log;
    ngx_uint_t                 generation;
    uint64_t                   expire;      /* when bookings next do, ns */
    uint64_t                   reap;        /* when bindings next do */
    unsigned                   routes:1;
    unsigned                   running:1;
    unsigned                   complained:1;
} ngx_http_select_process_t;


static void ngx_http_select_process_heap(void);
static void ngx_http_select_process_enter(void);
static void ngx_http_select_process_events(void);
static void ngx_http_select_process_changed(void *data);
static void ngx_http_select_process_warned(void *data,
    const sel_view_rank_t *rank, const char *text);
static void ngx_http_select_process_rung(void *data);
static bool ngx_http_select_process_expire(void);
static bool ngx_http_select_process_reap(void);
static bool ngx_http_select_process_end(uint32_t (*end)(sel_zone_t *zone,
    uint64_t time, uint32_t max), uint64_t time, uint32_t max);
static void ngx_http_select_process_shutdown(void *data);
static void ngx_http_select_process_tick(ngx_event_t *ev);
static void ngx_http_select_process_sweep(ngx_event_t *ev);


static ngx_http_select_process_t  ngx_http_select_process;


ngx_int_t
ngx_http_select_process_start(ngx_cycle_t *cycle,
    const ngx_http_select_start_t *start)
{
    sel_service_t              *service;
    sel_view_host_t             host;
    ngx_http_select_process_t  *p;

    p = &ngx_http_select_process;

    ngx_memzero(p, sizeof(ngx_http_select_process_t));

    p->log = cycle->log;
    p->generation = start->generation;
    p->routes = start->routes;
    service = &p->service;

    ngx_http_select_process_heap();

    service->zone = start->zone;
    service->settings = start->settings;
    service->changed = ngx_http_select_process_changed;
    service->warned = ngx_http_select_process_warned;
    service->proc = SEL_PROC_NONE;
    sel_random_seed(&service->random);

    service->index = sel_index_create(start->index_memory,
                                      sel_random_u64(&service->random));

    if (service->index == NULL) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                      "no memory for the block index");
        return NGX_ERROR;
    }

    if (sel_service_records(service)) {
        service->learn.recent = sel_recent_create(service->index,
                                    start->index_memory / 4,
                                    sel_random_u64(&service->random));
        if (service->learn.recent == NULL) {
            ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                          "no memory for the block index");
            return NGX_ERROR;
        }
    }

    ngx_http_select_process_enter();

    p->values = sel_meter_attach(start->zone, (uint32_t) ngx_worker);

    ngx_http_select_listeners_init(service, p->values, cycle->log);

    host = ngx_http_select_listeners_host();
    sel_view_init(&service->view, start->zone, service->index, &host);

    sel_books_expiry(start->zone, service->settings.expire);
    sel_sessions_ttl(start->zone, service->settings.session_ttl);

    p->running = 1;

    ngx_http_select_process_events();

    return NGX_OK;
}


/*
 * Else bodies and arenas would go back to the kernel after every request, and
 * a whole queue of messages at once, with the last of them, while the event
 * loop waits: the heaps of libzmq's threads, which messages come from, are at
 * most 64 MiB long, so they are not cut; only whole ones go.
 */

static void
ngx_http_select_process_heap(void)
{
#if defined(__GLIBC__)

    (void) mallopt(M_TRIM_THRESHOLD, NGX_HTTP_SELECT_HEAP);
    (void) mallopt(M_MMAP_THRESHOLD, NGX_HTTP_SELECT_HEAP / 16);

#endif
}


/*
 * Into the process table.  Many processes of an old generation may still be
 * in it; then once more with the next tick.
 */

static void
ngx_http_select_process_enter(void)
{
    sel_service_t              *service;
    ngx_http_select_process_t  *p;

    p = &ngx_http_select_process;
    service = &p->service;

    service->proc = sel_proc_enter(service->zone, (uint32_t) ngx_pid,
                                   (uint32_t) ngx_worker,
                                   (uint32_t) p->generation);

    if (service->proc == SEL_PROC_NONE && !p->complained) {
        p->complained = 1;
        ngx_log_error(NGX_LOG_WARN, p->log, 0,
                      "the process table of select_zone is full");
    }
}


static void
ngx_http_select_process_events(void)
{
    int                         fd;
    ngx_http_select_process_t  *p;

    p = &ngx_http_select_process;

    p->dummy.fd = (ngx_socket_t) -1;

    p->tick.handler = ngx_http_select_process_tick;
    p->tick.data = &p->dummy;
    p->tick.log = p->log;
    p->tick.cancelable = 1;

    p->sweep.handler = ngx_http_select_process_sweep;
    p->sweep.data = &p->dummy;
    p->sweep.log = p->log;

    p->bell.handler = ngx_http_select_process_rung;
    p->bell.shutdown = ngx_http_select_process_shutdown;

    fd = ngx_http_select_bell(ngx_worker);

    if (fd == -1 || ngx_http_select_watch(&p->bell, fd, p->log) != NGX_OK) {
        ngx_log_error(NGX_LOG_WARN, p->log, 0,
                      "no bell for worker process %ui: it hears of catalog "
                      "changes once a second only", ngx_worker);
    }

    ngx_add_timer(&p->tick, NGX_HTTP_SELECT_TICK);
}


void
ngx_http_select_process_stop(void)
{
    ngx_http_select_process_t  *p;

    p = &ngx_http_select_process;

    if (!p->running) {
        return;
    }

    p->running = 0;

    if (p->tick.timer_set) {
        ngx_del_timer(&p->tick);
    }

    if (p->sweep.posted) {
        ngx_delete_posted_event(&p->sweep);
    }

    ngx_http_select_unwatch(&p->bell);

    ngx_http_select_peers_stop();
    sel_view_free(&p->service.view);
    ngx_http_select_listeners_stop();

    sel_recent_destroy(p->service.learn.recent);
    sel_index_destroy(p->service.index);
    sel_service_free(&p->service);

    if (p->values != NULL
        && !sel_proc_has_twin(p->service.zone, p->service.proc,
                              (uint32_t) ngx_worker))
    {
        sel_metrics_gone(p->values);
    }

    if (p->service.proc != SEL_PROC_NONE) {
        sel_proc_leave(p->service.zone, p->service.proc);
    }
}


sel_service_t *
ngx_http_select_service(void)
{
    return ngx_http_select_process.running ? &ngx_http_select_process.service
                                           : NULL;
}


void
ngx_http_select_process_meter(void)
{
    ngx_http_select_process_t  *p;

    p = &ngx_http_select_process;

    if (p->values != NULL) {
        ngx_http_select_listeners_meter();
        sel_metrics_index(p->values, &p->service);
    }
}


/* This process changed the catalog: its view has been refreshed already. */

static void
ngx_http_select_process_changed(void *data)
{
    ngx_http_select_process_t  *p;

    p = &ngx_http_select_process;

    ngx_http_select_bells_ring();

    if (p->routes) {
        ngx_http_select_peers_look(&p->service.view, p->log);
    }
}


static void
ngx_http_select_process_warned(void *data, const sel_view_rank_t *rank,
    const char *text)
{
    ngx_log_error(NGX_LOG_WARN, ngx_http_select_process.log, 0,
                  "KV events of worker %uL rank %uD: %s; this is counted and "
                  "not logged again", rank->worker_id, rank->dp_rank, text);
}


static void
ngx_http_select_process_rung(void *data)
{
    sel_service_t              *service;
    ngx_http_select_process_t  *p;

    p = &ngx_http_select_process;
    service = &p->service;

    if (service->proc != SEL_PROC_NONE) {
        (void) sel_proc_looked(service->zone, service->proc);
    }

    if (!sel_view_refresh(&service->view)) {
        ngx_log_error(NGX_LOG_ERR, p->log, 0,
                      "no memory to read the worker catalog");
    }

    (void) sel_learn(service);

    if (p->routes) {
        ngx_http_select_peers_look(&service->view, p->log);
    }

    if (!p->sweep.posted) {
        ngx_post_event(&p->sweep, &ngx_posted_next_events);
    }
}


/* Every process looks: they share the work, whoever comes first.  False: some
   may be left. */

static bool
ngx_http_select_process_expire(void)
{
    uint64_t                    now, age, period;
    ngx_http_select_process_t  *p;

    p = &ngx_http_select_process;
    now = sel_clock_ns();
    age = p->service.settings.expire;

    if (now < p->expire) {
        return true;
    }

    if (age < now
        && !ngx_http_select_process_end(sel_books_expire, now - age,
                                        NGX_HTTP_SELECT_EXPIRE))
    {
        return false;
    }

    period = age / 5;
    period = sel_max(period, NGX_HTTP_SELECT_EXPIRE_MIN);
    p->expire = now + ngx_min(period, NGX_HTTP_SELECT_EXPIRE_MAX);

    return true;
}


/* Also when there are no sessions any more: some may be left. */

static bool
ngx_http_select_process_reap(void)
{
    uint64_t                    now, ttl;
    ngx_http_select_process_t  *p;

    p = &ngx_http_select_process;
    now = sel_clock_ns();

    if (now < p->reap) {
        return true;
    }

    if (!ngx_http_select_process_end(sel_sessions_reap, now,
                                     NGX_HTTP_SELECT_REAP))
    {
        return false;
    }

    ttl = p->service.settings.session_ttl;
    p->reap = now + (ttl != 0 ? ngx_min(ttl, NGX_HTTP_SELECT_REAP_MAX)
                              : NGX_HTTP_SELECT_REAP_MAX);

    return true;
}


/* Ends what was due at a time, max in each turn of the lock.  False: some may
   be left. */

static bool
ngx_http_select_process_end(uint32_t (*end)(sel_zone_t *zone, uint64_t time,
    uint32_t max), uint64_t time, uint32_t max)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_SELECT_TURNS; i++) {
        if (end(ngx_http_select_process.service.zone, time, max) < max) {
            return true;
        }
    }

    return false;
}


/* A reload or a quit: no more news of the catalog are needed. */

static void
ngx_http_select_process_shutdown(void *data)
{
    if (ngx_http_select_process.tick.timer_set) {
        ngx_del_timer(&ngx_http_select_process.tick);
    }
}


static void
ngx_http_select_process_tick(ngx_event_t *ev)
{
    sel_service_t              *service;
    ngx_http_select_process_t  *p;

    p = &ngx_http_select_process;
    service = &p->service;

    if (ngx_exiting || ngx_terminate) {
        return;
    }

    if (service->proc == SEL_PROC_NONE) {
        ngx_http_select_process_enter();
    }

    if (sel_proc_reap(service->zone, service->proc) != 0) {
        ngx_log_error(NGX_LOG_NOTICE, p->log, 0,
                      "cleaned up after a worker process that died");
    }

    ngx_http_select_process_rung(NULL);
    ngx_http_select_process_meter();

    ngx_add_timer(ev, NGX_HTTP_SELECT_TICK);
}


static void
ngx_http_select_process_sweep(ngx_event_t *ev)
{
    bool            done;
    sel_service_t  *service;

    service = &ngx_http_select_process.service;

    done = sel_index_sweep(service->index, NGX_HTTP_SELECT_SWEEP);
    done &= sel_learn(service);
    done &= ngx_http_select_process_expire();
    done &= ngx_http_select_process_reap();

    if (!done) {
        ngx_post_event(ev, &ngx_posted_next_events);
    }
}
