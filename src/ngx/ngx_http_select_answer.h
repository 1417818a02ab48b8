/*
 * Answers: bytes with a status and a media type.
 */

#ifndef NGX_HTTP_SELECT_ANSWER_H
#define NGX_HTTP_SELECT_ANSWER_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "core/sel_buf.h"


/* what NGX_HTTP_* lacks */
#define NGX_HTTP_SELECT_UNPROCESSABLE  422

#define ngx_http_select_json  "application/json"
#define ngx_http_select_text  "text/plain; charset=utf-8"


/*
 * Sends buf as the whole answer and finishes; buf must live as long as the
 * request's pool.  type is a string literal.  Returns what a content handler
 * returns, or what the request is to be finalized with.
 */
ngx_int_t ngx_http_select_send(ngx_http_request_t *r, ngx_uint_t status,
    const char *type, sel_buf_t *buf);

/* Sends {"error": text}. */
ngx_int_t ngx_http_select_send_error(ngx_http_request_t *r,
    ngx_uint_t status, const char *text);

/* Sends text/plain. */
ngx_int_t ngx_http_select_send_text(ngx_http_request_t *r, ngx_uint_t status,
    const char *text);

/* A buffer that goes with the request; NULL when memory is exhausted. */
sel_buf_t *ngx_http_select_buf(ngx_http_request_t *r);


#endif /* NGX_HTTP_SELECT_ANSWER_H */
