/*
 * The workers of the soak test of the books, what should be alive on them, and
 * prompts and ids that follow from serial numbers.
 */

#ifndef BOOKS_WORLD_H
#define BOOKS_WORLD_H

#include "sel_rand.h"
#include "state/sel_books.h"


#define SOAK_WORKERS     8
#define SOAK_RANKS       16
#define SOAK_PARTITIONS  2
#define SOAK_BLOCKS      512


typedef struct {
    uint32_t         life;              /* grows when the rank goes */
    uint32_t         requests;
    uint64_t         prefill;
} soak_rank_t;


typedef struct {
    uint32_t         partition;
    uint32_t         n_ranks;
    uint64_t         version;           /* 0: there is no record */
    sel_rank_slot_t  slots[SOAK_RANKS];
    soak_rank_t      ranks[SOAK_RANKS];
} soak_worker_t;


typedef struct {
    uint64_t         serial;            /* 0: none */
    uint64_t         made;              /* the age counts from here */
    uint32_t         worker;
    uint32_t         rank;
    uint32_t         life;              /* of the rank, when it was made */
    uint64_t         prefill;
    bool             routed;
} soak_booking_t;


static sel_zone_t        soak_zone;
static sel_rand_t        soak_rand;
static soak_worker_t     soak_workers[SOAK_WORKERS];
static sel_rank_load_t   soak_loads[SOAK_WORKERS * SOAK_RANKS];
static uint32_t          soak_whose[SOAK_WORKERS * SOAK_RANKS];
static uint64_t          soak_serial;   /* also the time */
static uint64_t          soak_path[SOAK_BLOCKS];
static uint64_t          soak_least;    /* chunks free */


static inline _Noreturn void
soak_fail(const char *what)
{
    printf("after %" PRIu64 " cycles: %s\n", soak_serial, what);
    exit(1);
}


static inline void
soak_rank_gone(soak_worker_t *worker, uint32_t rank)
{
    worker->ranks[rank].life++;
    worker->ranks[rank].requests = 0;
    worker->ranks[rank].prefill = 0;
}


static inline void
soak_commit(soak_worker_t *worker, uint32_t partition, uint32_t n, bool keep)
{
    uint32_t             i, number;
    sel_partition_t      wanted, existing;
    sel_worker_commit_t  commit;

    for (i = 0; i < SOAK_RANKS; i++) {
        worker->slots[i].dp_rank = i;

        if (!keep || i >= worker->n_ranks) {
            worker->slots[i].slot = SEL_SLOT_NONE;
        }

        if (i < worker->n_ranks && (!keep || i >= n)) {
            soak_rank_gone(worker, i);
        }
    }

    wanted = (sel_partition_t) { .block_size = 16,
        .model_name = partition == 0 ? sel_str("one") : sel_str("two"),
        .routing_group = sel_str("default") };

    commit = (sel_worker_commit_t) {
        .worker_id = 1 + (uint64_t) (worker - soak_workers),
        .expected = worker->version, .state = SEL_WORKER_SCHEDULABLE,
        .partition = &wanted, .n_ranks = n, .ranks = worker->slots,
        .blob = sel_str("{\"endpoint\":\"http://127.0.0.1:8000\"}") };

    if (sel_catalog_commit(&soak_zone, &commit, &worker->version, &number,
                           &existing) != SEL_COMMIT_OK
        || number != partition + 1)
    {
        soak_fail("a worker was refused");
    }

    worker->partition = partition;
    worker->n_ranks = n;
}


static inline void
soak_delete(soak_worker_t *worker)
{
    uint32_t             i, number;
    uint64_t             version;
    sel_partition_t      existing;
    sel_worker_commit_t  commit;

    for (i = 0; i < worker->n_ranks; i++) {
        soak_rank_gone(worker, i);
    }

    commit = (sel_worker_commit_t) {
        .worker_id = 1 + (uint64_t) (worker - soak_workers),
        .expected = worker->version, .state = SEL_WORKER_GONE,
        .blob = sel_str("") };

    if (sel_catalog_commit(&soak_zone, &commit, &version, &number, &existing)
        != SEL_COMMIT_OK)
    {
        soak_fail("a deletion was refused");
    }

    worker->n_ranks = 0;
    worker->version = 0;
}


static inline bool
soak_alive(const soak_booking_t *booking)
{
    return booking->serial != 0
           && soak_workers[booking->worker].ranks[booking->rank].life
              == booking->life;
}


/* Takes a live one out of the list. */

static inline void
soak_forget(soak_booking_t *booking)
{
    soak_rank_t  *rank;

    rank = &soak_workers[booking->worker].ranks[booking->rank];
    rank->requests--;
    rank->prefill -= booking->prefill;

    booking->serial = 0;
}


/* Fills in so many ranks of a partition, or all of them if it has less, from
   one on that is chosen by chance. */

static inline uint32_t
soak_ask(uint32_t partition, uint32_t n)
{
    uint32_t  i, k, first, worker, rank;

    first = (uint32_t) sel_rand_below(&soak_rand, SOAK_WORKERS * SOAK_RANKS);
    k = 0;

    for (i = 0; i < SOAK_WORKERS * SOAK_RANKS && k < n; i++) {
        worker = (first + i) % SOAK_WORKERS;
        rank = (first + i) / SOAK_WORKERS % SOAK_RANKS;

        if (soak_workers[worker].partition == partition
            && rank < soak_workers[worker].n_ranks)
        {
            soak_loads[k].slot = soak_workers[worker].slots[rank].slot;
            soak_loads[k].epoch = soak_workers[worker].slots[rank].epoch;
            soak_whose[k++] = worker * SOAK_RANKS + rank;
        }
    }

    return k;
}


static inline uint32_t
soak_choose(void *data, sel_booking_t *booking, const sel_rank_load_t *ranks,
    uint32_t n)
{
    uint32_t  i, best;

    best = 0;

    for (i = 1; i < n; i++) {

        if (ranks[i].requests < ranks[best].requests) {
            best = i;
        }
    }

    return best;
}


/*
 * Sequence hashes of a prompt: first what one of 16 systems says, then what
 * one of 256 conversations of it has come to, then something new.
 */

static inline uint32_t
soak_prompt(uint64_t serial)
{
    uint32_t    i, n, system, talk, mine;
    uint64_t    conversation;
    sel_rand_t  rand;

    rand.state = serial;
    conversation = sel_rand_below(&rand, 256);

    system = (uint32_t) (conversation % 16) * 2;
    talk = system + (uint32_t) sel_rand_below(&rand, 96);
    mine = talk + (uint32_t) sel_rand_below(&rand, 16);

    if (sel_rand_below(&rand, 16) == 0) {
        mine = (uint32_t) sel_rand_below(&rand, SOAK_BLOCKS + 1);
    }

    n = mine;

    for (i = 0; i < n; i++) {
        soak_path[i] = i < system ? (conversation % 16) << 32 | i
                       : i < talk ? (conversation + 16) << 32 | i
                                  : (serial + 1000) << 32 | i;
    }

    return n;
}


/* One in 16 does not fit into a record. */

static inline sel_str_t
soak_id(uint64_t serial)
{
    static char  id[401];

    int  len;

    len = serial % 16 == 0 ? 145 + (int) (serial / 16 % 256) : 36;
    (void) snprintf(id, sizeof(id), "%0*" PRIu64, len, serial);

    return (sel_str_t) { (size_t) len, (const uint8_t *) id };
}


/* Loads of all ranks with the list; without bookings they are 0. */

static inline void
soak_compare(void)
{
    uint32_t            i, k, n;
    sel_zone_stats_t    stats;
    const soak_rank_t  *rank;

    for (i = 0; i < SOAK_PARTITIONS; i++) {
        n = soak_ask(i, UINT32_MAX);
        sel_books_read(&soak_zone, NULL, 0, soak_loads, n);

        for (k = 0; k < n; k++) {
            rank = &soak_workers[soak_whose[k] / SOAK_RANKS]
                        .ranks[soak_whose[k] % SOAK_RANKS];

            if (soak_loads[k].gone
                || soak_loads[k].requests != rank->requests
                || soak_loads[k].prefill_tokens != rank->prefill)
            {
                soak_fail("a load is not the sum of what is booked");
            }

            if (rank->requests == 0 ? soak_loads[k].blocks != 0
                                    : !(soak_loads[k].blocks > -1e-6))
            {
                soak_fail("blocks are left, or fewer than none");
            }
        }
    }

    sel_zone_stats(&soak_zone, &stats);
    soak_least = stats.chunks_free < soak_least ? stats.chunks_free
                                                : soak_least;
}


#endif /* BOOKS_WORLD_H */
