/*
 * The effective settings, for the log: what is in force and where it comes
 * from.
 */

#include "conf/ngx_http_select_number.h"
#include "core/sel_buf.h"
#include "core/sel_float.h"


static void ngx_http_select_put_number(sel_buf_t *buf,
    const ngx_http_select_number_t *row, double value, const char *from);
static void ngx_http_select_put_time(sel_buf_t *buf, const char *name,
    ngx_msec_t value, const char *from);
static void ngx_http_select_put(sel_buf_t *buf, const char *name,
    const char *value, const char *from);


void
ngx_http_select_log_settings(ngx_cycle_t *cycle,
    ngx_http_select_main_conf_t *mcf)
{
    u_char                           size[NGX_SIZE_T_LEN + 3], pending[128];
    sel_buf_t                        buf;
    ngx_uint_t                       i;
    ngx_http_conf_ctx_t             *ctx;
    ngx_http_select_loc_conf_t      *conf;
    const ngx_http_select_number_t  *row;

    ctx = (ngx_http_conf_ctx_t *) cycle->conf_ctx[ngx_http_module.index];
    conf = ctx->loc_conf[ngx_http_select_module.ctx_index];

    sel_buf_init(&buf);

    ngx_http_select_put(&buf, "select_kv_events", mcf->kv_events ? "on"
                                                                 : "off",
                        mcf->kv_events_from);

    (void) ngx_sprintf(size, "%uzm%Z", mcf->index_memory >> 20);

    ngx_http_select_put(&buf, "select_index_memory",
                        mcf->index_memory != 0 ? (char *) size : "off",
                        mcf->index_memory_from);

    ngx_http_select_put_time(&buf, "select_silence_warning", mcf->silence,
                             mcf->silence_from);
    ngx_http_select_put_time(&buf, "select_reservation_expire", mcf->expire,
                             mcf->expire_from);
    ngx_http_select_put_time(&buf, "select_session_affinity",
                             mcf->session_ttl, mcf->session_ttl_from);
    ngx_http_select_put_time(&buf, "select_approximate_ttl",
                             mcf->approximate_ttl, mcf->approximate_ttl_from);
    ngx_http_select_put(&buf, "select_approximate_policy",
                        mcf->lru ? "lru" : "ttl", mcf->lru_from);
    ngx_http_select_put_time(&buf, "select_predicted_ttl", mcf->predicted_ttl,
                             mcf->predicted_ttl_from);

    (void) ngx_sprintf(pending, "ttl=%Mms max=%ui size=%uz%Z",
                       mcf->pending_ttl, mcf->pending_max, mcf->pending_size);
    ngx_http_select_put(&buf, "select_pending", (char *) pending,
                        mcf->pending_from);

    for (i = 0; i < NGX_HTTP_SELECT_NUMBERS; i++) {
        row = &ngx_http_select_numbers[i];
        ngx_http_select_put_number(&buf, row,
                                   ngx_http_select_number(conf, row),
                                   mcf->numbers_from[i]);
    }

    ngx_http_select_put(&buf, "select_track_prefill_tokens",
                        conf->track_prefill_tokens ? "on" : "off",
                        mcf->track_prefill_tokens_from);
    ngx_http_select_put(&buf, "select_assume_kv_reuse",
                        conf->assume_kv_reuse ? "on" : "off",
                        mcf->assume_kv_reuse_from);

    if (!buf.failed) {
        ngx_log_error(NGX_LOG_NOTICE, cycle->log, 0,
                      "select_zone \"%V\", settings:%*s", &mcf->zone_name,
                      buf.len, buf.data);
    }

    sel_buf_free(&buf);
}


static void
ngx_http_select_put_number(sel_buf_t *buf, const ngx_http_select_number_t *row,
    double value, const char *from)
{
    char  text[SEL_FLOAT_TEXT];

    if (value == NGX_HTTP_SELECT_UNSET) {
        return;
    }

    if (value != NGX_HTTP_SELECT_OFF) {
        (void) sel_float_print64(value, text);
    }

    ngx_http_select_put(buf, (const char *) row->directive.data,
                        value == NGX_HTTP_SELECT_OFF ? "off" : text, from);
}


static void
ngx_http_select_put_time(sel_buf_t *buf, const char *name, ngx_msec_t value,
    const char *from)
{
    u_char  text[NGX_INT64_LEN + sizeof("ms")];

    (void) ngx_sprintf(text, "%Mms%Z", value);

    ngx_http_select_put(buf, name, value != 0 ? (char *) text : "off", from);
}


static void
ngx_http_select_put(sel_buf_t *buf, const char *name, const char *value,
    const char *from)
{
    sel_buf_printf(buf, " %s %s (%s);", name, value,
                   from != NULL ? from : "directive");
}
