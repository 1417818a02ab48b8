/*
 * A load generator that also measures: it sends the same POST requests to
 * several paths of one server by turns, and reads the CPU time of the
 * server's processes at the edges of each turn.
 *
 *     load PORT CONNECTIONS REQUESTS ROUNDS BODIES PID,PID PATH...
 *
 * BODIES is a file with a body a line; the requests take them by turns.  Each
 * connection has one request under way at any time and is kept alive to the
 * end.  Prints a line a turn:
 *
 *     path  CPU microseconds a request  requests a second  bytes of an answer
 *
 * Anything but a 200 with a Content-Length ends it.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>
#include "bench.h"


#define LOAD_CONNECTIONS  64
#define LOAD_PIDS         16
#define LOAD_ANSWER       65536
#define LOAD_WAIT         10000         /* milliseconds */


typedef struct {
    int           fd;
    bool          busy;
    sel_str_t     head;                 /* what is left to send */
    sel_str_t     body;
    size_t        n;                    /* bytes of the answer so far */
    char          answer[LOAD_ANSWER];
} load_connection_t;


typedef struct {
    uint32_t            n_connections;
    uint32_t            n_bodies;
    uint32_t            n_pids;
    uint32_t            next;           /* body */
    uint64_t            bytes;          /* of the last answer's body */
    sel_str_t          *bodies;
    sel_str_t          *heads;          /* of one path, for each body */
    clockid_t           clocks[LOAD_PIDS];
    load_connection_t   connections[LOAD_CONNECTIONS];
    struct pollfd       polls[LOAD_CONNECTIONS];
} load_t;


static void load_bodies(load_t *load, const char *path);
static void load_pids(load_t *load, const char *list);
static void load_connect(load_t *load, unsigned port);
static void load_heads(load_t *load, const char *path);
static void load_turn(load_t *load, const char *path, uint32_t requests);
static double load_cpu(const load_t *load);
static void load_start(load_t *load, load_connection_t *c);
static bool load_send(load_connection_t *c);
static bool load_receive(load_t *load, load_connection_t *c);
static size_t load_part(load_connection_t *c, sel_str_t *part, int flags);


int
main(int argc, char **argv)
{
    int             path;
    uint32_t        i, rounds, requests;
    static load_t   state;
    load_t         *load;

    if (argc < 8) {
        bench_fail("usage: load PORT CONNECTIONS REQUESTS ROUNDS BODIES "
                   "PID,PID PATH...");
    }

    load = &state;
    load->n_connections = (uint32_t) atoi(argv[2]);
    requests = (uint32_t) atoi(argv[3]);
    rounds = (uint32_t) atoi(argv[4]);

    if (load->n_connections == 0 || load->n_connections > LOAD_CONNECTIONS) {
        bench_fail("1 to 64 connections");
    }

    (void) signal(SIGPIPE, SIG_IGN);

    load_bodies(load, argv[5]);
    load_pids(load, argv[6]);
    load_connect(load, (unsigned) atoi(argv[1]));

    for (path = 7; path < argc; path++) {
        load_heads(load, argv[path]);
        load_turn(load, NULL, requests / 4 + 1);
    }

    for (i = 0; i < rounds; i++) {
        for (path = 7; path < argc; path++) {
            load_heads(load, argv[path]);
            load_turn(load, argv[path], requests);
        }
    }

    return 0;
}


static void
load_bodies(load_t *load, const char *path)
{
    FILE     *file;
    char     *line;
    size_t    cap;
    ssize_t   n;

    file = fopen(path, "r");

    if (file == NULL) {
        bench_fail("the file with the bodies cannot be read");
    }

    for ( ;; ) {
        line = NULL;
        cap = 0;
        n = getline(&line, &cap, file);

        if (n <= 1) {
            free(line);
            break;
        }

        load->bodies = realloc(load->bodies, (load->n_bodies + 1)
                                             * sizeof(sel_str_t));
        if (load->bodies == NULL) {
            bench_fail("out of memory");
        }

        load->bodies[load->n_bodies++] = (sel_str_t) { (size_t) n - 1,
                                                       (uint8_t *) line };
    }

    (void) fclose(file);

    if (load->n_bodies == 0) {
        bench_fail("there are no bodies");
    }

    load->heads = bench_alloc(load->n_bodies * sizeof(sel_str_t));
}


static void
load_pids(load_t *load, const char *list)
{
    char  *end;
    pid_t  pid;

    do {
        pid = (pid_t) strtol(list, &end, 10);

        if (load->n_pids == LOAD_PIDS
            || clock_getcpuclockid(pid, &load->clocks[load->n_pids++]) != 0)
        {
            bench_fail("a process is not there");
        }

        list = end + 1;

    } while (*end == ',');
}


static void
load_connect(load_t *load, unsigned port)
{
    int                  fd, on;
    uint32_t             i;
    struct sockaddr_in   address;

    on = 1;
    address = (struct sockaddr_in) { .sin_family = AF_INET,
        .sin_port = htons((uint16_t) port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

    for (i = 0; i < load->n_connections; i++) {
        fd = socket(AF_INET, SOCK_STREAM, 0);

        if (fd == -1
            || connect(fd, (struct sockaddr *) &address, sizeof(address)) != 0
            || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
        {
            bench_fail("the server cannot be reached");
        }

        load->connections[i].fd = fd;
        load->polls[i].fd = fd;
    }
}


static void
load_heads(load_t *load, const char *path)
{
    int        n;
    char       text[512];
    uint32_t   i;

    for (i = 0; i < load->n_bodies; i++) {
        n = snprintf(text, sizeof(text), "POST %s HTTP/1.1\r\n"
                     "Host: localhost\r\nContent-Type: application/json\r\n"
                     "Content-Length: %zu\r\n\r\n", path,
                     load->bodies[i].len);

        free((void *) load->heads[i].data);

        if (n >= (int) sizeof(text)) {
            bench_fail("a path is too long");
        }

        load->heads[i] = (sel_str_t) { (size_t) n,
                                       (uint8_t *) strdup(text) };
    }
}


/* path NULL: for warmth only */
static void
load_turn(load_t *load, const char *path, uint32_t requests)
{
    double              cpu;
    uint32_t            i, sent, done;
    uint64_t            start;
    load_connection_t  *c;

    cpu = load_cpu(load);
    start = sel_clock_ns();
    sent = 0;
    done = 0;

    while (done < requests) {

        for (i = 0; i < load->n_connections; i++) {
            c = &load->connections[i];

            if (!c->busy && sent < requests) {
                load_start(load, c);
                sent++;
            }

            load->polls[i].events = c->busy ? POLLIN : 0;

            if (c->busy && !load_send(c)) {
                load->polls[i].events |= POLLOUT;
            }
        }

        if (poll(load->polls, load->n_connections, LOAD_WAIT) <= 0) {
            bench_fail("the server does not answer");
        }

        for (i = 0; i < load->n_connections; i++) {
            if ((load->polls[i].revents & ~POLLOUT) != 0) {
                done += load_receive(load, &load->connections[i]);
            }
        }
    }

    if (path != NULL) {
        printf("%s\t%.3f\t%.1f\t%" PRIu64 "\n", path,
               (load_cpu(load) - cpu) / 1000 / requests,
               requests * 1e9 / (double) (sel_clock_ns() - start),
               load->bytes);
    }
}


/* nanoseconds of all threads, as utime + stime of /proc/PID/stat but finer */
static double
load_cpu(const load_t *load)
{
    double           sum;
    uint32_t         i;
    struct timespec  ts;

    sum = 0;

    for (i = 0; i < load->n_pids; i++) {
        if (clock_gettime(load->clocks[i], &ts) != 0) {
            bench_fail("a process of the server is gone");
        }

        sum += (double) ts.tv_sec * 1e9 + (double) ts.tv_nsec;
    }

    return sum;
}


static void
load_start(load_t *load, load_connection_t *c)
{
    c->busy = true;
    c->n = 0;
    c->head = load->heads[load->next];
    c->body = load->bodies[load->next];

    load->next = (load->next + 1) % load->n_bodies;
}


/* Whether all is sent. */
static bool
load_send(load_connection_t *c)
{
    return load_part(c, &c->head, MSG_MORE) == 0
           && load_part(c, &c->body, 0) == 0;
}


static size_t
load_part(load_connection_t *c, sel_str_t *part, int flags)
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


/* Whether the answer is complete. */
static bool
load_receive(load_t *load, load_connection_t *c)
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

    load->bytes = strtoull(length + 18, NULL, 10);
    c->busy = c->n < (size_t) (body + 4 - c->answer) + load->bytes;

    return !c->busy;
}
