/*
 * A trace replayed into the index (engines.h, loop.h).
 *
 *     replay TRACE ENGINES [SPEED]
 *
 * First all goes through as fast as it can, once as it is, and once with
 * look-ups of 16 blocks after each message: the first blocks of 32 prompts
 * take turns, others after 512 messages.  The first look-up behind a message,
 * which finds the message's data in the caches, is told apart from the seven
 * that follow it.
 *
 * Then the highest SPEED is looked for that it keeps up with: at most 5 % of
 * the messages are still queued when the last one comes, in one of two runs.
 * With a SPEED only that one is run.
 */

#include "loop.h"


#define REPLAY_QUEUED  0.05             /* of the messages, at the end */
#define REPLAY_STEPS   5                /* of the search */
#define REPLAY_RUNS    3


static void replay_all(const engines_ops_t *ops, loop_t *run);
static double replay_search(const engines_ops_t *ops, loop_t *run,
    double most);
static bool replay_keeps_up(const engines_ops_t *ops, loop_t *run,
    double speed);
static void replay_print(const engines_ops_t *ops, loop_t *run);
static void replay_print_times(const char *name, bench_samples_t *samples,
    const char *unit);


int
main(int argc, char **argv)
{
    loop_t         *run;
    trace_t         trace;
    uint32_t        engines;
    engines_ops_t   ops;

    engines = argc < 3 ? 0 : (uint32_t) atoi(argv[2]);

    if (engines == 0 || engines > ENGINES_MAX) {
        bench_fail("usage: replay TRACE ENGINES [SPEED], 1 to 64 engines");
    }

    trace = trace_read(argv[1]);
    engines_play(&ops, &trace, engines, LOOP_SEED);
    free(trace.lines);

    printf("%s to %u engines of %u blocks, seed %u\n\n", argv[1], engines,
           ENGINES_CAPACITY, LOOP_SEED);
    printf("  %u look-ups of %" PRIu64 " blocks, %" PRIu64 " messages with %"
           PRIu64 " blocks stored and %" PRIu64 " removed, %" PRIu64
           " MB\n\n", ops.look_ups, ops.looked_up, ops.messages,
           ops.stored, ops.removed, ops.bytes / 1000000);

    run = loop_create(&ops, engines);

    if (argc > 3) {
        run->speed = strtod(argv[3], NULL);
        loop_run(&ops, run);
        replay_print(&ops, run);

    } else {
        replay_all(&ops, run);
    }

    loop_free(run);
    engines_free(&ops);

    return 0;
}


static void
replay_all(const engines_ops_t *ops, loop_t *run)
{
    double           most, speed;
    uint32_t         i;
    bench_samples_t  rates;

    rates = bench_samples(REPLAY_RUNS);

    for (i = 0; i < REPLAY_RUNS; i++) {
        run->speed = 0;
        loop_run(ops, run);
        bench_add(&rates, (double) (ops->looked_up + ops->stored
                                    + ops->removed) / run->seconds / 1e6);
    }

    printf("  as fast as it can\n");
    bench_print("block operations", &rates, "million/s");
    bench_print_one("index in the end", (double) run->stats.bytes / 1e6,
                    "MB");
    bench_print_one("   a membership", (double) run->stats.bytes
                    / (double) run->stats.blocks[SEL_TIER_DEVICE], "bytes");

    bench_print_one("blocks found by look-ups", 100 * (double) run->found
                    / (double) ops->looked_up, "%");

    run->probes = true;
    loop_run(ops, run);
    run->probes = false;
    replay_print_times("look-up of 16 blocks behind a message", &run->first,
                       "ns");
    replay_print_times("   the next ones", &run->next, "ns");

    most = bench_median(&rates) * 1e6
           / (double) (ops->looked_up + ops->stored + ops->removed)
           * ((double) ops->list[ops->n - 1].at / 1e9);
    bench_samples_free(&rates);

    speed = replay_search(ops, run, 1.1 * most);

    if (speed == 0) {
        printf("  no speed above %.0f was kept up with\n", 0.4 * most);
        return;
    }

    run->speed = 0.8 * speed;
    loop_run(ops, run);
    printf("\n  at 80 %% of that speed, %.0f\n", run->speed);
    replay_print(ops, run);
}


/* 0: there is none in the upper part */
static double
replay_search(const engines_ops_t *ops, loop_t *run, double most)
{
    double    low, high, speed;
    uint32_t  i;

    speed = 0;
    low = 0.4 * most;
    high = most;

    for (i = 0; i < REPLAY_STEPS; i++) {

        if (replay_keeps_up(ops, run, (low + high) / 2)) {
            low = (low + high) / 2;
            speed = low;

        } else {
            high = (low + high) / 2;
        }
    }

    if (speed != 0 && replay_keeps_up(ops, run, speed)) {
        printf("\n  kept up with at speed %.0f\n", speed);
        replay_print(ops, run);

    } else if (speed != 0) {
        printf("\n  kept up with at speed %.0f, but not again\n", speed);
        replay_print(ops, run);
    }

    return speed;
}


static bool
replay_keeps_up(const engines_ops_t *ops, loop_t *run, double speed)
{
    uint32_t  i;

    for (i = 0; i < 2; i++) {
        run->speed = speed;
        loop_run(ops, run);

        if (run->queued <= REPLAY_QUEUED) {
            return true;
        }
    }

    return false;
}


static void
replay_print(const engines_ops_t *ops, loop_t *run)
{
    bench_print_one("block operations", (double) (ops->looked_up
                    + ops->stored + ops->removed) / run->seconds / 1e6,
                    "million/s");
    bench_print_one("messages queued at the end", 100 * run->queued, "%");
    replay_print_times("look-up: service", &run->service, "us");
    replay_print_times("   waited before", &run->wait, "us");
    replay_print_times("message: from due to done", &run->late, "us");
}


static void
replay_print_times(const char *name, bench_samples_t *samples,
    const char *unit)
{
    char  text[80];

    (void) snprintf(text, sizeof(text), "%s p50, %.2f p99", unit,
                    bench_quantile(samples, 0.99));
    bench_print_one(name, bench_median(samples), text);
}
