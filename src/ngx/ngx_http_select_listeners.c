/*
 * A listener stands in one of two queues, or in none: `opening` until its
 * socket is open, `ready` while its socket may hold messages.  One posted
 * event works each queue off, a slice a turn of the event loop.
 */

#include <ngx_event.h>
#include "core/sel_clock.h"
#include "ngx/ngx_http_select_listeners.h"
#include "ngx/ngx_http_select_zmq.h"
#include "service/sel_ingest.h"
#include "service/sel_metrics.h"


/* sockets opened in one turn */
#define NGX_HTTP_SELECT_OPEN      64

/* messages taken from one socket before the next one's turn */
#define NGX_HTTP_SELECT_MESSAGES  32

/* time for messages in one turn, nanoseconds */
#define NGX_HTTP_SELECT_BUDGET    1000000

/* when a failed listener is tried again, milliseconds */
#define NGX_HTTP_SELECT_RETRY     1000


typedef enum {
    NGX_HTTP_SELECT_PENDING = 0,
    NGX_HTTP_SELECT_ACTIVE,
    NGX_HTTP_SELECT_FAILED,
    NGX_HTTP_SELECT_STATES
} ngx_http_select_state_e;


typedef struct {
    ngx_queue_t              queue;
    ngx_queue_t             *in;            /* the queue it stands in */
    ngx_http_select_state_e  state;
    ngx_http_select_sub_t    sub;
    sel_view_rank_t         *rank;
    sel_ingest_t             ingest;
    sel_kv_sink_t            sink;
    sel_kv_feed_t           *feed;
    unsigned                 complained:1;  /* the log knows why it failed */
} ngx_http_select_listener_t;


typedef struct {
    sel_service_t      *service;
    _Atomic uint64_t   *values;
    ngx_log_t          *log;
    ngx_queue_t         opening;
    ngx_queue_t         ready;
    ngx_queue_t         failed;
    ngx_event_t         open;
    ngx_event_t         receive;
    ngx_event_t         retry;
    ngx_connection_t    dummy;
    ngx_uint_t          states[NGX_HTTP_SELECT_STATES];
    uint64_t            counts[SEL_KV_COUNTS];
    unsigned            started:1;          /* libzmq */
} ngx_http_select_listeners_t;


static void ngx_http_select_listener_added(void *data, sel_view_rank_t *rank);
static void ngx_http_select_listener_removed(void *data,
    sel_view_rank_t *rank);
static void ngx_http_select_listener_open(ngx_http_select_listener_t *l);
static void ngx_http_select_listener_fail(ngx_http_select_listener_t *l,
    const char *why);
static void ngx_http_select_listener_state(ngx_http_select_listener_t *l,
    ngx_http_select_state_e state);
static void ngx_http_select_listener_queue(ngx_http_select_listener_t *l,
    ngx_queue_t *queue);
static void ngx_http_select_listener_readable(void *data);
static ngx_uint_t ngx_http_select_listener_receive(
    ngx_http_select_listener_t *l, uint64_t deadline);
static void ngx_http_select_listeners_open(ngx_event_t *ev);
static void ngx_http_select_listeners_receive(ngx_event_t *ev);
static void ngx_http_select_listeners_retry(ngx_event_t *ev);


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
    ngx_queue_init(&ls->failed);

    ls->open.handler = ngx_http_select_listeners_open;
    ls->receive.handler = ngx_http_select_listeners_receive;
    ls->retry.handler = ngx_http_select_listeners_retry;
    ls->retry.cancelable = 1;

    events[0] = &ls->open;
    events[1] = &ls->receive;
    events[2] = &ls->retry;

    for (i = 0; i < 3; i++) {
        events[i]->data = &ls->dummy;
        events[i]->log = log;
    }
}


sel_view_host_t
ngx_http_select_listeners_host(void)
{
    return (sel_view_host_t) { ngx_http_select_listener_added,
                               ngx_http_select_listener_removed,
                               &ngx_http_select_listeners };
}


void
ngx_http_select_listeners_meter(void)
{
    ngx_http_select_listeners_t  *ls;

    ls = &ngx_http_select_listeners;

    if (ls->values == NULL) {
        return;
    }

    sel_metrics_add(ls->values, ls->counts);

    ls->values[SEL_GAUGE_LISTENERS_PENDING] =
                                         ls->states[NGX_HTTP_SELECT_PENDING];
    ls->values[SEL_GAUGE_LISTENERS_ACTIVE] =
                                         ls->states[NGX_HTTP_SELECT_ACTIVE];
    ls->values[SEL_GAUGE_LISTENERS_FAILED] =
                                         ls->states[NGX_HTTP_SELECT_FAILED];
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

    if (ls->retry.timer_set) {
        ngx_del_timer(&ls->retry);
    }

    ngx_http_select_listeners_meter();

    if (ls->started) {
        ngx_http_select_zmq_stop();
    }
}


static void
ngx_http_select_listener_added(void *data, sel_view_rank_t *rank)
{
    ngx_http_select_listener_t   *l;
    ngx_http_select_listeners_t  *ls;

    ls = data;

    if (!ls->service->settings.kv_events) {
        return;
    }

    if (!ls->started) {
        ls->started = 1;
        (void) ngx_http_select_zmq_start(ls->service->zone->n_slots + 16,
                                         ls->log);
    }

    l = ngx_calloc(sizeof(ngx_http_select_listener_t), ls->log);

    if (l == NULL) {
        return;
    }

    l->feed = sel_kv_feed_create(rank->worker->record.block_size,
                                 rank->dp_rank);
    if (l->feed == NULL) {
        ngx_log_error(NGX_LOG_ERR, ls->log, 0,
                      "no memory for the event feed of worker %uL",
                      rank->worker_id);
        ngx_free(l);
        return;
    }

    l->rank = rank;
    l->ingest.service = ls->service;
    l->ingest.rank = rank;
    l->sink = sel_ingest_sink(&l->ingest);
    l->sub.watch.handler = ngx_http_select_listener_readable;
    l->sub.watch.data = l;

    rank->listener = l;
    ls->states[l->state]++;

    ngx_http_select_listener_queue(l, &ls->opening);
}


static void
ngx_http_select_listener_removed(void *data, sel_view_rank_t *rank)
{
    ngx_http_select_listener_t   *l;
    ngx_http_select_listeners_t  *ls;

    ls = data;
    l = rank->listener;

    if (l == NULL) {
        return;
    }

    ngx_http_select_listener_queue(l, NULL);
    ls->states[l->state]--;

    ngx_http_select_sub_close(&l->sub);
    sel_kv_feed_destroy(l->feed);
    ngx_free(l);

    rank->listener = NULL;
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

        ngx_http_select_listener_queue(l, NULL);
        ngx_http_select_listener_open(l);
    }

    ngx_post_event(ev, &ngx_posted_next_events);
}


static void
ngx_http_select_listener_open(ngx_http_select_listener_t *l)
{
    sel_str_t    endpoint;
    const char  *why;

    endpoint = sel_worker_events_endpoint(&l->rank->worker->record,
                                          l->rank->dp_rank);

    why = ngx_http_select_sub_open(&l->sub, (const char *) endpoint.data,
                                   ngx_http_select_listeners.log);

    if (why != NULL) {
        ngx_http_select_listener_fail(l, why);
        return;
    }

    if (l->complained) {
        l->complained = 0;
        ngx_log_error(NGX_LOG_NOTICE, ngx_http_select_listeners.log, 0,
                      "KV events of worker %uL rank %uD: listening",
                      l->rank->worker_id, l->rank->dp_rank);
    }

    ngx_http_select_listener_state(l, NGX_HTTP_SELECT_ACTIVE);
}


static void
ngx_http_select_listener_fail(ngx_http_select_listener_t *l, const char *why)
{
    ngx_http_select_listeners_t  *ls;

    ls = &ngx_http_select_listeners;

    if (!l->complained) {
        l->complained = 1;
        ngx_log_error(NGX_LOG_ERR, ls->log, 0,
                      "KV events of worker %uL rank %uD: %s; trying again "
                      "each second", l->rank->worker_id, l->rank->dp_rank,
                      why);
    }

    ngx_http_select_listener_state(l, NGX_HTTP_SELECT_FAILED);
    ngx_http_select_listener_queue(l, &ls->failed);
}


static void
ngx_http_select_listener_state(ngx_http_select_listener_t *l,
    ngx_http_select_state_e state)
{
    ngx_http_select_listeners.states[l->state]--;
    ngx_http_select_listeners.states[state]++;
    l->state = state;
}


/* Moves it to the end of a queue, or out of all, and sees to its event. */

static void
ngx_http_select_listener_queue(ngx_http_select_listener_t *l,
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

    if (queue == &ls->opening && !ls->open.posted) {
        ngx_post_event(&ls->open, &ngx_posted_next_events);

    } else if (queue == &ls->ready && !ls->receive.posted) {
        ngx_post_event(&ls->receive, &ngx_posted_next_events);

    } else if (queue == &ls->failed && !ls->retry.timer_set) {
        ngx_add_timer(&ls->retry, NGX_HTTP_SELECT_RETRY);
    }
}


static void
ngx_http_select_listener_readable(void *data)
{
    ngx_http_select_listener_t  *l;

    l = data;

    if (l->in == NULL) {
        ngx_http_select_listener_queue(l, &ngx_http_select_listeners.ready);
    }
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

        ngx_http_select_listener_queue(l, NULL);

        if (ngx_http_select_listener_receive(l, deadline)) {
            ngx_http_select_listener_queue(l, &ls->ready);
        }

        if (sel_clock_ns() >= deadline) {
            break;
        }
    }

    ngx_http_select_listeners_meter();

    if (!ngx_queue_empty(&ls->ready) && !ev->posted) {
        ngx_post_event(ev, &ngx_posted_next_events);
    }
}


/* Returns whether there may be more. */

static ngx_uint_t
ngx_http_select_listener_receive(ngx_http_select_listener_t *l,
    uint64_t deadline)
{
    int         n;
    sel_str_t   frames[NGX_HTTP_SELECT_FRAMES];
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_SELECT_MESSAGES; i++) {

        n = ngx_http_select_sub_receive(&l->sub, frames);

        if (n == 0) {
            return 0;
        }

        if (n < 0) {
            ngx_http_select_sub_close(&l->sub);
            ngx_http_select_listener_fail(l, "receiving failed");
            return 0;
        }

        (void) sel_kv_feed_message(l->feed, frames, (uint32_t) n, &l->sink,
                                   ngx_http_select_listeners.counts);

        if (sel_clock_ns() >= deadline) {
            break;
        }
    }

    return 1;
}


static void
ngx_http_select_listeners_retry(ngx_event_t *ev)
{
    ngx_http_select_listener_t   *l;
    ngx_http_select_listeners_t  *ls;

    ls = &ngx_http_select_listeners;

    while (!ngx_queue_empty(&ls->failed)) {
        l = ngx_queue_data(ngx_queue_head(&ls->failed),
                           ngx_http_select_listener_t, queue);

        ngx_http_select_listener_queue(l, &ls->opening);
    }
}
