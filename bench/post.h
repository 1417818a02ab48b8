/*
 * A connection on which requests go, one after another.
 */

#ifndef BENCH_POST_H
#define BENCH_POST_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include "bench.h"


#define POST_ANSWER  65536


typedef struct {
    int         fd;
    bool        busy;                   /* with a request */
    uint64_t    due;                    /* of the request */
    uint64_t    first;                  /* when the body's first byte came */
    sel_str_t   head;                   /* what is left to send */
    sel_str_t   body;
    size_t      n;                      /* bytes of the answer so far */
    uint64_t    length;                 /* of the answer's body */
    uint32_t    chunks;                 /* of it; 0: it has a length */
    char        answer[POST_ANSWER];
} post_t;


static inline void
post_connect(post_t *c, unsigned port)
{
    int                 on;
    struct sockaddr_in  address;

    on = 1;
    address = (struct sockaddr_in) { .sin_family = AF_INET,
        .sin_port = htons((uint16_t) port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

    c->fd = socket(AF_INET, SOCK_STREAM, 0);

    if (c->fd == -1
        || connect(c->fd, (struct sockaddr *) &address, sizeof(address)) != 0
        || setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
    {
        bench_fail("the server cannot be reached");
    }
}


static inline void
post_start(post_t *c, sel_str_t head, sel_str_t body)
{
    c->busy = true;
    c->n = 0;
    c->first = 0;
    c->head = head;
    c->body = body;
}


static inline size_t
post_part(post_t *c, sel_str_t *part, int flags)
{
    ssize_t  n;

    if (part->len == 0) {
        return 0;
    }

    n = send(c->fd, part->data, part->len, MSG_DONTWAIT | flags);

    if (n > 0) {
        part->data += n;
        part->len -= (size_t) n;

    } else if (errno != EAGAIN && errno != EINTR) {
        bench_fail("the server closed a connection");
    }

    return part->len;
}


/* Whether all is sent. */
static inline bool
post_send(post_t *c)
{
    return post_part(c, &c->head, c->body.len != 0 ? MSG_MORE : 0) == 0
           && post_part(c, &c->body, 0) == 0;
}


/* The chunks of a body that is complete. */
static inline uint32_t
post_chunks(const char *body)
{
    char           *end;
    uint32_t        n;
    unsigned long   size;

    for (n = 0; (size = strtoul(body, &end, 16)) != 0; n++) {
        body = end + 2 + size + 2;
    }

    return n;
}


/* Whether the answer is complete. */
static inline bool
post_receive(post_t *c)
{
    char     *body, *length;
    size_t    head;
    ssize_t   n;

    n = recv(c->fd, c->answer + c->n, sizeof(c->answer) - 1 - c->n,
             MSG_DONTWAIT);

    if (n == -1 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }

    if (n <= 0 || !c->busy) {
        bench_fail("the server closed a connection");
    }

    c->n += (size_t) n;
    c->answer[c->n] = '\0';

    body = strstr(c->answer, "\r\n\r\n");

    if (body == NULL) {
        return false;
    }

    body += 4;
    head = (size_t) (body - c->answer);

    if (strncmp(c->answer, "HTTP/1.1 200 ", 13) != 0) {
        bench_fail(c->answer);
    }

    if (c->first == 0 && c->n > head) {
        c->first = sel_clock_ns();
    }

    if (memmem(c->answer, head, "\r\nTransfer-Encoding: chunked\r\n", 30)
        != NULL)
    {
        c->busy = c->n < head + 5
                  || memcmp(c->answer + c->n - 5, "0\r\n\r\n", 5) != 0;
        c->length = c->n - head;
        c->chunks = c->busy ? 0 : post_chunks(body);

        return !c->busy;
    }

    length = memmem(c->answer, head, "\r\nContent-Length: ", 18);

    if (length == NULL) {
        bench_fail(c->answer);
    }

    c->chunks = 0;
    c->length = strtoull(length + 18, NULL, 10);
    c->busy = c->n < head + c->length;

    return !c->busy;
}


#endif /* BENCH_POST_H */
