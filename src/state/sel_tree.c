/*
 * Paths in the prefix tree.
 *
 *   Walk: the table leads from edge to edge; an edge whose last key is the
 *   path's matches as a whole.
 *   Insert: where the path leaves the tree an edge may be cut and one may be
 *   added; then the rank's count grows in all edges from the last one up.
 *   Remove: counts fall from the last edge up; cells and edges that nobody
 *   needs go; an edge left with one child, where no booking ends, is joined
 *   with it, so a prompt that many have shared does not stay in pieces.
 *
 * A rank's cells are an unbroken run of a path's edges from the first on, and
 * its counts only fall along it.  So the depth of a path on a rank tells which
 * of the edges have a cell of it.
 */

#include "state/sel_tree_impl.h"


static sel_edge_chunk_t *sel_tree_edge(const sel_zone_t *zone,
    uint32_t number);
static void sel_tree_grow(sel_zone_t *zone, sel_edge_chunk_t *edge,
    uint16_t slot, uint32_t depth);
static bool sel_tree_shrink(sel_zone_t *zone, sel_edge_chunk_t *edge,
    uint16_t slot);
static void sel_tree_settle(sel_zone_t *zone, uint32_t number, bool all);


sel_place_t
sel_tree_walk(const sel_zone_t *zone, sel_path_t path, uint32_t n,
    uint32_t *depths)
{
    uint32_t           length;
    sel_path_t         ahead;
    sel_place_t        place;
    sel_edge_chunk_t  *edge;

    memset(&place, 0, sizeof(sel_place_t));

    while (place.pos < n) {
        edge = sel_edge_find(zone, place.edge,
                             sel_path_key(zone, &path, place.pos));

        if (edge == NULL) {
            break;
        }

        length = edge->length;
        ahead = path;

        if (n - place.pos < length
            || sel_path_key(zone, &ahead, place.pos + length - 1)
               != edge->last)
        {
            length = sel_keys_common(zone, edge, path, place.pos, n);
        }

        path = ahead;
        place.edge = sel_zone_chunk_number(zone, edge);
        place.matched = length;
        place.pos += length;

        if (depths != NULL) {
            sel_cells_note(zone, edge, place.pos, depths);
        }

        if (length < edge->length) {
            break;
        }
    }

    return place;
}


static sel_edge_chunk_t *
sel_tree_edge(const sel_zone_t *zone, uint32_t number)
{
    return number != SEL_CHUNK_NONE ? sel_zone_edge(zone, number) : NULL;
}


uint32_t
sel_tree_depth(const sel_zone_t *zone, const sel_place_t *place, uint16_t slot)
{
    uint32_t           depth;
    sel_cell_t         cell;
    sel_edge_chunk_t  *edge;

    depth = place->pos;

    for (edge = sel_tree_edge(zone, place->edge); edge != NULL;
         edge = sel_tree_edge(zone, edge->parent))
    {
        if (sel_cell_find(zone, edge, slot, &cell)) {
            return depth;
        }

        depth = edge->start;
    }

    return 0;
}


uint64_t
sel_tree_need(const sel_zone_t *zone, const sel_place_t *place, uint32_t n,
    uint16_t slot, uint32_t depth, bool *uneven)
{
    uint64_t           need;
    sel_cell_t         cell;
    sel_edge_chunk_t  *edge;

    need = 0;
    *uneven = false;

    if (place->pos < n) {
        need += 1 + sel_keys_need(n - place->pos);
    }

    edge = sel_tree_edge(zone, place->edge);

    if (edge != NULL && place->matched < edge->length) {
        need += sel_edge_split_need(edge, place->matched);
    }

    for ( /* void */ ; edge != NULL; edge = sel_tree_edge(zone, edge->parent))
    {
        if (edge->start >= depth) {
            need += sel_cell_need(edge);

        } else if (edge->uneven != 0 && !*uneven
                   && sel_cell_find(zone, edge, slot, &cell))
        {
            *uneven = *cell.weight != 1;
        }
    }

    return need;
}


uint32_t
sel_tree_insert(sel_zone_t *zone, const sel_place_t *place, sel_path_t path,
    uint32_t n, uint16_t slot, uint32_t depth)
{
    sel_edge_chunk_t  *edge, *leaf;

    if (n == 0) {
        return SEL_CHUNK_NONE;
    }

    leaf = sel_tree_edge(zone, place->edge);

    if (leaf != NULL && place->matched < leaf->length) {
        leaf = sel_edge_split(zone, leaf, place->matched);
    }

    if (place->pos < n) {
        leaf = sel_edge_append(zone, leaf, path, place->pos, n);
    }

    leaf->ends++;

    for (edge = leaf; edge != NULL; edge = sel_tree_edge(zone, edge->parent)) {
        sel_tree_grow(zone, edge, slot, depth);
    }

    return sel_zone_chunk_number(zone, leaf);
}


static void
sel_tree_grow(sel_zone_t *zone, sel_edge_chunk_t *edge, uint16_t slot,
    uint32_t depth)
{
    sel_cell_t  cell;

    if (edge->start < depth && sel_cell_find(zone, edge, slot, &cell)) {
        (*cell.count)++;

    } else {
        sel_cell_add(zone, edge, slot);
        zone->slots[slot].blocks += edge->length;
    }

    SEL_ZONE_STEP();
}


void
sel_tree_remove(sel_zone_t *zone, uint32_t leaf, uint16_t slot)
{
    bool               evened;
    uint32_t           number, parent, left;
    sel_edge_chunk_t  *edge;

    if (leaf == SEL_CHUNK_NONE) {
        return;
    }

    sel_zone_edge(zone, leaf)->ends--;

    evened = false;
    left = SEL_CHUNK_NONE;

    for (number = leaf; number != SEL_CHUNK_NONE; number = parent) {
        edge = sel_zone_edge(zone, number);
        parent = edge->parent;

        evened |= sel_tree_shrink(zone, edge, slot);

        if (edge->n_cells == 0) {
            sel_edge_end(zone, edge);

        } else if (left == SEL_CHUNK_NONE) {
            left = number;
        }
    }

    sel_tree_settle(zone, left, evened);
}


/* One booking of a rank less; true when a weight that was not 1 went. */

static bool
sel_tree_shrink(sel_zone_t *zone, sel_edge_chunk_t *edge, uint16_t slot)
{
    bool        uneven;
    sel_cell_t  cell;

    if (!sel_cell_find(zone, edge, slot, &cell)) {
        return false;
    }

    (*cell.count)--;
    SEL_ZONE_STEP();

    if (*cell.count != 0) {
        return false;
    }

    uneven = *cell.weight != 1;
    zone->slots[slot].blocks -= *cell.weight * edge->length;
    sel_cell_remove(zone, edge, &cell);

    return uneven;
}


/* Joins what can be joined: an edge, or all from it up. */

static void
sel_tree_settle(sel_zone_t *zone, uint32_t number, bool all)
{
    uint32_t           parent;
    sel_edge_chunk_t  *edge;

    for ( /* void */ ; number != SEL_CHUNK_NONE; number = parent) {
        edge = sel_zone_edge(zone, number);
        parent = all ? edge->parent : SEL_CHUNK_NONE;
        sel_edge_merge(zone, edge);
    }
}


void
sel_tree_decay(sel_zone_t *zone, uint32_t leaf, uint16_t slot, double weight)
{
    bool               evened;
    sel_cell_t         cell;
    sel_edge_chunk_t  *edge;

    evened = false;

    for (edge = sel_tree_edge(zone, leaf); edge != NULL;
         edge = sel_tree_edge(zone, edge->parent))
    {
        if (!sel_cell_find(zone, edge, slot, &cell) || *cell.count != 1) {
            break;
        }

        evened |= sel_cell_weigh(zone, edge, &cell, weight);
        SEL_ZONE_STEP();
    }

    if (evened) {
        sel_tree_settle(zone, leaf, true);
    }
}
