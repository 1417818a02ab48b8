/*
 * Lines of an event stream end with LF, CR or both; an event is a data line
 * or several and ends with an empty one.  Engines send one data line an
 * event, and tokens are counted by events: those whose data is [DONE] or
 * without which the event would be empty do not count.
 */

#include "core/sel_json_read.h"
#include "route/ngx_http_select_stream.h"


#define NGX_HTTP_SELECT_STREAM_ARENA  (1024 * 1024)


/* where in a line the next byte stands */
enum {
    stream_start = 0,
    stream_field,               /* in "data:", as far as len */
    stream_space,               /* behind it: one space does not count */
    stream_value,
    stream_skip,                /* a line of no use */
    stream_cr                   /* the line has ended with CR */
};


static ngx_int_t ngx_http_select_stream_byte(ngx_http_select_stream_t *stream,
    ngx_pool_t *pool, u_char ch);
static ngx_int_t ngx_http_select_stream_keep(ngx_http_select_stream_t *stream,
    ngx_pool_t *pool, const u_char *p, size_t len);
static void ngx_http_select_stream_line(ngx_http_select_stream_t *stream);
static void ngx_http_select_stream_usage(ngx_http_select_stream_t *stream);
static bool ngx_http_select_stream_object(ngx_http_select_stream_t *stream,
    sel_json_t *json, bool details);
static bool ngx_http_select_stream_member(ngx_http_select_stream_t *stream,
    sel_json_t *json, sel_str_t name, bool details);


ngx_int_t
ngx_http_select_stream_pass(ngx_http_select_stream_t *stream,
    ngx_pool_t *pool, const u_char *p, const u_char *last)
{
    const u_char  *end;

    if (stream->kind == NGX_HTTP_SELECT_STREAM_JSON) {
        return ngx_http_select_stream_keep(stream, pool, p, last - p);
    }

    if (stream->kind != NGX_HTTP_SELECT_STREAM_EVENTS) {
        return NGX_OK;
    }

    while (p < last) {

        if (stream->state != stream_value && stream->state != stream_skip) {

            if (ngx_http_select_stream_byte(stream, pool, *p++) != NGX_OK) {
                return NGX_ERROR;
            }

            continue;
        }

        for (end = p; end < last && *end != '\n' && *end != '\r'; end++) {
            /* void */
        }

        if (stream->state == stream_value
            && ngx_http_select_stream_keep(stream, pool, p, end - p)
               != NGX_OK)
        {
            return NGX_ERROR;
        }

        p = end;

        if (p < last) {
            ngx_http_select_stream_line(stream);
            stream->state = *p++ == '\r' ? stream_cr : stream_start;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_select_stream_byte(ngx_http_select_stream_t *stream,
    ngx_pool_t *pool, u_char ch)
{
    static const u_char  field[] = "data:";

    if (stream->state == stream_cr) {
        stream->state = stream_start;

        if (ch == '\n') {
            return NGX_OK;
        }
    }

    if (ch == '\n' || ch == '\r') {
        ngx_http_select_stream_line(stream);
        stream->state = ch == '\r' ? stream_cr : stream_start;

        return NGX_OK;
    }

    switch (stream->state) {

    case stream_start:
        stream->len = 0;
        stream->state = stream_field;

        /* fall through */

    case stream_field:

        if (ch != field[stream->len]) {
            stream->state = stream_skip;

        } else if (++stream->len == sizeof(field) - 1) {
            stream->len = 0;
            stream->state = stream_space;
        }

        return NGX_OK;

    default: /* stream_space */
        stream->state = stream_value;

        return ch == ' ' ? NGX_OK
               : ngx_http_select_stream_keep(stream, pool, &ch, 1);
    }
}


/* Of what is longer the end is kept: usage stands there. */

static ngx_int_t
ngx_http_select_stream_keep(ngx_http_select_stream_t *stream,
    ngx_pool_t *pool, const u_char *p, size_t len)
{
    size_t  old;

    if (stream->line == NULL) {
        stream->line = ngx_pnalloc(pool, NGX_HTTP_SELECT_STREAM_LINE);

        if (stream->line == NULL) {
            return NGX_ERROR;
        }
    }

    if (len > NGX_HTTP_SELECT_STREAM_LINE / 2) {
        p += len - NGX_HTTP_SELECT_STREAM_LINE / 2;
        len = NGX_HTTP_SELECT_STREAM_LINE / 2;
    }

    if (stream->len + len > NGX_HTTP_SELECT_STREAM_LINE) {
        old = NGX_HTTP_SELECT_STREAM_LINE / 2;
        ngx_memmove(stream->line, stream->line + stream->len - old, old);
        stream->len = old;
    }

    ngx_memcpy(stream->line + stream->len, p, len);
    stream->len += len;

    return NGX_OK;
}


static void
ngx_http_select_stream_line(ngx_http_select_stream_t *stream)
{
    switch (stream->state) {

    case stream_start:

        /* an empty line: the event has ended */

        stream->events += stream->data;
        stream->data = 0;
        break;

    case stream_space:
    case stream_value:

        if (stream->len == sizeof("[DONE]") - 1
            && ngx_strncmp(stream->line, "[DONE]", stream->len) == 0)
        {
            break;
        }

        stream->data = 1;
        ngx_http_select_stream_usage(stream);
        break;

    default:
        break;
    }

    stream->len = 0;
}


void
ngx_http_select_stream_end(ngx_http_select_stream_t *stream)
{
    if (stream->kind == NGX_HTTP_SELECT_STREAM_JSON) {
        ngx_http_select_stream_usage(stream);
    }
}


/*
 * Looks for the last member "usage".  Inside a string its quotes would be
 * escaped, so that nothing else looks like it.
 */

static void
ngx_http_select_stream_usage(ngx_http_select_stream_t *stream)
{
    u_char       *p, *last;
    sel_json_t    json;
    sel_arena_t   arena;

    static const char  name[] = "\"usage\"";

    last = stream->line + stream->len;

    if (stream->len < sizeof(name)) {
        return;
    }

    for (p = last - sizeof(name);
         ngx_memcmp(p, name, sizeof(name) - 1) != 0;
         p--)
    {
        if (p == stream->line) {
            return;
        }
    }

    for (p += sizeof(name) - 1; p < last && *p != '{'; p++) {
        if (*p != ':' && *p != ' ') {
            return;
        }
    }

    sel_arena_init(&arena, NGX_HTTP_SELECT_STREAM_ARENA);
    sel_json_init_text(&json, &arena, (sel_str_t) { last - p, p });

    (void) ngx_http_select_stream_object(stream, &json, false);

    sel_arena_free(&arena);
}


/* Reads the usage, or the details in it. */

static bool
ngx_http_select_stream_object(ngx_http_select_stream_t *stream,
    sel_json_t *json, bool details)
{
    int        rc;
    sel_str_t  name;

    if (sel_json_peek(json) != SEL_JSON_OBJECT) {
        return sel_json_skip(json);
    }

    if (!sel_json_object_begin(json)) {
        return false;
    }

    while ((rc = sel_json_object_next(json, &name)) == 1) {
        if (!ngx_http_select_stream_member(stream, json, name, details)) {
            return false;
        }
    }

    return rc == 0;
}


static bool
ngx_http_select_stream_member(ngx_http_select_stream_t *stream,
    sel_json_t *json, sel_str_t name, bool details)
{
    uint64_t  value;

    if (!details && sel_str_eq(name, sel_str("prompt_tokens_details"))) {
        return ngx_http_select_stream_object(stream, json, true);
    }

    if (sel_json_peek(json) != SEL_JSON_NUMBER
        || !sel_str_eq(name, details ? sel_str("cached_tokens")
                                     : sel_str("completion_tokens")))
    {
        return sel_json_skip(json);
    }

    if (!sel_json_u64(json, &value)) {
        return false;
    }

    if (details) {
        stream->cached = value;
        stream->has_cached = 1;

    } else {
        stream->tokens = value;
        stream->has_tokens = 1;
    }

    return true;
}
