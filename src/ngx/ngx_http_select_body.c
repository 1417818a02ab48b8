#include "ngx/ngx_http_select_answer.h"
#include "ngx/ngx_http_select_body.h"
#include "ngx/ngx_http_select_ctx.h"


typedef struct {
    sel_buf_t                 *buf;
    size_t                     limit;
    ngx_http_select_body_pt    handler;
    void                      *data;
} ngx_http_select_body_t;


static void ngx_http_select_body_start(ngx_http_request_t *r);
static void ngx_http_select_body_read(ngx_http_request_t *r);
static ngx_int_t ngx_http_select_body_failed(ngx_http_request_t *r,
    ngx_http_select_body_t *body, ngx_int_t rc);
static ngx_int_t ngx_http_select_body_take(ngx_http_request_t *r,
    ngx_http_select_body_t *body);
static ngx_int_t ngx_http_select_body_file(ngx_http_select_body_t *body,
    ngx_buf_t *b);


ngx_int_t
ngx_http_select_read_body(ngx_http_request_t *r, size_t limit,
    ngx_http_select_body_pt handler, void *data)
{
    ngx_int_t                rc;
    ngx_http_select_ctx_t   *ctx;
    ngx_http_select_body_t  *body;

    if (r->headers_in.content_length_n > (off_t) limit) {
        rc = ngx_http_select_discard_body(r);

        return rc != NGX_OK ? rc
               : handler(r, NGX_HTTP_REQUEST_ENTITY_TOO_LARGE, NULL, data);
    }

    ctx = ngx_http_select_ctx(r);
    body = ngx_pcalloc(r->pool, sizeof(ngx_http_select_body_t));

    if (ctx == NULL || body == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    body->limit = limit;
    body->handler = handler;
    body->data = data;
    body->buf = ngx_http_select_buf(r);

    if (body->buf == NULL
        || (r->headers_in.content_length_n > 0
            && sel_buf_reserve(body->buf, r->headers_in.content_length_n)
               == NULL))
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ctx->body = body;

    r->request_body_no_buffering = 1;

    rc = ngx_http_read_client_request_body(r, ngx_http_select_body_start);

    return rc >= NGX_HTTP_SPECIAL_RESPONSE
           ? ngx_http_select_body_failed(r, body, rc) : NGX_DONE;
}


ngx_int_t
ngx_http_select_discard_body(ngx_http_request_t *r)
{
    if (r->headers_in.expect != NULL && !r->expect_tested) {
        r->expect_tested = 1;
        r->keepalive = 0;
    }

    return ngx_http_discard_request_body(r);
}


/* What nginx could not read, but the connection lives. */

static ngx_int_t
ngx_http_select_body_failed(ngx_http_request_t *r,
    ngx_http_select_body_t *body, ngx_int_t rc)
{
    if (rc != NGX_HTTP_BAD_REQUEST || r->connection->error) {
        return rc;
    }

    r->keepalive = 0;

    return body->handler(r, rc, NULL, body->data);
}


static void
ngx_http_select_body_start(ngx_http_request_t *r)
{
    if (r->reading_body) {
        r->read_event_handler = ngx_http_select_body_read;
    }

    ngx_http_select_body_read(r);
}


static void
ngx_http_select_body_read(ngx_http_request_t *r)
{
    ngx_int_t                rc;
    ngx_http_select_ctx_t   *ctx;
    ngx_http_select_body_t  *body;

    ctx = ngx_http_get_module_ctx(r, ngx_http_select_module);
    body = ctx->body;

    for ( ;; ) {
        rc = ngx_http_select_body_take(r, body);

        if (rc != NGX_OK || !r->reading_body) {
            break;
        }

        rc = ngx_http_read_unbuffered_request_body(r);

        if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
            rc = ngx_http_select_body_failed(r, body, rc);
            ngx_http_finalize_request(r, rc);
            return;
        }

        if (r->request_body->bufs == NULL && r->reading_body) {
            return;
        }
    }

    r->read_event_handler = ngx_http_block_reading;

    if (rc == NGX_HTTP_REQUEST_ENTITY_TOO_LARGE) {

        /* the rest is not read: nothing can come behind it */

        r->keepalive = 0;

        if (r->connection->read->timer_set) {
            ngx_del_timer(r->connection->read);
        }
    }

    if (rc == NGX_OK || rc == NGX_HTTP_REQUEST_ENTITY_TOO_LARGE) {
        rc = body->handler(r, rc, rc == NGX_OK ? body->buf : NULL,
                           body->data);
    }

    ngx_http_finalize_request(r, rc);
}


/* Moves what nginx has read to our buffer. */

static ngx_int_t
ngx_http_select_body_take(ngx_http_request_t *r, ngx_http_select_body_t *body)
{
    off_t         size;
    ngx_buf_t    *b;
    ngx_chain_t  *cl, *next;

    if (r->request_body == NULL) {
        return NGX_OK;
    }

    for (cl = r->request_body->bufs; cl != NULL; cl = next) {
        next = cl->next;
        b = cl->buf;
        size = ngx_buf_size(b);

        if (size > (off_t) (body->limit - body->buf->len)) {
            return NGX_HTTP_REQUEST_ENTITY_TOO_LARGE;
        }

        if (!b->in_file || ngx_buf_in_memory(b)) {
            sel_buf_add(body->buf, b->pos, b->last - b->pos);

        } else if (ngx_http_select_body_file(body, b) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        if (r->reading_body) {
            b->pos = b->last;
            ngx_free_chain(r->pool, cl);
        }
    }

    if (r->reading_body) {
        r->request_body->bufs = NULL;
    }

    return body->buf->failed ? NGX_HTTP_INTERNAL_SERVER_ERROR : NGX_OK;
}


/* Another module had the body read before us, into a file. */

static ngx_int_t
ngx_http_select_body_file(ngx_http_select_body_t *body, ngx_buf_t *b)
{
    size_t    size;
    ssize_t   n;
    uint8_t  *p;

    size = b->file_last - b->file_pos;
    p = sel_buf_reserve(body->buf, size);

    if (p == NULL) {
        return NGX_ERROR;
    }

    n = ngx_read_file(b->file, p, size, b->file_pos);

    if (n != (ssize_t) size) {
        return NGX_ERROR;
    }

    body->buf->len += size;

    return NGX_OK;
}
