/*
 * Verification of a zone, the prefix tree's part: edges against the bookings
 * that pass through them.
 */

#include <stdlib.h>
#include "state/sel_zone_check_impl.h"


/* What an edge should have. */
typedef struct {
    uint32_t  children;
    uint32_t  children_xor;
    uint32_t  ends;
} sel_check_edge_t;


static const char *sel_check_edges(sel_zone_t *zone, sel_check_edge_t *edges);
static const char *sel_check_place(sel_zone_t *zone,
    const sel_edge_chunk_t *edge, sel_check_edge_t *edges);
static const char *sel_check_table(sel_zone_t *zone);
static const char *sel_check_paths(sel_zone_t *zone, sel_check_edge_t *edges);
static const char *sel_check_path(sel_zone_t *zone,
    const sel_booking_chunk_t *booking);
static bool sel_check_same_keys(const sel_zone_t *zone,
    const sel_edge_chunk_t *edge, sel_path_t path);
static bool sel_check_weight(const sel_zone_t *zone,
    const sel_booking_chunk_t *booking, const sel_edge_chunk_t *edge,
    double weight);
static bool sel_check_joined(sel_zone_t *zone);


const char *
sel_zone_check_tree(sel_zone_t *zone)
{
    const char        *wrong;
    sel_check_edge_t  *edges;

    edges = calloc((size_t) zone->header->chunk_high + 1,
                   sizeof(sel_check_edge_t));

    if (edges == NULL) {
        return "no memory to verify the tree";
    }

    if ((wrong = sel_check_table(zone)) == NULL
        && (wrong = sel_check_paths(zone, edges)) == NULL)
    {
        wrong = sel_check_edges(zone, edges);
    }

    free(edges);

    return wrong != NULL ? wrong : sel_zone_check_cells(zone);
}


static const char *
sel_check_table(sel_zone_t *zone)
{
    uint32_t           i, n, number, records;
    sel_edge_chunk_t  *edge;

    n = 0;
    records = sel_check_count(zone, SEL_CHUNK_EDGE);

    if (records != zone->header->edges) {
        return "the count of edges is wrong";
    }

    for (i = 0; i < zone->n_book_buckets; i++) {

        for (number = zone->edge_buckets[i]; number != SEL_CHUNK_NONE;
             number = edge->bucket_next)
        {
            edge = sel_zone_edge(zone, number);

            if (n++ == records || !sel_check_is(zone, number, SEL_CHUNK_EDGE)
                || sel_zone_edge_bucket(zone, edge->first)
                   != &zone->edge_buckets[i]
                || sel_edge_find(zone, edge->parent, edge->first) != edge)
            {
                return "the table of edges holds something else";
            }
        }
    }

    return n == records ? NULL : "an edge is not in the table";
}


/* Each booking's path leads to its leaf; counts ends. */

static const char *
sel_check_paths(sel_zone_t *zone, sel_check_edge_t *edges)
{
    uint32_t              number;
    const char           *wrong;
    sel_booking_chunk_t  *booking;

    for (number = zone->header->booking_list.oldest; number != SEL_CHUNK_NONE;
         number = booking->order.newer)
    {
        booking = sel_zone_booking(zone, number);
        wrong = sel_check_path(zone, booking);

        if (wrong != NULL) {
            return wrong;
        }

        edges[booking->leaf].ends++;
    }

    return NULL;
}


static const char *
sel_check_path(sel_zone_t *zone, const sel_booking_chunk_t *booking)
{
    bool               joined;
    uint32_t           number;
    sel_cell_t         cell;
    sel_path_t         path;
    sel_place_t        place;
    sel_edge_chunk_t  *edge;

    joined = sel_check_joined(zone);
    path = (sel_path_t) { NULL, booking->path, 0 };
    place = sel_tree_walk(zone, path, booking->n_blocks, NULL);

    if (place.edge != booking->leaf || place.pos != booking->n_blocks
        || (place.edge != SEL_CHUNK_NONE
            && place.matched != sel_zone_edge(zone, place.edge)->length))
    {
        return "a booking's path does not lead to its leaf";
    }

    for (number = booking->leaf; number != SEL_CHUNK_NONE;
         number = edge->parent)
    {
        edge = sel_zone_edge(zone, number);

        if (!sel_check_same_keys(zone, edge, path)) {
            return "an edge has other keys than its bookings";
        }

        if (!sel_cell_find(zone, edge, booking->slot, &cell)) {
            return "a booking's rank has no cell in an edge of its path";
        }

        if (!joined && !sel_check_weight(zone, booking, edge, *cell.weight)) {
            return "a weight is not the one of a booking's life";
        }
    }

    return NULL;
}


/* Joined runs are means: nothing to be compared then. */

static bool
sel_check_joined(sel_zone_t *zone)
{
    uint32_t      number;
    sel_chunk_t  *chunk;

    for (number = 1; number <= zone->header->chunk_high;
         number += sel_chunk_span(chunk))
    {
        chunk = sel_zone_chunk(zone, number);

        if (sel_chunk_tag(chunk) == SEL_CHUNK_LIFE
            && ((sel_life_chunk_t *) chunk)->joined != 0)
        {
            return true;
        }
    }

    return false;
}


static bool
sel_check_same_keys(const sel_zone_t *zone, const sel_edge_chunk_t *edge,
    sel_path_t path)
{
    uint32_t                 i, pos, number;
    const sel_keys_chunk_t  *keys;

    pos = edge->start;

    for (number = edge->keys; number != SEL_CHUNK_NONE;
         number = keys->head.next)
    {
        keys = sel_zone_keys(zone, number);

        for (i = 0; i < keys->head.count; i++) {

            if (sel_path_key(zone, &path, pos++) != keys->keys[i]) {
                return false;
            }
        }
    }

    return true;
}


static bool
sel_check_weight(const sel_zone_t *zone, const sel_booking_chunk_t *booking,
    const sel_edge_chunk_t *edge, double weight)
{
    uint32_t                 i;
    const sel_life_chunk_t  *life;

    if (booking->life == SEL_CHUNK_NONE) {
        return weight == 1;
    }

    life = sel_zone_life(zone, booking->life);

    for (i = 0; life->ends[i] <= edge->start; i++) {
        /* void */
    }

    return life->weights[i] == weight
           && life->ends[i] >= edge->start + edge->length;
}


static const char *
sel_check_edges(sel_zone_t *zone, sel_check_edge_t *edges)
{
    uint32_t           number;
    const char        *wrong;
    sel_chunk_t       *chunk;
    sel_edge_chunk_t  *edge;

    for (number = 1; number <= zone->header->chunk_high;
         number += sel_chunk_span(chunk))
    {
        chunk = sel_zone_chunk(zone, number);

        if (sel_chunk_tag(chunk) == SEL_CHUNK_EDGE) {
            wrong = sel_check_place(zone, (sel_edge_chunk_t *) chunk, edges);

            if (wrong != NULL) {
                return wrong;
            }
        }
    }

    for (number = 1; number <= zone->header->chunk_high;
         number += sel_chunk_span(chunk))
    {
        chunk = sel_zone_chunk(zone, number);
        edge = (sel_edge_chunk_t *) chunk;

        if (sel_chunk_tag(chunk) != SEL_CHUNK_EDGE) {
            continue;
        }

        if (edge->children != edges[number].children
            || edge->children_xor != edges[number].children_xor
            || edge->ends != edges[number].ends)
        {
            return "an edge's children or ends are counted wrong";
        }

        if (edge->children == 1 && edge->ends == 0 && edge->uneven == 0
            && sel_zone_edge(zone, edge->children_xor)->uneven == 0)
        {
            return "an edge and its only child are apart";
        }
    }

    return NULL;
}


static const char *
sel_check_place(sel_zone_t *zone, const sel_edge_chunk_t *edge,
    sel_check_edge_t *edges)
{
    const sel_edge_chunk_t  *parent;

    if (edge->parent == SEL_CHUNK_NONE) {
        return edge->start == 0 ? NULL : "a first edge begins somewhere else";
    }

    if (!sel_check_is(zone, edge->parent, SEL_CHUNK_EDGE)) {
        return "an edge's parent is something else";
    }

    parent = sel_zone_edge(zone, edge->parent);

    if (edge->start != parent->start + parent->length) {
        return "an edge does not begin where its parent ends";
    }

    edges[edge->parent].children++;
    edges[edge->parent].children_xor ^= sel_zone_chunk_number(zone, edge);

    return NULL;
}
