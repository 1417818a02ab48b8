/*
 * A connection on which POST requests go, one after another.
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
    sel_str_t   head;                   /* what is left to send */
    sel_str_t   body;
    size_t      n;                      /* bytes of the answer so far */
    uint64_t    length;                 /* of the answer's body */
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
    return post_part(c, &c->head, MSG_MORE) == 0
           && post_part(c, &c->body, 0) == 0;
}


/* Whether the answer is complete. */
static inline bool
post_receive(post_t *c)
{
    char     *body, *length;
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

    length = strstr(c->answer, "\r\nContent-Length: ");

    if (strncmp(c->answer, "HTTP/1.1 200 ", 13) != 0
        || length == NULL || length > body)
    {
        bench_fail(c->answer);
    }

    c->length = strtoull(length + 18, NULL, 10);
    c->busy = c->n < (size_t) (body + 4 - c->answer) + c->length;

    return !c->busy;
}


#endif /* BENCH_POST_H */
