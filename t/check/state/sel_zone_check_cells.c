/*
 * Verification of a zone: the cells of edges.  The counts of all cells are
 * taken down by the bookings one by one; what is left must be 0 everywhere.
 * Then they are put back.
 */

#include "state/sel_zone_check_impl.h"


static void sel_check_counts(sel_zone_t *zone, int step);
static const char *sel_check_cells(sel_zone_t *zone, sel_edge_chunk_t *edge,
    bool zero);
static const char *sel_check_cell(sel_zone_t *zone, sel_edge_chunk_t *edge,
    sel_cell_t cell, bool zero, uint32_t *uneven);
static bool sel_check_in_order(const sel_zone_t *zone,
    const sel_edge_chunk_t *edge);


const char *
sel_zone_check_cells(sel_zone_t *zone)
{
    int           turn;
    uint32_t      number;
    const char   *wrong;
    sel_chunk_t  *chunk;

    wrong = NULL;

    for (turn = 0; turn < 2 && wrong == NULL; turn++) {

        for (number = 1;
             number <= zone->header->chunk_high && wrong == NULL;
             number += sel_chunk_span(chunk))
        {
            chunk = sel_zone_chunk(zone, number);

            if (sel_chunk_tag(chunk) == SEL_CHUNK_EDGE) {
                wrong = sel_check_cells(zone, (sel_edge_chunk_t *) chunk,
                                        turn == 1);
            }
        }

        sel_check_counts(zone, turn == 0 ? -1 : 1);
    }

    return wrong;
}


static void
sel_check_counts(sel_zone_t *zone, int step)
{
    uint32_t              number, edge;
    sel_cell_t            cell;
    sel_booking_chunk_t  *booking;

    for (number = zone->header->booking_list.oldest; number != SEL_CHUNK_NONE;
         number = booking->order.newer)
    {
        booking = sel_zone_booking(zone, number);

        for (edge = booking->leaf; edge != SEL_CHUNK_NONE;
             edge = sel_zone_edge(zone, edge)->parent)
        {
            if (sel_cell_find(zone, sel_zone_edge(zone, edge), booking->slot,
                              &cell))
            {
                *cell.count += (uint32_t) step;
            }
        }
    }
}


static const char *
sel_check_cells(sel_zone_t *zone, sel_edge_chunk_t *edge, bool zero)
{
    uint32_t            i, number, uneven;
    const char         *wrong;
    sel_cells_chunk_t  *cells;

    uneven = 0;

    if (edge->n_cells == 0) {
        return "an edge is nobody's";
    }

    for (i = 0; i < edge->n_cells && i < SEL_CELLS_AN_EDGE; i++) {
        wrong = sel_check_cell(zone, edge, (sel_cell_t) { &edge->slots[i],
                               &edge->counts[i], &edge->weights[i] }, zero,
                               &uneven);
        if (wrong != NULL) {
            return wrong;
        }
    }

    for (number = edge->cells; number != SEL_CHUNK_NONE;
         number = cells->head.next)
    {
        cells = (sel_cells_chunk_t *) sel_zone_chunk(zone, number);

        for (i = 0; i < cells->head.count; i++) {
            wrong = sel_check_cell(zone, edge, (sel_cell_t) {
                                   &cells->slots[i], &cells->counts[i],
                                   &cells->weights[i] }, zero, &uneven);
            if (wrong != NULL) {
                return wrong;
            }
        }
    }

    if (edge->mixed == 0 && !sel_check_in_order(zone, edge)) {
        return "cells are not in the order that their edge says";
    }

    return uneven == edge->uneven ? NULL
                                  : "the count of uneven weights is wrong";
}


/* From the last cell that was added to the first. */

static bool
sel_check_in_order(const sel_zone_t *zone, const sel_edge_chunk_t *edge)
{
    uint32_t                  i, above, number;
    const sel_cells_chunk_t  *cells;

    above = UINT32_MAX;

    for (number = edge->cells; number != SEL_CHUNK_NONE;
         number = cells->head.next)
    {
        cells = (sel_cells_chunk_t *) sel_zone_chunk(zone, number);

        for (i = cells->head.count; i-- != 0; above = cells->slots[i]) {

            if (cells->slots[i] >= above) {
                return false;
            }
        }
    }

    i = edge->n_cells < SEL_CELLS_AN_EDGE ? edge->n_cells : SEL_CELLS_AN_EDGE;

    for ( /* void */ ; i-- != 0; above = edge->slots[i]) {

        if (edge->slots[i] >= above) {
            return false;
        }
    }

    return true;
}


static const char *
sel_check_cell(sel_zone_t *zone, sel_edge_chunk_t *edge, sel_cell_t cell,
    bool zero, uint32_t *uneven)
{
    sel_cell_t  found;

    if (zero != (*cell.count == 0)) {
        return "a cell counts other bookings than pass through its edge";
    }

    if (!sel_cell_find(zone, edge, *cell.slot, &found)
        || found.slot != cell.slot)
    {
        return "a rank has two cells in an edge";
    }

    *uneven += *cell.weight != 1;

    return *cell.weight >= 0 && *cell.weight <= 1
           ? NULL : "a weight is none";
}
