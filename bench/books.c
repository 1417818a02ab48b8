/*
 * The books: bookings of 512 blocks on 1,024 ranks, 20,000 of them alive, all
 * of which share their first 256 blocks.  Times are those of whole calls,
 * nearly all of it inside the lock.
 */

#include <sys/mman.h>
#include "bench.h"
#include "state/sel_books.h"


#define BOOKS_ZONE      ((size_t) 512 << 20)
#define BOOKS_RANKS     1024
#define BOOKS_BLOCKS    512
#define BOOKS_SHARED    256
#define BOOKS_LIVE      20000
#define BOOKS_TURNS     20000
#define BOOKS_READS     2000
#define BOOKS_REBUILDS  5
#define BOOKS_MEASURED  1000            /* bookings for the room of one */


static void books_begin(sel_zone_t *zone);
static void books_path(uint64_t serial, uint32_t shared, uint64_t *path);
static void books_make(sel_zone_t *zone, uint64_t serial, uint32_t shared,
    uint32_t ranks);
static sel_str_t books_id(uint64_t serial);
static void books_room(sel_zone_t *zone, uint32_t shared, const char *name);
static void books_turns(sel_zone_t *zone, sel_random_t *random,
    uint32_t ranks, const char *name);
static void books_free(sel_zone_t *zone, uint64_t serial);
static void books_outputs(sel_zone_t *zone, sel_random_t *random);
static void books_reads(sel_zone_t *zone, uint32_t blocks, const char *name);
static void books_rebuild(sel_zone_t *zone);


static sel_rank_slot_t  books_ranks[BOOKS_RANKS];
static sel_rank_load_t  books_loads[BOOKS_RANKS];
static uint64_t         books_serials[BOOKS_LIVE];
static uint64_t         books_serial;
static uint64_t         books_took;     /* ns, the last call */


int
main(void)
{
    uint32_t      i;
    sel_zone_t    zone;
    sel_random_t  random;

    sel_random_seed(&random);
    books_begin(&zone);

    printf("Books, %u ranks, bookings of %u blocks\n\n", BOOKS_RANKS,
           BOOKS_BLOCKS);

    books_room(&zone, 0, "zone a booking, nothing shared");

    for (i = 0; i < BOOKS_LIVE; i++) {
        books_serials[i] = books_serial++;
        books_make(&zone, books_serials[i], BOOKS_SHARED, 1);
    }

    books_room(&zone, BOOKS_SHARED, "zone a booking, half shared");

    books_turns(&zone, &random, 1, "one rank asked");
    books_turns(&zone, &random, BOOKS_RANKS, "all ranks asked");
    books_outputs(&zone, &random);
    books_reads(&zone, 0, "loads of all ranks");
    books_reads(&zone, BOOKS_BLOCKS, "loads and depths of all ranks");
    books_rebuild(&zone);

    return 0;
}


static void
books_begin(sel_zone_t *zone)
{
    void                 *p;
    uint32_t              i, number;
    uint64_t              version;
    sel_partition_t       partition, existing;
    sel_worker_commit_t   commit;

    p = mmap(NULL, BOOKS_ZONE, PROT_READ|PROT_WRITE,
             MAP_SHARED|MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED || !sel_zone_format(zone, p, BOOKS_ZONE)) {
        bench_fail("the zone cannot be made");
    }

    for (i = 0; i < BOOKS_RANKS; i++) {
        books_ranks[i].dp_rank = i;
        books_ranks[i].slot = SEL_SLOT_NONE;
    }

    partition = (sel_partition_t) { .block_size = 16,
        .model_name = sel_str("llama-3.3-70b-instruct"),
        .routing_group = sel_str("default") };

    commit = (sel_worker_commit_t) { .worker_id = 1,
        .state = SEL_WORKER_SCHEDULABLE, .partition = &partition,
        .n_ranks = BOOKS_RANKS, .ranks = books_ranks,
        .blob = sel_str("{}") };

    if (sel_catalog_commit(zone, &commit, &version, &number, &existing)
        != SEL_COMMIT_OK)
    {
        bench_fail("a commit was refused");
    }
}


static void
books_path(uint64_t serial, uint32_t shared, uint64_t *path)
{
    uint32_t  i;

    for (i = 0; i < BOOKS_BLOCKS; i++) {
        path[i] = i < shared ? i : serial * BOOKS_BLOCKS + i + 1000000;
    }

    sel_path_keys(1, path, BOOKS_BLOCKS, path);
}


/* Asks for so many ranks, beginning with one that follows from the serial, and
   takes the first. */

static void
books_make(sel_zone_t *zone, uint64_t serial, uint32_t shared, uint32_t ranks)
{
    uint32_t                i, chosen;
    uint64_t                start, path[BOOKS_BLOCKS];
    sel_booking_t           booking;
    const sel_rank_slot_t  *rank;

    books_path(serial, shared, path);

    booking = (sel_booking_t) { .id = books_id(serial), .partition = 1,
        .n_blocks = BOOKS_BLOCKS, .path = path, .prefill_tokens = 8192,
        .now = sel_clock_ns() };

    for (i = 0; i < ranks; i++) {
        rank = &books_ranks[(serial * 7919 + i) % BOOKS_RANKS];
        books_loads[i].slot = rank->slot;
        books_loads[i].epoch = rank->epoch;
    }

    start = sel_clock_ns();

    if (sel_book(zone, &booking, books_loads, ranks, NULL, NULL, &chosen)
        != SEL_BOOK_OK)
    {
        bench_fail("a booking was refused");
    }

    books_took = sel_clock_ns() - start;
}


static sel_str_t
books_id(uint64_t serial)
{
    static char  id[37];

    (void) snprintf(id, sizeof(id), "5f0c6d1e-93a4-4b0b-8c2f-%012" PRIx64,
                    serial);

    return (sel_str_t) { 36, (const uint8_t *) id };
}


static void
books_room(sel_zone_t *zone, uint32_t shared, const char *name)
{
    uint32_t          i;
    uint64_t          first;
    sel_zone_stats_t  before, after;

    first = books_serial;
    sel_zone_stats(zone, &before);

    for (i = 0; i < BOOKS_MEASURED; i++) {
        books_make(zone, books_serial++, shared, 1);
    }

    sel_zone_stats(zone, &after);

    for (i = 0; i < BOOKS_MEASURED; i++) {
        books_free(zone, first + i);
    }

    bench_print_one(name, (double) (before.chunks_free - after.chunks_free)
                          * SEL_CHUNK_SIZE / BOOKS_MEASURED, "bytes");
}


/* One goes, another comes. */

static void
books_turns(sel_zone_t *zone, sel_random_t *random, uint32_t ranks,
    const char *name)
{
    uint32_t         i, k;
    char             text[64];
    bench_samples_t  made, freed;

    made = bench_samples(BOOKS_TURNS);
    freed = bench_samples(BOOKS_TURNS);

    for (k = 0; k < BOOKS_TURNS; k++) {
        i = (uint32_t) sel_random_below(random, BOOKS_LIVE);

        books_free(zone, books_serials[i]);
        bench_add(&freed, (double) books_took / 1000);

        books_serials[i] = books_serial++;
        books_make(zone, books_serials[i], BOOKS_SHARED, ranks);
        bench_add(&made, (double) books_took / 1000);
    }

    (void) snprintf(text, sizeof(text), "book, %s", name);
    bench_print(text, &made, "us");

    if (ranks == 1) {
        bench_print("free", &freed, "us");
    }

    bench_samples_free(&made);
    bench_samples_free(&freed);
}


static void
books_free(sel_zone_t *zone, uint64_t serial)
{
    uint64_t   start;
    sel_str_t  id;

    id = books_id(serial);
    start = sel_clock_ns();

    if (sel_book_free(zone, id) != SEL_BOOK_OK) {
        bench_fail("a booking is missing");
    }

    books_took = sel_clock_ns() - start;
}


static void
books_outputs(sel_zone_t *zone, sel_random_t *random)
{
    uint32_t         k;
    uint64_t         start, serial;
    bench_samples_t  times;

    times = bench_samples(BOOKS_TURNS);

    for (k = 0; k < BOOKS_TURNS; k++) {
        serial = books_serials[sel_random_below(random, BOOKS_LIVE)];
        start = sel_clock_ns();

        if (sel_book_output(zone, books_id(serial), 0.5) != SEL_BOOK_OK) {
            bench_fail("a booking is missing");
        }

        bench_add(&times, (double) (sel_clock_ns() - start) / 1000);
    }

    bench_print("output block with a fraction", &times, "us");
    bench_samples_free(&times);
}


static void
books_reads(sel_zone_t *zone, uint32_t blocks, const char *name)
{
    uint32_t         i, k;
    uint64_t         start, path[BOOKS_BLOCKS];
    bench_samples_t  times;

    times = bench_samples(BOOKS_READS);

    for (i = 0; i < BOOKS_RANKS; i++) {
        books_loads[i].slot = books_ranks[i].slot;
        books_loads[i].epoch = books_ranks[i].epoch;
    }

    for (k = 0; k < BOOKS_READS; k++) {
        books_path(books_serials[k], BOOKS_SHARED, path);

        start = sel_clock_ns();
        sel_books_read(zone, path, blocks, books_loads, BOOKS_RANKS);
        bench_add(&times, (double) (sel_clock_ns() - start) / 1000);
    }

    bench_print(name, &times, "us");
    bench_samples_free(&times);
}


static void
books_rebuild(sel_zone_t *zone)
{
    uint32_t         k;
    uint64_t         start;
    bench_samples_t  times;

    times = bench_samples(BOOKS_REBUILDS);

    for (k = 0; k < BOOKS_REBUILDS; k++) {
        sel_zone_lock(zone);
        start = sel_clock_ns();
        sel_zone_rebuild(zone);
        bench_add(&times,
                  (double) (sel_clock_ns() - start) / 1000 / BOOKS_LIVE);
        sel_zone_unlock(zone);
    }

    bench_print("rebuild, per booking", &times, "us");
    bench_samples_free(&times);
}
