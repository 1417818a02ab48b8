#include "core/sel_json_text.h"
#include "http/ngx_http_select_api.h"
#include "ngx/ngx_http_select_body.h"
#include "service/sel_reserve.h"


typedef bool (*ngx_http_select_event_pt)(sel_service_t *service,
    sel_arena_t *arena, sel_str_t id, sel_fault_t *fault);


static ngx_int_t ngx_http_select_event(ngx_http_select_call_t *call,
    ngx_http_select_event_pt event);
static ngx_int_t ngx_http_select_done(ngx_http_select_call_t *call);


ngx_int_t
ngx_http_select_post_select_and_reserve(ngx_http_select_call_t *call)
{
    call->books = 1;

    return ngx_http_select_prompt(call, sel_read_select_and_reserve,
                                  sel_select_and_reserve, NGX_HTTP_OK);
}


ngx_int_t
ngx_http_select_post_reservations(ngx_http_select_call_t *call)
{
    call->books = 1;

    return ngx_http_select_prompt(call, sel_read_reservation, sel_reserve,
                                  NGX_HTTP_CREATED);
}


ngx_int_t
ngx_http_select_post_prefill_complete(ngx_http_select_call_t *call)
{
    return ngx_http_select_event(call, sel_reservation_prefilled);
}


ngx_int_t
ngx_http_select_delete_reservation(ngx_http_select_call_t *call)
{
    return ngx_http_select_event(call, sel_reservation_free);
}


static ngx_int_t
ngx_http_select_event(ngx_http_select_call_t *call,
    ngx_http_select_event_pt event)
{
    sel_str_t    id;
    sel_fault_t  fault;

    id = (sel_str_t) { call->param.len, call->param.data };

    if (!event(call->service, &call->arena, id, &fault)) {
        return ngx_http_select_fault(call, &fault);
    }

    return ngx_http_select_done(call);
}


/* Without a body: as with an empty object. */

ngx_int_t
ngx_http_select_post_output_block(ngx_http_select_call_t *call)
{
    sel_str_t          id;
    sel_json_t         json;
    sel_fault_t        fault;
    sel_output_body_t  body;

    id = (sel_str_t) { call->param.len, call->param.data };

    sel_json_init_text(&json, &call->arena, call->body.len != 0
                                            ? call->body : sel_str("{}"));

    if (!sel_read_output_block(&json, &body)) {
        return ngx_http_select_refuse(call, &json);
    }

    if (!sel_reservation_output(call->service, &call->arena, id, &body,
                                &fault))
    {
        return ngx_http_select_fault(call, &fault);
    }

    return ngx_http_select_done(call);
}


static ngx_int_t
ngx_http_select_done(ngx_http_select_call_t *call)
{
    return ngx_http_select_send_record(call, NGX_HTTP_OK,
                                       sel_str("{\"status\":\"ok\"}"));
}


ngx_int_t
ngx_http_select_check_reservation_id(ngx_http_select_call_t *call)
{
    ngx_int_t  rc;

    if (sel_utf8_valid((sel_str_t) { call->param.len, call->param.data })) {
        return NGX_DECLINED;
    }

    rc = ngx_http_select_discard_body(call->r);

    return rc != NGX_OK ? rc
           : ngx_http_select_send_text(call->r, NGX_HTTP_BAD_REQUEST,
                   "Invalid URL: Invalid UTF-8 in `reservation_id`");
}
