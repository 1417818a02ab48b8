#include <float.h>
#include "conf/ngx_http_select_number.h"
#include "core/sel_json_read.h"


#define NGX_HTTP_SELECT_FIELD(field)                                          \
    offsetof(ngx_http_select_loc_conf_t, settings.field)


const ngx_http_select_number_t
    ngx_http_select_numbers[NGX_HTTP_SELECT_NUMBERS] =
{

    { ngx_string("select_overlap_score_credit"),
      "DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT", "overlap_score_credit",
      1.0, DBL_MAX, NGX_HTTP_SELECT_FIELD(cost.overlap_score_credit), 0 },

    { ngx_string("select_overlap_score_credit_decay"),
      "DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT_DECAY",
      "overlap_score_credit_decay",
      0.0, DBL_MAX, NGX_HTTP_SELECT_FIELD(cost.overlap_score_credit_decay), 0 },

    { ngx_string("select_prefill_load_scale"),
      "DYN_ROUTER_PREFILL_LOAD_SCALE", "prefill_load_scale",
      1.0, DBL_MAX, NGX_HTTP_SELECT_FIELD(cost.prefill_load_scale), 0 },

    { ngx_string("select_active_request_weight"),
      "DYN_ROUTER_DECODE_ACTIVE_REQUEST_WEIGHT",
      "decode_active_request_weight",
      0.0, DBL_MAX, NGX_HTTP_SELECT_FIELD(cost.active_request_weight), 0 },

    { ngx_string("select_host_cache_weight"),
      "DYN_ROUTER_HOST_CACHE_HIT_WEIGHT", "host_cache_hit_weight",
      0.75, 1.0, NGX_HTTP_SELECT_FIELD(cost.host_weight), 0 },

    { ngx_string("select_disk_cache_weight"),
      "DYN_ROUTER_DISK_CACHE_HIT_WEIGHT", "disk_cache_hit_weight",
      0.25, 1.0, NGX_HTTP_SELECT_FIELD(cost.disk_weight), 0 },

    { ngx_string("select_temperature"),
      "DYN_ROUTER_TEMPERATURE", "router_temperature",
      0.0, DBL_MAX, NGX_HTTP_SELECT_FIELD(cost.temperature), 0 },

    { ngx_string("select_prefill_busy_threshold"),
      "DYN_ROUTER_CONDITIONAL_DISAGG_PREFILL_BUSY_THRESHOLD",
      "conditional_disagg_prefill_busy_threshold",
      NGX_HTTP_SELECT_OFF, DBL_MAX,
      NGX_HTTP_SELECT_FIELD(prefill_busy), 1 },

    { ngx_string("select_decode_busy_threshold"),
      "DYN_ROUTER_CONDITIONAL_DISAGG_DECODE_BUSY_THRESHOLD",
      "conditional_disagg_decode_busy_threshold",
      NGX_HTTP_SELECT_OFF, DBL_MAX,
      NGX_HTTP_SELECT_FIELD(decode_busy), 1 }
};


char *
ngx_http_select_set_number(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    double                            value;
    ngx_str_t                        *args;
    ngx_uint_t                        i;
    const ngx_http_select_number_t   *row;

    args = cf->args->elts;
    row = NULL;

    for (i = 0; i < NGX_HTTP_SELECT_NUMBERS; i++) {
        row = &ngx_http_select_numbers[i];

        if (row->directive.len == cmd->name.len
            && ngx_strncmp(row->directive.data, cmd->name.data,
                           cmd->name.len)
               == 0)
        {
            break;
        }
    }

    if (ngx_http_select_number(conf, row) != NGX_HTTP_SELECT_UNSET) {
        return "is duplicate";
    }

    if (row->off && ngx_strcmp(args[1].data, "off") == 0) {
        ngx_http_select_number(conf, row) = NGX_HTTP_SELECT_OFF;
        return NGX_CONF_OK;
    }

    if (ngx_http_select_parse_number(&args[1], &value) != NGX_OK
        || value < 0 || value > row->max)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           row->max == 1.0
                           ? "invalid value \"%V\" in \"%V\": "
                             "%s must be between 0 and 1"
                           : "invalid value \"%V\" in \"%V\": "
                             "%s must be greater than or equal to 0",
                           &args[1], &cmd->name, row->name);
        return NGX_CONF_ERROR;
    }

    ngx_http_select_number(conf, row) = value;

    return NGX_CONF_OK;
}


/* The grammar of JSON numbers, which the core's reader knows already. */

ngx_int_t
ngx_http_select_parse_number(ngx_str_t *text, double *value)
{
    bool         ok;
    sel_json_t   json;
    sel_arena_t  arena;

    sel_arena_init(&arena, 0);
    sel_json_init_text(&json, &arena, (sel_str_t) { text->len, text->data });

    ok = sel_json_f64(&json, value) && sel_json_end(&json);

    sel_arena_free(&arena);

    return ok ? NGX_OK : NGX_ERROR;
}
