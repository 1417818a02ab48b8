/*
 * Edges: the table that finds them, and how they are cut and joined.
 *
 * When an edge is cut, the part above is new and the part below stays where it
 * is, so what leads to it (its children, the bookings that end there) stays
 * right.  Likewise when edges are joined: the lower one stays.  Which child an
 * only child is, the sum (exclusive or) of their numbers tells.
 */

#include "state/sel_tree_impl.h"


static sel_edge_chunk_t *sel_edge_take(sel_zone_t *zone);
static void sel_edge_link(sel_zone_t *zone, sel_edge_chunk_t *edge);
static void sel_edge_unlink(sel_zone_t *zone, sel_edge_chunk_t *edge);
static void sel_edge_give(sel_zone_t *zone, sel_edge_chunk_t *edge);


sel_edge_chunk_t *
sel_edge_find(const sel_zone_t *zone, uint32_t parent, uint64_t key)
{
    uint32_t           number;
    sel_edge_chunk_t  *edge;

    number = *sel_zone_edge_bucket(zone, key);

    while (number != SEL_CHUNK_NONE) {
        edge = sel_zone_edge(zone, number);

        if (edge->first == key && edge->parent == parent) {
            return edge;
        }

        number = edge->bucket_next;
    }

    return NULL;
}


static sel_edge_chunk_t *
sel_edge_take(sel_zone_t *zone)
{
    sel_edge_chunk_t  *edge;

    edge = sel_zone_edge(zone, sel_zone_chunk_take(zone));

    memset((uint8_t *) edge + sizeof(sel_chunk_t), 0, SEL_CHUNK_DATA);
    sel_chunk_set_tag(&edge->head, SEL_CHUNK_EDGE);
    SEL_ZONE_STEP();

    zone->header->edges++;

    return edge;
}


static void
sel_edge_link(sel_zone_t *zone, sel_edge_chunk_t *edge)
{
    sel_bucket_insert(zone, sel_zone_edge_bucket(zone, edge->first),
                      &edge->bucket_next);
}


static void
sel_edge_unlink(sel_zone_t *zone, sel_edge_chunk_t *edge)
{
    sel_bucket_remove(zone, sel_zone_edge_bucket(zone, edge->first),
                      &edge->bucket_next);
}


static void
sel_edge_give(sel_zone_t *zone, sel_edge_chunk_t *edge)
{
    zone->header->edges--;
    sel_zone_chain_give(zone, sel_zone_chunk_number(zone, edge));
}


sel_edge_chunk_t *
sel_edge_split(sel_zone_t *zone, sel_edge_chunk_t *edge, uint32_t at)
{
    uint32_t           number;
    sel_edge_chunk_t  *head, *parent;

    head = sel_edge_take(zone);
    number = sel_zone_chunk_number(zone, edge);

    sel_edge_unlink(zone, edge);
    sel_keys_divide(zone, head, edge, at);
    sel_cells_copy(zone, edge, head);

    head->first = edge->first;
    head->last = sel_zone_keys(zone, head->keys_last)
                     ->keys[sel_zone_chunk(zone, head->keys_last)->count - 1];
    head->start = edge->start;
    head->length = at;
    head->parent = edge->parent;
    head->children = 1;
    head->children_xor = number;

    edge->first = sel_zone_keys(zone, edge->keys)->keys[0];
    edge->start += at;
    edge->length -= at;
    edge->parent = sel_zone_chunk_number(zone, head);

    sel_edge_link(zone, head);
    sel_edge_link(zone, edge);

    if (head->parent != SEL_CHUNK_NONE) {
        parent = sel_zone_edge(zone, head->parent);
        parent->children_xor ^= number ^ edge->parent;
    }

    return head;
}


sel_edge_chunk_t *
sel_edge_append(sel_zone_t *zone, sel_edge_chunk_t *parent, sel_path_t path,
    uint32_t pos, uint32_t n)
{
    sel_edge_chunk_t  *edge;

    edge = sel_edge_take(zone);

    edge->keys = sel_keys_write(zone, path, pos, n - pos, &edge->keys_last);

    edge->first = sel_zone_keys(zone, edge->keys)->keys[0];
    edge->last = sel_zone_keys(zone, edge->keys_last)
                     ->keys[sel_zone_chunk(zone, edge->keys_last)->count - 1];
    edge->start = pos;
    edge->length = n - pos;

    if (parent != NULL) {
        edge->parent = sel_zone_chunk_number(zone, parent);
        parent->children++;
        parent->children_xor ^= sel_zone_chunk_number(zone, edge);
    }

    sel_edge_link(zone, edge);

    return edge;
}


void
sel_edge_end(sel_zone_t *zone, sel_edge_chunk_t *edge)
{
    sel_edge_chunk_t  *parent;

    sel_edge_unlink(zone, edge);

    if (edge->parent != SEL_CHUNK_NONE) {
        parent = sel_zone_edge(zone, edge->parent);
        parent->children--;
        parent->children_xor ^= sel_zone_chunk_number(zone, edge);
    }

    sel_zone_chain_give(zone, edge->keys);
    sel_edge_give(zone, edge);
}


void
sel_edge_merge(sel_zone_t *zone, sel_edge_chunk_t *edge)
{
    sel_edge_chunk_t  *child, *parent;

    if (edge->children != 1 || edge->ends != 0 || edge->uneven != 0) {
        return;
    }

    child = sel_zone_edge(zone, edge->children_xor);

    if (child->uneven != 0) {
        return;
    }

    /* who passes through the one passes through the other: cells are alike */

    sel_edge_unlink(zone, edge);
    sel_edge_unlink(zone, child);
    sel_keys_unite(zone, edge, child);

    child->first = edge->first;
    child->start = edge->start;
    child->length += edge->length;
    child->parent = edge->parent;

    sel_edge_link(zone, child);

    if (edge->parent != SEL_CHUNK_NONE) {
        parent = sel_zone_edge(zone, edge->parent);
        parent->children_xor ^= sel_zone_chunk_number(zone, edge)
                                ^ sel_zone_chunk_number(zone, child);
    }

    sel_zone_chain_give(zone, edge->cells);
    sel_edge_give(zone, edge);
}
