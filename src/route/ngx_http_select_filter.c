#include "ngx/ngx_http_select_process.h"
#include "route/ngx_http_select_failures.h"
#include "route/ngx_http_select_filter.h"
#include "route/ngx_http_select_forward.h"


static ngx_int_t ngx_http_select_header_filter(ngx_http_request_t *r);
static ngx_http_select_stream_kind_t ngx_http_select_answer_kind(
    ngx_http_request_t *r);
static ngx_uint_t ngx_http_select_answer_failed(ngx_uint_t status);
static ngx_int_t ngx_http_select_body_filter(ngx_http_request_t *r,
    ngx_chain_t *in);
static ngx_int_t ngx_http_select_look(ngx_http_select_forward_t *f,
    ngx_chain_t *in);
static void ngx_http_select_prefilled(ngx_http_select_forward_t *f);
static void ngx_http_select_books(ngx_http_select_forward_t *f,
    uint64_t blocks);


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;
static ngx_http_output_body_filter_pt    ngx_http_next_body_filter;


ngx_int_t
ngx_http_select_filter_init(ngx_conf_t *cf)
{
    ngx_http_handler_pt        *h;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_PRECONTENT_PHASE].handlers);

    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_http_select_enter_handler;

    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_select_header_filter;

    ngx_http_next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = ngx_http_select_body_filter;

    return NGX_OK;
}


/*
 * A request is marked by its forwarding, not by its upstream: a page that
 * nginx answers with itself passes here as well.
 */

static ngx_int_t
ngx_http_select_header_filter(ngx_http_request_t *r)
{
    ngx_uint_t                  status;
    ngx_http_select_forward_t  *f;

    f = ngx_http_select_forwarded(r);

    if (f != NULL && !f->open && r->upstream != NULL
        && r->upstream->headers_in.status_n != 0
        && r->upstream->headers_in.status_n == r->headers_out.status)
    {
        status = r->headers_out.status;

        if (ngx_http_select_answer_failed(status)) {
            ngx_http_select_failed(f->upstream, f->ctx->choice.slot,
                                   f->ctx->choice.epoch, r->connection->log);
        } else {
            ngx_http_select_worked(f->ctx->choice.slot, f->ctx->choice.epoch);
        }

        f->stream.kind = ngx_http_select_answer_kind(r);
        f->answered = 1;
    }

    return ngx_http_next_header_filter(r);
}


static ngx_uint_t
ngx_http_select_answer_failed(ngx_uint_t status)
{
    return status == NGX_HTTP_INTERNAL_SERVER_ERROR
           || status == NGX_HTTP_BAD_GATEWAY
           || status == NGX_HTTP_SERVICE_UNAVAILABLE
           || status == NGX_HTTP_GATEWAY_TIME_OUT;
}


static ngx_http_select_stream_kind_t
ngx_http_select_answer_kind(ngx_http_request_t *r)
{
    ngx_str_t  *type;

    type = &r->headers_out.content_type;

    if (r->headers_out.content_encoding != NULL
        && r->headers_out.content_encoding->value.len != 0)
    {
        return NGX_HTTP_SELECT_STREAM_OTHER;
    }

    if (type->len >= 17
        && ngx_strncasecmp(type->data, (u_char *) "text/event-stream", 17)
           == 0)
    {
        return NGX_HTTP_SELECT_STREAM_EVENTS;
    }

    if (type->len >= 16
        && ngx_strncasecmp(type->data, (u_char *) "application/json", 16)
           == 0)
    {
        return NGX_HTTP_SELECT_STREAM_JSON;
    }

    return NGX_HTTP_SELECT_STREAM_OTHER;
}


static ngx_int_t
ngx_http_select_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    ngx_http_select_forward_t  *f;

    f = ngx_http_select_forwarded(r);

    if (f != NULL && f->answered && in != NULL
        && ngx_http_select_look(f, in) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_next_body_filter(r, in);
}


static ngx_int_t
ngx_http_select_look(ngx_http_select_forward_t *f, ngx_chain_t *in)
{
    uint64_t                   before;
    uint32_t                   size;
    ngx_buf_t                 *b;
    ngx_http_select_stream_t  *stream;

    stream = &f->stream;
    before = stream->events;

    for ( /* void */ ; in != NULL; in = in->next) {
        b = in->buf;

        if (ngx_buf_size(b) > 0 && !f->prefilled) {
            f->prefilled = 1;
            ngx_http_select_prefilled(f);
        }

        if (ngx_buf_in_memory(b)
            && ngx_http_select_stream_pass(stream, f->r->pool, b->pos,
                                           b->last)
               != NGX_OK)
        {
            return NGX_ERROR;
        }

        if (b->last_buf) {
            ngx_http_select_stream_end(stream);
        }
    }

    size = f->ctx->choice.block_size;

    if (size != 0 && stream->events / size != before / size) {
        ngx_http_select_books(f, stream->events / size - before / size);
    }

    return NGX_OK;
}


static void
ngx_http_select_prefilled(ngx_http_select_forward_t *f)
{
    sel_service_t  *service;

    service = ngx_http_select_service();

    if (f->booked && service != NULL) {
        (void) sel_served_prefilled(service->zone, f->ctx->choice.id);
    }
}


/* Output blocks of the booking. */

static void
ngx_http_select_books(ngx_http_select_forward_t *f, uint64_t blocks)
{
    sel_service_t  *service;

    service = ngx_http_select_service();

    for ( /* void */ ; f->booked && service != NULL && blocks != 0; blocks--) {
        (void) sel_served_output(service->zone, f->ctx->choice.id);
    }
}
