#include "http/ngx_http_select_api.h"
#include "service/sel_loads.h"
#include "service/sel_select.h"


ngx_int_t
ngx_http_select_post_select(ngx_http_select_call_t *call)
{
    return ngx_http_select_prompt(call, sel_read_select, sel_select,
                                  NGX_HTTP_OK);
}


ngx_int_t
ngx_http_select_post_overlap_scores(ngx_http_select_call_t *call)
{
    return ngx_http_select_prompt(call, sel_read_prompt, sel_overlap_scores,
                                  NGX_HTTP_OK);
}


ngx_int_t
ngx_http_select_post_potential_loads(ngx_http_select_call_t *call)
{
    return ngx_http_select_prompt(call, sel_read_prompt, sel_potential_loads,
                                  NGX_HTTP_OK);
}


ngx_int_t
ngx_http_select_post_best_worker(ngx_http_select_call_t *call)
{
    return ngx_http_select_prompt(call, sel_read_select, sel_best_worker,
                                  NGX_HTTP_OK);
}


ngx_int_t
ngx_http_select_get_loads(ngx_http_select_call_t *call)
{
    ngx_int_t     rc;
    sel_buf_t    *buf;
    sel_str_t     model_name, routing_group;
    sel_fault_t   fault;

    rc = ngx_http_select_filters(call, &model_name, &routing_group);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    buf = ngx_http_select_buf(call->r);

    if (buf == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (!sel_loads(call->service, &call->arena, model_name, routing_group,
                   buf, &fault))
    {
        return ngx_http_select_fault(call, &fault);
    }

    return ngx_http_select_send(call->r, NGX_HTTP_OK, ngx_http_select_json,
                                buf);
}
