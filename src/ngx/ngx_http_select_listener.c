#include <arpa/inet.h>
#include <ctype.h>
#include "core/sel_clock.h"
#include "ngx/ngx_http_select_listener.h"
#include "service/sel_watch.h"


/* milliseconds */
#define NGX_HTTP_SELECT_RETRY       1000    /* a failed one is tried again */
#define NGX_HTTP_SELECT_RETRY_NAME  5000    /* after a failed look-up */
#define NGX_HTTP_SELECT_SILENCE_NEW 2000    /* patience with a new socket, */
#define NGX_HTTP_SELECT_SILENCE_MAX 60000   /* doubling up to this, */
#define NGX_HTTP_SELECT_SILENCE     10000   /* and with one that was heard */
#define NGX_HTTP_SELECT_OVERLAP     1000    /* two sockets are read */


typedef enum {
    NGX_HTTP_SELECT_HOST_NAME,
    NGX_HTTP_SELECT_HOST_ADDRESS,
    NGX_HTTP_SELECT_HOST_BAD
} ngx_http_select_host_kind_e;


static ngx_http_select_host_kind_e ngx_http_select_listener_host(
    sel_str_t endpoint, sel_str_t *host, sel_str_t *port);
static void ngx_http_select_listener_answered(void *data,
    const char *address, const char *reason);
static void ngx_http_select_listener_connect_named(
    ngx_http_select_listener_t *l, sel_str_t port);
static void ngx_http_select_listener_connect(ngx_http_select_listener_t *l,
    const char *endpoint);
static void ngx_http_select_listener_fail(ngx_http_select_listener_t *l,
    const char *why, ngx_msec_t patience);
static int ngx_http_select_listener_message(ngx_http_select_listener_t *l,
    ngx_http_select_sub_t *sub, uint64_t *counts);

ngx_http_select_listener_t *
ngx_http_select_listener_create(sel_service_t *service, sel_view_rank_t *rank,
    ngx_http_select_watch_pt readable, ngx_http_select_watch_pt answered,
    ngx_log_t *log)
{
    ngx_uint_t                   i;
    ngx_http_select_listener_t  *l;

    l = ngx_calloc(sizeof(ngx_http_select_listener_t), log);

    if (l == NULL) {
        return NULL;
    }

    l->feed = sel_kv_feed_create(rank->worker->record.block_size,
                                 rank->dp_rank);
    if (l->feed == NULL) {
        ngx_free(l);
        return NULL;
    }

    l->log = log;
    l->answered = answered;
    l->rank = rank;
    rank->stats.listener = SEL_LISTENER_PENDING;
    l->ingest.service = service;
    l->ingest.rank = rank;
    l->sink = sel_ingest_sink(&l->ingest);

    for (i = 0; i < 2; i++) {
        l->subs[i].watch.handler = readable;
        l->subs[i].watch.data = l;
    }

    return l;
}


void
ngx_http_select_listener_destroy(ngx_http_select_listener_t *l)
{
    if (l->name != NULL) {
        ngx_http_select_name_cancel(l->name);
    }

    ngx_http_select_sub_close(&l->subs[0]);
    ngx_http_select_sub_close(&l->subs[1]);
    sel_kv_feed_destroy(l->feed);
    ngx_free(l);
}


void
ngx_http_select_listener_open(ngx_http_select_listener_t *l)
{
    sel_str_t                    endpoint, host, port;
    ngx_http_select_host_kind_e  kind;

    if (l->name != NULL) {
        return;
    }

    l->since = ngx_current_msec;
    endpoint = sel_worker_events_endpoint(&l->rank->worker->record,
                                          l->rank->dp_rank);

    if (endpoint.len == 0) {

        /* registered while no events were followed */

        ngx_http_select_listener_fail(l, "no event endpoint is registered",
                                      NGX_HTTP_SELECT_RETRY);
        return;
    }

    kind = ngx_http_select_listener_host(endpoint, &host, &port);

    if (kind == NGX_HTTP_SELECT_HOST_BAD) {
        ngx_http_select_listener_fail(l, "no IPv6 address in the brackets",
                                      NGX_HTTP_SELECT_RETRY);

    } else if (kind == NGX_HTTP_SELECT_HOST_ADDRESS) {
        ngx_http_select_listener_connect(l, (const char *) endpoint.data);

    } else if (l->address[0] != '\0') {
        ngx_http_select_listener_connect_named(l, port);

    } else {
        l->name = ngx_http_select_name_look_up((const char *) host.data,
                                    host.len,
                                    ngx_http_select_listener_answered, l,
                                    l->log);
        if (l->name == NULL) {
            ngx_http_select_listener_fail(l, "its host cannot be looked up",
                                          NGX_HTTP_SELECT_RETRY_NAME);
        }
    }
}


/*
 * What the host of tcp://host:port is: a name to be looked up, or something
 * that libzmq takes as it is (so are all other schemes).
 */

static ngx_http_select_host_kind_e
ngx_http_select_listener_host(sel_str_t endpoint, sel_str_t *host,
    sel_str_t *port)
{
    size_t           i, colon;
    char             text[INET6_ADDRSTRLEN];
    ngx_uint_t       brackets;
    struct in6_addr  address;

    if (endpoint.len <= 6 || memcmp(endpoint.data, "tcp://", 6) != 0) {
        return NGX_HTTP_SELECT_HOST_ADDRESS;
    }

    for (colon = endpoint.len; colon > 6; colon--) {
        if (endpoint.data[colon - 1] == ':') {
            break;
        }
    }

    *host = (sel_str_t) { colon - 1 - 6, endpoint.data + 6 };
    *port = (sel_str_t) { endpoint.len - colon, endpoint.data + colon };

    brackets = (host->len > 2 && host->data[0] == '[');

    if (!brackets) {
        for (i = 0; i < host->len; i++) {
            if (!isalnum(host->data[i]) && host->data[i] != '.'
                && host->data[i] != '-' && host->data[i] != '_')
            {
                return NGX_HTTP_SELECT_HOST_ADDRESS;
            }
        }
    }

    if (host->len >= sizeof(text)) {
        return brackets ? NGX_HTTP_SELECT_HOST_BAD : NGX_HTTP_SELECT_HOST_NAME;
    }

    ngx_memcpy(text, host->data + brackets, host->len - 2 * brackets);
    text[host->len - 2 * brackets] = '\0';

    if (brackets) {
        return inet_pton(AF_INET6, text, &address) == 1
               ? NGX_HTTP_SELECT_HOST_ADDRESS : NGX_HTTP_SELECT_HOST_BAD;
    }

    return inet_pton(AF_INET, text, &address) == 1
           ? NGX_HTTP_SELECT_HOST_ADDRESS : NGX_HTTP_SELECT_HOST_NAME;
}


static void
ngx_http_select_listener_answered(void *data, const char *address,
    const char *reason)
{
    ngx_http_select_listener_t  *l = data;

    l->name = NULL;

    if (address == NULL) {
        ngx_http_select_listener_fail(l, reason, NGX_HTTP_SELECT_RETRY_NAME);
        return;
    }

    ngx_cpystrn((u_char *) l->address, (u_char *) address,
                sizeof(l->address));
    l->answered(l);
}


/* The next time the name is looked up again: it may have moved. */

static void
ngx_http_select_listener_connect_named(ngx_http_select_listener_t *l,
    sel_str_t port)
{
    size_t   size;
    u_char  *endpoint;

    size = sizeof("tcp://:") + sizeof(l->address) + port.len;
    endpoint = ngx_alloc(size, l->log);

    if (endpoint == NULL) {
        ngx_http_select_listener_fail(l, "out of memory",
                                      NGX_HTTP_SELECT_RETRY);

    } else {
        (void) ngx_snprintf(endpoint, size, "tcp://%s:%*s%Z", l->address,
                            port.len, port.data);
        ngx_http_select_listener_connect(l, (const char *) endpoint);
        ngx_free(endpoint);
    }

    l->address[0] = '\0';
}


static void
ngx_http_select_listener_connect(ngx_http_select_listener_t *l,
    const char *endpoint)
{
    const char             *why;
    ngx_uint_t              next;
    ngx_http_select_sub_t  *sub;

    next = l->subs[l->current].socket == NULL ? l->current : !l->current;
    sub = &l->subs[next];

    ngx_http_select_sub_close(sub);

    why = ngx_http_select_sub_open(sub, endpoint, l->log);

    if (why != NULL) {
        ngx_http_select_listener_fail(l, why, NGX_HTTP_SELECT_RETRY);
        return;
    }

    if (l->failing) {
        l->failing = 0;
        ngx_log_error(NGX_LOG_NOTICE, l->log, 0,
                      "KV events of worker %uL rank %uD: listening",
                      l->rank->worker_id, l->rank->dp_rank);
    }

    l->patience = ngx_min(2 * l->patience, NGX_HTTP_SELECT_SILENCE_MAX);
    l->current = next;
    l->opened = ngx_current_msec;

    if (l->rank->stats.listener != SEL_LISTENER_ACTIVE) {
        l->patience = NGX_HTTP_SELECT_SILENCE_NEW;
        l->rank->stats.listener = SEL_LISTENER_ACTIVE;
        l->rank->stats.active = sel_clock_ns();
    }
}


/* A renewal that fails is no failure: the old socket is there still. */

static void
ngx_http_select_listener_fail(ngx_http_select_listener_t *l, const char *why,
    ngx_msec_t patience)
{
    if (l->subs[l->current].socket != NULL) {
        return;
    }

    l->patience = patience;
    l->rank->stats.listener = SEL_LISTENER_FAILED;
    ngx_cpystrn((u_char *) l->rank->stats.reason, (u_char *) why,
                sizeof(l->rank->stats.reason));

    if (!l->failing) {
        l->failing = 1;
        ngx_log_error(NGX_LOG_ERR, l->log, 0,
                      "KV events of worker %uL rank %uD: %s; trying again "
                      "every %M ms", l->rank->worker_id, l->rank->dp_rank,
                      why, patience);
    }
}


ngx_uint_t
ngx_http_select_listener_replaced(const ngx_http_select_listener_t *l,
    ngx_msec_t now)
{
    return l->subs[!l->current].socket != NULL
           && now - l->opened >= NGX_HTTP_SELECT_OVERLAP;
}


void
ngx_http_select_listener_close_old(ngx_http_select_listener_t *l)
{
    ngx_http_select_sub_close(&l->subs[!l->current]);
}


ngx_uint_t
ngx_http_select_listener_due(ngx_http_select_listener_t *l, ngx_msec_t now)
{
    return l->rank->stats.listener != SEL_LISTENER_PENDING && l->name == NULL
           && now - l->since >= l->patience;
}


/*
 * While a socket is renewed the old one is read first, to its end: what comes
 * by the new one would make the rest of it look old.
 */

ngx_uint_t
ngx_http_select_listener_receive(ngx_http_select_listener_t *l, ngx_uint_t n,
    uint64_t deadline, uint64_t *counts)
{
    int         rc;
    ngx_uint_t  which;

    which = l->subs[!l->current].socket != NULL ? !l->current : l->current;

    while (n > 0) {

        rc = l->subs[which].socket == NULL ? 0
             : ngx_http_select_listener_message(l, &l->subs[which], counts);

        if (rc < 0) {
            ngx_http_select_sub_close(&l->subs[which]);
            ngx_http_select_listener_fail(l, "receiving failed",
                                          NGX_HTTP_SELECT_RETRY);
        }

        if (rc <= 0) {
            if (which == l->current) {
                return 0;
            }

            which = l->current;
            continue;
        }

        n--;

        if (sel_clock_ns() >= deadline) {
            break;
        }
    }

    return 1;
}


/* Takes one message: 1 done, 0 there is none, -1 the socket is of no use. */

static int
ngx_http_select_listener_message(ngx_http_select_listener_t *l,
    ngx_http_select_sub_t *sub, uint64_t *counts)
{
    int         n;
    sel_str_t   frames[NGX_HTTP_SELECT_FRAMES];
    uint64_t    own[SEL_KV_COUNTS];
    ngx_uint_t  i;

    n = ngx_http_select_sub_receive(sub, frames);

    if (n <= 0) {
        return n;
    }

    ngx_memzero(own, sizeof(own));

    (void) sel_kv_feed_message(l->feed, frames, (uint32_t) n, &l->sink, own);

    if (l->subs[!l->current].socket != NULL) {
        own[SEL_KV_OLD] = 0;            /* it comes twice */
    }

    sel_watch_message(l->ingest.service, l->rank, sel_clock_ns(), own);

    for (i = 0; i < SEL_KV_COUNTS; i++) {
        counts[i] += own[i];
    }

    if (sub == &l->subs[l->current]) {
        l->since = ngx_current_msec;
        l->patience = NGX_HTTP_SELECT_SILENCE;
    }

    return 1;
}
