/*
 * The way in.  The choice is made before the content phase, where a request
 * may wait for its body and be refused in words of its own; requests that do
 * not come by here (subrequests, variables in proxy_pass) are chosen for when
 * their upstream is initialised.
 */

#include "core/sel_json_write.h"
#include "ngx/ngx_http_select_answer.h"
#include "route/ngx_http_select_forward.h"


static void ngx_http_select_enter_body(ngx_http_request_t *r);
static ngx_http_upstream_srv_conf_t *ngx_http_select_enter_upstream(
    ngx_http_request_t *r);
static ngx_int_t ngx_http_select_enter_refuse(ngx_http_select_forward_t *f);


/* nginx may have been built without it */
extern ngx_module_t  ngx_http_proxy_module __attribute__((weak));


ngx_int_t
ngx_http_select_enter_handler(ngx_http_request_t *r)
{
    ngx_int_t                      rc;
    ngx_http_select_forward_t     *f;
    ngx_http_upstream_srv_conf_t  *us;

    if (r != r->main) {
        return NGX_DECLINED;
    }

    f = ngx_http_select_forwarded(r);

    if (f == NULL) {
        us = ngx_http_select_enter_upstream(r);

        if (us == NULL) {
            return NGX_DECLINED;
        }

        f = ngx_http_select_forward(r, us);

        if (f == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        f->waiting = 1;

        rc = ngx_http_read_client_request_body(r,
                                               ngx_http_select_enter_body);

        if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
            return rc;
        }

        ngx_http_finalize_request(r, NGX_DONE);

        return NGX_DONE;
    }

    if (f->waiting) {
        return NGX_DONE;
    }

    if (f->chosen || f->open) {
        return NGX_DECLINED;
    }

    rc = ngx_http_select_forward_choose(f);

    if (rc == NGX_OK) {
        return NGX_DECLINED;
    }

    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_finalize_request(r, ngx_http_select_enter_refuse(f));

    return NGX_DONE;
}


/* The body is there: on with the phases, to this handler once more. */

static void
ngx_http_select_enter_body(ngx_http_request_t *r)
{
    ngx_http_select_forward_t  *f;

    f = ngx_http_select_forwarded(r);

    f->waiting = 0;

    r->preserve_body = 1;
    r->write_event_handler = ngx_http_core_run_phases;

    ngx_http_core_run_phases(r);
}


/* The upstream block that proxy_pass names, if it is one of ours. */

static ngx_http_upstream_srv_conf_t *
ngx_http_select_enter_upstream(ngx_http_request_t *r)
{
    ngx_http_upstream_conf_t      *conf;
    ngx_http_core_loc_conf_t      *clcf;
    ngx_http_select_srv_conf_t    *scf;
    ngx_http_upstream_srv_conf_t  *us;

    if (&ngx_http_proxy_module == NULL) {
        return NULL;
    }

    /* the first member of the proxy module's configuration */

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
    conf = ngx_http_get_module_loc_conf(r, ngx_http_proxy_module);
    us = conf != NULL ? conf->upstream : NULL;

    if (clcf->handler == NULL || us == NULL || us->srv_conf == NULL) {
        return NULL;
    }

    scf = us->srv_conf[ngx_http_select_module.ctx_index];

    return scf->route ? us : NULL;
}


/* An error_page for it goes before the answer of our own. */

static ngx_int_t
ngx_http_select_enter_refuse(ngx_http_select_forward_t *f)
{
    sel_buf_t                 *buf;
    ngx_uint_t                 i;
    sel_json_out_t             out;
    ngx_http_err_page_t       *page;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(f->r, ngx_http_core_module);

    if (clcf->error_pages != NULL) {
        page = clcf->error_pages->elts;

        for (i = 0; i < clcf->error_pages->nelts; i++) {
            if ((ngx_uint_t) page[i].status == f->status) {
                return (ngx_int_t) f->status;
            }
        }
    }

    buf = ngx_http_select_buf(f->r);

    if (buf == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    sel_json_out_init(&out, buf);
    sel_json_out_object(&out);
    sel_json_out_key(&out, "error");
    sel_json_out_object(&out);
    sel_json_out_key(&out, "message");
    sel_json_out_text(&out, f->fault);
    sel_json_out_key(&out, "type");
    sel_json_out_text(&out, f->status == NGX_HTTP_BAD_REQUEST
                            ? "invalid_request_error" : "service_unavailable");
    sel_json_out_key(&out, "code");
    sel_json_out_u64(&out, f->status);
    sel_json_out_object_end(&out);
    sel_json_out_object_end(&out);

    return ngx_http_select_send(f->r, f->status, ngx_http_select_json, buf);
}
