#include "http/ngx_http_select_api.h"
#include "ngx/ngx_http_select_body.h"
#include "ngx/ngx_http_select_process.h"
#include "service/sel_metrics.h"


#define ngx_http_select_prometheus  "text/plain; version=0.0.4; charset=utf-8"


ngx_int_t
ngx_http_select_status_handler(ngx_http_request_t *r)
{
    ngx_int_t       rc;
    sel_buf_t      *buf;
    sel_service_t  *service;

    rc = ngx_http_select_discard_body(r);

    if (rc != NGX_OK) {
        return rc;
    }

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    service = ngx_http_select_service();

    if (service == NULL) {
        return ngx_http_select_send_error(r, NGX_HTTP_SERVICE_UNAVAILABLE,
                                          "selection service is starting");
    }

    buf = ngx_http_select_buf(r);

    if (buf == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_select_process_meter();

    if (!sel_metrics_print(service, buf)) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_select_send(r, NGX_HTTP_OK, ngx_http_select_prometheus,
                                buf);
}
