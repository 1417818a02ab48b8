/*
 * A load generator that also measures: it sends the same POST requests to
 * several paths of one server by turns, each path first in its round at times,
 * and reads the CPU time of the server's processes at the edges of each turn.
 *
 *     load PORT CONNECTIONS REQUESTS[@RATE] ROUNDS BODIES PID,PID PATH...
 *
 * BODIES is a file with a body a line; the requests take them by turns.  Each
 * connection has one request under way at any time and is kept alive to the
 * end.  With a RATE so many requests a second become due, at random times,
 * else each as soon as a connection is free.  Prints a line a turn:
 *
 *     path  CPU microseconds a request  requests a second  bytes of an answer
 *     chunks of an answer  and times, in microseconds, from due to the first
 *     byte of the body: p50  p99, and to the last one: p50  p99
 *
 * Anything but a 200 ends it.
 */

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include "load.h"
#include "post.h"


#define LOAD_CONNECTIONS  64
#define LOAD_WAIT         10000000000   /* ns */
#define LOAD_SEED         1


typedef struct {
    uint32_t            n_connections;
    uint32_t            next;           /* body */
    uint64_t            bytes;          /* of the last answer's body */
    uint64_t            chunks;         /* of all answers of a turn */
    double              rate;           /* 0: as fast as it can */
    uint64_t            due;            /* of the next request */
    sel_random_t        random;
    bench_samples_t     first;          /* us */
    bench_samples_t     times;
    load_bodies_t       bodies;
    load_server_t       server;
    sel_str_t          *heads;          /* of one path, for each body */
    post_t              connections[LOAD_CONNECTIONS];
    struct pollfd       polls[LOAD_CONNECTIONS];
} load_t;


static uint32_t load_requests(load_t *load, const char *text);
static void load_heads(load_t *load, const char *path);
static void load_turn(load_t *load, const char *path, uint32_t requests);
static uint32_t load_start_due(load_t *load, uint32_t most);
static void load_wait(load_t *load, bool more);
static void load_start(load_t *load, post_t *c);
static void load_answered(load_t *load, const post_t *c);


int
main(int argc, char **argv)
{
    int             n, path;
    uint32_t        i, rounds, requests;
    static load_t   state;
    load_t         *load;

    if (argc < 8) {
        bench_fail("usage: load PORT CONNECTIONS REQUESTS ROUNDS BODIES "
                   "PID,PID PATH...");
    }

    load = &state;
    load->n_connections = (uint32_t) atoi(argv[2]);
    requests = load_requests(load, argv[3]);
    rounds = (uint32_t) atoi(argv[4]);

    if (load->n_connections == 0 || load->n_connections > LOAD_CONNECTIONS) {
        bench_fail("1 to 64 connections");
    }

    (void) signal(SIGPIPE, SIG_IGN);

    load_bodies(&load->bodies, argv[5]);
    load_server(&load->server, argv[6]);
    load->heads = bench_alloc(load->bodies.n * sizeof(sel_str_t));

    for (i = 0; i < load->n_connections; i++) {
        post_connect(&load->connections[i], (unsigned) atoi(argv[1]));
        load->polls[i].fd = load->connections[i].fd;
    }

    for (path = 7; path < argc; path++) {
        load_heads(load, argv[path]);
        load_turn(load, NULL, requests / 4 + 1);
    }

    for (i = 0; i < rounds; i++) {
        for (n = 0; n < argc - 7; n++) {
            path = 7 + ((int) i + n) % (argc - 7);
            load_heads(load, argv[path]);
            load_turn(load, argv[path], requests);
        }
    }

    return 0;
}


static uint32_t
load_requests(load_t *load, const char *text)
{
    char      *end;
    uint32_t   n;

    n = (uint32_t) strtoul(text, &end, 10);

    load->rate = *end == '@' ? strtod(end + 1, NULL) : 0;
    load->first = bench_samples(n);
    load->times = bench_samples(n);
    sel_random_seed_with(&load->random, LOAD_SEED);

    /* or the kernel would round each wait up */

    (void) prctl(PR_SET_TIMERSLACK, 1);

    return n;
}


static void
load_heads(load_t *load, const char *path)
{
    int        n;
    char       text[512];
    uint32_t   i;

    for (i = 0; i < load->bodies.n; i++) {
        n = snprintf(text, sizeof(text), "POST %s HTTP/1.1\r\n"
                     "Host: localhost\r\nContent-Type: application/json\r\n"
                     "Content-Length: %zu\r\n\r\n", path,
                     load->bodies.data[i].len);

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
    double    cpu;
    uint32_t  i, sent, done;
    uint64_t  start;

    cpu = load_cpu(&load->server);
    start = sel_clock_ns();
    load->due = start;
    load->first.n = 0;
    load->times.n = 0;
    load->chunks = 0;
    sent = 0;
    done = 0;

    while (done < requests) {

        sent += load_start_due(load, requests - sent);
        load_wait(load, sent < requests);

        for (i = 0; i < load->n_connections; i++) {
            if ((load->polls[i].revents & ~POLLOUT) != 0
                && post_receive(&load->connections[i]))
            {
                load_answered(load, &load->connections[i]);
                done++;
            }
        }
    }

    if (path != NULL) {
        printf("%s\t%.3f\t%.1f\t%" PRIu64 "\t%.1f\t%.1f\t%.1f\t%.1f\t"
               "%.1f\n", path,
               (load_cpu(&load->server) - cpu) / 1000 / requests,
               requests * 1e9 / (double) (sel_clock_ns() - start),
               load->bytes, (double) load->chunks / requests,
               bench_median(&load->first),
               bench_quantile(&load->first, 0.99),
               bench_median(&load->times),
               bench_quantile(&load->times, 0.99));
    }
}


/* How many were started; sends what connections still have to send, too. */
static uint32_t
load_start_due(load_t *load, uint32_t most)
{
    uint32_t            i, n;
    uint64_t            now;
    post_t  *c;

    now = sel_clock_ns();
    n = 0;

    for (i = 0; i < load->n_connections; i++) {
        c = &load->connections[i];

        if (!c->busy && n < most && load->due <= now) {
            load_start(load, c);
            n++;
        }

        load->polls[i].events = c->busy ? POLLIN : 0;

        if (c->busy && !post_send(c)) {
            load->polls[i].events |= POLLOUT;
        }
    }

    return n;
}


/* For an answer, or for the next request's time when it can be sent then. */
static void
load_wait(load_t *load, bool more)
{
    int              n;
    bool             unused;
    int64_t          ns;
    uint32_t         i;
    struct timespec  ts;

    unused = false;

    for (i = 0; i < load->n_connections; i++) {
        unused = unused || !load->connections[i].busy;
    }

    ns = LOAD_WAIT;

    if (more && unused) {
        ns = (int64_t) (load->due - sel_clock_ns());
        ns = ns < 0 ? 0 : ns;
    }

    ts = (struct timespec) { ns / 1000000000, ns % 1000000000 };
    n = ppoll(load->polls, load->n_connections, &ts, NULL);

    if (n < 0 || (n == 0 && ns == LOAD_WAIT)) {
        bench_fail("the server does not answer");
    }
}


static void
load_start(load_t *load, post_t *c)
{
    c->due = load->rate == 0 ? sel_clock_ns() : load->due;
    post_start(c, load->heads[load->next], load->bodies.data[load->next]);

    load->next = (load->next + 1) % load->bodies.n;

    if (load->rate != 0) {
        load->due += (uint64_t) (-log1p(-sel_random_unit(&load->random))
                                 * 1e9 / load->rate);
    }
}


static void
load_answered(load_t *load, const post_t *c)
{
    load->bytes = c->length;
    load->chunks += c->chunks;
    bench_add(&load->first, (double) (c->first - c->due) / 1000);
    bench_add(&load->times, (double) (sel_clock_ns() - c->due) / 1000);
}
