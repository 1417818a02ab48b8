/*
 * The choice of a rank, from the body of a request, and its booking.
 */

#include "core/sel_clock.h"
#include "ngx/ngx_http_select_peers.h"
#include "ngx/ngx_http_select_process.h"
#include "route/ngx_http_select_failures.h"
#include "route/ngx_http_select_forward.h"
#include "route/ngx_http_select_prompt.h"
#include "service/sel_reserve.h"
#include "service/sel_route.h"


/* of everything that one choice makes */
#define NGX_HTTP_SELECT_FORWARD_ARENA  (512 * 1024 * 1024)


static void ngx_http_select_forward_cleanup(void *data);
static void ngx_http_select_forward_end(ngx_http_select_forward_t *f,
    sel_book_result_t (*end)(sel_zone_t *zone, sel_str_t id));
static ngx_int_t ngx_http_select_forward_route(ngx_http_select_forward_t *f,
    sel_service_t *service, sel_arena_t *arena, sel_fault_t *fault);
static ngx_int_t ngx_http_select_forward_group(ngx_http_select_forward_t *f,
    sel_str_t *group);
static ngx_int_t ngx_http_select_forward_session(ngx_http_select_forward_t *f,
    sel_select_body_t *body);
static ngx_int_t ngx_http_select_forward_value(ngx_http_select_forward_t *f,
    ngx_http_complex_value_t *complex, sel_str_t *str);
static bool ngx_http_select_forward_allows(void *data,
    const sel_view_rank_t *rank);
static ngx_int_t ngx_http_select_forward_header(ngx_http_select_forward_t *f);
static ngx_int_t ngx_http_select_forward_headers(
    ngx_http_select_forward_t *f);
static ngx_int_t ngx_http_select_forward_nobody(ngx_http_select_forward_t *f,
    const char *reason, const char *text);
static ngx_int_t ngx_http_select_forward_fault(ngx_http_select_forward_t *f,
    const char *reason, const char *text);


ngx_http_select_forward_t *
ngx_http_select_forwarded(ngx_http_request_t *r)
{
    ngx_http_select_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_select_module);

    return ctx != NULL ? ctx->forward : NULL;
}


ngx_http_select_forward_t *
ngx_http_select_forward(ngx_http_request_t *r,
    ngx_http_upstream_srv_conf_t *us)
{
    ngx_pool_cleanup_t         *cln;
    ngx_http_select_ctx_t      *ctx;
    ngx_http_select_forward_t  *f;

    /* an internal redirect leads here once more, without what was known */

    for (cln = r->pool->cleanup; cln != NULL; cln = cln->next) {
        f = cln->data;

        if (cln->handler == ngx_http_select_forward_cleanup && f->r == r) {
            ngx_http_select_forward_free(f);
        }
    }

    ctx = ngx_http_select_ctx(r);
    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_select_forward_t));

    if (ctx == NULL || cln == NULL) {
        return NULL;
    }

    f = cln->data;
    ngx_memzero(f, sizeof(ngx_http_select_forward_t));

    f->r = r;
    f->ctx = ctx;
    f->conf = ngx_http_get_module_loc_conf(r, ngx_http_select_module);
    f->upstream = us->srv_conf[ngx_http_select_module.ctx_index];
    f->reason = "";

    ctx->forward = f;
    cln->handler = ngx_http_select_forward_cleanup;

    return f;
}


static void
ngx_http_select_forward_cleanup(void *data)
{
    ngx_http_select_forward_free(data);
}


void
ngx_http_select_forward_free(ngx_http_select_forward_t *f)
{
    ngx_http_select_forward_end(f, sel_served_free);
}


void
ngx_http_select_forward_failed(ngx_http_select_forward_t *f)
{
    ngx_http_select_forward_end(f, sel_served_failed);
}


static void
ngx_http_select_forward_end(ngx_http_select_forward_t *f,
    sel_book_result_t (*end)(sel_zone_t *zone, sel_str_t id))
{
    sel_service_t  *service;

    service = ngx_http_select_service();

    if (f->booked && service != NULL) {
        (void) end(service->zone, f->ctx->choice.id);
    }

    f->booked = 0;
}


ngx_int_t
ngx_http_select_forward_choose(ngx_http_select_forward_t *f)
{
    ngx_int_t       rc;
    sel_arena_t     arena;
    sel_fault_t     fault;
    sel_service_t  *service;

    service = ngx_http_select_service();
    f->chosen = 0;
    f->open = 0;
    f->fault = NULL;
    f->status = NGX_HTTP_SERVICE_UNAVAILABLE;

    if (service == NULL) {
        return ngx_http_select_forward_nobody(f, "no_worker",
                                              "the selector is starting");
    }

    sel_arena_init(&arena, NGX_HTTP_SELECT_FORWARD_ARENA);
    fault.class = SEL_FAULT_NONE;

    rc = ngx_http_select_forward_route(f, service, &arena, &fault);

    if (rc == NGX_DECLINED && fault.class == SEL_FAULT_BAD_REQUEST) {
        f->status = NGX_HTTP_BAD_REQUEST;
        rc = ngx_http_select_forward_fault(f, "bad_request", fault.text);

    } else if (rc == NGX_DECLINED && fault.class != SEL_FAULT_NONE) {
        rc = ngx_http_select_forward_nobody(f, fault.class == SEL_FAULT_FULL
                                               ? "full" : "no_worker",
                                            fault.text);
    }

    sel_arena_free(&arena);

    return rc;
}


/* NGX_DECLINED with a fault: nobody can be chosen. */

static ngx_int_t
ngx_http_select_forward_route(ngx_http_select_forward_t *f,
    sel_service_t *service, sel_arena_t *arena, sel_fault_t *fault)
{
    uint64_t                   since;
    ngx_uint_t                 body;
    sel_allow_t                allow;
    sel_route_t                route;
    ngx_http_select_tried_t   *tried;

    since = sel_clock_ns();

    ngx_memzero(&route, sizeof(sel_route_t));

    allow = (sel_allow_t) { ngx_http_select_forward_allows, f };
    route.settings = &f->conf->settings;
    route.allow = &allow;

    body = ngx_http_select_prompt_size(f->r) != 0;
    route.booked = body;
    route.tokens = body && ngx_http_select_prompt_read(f->r, arena,
                                                       &route.body);

    if (body && !route.tokens
        && f->conf->fallback == NGX_HTTP_SELECT_FALLBACK_OFF)
    {
        return ngx_http_select_forward_nobody(f, "no_prompt",
                   "the request has no prompt of token ids");
    }

    if (ngx_http_select_forward_group(f, &route.routing_group) != NGX_OK
        || (body
            && ngx_http_select_forward_session(f, &route.body) != NGX_OK))
    {
        return NGX_ERROR;
    }

    for (f->who = NGX_HTTP_SELECT_OTHERS;
         !sel_route(service, arena, &route, fault);
         f->who++)
    {
        if (fault->class != SEL_FAULT_NOT_READY
            || f->who + 1 == NGX_HTTP_SELECT_NOBODY)
        {
            return NGX_DECLINED;
        }
    }

    f->booked = route.booked;

    if (ngx_http_select_keep_choice(f->r, f->ctx, service, since) != NGX_OK) {

        if (f->booked) {
            f->ctx->choice.id = service->choice.id;
            ngx_http_select_forward_free(f);
        }

        return NGX_ERROR;
    }

    f->chosen = 1;
    f->reason = f->ctx->choice.by_session ? "session"
                : route.tokens ? "prompt" : "load";

    if (f->n_tried < NGX_HTTP_SELECT_TRIES) {
        tried = &f->tried[f->n_tried++];
        tried->worker_id = f->ctx->choice.worker_id;
        tried->slot = f->ctx->choice.slot;
        tried->epoch = f->ctx->choice.epoch;
    }

    return ngx_http_select_forward_header(f);
}


static ngx_int_t
ngx_http_select_forward_group(ngx_http_select_forward_t *f, sel_str_t *group)
{
    *group = sel_str("default");

    return f->conf->group != NULL
           ? ngx_http_select_forward_value(f, f->conf->group, group)
           : NGX_OK;
}


static ngx_int_t
ngx_http_select_forward_session(ngx_http_select_forward_t *f,
    sel_select_body_t *body)
{
    ngx_int_t  rc;

    rc = ngx_http_select_forward_value(f, f->conf->session,
                                       &body->session_id);

    if (body->session_id.len != 0) {
        body->given |= (uint64_t) 1 << SEL_SELECT_SESSION_ID;
    }

    return rc;
}


/* An empty value leaves what there is. */

static ngx_int_t
ngx_http_select_forward_value(ngx_http_select_forward_t *f,
    ngx_http_complex_value_t *complex, sel_str_t *str)
{
    ngx_str_t  value;

    if (ngx_http_complex_value(f->r, complex, &value) != NGX_OK) {
        return NGX_ERROR;
    }

    if (value.len != 0) {
        *str = (sel_str_t) { value.len, value.data };
    }

    return NGX_OK;
}


static bool
ngx_http_select_forward_allows(void *data, const sel_view_rank_t *rank)
{
    ngx_uint_t                  i;
    ngx_http_select_forward_t  *f = data;

    for (i = 0; i < f->n_tried; i++) {
        if ((f->tried[i].slot == rank->slot
             && f->tried[i].epoch == rank->epoch)
            || (f->who == NGX_HTTP_SELECT_OTHERS
                && f->tried[i].worker_id == rank->worker_id))
        {
            return false;
        }
    }

    return (f->who == NGX_HTTP_SELECT_FAILED
            || !ngx_http_select_failing(f->upstream, rank->slot, rank->epoch))
           && ngx_http_select_routable(rank->worker,
                                       f->r->connection->log);
}


/* The rank's number; nothing else goes by this name. */

static ngx_int_t
ngx_http_select_forward_header(ngx_http_select_forward_t *f)
{
    u_char     *p;
    ngx_str_t  *name;

    name = &f->conf->rank_header;

    if (name->len == 0) {
        return NGX_OK;
    }

    if (f->rank == NULL && ngx_http_select_forward_headers(f) != NGX_OK) {
        return NGX_ERROR;
    }

    p = ngx_pnalloc(f->r->pool, NGX_INT32_LEN);

    if (p == NULL) {
        return NGX_ERROR;
    }

    f->rank->value.data = p;
    f->rank->value.len = ngx_sprintf(p, "%uD", f->ctx->choice.dp_rank) - p;

    return NGX_OK;
}


/*
 * Copies the list of headers, but for those by this name, and adds one.  A
 * subrequest shares its list with the main request, and an entry cannot be
 * taken out of a list that others point into.
 */

static ngx_int_t
ngx_http_select_forward_headers(ngx_http_select_forward_t *f)
{
    u_char           *p;
    ngx_str_t        *name;
    ngx_list_t        list;
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h, *copy;

    name = &f->conf->rank_header;

    if (ngx_list_init(&list, f->r->pool, 20, sizeof(ngx_table_elt_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    for (part = &f->r->headers_in.headers.part; part; part = part->next) {
        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (h[i].key.len == name->len
                && ngx_strncasecmp(h[i].key.data, name->data, name->len) == 0)
            {
                continue;
            }

            copy = ngx_list_push(&list);

            if (copy == NULL) {
                return NGX_ERROR;
            }

            *copy = h[i];
        }
    }

    f->rank = ngx_list_push(&list);
    p = ngx_pnalloc(f->r->pool, name->len);

    if (f->rank == NULL || p == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(f->rank, sizeof(ngx_table_elt_t));

    f->rank->key = *name;
    f->rank->lowcase_key = p;
    f->rank->hash = ngx_hash_strlow(p, name->data, name->len);

    /* the list knows its last part by address */

    f->r->headers_in.headers = list;

    if (list.last == &list.part) {
        f->r->headers_in.headers.last = &f->r->headers_in.headers.part;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_select_forward_nobody(ngx_http_select_forward_t *f,
    const char *reason, const char *text)
{
    if (f->conf->fallback == NGX_HTTP_SELECT_FALLBACK_OPEN
        && f->upstream->servers != 0)
    {
        f->open = 1;
        f->reason = "open";

        return NGX_OK;
    }

    return ngx_http_select_forward_fault(f, reason, text);
}


static ngx_int_t
ngx_http_select_forward_fault(ngx_http_select_forward_t *f,
    const char *reason, const char *text)
{
    size_t   len;
    u_char  *p;

    len = ngx_strlen(text) + 1;
    p = ngx_pnalloc(f->r->pool, len);

    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(p, text, len);
    f->fault = (char *) p;
    f->reason = reason;

    return NGX_DECLINED;
}
