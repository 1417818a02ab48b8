#include "route/ngx_http_select_forward.h"
#include "route/ngx_http_select_variables.h"


typedef enum {
    NGX_HTTP_SELECT_WORKER_ID = 0,
    NGX_HTTP_SELECT_DP_RANK,
    NGX_HTTP_SELECT_ENDPOINT,
    NGX_HTTP_SELECT_SELECTION_ID,
    NGX_HTTP_SELECT_OVERLAP_TOKENS,
    NGX_HTTP_SELECT_PREFILL_TOKENS,
    NGX_HTTP_SELECT_DECISION_TIME,
    NGX_HTTP_SELECT_QUEUE_TIME,
    NGX_HTTP_SELECT_REASON,
    NGX_HTTP_SELECT_CACHED_TOKENS,
    NGX_HTTP_SELECT_OUTPUT_TOKENS
} ngx_http_select_variable_t;


static ngx_int_t ngx_http_select_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_select_variable_choice(ngx_http_request_t *r,
    const ngx_http_select_ctx_t *ctx, ngx_http_select_variable_t which,
    ngx_str_t *text);
static ngx_int_t ngx_http_select_variable_forward(ngx_http_request_t *r,
    const ngx_http_select_forward_t *f, ngx_http_select_variable_t which,
    ngx_str_t *text);
static ngx_int_t ngx_http_select_variable_number(ngx_http_request_t *r,
    uint64_t value, ngx_str_t *text);
static ngx_int_t ngx_http_select_variable_time(ngx_http_request_t *r,
    uint64_t ns, ngx_str_t *text);


static const struct {
    ngx_str_t                   name;
    ngx_http_select_variable_t  which;
} ngx_http_select_variables[] = {
    { ngx_string("select_worker_id"), NGX_HTTP_SELECT_WORKER_ID },
    { ngx_string("select_dp_rank"), NGX_HTTP_SELECT_DP_RANK },
    { ngx_string("select_endpoint"), NGX_HTTP_SELECT_ENDPOINT },
    { ngx_string("select_selection_id"), NGX_HTTP_SELECT_SELECTION_ID },
    { ngx_string("select_overlap_tokens"), NGX_HTTP_SELECT_OVERLAP_TOKENS },
    { ngx_string("select_effective_prefill_tokens"),
      NGX_HTTP_SELECT_PREFILL_TOKENS },
    { ngx_string("select_decision_time"), NGX_HTTP_SELECT_DECISION_TIME },
    { ngx_string("select_queue_time"), NGX_HTTP_SELECT_QUEUE_TIME },
    { ngx_string("select_reason"), NGX_HTTP_SELECT_REASON },
    { ngx_string("select_cached_tokens"), NGX_HTTP_SELECT_CACHED_TOKENS },
    { ngx_string("select_output_tokens"), NGX_HTTP_SELECT_OUTPUT_TOKENS }
};


ngx_int_t
ngx_http_select_variables_add(ngx_conf_t *cf)
{
    ngx_str_t             name;
    ngx_uint_t            i;
    ngx_http_variable_t  *var;

    for (i = 0; i < sel_countof(ngx_http_select_variables); i++) {
        name = ngx_http_select_variables[i].name;
        var = ngx_http_add_variable(cf, &name, NGX_HTTP_VAR_NOCACHEABLE);

        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = ngx_http_select_variable;
        var->data = ngx_http_select_variables[i].which;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_select_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    ngx_int_t                    rc;
    ngx_str_t                    text;
    ngx_http_select_ctx_t       *ctx;
    ngx_http_select_variable_t   which;

    which = data;
    ctx = ngx_http_get_module_ctx(r, ngx_http_select_module);

    if (ctx == NULL) {
        rc = NGX_DECLINED;

    } else if (which >= NGX_HTTP_SELECT_REASON) {
        rc = ctx->forward != NULL
             ? ngx_http_select_variable_forward(r, ctx->forward, which, &text)
             : NGX_DECLINED;

    } else {
        rc = ctx->chosen
             ? ngx_http_select_variable_choice(r, ctx, which, &text)
             : NGX_DECLINED;
    }

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    v->not_found = (rc == NGX_DECLINED);
    v->valid = !v->not_found;
    v->no_cacheable = 0;

    if (rc == NGX_OK) {
        v->len = text.len;
        v->data = text.data;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_select_variable_choice(ngx_http_request_t *r,
    const ngx_http_select_ctx_t *ctx, ngx_http_select_variable_t which,
    ngx_str_t *text)
{
    const sel_choice_t  *choice;

    choice = &ctx->choice;

    switch (which) {

    case NGX_HTTP_SELECT_WORKER_ID:
        return ngx_http_select_variable_number(r, choice->worker_id, text);

    case NGX_HTTP_SELECT_DP_RANK:
        return ngx_http_select_variable_number(r, choice->dp_rank, text);

    case NGX_HTTP_SELECT_ENDPOINT:
        text->len = choice->endpoint.len;
        text->data = (u_char *) choice->endpoint.data;
        return NGX_OK;

    case NGX_HTTP_SELECT_SELECTION_ID:
        text->len = choice->id.len;
        text->data = (u_char *) choice->id.data;
        return choice->id.data != NULL ? NGX_OK : NGX_DECLINED;

    case NGX_HTTP_SELECT_OVERLAP_TOKENS:
        return ngx_http_select_variable_number(r, choice->overlap_tokens,
                                               text);

    case NGX_HTTP_SELECT_PREFILL_TOKENS:
        return ngx_http_select_variable_number(r, choice->prefill_tokens,
                                               text);

    case NGX_HTTP_SELECT_DECISION_TIME:
        return ngx_http_select_variable_time(r, ctx->decision, text);

    default: /* NGX_HTTP_SELECT_QUEUE_TIME: nothing waits */
        return ngx_http_select_variable_time(r, 0, text);
    }
}


static ngx_int_t
ngx_http_select_variable_forward(ngx_http_request_t *r,
    const ngx_http_select_forward_t *f, ngx_http_select_variable_t which,
    ngx_str_t *text)
{
    switch (which) {

    case NGX_HTTP_SELECT_REASON:
        text->data = (u_char *) f->reason;
        text->len = ngx_strlen(f->reason);
        return text->len != 0 ? NGX_OK : NGX_DECLINED;

    case NGX_HTTP_SELECT_CACHED_TOKENS:
        return f->stream.has_cached
               ? ngx_http_select_variable_number(r, f->stream.cached, text)
               : NGX_DECLINED;

    default: /* NGX_HTTP_SELECT_OUTPUT_TOKENS */
        return f->answered
               ? ngx_http_select_variable_number(r, f->stream.has_tokens
                                                    ? f->stream.tokens
                                                    : f->stream.events,
                                                 text)
               : NGX_DECLINED;
    }
}


static ngx_int_t
ngx_http_select_variable_number(ngx_http_request_t *r, uint64_t value,
    ngx_str_t *text)
{
    text->data = ngx_pnalloc(r->pool, NGX_INT64_LEN + 1);

    if (text->data == NULL) {
        return NGX_ERROR;
    }

    text->len = ngx_sprintf(text->data, "%uL", value) - text->data;

    return NGX_OK;
}


static ngx_int_t
ngx_http_select_variable_time(ngx_http_request_t *r, uint64_t ns,
    ngx_str_t *text)
{
    text->data = ngx_pnalloc(r->pool, NGX_INT64_LEN + sizeof(".000000"));

    if (text->data == NULL) {
        return NGX_ERROR;
    }

    text->len = ngx_sprintf(text->data, "%uL.%06uL", ns / 1000000000,
                            ns % 1000000000 / 1000)
                - text->data;

    return NGX_OK;
}
