/*
 * Millions of bookings on one zone, and in the end nothing of them is left: no
 * chunk, no edge, and loads of exactly 0.  A leak of one chunk in a million
 * bookings, or a sum that drifts by a bit, is seen here and nowhere else.
 *
 * A cycle books a prompt and frees another booking.  Prompts have 0 to 512
 * blocks and begin like others; some bookings complete their prefill, get
 * output blocks with fractions, or have an id that does not fit into its
 * record.  Selections are kept, taken and dropped between.  Now and then a
 * worker changes in one of several ways, old bookings expire (but for routed
 * ones), or the process of the routed ones dies.  A plain list of what should
 * be alive is kept beside; each free has to agree with it, and so do the
 * requests and the prefill tokens of all ranks.  After each tenth of the
 * cycles all is freed.
 *
 * SEL_OPS is the number of cycles, SEL_SEED repeats a run.
 */

#include <sys/mman.h>
#include "books_world.h"
#include "core/sel_clock.h"
#include "state/sel_pending.h"
#include "state/sel_zone_check.h"


#define SOAK_CYCLES      10000000
#define SOAK_ROUNDS      10
#define SOAK_ZONE        ((size_t) 64 << 20)
#define SOAK_LIVE        4096
#define SOAK_PROC        7              /* whose requests are routed */
#define SOAK_PENDING     1024
#define SOAK_KEPT        400
#define SOAK_MINUTE      UINT64_C(60000000000)

/* one worker change, expiry, or death of a process in so many cycles */
#define SOAK_CHANGE      20000
#define SOAK_EXPIRY      50000
#define SOAK_DEATH       100000

/* cycles after which a booking may expire */
#define SOAK_AGE         30000


static void soak_begin(void);
static void soak_round(uint64_t cycles);
static void soak_now_and_then(void);
static void soak_worker_change(soak_worker_t *worker);
static void soak_expire(void);
static void soak_bury(void);
static void soak_book(soak_booking_t *booking);
static void soak_use(soak_booking_t *booking);
static void soak_free(soak_booking_t *booking);
static void soak_select(void);
static void soak_drain(void);
static void soak_say(void);


static sel_zone_stats_t  soak_start;    /* before the first booking */
static sel_arena_t       soak_arena;
static soak_booking_t    soak_bookings[SOAK_LIVE];
static uint64_t          soak_selections;
static uint64_t          soak_blocks;
static uint64_t          soak_began;
static uint64_t          soak_said;
static uint64_t          soak_changes;
static uint64_t          soak_ended;    /* otherwise than by a free */
static uint64_t          soak_outputs;


int
main(void)
{
    uint32_t     i;
    uint64_t     cycles;
    const char  *text;

    text = getenv("SEL_OPS");
    cycles = text != NULL ? strtoull(text, NULL, 0) : SOAK_CYCLES;

    soak_rand.state = sel_rand_seed("soak/books");
    soak_began = sel_clock_ns();
    soak_said = soak_began;
    soak_begin();

    for (i = 1; i <= SOAK_ROUNDS; i++) {
        soak_round(cycles * i / SOAK_ROUNDS - cycles * (i - 1) / SOAK_ROUNDS);
        soak_drain();
    }

    sel_zone_lock(&soak_zone);
    sel_zone_rebuild(&soak_zone);
    sel_zone_unlock(&soak_zone);
    soak_drain();

    printf("%" PRIu64 " cycles of %.0f blocks, %" PRIu64 " output blocks, "
           "%" PRIu64 " selections, %" PRIu64 " worker changes, %" PRIu64
           " bookings ended otherwise, in %.0f s;\nat most %" PRIu64
           " of %" PRIu64 " chunks taken, in the end as many free as before "
           "and all loads 0\n",
           cycles, cycles != 0 ? (double) soak_blocks / (double) cycles : 0,
           soak_outputs, soak_selections, soak_changes, soak_ended,
           (double) (sel_clock_ns() - soak_began) / 1e9,
           soak_start.chunks_free - soak_least, soak_start.chunks_free);

    return 0;
}


static void
soak_begin(void)
{
    void      *p;
    uint32_t   i;

    p = mmap(NULL, SOAK_ZONE, PROT_READ|PROT_WRITE, MAP_SHARED|MAP_ANONYMOUS,
             -1, 0);

    if (p == MAP_FAILED || !sel_zone_format(&soak_zone, p, SOAK_ZONE)) {
        soak_fail("the zone cannot be made");
    }

    sel_arena_init(&soak_arena, 0);

    for (i = 0; i < SOAK_WORKERS; i++) {
        soak_commit(&soak_workers[i], i % SOAK_PARTITIONS, SOAK_RANKS, false);
    }

    sel_zone_stats(&soak_zone, &soak_start);
    soak_least = soak_start.chunks_free;
}


static void
soak_round(uint64_t cycles)
{
    uint64_t         i;
    soak_booking_t  *booking;

    for (i = 0; i < cycles; i++) {
        soak_serial++;
        booking = &soak_bookings[sel_rand_below(&soak_rand, SOAK_LIVE)];

        if (booking->serial != 0) {
            soak_free(booking);
        }

        soak_book(booking);
        soak_use(&soak_bookings[sel_rand_below(&soak_rand, SOAK_LIVE)]);

        if (sel_rand_below(&soak_rand, 8) == 0) {
            soak_select();
        }

        soak_now_and_then();
    }
}


static void
soak_now_and_then(void)
{
    if (soak_serial % SOAK_CHANGE == 0) {
        soak_worker_change(&soak_workers[sel_rand_below(&soak_rand,
                                                        SOAK_WORKERS)]);
        soak_compare();
    }

    if (soak_serial % SOAK_EXPIRY == 0) {
        soak_expire();
        soak_compare();
    }

    if (soak_serial % SOAK_DEATH == 0) {
        soak_bury();
        soak_compare();
    }

    if (soak_serial % 1024 == 0 && sel_clock_ns() - soak_said > SOAK_MINUTE) {
        soak_said += SOAK_MINUTE;
        soak_say();
    }
}


/* Deletes it and makes it anew, moves it, takes ranks away or gives them back,
   or writes its record again. */

static void
soak_worker_change(soak_worker_t *worker)
{
    uint32_t  other;

    soak_changes++;

    switch (sel_rand_below(&soak_rand, 5)) {
    case 0:
        soak_delete(worker);
        soak_commit(worker, worker->partition, SOAK_RANKS, false);
        break;

    case 1:
        other = (worker->partition + 1) % SOAK_PARTITIONS;
        soak_commit(worker, other, worker->n_ranks, false);
        break;

    case 2:
        soak_commit(worker, worker->partition, SOAK_RANKS / 4, true);
        break;

    case 3:
        soak_commit(worker, worker->partition, SOAK_RANKS, true);
        break;

    default:
        soak_commit(worker, worker->partition, worker->n_ranks, true);
        break;
    }
}


static void
soak_expire(void)
{
    uint32_t         i, n;
    uint64_t         before;
    soak_booking_t  *booking;

    n = 0;
    before = soak_serial > SOAK_AGE ? soak_serial - SOAK_AGE : 0;

    for (i = 0; i < SOAK_LIVE; i++) {
        booking = &soak_bookings[i];

        if (booking->made >= before || !soak_alive(booking)) {
            continue;
        }

        n++;

        if (booking->routed) {
            booking->made = before + 1;

        } else {
            soak_forget(booking);
            soak_ended++;
        }
    }

    if (sel_books_expire(&soak_zone, before, UINT32_MAX) != n) {
        soak_fail("another number of bookings expired");
    }
}


static void
soak_bury(void)
{
    uint32_t  i, n;

    n = 0;

    for (i = 0; i < SOAK_LIVE; i++) {

        if (soak_bookings[i].routed && soak_alive(&soak_bookings[i])) {
            soak_forget(&soak_bookings[i]);
            n++;
        }
    }

    if (sel_books_bury(&soak_zone, SOAK_PROC) != n) {
        soak_fail("another number of bookings ended with their process");
    }

    soak_ended += n;
}


static void
soak_book(soak_booking_t *made)
{
    uint32_t        n, chosen, partition;
    sel_booking_t   booking;
    soak_worker_t  *worker;

    partition = soak_workers[soak_serial % SOAK_WORKERS].partition;
    n = soak_prompt(soak_serial);
    soak_blocks += n;
    sel_path_keys(partition + 1, soak_path, n, soak_path);

    booking = (sel_booking_t) { .id = soak_id(soak_serial),
        .partition = partition + 1, .n_blocks = n, .path = soak_path,
        .kind = sel_rand_below(&soak_rand, 4) ? SEL_BOOKING_API
                                              : SEL_BOOKING_ROUTER,
        .proc = SOAK_PROC, .now = soak_serial,
        .prefill_tokens = sel_rand_below(&soak_rand, 4) ? n * 16 + 7 : 0 };

    if (sel_rand_below(&soak_rand, 4) == 0) {
        booking.n_hashes = n;
        booking.hashes = soak_path;
    }

    n = soak_ask(partition, 1 + (uint32_t) sel_rand_below(&soak_rand, 24));

    if (sel_book(&soak_zone, &booking, soak_loads, n, soak_choose, NULL,
                 &chosen) != SEL_BOOK_OK)
    {
        soak_fail("a booking was refused");
    }

    *made = (soak_booking_t) { .serial = soak_serial, .made = soak_serial,
        .worker = soak_whose[chosen] / SOAK_RANKS,
        .rank = soak_whose[chosen] % SOAK_RANKS,
        .prefill = booking.prefill_tokens,
        .routed = booking.kind == SEL_BOOKING_ROUTER };

    worker = &soak_workers[made->worker];
    made->life = worker->ranks[made->rank].life;
    worker->ranks[made->rank].requests++;
    worker->ranks[made->rank].prefill += made->prefill;
}


static void
soak_use(soak_booking_t *booking)
{
    static const double  fractions[] = { -1, 0, 0.1, 0.25, 0.5, 0.9, 1 };

    bool                 alive;
    uint64_t             n;
    sel_str_t            id;
    sel_book_result_t    rc;

    if (booking->serial == 0) {
        return;
    }

    id = soak_id(booking->serial);
    alive = soak_alive(booking);

    if (sel_rand_below(&soak_rand, 3) == 0) {
        rc = sel_book_prefilled(&soak_zone, id);

        if (alive) {
            soak_workers[booking->worker].ranks[booking->rank].prefill -=
                                                            booking->prefill;
            booking->prefill = 0;
        }

        if (rc != (alive ? SEL_BOOK_OK : SEL_BOOK_NONE)) {
            soak_fail("a prefill was completed otherwise");
        }
    }

    for (n = sel_rand_below(&soak_rand, 3); n != 0; n--) {
        rc = sel_book_output(&soak_zone, id,
                             fractions[sel_rand_below(&soak_rand, 7)]);
        soak_outputs += alive;

        if (rc != (alive ? SEL_BOOK_OK : SEL_BOOK_NONE)) {
            soak_fail("an output block was answered otherwise");
        }
    }
}


static void
soak_free(soak_booking_t *booking)
{
    bool  alive;

    alive = soak_alive(booking);

    if (sel_book_free(&soak_zone, soak_id(booking->serial))
        != (alive ? SEL_BOOK_OK : SEL_BOOK_NONE))
    {
        soak_fail(alive ? "a booking is missing"
                        : "a booking is there that has ended");
    }

    if (alive) {
        soak_forget(booking);

    } else {
        booking->serial = 0;
    }
}


/* Keeps a selection; takes or drops one of the last ones. */

static void
soak_select(void)
{
    static const sel_pending_limits_t  limits = {
        .ttl = 20000, .max = SOAK_KEPT, .size = 1 << 19
    };

    uint32_t       n, partition;
    uint64_t       number;
    sel_pending_t  pending, found;

    number = ++soak_selections;
    n = soak_prompt(number);

    pending = (sel_pending_t) { .id = soak_id(number),
        .partition = 1 + (uint32_t) (number % SOAK_PARTITIONS),
        .worker_id = 1, .isl_tokens = n * 16, .n_blocks = n,
        .sequence = soak_path, .size = 8 * n + 100, .made = soak_serial,
        .lora_name = number % 3 == 0 ? sel_str("adapter") : sel_str("") };

    if (number % 4 == 0) {
        pending.n_hashes = n;
        pending.hashes = soak_path;
    }

    if (!sel_pending_put(&soak_zone, &pending, &limits)) {
        soak_fail("a selection was not kept");
    }

    number -= sel_rand_below(&soak_rand, SOAK_KEPT);
    partition = 1 + (uint32_t) (number % SOAK_PARTITIONS);

    if (number > soak_selections) {
        return;
    }

    switch (sel_pending_get(&soak_zone, partition, soak_id(number),
                            soak_serial, limits.ttl, &soak_arena, &found))
    {
    case 1:
        n = soak_prompt(number);

        if (found.n_blocks != n
            || memcmp(found.sequence, soak_path, n * sizeof(uint64_t)) != 0)
        {
            soak_fail("a selection has changed");
        }

        sel_pending_drop(&soak_zone, partition, soak_id(number),
                         found.generation);
        break;

    case -1:
        soak_fail("out of memory");
    }

    sel_arena_free(&soak_arena);
}


/* Ends everything; workers are as they were in the beginning. */

static void
soak_drain(void)
{
    uint32_t          i;
    uint64_t          number;
    const char       *error;
    sel_zone_stats_t  stats;

    sel_zone_stats(&soak_zone, &stats);
    soak_least = stats.chunks_free < soak_least ? stats.chunks_free
                                                : soak_least;

    for (i = 0; i < SOAK_LIVE; i++) {

        if (soak_bookings[i].serial != 0) {
            soak_free(&soak_bookings[i]);
        }
    }

    for (number = soak_selections > SOAK_PENDING
                  ? soak_selections - SOAK_PENDING : 0;
         number <= soak_selections; number++)
    {
        sel_pending_drop(&soak_zone, 1 + (uint32_t) (number % SOAK_PARTITIONS),
                         soak_id(number), 0);
    }

    soak_compare();

    for (i = 0; i < SOAK_WORKERS; i++) {
        soak_commit(&soak_workers[i], i % SOAK_PARTITIONS, SOAK_RANKS,
                    soak_workers[i].partition == i % SOAK_PARTITIONS);
    }

    soak_compare();
    sel_zone_stats(&soak_zone, &stats);

    if (stats.bookings != 0 || stats.edges != 0 || stats.pending != 0
        || stats.pending_chunks != 0)
    {
        soak_fail("bookings, edges or selections are left");
    }

    if (stats.chunks_free != soak_start.chunks_free
        || stats.slots_used != soak_start.slots_used)
    {
        soak_fail("chunks or slots are missing");
    }

    sel_zone_lock(&soak_zone);
    error = sel_zone_check(&soak_zone);
    sel_zone_unlock(&soak_zone);

    if (error != NULL) {
        soak_fail(error);
    }
}


static void
soak_say(void)
{
    sel_zone_stats_t  stats;

    sel_zone_stats(&soak_zone, &stats);
    printf("%4.0f s: %" PRIu64 " cycles; %" PRIu64 " bookings, %" PRIu64
           " edges, %" PRIu64 " selections, %" PRIu64 " chunks free\n",
           (double) (sel_clock_ns() - soak_began) / 1e9, soak_serial,
           stats.bookings, stats.edges, stats.pending, stats.chunks_free);
    (void) fflush(stdout);
}
