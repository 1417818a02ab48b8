#include "conf/ngx_http_select_env.h"


#define NGX_HTTP_SELECT_WEIGHT      "DYN_ROUTER_KV_OVERLAP_SCORE_WEIGHT"
#define NGX_HTTP_SELECT_OLD_WEIGHT  "DYN_OVERLAP_SCORE_WEIGHT"


/* a variable that has no effect here when it asks for something */
typedef struct {
    const char  *name;
    const char  *none;          /* asks for nothing; NULL: a boolean */
    const char  *other;         /* the only other value */
    const char  *unknown;       /* refuses any further one */
} ngx_http_select_no_effect_t;


static const char *const  ngx_http_select_env_names[] = {
    "DYN_ROUTER_USE_KV_EVENTS",
    "DYN_USE_KV_EVENTS",
    "DYN_ROUTER_TRACK_PREFILL_TOKENS",
    "DYN_ROUTER_ASSUME_KV_REUSE",
    "DYN_ROUTER_ACTIVE_REQUEST_EXPIRY_SECS",
    "DYN_ROUTER_TTL_SECS",
    "DYN_ROUTER_PREDICTED_TTL_SECS",
    "DYN_ROUTER_APPROXIMATE_CACHE_POLICY",
    NGX_HTTP_SELECT_WEIGHT,
    NGX_HTTP_SELECT_OLD_WEIGHT,
    "DYN_USE_REMOTE_INDEXER",
    "DYN_SHARED_CACHE_TYPE",
    "DYN_ROUTER_PREFILL_LOAD_MODEL"
};


static const ngx_http_select_no_effect_t  ngx_http_select_no_effects[] = {

    { "DYN_USE_REMOTE_INDEXER", NULL, NULL, NULL },

    { "DYN_SHARED_CACHE_TYPE", "none", "hicache",
      "unknown shared_cache_type: \"%s\", expected 'none' or 'hicache'" },

    { "DYN_ROUTER_PREFILL_LOAD_MODEL", "none", "aic",
      "unknown prefill load model: \"%s\", expected 'none' or 'aic'" }
};


static ngx_int_t ngx_http_select_env_keep(ngx_conf_t *cf, const char *name);
static ngx_int_t ngx_http_select_env_no_effect(ngx_conf_t *cf,
    const ngx_http_select_no_effect_t *row);
static char *ngx_http_select_env_weight_init(ngx_conf_t *cf);


static double       ngx_http_select_weight;         /* below 0: not given */
static const char  *ngx_http_select_weight_from;


char *
ngx_http_select_env_init(ngx_conf_t *cf)
{
    ngx_uint_t  i;

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
        if (ngx_http_select_env_no_effect(cf, &ngx_http_select_no_effects[i])
            != NGX_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    return ngx_http_select_env_weight_init(cf);
}


static ngx_int_t
ngx_http_select_env_no_effect(ngx_conf_t *cf,
    const ngx_http_select_no_effect_t *row)
{
    const char  *value, *from;

    value = ngx_http_select_env_get(row->name);

    if (value == NULL) {
        return NGX_OK;
    }

    if (row->none == NULL) {
        if (!ngx_http_select_env_flag(cf, row->name, NULL, &from)
            || from != row->name)
        {
            return NGX_OK;
        }

    } else if (ngx_strcmp(value, row->none) == 0) {
        return NGX_OK;

    } else if (ngx_strcmp(value, row->other) != 0) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0, row->unknown, value);
        return NGX_ERROR;
    }

    ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                  "the environment variable %s=%s has no effect here",
                  row->name, value);

    return NGX_OK;
}


/*
 * The deprecated weight, read once: it sets the scale of the prefill term
 * and, when it is 0, the overlap credit as well.
 */

static char *
ngx_http_select_env_weight_init(ngx_conf_t *cf)
{
    double  value;

    ngx_http_select_weight = -1;
    ngx_http_select_weight_from = NGX_HTTP_SELECT_WEIGHT;

    if (ngx_http_select_env_get(NGX_HTTP_SELECT_WEIGHT) == NULL) {
        ngx_http_select_weight_from = NGX_HTTP_SELECT_OLD_WEIGHT;
    }

    if (ngx_http_select_env_value(cf, ngx_http_select_weight_from, &value)
        != NGX_OK)
    {
        return NGX_CONF_OK;
    }

    ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                  "the environment variable %s is deprecated, use "
                  "DYN_ROUTER_PREFILL_LOAD_SCALE",
                  ngx_http_select_weight_from);

    if (value < 0) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "the environment variable %s: prefill_load_scale must "
                      "be greater than or equal to 0",
                      ngx_http_select_weight_from);
        return NGX_CONF_ERROR;
    }

    ngx_http_select_weight = value;

    return NGX_CONF_OK;
}


const char *
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

    if (ngx_http_select_weight >= 0
        && (row->offset == offsetof(ngx_http_select_loc_conf_t,
                                    settings.cost.prefill_load_scale)
            || (row->offset == offsetof(ngx_http_select_loc_conf_t,
                                        settings.cost.overlap_score_credit)
                && ngx_http_select_weight == 0)))
    {
        *value = ngx_http_select_weight;
        *from = ngx_http_select_weight_from;
    }

    return NGX_CONF_OK;
}


ngx_int_t
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
