/*
 * The body of a selection, 8,192 token ids: read, checked and hashed (blocks
 * and sequence) as the service does it, against a plain digit loop over the
 * same bytes.
 *
 * Both run over the same text, in random order, and the text is new in each
 * repetition: with the same text again and again a branch predictor learns
 * where the commas are, which it cannot do with requests.
 */

#include "bench.h"
#include "service/sel_prompt.h"


#define BODY_TOKENS      8192
#define BODY_BLOCK       16
#define BODY_ROUNDS      1500
#define BODY_TEXT        (BODY_TOKENS * 11 + 64)


typedef struct {
    const char  *name;
    unsigned     low;           /* digits; 0: numbers below 152,000 */
    unsigned     high;
} body_mix_t;


typedef struct {
    bench_samples_t  loop;
    bench_samples_t  read;
    bench_samples_t  hash;
    bench_samples_t  all;
    bench_samples_t  ratio;
} body_times_t;


static void body_run(const body_mix_t *mix, sel_random_t *random);
static size_t body_make(const body_mix_t *mix, sel_random_t *random,
    char *text);
static uint32_t body_number(const body_mix_t *mix, sel_random_t *random);
static double body_loop(sel_str_t text);
static double body_service(sel_str_t text, body_times_t *times);
static void body_print(const body_mix_t *mix, body_times_t *times);


static const body_mix_t  body_mixes[] = {
    { "ids 0 .. 152,000", 0, 0 },
    { "ids of 5 digits", 5, 5 },
    { "ids of 6 digits", 6, 6 },
    { "ids of 1 to 9 digits", 1, 9 }
};

static const char  body_head[] = "{\"token_ids\":[";
static const char  body_tail[] = "]}";

static uint32_t    body_numbers[BODY_TOKENS];


int
main(void)
{
    size_t         i;
    sel_random_t   random;

    sel_random_seed(&random);

    printf("Body of %u token ids, blocks of %u; %u repetitions\n",
           BODY_TOKENS, BODY_BLOCK, BODY_ROUNDS);

    for (i = 0; i < sel_countof(body_mixes); i++) {
        body_run(&body_mixes[i], &random);
    }

    return 0;
}


static void
body_run(const body_mix_t *mix, sel_random_t *random)
{
    char          *text;
    double         loop, service;
    uint32_t       i;
    sel_str_t      body;
    body_times_t   times;

    text = bench_alloc(BODY_TEXT);

    times.loop = bench_samples(BODY_ROUNDS);
    times.read = bench_samples(BODY_ROUNDS);
    times.hash = bench_samples(BODY_ROUNDS);
    times.all = bench_samples(BODY_ROUNDS);
    times.ratio = bench_samples(BODY_ROUNDS);

    for (i = 0; i < BODY_ROUNDS; i++) {

        body.len = body_make(mix, random, text);
        body.data = (uint8_t *) text;

        if (sel_random_below(random, 2) == 0) {
            loop = body_loop(body);
            service = body_service(body, &times);

        } else {
            service = body_service(body, &times);
            loop = body_loop(body);
        }

        bench_add(&times.loop, loop);
        bench_add(&times.ratio, service / loop);
    }

    body_print(mix, &times);

    bench_samples_free(&times.loop);
    bench_samples_free(&times.read);
    bench_samples_free(&times.hash);
    bench_samples_free(&times.all);
    bench_samples_free(&times.ratio);
    free(text);
}


static size_t
body_make(const body_mix_t *mix, sel_random_t *random, char *text)
{
    char      *p;
    uint32_t   i;

    p = text + sprintf(text, "%s", body_head);

    for (i = 0; i < BODY_TOKENS; i++) {
        p += sprintf(p, i == 0 ? "%u" : ",%u", body_number(mix, random));
    }

    p += sprintf(p, "%s", body_tail);

    return (size_t) (p - text);
}


static uint32_t
body_number(const body_mix_t *mix, sel_random_t *random)
{
    uint32_t  low;
    unsigned  digits;

    if (mix->high == 0) {
        return (uint32_t) sel_random_below(random, 152000);
    }

    digits = mix->low + (unsigned) sel_random_below(random, mix->high
                                                            - mix->low + 1);

    for (low = 1; digits > 1; digits--) {
        low *= 10;
    }

    return low + (uint32_t) sel_random_below(random, (uint64_t) 9 * low);
}


/* microseconds */
__attribute__((noinline))
static double
body_loop(sel_str_t text)
{
    uint32_t        n, v;
    uint64_t        start;
    const uint8_t  *p, *end;

    p = text.data + sizeof(body_head) - 1;
    end = text.data + text.len - (sizeof(body_tail) - 1);

    start = sel_clock_ns();

    n = 0;
    v = 0;

    for ( /* void */ ; p < end; p++) {
        if (*p == ',') {
            body_numbers[n++] = v;
            v = 0;

        } else {
            v = v * 10 + *p - '0';
        }
    }

    body_numbers[n] = v;
    bench_keep((uintptr_t) body_numbers);

    return (double) (sel_clock_ns() - start) / 1000;
}


/* the same for the service */
__attribute__((noinline))
static double
body_service(sel_str_t text, body_times_t *times)
{
    bool                   ok;
    uint64_t               at[4];
    sel_json_t             json;
    sel_arena_t            arena;
    sel_fault_t            fault;
    sel_prompt_t           prompt;
    sel_select_body_t      body;
    sel_view_partition_t   partition;

    partition = (sel_view_partition_t) { .key.block_size = BODY_BLOCK };

    at[0] = sel_clock_ns();

    sel_arena_init(&arena, 0);
    sel_json_init_text(&json, &arena, text);

    ok = sel_read_select(&json, &body);

    at[1] = sel_clock_ns();

    ok = ok
         && sel_prompt_read(&partition, &arena, &body,
                            SEL_PROMPT_FOR_SELECT, NULL, &prompt, &fault);

    at[2] = sel_clock_ns();

    if (!ok) {
        bench_fail("the body was refused");
    }

    bench_keep((uintptr_t) prompt.sequence);

    sel_arena_free(&arena);

    at[3] = sel_clock_ns();

    bench_add(&times->read, (double) (at[1] - at[0]) / 1000);
    bench_add(&times->hash, (double) (at[2] - at[1]) / 1000);
    bench_add(&times->all, (double) (at[3] - at[0]) / 1000);

    return (double) (at[3] - at[0]) / 1000;
}


static void
body_print(const body_mix_t *mix, body_times_t *times)
{
    printf("\n  %s\n", mix->name);

    bench_print("digit loop", &times->loop, "us");
    bench_print("read, checked and hashed", &times->all, "us");
    bench_print("   of it: read and checked", &times->read, "us");
    bench_print("   hashes", &times->hash, "us");
    bench_print("ratio", &times->ratio, "");
}
