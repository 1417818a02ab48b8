/*
 * Addresses of workers: where requests to a worker's endpoint go.
 */

#ifndef NGX_HTTP_SELECT_PEERS_H
#define NGX_HTTP_SELECT_PEERS_H

#include <ngx_config.h>
#include <ngx_core.h>
#include "service/sel_view.h"


typedef struct {
    struct sockaddr  *sockaddr;
    socklen_t         socklen;
    ngx_str_t         name;             /* for the log, as text */
} ngx_http_select_peer_t;


/*
 * The address of a worker now; NULL: it is not routable, or not yet.  The
 * result is good until the event loop goes on.
 */
const ngx_http_select_peer_t *ngx_http_select_peer(sel_view_worker_t *worker,
    ngx_log_t *log);

/* Has it one?  As above, but quicker for those with an address. */
ngx_uint_t ngx_http_select_routable(sel_view_worker_t *worker,
    ngx_log_t *log);

/* Looks the names of workers up that have no address yet. */
void ngx_http_select_peers_look(sel_view_t *view, ngx_log_t *log);

/* At the end of the process. */
void ngx_http_select_peers_stop(void);


#endif /* NGX_HTTP_SELECT_PEERS_H */
