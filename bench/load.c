/*
 * A load generator that also measures: it sends the same POST requests to
 * several paths of one server by turns, and reads the CPU time of the
 * server's processes at the edges of each turn.
 *
 *     load PORT CONNECTIONS REQUESTS[@RATE] ROUNDS BODIES PID,PID PATH...
 *
 * BODIES is a file with a body a line; the requests take them by turns.  Each
 * connection has one request under way at any time and is kept alive to the
 * end.  With a RATE so many requests a second become due, at random times,
 * else each as soon as a connection is free.  Prints a line a turn:
 *
 *     path  CPU microseconds a request  requests a second  bytes of an answer
 *     and two times from due to answered, in microseconds: p50  p99
 *
 * Anything but a 200 with a Content-Length ends it.
 */

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include "post.h"


#define LOAD_CONNECTIONS  64
#define LOAD_PIDS         16
#define LOAD_WAIT         10000000000   /* ns */
#define LOAD_SEED         1


typedef struct {
    uint32_t            n_connections;
    uint32_t            n_bodies;
    uint32_t            n_pids;
    uint32_t            next;           /* body */
    uint64_t            bytes;          /* of the last answer's body */
    double              rate;           /* 0: as fast as it can */
    uint64_t            due;            /* of the next request */
    sel_random_t        random;
    bench_samples_t     times;          /* us */
    sel_str_t          *bodies;
    sel_str_t          *heads;          /* of one path, for each body */
    clockid_t           clocks[LOAD_PIDS];
    post_t              connections[LOAD_CONNECTIONS];
    struct pollfd       polls[LOAD_CONNECTIONS];
} load_t;


static uint32_t load_requests(load_t *load, const char *text);
static void load_bodies(load_t *load, const char *path);
static void load_pids(load_t *load, const char *list);
static void load_heads(load_t *load, const char *path);
static void load_turn(load_t *load, const char *path, uint32_t requests);
static double load_cpu(const load_t *load);
static uint32_t load_start_due(load_t *load, uint32_t most);
static void load_wait(load_t *load, bool more);
static void load_start(load_t *load, post_t *c);
static void load_answered(load_t *load, const post_t *c);


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
    requests = load_requests(load, argv[3]);
    rounds = (uint32_t) atoi(argv[4]);

    if (load->n_connections == 0 || load->n_connections > LOAD_CONNECTIONS) {
        bench_fail("1 to 64 connections");
    }

    (void) signal(SIGPIPE, SIG_IGN);

    load_bodies(load, argv[5]);
    load_pids(load, argv[6]);

    for (i = 0; i < load->n_connections; i++) {
        post_connect(&load->connections[i], (unsigned) atoi(argv[1]));
        load->polls[i].fd = load->connections[i].fd;
    }

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


static uint32_t
load_requests(load_t *load, const char *text)
{
    char      *end;
    uint32_t   n;

    n = (uint32_t) strtoul(text, &end, 10);

    load->rate = *end == '@' ? strtod(end + 1, NULL) : 0;
    load->times = bench_samples(n);
    sel_random_seed_with(&load->random, LOAD_SEED);

    /* or the kernel would round each wait up */

    (void) prctl(PR_SET_TIMERSLACK, 1);

    return n;
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
    double    cpu;
    uint32_t  i, sent, done;
    uint64_t  start;

    cpu = load_cpu(load);
    start = sel_clock_ns();
    load->due = start;
    load->times.n = 0;
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
        printf("%s\t%.3f\t%.1f\t%" PRIu64 "\t%.1f\t%.1f\n", path,
               (load_cpu(load) - cpu) / 1000 / requests,
               requests * 1e9 / (double) (sel_clock_ns() - start),
               load->bytes, bench_median(&load->times),
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
load_start(load_t *load, post_t *c)
{
    c->due = load->rate == 0 ? sel_clock_ns() : load->due;
    post_start(c, load->heads[load->next], load->bodies[load->next]);

    load->next = (load->next + 1) % load->n_bodies;

    if (load->rate != 0) {
        load->due += (uint64_t) (-log1p(-sel_random_unit(&load->random))
                                 * 1e9 / load->rate);
    }
}


static void
load_answered(load_t *load, const post_t *c)
{
    load->bytes = c->length;
    bench_add(&load->times, (double) (sel_clock_ns() - c->due) / 1000);
}
