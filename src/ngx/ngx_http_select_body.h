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
 * Called once with the whole body; its result finalizes the request.  body is
 * NULL when the body is larger than the limit; what is left of it is
 * discarded.
 */
typedef ngx_int_t (*ngx_http_select_body_pt)(ngx_http_request_t *r,
    sel_buf_t *body, void *data);


/*
 * Reads a body of at most limit bytes.  Returns what the content handler must
 * return.
 */
ngx_int_t ngx_http_select_read_body(ngx_http_request_t *r, size_t limit,
    ngx_http_select_body_pt handler, void *data);


#endif /* NGX_HTTP_SELECT_BODY_H */
