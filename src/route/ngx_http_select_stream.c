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
    sel_json_t *json, ngx_uint_t level);
static bool ngx_http_select_stream_member(ngx_http_select_stream_t *stream,
    sel_json_t *json, sel_str_t name, ngx_uint_t level);


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


/* Of what is longer than a line may be, only the length is kept. */

static ngx_int_t
ngx_http_select_stream_keep(ngx_http_select_stream_t *stream,
    ngx_pool_t *pool, const u_char *p, size_t len)
{
    if (stream->line == NULL) {
        stream->line = ngx_pnalloc(pool, NGX_HTTP_SELECT_STREAM_LINE);

        if (stream->line == NULL) {
            return NGX_ERROR;
        }
    }

    if (stream->len + len <= NGX_HTTP_SELECT_STREAM_LINE) {
        ngx_memcpy(stream->line + stream->len, p, len);
    }

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


/* The line, or the answer, is an object that may have a usage. */

static void
ngx_http_select_stream_usage(ngx_http_select_stream_t *stream)
{
    sel_json_t   json;
    sel_arena_t  arena;

    if (stream->len == 0 || stream->len > NGX_HTTP_SELECT_STREAM_LINE
        || ngx_strlcasestrn(stream->line, stream->line + stream->len,
                            (u_char *) "\"usage\"", sizeof("\"usage\"") - 2)
           == NULL)
    {
        return;
    }

    sel_arena_init(&arena, NGX_HTTP_SELECT_STREAM_ARENA);
    sel_json_init_text(&json, &arena, (sel_str_t) { stream->len,
                                                    stream->line });

    (void) ngx_http_select_stream_object(stream, &json, 0);

    sel_arena_free(&arena);
}


/* Reads an object; the one of interest inside it is one level deeper. */

static bool
ngx_http_select_stream_object(ngx_http_select_stream_t *stream,
    sel_json_t *json, ngx_uint_t level)
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
        if (!ngx_http_select_stream_member(stream, json, name, level)) {
            return false;
        }
    }

    return rc == 0;
}


static bool
ngx_http_select_stream_member(ngx_http_select_stream_t *stream,
    sel_json_t *json, sel_str_t name, ngx_uint_t level)
{
    uint64_t  value;

    static const char *const  inner[] = { "usage", "prompt_tokens_details" };

    static const char *const  number[] = {
        NULL, "completion_tokens", "cached_tokens"
    };

    if (level < 2 && sel_str_eq(name, sel_cstr(inner[level]))) {
        return ngx_http_select_stream_object(stream, json, level + 1);
    }

    if (level == 0 || !sel_str_eq(name, sel_cstr(number[level]))
        || sel_json_peek(json) != SEL_JSON_NUMBER)
    {
        return sel_json_skip(json);
    }

    if (!sel_json_u64(json, &value)) {
        return false;
    }

    if (level == 1) {
        stream->tokens = value;
        stream->has_tokens = 1;

    } else {
        stream->cached = value;
        stream->has_cached = 1;
    }

    return true;
}
