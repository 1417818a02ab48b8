#include "conf/ngx_http_select_env.h"
#include "ngx/ngx_http_select_zone.h"


/* a body of the API has at most this many bytes */
#define NGX_HTTP_SELECT_BODY  (8 * 1024 * 1024)

#define NGX_HTTP_SELECT_ANY   NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF            \
                              |NGX_HTTP_LOC_CONF


static char *ngx_http_select_zone_directive(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_select_service_directive(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_select_status_directive(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_select_handle(ngx_conf_t *cf, void *conf,
    ngx_http_handler_pt handler);
static char *ngx_http_select_memory(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_http_select_defaults(ngx_conf_t *cf,
    ngx_http_select_loc_conf_t *conf);
static void ngx_http_select_body_limit(ngx_conf_t *cf,
    ngx_http_select_loc_conf_t *conf);
static void ngx_http_select_compile(ngx_http_select_loc_conf_t *conf);


static ngx_conf_num_bounds_t  ngx_http_select_threads = {
    ngx_conf_check_num_bounds, 1, 1024
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


ngx_http_select_handlers_t  ngx_http_select_handlers;


void *
ngx_http_select_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_select_main_conf_t  *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_http_select_main_conf_t));

    if (conf == NULL) {
        return NULL;
    }

    conf->kv_events = NGX_CONF_UNSET;
    conf->indexer_threads = NGX_CONF_UNSET;
    conf->index_memory = NGX_CONF_UNSET_SIZE;

    return conf;
}


char *
ngx_http_select_init_main_conf(ngx_conf_t *cf, void *conf)
{
    ngx_http_select_main_conf_t  *mcf = conf;

    if (mcf->zone == NULL) {
        return NGX_CONF_OK;
    }

    if (ngx_http_select_env_init(cf) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    if (mcf->kv_events == NGX_CONF_UNSET) {
        mcf->kv_events = ngx_http_select_env_flag(cf,
                             "DYN_ROUTER_USE_KV_EVENTS", "DYN_USE_KV_EVENTS",
                             &mcf->kv_events_from);
    }

    ngx_conf_init_size_value(mcf->index_memory, (size_t) 2 << 30);

    return NGX_CONF_OK;
}


void *
ngx_http_select_create_loc_conf(ngx_conf_t *cf)
{
    ngx_uint_t                   i;
    ngx_http_conf_ctx_t         *ctx;
    ngx_http_select_loc_conf_t  *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_http_select_loc_conf_t));

    if (conf == NULL) {
        return NULL;
    }

    for (i = 0; i < NGX_HTTP_SELECT_NUMBERS; i++) {
        ngx_http_select_number(conf, &ngx_http_select_numbers[i]) =
                                                        NGX_HTTP_SELECT_UNSET;
    }

    conf->track_prefill_tokens = NGX_CONF_UNSET;

    /* while a location's configuration is made, cf->ctx is its parent's */

    if (cf->cmd_type != NGX_MAIN_CONF) {
        ctx = cf->ctx;
        conf->parent = ctx->loc_conf[ngx_http_core_module.ctx_index];
    }

    return conf;
}


char *
ngx_http_select_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_uint_t                        i;
    ngx_http_core_loc_conf_t         *clcf;
    ngx_http_select_loc_conf_t       *prev = parent;
    ngx_http_select_loc_conf_t       *conf = child;
    const ngx_http_select_number_t   *row;

    if (ngx_http_select_defaults(cf, prev) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    for (i = 0; i < NGX_HTTP_SELECT_NUMBERS; i++) {
        row = &ngx_http_select_numbers[i];

        if (ngx_http_select_number(conf, row) == NGX_HTTP_SELECT_UNSET) {
            ngx_http_select_number(conf, row) = ngx_http_select_number(prev,
                                                                       row);
        }
    }

    ngx_conf_merge_value(conf->track_prefill_tokens,
                         prev->track_prefill_tokens, 1);

    /* "if" and "limit_except" are locations of their own to nginx */

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (conf->handler == NULL && prev->handler != NULL && clcf->noname
        && clcf->handler == NULL)
    {
        conf->handler = prev->handler;
        clcf->handler = prev->handler;
    }

    if (conf->handler != NULL && conf->handler
                                 == ngx_http_select_handlers.service)
    {
        ngx_http_select_body_limit(cf, conf);
    }

    ngx_http_select_compile(conf);

    return NGX_CONF_OK;
}


/*
 * Fills in what the http level does not set; below it everything is set.
 */

static char *
ngx_http_select_defaults(ngx_conf_t *cf, ngx_http_select_loc_conf_t *conf)
{
    double                          *value;
    ngx_uint_t                       i;
    ngx_http_select_main_conf_t     *mcf;
    const ngx_http_select_number_t  *row;

    mcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_select_module);

    for (i = 0; i < NGX_HTTP_SELECT_NUMBERS; i++) {
        row = &ngx_http_select_numbers[i];
        value = &ngx_http_select_number(conf, row);

        if (*value == NGX_HTTP_SELECT_UNSET
            && ngx_http_select_env_number(cf, row, value,
                                          &mcf->numbers_from[i])
               != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    if (conf->track_prefill_tokens == NGX_CONF_UNSET) {
        conf->track_prefill_tokens = ngx_http_select_env_flag(cf,
                                         "DYN_ROUTER_TRACK_PREFILL_TOKENS",
                                         NULL,
                                         &mcf->track_prefill_tokens_from);
    }

    return NGX_CONF_OK;
}


/*
 * nginx would answer a body above client_max_body_size with a page of its
 * own.  A location that does not set a limit gets none from nginx: the module
 * has its own and answers in JSON.
 */

static void
ngx_http_select_body_limit(ngx_conf_t *cf, ngx_http_select_loc_conf_t *conf)
{
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->client_max_body_size == conf->parent->client_max_body_size) {
        clcf->client_max_body_size = 0;
        return;
    }

    if (clcf->client_max_body_size != 0
        && clcf->client_max_body_size < NGX_HTTP_SELECT_BODY)
    {
        ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                      "client_max_body_size of the select_service location "
                      "\"%V\" is below the 8m that the API allows; nginx "
                      "answers larger bodies itself, in HTML", &clcf->name);
    }
}


static void
ngx_http_select_compile(ngx_http_select_loc_conf_t *conf)
{
    sel_route_settings_t  *s;

    s = &conf->settings;

    s->cost.overlap_score_credit = conf->overlap_score_credit;
    s->cost.overlap_score_credit_decay = conf->overlap_score_credit_decay;
    s->cost.prefill_load_scale = conf->prefill_load_scale;
    s->cost.active_request_weight = conf->active_request_weight;
    s->cost.host_weight = conf->host_cache_weight;
    s->cost.disk_weight = conf->disk_cache_weight;
    s->cost.temperature = conf->temperature;
    s->cost.track_prefill_tokens = conf->track_prefill_tokens;

    s->has_prefill_busy = conf->prefill_busy_threshold != NGX_HTTP_SELECT_OFF;
    s->prefill_busy = conf->prefill_busy_threshold;
    s->has_decode_busy = conf->decode_busy_threshold != NGX_HTTP_SELECT_OFF;
    s->decode_busy = conf->decode_busy_threshold;
}


static char *
ngx_http_select_zone_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ssize_t                       size;
    ngx_str_t                    *args;
    ngx_http_select_main_conf_t  *mcf = conf;

    args = cf->args->elts;

    if (mcf->zone != NULL) {
        return "is duplicate: there is one zone";
    }

    size = ngx_parse_size(&args[2]);

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

    if (mcf->zone == NULL || mcf->zone_name.len != args[1].len
        || ngx_strncmp(mcf->zone_name.data, args[1].data, args[1].len) != 0)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" names the unknown zone \"%V\": a "
                           "\"select_zone\" of that name must stand before",
                           &args[0], &args[1]);
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
    ssize_t                       size;
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

    size = ngx_parse_size(&args[1]);

    if (size == NGX_ERROR) {
        return "has an invalid size";
    }

    if (size < 1024 * 1024) {
        return "must be at least 1m, or off";
    }

    mcf->index_memory = size;

    return NGX_CONF_OK;
}
