/*
 * Weights.  The tree has them, one for each rank and edge; a booking's life
 * repeats those of its own blocks, so that a rebuild finds the same numbers.
 *
 * While several bookings of a rank share a block, nobody changes its weight;
 * so the lives of all that have it agree, and a booking without a life has
 * only blocks of weight 1.  A life has place for some runs of equal weight.
 * Should there be more, the two neighbours that differ least are joined: the
 * tree keeps the exact weights, only a rebuild would see the mean.
 */

#include "state/sel_books_impl.h"


/* Runs from the last one up; one more than a life has, for a moment. */
typedef struct {
    uint32_t  n;
    uint32_t  joined;
    uint32_t  ends[SEL_LIFE_RUNS + 1];
    double    weights[SEL_LIFE_RUNS + 1];
} sel_runs_t;


static void sel_runs_add(sel_runs_t *runs, const sel_edge_chunk_t *edge,
    double weight);
static void sel_runs_join(sel_runs_t *runs, uint32_t start);


uint32_t
sel_life_make(sel_zone_t *zone, uint32_t leaf, uint16_t slot, double sole,
    uint32_t outputs, double weight)
{
    uint32_t           i, number;
    sel_cell_t         cell;
    sel_runs_t         runs;
    sel_edge_chunk_t  *edge;
    sel_life_chunk_t  *life;

    runs.n = 0;
    runs.joined = 0;

    for (number = leaf; number != SEL_CHUNK_NONE; number = edge->parent) {
        edge = sel_zone_edge(zone, number);

        if (!sel_cell_find(zone, edge, slot, &cell)) {
            break;
        }

        if (*cell.count != 1) {
            sole = -1;
        }

        sel_runs_add(&runs, edge, sole >= 0 ? sole : *cell.weight);
    }

    number = sel_zone_chunk_take(zone);
    life = sel_zone_life(zone, number);

    life->outputs = outputs;
    life->weight = weight;
    life->joined = runs.joined;

    for (i = 0; i < runs.n; i++) {
        life->ends[i] = runs.ends[runs.n - 1 - i];
        life->weights[i] = runs.weights[runs.n - 1 - i];
    }

    life->head.count = (uint16_t) runs.n;
    sel_chunk_set_tag(&life->head, SEL_CHUNK_LIFE);
    SEL_ZONE_STEP();

    return number;
}


static void
sel_runs_add(sel_runs_t *runs, const sel_edge_chunk_t *edge, double weight)
{
    if (runs->n != 0 && runs->weights[runs->n - 1] == weight) {
        return;
    }

    runs->ends[runs->n] = edge->start + edge->length;
    runs->weights[runs->n] = weight;
    runs->n++;

    if (runs->n > SEL_LIFE_RUNS) {
        sel_runs_join(runs, edge->start);
    }
}


static void
sel_runs_join(sel_runs_t *runs, uint32_t start)
{
    double    apart, least, upper, lower;
    uint32_t  i, best;

    best = 0;
    least = 0;

    for (i = 0; i + 1 < runs->n; i++) {
        apart = runs->weights[i] - runs->weights[i + 1];
        apart = apart < 0 ? -apart : apart;

        if (i == 0 || apart < least) {
            best = i;
            least = apart;
        }
    }

    start = best + 2 < runs->n ? runs->ends[best + 2] : start;
    lower = runs->ends[best] - runs->ends[best + 1];
    upper = runs->ends[best + 1] - start;

    runs->weights[best] = (runs->weights[best] * lower
                           + runs->weights[best + 1] * upper)
                          / (lower + upper);
    runs->n--;
    runs->joined = 1;

    for (i = best + 1; i < runs->n; i++) {
        runs->ends[i] = runs->ends[i + 1];
        runs->weights[i] = runs->weights[i + 1];
    }
}


bool
sel_life_decay(sel_zone_t *zone, sel_booking_chunk_t *booking,
    double fraction)
{
    double       before;
    uint32_t     life, last, outputs;
    sel_slot_t  *slot;

    if (!sel_zone_room(zone, 1)) {
        return false;
    }

    last = booking->life;
    before = sel_booking_output_weight(zone, booking);
    outputs = sel_booking_outputs(zone, booking) + 1;

    life = sel_life_make(zone, booking->leaf, booking->slot, fraction,
                         outputs, fraction);

    sel_zone_set(&booking->life, life);
    SEL_ZONE_STEP();
    sel_zone_set(&booking->outputs, outputs);
    SEL_ZONE_STEP();

    slot = &zone->slots[booking->slot];
    slot->blocks += sel_booking_output_weight(zone, booking) - before;
    SEL_ZONE_STEP();

    sel_tree_decay(zone, booking->leaf, booking->slot, fraction);
    sel_zone_chain_give(zone, last);

    return true;
}


/*
 * From the leaf up to where another booking of the rank, whose life says the
 * same, was before.  An edge with blocks of two weights is cut.
 */

bool
sel_life_restore(sel_zone_t *zone, const sel_booking_chunk_t *booking)
{
    uint32_t           run, begin, at, number;
    sel_cell_t         cell;
    sel_edge_chunk_t  *edge;
    sel_life_chunk_t  *life;

    if (booking->life == SEL_CHUNK_NONE) {
        return true;
    }

    life = sel_zone_life(zone, booking->life);
    run = life->head.count;

    for (number = booking->leaf; number != SEL_CHUNK_NONE && run != 0;
         number = edge->parent)
    {
        edge = sel_zone_edge(zone, number);
        begin = run > 1 ? life->ends[run - 2] : 0;

        if (!sel_cell_find(zone, edge, booking->slot, &cell)
            || *cell.count != 1)
        {
            break;
        }

        if (begin > edge->start && begin < edge->start + edge->length) {

            at = begin - edge->start;

            if (!sel_zone_room(zone, sel_edge_split_need(edge, at))) {
                return false;
            }

            (void) sel_edge_split(zone, edge, at);
        }

        (void) sel_cell_weigh(zone, edge, &cell, life->weights[run - 1]);
        SEL_ZONE_STEP();

        if (begin == edge->start) {
            run--;
        }
    }

    return true;
}
