#include <pthread.h>
#include <sys/resource.h>
#include <zmq.h>
#include "kv_events/sel_kv_decode.h"
#include "ngx/ngx_http_select_zmq.h"


/* descriptors that listeners leave to everything else */
#define NGX_HTTP_SELECT_SPARE_FDS  64


typedef struct {
    int  option;
    int  value;
} ngx_http_select_zmq_option_t;


static void           *ngx_http_select_zmq_ctx;
static zmq_msg_t       ngx_http_select_zmq_frames[NGX_HTTP_SELECT_FRAMES];
static ngx_uint_t      ngx_http_select_zmq_held;
static char            ngx_http_select_zmq_reason[128];


/* docs/kv-events.md, "Transport" */

static const ngx_http_select_zmq_option_t  ngx_http_select_sub_options[] = {
    { ZMQ_LINGER, 0 },
    { ZMQ_RECONNECT_IVL, 100 },
    { ZMQ_RECONNECT_IVL_MAX, 5000 },
    { ZMQ_TCP_KEEPALIVE, 1 },
    { ZMQ_HEARTBEAT_IVL, 5000 },
    { ZMQ_HEARTBEAT_TIMEOUT, 15000 },
    { ZMQ_HEARTBEAT_TTL, 15000 },
    { ZMQ_RCVHWM, 100000 }
};


static void *ngx_http_select_zmq_probe(void *data);
static ngx_uint_t ngx_http_select_zmq_descriptors(void);
static const char *ngx_http_select_zmq_failed(ngx_http_select_sub_t *sub,
    const char *what);
static void ngx_http_select_zmq_drop(void);


ngx_int_t
ngx_http_select_zmq_start(ngx_uint_t sockets, ngx_log_t *log)
{
    int        limit;
    pthread_t  thread;

    /* libzmq aborts the process when it cannot have its threads */

    ngx_set_errno(pthread_create(&thread, NULL, ngx_http_select_zmq_probe,
                                 NULL));

    if (ngx_errno != 0) {
        ngx_log_error(NGX_LOG_ERR, log, ngx_errno,
                      "no thread for libzmq: pthread_create() failed");
        return NGX_ERROR;
    }

    (void) pthread_join(thread, NULL);

    ngx_http_select_zmq_ctx = zmq_ctx_new();

    if (ngx_http_select_zmq_ctx == NULL) {
        ngx_log_error(NGX_LOG_ERR, log, ngx_errno, "zmq_ctx_new() failed");
        return NGX_ERROR;
    }

    limit = zmq_ctx_get(ngx_http_select_zmq_ctx, ZMQ_SOCKET_LIMIT);

    if (limit > 0 && sockets > (ngx_uint_t) limit) {
        sockets = limit;
    }

    (void) zmq_ctx_set(ngx_http_select_zmq_ctx, ZMQ_MAX_SOCKETS,
                       (int) sockets);

    return NGX_OK;
}


static void *
ngx_http_select_zmq_probe(void *data)
{
    return NULL;
}


void
ngx_http_select_zmq_stop(void)
{
    ngx_http_select_zmq_drop();

    if (ngx_http_select_zmq_ctx != NULL) {
        (void) zmq_ctx_term(ngx_http_select_zmq_ctx);
        ngx_http_select_zmq_ctx = NULL;
    }
}


const char *
ngx_http_select_sub_open(ngx_http_select_sub_t *sub, const char *endpoint,
    ngx_log_t *log)
{
    int         fd, ipv6;
    size_t      len;
    int64_t     max;
    ngx_uint_t  i;

    if (ngx_http_select_zmq_ctx == NULL) {
        return "libzmq could not be started";
    }

    /* requests need connections too, and libzmq must not run dry inside */

    if (ngx_cycle->free_connection_n <= ngx_cycle->connection_n / 4) {
        return "worker_connections are not enough";
    }

    if (!ngx_http_select_zmq_descriptors()) {
        return "descriptors are not enough, see worker_rlimit_nofile";
    }

    sub->socket = zmq_socket(ngx_http_select_zmq_ctx, ZMQ_SUB);

    if (sub->socket == NULL) {
        return ngx_http_select_zmq_failed(sub, "zmq_socket()");
    }

    for (i = 0; i < sel_countof(ngx_http_select_sub_options); i++) {
        if (zmq_setsockopt(sub->socket, ngx_http_select_sub_options[i].option,
                           &ngx_http_select_sub_options[i].value, sizeof(int))
            != 0)
        {
            return ngx_http_select_zmq_failed(sub, "zmq_setsockopt()");
        }
    }

    ipv6 = (ngx_strncmp(endpoint, "tcp://[", 7) == 0);
    max = SEL_KV_MAX_PAYLOAD;

    if (zmq_setsockopt(sub->socket, ZMQ_IPV6, &ipv6, sizeof(ipv6)) != 0
        || zmq_setsockopt(sub->socket, ZMQ_MAXMSGSIZE, &max, sizeof(max)) != 0
        || zmq_setsockopt(sub->socket, ZMQ_SUBSCRIBE, "", 0) != 0)
    {
        return ngx_http_select_zmq_failed(sub, "zmq_setsockopt()");
    }

    if (zmq_connect(sub->socket, endpoint) != 0) {
        return ngx_http_select_zmq_failed(sub, "zmq_connect()");
    }

    len = sizeof(fd);

    if (zmq_getsockopt(sub->socket, ZMQ_FD, &fd, &len) != 0) {
        return ngx_http_select_zmq_failed(sub, "zmq_getsockopt()");
    }

    if (ngx_http_select_watch(&sub->watch, fd, log) != NGX_OK) {
        ngx_http_select_sub_close(sub);
        return "no place in the event loop";
    }

    return NULL;
}


/*
 * Whether some descriptors are left: the lowest free number tells.
 */

static ngx_uint_t
ngx_http_select_zmq_descriptors(void)
{
    int            fd;
    struct rlimit  limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == -1) {
        return 1;
    }

    fd = dup(STDERR_FILENO);

    if (fd == -1) {
        return 0;
    }

    (void) close(fd);

    return (rlim_t) fd + NGX_HTTP_SELECT_SPARE_FDS < limit.rlim_cur;
}


static const char *
ngx_http_select_zmq_failed(ngx_http_select_sub_t *sub, const char *what)
{
    (void) ngx_snprintf((u_char *) ngx_http_select_zmq_reason,
                        sizeof(ngx_http_select_zmq_reason), "%s: %s%Z", what,
                        zmq_strerror(zmq_errno()));

    ngx_http_select_zmq_reason[sizeof(ngx_http_select_zmq_reason) - 1] = '\0';
    ngx_http_select_sub_close(sub);

    return ngx_http_select_zmq_reason;
}


void
ngx_http_select_sub_close(ngx_http_select_sub_t *sub)
{
    ngx_http_select_unwatch(&sub->watch);

    if (sub->socket != NULL) {
        (void) zmq_close(sub->socket);
        sub->socket = NULL;
    }
}


int
ngx_http_select_sub_receive(ngx_http_select_sub_t *sub,
    sel_str_t frames[NGX_HTTP_SELECT_FRAMES])
{
    int         n, more;
    zmq_msg_t   extra, *msg;

    ngx_http_select_zmq_drop();
    n = 0;

    do {
        msg = n < NGX_HTTP_SELECT_FRAMES ? &ngx_http_select_zmq_frames[n]
                                         : &extra;
        zmq_msg_init(msg);

        if (zmq_msg_recv(msg, sub->socket, ZMQ_DONTWAIT) == -1) {
            (void) zmq_msg_close(msg);
            return n == 0 && zmq_errno() == EAGAIN ? 0 : -1;
        }

        more = zmq_msg_more(msg);

        if (n < NGX_HTTP_SELECT_FRAMES) {
            frames[n].len = zmq_msg_size(msg);
            frames[n].data = zmq_msg_data(msg);
            ngx_http_select_zmq_held = ++n;

        } else {
            (void) zmq_msg_close(msg);
        }

    } while (more);

    return n;
}


static void
ngx_http_select_zmq_drop(void)
{
    while (ngx_http_select_zmq_held > 0) {
        (void) zmq_msg_close(
                  &ngx_http_select_zmq_frames[--ngx_http_select_zmq_held]);
    }
}
