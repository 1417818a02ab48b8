/*
 * The KV-event listeners of this process: one ZMQ SUB socket a rank, all in
 * the event loop.  Sockets are opened a few in a turn; one that cannot be
 * opened is failed, with a reason, and tried again later.  Messages are taken
 * in slices, so that no rank and no request has to wait for another's storm.
 */

#ifndef NGX_HTTP_SELECT_LISTENERS_H
#define NGX_HTTP_SELECT_LISTENERS_H

#include <ngx_config.h>
#include <ngx_core.h>
#include "service/sel_service.h"


/*
 * Before the view is made.  values: this process's values in the zone, or
 * NULL.
 */
void ngx_http_select_listeners_init(sel_service_t *service,
    _Atomic uint64_t *values, ngx_log_t *log);

/* What the view calls when ranks come and go. */
sel_view_host_t ngx_http_select_listeners_host(void);

/* Adds the counts so far to the process's values and sets its gauges. */
void ngx_http_select_listeners_meter(void);

/* After the view has gone: ends libzmq. */
void ngx_http_select_listeners_stop(void);


#endif /* NGX_HTTP_SELECT_LISTENERS_H */
