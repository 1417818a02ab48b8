#include "core/sel_clock.h"
#include "ngx/ngx_http_select_ctx.h"


static ngx_int_t ngx_http_select_keep(ngx_http_request_t *r, sel_str_t *str);


ngx_http_select_ctx_t *
ngx_http_select_ctx(ngx_http_request_t *r)
{
    ngx_http_select_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_select_module);

    if (ctx == NULL) {
        ctx = ngx_pcalloc(r->pool, sizeof(ngx_http_select_ctx_t));

        if (ctx != NULL) {
            ngx_http_set_ctx(r, ctx, ngx_http_select_module);
        }
    }

    return ctx;
}


ngx_int_t
ngx_http_select_keep_choice(ngx_http_request_t *r, ngx_http_select_ctx_t *ctx,
    const sel_service_t *service, uint64_t since)
{
    sel_choice_t  *choice;

    choice = &ctx->choice;
    *choice = service->choice;
    ctx->chosen = 0;

    if (ngx_http_select_keep(r, &choice->endpoint) != NGX_OK
        || ngx_http_select_keep(r, &choice->id) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ctx->chosen = 1;
    ctx->decision = sel_clock_ns() - since;

    return NGX_OK;
}


static ngx_int_t
ngx_http_select_keep(ngx_http_request_t *r, sel_str_t *str)
{
    u_char  *p;

    if (str->data == NULL) {
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, str->len + 1);

    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(p, str->data, str->len);
    p[str->len] = '\0';
    str->data = p;

    return NGX_OK;
}
