/*
 * What the module keeps of a request.
 */

#ifndef NGX_HTTP_SELECT_CTX_H
#define NGX_HTTP_SELECT_CTX_H

#include "ngx/ngx_http_select.h"
#include "service/sel_service.h"


typedef struct {
    void          *body;        /* how far its body has been read */
    void          *forward;     /* of a request that is forwarded */
    sel_choice_t   choice;      /* strings in the request's pool */
    uint64_t       decision;    /* time for it, nanoseconds */
    unsigned       chosen:1;
} ngx_http_select_ctx_t;


/* Makes one when there is none; NULL when memory is exhausted. */
ngx_http_select_ctx_t *ngx_http_select_ctx(ngx_http_request_t *r);

/*
 * Keeps the choice that the service made last for this request, copied.
 * since: sel_clock_ns() when the decision began.
 */
ngx_int_t ngx_http_select_keep_choice(ngx_http_request_t *r,
    ngx_http_select_ctx_t *ctx, const sel_service_t *service, uint64_t since);


#endif /* NGX_HTTP_SELECT_CTX_H */
