/*
 * Look-ups in a block index of 4,194,304 blocks and 64 ranks.
 *
 * Cold: a random prompt of all, 512 blocks.  Warm: the first 16 blocks of a
 * few prompts that take turns, each look-up timed alone; the time of reading
 * the clock is in the figure and printed beside it.
 *
 * Then in other indexes, of the same size and of one prompt, with lower tiers.
 */

#include "blocks.h"


#define INDEX_PROMPTS    8192
#define INDEX_RANKS      64
#define INDEX_LOOKUPS    4000
#define INDEX_WARM       16
#define INDEX_TURNS      32             /* prompts that take turns */
#define INDEX_RUNS       200000
#define INDEX_CROWD      1000           /* ranks with the same prompt */


static void index_cold(sel_index_t *index, const char *name);
static void index_warm(sel_index_t *index, const char *name);
static void index_tiers(void);
static void index_crowd(void);
static void index_split(sel_index_t *index, uint16_t owner, uint32_t prompt,
    uint32_t from);
static sel_index_result_t index_split_apply(void *data, sel_index_t *index,
    const sel_index_change_t *change);


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

    index_tiers();
    index_crowd();

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


/* The first block in host memory; those before are on the device. */
typedef struct {
    uint32_t  from;
    uint32_t  done;
} index_split_t;


static void
index_tiers(void)
{
    uint16_t      owners[INDEX_RANKS];
    uint32_t      i;
    sel_index_t  *index;

    index = bench_index(owners, INDEX_RANKS, sel_random_u64(&index_random));

    for (i = 0; i < INDEX_PROMPTS; i++) {
        index_split(index, owners[i % INDEX_RANKS], i, BENCH_DEPTH / 2);
    }

    index_cold(index, "512 blocks cold, half of them in host memory");
    index_warm(index, "16 blocks warm, of such prompts");

    sel_index_destroy(index);
}


/* All have the prompt, each goes over to host memory somewhere else. */

static void
index_crowd(void)
{
    uint16_t            owners[INDEX_CROWD];
    uint32_t            i, n;
    uint64_t            start, blocks[BENCH_DEPTH];
    sel_index_t        *index;
    bench_samples_t     samples;
    sel_index_match_t   out[INDEX_CROWD];

    index = bench_index(owners, INDEX_CROWD, sel_random_u64(&index_random));
    samples = bench_samples(INDEX_LOOKUPS);

    for (i = 0; i < INDEX_CROWD; i++) {
        index_split(index, owners[i], 0, 1 + i * 7 % (BENCH_DEPTH - 1));
    }

    bench_blocks(0, 0, BENCH_DEPTH, blocks);

    for (i = 0; i < INDEX_LOOKUPS; i++) {
        start = sel_clock_ns();
        n = sel_index_match(index, BENCH_PARTITION, blocks, BENCH_DEPTH, out,
                            INDEX_CROWD);
        bench_add(&samples, (double) (sel_clock_ns() - start) / 1000);

        if (n != INDEX_CROWD || out[0].hits[SEL_TIER_DEVICE]
                                + out[0].hits[SEL_TIER_HOST_PINNED]
                                != BENCH_DEPTH)
        {
            bench_fail("a rank was not found");
        }
    }

    bench_print("512 blocks, 1,000 ranks in two tiers", &samples, "us");
    bench_samples_free(&samples);
    sel_index_destroy(index);
}


static void
index_split(sel_index_t *index, uint16_t owner, uint32_t prompt,
    uint32_t from)
{
    index_split_t  split;

    split = (index_split_t) { .from = from };

    bench_prompt(index, SEL_INDEX_STORED, owner, prompt, BENCH_DEPTH,
                 index_split_apply, &split);
}


static sel_index_result_t
index_split_apply(void *data, sel_index_t *index,
    const sel_index_change_t *change)
{
    uint32_t             n;
    index_split_t       *split;
    sel_index_change_t   part;
    sel_index_result_t   result;

    split = data;
    part = *change;

    n = split->done < split->from ? split->from - split->done : 0;
    n = n < change->n ? n : change->n;

    part.n = n;
    result = n == 0 ? SEL_INDEX_OK : sel_index_apply(index, &part);

    if (result == SEL_INDEX_OK && n < change->n) {
        part.tier = SEL_TIER_HOST_PINNED;
        part.has_parent = split->done + n != 0;
        part.parent = n == 0 ? change->parent : change->external[n - 1];
        part.n = change->n - n;
        part.external = change->external + n;
        part.block = change->block + n;

        result = sel_index_apply(index, &part);
    }

    split->done += change->n;

    return result;
}
