/*
 * Simulated engines: each listens on a port of its own and answers requests
 * with streams of events, as inference engines do, with as little work as can
 * be.
 *
 *     engine COUNT INTERVAL
 *
 * prints the ports and serves until its input ends.  The number at the end of
 * a request's path is the number of events, a chunk each: the first goes as
 * soon as the request is complete, together with the head, and each further
 * one at the next edge of INTERVAL microseconds, or all of them at once if
 * "at-once" is in the path.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "bench.h"


#define ENGINE_PORTS  64
#define ENGINE_FILES  4096
#define ENGINE_HEAD   2048
#define ENGINE_READ   65536
#define ENGINE_EVENTS 200               /* at once, at most */

#define ENGINE_DATA                                                           \
    "data: {\"id\":\"cmpl-0123456789abcdef0123456789abcdef\",\"object\":"     \
    "\"text_completion\",\"created\":1764500000,\"model\":\"default\","       \
    "\"choices\":[{\"index\":0,\"text\":\" token\",\"logprobs\":null,"        \
    "\"finish_reason\":null}],\"usage\":null}\n\n"


typedef struct {
    uint32_t   n;                       /* bytes of the head so far */
    uint64_t   left;                    /* of the request's body */
    uint32_t   events;                  /* that are still to be sent */
    char       head[ENGINE_HEAD];
} engine_conn_t;


typedef struct {
    int              poll;
    int              timer;
    uint32_t         n_ports;
    int              ports[ENGINE_PORTS];
    int              top;               /* descriptors are below */
    engine_conn_t   *conns[ENGINE_FILES];
    char             chunk[512];
} engine_t;


static void engine_open(engine_t *e, uint32_t ports, long interval);
static void engine_watch(engine_t *e, int fd);
static int engine_listen(void);
static bool engine_listens(const engine_t *e, int fd);
static void engine_accept(engine_t *e, int fd);
static void engine_read(engine_t *e, int fd);
static size_t engine_head(engine_conn_t *c, const char *data, size_t len);
static void engine_begin(engine_t *e, int fd);
static void engine_tick(engine_t *e);
static void engine_send(engine_t *e, int fd, uint32_t events,
    const char *head);
static void engine_close(engine_t *e, int fd);


int
main(int argc, char **argv)
{
    int                 i, n, fd;
    static engine_t     state;
    engine_t           *e;
    struct epoll_event  events[256];

    if (argc != 3 || atoi(argv[1]) < 1 || atoi(argv[1]) > ENGINE_PORTS
        || atol(argv[2]) < 1)
    {
        bench_fail("usage: engine COUNT INTERVAL");
    }

    e = &state;
    engine_open(e, (uint32_t) atoi(argv[1]), atol(argv[2]));

    for ( ;; ) {
        n = epoll_wait(e->poll, events, 256, -1);

        for (i = 0; i < n; i++) {
            fd = events[i].data.fd;

            if (fd == STDIN_FILENO) {
                return 0;

            } else if (fd == e->timer) {
                engine_tick(e);

            } else if (engine_listens(e, fd)) {
                engine_accept(e, fd);

            } else if (e->conns[fd] != NULL) {
                engine_read(e, fd);
            }
        }
    }
}


static void
engine_open(engine_t *e, uint32_t ports, long interval)
{
    socklen_t           len;
    struct itimerspec   each;
    struct sockaddr_in  address;

    e->poll = epoll_create1(0);
    e->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    each.it_interval = (struct timespec) { interval / 1000000,
                                           interval % 1000000 * 1000 };
    each.it_value = each.it_interval;

    if (e->poll == -1 || timerfd_settime(e->timer, 0, &each, NULL) != 0) {
        bench_fail("there is no timer");
    }

    engine_watch(e, STDIN_FILENO);
    engine_watch(e, e->timer);

    while (e->n_ports < ports) {
        len = sizeof(address);
        e->ports[e->n_ports] = engine_listen();

        if (getsockname(e->ports[e->n_ports], (struct sockaddr *) &address,
                        &len) != 0)
        {
            bench_fail("a port has no number");
        }

        printf("%u ", ntohs(address.sin_port));
        engine_watch(e, e->ports[e->n_ports++]);
    }

    (void) snprintf(e->chunk, sizeof(e->chunk), "%zx\r\n%s\r\n",
                    sizeof(ENGINE_DATA) - 1, ENGINE_DATA);
    printf("\n");
    (void) fflush(stdout);
}


static void
engine_watch(engine_t *e, int fd)
{
    struct epoll_event  event;

    event = (struct epoll_event) { .events = EPOLLIN, .data.fd = fd };

    if (fd >= ENGINE_FILES
        || epoll_ctl(e->poll, EPOLL_CTL_ADD, fd, &event) != 0)
    {
        bench_fail("a descriptor cannot be waited for");
    }
}


static int
engine_listen(void)
{
    int                 fd;
    struct sockaddr_in  address;

    address = (struct sockaddr_in) { .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    if (fd == -1
        || bind(fd, (struct sockaddr *) &address, sizeof(address)) != 0
        || listen(fd, 1024) != 0)
    {
        bench_fail("there is no port");
    }

    return fd;
}


static bool
engine_listens(const engine_t *e, int fd)
{
    return fd >= e->ports[0] && fd <= e->ports[e->n_ports - 1];
}


static void
engine_accept(engine_t *e, int fd)
{
    int  on, conn;

    on = 1;
    conn = accept4(fd, NULL, NULL, SOCK_NONBLOCK);

    if (conn == -1) {
        return;
    }

    engine_watch(e, conn);
    (void) setsockopt(conn, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));

    e->conns[conn] = bench_alloc(sizeof(engine_conn_t));
    e->top = conn >= e->top ? conn + 1 : e->top;
}


/* A client sends its next request when the answer to the last one is whole. */
static void
engine_read(engine_t *e, int fd)
{
    size_t          used;
    ssize_t         n;
    engine_conn_t  *c;

    static char  data[ENGINE_READ];

    c = e->conns[fd];
    n = recv(fd, data, sizeof(data), 0);

    if (n == 0 || (n == -1 && errno != EAGAIN)) {
        engine_close(e, fd);
        return;
    }

    if (n == -1) {
        return;
    }

    used = c->left == 0 ? engine_head(c, data, (size_t) n) : 0;

    if (used == SIZE_MAX) {
        return;
    }

    c->left -= (uint64_t) n - used;

    if (c->left == 0) {
        engine_begin(e, fd);
    }
}


/* How much of data is head; SIZE_MAX: more must come. */
static size_t
engine_head(engine_conn_t *c, const char *data, size_t len)
{
    char      *end, *length;
    size_t     copied;
    uint32_t   before;

    before = c->n;
    copied = sizeof(c->head) - 1 - c->n;
    copied = len < copied ? len : copied;

    memcpy(c->head + c->n, data, copied);
    c->n += (uint32_t) copied;
    c->head[c->n] = '\0';

    end = strstr(c->head, "\r\n\r\n");

    if (end == NULL) {

        if (c->n == sizeof(c->head) - 1) {
            bench_fail("a request's head is too long");
        }

        return SIZE_MAX;
    }

    length = strstr(c->head, "\r\nContent-Length: ");
    c->left = length != NULL && length < end
              ? strtoull(length + 18, NULL, 10) : 0;

    return (size_t) (end + 4 - c->head) - before;
}


static void
engine_begin(engine_t *e, int fd)
{
    char           *path, *number;
    uint32_t        n;
    engine_conn_t  *c;

    c = e->conns[fd];
    c->n = 0;

    path = strchr(c->head, ' ') + 1;
    path[strcspn(path, " ")] = '\0';
    number = strrchr(path, '/');

    c->events = number != NULL ? (uint32_t) atoi(number + 1) : 0;

    if (c->events == 0 || c->events > ENGINE_EVENTS) {
        bench_fail("a path does not end with a number of events");
    }

    n = strstr(path, "at-once") != NULL ? c->events : 1;

    engine_send(e, fd, n, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream"
                "\r\nTransfer-Encoding: chunked\r\n\r\n");
}


static void
engine_tick(engine_t *e)
{
    int       fd;
    uint64_t  times;

    if (read(e->timer, &times, sizeof(times)) != sizeof(times)) {
        return;
    }

    for (fd = 0; fd < e->top; fd++) {
        if (e->conns[fd] != NULL && e->conns[fd]->events != 0) {
            engine_send(e, fd, 1, "");
        }
    }
}


/* They must fit into the socket. */
static void
engine_send(engine_t *e, int fd, uint32_t events, const char *head)
{
    size_t          n;
    engine_conn_t  *c;

    static char  text[(ENGINE_EVENTS + 1) * sizeof(e->chunk)];

    c = e->conns[fd];
    c->events -= events;

    n = strlen(strcpy(text, head));

    while (events-- != 0) {
        n += strlen(strcpy(text + n, e->chunk));
    }

    n += strlen(strcpy(text + n, c->events == 0 ? "0\r\n\r\n" : ""));

    if (send(fd, text, n, MSG_NOSIGNAL) != (ssize_t) n) {
        engine_close(e, fd);
    }
}


static void
engine_close(engine_t *e, int fd)
{
    free(e->conns[fd]);
    e->conns[fd] = NULL;
    (void) close(fd);
}
