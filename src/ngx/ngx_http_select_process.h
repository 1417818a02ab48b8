/*
 * What one worker process runs: its entry in the process table, its service,
 * the bell, the listeners and the housekeeping timer.
 */

#ifndef NGX_HTTP_SELECT_PROCESS_H
#define NGX_HTTP_SELECT_PROCESS_H

#include <ngx_config.h>
#include <ngx_core.h>
#include "service/sel_service.h"


typedef struct {
    sel_zone_t      *zone;
    sel_settings_t   settings;
    size_t           index_memory;      /* bytes; 0: no limit */
    ngx_uint_t       generation;        /* of the configuration */
    ngx_uint_t       routes;            /* requests are forwarded */
} ngx_http_select_start_t;


/*
 * In a worker process, after the fork.  What can pass is retried later;
 * NGX_ERROR only when there is no memory for the first structures.
 */
ngx_int_t ngx_http_select_process_start(ngx_cycle_t *cycle,
    const ngx_http_select_start_t *start);

/* At the end of the worker process: closes, joins and leaves. */
void ngx_http_select_process_stop(void);

/* The service of this process, NULL when it does not run. */
sel_service_t *ngx_http_select_service(void);

/* Brings this process's values in the zone up to date. */
void ngx_http_select_process_meter(void);


#endif /* NGX_HTTP_SELECT_PROCESS_H */
