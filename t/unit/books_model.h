/*
 * A slow model of the books, for the random test.
 *
 * Prompts are paths in a fixed tree of a few thousand nodes: a node is a
 * block, and stands for the prompt that ends with it.  So a rank of the model
 * is two arrays, how many bookings have each node and what it weighs; all
 * numbers are counted anew whenever they are asked for.  Sequence hashes are
 * few, so the same one stands under many parents and often under itself.
 */

#ifndef BOOKS_MODEL_H
#define BOOKS_MODEL_H

#include <math.h>
#include <string.h>
#include "sel_rand.h"
#include "state/sel_books.h"


#define MODEL_NODES     3000
#define MODEL_DEPTH     400
#define MODEL_WORKERS   8
#define MODEL_DP        12
#define MODEL_RANKS     (MODEL_WORKERS * MODEL_DP)
#define MODEL_BOOKINGS  2000
#define MODEL_ROOT      0               /* the node of the empty prompt */


typedef struct {
    uint32_t  parent;
    uint32_t  depth;
    uint64_t  sequence;
} model_node_t;


typedef struct {
    bool      live;
    uint16_t  slot;
    uint32_t  epoch;
    uint32_t  partition;
    uint32_t  count[MODEL_NODES];
    double    weight[MODEL_NODES];      /* where count is not 0 */
} model_rank_t;


/* The id of a booking is made from its number in the model's array. */
typedef struct {
    bool      live;
    uint32_t  rank;
    uint32_t  node;
    uint64_t  prefill;
    uint64_t  started;
    uint64_t  serial;
    uint32_t  outputs;
    double    output_weight;            /* of all of them */
} model_booking_t;


typedef struct {
    model_node_t     nodes[MODEL_NODES];
    model_rank_t     ranks[MODEL_RANKS];
    model_booking_t  bookings[MODEL_BOOKINGS];
    uint64_t         serial;
} books_model_t;


/* What is booked on a rank, but for its prompt blocks. */
typedef struct {
    uint64_t  prefill;
    uint32_t  requests;
    double    outputs;
} model_sum_t;


/*
 * Chains that leave others anywhere, so prompts of up to `depth` blocks part
 * at every depth.
 */
static inline void
model_grow(books_model_t *model, sel_rand_t *rand, uint32_t depth)
{
    uint32_t       i, k, left;
    model_node_t  *node;

    model->nodes[MODEL_ROOT] = (model_node_t) { UINT32_MAX, 0, 0 };
    left = 0;

    for (i = 1; i < MODEL_NODES; i++) {
        node = &model->nodes[i];

        if (left > 0 && model->nodes[i - 1].depth < depth) {
            node->parent = i - 1;
            left--;

        } else {
            do {
                node->parent = (uint32_t) sel_rand_below(rand, i);
            } while (model->nodes[node->parent].depth == depth);

            left = (uint32_t) sel_rand_below(rand, 2)
                   ? (uint32_t) sel_rand_below(rand, depth)
                   : (uint32_t) sel_rand_below(rand, 5);
        }

        node->depth = model->nodes[node->parent].depth + 1;
        node->sequence = 0;

        for (k = 1; k < i; k++) {
            if (model->nodes[k].parent == node->parent) {
                node->sequence++;
            }
        }
    }
}


/* The sequence hashes of a node's prompt; returns their number. */
static inline uint32_t
model_sequence(const books_model_t *model, uint32_t node, uint64_t *sequence)
{
    uint32_t  n, at;

    n = model->nodes[node].depth;

    for (at = node; at != MODEL_ROOT; at = model->nodes[at].parent) {
        sequence[model->nodes[at].depth - 1] = model->nodes[at].sequence;
    }

    return n;
}


static inline void
model_sums(const books_model_t *model, model_sum_t *sums)
{
    uint32_t                i;
    model_sum_t            *sum;
    const model_booking_t  *booking;

    memset(sums, 0, MODEL_RANKS * sizeof(model_sum_t));

    for (i = 0; i < MODEL_BOOKINGS; i++) {
        booking = &model->bookings[i];

        if (booking->live) {
            sum = &sums[booking->rank];
            sum->prefill += booking->prefill;
            sum->outputs += booking->output_weight;
            sum->requests++;
        }
    }
}


/* The weights of a rank's prompt blocks. */
static inline double
model_prompts(const books_model_t *model, uint32_t rank)
{
    double    sum;
    uint32_t  i;

    sum = 0;

    for (i = 0; i < MODEL_NODES; i++) {
        if (model->ranks[rank].count[i] > 0) {
            sum += model->ranks[rank].weight[i];
        }
    }

    return sum;
}


static inline uint32_t
model_depth(const books_model_t *model, uint32_t rank, uint32_t node)
{
    uint32_t  at, depth;

    depth = 0;

    /* a live block has live parents */
    for (at = node; at != MODEL_ROOT; at = model->nodes[at].parent) {
        if (model->ranks[rank].count[at] > 0 && depth == 0) {
            depth = model->nodes[at].depth;
        }
    }

    return depth;
}


static inline void
model_book(books_model_t *model, model_booking_t *booking)
{
    uint32_t       at;
    model_rank_t  *rank;

    rank = &model->ranks[booking->rank];

    for (at = booking->node; at != MODEL_ROOT; at = model->nodes[at].parent) {
        if (rank->count[at]++ == 0) {
            rank->weight[at] = 1;
        }
    }

    booking->live = true;
    booking->outputs = 0;
    booking->output_weight = 0;
    booking->serial = ++model->serial;
}


static inline void
model_free(books_model_t *model, model_booking_t *booking)
{
    uint32_t  at;

    for (at = booking->node; at != MODEL_ROOT; at = model->nodes[at].parent) {
        model->ranks[booking->rank].count[at]--;
    }

    booking->live = false;
}


static inline void
model_output(books_model_t *model, model_booking_t *booking, double fraction)
{
    uint32_t       at;
    model_rank_t  *rank;

    booking->outputs++;
    booking->output_weight += 1;

    if (fraction < 0) {
        return;
    }

    booking->output_weight = booking->outputs * fraction;
    rank = &model->ranks[booking->rank];

    for (at = booking->node; at != MODEL_ROOT; at = model->nodes[at].parent) {
        if (rank->count[at] == 1) {
            rank->weight[at] = fraction;
        }
    }
}


/* The rank is none any more, or another one; how many bookings that ends. */
static inline uint32_t
model_clear(books_model_t *model, uint32_t rank)
{
    uint32_t  i, n;

    n = 0;

    for (i = 0; i < MODEL_BOOKINGS; i++) {
        if (model->bookings[i].live && model->bookings[i].rank == rank) {
            model_free(model, &model->bookings[i]);
            n++;
        }
    }

    model->ranks[rank].live = false;

    return n;
}


/* The oldest live booking made before a time; NULL: there is none. */
static inline model_booking_t *
model_oldest(books_model_t *model, uint64_t before)
{
    uint32_t          i;
    model_booking_t  *oldest;

    oldest = NULL;

    for (i = 0; i < MODEL_BOOKINGS; i++) {
        if (model->bookings[i].live
            && (oldest == NULL || model->bookings[i].serial < oldest->serial))
        {
            oldest = &model->bookings[i];
        }
    }

    return oldest != NULL && oldest->started < before ? oldest : NULL;
}


/* The most stretches of equal weight that a booking's prompt has. */
static inline uint32_t
model_stretches(const books_model_t *model)
{
    uint32_t             i, at, n, most;
    const double        *weight;
    const model_node_t  *nodes;

    most = 0;
    nodes = model->nodes;

    for (i = 0; i < MODEL_BOOKINGS; i++) {
        if (!model->bookings[i].live) {
            continue;
        }

        n = 1;
        weight = model->ranks[model->bookings[i].rank].weight;

        for (at = model->bookings[i].node;
             nodes[at].depth > 1;
             at = nodes[at].parent)
        {
            n += weight[at] != weight[nodes[at].parent];
        }

        most = n > most ? n : most;
    }

    return most;
}


#endif /* BOOKS_MODEL_H */
