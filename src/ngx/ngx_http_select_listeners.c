/*
 * A listener stands in one of two queues, or in none: `opening` while it is
 * to be opened, `ready` while its socket may hold messages.  One posted event
 * works each queue off, a slice a turn of the event loop.  A timer looks after
 * all of them once a second.
 */

#include <ngx_event.h>
#include "core/sel_clock.h"
#include "ngx/ngx_http_select_listener.h"
#include "ngx/ngx_http_select_listeners.h"
#include "service/sel_metrics.h"
#include "service/sel_watch.h"


/* sockets opened in one turn, and old ones closed */
#define NGX_HTTP_SELECT_OPEN      64

/* messages taken from one socket before the next one's turn */
#define NGX_HTTP_SELECT_MESSAGES  32

/* time for messages in one turn, nanoseconds */
#define NGX_HTTP_SELECT_BUDGET    1000000

/* milliseconds */
#define NGX_HTTP_SELECT_LOOK      1000


typedef struct {
    sel_service_t      *service;
    _Atomic uint64_t   *values;
    ngx_log_t          *log;
    ngx_queue_t         opening;
    ngx_queue_t         ready;
    ngx_event_t         open;
    ngx_event_t         receive;
    ngx_event_t         look;
    ngx_connection_t    dummy;
    uint64_t            counts[SEL_KV_COUNTS];
    unsigned            started:1;          /* libzmq */
} ngx_http_select_listeners_t;


static void ngx_http_select_listeners_added(void *data,
    sel_view_rank_t *rank);
static void ngx_http_select_listeners_removed(void *data,
    sel_view_rank_t *rank);
static void ngx_http_select_listeners_queue(ngx_http_select_listener_t *l,
    ngx_queue_t *queue);
static void ngx_http_select_listeners_readable(void *data);
static void ngx_http_select_listeners_answered(void *data);
static void ngx_http_select_listeners_open(ngx_event_t *ev);
static void ngx_http_select_listeners_receive(ngx_event_t *ev);
static void ngx_http_select_listeners_look(ngx_event_t *ev);


static ngx_http_select_listeners_t  ngx_http_select_listeners;


void
ngx_http_select_listeners_init(sel_service_t *service,
    _Atomic uint64_t *values, ngx_log_t *log)
{
    ngx_uint_t                    i;
    ngx_event_t                  *events[3];
    ngx_http_select_listeners_t  *ls;

    ls = &ngx_http_select_listeners;

    ngx_memzero(ls, sizeof(ngx_http_select_listeners_t));

    ls->service = service;
    ls->values = values;
    ls->log = log;
    ls->dummy.fd = (ngx_socket_t) -1;

    ngx_queue_init(&ls->opening);
    ngx_queue_init(&ls->ready);

    ls->open.handler = ngx_http_select_listeners_open;
    ls->receive.handler = ngx_http_select_listeners_receive;
    ls->look.handler = ngx_http_select_listeners_look;
    ls->look.cancelable = 1;

    events[0] = &ls->open;
    events[1] = &ls->receive;
    events[2] = &ls->look;

    for (i = 0; i < 3; i++) {
        events[i]->data = &ls->dummy;
        events[i]->log = log;
    }
}


sel_view_host_t
ngx_http_select_listeners_host(void)
{
    return (sel_view_host_t) { ngx_http_select_listeners_added,
                               ngx_http_select_listeners_removed,
                               &ngx_http_select_listeners };
}


void
ngx_http_select_listeners_meter(void)
{
    uint32_t                      i, j;
    uint64_t                      states[SEL_LISTENER_STATES];
    sel_view_t                   *view;
    ngx_http_select_listeners_t  *ls;

    ls = &ngx_http_select_listeners;

    if (ls->values == NULL) {
        return;
    }

    sel_metrics_add(ls->values, ls->counts);
    ngx_memzero(states, sizeof(states));

    view = &ls->service->view;

    for (i = 0; i < view->n_workers; i++) {
        for (j = 0; j < view->workers[i]->n_ranks; j++) {
            states[view->workers[i]->ranks[j]->stats.listener]++;
        }
    }

    ls->values[SEL_GAUGE_LISTENERS_PENDING] = states[SEL_LISTENER_PENDING];
    ls->values[SEL_GAUGE_LISTENERS_ACTIVE] = states[SEL_LISTENER_ACTIVE];
    ls->values[SEL_GAUGE_LISTENERS_FAILED] = states[SEL_LISTENER_FAILED];
}


void
ngx_http_select_listeners_stop(void)
{
    ngx_http_select_listeners_t  *ls;

    ls = &ngx_http_select_listeners;

    if (ls->open.posted) {
        ngx_delete_posted_event(&ls->open);
    }

    if (ls->receive.posted) {
        ngx_delete_posted_event(&ls->receive);
    }

    if (ls->look.timer_set) {
        ngx_del_timer(&ls->look);
    }

    if (ls->values != NULL) {
        sel_metrics_add(ls->values, ls->counts);
    }

    ngx_http_select_names_stop();

    if (ls->started) {
        ngx_http_select_zmq_stop();
    }
}


static void
ngx_http_select_listeners_added(void *data, sel_view_rank_t *rank)
{
    ngx_http_select_listener_t   *l;
    ngx_http_select_listeners_t  *ls;

    ls = data;

    if (!ls->service->settings.kv_events) {
        return;
    }

    if (!ls->started) {

        /* a socket is renewed beside its successor */

        ls->started = (ngx_http_select_zmq_start(
                           2 * ls->service->zone->n_slots + 16, ls->log)
                       == NGX_OK);
    }

    l = ngx_http_select_listener_create(ls->service, rank,
                                        ngx_http_select_listeners_readable,
                                        ngx_http_select_listeners_answered,
                                        ls->log);
    if (l == NULL) {
        ngx_log_error(NGX_LOG_ERR, ls->log, 0,
                      "no memory for the KV events of worker %uL rank %uD",
                      rank->worker_id, rank->dp_rank);
        return;
    }

    rank->listener = l;
    sel_sources_add(&ls->service->sources, rank);
    ngx_http_select_listeners_queue(l, &ls->opening);

    if (!ls->look.timer_set) {
        ngx_add_timer(&ls->look, NGX_HTTP_SELECT_LOOK);
    }
}


static void
ngx_http_select_listeners_removed(void *data, sel_view_rank_t *rank)
{
    ngx_http_select_listeners_t  *ls;

    ls = data;

    if (rank->listener != NULL) {
        sel_sources_remove(&ls->service->sources, rank);
        ngx_http_select_listeners_queue(rank->listener, NULL);
        ngx_http_select_listener_destroy(rank->listener);
        rank->listener = NULL;
    }
}


/* Moves it to the end of a queue, or out of both, and sees to the event. */

static void
ngx_http_select_listeners_queue(ngx_http_select_listener_t *l,
    ngx_queue_t *queue)
{
    ngx_http_select_listeners_t  *ls;

    ls = &ngx_http_select_listeners;

    if (l->in != NULL) {
        ngx_queue_remove(&l->queue);
    }

    l->in = queue;

    if (queue == NULL) {
        return;
    }

    ngx_queue_insert_tail(queue, &l->queue);

    if (queue == &ls->opening) {
        ngx_post_event(&ls->open, &ngx_posted_next_events);

    } else if (queue == &ls->ready) {
        ngx_post_event(&ls->receive, &ngx_posted_next_events);
    }
}


/* One that is to be renewed can wait: what it holds is read afterwards. */

static void
ngx_http_select_listeners_readable(void *data)
{
    ngx_http_select_listener_t  *l;

    l = data;

    if (l->in != &ngx_http_select_listeners.ready) {
        ngx_http_select_listeners_queue(l, &ngx_http_select_listeners.ready);
    }
}


static void
ngx_http_select_listeners_answered(void *data)
{
    ngx_http_select_listeners_queue(data, &ngx_http_select_listeners.opening);
}


static void
ngx_http_select_listeners_open(ngx_event_t *ev)
{
    ngx_uint_t                    i;
    ngx_http_select_listener_t   *l;
    ngx_http_select_listeners_t  *ls;

    ls = &ngx_http_select_listeners;

    for (i = 0; i < NGX_HTTP_SELECT_OPEN; i++) {
        if (ngx_queue_empty(&ls->opening)) {
            return;
        }

        l = ngx_queue_data(ngx_queue_head(&ls->opening),
                           ngx_http_select_listener_t, queue);

        ngx_http_select_listeners_queue(l, NULL);
        ngx_http_select_listener_open(l);
    }

    ngx_post_event(ev, &ngx_posted_next_events);
}


/*
 * Ranks take turns until each has been drained or the time is used up; then
 * requests have theirs.
 */

static void
ngx_http_select_listeners_receive(ngx_event_t *ev)
{
    uint64_t                      deadline;
    ngx_http_select_listener_t   *l;
    ngx_http_select_listeners_t  *ls;

    ls = &ngx_http_select_listeners;
    deadline = sel_clock_ns() + NGX_HTTP_SELECT_BUDGET;

    while (!ngx_queue_empty(&ls->ready)) {
        l = ngx_queue_data(ngx_queue_head(&ls->ready),
                           ngx_http_select_listener_t, queue);

        ngx_http_select_listeners_queue(l, NULL);

        if (ngx_http_select_listener_receive(l, NGX_HTTP_SELECT_MESSAGES,
                                             deadline, ls->counts))
        {
            ngx_http_select_listeners_queue(l, &ls->ready);
        }

        if (sel_clock_ns() >= deadline) {
            break;
        }
    }

    if (ls->values != NULL) {
        sel_metrics_add(ls->values, ls->counts);
    }

    if (!ngx_queue_empty(&ls->ready)) {
        ngx_post_event(ev, &ngx_posted_next_events);
    }
}


static void
ngx_http_select_listeners_look(ngx_event_t *ev)
{
    uint32_t                      i, j;
    uint64_t                      now;
    ngx_msec_t                    next;
    ngx_uint_t                    closed;
    sel_view_t                   *view;
    sel_view_rank_t              *rank;
    ngx_http_select_listener_t   *l;
    ngx_http_select_listeners_t  *ls;

    ls = &ngx_http_select_listeners;
    view = &ls->service->view;
    now = sel_clock_ns();
    next = NGX_HTTP_SELECT_LOOK;
    closed = 0;

    for (i = 0; i < view->n_workers; i++) {
        for (j = 0; j < view->workers[i]->n_ranks; j++) {
            rank = view->workers[i]->ranks[j];
            l = rank->listener;

            if (l == NULL) {
                continue;
            }

            sel_watch_look(ls->service, rank, now);

            if (ngx_http_select_listener_replaced(l, ngx_current_msec)) {

                if (closed == NGX_HTTP_SELECT_OPEN) {
                    next = NGX_HTTP_SELECT_LOOK / 16;

                } else {
                    closed++;
                    ngx_http_select_listener_close_old(l);
                }
            }

            if (ngx_http_select_listener_due(l, ngx_current_msec)
                && l->in == NULL)
            {
                ngx_http_select_listeners_queue(l, &ls->opening);
            }
        }
    }

    if (!ngx_exiting && !ngx_terminate) {
        ngx_add_timer(ev, next);
    }
}
