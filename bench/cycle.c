/*
 * A load generator for reservations: it books, completes the prefill and
 * frees, over connections that are kept alive.
 *
 *     cycle PORT CONNECTIONS BOOKINGS whole|steps BODIES PID,PID
 *
 * BODIES is a file with a body of POST /select_and_reserve a line; the
 * bookings take them by turns.  With "whole" each connection takes one booking
 * after another through the three steps; with "steps" all bookings are made
 * before any goes on to its second step, and so on.  A quarter of as many goes
 * before for warmth.  Prints a line for the whole, or a line a step:
 *
 *     name  CPU microseconds of the server a booking  bookings a second
 */

#include <poll.h>
#include <signal.h>
#include "load.h"
#include "post.h"


#define CYCLE_CONNECTIONS  64
#define CYCLE_WAIT         10000        /* ms */
#define CYCLE_ID           36           /* a UUID */


enum {
    cycle_book = 0,
    cycle_prefilled,
    cycle_free,
    CYCLE_STEPS
};


/* A booking's way on a connection. */
typedef struct {
    uint32_t   booking;
    int        step;
    char       head[256];
    post_t     post;
} cycle_way_t;


typedef struct {
    uint32_t        n_ways;
    uint32_t        next;               /* body */
    load_bodies_t   bodies;
    load_server_t   server;
    char          (*ids)[CYCLE_ID + 1];
    cycle_way_t     ways[CYCLE_CONNECTIONS];
    struct pollfd   polls[CYCLE_CONNECTIONS];
} cycle_t;


static void cycle_whole(cycle_t *cycle, uint32_t bookings, bool told);
static void cycle_steps(cycle_t *cycle, uint32_t bookings, bool told);
static void cycle_run(cycle_t *cycle, const char *name, int first, int last,
    uint32_t bookings);
static void cycle_start(cycle_t *cycle, cycle_way_t *way);
static void cycle_wait(cycle_t *cycle);
static void cycle_answered(cycle_t *cycle, cycle_way_t *way);


int
main(int argc, char **argv)
{
    uint32_t         i, bookings;
    static cycle_t   state;
    cycle_t         *cycle;

    if (argc != 7) {
        bench_fail("usage: cycle PORT CONNECTIONS BOOKINGS whole|steps "
                   "BODIES PID,PID");
    }

    cycle = &state;
    cycle->n_ways = (uint32_t) atoi(argv[2]);
    bookings = (uint32_t) atoi(argv[3]);

    if (cycle->n_ways == 0 || cycle->n_ways > CYCLE_CONNECTIONS) {
        bench_fail("1 to 64 connections");
    }

    (void) signal(SIGPIPE, SIG_IGN);

    load_bodies(&cycle->bodies, argv[5]);
    load_server(&cycle->server, argv[6]);
    cycle->ids = bench_alloc((bookings + 1) * sizeof(cycle->ids[0]));

    for (i = 0; i < cycle->n_ways; i++) {
        post_connect(&cycle->ways[i].post, (unsigned) atoi(argv[1]));
        cycle->polls[i].fd = cycle->ways[i].post.fd;
    }

    if (strcmp(argv[4], "whole") == 0) {
        cycle_whole(cycle, bookings / 4 + 1, false);
        cycle_whole(cycle, bookings, true);

    } else {
        cycle_steps(cycle, bookings / 4 + 1, false);
        cycle_steps(cycle, bookings, true);
    }

    return 0;
}


static void
cycle_whole(cycle_t *cycle, uint32_t bookings, bool told)
{
    cycle_run(cycle, told ? "whole" : NULL, cycle_book, cycle_free, bookings);
}


static void
cycle_steps(cycle_t *cycle, uint32_t bookings, bool told)
{
    int  step;

    static const char *const  names[CYCLE_STEPS] = {
        "select_and_reserve", "prefill_complete", "DELETE"
    };

    for (step = 0; step < CYCLE_STEPS; step++) {
        cycle_run(cycle, told ? names[step] : NULL, step, step, bookings);
    }
}


/* All bookings through the steps first to last; name NULL: not told. */
static void
cycle_run(cycle_t *cycle, const char *name, int first, int last,
    uint32_t bookings)
{
    double        cpu;
    uint32_t      i, begun, ended;
    uint64_t      start;
    cycle_way_t  *way;

    cpu = load_cpu(&cycle->server);
    start = sel_clock_ns();
    begun = 0;
    ended = 0;

    while (ended < bookings) {

        for (i = 0; i < cycle->n_ways && begun < bookings; i++) {
            way = &cycle->ways[i];

            if (!way->post.busy) {
                way->booking = begun++;
                way->step = first;
                cycle_start(cycle, way);
            }
        }

        cycle_wait(cycle);

        for (i = 0; i < cycle->n_ways; i++) {
            way = &cycle->ways[i];

            if ((cycle->polls[i].revents & ~POLLOUT) == 0
                || !post_receive(&way->post))
            {
                continue;
            }

            cycle_answered(cycle, way);

            if (way->step++ == last) {
                ended++;

            } else {
                cycle_start(cycle, way);
            }
        }
    }

    if (name != NULL) {
        printf("%s\t%.3f\t%.1f\n", name,
               (load_cpu(&cycle->server) - cpu) / 1000 / bookings,
               bookings * 1e9 / (double) (sel_clock_ns() - start));
    }
}


static void
cycle_start(cycle_t *cycle, cycle_way_t *way)
{
    int          n;
    sel_str_t    body;
    const char  *id;

    id = cycle->ids[way->booking];
    body = (sel_str_t) { 0 };

    if (way->step == cycle_book) {
        body = cycle->bodies.data[cycle->next];
        cycle->next = (cycle->next + 1) % cycle->bodies.n;

        n = snprintf(way->head, sizeof(way->head),
                     "POST /select_and_reserve HTTP/1.1\r\nHost: localhost"
                     "\r\nContent-Type: application/json\r\n"
                     "Content-Length: %zu\r\n\r\n", body.len);

    } else {
        n = snprintf(way->head, sizeof(way->head),
                     "%s /reservations/%s%s HTTP/1.1\r\nHost: localhost\r\n"
                     "%s\r\n", way->step == cycle_free ? "DELETE" : "POST",
                     id, way->step == cycle_free ? "" : "/prefill_complete",
                     way->step == cycle_free ? "" : "Content-Length: 0\r\n");
    }

    post_start(&way->post, (sel_str_t) { (size_t) n, (uint8_t *) way->head },
               body);
}


/* Sends what there is to send, and waits for an answer. */
static void
cycle_wait(cycle_t *cycle)
{
    uint32_t  i;
    post_t   *post;

    for (i = 0; i < cycle->n_ways; i++) {
        post = &cycle->ways[i].post;
        cycle->polls[i].events = post->busy ? POLLIN : 0;

        if (post->busy && !post_send(post)) {
            cycle->polls[i].events |= POLLOUT;
        }
    }

    if (poll(cycle->polls, cycle->n_ways, CYCLE_WAIT) <= 0) {
        bench_fail("the server does not answer");
    }
}


/* A booking has the name that it was given. */
static void
cycle_answered(cycle_t *cycle, cycle_way_t *way)
{
    const char  *id;

    static const char  member[] = "\"selection_id\":\"";

    if (way->step != cycle_book) {
        return;
    }

    id = strstr(way->post.answer, member);

    if (id == NULL || strlen(id) < sizeof(member) + CYCLE_ID) {
        bench_fail("a booking has no id");
    }

    memcpy(cycle->ids[way->booking], id + sizeof(member) - 1, CYCLE_ID);
}
