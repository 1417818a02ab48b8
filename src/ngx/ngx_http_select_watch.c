#include "ngx/ngx_http_select_watch.h"


static void ngx_http_select_watch_event(ngx_event_t *ev);


ngx_int_t
ngx_http_select_watch(ngx_http_select_watch_t *watch, int fd, ngx_log_t *log)
{
    ngx_connection_t  *c;

    /* it is never read, so any other method would report it for ever */

    if (!(ngx_event_flags & NGX_USE_CLEAR_EVENT)) {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "the event method is not edge-triggered; "
                      "\"use epoll\" or \"use kqueue\"");
        return NGX_ERROR;
    }

    c = ngx_get_connection(fd, log);

    if (c == NULL) {
        return NGX_ERROR;
    }

    c->data = watch;
    c->log = log;
    c->read->log = log;
    c->write->log = log;
    c->read->handler = ngx_http_select_watch_event;

    if (ngx_add_event(c->read, NGX_READ_EVENT, NGX_CLEAR_EVENT) != NGX_OK) {
        ngx_free_connection(c);
        c->fd = (ngx_socket_t) -1;
        return NGX_ERROR;
    }

    /* marked idle, its handler is called when a shutdown begins */

    c->idle = 1;
    watch->connection = c;

    ngx_post_event(c->read, &ngx_posted_events);

    return NGX_OK;
}


static void
ngx_http_select_watch_event(ngx_event_t *ev)
{
    ngx_connection_t         *c;
    ngx_http_select_watch_t  *watch;

    c = ev->data;
    watch = c->data;

    if (c->close) {
        c->close = 0;
        c->idle = 0;

        if (watch->shutdown != NULL) {
            watch->shutdown(watch->data);
        }

        return;
    }

    watch->handler(watch->data);
}


/*
 * Not ngx_close_connection(): it would close the descriptor, which belongs to
 * someone else.
 */

void
ngx_http_select_unwatch(ngx_http_select_watch_t *watch)
{
    ngx_connection_t  *c;

    c = watch->connection;

    if (c == NULL) {
        return;
    }

    if (c->read->active) {
        (void) ngx_del_event(c->read, NGX_READ_EVENT, 0);
    }

    if (c->read->posted) {
        ngx_delete_posted_event(c->read);
    }

    ngx_free_connection(c);
    c->fd = (ngx_socket_t) -1;
    watch->connection = NULL;
}
