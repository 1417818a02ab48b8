/*
 * Look-ups in a block index of 4,194,304 blocks and 64 ranks.
 *
 * Cold: a random prompt of all, 512 blocks.  Warm: the first 16 blocks of a
 * few prompts that take turns, each look-up timed alone; the time of reading
 * the clock is in the figure and printed beside it.
 */

#include "blocks.h"


#define INDEX_PROMPTS    8192
#define INDEX_RANKS      64
#define INDEX_LOOKUPS    4000
#define INDEX_WARM       16
#define INDEX_TURNS      32             /* prompts that take turns */
#define INDEX_RUNS       200000


static void index_cold(sel_index_t *index, const char *name);
static void index_warm(sel_index_t *index, const char *name);


static sel_random_t  index_random;


int
main(void)
{
    uint16_t      owners[INDEX_RANKS];
    uint32_t      i, k;
    sel_index_t  *index;

    sel_random_seed(&index_random);

    index = bench_index(owners, INDEX_RANKS, sel_random_u64(&index_random));

    for (i = 0; i < INDEX_PROMPTS; i++) {
        bench_prompt(index, SEL_INDEX_STORED, owners[i % INDEX_RANKS], i,
                     BENCH_DEPTH, bench_apply, NULL);
    }

    printf("Look-ups in an index of %u blocks, %u ranks\n\n",
           INDEX_PROMPTS * BENCH_DEPTH, INDEX_RANKS);
    index_cold(index, "512 blocks cold, each prompt on one rank");
    index_warm(index, "16 blocks warm, each prompt on one rank");

    /* three more ranks hold the first quarter, half, three quarters */

    for (i = 0; i < INDEX_PROMPTS; i++) {
        for (k = 1; k < 4; k++) {
            bench_prompt(index, SEL_INDEX_STORED,
                         owners[(i * 7 + k * 13) % INDEX_RANKS], i,
                         BENCH_DEPTH / 4 * k, bench_apply, NULL);
        }
    }

    index_cold(index, "512 blocks cold, each prompt on four");
    index_warm(index, "16 blocks warm, each prompt on four");

    sel_index_destroy(index);

    return 0;
}


static void
index_cold(sel_index_t *index, const char *name)
{
    uint32_t            i, n;
    uint64_t            start, blocks[BENCH_DEPTH];
    bench_samples_t     samples;
    sel_index_match_t   out[INDEX_RANKS];

    samples = bench_samples(INDEX_LOOKUPS);

    for (i = 0; i < INDEX_LOOKUPS; i++) {
        bench_blocks((uint32_t) sel_random_below(&index_random,
                                                 INDEX_PROMPTS),
                     0, BENCH_DEPTH, blocks);

        start = sel_clock_ns();
        n = sel_index_match(index, BENCH_PARTITION, blocks, BENCH_DEPTH, out,
                            INDEX_RANKS);
        bench_add(&samples, (double) (sel_clock_ns() - start) / BENCH_DEPTH);

        if (n == 0) {
            bench_fail("a prompt was not found");
        }
    }

    bench_print(name, &samples, "ns a block");
    bench_samples_free(&samples);
}


static void
index_warm(sel_index_t *index, const char *name)
{
    char                unit[64];
    uint32_t            i, n;
    uint64_t            start, blocks[INDEX_TURNS][INDEX_WARM];
    bench_samples_t     clock, samples;
    sel_index_match_t   out[INDEX_RANKS];

    clock = bench_samples(INDEX_RUNS);
    samples = bench_samples(INDEX_RUNS);

    for (i = 0; i < INDEX_TURNS; i++) {
        bench_blocks(i * 251 % INDEX_PROMPTS, 0, INDEX_WARM, blocks[i]);
    }

    for (i = 0; i < INDEX_RUNS; i++) {
        start = sel_clock_ns();
        bench_add(&clock, (double) (sel_clock_ns() - start));

        start = sel_clock_ns();
        n = sel_index_match(index, BENCH_PARTITION, blocks[i % INDEX_TURNS],
                            INDEX_WARM, out, INDEX_RANKS);
        bench_add(&samples, (double) (sel_clock_ns() - start));
        bench_keep(n);
    }

    (void) snprintf(unit, sizeof(unit), "ns p50, %.0f p99 (the clock: %.0f)",
                    bench_quantile(&samples, 0.99), bench_median(&clock));
    bench_print_one(name, bench_median(&samples), unit);

    bench_samples_free(&clock);
    bench_samples_free(&samples);
}
