#include "http/ngx_http_select_api.h"
#include "service/sel_loads.h"
#include "service/sel_select.h"


typedef bool (*ngx_http_select_read_pt)(sel_json_t *json,
    sel_select_body_t *body);

typedef bool (*ngx_http_select_run_pt)(sel_service_t *service,
    sel_arena_t *arena, const sel_route_settings_t *settings,
    const sel_select_body_t *body, sel_buf_t *buf, sel_fault_t *fault);


static ngx_int_t ngx_http_select_prompt(ngx_http_select_call_t *call,
    ngx_http_select_read_pt read, ngx_http_select_run_pt run);


ngx_int_t
ngx_http_select_post_select(ngx_http_select_call_t *call)
{
    return ngx_http_select_prompt(call, sel_read_select, sel_select);
}


ngx_int_t
ngx_http_select_post_overlap_scores(ngx_http_select_call_t *call)
{
    return ngx_http_select_prompt(call, sel_read_prompt, sel_overlap_scores);
}


ngx_int_t
ngx_http_select_post_potential_loads(ngx_http_select_call_t *call)
{
    return ngx_http_select_prompt(call, sel_read_prompt, sel_potential_loads);
}


static ngx_int_t
ngx_http_select_prompt(ngx_http_select_call_t *call,
    ngx_http_select_read_pt read, ngx_http_select_run_pt run)
{
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

    if (!run(call->service, &call->arena, &call->conf->settings, &body, buf,
             &fault))
    {
        return ngx_http_select_fault(call, &fault);
    }

    return ngx_http_select_send(call->r, NGX_HTTP_OK, ngx_http_select_json,
                                buf);
}
