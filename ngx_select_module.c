/*
 * The module's tables and life cycle: the only file that knows all rooms.
 */

#include "conf/ngx_http_select_routing.h"
#include "http/ngx_http_select_api.h"
#include "ngx/ngx_http_select_bells.h"
#include "ngx/ngx_http_select_process.h"
#include "ngx/ngx_http_select_zone.h"
#include "route/ngx_http_select_filter.h"
#include "route/ngx_http_select_upstream.h"
#include "route/ngx_http_select_variables.h"


/* below this, a fleet's listeners soon leave no connection for requests */
#define NGX_HTTP_SELECT_CONNECTIONS  8192

/* above this, an index in each worker process is seldom worth it */
#define NGX_HTTP_SELECT_PROCESSES    8


static ngx_int_t ngx_http_select_preconfiguration(ngx_conf_t *cf);
static ngx_int_t ngx_http_select_postconfiguration(ngx_conf_t *cf);
static ngx_http_select_main_conf_t *ngx_http_select_main_conf(
    ngx_cycle_t *cycle);
static ngx_int_t ngx_http_select_init_module(ngx_cycle_t *cycle);
static ngx_int_t ngx_http_select_init_process(ngx_cycle_t *cycle);
static void ngx_http_select_exit_process(ngx_cycle_t *cycle);


static ngx_uint_t  ngx_http_select_generation;


static ngx_http_module_t  ngx_http_select_module_ctx = {
    ngx_http_select_preconfiguration,      /* preconfiguration */
    ngx_http_select_postconfiguration,     /* postconfiguration */

    ngx_http_select_create_main_conf,      /* create main configuration */
    ngx_http_select_init_main_conf,        /* init main configuration */

    ngx_http_select_create_srv_conf,       /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_select_create_loc_conf,       /* create location configuration */
    ngx_http_select_merge_loc_conf         /* merge location configuration */
};


ngx_module_t  ngx_http_select_module = {
    NGX_MODULE_V1,
    &ngx_http_select_module_ctx,           /* module context */
    ngx_http_select_commands,              /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    ngx_http_select_init_module,           /* init module */
    ngx_http_select_init_process,          /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_http_select_exit_process,          /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static ngx_int_t
ngx_http_select_preconfiguration(ngx_conf_t *cf)
{
    ngx_http_select_handlers.service = ngx_http_select_service_handler;
    ngx_http_select_handlers.status = ngx_http_select_status_handler;
    ngx_http_select_handlers.router = ngx_http_select_router_handler;
    ngx_http_select_handlers.route = ngx_http_select_upstream_init;

    return ngx_http_select_variables_add(cf);
}


/* Filters cost each request a call: only where something is routed. */

static ngx_int_t
ngx_http_select_postconfiguration(ngx_conf_t *cf)
{
    ngx_http_select_main_conf_t  *mcf;

    mcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_select_module);

    if (!mcf->routes) {
        return NGX_OK;
    }

    return ngx_http_select_check_routes(cf) != NGX_OK
           ? NGX_ERROR : ngx_http_select_filter_init(cf);
}


/* NULL when the module has nothing to do. */

static ngx_http_select_main_conf_t *
ngx_http_select_main_conf(ngx_cycle_t *cycle)
{
    ngx_http_select_main_conf_t  *mcf;

    if (ngx_get_conf(cycle->conf_ctx, ngx_http_module) == NULL) {
        return NULL;
    }

    mcf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_select_module);

    return mcf != NULL && mcf->zone != NULL ? mcf : NULL;
}


static ngx_int_t
ngx_http_select_init_module(ngx_cycle_t *cycle)
{
    ngx_int_t                     n;
    ngx_core_conf_t              *ccf;
    ngx_http_select_main_conf_t  *mcf;

    mcf = ngx_http_select_main_conf(cycle);

    if (mcf == NULL) {
        return NGX_OK;
    }

    ngx_http_select_generation++;

    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);
    n = ccf->master ? ccf->worker_processes : 1;

    if (mcf->kv_events && n > NGX_HTTP_SELECT_PROCESSES) {
        ngx_log_error(NGX_LOG_WARN, cycle->log, 0,
                      "worker_processes %i: with select_kv_events each worker "
                      "process follows all KV events and holds an index of "
                      "its own; more than %d are seldom worth it",
                      n, NGX_HTTP_SELECT_PROCESSES);
    }

    if (mcf->kv_events && cycle->connection_n < NGX_HTTP_SELECT_CONNECTIONS) {
        ngx_log_error(NGX_LOG_WARN, cycle->log, 0,
                      "worker_connections %ui: with select_kv_events each "
                      "rank uses one connection in each worker process; "
                      "%d or more are advised", cycle->connection_n,
                      NGX_HTTP_SELECT_CONNECTIONS);
    }

    ngx_http_select_log_settings(cycle, mcf);

    ngx_http_select_bells_make(n, cycle->log);

    return NGX_OK;
}


/* Not in the cache manager and loader, which run this too. */

static ngx_int_t
ngx_http_select_init_process(ngx_cycle_t *cycle)
{
    ngx_http_select_start_t       start;
    ngx_http_select_main_conf_t  *mcf;

    mcf = ngx_http_select_main_conf(cycle);

    if (mcf == NULL || (ngx_process != NGX_PROCESS_WORKER
                        && ngx_process != NGX_PROCESS_SINGLE))
    {
        return NGX_OK;
    }

    ngx_memzero(&start, sizeof(ngx_http_select_start_t));

    start.zone = ngx_http_select_zone_handle(mcf->zone);
    start.settings.kv_events = mcf->kv_events;
    start.settings.silence = (uint64_t) mcf->silence * 1000000;
    start.settings.block_size = mcf->block_size != NGX_CONF_UNSET
                                ? (uint32_t) mcf->block_size : 0;
    start.settings.expire = (uint64_t) mcf->expire * 1000000;
    start.settings.session_ttl = (uint64_t) mcf->session_ttl * 1000000;
    start.settings.pending.ttl = (uint64_t) mcf->pending_ttl * 1000000;
    start.settings.pending.max = (uint32_t) mcf->pending_max;
    start.settings.pending.size = mcf->pending_size;
    start.settings.learn_ttl = (uint64_t) 1000000
                               * (mcf->kv_events ? mcf->predicted_ttl
                                                 : mcf->approximate_ttl);
    start.index_memory = mcf->index_memory;
    start.generation = ngx_http_select_generation;
    start.routes = mcf->routes;

    return ngx_http_select_process_start(cycle, &start);
}


static void
ngx_http_select_exit_process(ngx_cycle_t *cycle)
{
    ngx_http_select_process_stop();
}
