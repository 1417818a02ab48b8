#include "core/sel_json_write.h"
#include "ngx/ngx_http_select_answer.h"


static void ngx_http_select_buf_cleanup(void *data);


ngx_int_t
ngx_http_select_send(ngx_http_request_t *r, ngx_uint_t status,
    const char *type, sel_buf_t *buf)
{
    ngx_int_t     rc;
    ngx_buf_t    *b;
    ngx_chain_t   out;

    if (buf == NULL || buf->failed) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    r->headers_out.status = status;
    r->headers_out.content_length_n = buf->len;
    r->headers_out.content_type.len = ngx_strlen(type);
    r->headers_out.content_type.data = (u_char *) type;
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    b = ngx_calloc_buf(r->pool);

    if (b == NULL) {
        return NGX_ERROR;
    }

    b->pos = buf->data;
    b->last = buf->data + buf->len;
    b->memory = buf->len != 0;
    b->last_buf = (r == r->main);
    b->last_in_chain = 1;

    out.buf = b;
    out.next = NULL;

    return ngx_http_output_filter(r, &out);
}


ngx_int_t
ngx_http_select_send_error(ngx_http_request_t *r, ngx_uint_t status,
    const char *text)
{
    sel_buf_t       *buf;
    sel_json_out_t   out;

    buf = ngx_http_select_buf(r);

    if (buf == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    sel_json_out_init(&out, buf);
    sel_json_out_object(&out);
    sel_json_out_key(&out, "error");
    sel_json_out_text(&out, text);
    sel_json_out_object_end(&out);

    return ngx_http_select_send(r, status, ngx_http_select_json, buf);
}


ngx_int_t
ngx_http_select_send_text(ngx_http_request_t *r, ngx_uint_t status,
    const char *text)
{
    sel_buf_t  *buf;

    buf = ngx_http_select_buf(r);

    if (buf == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    sel_buf_text(buf, text);

    return ngx_http_select_send(r, status, ngx_http_select_text, buf);
}


sel_buf_t *
ngx_http_select_buf(ngx_http_request_t *r)
{
    sel_buf_t           *buf;
    ngx_pool_cleanup_t  *cln;

    cln = ngx_pool_cleanup_add(r->pool, sizeof(sel_buf_t));

    if (cln == NULL) {
        return NULL;
    }

    buf = cln->data;
    sel_buf_init(buf);
    cln->handler = ngx_http_select_buf_cleanup;

    return buf;
}


static void
ngx_http_select_buf_cleanup(void *data)
{
    sel_buf_free(data);
}
