/*
 * SUB sockets in the event loop, and libzmq's traps: edge-triggered
 * descriptors, LINGER, the limit of sockets, messages of many frames.
 */

#ifndef NGX_HTTP_SELECT_ZMQ_H
#define NGX_HTTP_SELECT_ZMQ_H

#include "core/sel_base.h"
#include "ngx/ngx_http_select_watch.h"


/* Frames of a message that are kept; a message may have more. */
#define NGX_HTTP_SELECT_FRAMES  4


typedef struct {
    void                     *socket;       /* NULL: closed */
    ngx_http_select_watch_t   watch;
} ngx_http_select_sub_t;


/*
 * Makes the process's context with room for `sockets` of them; NGX_ERROR after
 * logging.
 */
ngx_int_t ngx_http_select_zmq_start(ngx_uint_t sockets, ngx_log_t *log);

/* Ends the context; all sockets must be closed. */
void ngx_http_select_zmq_stop(void);

/*
 * Connects a SUB socket that receives every topic and watches it; handler and
 * data of sub->watch must be set.  NULL, or why it could not be done (a text
 * that stays valid until the next call).
 */
const char *ngx_http_select_sub_open(ngx_http_select_sub_t *sub,
    const char *endpoint, ngx_log_t *log);

void ngx_http_select_sub_close(ngx_http_select_sub_t *sub);

/*
 * Takes one message without waiting: the number of its frames (views in
 * frames, at most NGX_HTTP_SELECT_FRAMES of them, valid until the next call
 * for any socket), 0 when there is none, -1 when receiving failed.
 */
int ngx_http_select_sub_receive(ngx_http_select_sub_t *sub,
    sel_str_t frames[NGX_HTTP_SELECT_FRAMES]);


#endif /* NGX_HTTP_SELECT_ZMQ_H */
