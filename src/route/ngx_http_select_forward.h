/*
 * A request that is forwarded: from the choice of a rank to the end of its
 * booking.  How the parts fit together: docs/router.md.
 */

#ifndef NGX_HTTP_SELECT_FORWARD_H
#define NGX_HTTP_SELECT_FORWARD_H

#include "conf/ngx_http_select_conf.h"
#include "ngx/ngx_http_select_ctx.h"
#include "route/ngx_http_select_stream.h"


/* ranks that are tried for one request, at most */
#define NGX_HTTP_SELECT_TRIES  8


typedef struct {
    uint64_t  worker_id;
    uint16_t  slot;
    uint32_t  epoch;
} ngx_http_select_tried_t;


/* Who may be chosen, one after the other until somebody can be. */
typedef enum {
    NGX_HTTP_SELECT_OTHERS = 0,         /* workers that were not tried and do
                                           not fail */
    NGX_HTTP_SELECT_OTHER_RANKS,        /* their other ranks, too */
    NGX_HTTP_SELECT_FAILED,             /* those that fail, too */
    NGX_HTTP_SELECT_NOBODY
} ngx_http_select_who_t;


typedef struct {
    ngx_http_request_t                *r;
    ngx_http_select_ctx_t             *ctx;
    ngx_http_select_loc_conf_t        *conf;
    const ngx_http_select_srv_conf_t  *upstream;
    ngx_table_elt_t                   *rank;        /* header to the engine */
    const char                        *reason;      /* $select_reason */
    const char                        *fault;       /* why nobody was chosen */
    ngx_uint_t                         status;      /* then */
    ngx_http_select_who_t              who;
    ngx_uint_t                         n_tried;
    ngx_http_select_tried_t            tried[NGX_HTTP_SELECT_TRIES];
    ngx_http_select_stream_t           stream;
    unsigned                           waiting:1;   /* for the body */
    unsigned                           chosen:1;    /* to be connected to */
    unsigned                           open:1;      /* to the own servers */
    unsigned                           booked:1;
    unsigned                           stale:1;     /* a connection was */
    unsigned                           answered:1;  /* by the engine */
    unsigned                           prefilled:1;
} ngx_http_select_forward_t;


/* The forwarded request of r; NULL when it is none. */
ngx_http_select_forward_t *ngx_http_select_forwarded(ngx_http_request_t *r);

/* Makes one; NULL when memory is exhausted. */
ngx_http_select_forward_t *ngx_http_select_forward(ngx_http_request_t *r,
    ngx_http_upstream_srv_conf_t *us);

/*
 * Chooses and books a rank that was not tried yet, from the request's body as
 * far as it has been read.  NGX_OK: f->chosen, or f->open; NGX_DECLINED:
 * nobody, f->fault tells why; NGX_ERROR.
 */
ngx_int_t ngx_http_select_forward_choose(ngx_http_select_forward_t *f);

/* Ends the booking, if there is one; _failed(): and the session's binding to
   the rank, which did not serve. */
void ngx_http_select_forward_free(ngx_http_select_forward_t *f);
void ngx_http_select_forward_failed(ngx_http_select_forward_t *f);

/* The handler before the content phase. */
ngx_int_t ngx_http_select_enter_handler(ngx_http_request_t *r);


#endif /* NGX_HTTP_SELECT_FORWARD_H */
