/*
 * Request bodies, read unbuffered into one piece of memory, so that nothing
 * is written to disk and the limit holds for chunked bodies too.
 */

#ifndef NGX_HTTP_SELECT_BODY_H
#define NGX_HTTP_SELECT_BODY_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "core/sel_buf.h"


/*
 * Called once; its result finalizes the request.  rc is NGX_OK and body the
 * whole body, or body is NULL and rc tells why: the body is larger than the
 * limit (NGX_HTTP_REQUEST_ENTITY_TOO_LARGE) or cannot be read, as with broken
 * chunks (NGX_HTTP_BAD_REQUEST).
 */
typedef ngx_int_t (*ngx_http_select_body_pt)(ngx_http_request_t *r,
    ngx_int_t rc, sel_buf_t *body, void *data);


/*
 * Reads a body of at most limit bytes.  Returns what the content handler must
 * return.
 */
ngx_int_t ngx_http_select_read_body(ngx_http_request_t *r, size_t limit,
    ngx_http_select_body_pt handler, void *data);

/*
 * Discards the body of a request that is answered without it: NGX_OK, or what
 * the content handler must return.  A client that waits for 100 (Continue) is
 * not asked for the body.
 */
ngx_int_t ngx_http_select_discard_body(ngx_http_request_t *r);


#endif /* NGX_HTTP_SELECT_BODY_H */
