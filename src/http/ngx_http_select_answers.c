/*
 * What the API families share.
 */

#include "core/sel_clock.h"
#include "http/ngx_http_select_api.h"
#include "http/ngx_http_select_path.h"
#include "ngx/ngx_http_select_ctx.h"
#include "ngx/ngx_http_select_text.h"


static void ngx_http_select_complain(ngx_http_request_t *r,
    const char *text);
static ngx_int_t ngx_http_select_filter(ngx_http_select_call_t *call,
    const char *name, sel_str_t *value);


ngx_int_t
ngx_http_select_prompt(ngx_http_select_call_t *call,
    ngx_http_select_read_pt read, ngx_http_select_run_pt run,
    ngx_uint_t status)
{
    uint64_t            since;
    ngx_int_t           rc;
    sel_str_t           id;
    sel_buf_t          *buf;
    sel_json_t          json;
    sel_fault_t         fault;
    sel_select_body_t   body;

    sel_json_init_text(&json, &call->arena, call->body);

    if (!read(&json, &body)) {
        return ngx_http_select_refuse(call, &json);
    }

    buf = ngx_http_select_buf(call->r);

    if (buf == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    since = sel_clock_ns();
    call->service->choice.endpoint.data = NULL;

    if (!run(call->service, &call->arena, &call->conf->settings, &body, buf,
             &fault))
    {
        return ngx_http_select_fault(call, &fault);
    }

    /* without memory the variables stay empty */

    if (call->service->choice.endpoint.data != NULL) {
        (void) ngx_http_select_keep_choice(call->r,
                                           ngx_http_select_ctx(call->r),
                                           call->service, since);
    }

    id = call->service->choice.id;
    rc = ngx_http_select_send(call->r, status, ngx_http_select_json, buf);

    if (call->books && (rc == NGX_ERROR || call->r->connection->error)) {

        /* the client has gone: nobody knows of the booking */

        (void) sel_book_free(call->service->zone, id);
    }

    return rc;
}


ngx_int_t
ngx_http_select_fault(ngx_http_select_call_t *call, const sel_fault_t *fault)
{
    static const ngx_uint_t  statuses[] = {
        NGX_HTTP_INTERNAL_SERVER_ERROR,
        NGX_HTTP_BAD_REQUEST,
        NGX_HTTP_NOT_FOUND,
        NGX_HTTP_CONFLICT,
        NGX_HTTP_SERVICE_UNAVAILABLE,
        NGX_HTTP_SERVICE_UNAVAILABLE,
        NGX_HTTP_INTERNAL_SERVER_ERROR
    };

    if (fault->class == SEL_FAULT_FULL) {
        ngx_http_select_complain(call->r, fault->text);
    }

    return ngx_http_select_send_error(call->r, statuses[fault->class],
                                      fault->text);
}


/* A full zone is told once a minute. */

static void
ngx_http_select_complain(ngx_http_request_t *r, const char *text)
{
    ngx_http_select_text_t  line;

    static time_t  next;

    if (ngx_time() >= next) {
        next = ngx_time() + 60;
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0, "%s",
                      ngx_http_select_printable(&line, text,
                                                ngx_strlen(text)));
    }
}


ngx_int_t
ngx_http_select_refuse(ngx_http_select_call_t *call, const sel_json_t *json)
{
    sel_fault_t  fault;

    if (json->status == SEL_JSON_NO_MEMORY) {
        (void) sel_fault_memory(&fault);
        return ngx_http_select_fault(call, &fault);
    }

    if (json->status == SEL_JSON_SYNTAX) {
        sel_count(call->service->zone, SEL_COUNT_BODY_SYNTAX, 1);
        (void) sel_fault(&fault, &call->arena, SEL_FAULT_BAD_REQUEST,
                         "Failed to parse the request body as JSON: %s",
                         json->message);

        return ngx_http_select_fault(call, &fault);
    }

    sel_count(call->service->zone, SEL_COUNT_BODY_DATA, 1);
    (void) sel_fault(&fault, &call->arena, SEL_FAULT_BAD_REQUEST,
                     "Failed to deserialize the JSON body into the target "
                     "type: %s", json->message);

    return ngx_http_select_send_error(call->r, NGX_HTTP_SELECT_UNPROCESSABLE,
                                      fault.text);
}


ngx_int_t
ngx_http_select_send_record(ngx_http_select_call_t *call, ngx_uint_t status,
    sel_str_t record)
{
    sel_buf_t  *buf;

    buf = ngx_http_select_buf(call->r);

    if (buf == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    sel_buf_str(buf, record);

    return ngx_http_select_send(call->r, status, ngx_http_select_json, buf);
}


ngx_int_t
ngx_http_select_filters(ngx_http_select_call_t *call, sel_str_t *model_name,
    sel_str_t *routing_group)
{
    ngx_int_t  rc;

    rc = ngx_http_select_filter(call, "model_name", model_name);

    return rc != NGX_DECLINED ? rc
           : ngx_http_select_filter(call, "routing_group", routing_group);
}


/* NGX_DECLINED: nothing wrong with it. */

static ngx_int_t
ngx_http_select_filter(ngx_http_select_call_t *call, const char *name,
    sel_str_t *value)
{
    char       *text;
    ngx_str_t   decoded;

    *value = (sel_str_t) { 0, NULL };

    switch (ngx_http_select_query(call->r, name, &decoded)) {

    case NGX_DECLINED:
        return NGX_DECLINED;

    case NGX_OK:
        *value = (sel_str_t) { decoded.len, decoded.data };
        return NGX_DECLINED;

    case NGX_ABORT:
        text = sel_arena_printf(&call->arena, "Failed to deserialize query "
                                "string: duplicate field `%s`", name);

        if (text != NULL) {
            return ngx_http_select_send_text(call->r, NGX_HTTP_BAD_REQUEST,
                                             text);
        }

        /* fall through */

    default:
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
}
