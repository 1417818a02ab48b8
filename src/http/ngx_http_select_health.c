#include "http/ngx_http_select_api.h"


ngx_int_t
ngx_http_select_get_health(ngx_http_select_call_t *call)
{
    return ngx_http_select_send_record(call, NGX_HTTP_OK,
                                       sel_str("{\"status\":\"ok\"}"));
}


ngx_int_t
ngx_http_select_get_ready(ngx_http_select_call_t *call)
{
    bool          ready;
    sel_buf_t    *buf;
    sel_fault_t   fault;

    buf = ngx_http_select_buf(call->r);

    if (buf == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (!sel_service_ready(call->service, buf, &ready, &fault)) {
        return ngx_http_select_fault(call, &fault);
    }

    return ngx_http_select_send(call->r, ready ? NGX_HTTP_OK
                                               : NGX_HTTP_SERVICE_UNAVAILABLE,
                                ngx_http_select_json, buf);
}
