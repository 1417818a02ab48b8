#include "conf/ngx_http_select_books.h"
#include "conf/ngx_http_select_env.h"


static void ngx_http_select_settle(ngx_http_select_loc_conf_t *conf);
static ngx_uint_t ngx_http_select_no_prefix(ngx_http_core_loc_conf_t *clcf);
static char *ngx_http_select_defaults(ngx_conf_t *cf,
    ngx_http_select_main_conf_t *mcf, ngx_http_select_loc_conf_t *conf);
static char *ngx_http_select_default_session(ngx_conf_t *cf,
    ngx_http_select_loc_conf_t *conf);
static void ngx_http_select_body_limit(ngx_conf_t *cf,
    ngx_http_core_loc_conf_t *clcf, off_t inherited);


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
    conf->block_size = NGX_CONF_UNSET;
    conf->index_memory = NGX_CONF_UNSET_SIZE;
    conf->silence = NGX_CONF_UNSET_MSEC;
    ngx_http_select_books_create(conf);

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

    if (mcf->index_memory == NGX_CONF_UNSET_SIZE) {
        mcf->index_memory = (size_t) 2 << 30;
        mcf->index_memory_from = "default";
    }

    if (mcf->silence == NGX_CONF_UNSET_MSEC) {
        mcf->silence = 300000;
        mcf->silence_from = "default";
    }

    return ngx_http_select_books_init(cf, mcf);
}


void *
ngx_http_select_create_srv_conf(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(ngx_http_select_srv_conf_t));
}


void *
ngx_http_select_create_loc_conf(ngx_conf_t *cf)
{
    ngx_uint_t                   i;
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
    conf->assume_kv_reuse = NGX_CONF_UNSET;
    conf->track_blocks = NGX_CONF_UNSET;
    conf->load_aware = NGX_CONF_UNSET;
    conf->fallback = NGX_CONF_UNSET_UINT;
    conf->group = NGX_CONF_UNSET_PTR;
    conf->session = NGX_CONF_UNSET_PTR;
    conf->body_size = NGX_CONF_UNSET;

    return conf;
}


char *
ngx_http_select_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_uint_t                        i;
    ngx_http_core_loc_conf_t         *clcf;
    ngx_http_select_loc_conf_t       *prev = parent;
    ngx_http_select_loc_conf_t       *conf = child;
    ngx_http_select_main_conf_t      *mcf;
    const ngx_http_select_number_t   *row;

    mcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_select_module);

    if (mcf->zone == NULL) {
        return NGX_CONF_OK;
    }

    if (ngx_http_select_defaults(cf, mcf, prev) != NGX_CONF_OK) {
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
    ngx_conf_merge_value(conf->assume_kv_reuse, prev->assume_kv_reuse, 1);
    ngx_conf_merge_value(conf->track_blocks, prev->track_blocks, 1);
    ngx_conf_merge_value(conf->load_aware, prev->load_aware, 0);
    ngx_conf_merge_uint_value(conf->fallback, prev->fallback,
                              NGX_HTTP_SELECT_FALLBACK_LOAD);
    ngx_conf_merge_ptr_value(conf->group, prev->group, NULL);
    ngx_conf_merge_ptr_value(conf->session, prev->session, NULL);
    ngx_conf_merge_str_value(conf->rank_header, prev->rank_header,
                             "X-Data-Parallel-Rank");

    /* "if" and "limit_except" are locations of their own to nginx */

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (conf->handler == NULL && prev->handler != NULL && clcf->noname
        && clcf->handler == NULL)
    {
        conf->handler = prev->handler;
        clcf->handler = prev->handler;
    }

    if (conf->handler != NULL && clcf->handler != conf->handler) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "location \"%V\" has a select_* handler and another "
                      "one, such as proxy_pass", &clcf->name);
        return NGX_CONF_ERROR;
    }

    conf->no_prefix = clcf->noname ? prev->no_prefix
                                   : ngx_http_select_no_prefix(clcf);

    conf->body_size = clcf->client_max_body_size;

    if (conf->handler != NULL && conf->handler
                                 == ngx_http_select_handlers.service)
    {
        ngx_http_select_body_limit(cf, clcf, prev->body_size);
    }

    ngx_http_select_settle(conf);

    return NGX_CONF_OK;
}


/* What is in force; "load aware" is a set of settings. */

static void
ngx_http_select_settle(ngx_http_select_loc_conf_t *conf)
{
    sel_route_settings_t  *settings;

    settings = &conf->settings;

    settings->cost.track_prefill_tokens = conf->track_prefill_tokens;
    settings->assume_kv_reuse = conf->assume_kv_reuse;
    settings->track_blocks = conf->track_blocks;
    settings->look_up = !conf->load_aware;

    if (conf->load_aware) {
        settings->cost.overlap_score_credit = 0;
        settings->cost.track_prefill_tokens = true;
        settings->assume_kv_reuse = false;
        settings->track_blocks = true;
    }
}


static ngx_uint_t
ngx_http_select_no_prefix(ngx_http_core_loc_conf_t *clcf)
{
#if (NGX_PCRE)
    if (clcf->regex != NULL) {
        return 1;
    }
#endif

    return clcf->exact_match || clcf->named;
}


/*
 * Fills in what the http level does not set; below it everything is set.
 */

static char *
ngx_http_select_defaults(ngx_conf_t *cf, ngx_http_select_main_conf_t *mcf,
    ngx_http_select_loc_conf_t *conf)
{
    double                          *value;
    ngx_uint_t                       i;
    const ngx_http_select_number_t  *row;

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

    if (conf->assume_kv_reuse == NGX_CONF_UNSET) {
        conf->assume_kv_reuse = ngx_http_select_env_flag(cf,
                                    "DYN_ROUTER_ASSUME_KV_REUSE", NULL,
                                    &mcf->assume_kv_reuse_from);
    }

    return conf->session != NGX_CONF_UNSET_PTR ? NGX_CONF_OK
           : ngx_http_select_default_session(cf, conf);
}


static char *
ngx_http_select_default_session(ngx_conf_t *cf,
    ngx_http_select_loc_conf_t *conf)
{
    ngx_str_t                          value;
    ngx_http_compile_complex_value_t   ccv;

    ngx_str_set(&value, "$http_x_session_id");

    conf->session = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));

    if (conf->session == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = &value;
    ccv.complex_value = conf->session;

    return ngx_http_compile_complex_value(&ccv) == NGX_OK ? NGX_CONF_OK
                                                          : NGX_CONF_ERROR;
}


/*
 * nginx would answer a body above client_max_body_size with a page of its
 * own.  A location that does not set a limit (or the one that it inherits
 * anyway: they look the same here) gets none from nginx: the module has its
 * own and answers in JSON.
 */

static void
ngx_http_select_body_limit(ngx_conf_t *cf, ngx_http_core_loc_conf_t *clcf,
    off_t inherited)
{
    if (clcf->client_max_body_size == inherited) {
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
