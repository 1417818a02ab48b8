/*
 * Engines whose blocks come and go, in a process of their own: a ZMQ socket a
 * rank.  Messages are as vLLM's, each with the 512 blocks of a new prompt in
 * 8 events; the ranks take turns.
 *
 *     publish RANKS
 *
 * prints the ports of the ranks, then the port of a socket that never says a
 * word, and obeys the lines of its input, each answered with one:
 *
 *     wait N       until each rank has been subscribed to N times
 *     grow N       N messages at once, made before; answers with the seconds
 *                  on the monotonic clock at which the first one went
 *     turn RATE    RATE messages a second, which remove as many blocks as
 *                  they store, until another line comes, whatever it says;
 *                  answers with their number
 */

#include <poll.h>
#include <unistd.h>
#include <zmq.h>
#include "pack.h"


#define PUBLISH_RANKS   64
#define PUBLISH_EVENTS  8
#define PUBLISH_BLOCKS  (PUBLISH_EVENTS * BENCH_EVENT)
#define PUBLISH_WAIT    30000           /* milliseconds */


typedef struct {
    uint32_t   ranks;
    uint64_t   next;                    /* block of the next message */
    uint64_t   held;                    /* blocks */
    uint64_t   messages;
    void      *context;
    void      *sockets[PUBLISH_RANKS + 1];
} publish_t;


static void publish_open(publish_t *p);
static void *publish_socket(publish_t *p, int type);
static void publish_wait(publish_t *p, uint32_t subscriptions);
static void publish_grow(publish_t *p, uint32_t messages);
static void publish_turn(publish_t *p, double rate);
static void publish_pack(publish_t *p, bench_pack_t *pack, uint64_t gone);
static void publish_send(publish_t *p, const bench_pack_t *pack);


int
main(int argc, char **argv)
{
    char       line[64];
    double     n;
    publish_t  p;

    memset(&p, 0, sizeof(publish_t));
    p.ranks = argc < 2 ? 0 : (uint32_t) atoi(argv[1]);

    if (p.ranks == 0 || p.ranks > PUBLISH_RANKS) {
        bench_fail("usage: publish RANKS, 1 to 64");
    }

    /* poll() shall see the next line */

    (void) setvbuf(stdin, NULL, _IONBF, 0);
    (void) setvbuf(stdout, NULL, _IOLBF, 0);

    publish_open(&p);

    while (fgets(line, sizeof(line), stdin) != NULL) {

        n = strtod(line + strcspn(line, " "), NULL);

        if (strncmp(line, "wait ", 5) == 0) {
            publish_wait(&p, (uint32_t) n);

        } else if (strncmp(line, "grow ", 5) == 0) {
            publish_grow(&p, (uint32_t) n);

        } else if (strncmp(line, "turn ", 5) == 0 && n > 0) {
            publish_turn(&p, n);

        } else {
            bench_fail("publish: what is that?");
        }
    }

    return 0;
}


static void
publish_open(publish_t *p)
{
    char      endpoint[256];
    size_t    len;
    uint32_t  i;

    p->context = zmq_ctx_new();

    for (i = 0; i <= p->ranks; i++) {

        p->sockets[i] = publish_socket(p, i < p->ranks ? ZMQ_XPUB : ZMQ_PUB);
        len = sizeof(endpoint);

        if (zmq_bind(p->sockets[i], "tcp://127.0.0.1:*") != 0
            || zmq_getsockopt(p->sockets[i], ZMQ_LAST_ENDPOINT, endpoint,
                              &len) != 0)
        {
            bench_fail("publish: no port");
        }

        printf("%s%c", strrchr(endpoint, ':') + 1, i < p->ranks ? ' ' : '\n');
    }
}


static void *
publish_socket(publish_t *p, int type)
{
    int    all, none, wait, backlog;
    void  *s;

    all = 1;
    none = 0;
    wait = PUBLISH_WAIT;
    backlog = 4096;
    s = zmq_socket(p->context, type);

    if (s == NULL
        || (type == ZMQ_XPUB
            && zmq_setsockopt(s, ZMQ_XPUB_VERBOSE, &all, sizeof(all)) != 0)
        || zmq_setsockopt(s, ZMQ_SNDHWM, &none, sizeof(none)) != 0
        || zmq_setsockopt(s, ZMQ_LINGER, &none, sizeof(none)) != 0
        || zmq_setsockopt(s, ZMQ_RCVTIMEO, &wait, sizeof(wait)) != 0
        || zmq_setsockopt(s, ZMQ_BACKLOG, &backlog, sizeof(backlog)) != 0)
    {
        bench_fail("publish: no socket");
    }

    return s;
}


static void
publish_wait(publish_t *p, uint32_t subscriptions)
{
    char      message[256];
    uint32_t  i, n;

    for (i = 0; i < p->ranks; i++) {

        n = 0;

        while (n < subscriptions) {
            if (zmq_recv(p->sockets[i], message, sizeof(message), 0) <= 0) {
                bench_fail("publish: nobody subscribes");
            }

            n += message[0] == 1;
        }
    }

    printf("done\n");
}


static void
publish_grow(publish_t *p, uint32_t messages)
{
    uint32_t       i;
    uint64_t       start;
    bench_pack_t  *packs;

    packs = bench_alloc(messages * sizeof(bench_pack_t));

    for (i = 0; i < messages; i++) {
        publish_pack(p, &packs[i], 0);
    }

    start = sel_clock_ns();

    for (i = 0; i < messages; i++) {
        publish_send(p, &packs[i]);
        free(packs[i].data);
    }

    free(packs);
    p->held += (uint64_t) messages * PUBLISH_BLOCKS;

    printf("%.6f\n", (double) start / 1e9);
}


/* A rank removes what it stored: held is a multiple of a round of them. */
static void
publish_turn(publish_t *p, double rate)
{
    char             line[64];
    int64_t          left;
    uint64_t         n, start;
    bench_pack_t     pack;
    struct pollfd    input;
    struct timespec  ts;

    memset(&pack, 0, sizeof(bench_pack_t));
    input = (struct pollfd) { .fd = STDIN_FILENO, .events = POLLIN };
    start = sel_clock_ns();
    n = 0;

    do {
        publish_pack(p, &pack, p->held);
        publish_send(p, &pack);
        n++;

        left = (int64_t) (start + (uint64_t) ((double) n * 1e9 / rate)
                          - sel_clock_ns());
        left = left < 0 ? 0 : left;
        ts = (struct timespec) { left / 1000000000, left % 1000000000 };

    } while (ppoll(&input, 1, &ts, NULL) == 0);

    if (fgets(line, sizeof(line), stdin) == NULL) {
        bench_fail("publish: no line ends it");
    }

    free(pack.data);

    printf("%" PRIu64 "\n", n);
}


static void
publish_pack(publish_t *p, bench_pack_t *pack, uint64_t gone)
{
    uint32_t  i;

    bench_pack_open(pack, gone != 0 ? 2 * PUBLISH_EVENTS : PUBLISH_EVENTS);

    for (i = 0; i < PUBLISH_EVENTS; i++) {
        bench_pack_event(pack, p->next, gone);
        p->next += BENCH_EVENT;
    }

    bench_pack_close(pack);
}


static void
publish_send(publish_t *p, const bench_pack_t *pack)
{
    void      *s;
    uint64_t   sequence;

    s = p->sockets[p->messages % p->ranks];
    sequence = __builtin_bswap64(p->messages / p->ranks);
    p->messages++;

    if (zmq_send(s, "kv-events", 9, ZMQ_SNDMORE) == -1
        || zmq_send(s, &sequence, sizeof(sequence), ZMQ_SNDMORE) == -1
        || zmq_send(s, pack->data, pack->len, 0) == -1)
    {
        bench_fail("publish: a message was not sent");
    }
}
