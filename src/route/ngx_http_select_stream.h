/*
 * What an engine's answer tells while it passes: events of a stream, and the
 * usage that stands in its last one or in a JSON answer.
 */

#ifndef NGX_HTTP_SELECT_STREAM_H
#define NGX_HTTP_SELECT_STREAM_H

#include <ngx_config.h>
#include <ngx_core.h>


/* so much is kept of a data line or a JSON answer, half of it at least from
   its end */
#define NGX_HTTP_SELECT_STREAM_LINE  16384


typedef enum {
    NGX_HTTP_SELECT_STREAM_OTHER = 0,   /* nothing is looked at */
    NGX_HTTP_SELECT_STREAM_JSON,
    NGX_HTTP_SELECT_STREAM_EVENTS
} ngx_http_select_stream_kind_t;


typedef struct {
    ngx_http_select_stream_kind_t  kind;
    ngx_uint_t                     state;       /* in a line */
    uint64_t                       events;      /* with data, but [DONE] */
    uint64_t                       tokens;      /* the engine's count */
    uint64_t                       cached;
    size_t                         len;         /* of the line so far */
    u_char                        *line;        /* NULL: not needed yet */
    unsigned                       data:1;      /* the event has data */
    unsigned                       has_tokens:1;
    unsigned                       has_cached:1;
} ngx_http_select_stream_t;


/* Passes bytes; NGX_ERROR when memory is exhausted. */
ngx_int_t ngx_http_select_stream_pass(ngx_http_select_stream_t *stream,
    ngx_pool_t *pool, const u_char *p, const u_char *last);

/* The answer has ended. */
void ngx_http_select_stream_end(ngx_http_select_stream_t *stream);


#endif /* NGX_HTTP_SELECT_STREAM_H */
