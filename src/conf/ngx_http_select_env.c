#include "conf/ngx_http_select_env.h"


/* sets the scale of the prefill term and, when 0, the credit as well */
#define NGX_HTTP_SELECT_WEIGHT      "DYN_ROUTER_KV_OVERLAP_SCORE_WEIGHT"
#define NGX_HTTP_SELECT_OLD_WEIGHT  "DYN_OVERLAP_SCORE_WEIGHT"


typedef struct {
    const char  *name;
    const char  *value;
} ngx_http_select_no_effect_t;


static const char *const  ngx_http_select_env_names[] = {
    "DYN_ROUTER_USE_KV_EVENTS",
    "DYN_USE_KV_EVENTS",
    "DYN_ROUTER_TRACK_PREFILL_TOKENS",
    NGX_HTTP_SELECT_WEIGHT,
    NGX_HTTP_SELECT_OLD_WEIGHT,
    "DYN_USE_REMOTE_INDEXER",
    "DYN_SHARED_CACHE_TYPE",
    "DYN_ROUTER_PREFILL_LOAD_MODEL"
};


static const ngx_http_select_no_effect_t  ngx_http_select_no_effects[] = {
    { "DYN_USE_REMOTE_INDEXER", "true" },
    { "DYN_SHARED_CACHE_TYPE", "hicache" },
    { "DYN_ROUTER_PREFILL_LOAD_MODEL", "aic" }
};


static const char *ngx_http_select_env_get(const char *name);
static ngx_int_t ngx_http_select_env_keep(ngx_conf_t *cf, const char *name);
static ngx_int_t ngx_http_select_env_value(ngx_conf_t *cf, const char *name,
    double *value);
static ngx_int_t ngx_http_select_env_weight(ngx_conf_t *cf, double *value);


char *
ngx_http_select_env_init(ngx_conf_t *cf)
{
    ngx_uint_t   i;
    const char  *value;

    for (i = 0; i < sel_countof(ngx_http_select_env_names); i++) {
        if (ngx_http_select_env_keep(cf, ngx_http_select_env_names[i])
            != NGX_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    for (i = 0; i < NGX_HTTP_SELECT_NUMBERS; i++) {
        if (ngx_http_select_env_keep(cf, ngx_http_select_numbers[i].variable)
            != NGX_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    for (i = 0; i < sel_countof(ngx_http_select_no_effects); i++) {
        value = ngx_http_select_env_get(ngx_http_select_no_effects[i].name);

        if (value != NULL
            && ngx_strcasecmp((u_char *) value,
                              (u_char *) ngx_http_select_no_effects[i].value)
               == 0)
        {
            ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                          "the environment variable %s=%s has no effect here",
                          ngx_http_select_no_effects[i].name, value);
        }
    }

    if (ngx_http_select_env_get(NGX_HTTP_SELECT_WEIGHT) != NULL
        || ngx_http_select_env_get(NGX_HTTP_SELECT_OLD_WEIGHT) != NULL)
    {
        ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                      "the environment variable "
                      NGX_HTTP_SELECT_WEIGHT " is deprecated, use "
                      "DYN_ROUTER_PREFILL_LOAD_SCALE");
    }

    return NGX_CONF_OK;
}


/* An empty variable is unset. */

static const char *
ngx_http_select_env_get(const char *name)
{
    const char  *value;

    value = getenv(name);

    return value != NULL && *value != '\0' ? value : NULL;
}


static ngx_int_t
ngx_http_select_env_keep(ngx_conf_t *cf, const char *name)
{
    ngx_str_t        *var;
    ngx_uint_t        i;
    ngx_core_conf_t  *ccf;

    ccf = (ngx_core_conf_t *) ngx_get_conf(cf->cycle->conf_ctx,
                                           ngx_core_module);
    var = ccf->env.elts;

    for (i = 0; i < ccf->env.nelts; i++) {
        if (ngx_strncmp(var[i].data, name, ngx_strlen(name)) == 0
            && (var[i].data[ngx_strlen(name)] == '='
                || var[i].data[ngx_strlen(name)] == '\0'))
        {
            return NGX_OK;
        }
    }

    var = ngx_array_push(&ccf->env);

    if (var == NULL) {
        return NGX_ERROR;
    }

    var->data = (u_char *) name;
    var->len = ngx_strlen(name);

    return NGX_OK;
}


ngx_flag_t
ngx_http_select_env_flag(ngx_conf_t *cf, const char *name, const char *older,
    const char **from)
{
    ngx_uint_t   i;
    const char  *value;

    static const char *const  words[] = {
        "0", "1", "false", "true", "no", "yes", "off", "on"
    };

    *from = "default";
    value = ngx_http_select_env_get(name);

    if (value == NULL && older != NULL) {
        name = older;
        value = ngx_http_select_env_get(name);
    }

    if (value == NULL) {
        return 1;
    }

    for (i = 0; i < sel_countof(words); i++) {
        if (ngx_strcasecmp((u_char *) value, (u_char *) words[i]) == 0) {
            *from = name;
            return i & 1;
        }
    }

    ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                  "the environment variable %s=%s is not a boolean "
                  "and is ignored", name, value);

    return 1;
}


char *
ngx_http_select_env_number(ngx_conf_t *cf, const ngx_http_select_number_t *row,
    double *value, const char **from)
{
    double  weight;

    *value = row->value;
    *from = "default";

    if (ngx_http_select_env_value(cf, row->variable, value) == NGX_OK) {

        *from = row->variable;

        if (*value < 0 || *value > row->max) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          row->max == 1.0
                          ? "the environment variable %s: "
                            "%s must be between 0 and 1"
                          : "the environment variable %s: "
                            "%s must be greater than or equal to 0",
                          row->variable, row->name);
            return NGX_CONF_ERROR;
        }
    }

    if (row->offset == offsetof(ngx_http_select_loc_conf_t,
                                prefill_load_scale)
        && ngx_http_select_env_weight(cf, &weight) == NGX_OK)
    {
        *value = weight;
        *from = NGX_HTTP_SELECT_WEIGHT;
    }

    if (row->offset == offsetof(ngx_http_select_loc_conf_t,
                                overlap_score_credit)
        && ngx_http_select_env_weight(cf, &weight) == NGX_OK && weight == 0)
    {
        *value = 0;
        *from = NGX_HTTP_SELECT_WEIGHT;
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_select_env_weight(ngx_conf_t *cf, double *value)
{
    double  weight;

    if ((ngx_http_select_env_value(cf, NGX_HTTP_SELECT_WEIGHT, &weight)
         == NGX_OK
         || ngx_http_select_env_value(cf, NGX_HTTP_SELECT_OLD_WEIGHT, &weight)
            == NGX_OK)
        && weight >= 0)
    {
        *value = weight;
        return NGX_OK;
    }

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_select_env_value(ngx_conf_t *cf, const char *name, double *value)
{
    ngx_str_t    text;
    const char  *raw;

    raw = ngx_http_select_env_get(name);

    if (raw == NULL) {
        return NGX_DECLINED;
    }

    text.data = (u_char *) raw;
    text.len = ngx_strlen(raw);

    if (ngx_http_select_parse_number(&text, value) == NGX_OK) {
        return NGX_OK;
    }

    ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                  "the environment variable %s=%s is not a number "
                  "and is ignored", name, raw);

    return NGX_DECLINED;
}
