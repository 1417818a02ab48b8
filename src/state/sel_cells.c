/*
 * The cells of an edge: one for each rank that has bookings through it.  The
 * first of them are in the edge; the others fill chunks, of which only the
 * first of the chain may have room.  A cell that goes is replaced by the last
 * one of that chunk, so cells are in no order, and a search may go over all of
 * them.  But a rebuild adds them by their slots, and an edge knows whether its
 * cells came in this order: then the last one tells at once.
 */

#include "state/sel_tree_impl.h"


static bool sel_cell_in(const uint16_t *slots, uint32_t n, uint16_t slot,
    uint32_t *i);
static sel_cells_chunk_t *sel_cells_chunk(const sel_zone_t *zone,
    uint32_t number);
static uint32_t sel_cells_inside(const sel_edge_chunk_t *edge);
static sel_cell_t sel_cell_inside(sel_edge_chunk_t *edge, uint32_t i);
static sel_cell_t sel_cell_at(sel_cells_chunk_t *cells, uint32_t i);
static sel_cell_t sel_cell_last(const sel_zone_t *zone,
    sel_edge_chunk_t *edge);


bool
sel_cell_find(const sel_zone_t *zone, sel_edge_chunk_t *edge, uint16_t slot,
    sel_cell_t *cell)
{
    uint32_t            i, number;
    sel_cells_chunk_t  *cells;

    if (edge->n_cells == 0) {
        return false;
    }

    *cell = sel_cell_last(zone, edge);

    if (*cell->slot == slot) {
        return true;
    }

    if (edge->mixed == 0 && *cell->slot < slot) {
        return false;
    }

    if (sel_cell_in(edge->slots, sel_cells_inside(edge), slot, &i)) {
        *cell = sel_cell_inside(edge, i);
        return true;
    }

    for (number = edge->cells; number != SEL_CHUNK_NONE;
         number = cells->head.next)
    {
        cells = sel_cells_chunk(zone, number);

        if (sel_cell_in(cells->slots, cells->head.count, slot, &i)) {
            *cell = sel_cell_at(cells, i);
            return true;
        }
    }

    return false;
}


static bool
sel_cell_in(const uint16_t *slots, uint32_t n, uint16_t slot, uint32_t *i)
{
    for (*i = 0; *i < n; (*i)++) {

        if (slots[*i] == slot) {
            return true;
        }
    }

    return false;
}


static sel_cells_chunk_t *
sel_cells_chunk(const sel_zone_t *zone, uint32_t number)
{
    return (sel_cells_chunk_t *) sel_zone_chunk(zone, number);
}


static uint32_t
sel_cells_inside(const sel_edge_chunk_t *edge)
{
    return edge->n_cells < SEL_CELLS_AN_EDGE ? edge->n_cells
                                             : SEL_CELLS_AN_EDGE;
}


static sel_cell_t
sel_cell_inside(sel_edge_chunk_t *edge, uint32_t i)
{
    return (sel_cell_t) { &edge->slots[i], &edge->counts[i],
                          &edge->weights[i] };
}


static sel_cell_t
sel_cell_at(sel_cells_chunk_t *cells, uint32_t i)
{
    return (sel_cell_t) { &cells->slots[i], &cells->counts[i],
                          &cells->weights[i] };
}


/* The cell that was added last; there must be one. */

static sel_cell_t
sel_cell_last(const sel_zone_t *zone, sel_edge_chunk_t *edge)
{
    sel_cells_chunk_t  *cells;

    if (edge->cells == SEL_CHUNK_NONE) {
        return sel_cell_inside(edge, edge->n_cells - 1);
    }

    cells = sel_cells_chunk(zone, edge->cells);

    return sel_cell_at(cells, cells->head.count - 1u);
}


void
sel_cell_add(sel_zone_t *zone, sel_edge_chunk_t *edge, uint16_t slot)
{
    uint32_t            number;
    sel_cell_t          cell;
    sel_cells_chunk_t  *cells;

    if (edge->n_cells != 0 && *sel_cell_last(zone, edge).slot > slot) {
        edge->mixed = 1;
    }

    if (edge->n_cells < SEL_CELLS_AN_EDGE) {
        cell = sel_cell_inside(edge, edge->n_cells);

    } else {
        if (sel_cell_need(edge) != 0) {
            number = sel_zone_chunk_take(zone);
            cells = sel_cells_chunk(zone, number);

            cells->head.next = edge->cells;
            sel_chunk_set_tag(&cells->head, SEL_CHUNK_CELLS);
            SEL_ZONE_STEP();
            edge->cells = number;
        }

        cells = sel_cells_chunk(zone, edge->cells);
        cell = sel_cell_at(cells, cells->head.count);
        cells->head.count++;
    }

    *cell.slot = slot;
    *cell.count = 1;
    *cell.weight = 1;

    edge->n_cells++;
}


void
sel_cell_remove(sel_zone_t *zone, sel_edge_chunk_t *edge,
    const sel_cell_t *cell)
{
    uint32_t            number;
    sel_cell_t          last;
    sel_cells_chunk_t  *cells;

    if (*cell->weight != 1) {
        edge->uneven--;
    }

    last = sel_cell_last(zone, edge);

    if (last.slot != cell->slot) {
        edge->mixed = 1;
    }

    edge->n_cells--;
    number = edge->cells;
    cells = NULL;

    if (number != SEL_CHUNK_NONE) {
        cells = sel_cells_chunk(zone, number);
        cells->head.count--;
    }

    *cell->slot = *last.slot;
    *cell->count = *last.count;
    *cell->weight = *last.weight;

    if (cells != NULL && cells->head.count == 0) {
        edge->cells = cells->head.next;
        cells->head.next = SEL_CHUNK_NONE;
        sel_zone_chain_give(zone, number);
    }
}


bool
sel_cell_weigh(sel_zone_t *zone, sel_edge_chunk_t *edge,
    const sel_cell_t *cell, double weight)
{
    double  before;

    before = *cell->weight;

    edge->uneven += (weight != 1);
    edge->uneven -= (before != 1);

    *cell->weight = weight;
    zone->slots[*cell->slot].blocks += (weight - before) * edge->length;

    return before != 1 && weight == 1;
}


void
sel_cells_copy(sel_zone_t *zone, const sel_edge_chunk_t *from,
    sel_edge_chunk_t *to)
{
    uint32_t            number, source, *link;
    sel_cells_chunk_t  *cells;

    memcpy(to->slots, from->slots, sizeof(to->slots));
    memcpy(to->counts, from->counts, sizeof(to->counts));
    memcpy(to->weights, from->weights, sizeof(to->weights));

    to->mixed = from->mixed;
    to->uneven = from->uneven;
    to->n_cells = from->n_cells;
    to->cells = SEL_CHUNK_NONE;

    link = &to->cells;

    for (source = from->cells; source != SEL_CHUNK_NONE;
         source = sel_zone_chunk(zone, source)->next)
    {
        number = sel_zone_chunk_take(zone);
        cells = sel_cells_chunk(zone, number);

        memcpy((uint8_t *) cells + sizeof(sel_chunk_t),
               (uint8_t *) sel_zone_chunk(zone, source) + sizeof(sel_chunk_t),
               SEL_CHUNK_DATA);

        cells->head.count = sel_zone_chunk(zone, source)->count;
        sel_chunk_set_tag(&cells->head, SEL_CHUNK_CELLS);
        SEL_ZONE_STEP();

        *link = number;
        link = &cells->head.next;
    }
}


void
sel_cells_note(const sel_zone_t *zone, const sel_edge_chunk_t *edge,
    uint32_t depth, uint32_t *depths)
{
    uint32_t                  i, n, number;
    const sel_cells_chunk_t  *cells;

    n = sel_cells_inside(edge);

    for (i = 0; i < n; i++) {
        depths[edge->slots[i]] = depth;
    }

    for (number = edge->cells; number != SEL_CHUNK_NONE;
         number = cells->head.next)
    {
        cells = sel_cells_chunk(zone, number);
        n = cells->head.count;

        for (i = 0; i < n; i++) {
            depths[cells->slots[i]] = depth;
        }
    }
}
