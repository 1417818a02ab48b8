/*
 * One KV-event listener: the SUB socket of a rank and the rank's feed.
 *
 * A socket that hears nothing for some time is renewed: a second one is
 * opened, both are read for a moment (the feed knows what it has seen),
 * then the first is closed.  Nothing is lost by that, and it heals what
 * libzmq does not: a connection that it gave up after a fault in the
 * protocol, and a host name that means another address now.
 */

#ifndef NGX_HTTP_SELECT_LISTENER_H
#define NGX_HTTP_SELECT_LISTENER_H

#include "ngx/ngx_http_select_names.h"
#include "ngx/ngx_http_select_zmq.h"
#include "service/sel_ingest.h"


typedef struct {
    ngx_queue_t               queue;        /* for its owner */
    ngx_queue_t              *in;           /* the queue it stands in */
    ngx_http_select_sub_t     subs[2];
    ngx_uint_t                current;      /* of subs */
    ngx_http_select_name_t   *name;         /* a look-up is under way */
    char                      address[NGX_HTTP_SELECT_ADDRESS];
                                            /* its answer, until it is used */
    ngx_http_select_watch_pt  answered;
    sel_view_rank_t          *rank;
    sel_ingest_t              ingest;
    sel_kv_sink_t             sink;
    sel_kv_feed_t            *feed;
    ngx_msec_t                opened;       /* the current socket */
    ngx_msec_t                since;        /* last message, or last try */
    ngx_msec_t                patience;     /* before it is opened again */
    unsigned                  failing:1;    /* the log knows it */
    ngx_log_t                *log;
} ngx_http_select_listener_t;


/*
 * A listener for a rank, not open yet.  readable(listener) is called when its
 * socket may hold messages, answered(listener) when its host was looked up and
 * it is to be opened once more.  NULL when memory is exhausted.
 */
ngx_http_select_listener_t *ngx_http_select_listener_create(
    sel_service_t *service, sel_view_rank_t *rank,
    ngx_http_select_watch_pt readable, ngx_http_select_watch_pt answered,
    ngx_log_t *log);

void ngx_http_select_listener_destroy(ngx_http_select_listener_t *l);

/*
 * Opens or renews the socket; when the endpoint holds a host name, asks for
 * its address first.
 */
void ngx_http_select_listener_open(ngx_http_select_listener_t *l);

/* Whether it has a socket that another has replaced long enough ago. */
ngx_uint_t ngx_http_select_listener_replaced(
    const ngx_http_select_listener_t *l, ngx_msec_t now);

/* Closes that socket. */
void ngx_http_select_listener_close_old(ngx_http_select_listener_t *l);

/* Whether it is to be opened now. */
ngx_uint_t ngx_http_select_listener_due(ngx_http_select_listener_t *l,
    ngx_msec_t now);

/*
 * Takes up to n messages, or until the clock (sel_clock_ns()) reaches
 * deadline; adds to counts[SEL_KV_COUNTS].  Returns whether there may be
 * more.
 */
ngx_uint_t ngx_http_select_listener_receive(ngx_http_select_listener_t *l,
    ngx_uint_t n, uint64_t deadline, uint64_t *counts);


#endif /* NGX_HTTP_SELECT_LISTENER_H */
