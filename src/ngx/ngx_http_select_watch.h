/*
 * A descriptor that is not ours in nginx's event loop: an eventfd, or what
 * libzmq gives out as ZMQ_FD.  Both are edge-triggered and never read here.
 */

#ifndef NGX_HTTP_SELECT_WATCH_H
#define NGX_HTTP_SELECT_WATCH_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


typedef void (*ngx_http_select_watch_pt)(void *data);


typedef struct {
    ngx_connection_t           *connection;     /* NULL: not watching */
    ngx_http_select_watch_pt    handler;
    ngx_http_select_watch_pt    shutdown;       /* the process was told to
                                                   end; may be NULL */
    void                       *data;
} ngx_http_select_watch_t;


/*
 * Calls watch->handler(watch->data) when fd becomes readable, and once soon,
 * since the edge may be past.  Uses one of worker_connections; NGX_ERROR when
 * there is none, or when nginx's event method is not edge-triggered.  fd stays
 * the caller's.
 */
ngx_int_t ngx_http_select_watch(ngx_http_select_watch_t *watch, int fd,
    ngx_log_t *log);

/* Stops; harmless when not watching. */
void ngx_http_select_unwatch(ngx_http_select_watch_t *watch);


#endif /* NGX_HTTP_SELECT_WATCH_H */
