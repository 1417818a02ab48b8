#include "core/sel_json_text.h"
#include "http/ngx_http_select_api.h"
#include "http/ngx_http_select_path.h"
#include "ngx/ngx_http_select_body.h"


static ngx_int_t ngx_http_select_worker_id(const ngx_str_t *text,
    uint64_t *id);


ngx_int_t
ngx_http_select_post_workers(ngx_http_select_call_t *call)
{
    sel_str_t     record;
    sel_json_t    json;
    sel_fault_t   fault;
    sel_worker_t  worker;

    sel_json_init_text(&json, &call->arena, call->body);

    if (!sel_worker_read(&json, &worker) || !sel_json_end(&json)) {
        return ngx_http_select_refuse(call, &json);
    }

    if (!sel_worker_register(call->service, &call->arena, &worker, &record,
                             &fault))
    {
        return ngx_http_select_fault(call, &fault);
    }

    return ngx_http_select_send_record(call, NGX_HTTP_CREATED, record);
}


ngx_int_t
ngx_http_select_get_workers(ngx_http_select_call_t *call)
{
    ngx_int_t             rc;
    ngx_str_t             value;
    sel_buf_t            *buf;
    sel_fault_t           fault;
    sel_worker_filter_t   filter;

    rc = ngx_http_select_filters(call, &filter.model_name,
                                 &filter.routing_group);
    if (rc != NGX_DECLINED) {
        return rc;
    }

    filter.diagnostics = (ngx_http_select_query(call->r, "diagnostics",
                                                &value)
                          == NGX_OK
                          && value.len == 1 && value.data[0] == '1');

    buf = ngx_http_select_buf(call->r);

    if (buf == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (!sel_worker_list(call->service, &filter, buf, &fault)) {
        return ngx_http_select_fault(call, &fault);
    }

    return ngx_http_select_send(call->r, NGX_HTTP_OK, ngx_http_select_json,
                                buf);
}


ngx_int_t
ngx_http_select_patch_worker(ngx_http_select_call_t *call)
{
    uint64_t      id;
    sel_str_t     record;
    sel_json_t    json;
    sel_fault_t   fault;
    sel_worker_t  patch;

    (void) ngx_http_select_worker_id(&call->param, &id);

    sel_json_init_text(&json, &call->arena, call->body);

    if (!sel_worker_read_patch(&json, &patch) || !sel_json_end(&json)) {
        return ngx_http_select_refuse(call, &json);
    }

    if (!sel_worker_update(call->service, &call->arena, id, &patch, &record,
                           &fault))
    {
        return ngx_http_select_fault(call, &fault);
    }

    return ngx_http_select_send_record(call, NGX_HTTP_OK, record);
}


ngx_int_t
ngx_http_select_delete_worker(ngx_http_select_call_t *call)
{
    uint64_t     id;
    sel_str_t    record;
    sel_fault_t  fault;

    (void) ngx_http_select_worker_id(&call->param, &id);

    if (!sel_worker_delete(call->service, &call->arena, id, &record, &fault)) {
        return ngx_http_select_fault(call, &fault);
    }

    return ngx_http_select_send_record(call, NGX_HTTP_OK, record);
}


ngx_int_t
ngx_http_select_check_worker_id(ngx_http_select_call_t *call)
{
    char       *text;
    uint64_t    id;
    ngx_int_t   rc;
    sel_str_t   param;

    if (ngx_http_select_worker_id(&call->param, &id) == NGX_OK) {
        return NGX_DECLINED;
    }

    rc = ngx_http_select_discard_body(call->r);

    if (rc != NGX_OK) {
        return rc;
    }

    param = (sel_str_t) { call->param.len, call->param.data };

    if (sel_utf8_valid(param)) {
        text = sel_arena_printf(&call->arena,
                                "Invalid URL: Cannot parse `%.*s` to a `u64`",
                                (int) sel_utf8_cut(param, 128), param.data);
    } else {
        text = sel_arena_printf(&call->arena,
                                "Invalid URL: Invalid UTF-8 in `worker_id`");
    }

    if (text == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_select_send_text(call->r, NGX_HTTP_BAD_REQUEST, text);
}


static ngx_int_t
ngx_http_select_worker_id(const ngx_str_t *text, uint64_t *id)
{
    size_t    i;
    uint64_t  value, digit;

    i = (text->len > 1 && text->data[0] == '+');
    value = 0;

    if (text->len == 0) {
        return NGX_ERROR;
    }

    for ( /* void */ ; i < text->len; i++) {
        digit = (uint64_t) text->data[i] - '0';

        if (digit > 9 || value > (UINT64_MAX - digit) / 10) {
            return NGX_ERROR;
        }

        value = value * 10 + digit;
    }

    *id = value;

    return NGX_OK;
}
