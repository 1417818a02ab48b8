/*
 * The prompt of a body that is forwarded.
 */

#ifndef NGX_HTTP_SELECT_PROMPT_H
#define NGX_HTTP_SELECT_PROMPT_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "service/sel_request.h"


/* Bytes of the body that has been read; 0: there is none. */
off_t ngx_http_select_prompt_size(const ngx_http_request_t *r);

/*
 * Reads the members of a request's body that matter to a choice; true when it
 * has a prompt of token ids.  A body that cannot be read has none.  The model
 * name is empty when the body names none.
 */
bool ngx_http_select_prompt_read(ngx_http_request_t *r, sel_arena_t *arena,
    sel_select_body_t *body);


#endif /* NGX_HTTP_SELECT_PROMPT_H */
