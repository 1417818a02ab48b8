/*
 * Routing.  The raw request URI is matched, since nginx's decoded one merges
 * slashes and hides what was escaped; the location's own prefix is taken off
 * first.  Segments are decoded after the match.  A rewritten URI has no raw
 * form and is matched as it is.
 */

#include "http/ngx_http_select_api.h"
#include "http/ngx_http_select_path.h"
#include "ngx/ngx_http_select_body.h"
#include "ngx/ngx_http_select_process.h"


/* of everything that is made from one body */
#define NGX_HTTP_SELECT_ARENA  (256 * 1024 * 1024)


typedef enum {
    NGX_HTTP_SELECT_NO_BODY = 0,        /* is not read */
    NGX_HTTP_SELECT_JSON,
    NGX_HTTP_SELECT_MAYBE_JSON          /* or none */
} ngx_http_select_body_t;


typedef struct {
    ngx_str_t                path;      /* "*": any one segment */
    ngx_uint_t               method;
    ngx_http_select_body_t   body;
    ngx_http_select_call_pt  check;     /* before the body; or NULL */
    ngx_http_select_call_pt  call;
} ngx_http_select_route_t;


static ngx_int_t ngx_http_select_handle_call(ngx_http_request_t *r,
    const ngx_http_select_route_t *routes);
static const ngx_http_select_route_t *ngx_http_select_route(
    ngx_http_select_call_t *call, const ngx_http_select_route_t *routes,
    ngx_int_t *rc);
static ngx_int_t ngx_http_select_media_type(ngx_http_select_call_t *call);
static ngx_int_t ngx_http_select_not_allowed(ngx_http_request_t *r,
    const ngx_http_select_route_t *routes, const ngx_str_t *path);
static ngx_http_select_call_t *ngx_http_select_call(ngx_http_request_t *r);
static void ngx_http_select_call_cleanup(void *data);
static ngx_int_t ngx_http_select_with_body(ngx_http_request_t *r,
    ngx_int_t rc, sel_buf_t *body, void *data);
static ngx_uint_t ngx_http_select_json_type(ngx_http_request_t *r);


static const ngx_http_select_route_t  ngx_http_select_routes[] = {

    { ngx_string("/workers"), NGX_HTTP_POST, NGX_HTTP_SELECT_JSON,
      NULL, ngx_http_select_post_workers },

    { ngx_string("/workers"), NGX_HTTP_GET, NGX_HTTP_SELECT_NO_BODY,
      NULL, ngx_http_select_get_workers },

    { ngx_string("/workers/*"), NGX_HTTP_PATCH, NGX_HTTP_SELECT_JSON,
      ngx_http_select_check_worker_id, ngx_http_select_patch_worker },

    { ngx_string("/workers/*"), NGX_HTTP_DELETE, NGX_HTTP_SELECT_NO_BODY,
      ngx_http_select_check_worker_id, ngx_http_select_delete_worker },

    { ngx_string("/health"), NGX_HTTP_GET, NGX_HTTP_SELECT_NO_BODY,
      NULL, ngx_http_select_get_health },

    { ngx_string("/ready"), NGX_HTTP_GET, NGX_HTTP_SELECT_NO_BODY,
      NULL, ngx_http_select_get_ready },

    { ngx_string("/select"), NGX_HTTP_POST, NGX_HTTP_SELECT_JSON,
      NULL, ngx_http_select_post_select },

    { ngx_string("/overlap_scores"), NGX_HTTP_POST, NGX_HTTP_SELECT_JSON,
      NULL, ngx_http_select_post_overlap_scores },

    { ngx_string("/potential_loads"), NGX_HTTP_POST, NGX_HTTP_SELECT_JSON,
      NULL, ngx_http_select_post_potential_loads },

    { ngx_string("/loads"), NGX_HTTP_GET, NGX_HTTP_SELECT_NO_BODY,
      NULL, ngx_http_select_get_loads },

    { ngx_string("/select_and_reserve"), NGX_HTTP_POST, NGX_HTTP_SELECT_JSON,
      NULL, ngx_http_select_post_select_and_reserve },

    { ngx_string("/reservations"), NGX_HTTP_POST, NGX_HTTP_SELECT_JSON,
      NULL, ngx_http_select_post_reservations },

    { ngx_string("/reservations/*/prefill_complete"), NGX_HTTP_POST,
      NGX_HTTP_SELECT_NO_BODY,
      ngx_http_select_check_reservation_id,
      ngx_http_select_post_prefill_complete },

    { ngx_string("/reservations/*/output_block"), NGX_HTTP_POST,
      NGX_HTTP_SELECT_MAYBE_JSON,
      ngx_http_select_check_reservation_id,
      ngx_http_select_post_output_block },

    { ngx_string("/reservations/*"), NGX_HTTP_DELETE, NGX_HTTP_SELECT_NO_BODY,
      ngx_http_select_check_reservation_id,
      ngx_http_select_delete_reservation },

    { ngx_null_string, 0, NGX_HTTP_SELECT_NO_BODY, NULL, NULL }
};


static const ngx_http_select_route_t  ngx_http_select_router_routes[] = {

    { ngx_string("/best_worker_id"), NGX_HTTP_POST, NGX_HTTP_SELECT_JSON,
      NULL, ngx_http_select_post_best_worker },

    { ngx_string("/get_overlap_scores"), NGX_HTTP_POST, NGX_HTTP_SELECT_JSON,
      NULL, ngx_http_select_post_overlap_scores },

    { ngx_null_string, 0, NGX_HTTP_SELECT_NO_BODY, NULL, NULL }
};


static const struct {
    ngx_uint_t   method;
    const char  *name;
} ngx_http_select_methods[] = {
    { NGX_HTTP_GET, "GET,HEAD" },
    { NGX_HTTP_POST, "POST" },
    { NGX_HTTP_PATCH, "PATCH" },
    { NGX_HTTP_DELETE, "DELETE" }
};


ngx_int_t
ngx_http_select_service_handler(ngx_http_request_t *r)
{
    return ngx_http_select_handle_call(r, ngx_http_select_routes);
}


ngx_int_t
ngx_http_select_router_handler(ngx_http_request_t *r)
{
    return ngx_http_select_handle_call(r, ngx_http_select_router_routes);
}


static ngx_int_t
ngx_http_select_handle_call(ngx_http_request_t *r,
    const ngx_http_select_route_t *routes)
{
    ngx_int_t                       rc;
    ngx_http_select_call_t         *call;
    const ngx_http_select_route_t  *route;

    call = ngx_http_select_call(r);

    if (call == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    route = ngx_http_select_route(call, routes, &rc);

    if (route == NULL) {
        return rc;
    }

    if (call->service == NULL) {
        rc = ngx_http_select_discard_body(r);

        return rc != NGX_OK ? rc
               : ngx_http_select_send_error(r, NGX_HTTP_SERVICE_UNAVAILABLE,
                                            "selection service is starting");
    }

    if (route->check != NULL) {
        rc = route->check(call);

        if (rc != NGX_DECLINED) {
            return rc;
        }
    }

    if (route->body == NGX_HTTP_SELECT_NO_BODY) {
        rc = ngx_http_select_discard_body(r);

        return rc != NGX_OK ? rc : route->call(call);
    }

    call->json = ngx_http_select_json_type(r);

    if (!call->json && route->body == NGX_HTTP_SELECT_JSON) {
        rc = ngx_http_select_discard_body(r);

        return rc != NGX_OK ? rc : ngx_http_select_media_type(call);
    }

    call->run = route->call;

    return ngx_http_select_read_body(r, NGX_HTTP_SELECT_BODY,
                                     ngx_http_select_with_body, call);
}


static ngx_int_t
ngx_http_select_media_type(ngx_http_select_call_t *call)
{
    sel_count(call->service->zone, SEL_COUNT_BODY_MEDIA_TYPE, 1);

    return ngx_http_select_send_error(call->r, NGX_HTTP_UNSUPPORTED_MEDIA_TYPE,
                   "Expected request with `Content-Type: application/json`");
}


/* NULL when the answer, *rc, has been given. */

static const ngx_http_select_route_t *
ngx_http_select_route(ngx_http_select_call_t *call,
    const ngx_http_select_route_t *routes, ngx_int_t *rc)
{
    ngx_str_t                       path, param;
    ngx_uint_t                      method, raw;
    const ngx_str_t                *known;
    ngx_http_request_t             *r;
    const ngx_http_select_route_t  *route;

    r = call->r;
    known = NULL;
    method = r->method == NGX_HTTP_HEAD ? NGX_HTTP_GET : r->method;

    if (ngx_http_select_path(r, &path, &raw) == NGX_OK) {

        for (route = routes; route->path.len; route++) {

            if (!ngx_http_select_path_match(&route->path, &path, &param)) {
                continue;
            }

            if (route->method == method) {
                call->param = param;

                if (raw && ngx_http_select_decode(r->pool, &param, 0,
                                                  &call->param)
                           != NGX_OK)
                {
                    *rc = NGX_HTTP_INTERNAL_SERVER_ERROR;
                    return NULL;
                }

                return route;
            }

            known = &route->path;
        }
    }

    *rc = ngx_http_select_discard_body(r);

    if (*rc != NGX_OK) {
        return NULL;
    }

    *rc = known != NULL
          ? ngx_http_select_not_allowed(r, routes, known)
          : ngx_http_select_send_error(r, NGX_HTTP_NOT_FOUND,
                                       "route not found");
    return NULL;
}


static ngx_int_t
ngx_http_select_not_allowed(ngx_http_request_t *r,
    const ngx_http_select_route_t *routes, const ngx_str_t *path)
{
    u_char                         *p;
    ngx_uint_t                      i, methods;
    ngx_table_elt_t                *allow;
    const ngx_http_select_route_t  *route;

    methods = 0;

    for (route = routes; route->path.len; route++) {
        if (route->path.len == path->len
            && ngx_strncmp(route->path.data, path->data, path->len) == 0)
        {
            methods |= route->method;
        }
    }

    allow = ngx_list_push(&r->headers_out.headers);
    p = ngx_pnalloc(r->pool, sizeof("GET,HEAD,POST,PATCH,DELETE"));

    if (allow == NULL || p == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    allow->hash = 1;
#if (nginx_version >= 1023000)
    allow->next = NULL;
#endif
    ngx_str_set(&allow->key, "Allow");
    allow->value.data = p;

    for (i = 0; i < sel_countof(ngx_http_select_methods); i++) {
        if (methods & ngx_http_select_methods[i].method) {
            p = ngx_sprintf(p, "%s%s", p == allow->value.data ? "" : ",",
                            ngx_http_select_methods[i].name);
        }
    }

    allow->value.len = p - allow->value.data;

    return ngx_http_select_send_error(r, NGX_HTTP_NOT_ALLOWED,
                                      "method not allowed");
}


static ngx_http_select_call_t *
ngx_http_select_call(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t      *cln;
    ngx_http_select_call_t  *call;

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_select_call_t));

    if (cln == NULL) {
        return NULL;
    }

    call = cln->data;
    ngx_memzero(call, sizeof(ngx_http_select_call_t));

    call->r = r;
    call->conf = ngx_http_get_module_loc_conf(r, ngx_http_select_module);
    call->service = ngx_http_select_service();
    sel_arena_init(&call->arena, NGX_HTTP_SELECT_ARENA);

    cln->handler = ngx_http_select_call_cleanup;

    return call;
}


static void
ngx_http_select_call_cleanup(void *data)
{
    ngx_http_select_call_t  *call = data;

    sel_arena_free(&call->arena);
}


static ngx_int_t
ngx_http_select_with_body(ngx_http_request_t *r, ngx_int_t rc,
    sel_buf_t *body, void *data)
{
    ngx_http_select_call_t  *call = data;

    if (rc == NGX_HTTP_BAD_REQUEST) {
        return ngx_http_select_send_error(r, rc, "Failed to buffer the "
                   "request body: its transfer encoding is broken");
    }

    if (rc != NGX_OK) {
        sel_count(call->service->zone, SEL_COUNT_BODY_TOO_LARGE, 1);

        return ngx_http_select_send_error(r, NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                   "Failed to buffer the request body: length limit exceeded");
    }

    call->body = sel_buf_view(body);

    if (!call->json && call->body.len != 0) {
        return ngx_http_select_media_type(call);
    }

    return call->run(call);
}


/* application/json or application/...+json, with or without parameters */

static ngx_uint_t
ngx_http_select_json_type(ngx_http_request_t *r)
{
    size_t      len;
    u_char     *p;
    ngx_str_t  *value;

    if (r->headers_in.content_type == NULL) {
        return 0;
    }

    value = &r->headers_in.content_type->value;

    for (len = 0; len < value->len; len++) {
        if (value->data[len] == ';' || value->data[len] == ' ') {
            break;
        }
    }

    p = value->data;

    if (len < sizeof("application/json") - 1
        || ngx_strncasecmp(p, (u_char *) "application/",
                           sizeof("application/") - 1)
           != 0)
    {
        return 0;
    }

    return (len == sizeof("application/json") - 1
            && ngx_strncasecmp(p + sizeof("application/") - 1,
                               (u_char *) "json", 4)
               == 0)
           || (len > sizeof("application/+json") - 1
               && ngx_strncasecmp(p + len - 5, (u_char *) "+json", 5) == 0);
}
