/*
 * A random run of the books beside the model: its state, comparisons, and
 * bookings.  Functions give NULL when all is well, else a sentence.  Include
 * after cmocka.h.
 */

#ifndef BOOKS_WALK_H
#define BOOKS_WALK_H

#include "books_model.h"
#include "state_test.h"


#define WALK_PARTITIONS  3
#define WALK_GONE        32
#define WALK_HOT         24
#define WALK_ID          400
#define WALK_STRETCHES   12     /* what a rebuild must restore exactly */


typedef struct {
    uint64_t  version;
    uint32_t  partition;        /* in the list; valid while schedulable */
    bool      schedulable;
} walk_worker_t;


typedef struct {
    sel_zone_t        zone;
    sel_rand_t        rand;
    books_model_t     model;
    walk_worker_t     workers[MODEL_WORKERS];
    sel_rank_load_t   gone[WALK_GONE];      /* pairs that stand for no rank */
    uint32_t          n_gone;
    uint32_t          hot[WALK_HOT];        /* nodes often asked for */
    uint64_t          now;
    uint64_t          age;                  /* limit; 0: none */
    uint64_t          visitor;              /* worker id, never used before */
    bool              look;                 /* the chooser compares loads */
    uint32_t          node;                 /* of the booking being made */
    const char       *error;                /* of the chooser */
    uint64_t          results[SEL_BOOK_REFUSED + 1];
    uint64_t          freed;
    uint64_t          expired;
    uint64_t          rank_gone;
    uint64_t          rebuilt;
    uint64_t          not_rebuilt;
    char              text[256];
} walk_t;


#define walk_say(walk, ...)                                                   \
    ((void) snprintf((walk)->text, sizeof((walk)->text), __VA_ARGS__),        \
     (walk)->text)


static inline uint32_t
below(walk_t *walk, uint32_t bound)
{
    return (uint32_t) sel_rand_below(&walk->rand, bound);
}


/* Ids of all lengths; one in nine is longer than a record. */
static inline sel_str_t
walk_id(uint32_t number, char *room)
{
    int  len;

    len = snprintf(room, WALK_ID, "%u-", number);

    for ( /* void */ ; number % 9 == 0 && len < (int) (number % 390); len++) {
        room[len] = (char) ('a' + len % 26);
    }

    return (sel_str_t) { (size_t) len, (const uint8_t *) room };
}


static inline uint32_t
walk_path(walk_t *walk, uint32_t partition, uint32_t node, uint64_t *path)
{
    uint32_t  n;

    n = model_sequence(&walk->model, node, path);
    sel_path_keys(partition, path, n, path);

    return n;
}


static inline uint32_t
walk_node(walk_t *walk)
{
    switch (below(walk, 8)) {
    case 0:
        return below(walk, 4) ? below(walk, 40) : MODEL_ROOT;
    case 1:
    case 2:
    case 3:
        return walk->hot[below(walk, WALK_HOT)];
    default:
        return below(walk, MODEL_NODES);
    }
}


/* A live rank; MODEL_RANKS when there is none. */
static inline uint32_t
walk_rank(walk_t *walk)
{
    uint32_t  i, k;

    k = below(walk, MODEL_RANKS);

    for (i = 0; i < MODEL_RANKS; i++) {
        if (walk->model.ranks[(i + k) % MODEL_RANKS].live) {
            return (i + k) % MODEL_RANKS;
        }
    }

    return MODEL_RANKS;
}


/* The rank of the model that a slot stands for. */
static inline uint32_t
walk_find(walk_t *walk, const sel_rank_load_t *load)
{
    uint32_t             i;
    const model_rank_t  *rank;

    for (i = 0; i < MODEL_RANKS; i++) {
        rank = &walk->model.ranks[i];

        if (rank->live && rank->slot == load->slot
            && rank->epoch == load->epoch)
        {
            break;
        }
    }

    return i;
}


/* The load that was read for a slot, with the depth of a node's prompt. */
static inline const char *
walk_compare(walk_t *walk, const model_sum_t *sums,
    const sel_rank_load_t *load, uint32_t node)
{
    double              blocks, half;
    uint32_t            rank, depth;
    books_model_t      *model;
    const model_sum_t  *sum;

    model = &walk->model;
    rank = walk_find(walk, load);

    if (rank == MODEL_RANKS) {
        return load->gone && load->prefill_tokens == 0 && load->blocks == 0.0
               && load->requests == 0 && load->depth == 0
               ? NULL : "a rank that has gone is there";
    }

    sum = &sums[rank];
    blocks = model_prompts(model, rank) + sum->outputs;
    depth = model_depth(model, rank, node);
    half = fabs(blocks - floor(blocks) - 0.5);

    if (load->gone || load->prefill_tokens != sum->prefill
        || load->requests != sum->requests || load->depth != depth
        || fabs(load->blocks - blocks) > 1e-9
        || (sum->requests == 0 && load->blocks != 0.0)
        || (half > 1e-6 && sel_load_blocks(load->blocks)
                           != (uint64_t) floor(blocks + 0.5)))
    {
        return walk_say(walk, "rank %u, slot %u%s: %" PRIu64 " tokens, %.17g "
                        "blocks, %u requests, depth %u of node %u; expected %"
                        PRIu64 ", %.17g, %u, %u", rank, load->slot,
                        load->gone ? " (gone)" : "", load->prefill_tokens,
                        load->blocks, load->requests, load->depth, node,
                        sum->prefill, blocks, sum->requests, depth);
    }

    return NULL;
}


/* Reads all ranks of a partition, those that have gone too. */
static inline uint32_t
walk_read(walk_t *walk, uint32_t partition, uint32_t node,
    sel_rank_load_t *loads)
{
    uint32_t             i, n, blocks;
    uint64_t             path[MODEL_DEPTH];
    const model_rank_t  *rank;

    blocks = walk_path(walk, partition, node, path);
    memset(loads, 0xa5, (MODEL_RANKS + 1) * sizeof(sel_rank_load_t));
    n = 0;

    for (i = 0; i < MODEL_RANKS; i++) {
        rank = &walk->model.ranks[i];

        if (rank->live && rank->partition == partition) {
            loads[n].slot = rank->slot;
            loads[n++].epoch = rank->epoch;
        }
    }

    if (walk->n_gone > 0) {
        i = below(walk, walk->n_gone < WALK_GONE ? walk->n_gone : WALK_GONE);
        loads[n].slot = walk->gone[i].slot;
        loads[n++].epoch = walk->gone[i].epoch;
    }

    sel_books_read(&walk->zone, path, blocks, loads, n);

    return n;
}


static inline const char *
walk_compare_all(walk_t *walk)
{
    uint32_t         i, n, node, partition, live;
    const char      *error;
    model_sum_t      sums[MODEL_RANKS];
    sel_rank_load_t  loads[MODEL_RANKS + 1];

    model_sums(&walk->model, sums);
    live = 0;

    for (i = 0; i < MODEL_RANKS; i++) {
        live += sums[i].requests;
    }

    if (state_stats(&walk->zone).bookings != live) {
        return "the number of bookings is wrong";
    }

    for (partition = 1; partition <= WALK_PARTITIONS; partition++) {
        node = walk_node(walk);
        n = walk_read(walk, partition, node, loads);

        for (i = 0; i < n; i++) {
            error = walk_compare(walk, sums, &loads[i], node);

            if (error != NULL) {
                return error;
            }
        }
    }

    return NULL;
}


/* Bookings that a new one has let expire: the oldest of those that are due. */
static inline const char *
walk_expired(walk_t *walk, sel_book_result_t result)
{
    char              id[WALK_ID];
    uint32_t          n, due;
    uint64_t          limit;
    model_booking_t  *oldest;

    if (walk->age == 0) {
        return NULL;
    }

    limit = walk->now - walk->age;
    due = model_oldest(&walk->model, limit) != NULL;
    n = 0;

    for ( ;; ) {
        oldest = model_oldest(&walk->model, limit);

        if (oldest == NULL
            || sel_booked(&walk->zone,
                          walk_id(oldest - walk->model.bookings, id)))
        {
            break;
        }

        model_free(&walk->model, oldest);
        n++;
    }

    walk->expired += n;

    return result == SEL_BOOK_OK && due && n == 0
           ? "a new booking lets no old one expire" : NULL;
}


static inline uint32_t
walk_choose(void *data, sel_booking_t *booking, const sel_rank_load_t *ranks,
    uint32_t n)
{
    walk_t       *walk;
    uint32_t      i, k;
    model_sum_t   sums[MODEL_RANKS];

    walk = data;

    if (walk->look) {
        model_sums(&walk->model, sums);
    }

    for (i = 0; walk->look && i < n && walk->error == NULL; i++) {
        walk->error = walk_compare(walk, sums, &ranks[i], walk->node);
    }

    k = below(walk, n + 1);

    for (i = 0; k < n && i < n; i++, k = (k + 1) % n) {
        if (!ranks[k].gone) {
            booking->prefill_tokens = below(walk, 3) * (1 + k);
            return k;
        }
    }

    return SEL_CHOOSE_NONE;
}


/* Whether a booking may end with this result. */
static inline bool
walk_may_be(walk_t *walk, const model_booking_t *booking, bool chosen,
    sel_book_result_t result)
{
    if (booking->live) {
        return result == SEL_BOOK_TAKEN;
    }

    if (result == SEL_BOOK_FULL) {
        return state_stats(&walk->zone).chunks_free < 64;
    }

    return result == SEL_BOOK_OK || (chosen && result == SEL_BOOK_REFUSED);
}


static inline bool
walk_is_due(walk_t *walk, const model_booking_t *booking)
{
    return walk->age != 0 && booking->live
           && booking->started < walk->now - walk->age;
}


/* Books a node on one rank, or lets one of its partition be chosen. */
static inline const char *
walk_book(walk_t *walk)
{
    char                id[WALK_ID];
    bool                chosen;
    uint32_t            i, n, at;
    uint64_t            path[MODEL_DEPTH];
    const char         *error;
    sel_booking_t       booking;
    model_booking_t    *record;
    sel_rank_load_t     loads[MODEL_RANKS + 1];
    sel_book_result_t   result;

    i = walk_rank(walk);
    at = below(walk, MODEL_BOOKINGS);
    record = &walk->model.bookings[at];

    if (i == MODEL_RANKS || walk_is_due(walk, record)) {
        return NULL;
    }

    walk->node = walk_node(walk);
    walk->error = NULL;
    walk->look = walk->age == 0 && below(walk, 32) == 0;
    booking = (sel_booking_t) {
        .id = walk_id(at, id), .partition = walk->model.ranks[i].partition,
        .prefill_tokens = below(walk, 2) * below(walk, 100000),
        .path = path, .now = walk->now
    };
    booking.n_blocks = walk_path(walk, booking.partition, walk->node, path);
    chosen = below(walk, 2) == 0;
    n = walk_read(walk, booking.partition, walk->node, loads);

    if (!chosen) {
        loads[0].slot = walk->model.ranks[i].slot;
        loads[0].epoch = walk->model.ranks[i].epoch;
        n = 1;
    }

    at = n;
    result = sel_book(&walk->zone, &booking, loads, n,
                      chosen ? walk_choose : NULL, walk, &at);
    walk->results[result]++;

    if (!walk_may_be(walk, record, chosen, result)) {
        return walk_say(walk, "booking: result %d, but the id is %s", result,
                        record->live ? "taken" : "free");
    }

    error = walk_expired(walk, result);

    if (error == NULL && result == SEL_BOOK_OK) {
        record->rank = at < n ? walk_find(walk, &loads[at]) : MODEL_RANKS;
        record->node = walk->node;
        record->prefill = booking.prefill_tokens;
        record->started = walk->now;

        if (record->rank == MODEL_RANKS || (!chosen && record->rank != i)) {
            return "another rank is chosen";
        }

        model_book(&walk->model, record);
    }

    return walk->error != NULL ? walk->error : error;
}


#endif /* BOOKS_WALK_H */
