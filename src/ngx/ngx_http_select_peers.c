/*
 * A worker's endpoint is read once for each record and kept with it.  An
 * address is there at once; names stand in a table of their own, looked up in
 * threads and again when they are old, and the last address serves meanwhile.
 */

#include "ngx/ngx_http_select_names.h"
#include "ngx/ngx_http_select_peers.h"
#include "ngx/ngx_http_select_process.h"
#include "ngx/ngx_http_select_text.h"


/* seconds: an address is looked up again, after a failure, and forgotten when
   nobody asks for it */
#define NGX_HTTP_SELECT_PEER_FRESH   30
#define NGX_HTTP_SELECT_PEER_RETRY   2
#define NGX_HTTP_SELECT_PEER_UNUSED  600

#define NGX_HTTP_SELECT_PEER_NAME    255

/* what is known of a worker at a glance */
#define NGX_HTTP_SELECT_PEER_NONE     1
#define NGX_HTTP_SELECT_PEER_ADDRESS  2
#define NGX_HTTP_SELECT_PEER_NAMED    3


/* A worker's endpoint, in the arena of the worker. */
typedef struct {
    ngx_http_select_peer_t   peer;
    ngx_sockaddr_t           sockaddr;
    ngx_str_t                host;      /* a name; len 0: an address */
    in_port_t                port;
    u_char                   text[NGX_SOCKADDR_STRLEN];
    unsigned                 routable:1;
} ngx_http_select_endpoint_t;


/* A name. */
typedef struct {
    ngx_str_node_t           sn;
    ngx_queue_t              queue;     /* what was asked for last is last */
    ngx_http_select_name_t  *lookup;
    time_t                   next;      /* look-up */
    time_t                   asked;
    struct in_addr           address;
    unsigned                 known:1;
    u_char                   host[NGX_HTTP_SELECT_PEER_NAME + 1];
} ngx_http_select_host_t;


typedef struct {
    ngx_rbtree_t             tree;
    ngx_rbtree_node_t        sentinel;
    ngx_queue_t              queue;
    ngx_log_t               *log;
    unsigned                 running:1;
} ngx_http_select_peers_t;


static ngx_uint_t ngx_http_select_peer_known(sel_view_worker_t *worker,
    ngx_http_select_host_t *host);
static ngx_http_select_endpoint_t *ngx_http_select_peer_endpoint(
    sel_view_worker_t *worker, ngx_log_t *log);
static ngx_int_t ngx_http_select_peer_parse(sel_view_worker_t *worker,
    ngx_http_select_endpoint_t *endpoint);
static ngx_http_select_host_t *ngx_http_select_peer_host(ngx_str_t *name,
    ngx_log_t *log);
static ngx_http_select_host_t *ngx_http_select_peer_add(ngx_str_t *name,
    uint32_t hash, ngx_log_t *log);
static void ngx_http_select_peer_forget(ngx_http_select_host_t *host);
static void ngx_http_select_peer_found(void *data, const char *address,
    const char *reason);


static ngx_http_select_peers_t  ngx_http_select_peers;


const ngx_http_select_peer_t *
ngx_http_select_peer(sel_view_worker_t *worker, ngx_log_t *log)
{
    ngx_http_select_host_t      *host;
    ngx_http_select_endpoint_t  *endpoint;

    endpoint = ngx_http_select_peer_endpoint(worker, log);

    if (endpoint == NULL || !endpoint->routable) {
        return NULL;
    }

    if (endpoint->host.len == 0) {
        return &endpoint->peer;
    }

    host = ngx_http_select_peer_host(&endpoint->host, log);

    if (host == NULL || !ngx_http_select_peer_known(worker, host)) {
        return NULL;
    }

    if (endpoint->peer.name.len == 0
        || ngx_memcmp(&endpoint->sockaddr.sockaddr_in.sin_addr,
                      &host->address, sizeof(struct in_addr))
           != 0)
    {
        endpoint->sockaddr.sockaddr_in.sin_addr = host->address;
        endpoint->peer.name.len = ngx_sock_ntop(&endpoint->sockaddr.sockaddr,
                                                endpoint->peer.socklen,
                                                endpoint->text,
                                                NGX_SOCKADDR_STRLEN, 1);
    }

    return &endpoint->peer;
}


/* An address that another process has found serves until our own is there. */

static ngx_uint_t
ngx_http_select_peer_known(sel_view_worker_t *worker,
    ngx_http_select_host_t *host)
{
    sel_service_t  *service;

    if (!host->known && worker->address != 0) {
        host->address.s_addr = worker->address;
        host->known = 1;
    }

    if (host->known && worker->address != host->address.s_addr) {
        worker->address = host->address.s_addr;
        service = ngx_http_select_service();

        if (service != NULL) {
            sel_catalog_found(service->zone, worker->record.worker_id,
                              worker->version, worker->address);
        }
    }

    return host->known;
}


ngx_uint_t
ngx_http_select_routable(sel_view_worker_t *worker, ngx_log_t *log)
{
    if (worker->routable == NGX_HTTP_SELECT_PEER_ADDRESS) {
        return 1;
    }

    return worker->routable != NGX_HTTP_SELECT_PEER_NONE
           && ngx_http_select_peer(worker, log) != NULL;
}


static ngx_http_select_endpoint_t *
ngx_http_select_peer_endpoint(sel_view_worker_t *worker, ngx_log_t *log)
{
    ngx_http_select_text_t       text;
    ngx_http_select_endpoint_t  *endpoint;

    if (worker->peer != NULL) {
        return worker->peer;
    }

    endpoint = sel_arena_alloc(&worker->arena, sizeof(*endpoint));

    if (endpoint == NULL) {
        return NULL;
    }

    ngx_memzero(endpoint, sizeof(*endpoint));

    endpoint->routable = ngx_http_select_peer_parse(worker, endpoint)
                         == NGX_OK;

    if (!endpoint->routable && worker->state == SEL_WORKER_SCHEDULABLE) {
        ngx_log_error(NGX_LOG_WARN, log, 0,
                      "worker %uL is not routable: its endpoint \"%s\" is "
                      "not http://host:port", worker->record.worker_id,
                      ngx_http_select_printable(&text,
                                                worker->record.endpoint.data,
                                                worker->record.endpoint.len));
    }

    worker->peer = endpoint;
    worker->routable = !endpoint->routable ? NGX_HTTP_SELECT_PEER_NONE
                       : endpoint->host.len == 0
                       ? NGX_HTTP_SELECT_PEER_ADDRESS
                       : NGX_HTTP_SELECT_PEER_NAMED;

    return endpoint;
}


static ngx_int_t
ngx_http_select_peer_parse(sel_view_worker_t *worker,
    ngx_http_select_endpoint_t *endpoint)
{
    u_char                *p, *last, *end, *colon;
    ngx_int_t              port;
    sel_str_t              text;
    struct sockaddr_in    *sin;
    struct sockaddr_in6   *sin6;

    text = worker->record.endpoint;
    p = (u_char *) text.data;
    last = p + text.len;

    if (text.len > 7 && ngx_strncasecmp(p, (u_char *) "http://", 7) == 0) {
        p += 7;
        port = 80;

    } else if (text.len > 8
               && ngx_strncasecmp(p, (u_char *) "https://", 8) == 0)
    {
        p += 8;
        port = 443;

    } else {
        return NGX_DECLINED;
    }

    for (end = p; end < last && *end != '/' && *end != '?' && *end != '#';
         end++)
    {
        if (*end <= ' ' || *end == '@') {
            return NGX_DECLINED;
        }
    }

    last = end;
    endpoint->peer.sockaddr = &endpoint->sockaddr.sockaddr;
    endpoint->peer.name.data = endpoint->text;

    /* [address]:port, address:port, name:port */

    colon = *p == '[' ? ngx_strlchr(p, last, ']') : p;
    colon = colon != NULL ? ngx_strlchr(colon, last, ':') : NULL;

    end = colon != NULL ? colon : last;

    if (colon != NULL) {
        port = ngx_atoi(colon + 1, last - colon - 1);
    }

    if (port < 1 || port > 65535 || end == p) {
        return NGX_DECLINED;
    }

    endpoint->port = htons((in_port_t) port);

    if (*p == '[') {

        if (end[-1] != ']') {
            return NGX_DECLINED;
        }

        sin6 = &endpoint->sockaddr.sockaddr_in6;
        sin6->sin6_family = AF_INET6;
        sin6->sin6_port = endpoint->port;
        endpoint->peer.socklen = sizeof(struct sockaddr_in6);

        if (ngx_inet6_addr(p + 1, end - p - 2, sin6->sin6_addr.s6_addr)
            != NGX_OK)
        {
            return NGX_DECLINED;
        }

    } else {
        sin = &endpoint->sockaddr.sockaddr_in;
        sin->sin_family = AF_INET;
        sin->sin_port = endpoint->port;
        sin->sin_addr.s_addr = ngx_inet_addr(p, end - p);
        endpoint->peer.socklen = sizeof(struct sockaddr_in);

        if (sin->sin_addr.s_addr == INADDR_NONE) {
            endpoint->host.data = p;
            endpoint->host.len = end - p;

            return end - p <= NGX_HTTP_SELECT_PEER_NAME ? NGX_OK
                                                        : NGX_DECLINED;
        }
    }

    endpoint->peer.name.len = ngx_sock_ntop(endpoint->peer.sockaddr,
                                            endpoint->peer.socklen,
                                            endpoint->text,
                                            NGX_SOCKADDR_STRLEN, 1);
    return NGX_OK;
}


/* The host of a name, looked up if it is new or old. */

static ngx_http_select_host_t *
ngx_http_select_peer_host(ngx_str_t *name, ngx_log_t *log)
{
    time_t                    now;
    uint32_t                  hash;
    ngx_http_select_host_t   *host;
    ngx_http_select_peers_t  *ps;

    ps = &ngx_http_select_peers;
    now = ngx_time();

    if (!ps->running) {
        ngx_rbtree_init(&ps->tree, &ps->sentinel, ngx_str_rbtree_insert_value);
        ngx_queue_init(&ps->queue);
        ps->log = ngx_cycle->log;
        ps->running = 1;
    }

    hash = ngx_crc32_long(name->data, name->len);
    host = (ngx_http_select_host_t *) ngx_str_rbtree_lookup(&ps->tree, name,
                                                            hash);
    if (host == NULL) {
        host = ngx_http_select_peer_add(name, hash, log);

        if (host == NULL) {
            return NULL;
        }
    }

    if (host->asked != now) {
        host->asked = now;
        ngx_queue_remove(&host->queue);
        ngx_queue_insert_tail(&ps->queue, &host->queue);
    }

    if (host->lookup == NULL && host->next <= now) {
        host->next = now + NGX_HTTP_SELECT_PEER_RETRY;
        host->lookup = ngx_http_select_name_look_up((char *) host->host,
                                                    host->sn.str.len,
                                                    ngx_http_select_peer_found,
                                                    host, ps->log);
    }

    return host;
}


static ngx_http_select_host_t *
ngx_http_select_peer_add(ngx_str_t *name, uint32_t hash, ngx_log_t *log)
{
    ngx_http_select_host_t   *host, *oldest;
    ngx_http_select_peers_t  *ps;

    ps = &ngx_http_select_peers;

    if (!ngx_queue_empty(&ps->queue)) {
        oldest = ngx_queue_data(ngx_queue_head(&ps->queue),
                                ngx_http_select_host_t, queue);

        if (ngx_time() - oldest->asked > NGX_HTTP_SELECT_PEER_UNUSED) {
            ngx_http_select_peer_forget(oldest);
        }
    }

    host = ngx_calloc(sizeof(ngx_http_select_host_t), log);

    if (host == NULL) {
        return NULL;
    }

    ngx_memcpy(host->host, name->data, name->len);
    host->sn.str.data = host->host;
    host->sn.str.len = name->len;
    host->sn.node.key = hash;

    ngx_rbtree_insert(&ps->tree, &host->sn.node);
    ngx_queue_insert_tail(&ps->queue, &host->queue);

    return host;
}


static void
ngx_http_select_peer_forget(ngx_http_select_host_t *host)
{
    if (host->lookup != NULL) {
        ngx_http_select_name_cancel(host->lookup);
    }

    ngx_rbtree_delete(&ngx_http_select_peers.tree, &host->sn.node);
    ngx_queue_remove(&host->queue);
    ngx_free(host);
}


static void
ngx_http_select_peer_found(void *data, const char *address,
    const char *reason)
{
    in_addr_t                found;
    ngx_http_select_text_t   text;
    ngx_http_select_host_t  *host = data;

    host->lookup = NULL;

    if (address == NULL) {
        host->next = ngx_time() + NGX_HTTP_SELECT_PEER_RETRY;
        ngx_log_error(NGX_LOG_WARN, ngx_http_select_peers.log, 0,
                      "no address for the worker endpoint's host \"%s\": %s",
                      ngx_http_select_printable(&text, host->host,
                                                host->sn.str.len), reason);
        return;
    }

    found = ngx_inet_addr((u_char *) address, ngx_strlen(address));
    host->next = ngx_time() + NGX_HTTP_SELECT_PEER_FRESH;

    if (found != INADDR_NONE) {
        host->address.s_addr = found;
        host->known = 1;
    }
}


void
ngx_http_select_peers_look(sel_view_t *view, ngx_log_t *log)
{
    uint32_t            i;
    sel_view_worker_t  *worker;

    for (i = 0; i < view->n_workers; i++) {
        worker = view->workers[i];

        if (worker->peer == NULL
            || (worker->routable == NGX_HTTP_SELECT_PEER_NAMED
                && worker->address == 0))
        {
            (void) ngx_http_select_peer(worker, log);
        }
    }
}


void
ngx_http_select_peers_stop(void)
{
    ngx_http_select_peers_t  *ps;

    ps = &ngx_http_select_peers;

    while (ps->running && !ngx_queue_empty(&ps->queue)) {
        ngx_http_select_peer_forget(ngx_queue_data(ngx_queue_head(&ps->queue),
                                                   ngx_http_select_host_t,
                                                   queue));
    }

    ps->running = 0;
}
