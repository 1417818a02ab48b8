/*
 * The block index while it grows from empty to 4,194,304 memberships: rate,
 * memory, and the longest single change.
 *
 * Some runs make the very same changes and take the CPU time of each; the
 * smallest of a change's times counts, as a shared machine adds to the one or
 * the other of them, but not to all.  A last run, without observation, takes
 * the rate.  Rates are of CPU time.
 *
 * What no run avoids is the machine's price of new memory: the index takes
 * pages of 2 MiB, and a virtual machine whose host has taken them back pays
 * milliseconds for the first touch of each.  So changes that touched a new
 * page in any run are told apart from those that did not.
 */

#include <sys/resource.h>
#include "blocks.h"


#define GROWTH_BLOCKS  (8192 * BENCH_DEPTH)     /* memberships in the end */
#define GROWTH_CALLS   (GROWTH_BLOCKS / BENCH_CHANGE)
#define GROWTH_RUNS    3
#define GROWTH_RANKS   64
#define GROWTH_FROM    1000000                  /* to judge memory */
#define GROWTH_TURNS   1024                     /* prompts out and in */


/* The runs of a case; under observation, all but the last. */
typedef struct {
    sel_tier_t tier;
    bool       observed;
    double    *times;           /* of each change, us; smallest so far */
    bool      *paged;           /* it touched a new page */
    uint32_t   calls;
    double     worst;           /* bytes a membership */
    double     last;
} growth_t;


static void growth_case(uint32_t ranks, sel_tier_t tier, const char *name);
static void growth_run(sel_index_t *index, uint16_t *owners, uint32_t ranks,
    growth_t *growth);
static void growth_shuffle(uint16_t *owners, uint32_t n, uint32_t prompt);
static sel_index_result_t growth_apply(void *data, sel_index_t *index,
    const sel_index_change_t *change);
static void growth_print(const growth_t *growth);
static void growth_turnover(sel_index_t *index, uint16_t owner,
    growth_t *growth);
static long growth_faults(void);


static uint64_t  growth_seed;


int
main(void)
{
    sel_random_t  random;

    sel_random_seed(&random);
    growth_seed = sel_random_u64(&random);

    printf("Block index, from empty to %u memberships, changes of %u "
           "blocks\n", GROWTH_BLOCKS, BENCH_CHANGE);

    growth_case(1, SEL_TIER_DEVICE, "1 rank");
    growth_case(GROWTH_RANKS, SEL_TIER_DEVICE, "64 ranks that share all");
    growth_case(1, SEL_TIER_HOST_PINNED, "1 rank, in host memory");

    return 0;
}


static void
growth_case(uint32_t ranks, sel_tier_t tier, const char *name)
{
    uint16_t      owners[GROWTH_RANKS];
    uint32_t      i;
    uint64_t      start;
    growth_t      growth;
    sel_index_t  *index;

    growth = (growth_t) {
        .tier = tier,
        .observed = true,
        .times = bench_alloc(GROWTH_CALLS * sizeof(double)),
        .paged = bench_alloc(GROWTH_CALLS * sizeof(bool))
    };

    printf("\n  %s: %u blocks\n", name, GROWTH_BLOCKS / ranks);

    for (i = 0; i < GROWTH_RUNS; i++) {
        index = bench_index(owners, ranks, growth_seed);
        growth.calls = 0;
        growth_run(index, owners, ranks, &growth);
        sel_index_destroy(index);
    }

    growth.observed = false;

    index = bench_index(owners, ranks, growth_seed);
    start = bench_cpu_ns();
    growth_run(index, owners, ranks, &growth);
    bench_print_one("ingest while growing", GROWTH_BLOCKS * 1e3
                    / (double) (bench_cpu_ns() - start), "million blocks/s");

    if (ranks == 1) {
        growth_turnover(index, owners[0], &growth);
    }

    sel_index_destroy(index);

    growth_print(&growth);
    free(growth.times);
    free(growth.paged);
}


/* Each prompt is stored by all ranks, in an order of its own. */
static void
growth_run(sel_index_t *index, uint16_t *owners, uint32_t ranks,
    growth_t *growth)
{
    uint32_t  i, k, prompts;

    prompts = GROWTH_BLOCKS / BENCH_DEPTH / ranks;

    for (i = 0; i < prompts; i++) {
        growth_shuffle(owners, ranks, i);

        for (k = 0; k < ranks; k++) {
            bench_prompt(index, SEL_INDEX_STORED, owners[k], i, BENCH_DEPTH,
                         growth_apply, growth);
        }
    }
}


static void
growth_shuffle(uint16_t *owners, uint32_t n, uint32_t prompt)
{
    uint16_t  owner;
    uint32_t  k, other;

    for (k = 0; k < n; k++) {
        other = k + (uint32_t) (bench_mix((uint64_t) prompt << 32 | k)
                                % (n - k));
        owner = owners[other];
        owners[other] = owners[k];
        owners[k] = owner;
    }
}


static sel_index_result_t
growth_apply(void *data, sel_index_t *index, const sel_index_change_t *change)
{
    long                 pages;
    double               time, bytes;
    uint64_t             blocks, start;
    growth_t            *growth;
    sel_index_stats_t    stats;
    sel_index_change_t   copy;
    sel_index_result_t   result;

    growth = data;

    copy = *change;
    copy.tier = growth->tier;

    if (!growth->observed) {
        return sel_index_apply(index, &copy);
    }

    pages = growth_faults();
    start = bench_cpu_ns();
    result = sel_index_apply(index, &copy);
    time = (double) (bench_cpu_ns() - start) / 1000;

    if (growth->times[growth->calls] == 0
        || growth->times[growth->calls] > time)
    {
        growth->times[growth->calls] = time;
    }

    growth->paged[growth->calls] |= (growth_faults() != pages);
    growth->calls++;

    sel_index_stats(index, &stats);
    blocks = stats.blocks[growth->tier];
    bytes = (double) stats.bytes / (double) blocks;

    if (blocks >= GROWTH_FROM && bytes > growth->worst) {
        growth->worst = bytes;
    }

    growth->last = bytes;

    return result;
}


static void
growth_print(const growth_t *growth)
{
    double           longest;
    uint32_t         i;
    bench_samples_t  times;

    longest = 0;

    for (i = 0; i < growth->calls; i++) {
        if (!growth->paged[i] && growth->times[i] > longest) {
            longest = growth->times[i];
        }
    }

    times = (bench_samples_t) { growth->times, growth->calls, growth->calls,
                                false };

    bench_print("CPU time of a change", &times, "us");
    bench_print_one("one of a thousand takes longer than",
                    bench_quantile(&times, 0.999), "us");
    bench_print_one("the longest change without a new page", longest, "us");
    bench_print_one("the longest change", bench_quantile(&times, 1), "us");
    bench_print_one("memory at the worst moment", growth->worst,
                    "bytes a membership");
    bench_print_one("memory at the end", growth->last, "bytes a membership");
}


/* The index as full as it is: a prompt goes, another one comes. */
static void
growth_turnover(sel_index_t *index, uint16_t owner, growth_t *growth)
{
    uint32_t  i;
    uint64_t  start;

    start = bench_cpu_ns();

    for (i = 0; i < GROWTH_TURNS; i++) {
        bench_prompt(index, SEL_INDEX_REMOVED, owner, i, BENCH_DEPTH,
                     growth_apply, growth);
        bench_prompt(index, SEL_INDEX_STORED, owner,
                     GROWTH_BLOCKS / BENCH_DEPTH + i, BENCH_DEPTH,
                     growth_apply, growth);
    }

    bench_print_one("turnover when full, out and in",
                    (double) GROWTH_TURNS * BENCH_DEPTH * 1e3
                    / (double) (bench_cpu_ns() - start), "million blocks/s");
}


/* first touches of pages so far */
static long
growth_faults(void)
{
    struct rusage  usage;

    (void) getrusage(RUSAGE_THREAD, &usage);

    return usage.ru_minflt;
}
