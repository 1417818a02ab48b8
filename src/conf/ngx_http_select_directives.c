/*
 * The directives: docs/directives.md describes each.
 */

#include "conf/ngx_http_select_books.h"
#include "conf/ngx_http_select_number.h"
#include "conf/ngx_http_select_routing.h"
#include "ngx/ngx_http_select_zone.h"


#define NGX_HTTP_SELECT_ANY   NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF            \
                              |NGX_HTTP_LOC_CONF


static char *ngx_http_select_zone_directive(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_select_service_directive(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_select_status_directive(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_select_router_directive(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_select_handle(ngx_conf_t *cf, void *conf,
    ngx_http_handler_pt handler);
static char *ngx_http_select_memory(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


static ngx_conf_num_bounds_t  ngx_http_select_threads = {
    ngx_conf_check_num_bounds, 1, 1024
};


static ngx_conf_num_bounds_t  ngx_http_select_block_sizes = {
    ngx_conf_check_num_bounds, 1, INT32_MAX
};


#define NGX_HTTP_SELECT_NUMBER_COMMAND(name)                                  \
    { ngx_string(name), NGX_HTTP_SELECT_ANY|NGX_CONF_TAKE1,                   \
      ngx_http_select_set_number, NGX_HTTP_LOC_CONF_OFFSET, 0, NULL }


ngx_command_t  ngx_http_select_commands[] = {

    { ngx_string("select_zone"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE2,
      ngx_http_select_zone_directive,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("select_service"),
      NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_select_service_directive,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("select_status"),
      NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_select_status_directive,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("select_kv_events"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_select_main_conf_t, kv_events),
      NULL },

    { ngx_string("select_index_memory"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_select_memory,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("select_silence_warning"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_select_set_time,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_select_main_conf_t, silence),
      &ngx_http_select_silence_bounds },

    { ngx_string("select_reservation_expire"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_select_set_time,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_select_main_conf_t, expire),
      &ngx_http_select_expire_bounds },

    { ngx_string("select_session_affinity"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_select_set_time,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_select_main_conf_t, session_ttl),
      &ngx_http_select_session_bounds },

    { ngx_string("select_approximate_ttl"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_select_set_time,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_select_main_conf_t, approximate_ttl),
      &ngx_http_select_approximate_bounds },

    { ngx_string("select_approximate_policy"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_select_main_conf_t, lru),
      &ngx_http_select_policies },

    { ngx_string("select_predicted_ttl"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_select_set_time,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_select_main_conf_t, predicted_ttl),
      &ngx_http_select_predicted_bounds },

    { ngx_string("select_pending"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_1MORE,
      ngx_http_select_set_pending,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("select_indexer_threads"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_select_main_conf_t, indexer_threads),
      &ngx_http_select_threads },

    { ngx_string("select_track_prefill_tokens"),
      NGX_HTTP_SELECT_ANY|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_select_loc_conf_t, track_prefill_tokens),
      NULL },

    { ngx_string("select_assume_kv_reuse"),
      NGX_HTTP_SELECT_ANY|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_select_loc_conf_t, assume_kv_reuse),
      NULL },

    { ngx_string("select_track_active_blocks"),
      NGX_HTTP_SELECT_ANY|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_select_loc_conf_t, track_blocks),
      NULL },

    { ngx_string("select_load_aware"),
      NGX_HTTP_SELECT_ANY|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_select_loc_conf_t, load_aware),
      NULL },

    { ngx_string("select_block_size"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_select_main_conf_t, block_size),
      &ngx_http_select_block_sizes },

    { ngx_string("select_router"),
      NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_select_router_directive,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("select_route"),
      NGX_HTTP_UPS_CONF|NGX_CONF_TAKE123,
      ngx_http_select_set_route,
      NGX_HTTP_SRV_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("select_route_fallback"),
      NGX_HTTP_SELECT_ANY|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_select_loc_conf_t, fallback),
      &ngx_http_select_fallbacks },

    { ngx_string("select_route_group"),
      NGX_HTTP_SELECT_ANY|NGX_CONF_TAKE1,
      ngx_http_set_complex_value_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_select_loc_conf_t, group),
      NULL },

    { ngx_string("select_route_session"),
      NGX_HTTP_SELECT_ANY|NGX_CONF_TAKE1,
      ngx_http_set_complex_value_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_select_loc_conf_t, session),
      NULL },

    { ngx_string("select_route_rank_header"),
      NGX_HTTP_SELECT_ANY|NGX_CONF_TAKE1,
      ngx_http_select_set_rank_header,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    NGX_HTTP_SELECT_NUMBER_COMMAND("select_overlap_score_credit"),
    NGX_HTTP_SELECT_NUMBER_COMMAND("select_overlap_score_credit_decay"),
    NGX_HTTP_SELECT_NUMBER_COMMAND("select_prefill_load_scale"),
    NGX_HTTP_SELECT_NUMBER_COMMAND("select_active_request_weight"),
    NGX_HTTP_SELECT_NUMBER_COMMAND("select_host_cache_weight"),
    NGX_HTTP_SELECT_NUMBER_COMMAND("select_disk_cache_weight"),
    NGX_HTTP_SELECT_NUMBER_COMMAND("select_temperature"),
    NGX_HTTP_SELECT_NUMBER_COMMAND("select_prefill_busy_threshold"),
    NGX_HTTP_SELECT_NUMBER_COMMAND("select_decode_busy_threshold"),

    ngx_null_command
};


static char *
ngx_http_select_zone_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    off_t                         size;
    ngx_str_t                    *args;
    ngx_http_select_main_conf_t  *mcf = conf;

    args = cf->args->elts;

    if (mcf->zone != NULL) {
        return "is duplicate: there is one zone";
    }

    if (args[1].len == 0) {
        return "has an empty name";
    }

    size = ngx_parse_offset(&args[2]);

    if (size == NGX_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid size \"%V\" of select_zone \"%V\"",
                           &args[2], &args[1]);
        return NGX_CONF_ERROR;
    }

    if (size < 1024 * 1024) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "select_zone \"%V\" is too small: "
                           "it must have at least 1m", &args[1]);
        return NGX_CONF_ERROR;
    }

    mcf->zone = ngx_http_select_zone_add(cf, &args[1], size,
                                         &ngx_http_select_module);
    mcf->zone_name = args[1];

    return mcf->zone != NULL ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static char *
ngx_http_select_service_directive(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    return ngx_http_select_handle(cf, conf, ngx_http_select_handlers.service);
}


static char *
ngx_http_select_status_directive(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    return ngx_http_select_handle(cf, conf, ngx_http_select_handlers.status);
}


static char *
ngx_http_select_router_directive(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    return ngx_http_select_handle(cf, conf, ngx_http_select_handlers.router);
}


static char *
ngx_http_select_handle(ngx_conf_t *cf, void *conf,
    ngx_http_handler_pt handler)
{
    ngx_str_t                    *args;
    ngx_http_core_loc_conf_t     *clcf;
    ngx_http_select_loc_conf_t   *lcf = conf;
    ngx_http_select_main_conf_t  *mcf;

    if (lcf->handler != NULL) {
        return lcf->handler == handler ? "is duplicate"
               : "cannot share its location with the other select_* handler";
    }

    args = cf->args->elts;
    mcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_select_module);

    if (ngx_http_select_check_zone(cf, mcf, args) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->handler != NULL) {
        return "stands in a location that has another handler already";
    }

    clcf->handler = handler;
    lcf->handler = handler;

    return NGX_CONF_OK;
}


static char *
ngx_http_select_memory(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    off_t                         size;
    ngx_str_t                    *args;
    ngx_http_select_main_conf_t  *mcf = conf;

    if (mcf->index_memory != NGX_CONF_UNSET_SIZE) {
        return "is duplicate";
    }

    args = cf->args->elts;

    if (ngx_strcmp(args[1].data, "off") == 0) {
        mcf->index_memory = 0;
        return NGX_CONF_OK;
    }

    size = ngx_parse_offset(&args[1]);

    if (size == NGX_ERROR) {
        return "has an invalid size";
    }

    if (size < 1024 * 1024) {
        return "must be at least 1m, or off";
    }

    mcf->index_memory = size;

    return NGX_CONF_OK;
}
