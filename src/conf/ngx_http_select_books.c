#include "conf/ngx_http_select_books.h"
#include "conf/ngx_http_select_env.h"


#define NGX_HTTP_SELECT_YEAR  ((ngx_msec_t) 365 * 24 * 60 * 60 * 1000)


static char *ngx_http_select_pending_parameter(ngx_conf_t *cf,
    ngx_http_select_main_conf_t *mcf, ngx_str_t *arg);
static void ngx_http_select_default_time(ngx_conf_t *cf, const char *variable,
    ngx_msec_t value, const ngx_http_select_time_t *bounds, ngx_msec_t *time,
    const char **from);
static char *ngx_http_select_default_policy(ngx_conf_t *cf,
    ngx_http_select_main_conf_t *mcf);
static char *ngx_http_select_check_learning(ngx_conf_t *cf,
    ngx_http_select_main_conf_t *mcf);


ngx_http_select_time_t  ngx_http_select_silence_bounds = {
    1, NGX_HTTP_SELECT_YEAR, 1, "must be more than 0 and at most 365d, or off"
};

ngx_http_select_time_t  ngx_http_select_expire_bounds = {
    1000, NGX_HTTP_SELECT_YEAR, 0, "must be between 1s and 365d"
};

ngx_http_select_time_t  ngx_http_select_session_bounds = {
    1000, NGX_HTTP_SELECT_YEAR, 1,
    "must be between 1 and 31536000 seconds, or off"
};

ngx_http_select_time_t  ngx_http_select_approximate_bounds = {
    0, NGX_HTTP_SELECT_YEAR, 0, "must be at most 365d"
};

ngx_http_select_time_t  ngx_http_select_predicted_bounds = {
    0, NGX_HTTP_SELECT_YEAR, 1, "must be at most 365d, or off"
};


ngx_conf_enum_t  ngx_http_select_policies[] = {
    { ngx_string("ttl"), 0 },
    { ngx_string("lru"), 1 },
    { ngx_null_string, 0 }
};


char *
ngx_http_select_set_time(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_int_t                      value;
    ngx_str_t                     *args;
    ngx_msec_t                    *time;
    const ngx_http_select_time_t  *bounds;

    time = (ngx_msec_t *) ((char *) conf + cmd->offset);
    bounds = cmd->post;

    if (*time != NGX_CONF_UNSET_MSEC) {
        return "is duplicate";
    }

    args = cf->args->elts;

    if (bounds->off && ngx_strcmp(args[1].data, "off") == 0) {
        *time = 0;
        return NGX_CONF_OK;
    }

    value = ngx_parse_time(&args[1], 0);

    if (value == NGX_ERROR) {
        return "has an invalid time";
    }

    if ((ngx_msec_t) value < bounds->min || (ngx_msec_t) value > bounds->max) {
        return (char *) bounds->wrong;
    }

    *time = (ngx_msec_t) value;

    return NGX_CONF_OK;
}


char *
ngx_http_select_set_pending(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char                         *rv;
    ngx_str_t                    *args;
    ngx_uint_t                    i;
    ngx_http_select_main_conf_t  *mcf = conf;

    if (mcf->pending_set) {
        return "is duplicate";
    }

    mcf->pending_set = 1;
    args = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {
        rv = ngx_http_select_pending_parameter(cf, mcf, &args[i]);

        if (rv != NGX_CONF_OK) {
            return rv;
        }
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_select_pending_parameter(ngx_conf_t *cf,
    ngx_http_select_main_conf_t *mcf, ngx_str_t *arg)
{
    off_t       size;
    ngx_int_t   value;
    ngx_str_t   text;

    text = *arg;

    if (ngx_strncmp(arg->data, "ttl=", 4) == 0) {
        text.data += 4;
        text.len -= 4;
        value = ngx_parse_time(&text, 0);

        if (value != NGX_ERROR && (ngx_msec_t) value <= NGX_HTTP_SELECT_YEAR) {
            mcf->pending_ttl = (ngx_msec_t) value;
            return NGX_CONF_OK;
        }

    } else if (ngx_strncmp(arg->data, "max=", 4) == 0) {
        text.data += 4;
        text.len -= 4;
        value = ngx_atoi(text.data, text.len);

        if (value != NGX_ERROR && value <= INT32_MAX) {
            mcf->pending_max = (ngx_uint_t) value;
            return NGX_CONF_OK;
        }

    } else if (ngx_strncmp(arg->data, "size=", 5) == 0) {
        text.data += 5;
        text.len -= 5;
        size = ngx_parse_offset(&text);

        if (size != NGX_ERROR) {
            mcf->pending_size = (size_t) size;
            return NGX_CONF_OK;
        }
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\" of \"select_pending\"", arg);

    return NGX_CONF_ERROR;
}


void
ngx_http_select_books_create(ngx_http_select_main_conf_t *mcf)
{
    mcf->expire = NGX_CONF_UNSET_MSEC;
    mcf->session_ttl = NGX_CONF_UNSET_MSEC;
    mcf->approximate_ttl = NGX_CONF_UNSET_MSEC;
    mcf->predicted_ttl = NGX_CONF_UNSET_MSEC;
    mcf->lru = NGX_CONF_UNSET_UINT;
    mcf->pending_ttl = 120000;
    mcf->pending_max = 4096;
    mcf->pending_size = 268435456;
}


char *
ngx_http_select_books_init(ngx_conf_t *cf, ngx_http_select_main_conf_t *mcf)
{
    ngx_http_select_default_time(cf, "DYN_ROUTER_ACTIVE_REQUEST_EXPIRY_SECS",
                                 300000, &ngx_http_select_expire_bounds,
                                 &mcf->expire, &mcf->expire_from);

    ngx_http_select_default_time(cf, "DYN_ROUTER_TTL_SECS", 120000,
                                 &ngx_http_select_approximate_bounds,
                                 &mcf->approximate_ttl,
                                 &mcf->approximate_ttl_from);

    ngx_http_select_default_time(cf, "DYN_ROUTER_PREDICTED_TTL_SECS", 0,
                                 &ngx_http_select_predicted_bounds,
                                 &mcf->predicted_ttl,
                                 &mcf->predicted_ttl_from);

    if (mcf->session_ttl == NGX_CONF_UNSET_MSEC) {
        mcf->session_ttl = 0;
        mcf->session_ttl_from = "default";
    }

    if (!mcf->pending_set) {
        mcf->pending_from = "default";
    }

    if (ngx_http_select_default_policy(cf, mcf) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    return ngx_http_select_check_learning(cf, mcf);
}


/* The variable has seconds. */

static void
ngx_http_select_default_time(ngx_conf_t *cf, const char *variable,
    ngx_msec_t value, const ngx_http_select_time_t *bounds, ngx_msec_t *time,
    const char **from)
{
    double  seconds;

    if (*time != NGX_CONF_UNSET_MSEC) {
        return;
    }

    *time = value;
    *from = "default";

    if (ngx_http_select_env_value(cf, variable, &seconds) != NGX_OK) {
        return;
    }

    if (!(seconds * 1000 >= (double) bounds->min
          && seconds * 1000 <= (double) bounds->max))
    {
        ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                      "the environment variable %s %s, and is ignored",
                      variable, bounds->wrong);
        return;
    }

    *time = (ngx_msec_t) (seconds * 1000);
    *from = variable;
}


static char *
ngx_http_select_default_policy(ngx_conf_t *cf,
    ngx_http_select_main_conf_t *mcf)
{
    const char  *value;

    if (mcf->lru != NGX_CONF_UNSET_UINT) {
        return NGX_CONF_OK;
    }

    mcf->lru = 0;
    mcf->lru_from = "default";
    value = ngx_http_select_env_get("DYN_ROUTER_APPROXIMATE_CACHE_POLICY");

    if (value == NULL) {
        return NGX_CONF_OK;
    }

    mcf->lru_from = "DYN_ROUTER_APPROXIMATE_CACHE_POLICY";

    if (ngx_strcmp(value, "lru") == 0) {
        mcf->lru = 1;

    } else if (ngx_strcmp(value, "ttl") != 0) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "unknown approximate cache policy \"%s\", "
                      "expected 'ttl' or 'lru'", value);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_select_check_learning(ngx_conf_t *cf,
    ngx_http_select_main_conf_t *mcf)
{
    if (mcf->predicted_ttl != 0 && !mcf->kv_events) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "router_predicted_ttl_secs requires use_kv_events=true: "
                      "select_predicted_ttl needs select_kv_events on");
        return NGX_CONF_ERROR;
    }

    if (!mcf->lru) {
        return NGX_CONF_OK;
    }

    if (mcf->kv_events) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "router_approximate_cache_policy=lru requires "
                      "use_kv_events=false; the local side indexer is "
                      "TTL-only");
        return NGX_CONF_ERROR;
    }

    ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                  "select_approximate_policy lru is not implemented: "
                  "entries live for select_approximate_ttl");

    return NGX_CONF_OK;
}
