/*
 * The choice was made before, or is made here at once; a peer only hands it
 * over.  With each further try another rank is chosen, and as the request has
 * been made for the former one, with its number, it is made again.
 */

#include "ngx/ngx_http_select_peers.h"
#include "ngx/ngx_http_select_process.h"
#include "ngx/ngx_http_select_text.h"
#include "route/ngx_http_select_failures.h"
#include "route/ngx_http_select_forward.h"
#include "route/ngx_http_select_upstream.h"


static ngx_int_t ngx_http_select_peer_init(ngx_http_request_t *r,
    ngx_http_upstream_srv_conf_t *us);
static ngx_int_t ngx_http_select_peer_get(ngx_peer_connection_t *pc,
    void *data);
static ngx_int_t ngx_http_select_peer_address(ngx_peer_connection_t *pc,
    ngx_http_select_forward_t *f);
static ngx_int_t ngx_http_select_peer_again(ngx_http_select_forward_t *f);
static ngx_int_t ngx_http_select_peer_request(ngx_http_request_t *r);
static ngx_uint_t ngx_http_select_peer_stale(const ngx_peer_connection_t *pc,
    const ngx_http_select_forward_t *f, ngx_uint_t state);
static void ngx_http_select_peer_free(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t state);
#if (NGX_HTTP_SSL)
static ngx_int_t ngx_http_select_peer_set_session(ngx_peer_connection_t *pc,
    void *data);
static void ngx_http_select_peer_save_session(ngx_peer_connection_t *pc,
    void *data);
#endif


ngx_int_t
ngx_http_select_upstream_init(ngx_conf_t *cf,
    ngx_http_upstream_srv_conf_t *us)
{
    us->peer.init = ngx_http_select_peer_init;

    return NGX_OK;
}


static ngx_int_t
ngx_http_select_peer_init(ngx_http_request_t *r,
    ngx_http_upstream_srv_conf_t *us)
{
    ngx_int_t                   rc;
    ngx_peer_connection_t      *pc;
    ngx_http_select_forward_t  *f;

    f = ngx_http_select_forwarded(r);

    if (f == NULL) {
        f = ngx_http_select_forward(r, us);

        if (f == NULL) {
            return NGX_ERROR;
        }
    }

    if (!f->chosen && !f->open) {
        rc = ngx_http_select_forward_choose(f);

        if (rc == NGX_ERROR
            || (rc == NGX_OK && f->chosen
                && ngx_http_select_peer_request(r) != NGX_OK))
        {
            return NGX_ERROR;
        }
    }

    if (f->open) {
        return ngx_http_upstream_init_round_robin_peer(r, us);
    }

    pc = &r->upstream->peer;

    pc->data = f;
    pc->get = ngx_http_select_peer_get;
    pc->free = ngx_http_select_peer_free;
    pc->tries = ngx_max(ngx_min(f->ctx->choice.ranks,
                                NGX_HTTP_SELECT_TRIES), 1);
#if (NGX_HTTP_SSL)
    pc->set_session = ngx_http_select_peer_set_session;
    pc->save_session = ngx_http_select_peer_save_session;
#endif

    return NGX_OK;
}


static ngx_int_t
ngx_http_select_peer_get(ngx_peer_connection_t *pc, void *data)
{
    ngx_int_t                   rc;
    ngx_http_select_text_t      text;
    ngx_http_select_forward_t  *f = data;

    pc->cached = 0;
    pc->connection = NULL;
    pc->name = &f->r->upstream->upstream->host;

    if (f->fault != NULL) {
        ngx_log_error(NGX_LOG_ERR, pc->log, 0, "%s",
                      ngx_http_select_printable(&text, f->fault,
                                                ngx_strlen(f->fault)));
        return NGX_BUSY;
    }

    if (!f->chosen) {
        rc = ngx_http_select_peer_again(f);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    f->chosen = 0;

    return ngx_http_select_peer_address(pc, f);
}


static ngx_int_t
ngx_http_select_peer_again(ngx_http_select_forward_t *f)
{
    ngx_int_t  rc;

    rc = ngx_http_select_forward_choose(f);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (!f->chosen) {

        /* the others have been tried: the last answer stands */

        f->open = 0;
        f->reason = "no_worker";
        return NGX_BUSY;
    }

    return ngx_http_select_peer_request(f->r);
}


/* The worker may have gone since it was chosen. */

static ngx_int_t
ngx_http_select_peer_address(ngx_peer_connection_t *pc,
    ngx_http_select_forward_t *f)
{
    sel_service_t                 *service;
    sel_view_rank_t               *rank;
    ngx_http_select_peer_t        *copy;
    const ngx_http_select_peer_t  *peer;

    service = ngx_http_select_service();

    rank = service != NULL
           ? sel_view_slot(&service->view, f->ctx->choice.slot,
                           f->ctx->choice.epoch)
           : NULL;
    peer = rank != NULL ? ngx_http_select_peer(rank->worker, pc->log) : NULL;

    if (peer == NULL) {
        ngx_http_select_forward_free(f);
        return NGX_BUSY;
    }

    copy = ngx_palloc(f->r->pool, sizeof(ngx_http_select_peer_t)
                                  + peer->socklen + peer->name.len);
    if (copy == NULL) {
        return NGX_ERROR;
    }

    copy->sockaddr = (struct sockaddr *) (copy + 1);
    copy->socklen = peer->socklen;
    ngx_memcpy(copy->sockaddr, peer->sockaddr, peer->socklen);

    copy->name.data = (u_char *) copy->sockaddr + peer->socklen;
    copy->name.len = peer->name.len;
    ngx_memcpy(copy->name.data, peer->name.data, peer->name.len);

    pc->sockaddr = copy->sockaddr;
    pc->socklen = copy->socklen;
    pc->name = &copy->name;

    return NGX_OK;
}


/* Makes the request to the engine again, with its headers as they are now. */

static ngx_int_t
ngx_http_select_peer_request(ngx_http_request_t *r)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;
    u->request_bufs = r->request_body != NULL ? r->request_body->bufs : NULL;

    return u->create_request(r);
}


/* A kept connection that its engine had closed is no failure, and no try;
   once. */

static ngx_uint_t
ngx_http_select_peer_stale(const ngx_peer_connection_t *pc,
    const ngx_http_select_forward_t *f, ngx_uint_t state)
{
    return (state & NGX_PEER_FAILED) && pc->cached && !f->stale
           && f->n_tried != 0
           && f->r->upstream->headers_in.status_n == 0
           && (pc->connection == NULL
               || (!pc->connection->read->timedout
                   && !pc->connection->write->timedout));
}


/* The engine has done with the request, though the client may read on. */

static void
ngx_http_select_peer_free(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t state)
{
    ngx_http_select_forward_t  *f = data;

    if (ngx_http_select_peer_stale(pc, f, state)) {
        f->n_tried--;
        f->stale = 1;
        ngx_http_select_forward_free(f);

    } else if (state & NGX_PEER_FAILED) {
        ngx_http_select_failed(f->upstream, f->ctx->choice.slot,
                               f->ctx->choice.epoch, pc->log);
        ngx_http_select_forward_failed(f);

    } else {
        ngx_http_select_forward_free(f);
    }

    if (pc->tries) {
        pc->tries--;
    }
}


#if (NGX_HTTP_SSL)

/* Ranks come and go: no session of one is kept for the next. */

static ngx_int_t
ngx_http_select_peer_set_session(ngx_peer_connection_t *pc, void *data)
{
    return NGX_OK;
}


static void
ngx_http_select_peer_save_session(ngx_peer_connection_t *pc, void *data)
{
    /* void */
}

#endif
