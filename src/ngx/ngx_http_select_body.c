#include "ngx/ngx_http_select.h"
#include "ngx/ngx_http_select_answer.h"
#include "ngx/ngx_http_select_body.h"


typedef struct {
    sel_buf_t                 *buf;
    size_t                     limit;
    ngx_http_select_body_pt    handler;
    void                      *data;
    unsigned                   too_large:1;
} ngx_http_select_body_t;


static void ngx_http_select_body_start(ngx_http_request_t *r);
static void ngx_http_select_body_read(ngx_http_request_t *r);
static void ngx_http_select_body_done(ngx_http_request_t *r,
    ngx_http_select_body_t *body);
static ngx_int_t ngx_http_select_body_take(ngx_http_request_t *r,
    ngx_http_select_body_t *body);
static ngx_int_t ngx_http_select_body_file(ngx_http_select_body_t *body,
    ngx_buf_t *b);


ngx_int_t
ngx_http_select_read_body(ngx_http_request_t *r, size_t limit,
    ngx_http_select_body_pt handler, void *data)
{
    ngx_int_t                rc;
    ngx_http_select_body_t  *body;

    /* before the body is read, so that no 100 (Continue) asks for it */

    if (r->headers_in.content_length_n > (off_t) limit) {

        if (r->headers_in.expect != NULL) {
            r->expect_tested = 1;
            r->keepalive = 0;
        }

        rc = ngx_http_discard_request_body(r);

        return rc == NGX_OK ? handler(r, NULL, data) : rc;
    }

    body = ngx_pcalloc(r->pool, sizeof(ngx_http_select_body_t));

    if (body == NULL) {
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

    ngx_http_set_ctx(r, body, ngx_http_select_module);

    r->request_body_no_buffering = 1;

    rc = ngx_http_read_client_request_body(r, ngx_http_select_body_start);

    return rc >= NGX_HTTP_SPECIAL_RESPONSE ? rc : NGX_DONE;
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
    ngx_http_select_body_t  *body;

    body = ngx_http_get_module_ctx(r, ngx_http_select_module);

    for ( ;; ) {
        rc = ngx_http_select_body_take(r, body);

        if (rc != NGX_OK) {
            ngx_http_finalize_request(r, rc);
            return;
        }

        if (!r->reading_body || body->too_large) {
            ngx_http_select_body_done(r, body);
            return;
        }

        rc = ngx_http_read_unbuffered_request_body(r);

        if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
            ngx_http_finalize_request(r, rc);
            return;
        }

        if (r->request_body->bufs == NULL && r->reading_body) {
            return;
        }
    }
}


static void
ngx_http_select_body_done(ngx_http_request_t *r, ngx_http_select_body_t *body)
{
    r->read_event_handler = ngx_http_block_reading;

    if (body->too_large && r->connection->read->timer_set) {
        ngx_del_timer(r->connection->read);
    }

    ngx_http_finalize_request(r, body->handler(r, body->too_large ? NULL
                                                                  : body->buf,
                                               body->data));
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
            body->too_large = 1;

        } else if (!body->too_large) {

            if (b->in_file && !ngx_buf_in_memory(b)) {
                if (ngx_http_select_body_file(body, b) != NGX_OK) {
                    return NGX_HTTP_INTERNAL_SERVER_ERROR;
                }

            } else {
                sel_buf_add(body->buf, b->pos, b->last - b->pos);
            }
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
