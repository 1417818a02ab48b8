/*
 * Inside of the books: the compressed prefix tree of all live prompts.
 *
 * An edge is a run of consecutive blocks that the same bookings pass through,
 * whatever their ranks.  It has one cell for each rank of these bookings: how
 * many there are, and what each of the edge's blocks weighs on that rank.  A
 * path key is a position (it commits to all blocks before and to the
 * partition), so one table finds edges by their first keys, and to compare
 * the last key is to compare all of them.
 *
 * All of it is derived: a rebuild makes it anew from the bookings.  So nothing
 * here cares for a death, but for the chunks: who calls counts before how many
 * an operation takes, and an operation that only takes away takes none.
 */

#ifndef SEL_TREE_IMPL_H
#define SEL_TREE_IMPL_H

#include "state/sel_zone_impl.h"


#define SEL_KEYS_A_CHUNK   (SEL_CHUNK_DATA / sizeof(uint64_t))

/* cells in an edge itself, and in a chunk of more of them */
#define SEL_CELLS_AN_EDGE  13
#define SEL_CELLS_A_CHUNK  17


/* KEYS: head.count of them; only the last chunk of a chain has room. */
typedef struct {
    sel_chunk_t  head;
    uint64_t     keys[SEL_KEYS_A_CHUNK];
} sel_keys_chunk_t;

_Static_assert(sizeof(sel_keys_chunk_t) == SEL_CHUNK_SIZE, "keys");


/* EDGE */
typedef struct {
    sel_chunk_t  head;
    uint64_t     first;                 /* keys */
    uint64_t     last;
    uint32_t     start;                 /* position of the first in its path */
    uint32_t     length;                /* in keys, above 0 */
    uint32_t     keys;                  /* chain */
    uint32_t     keys_last;             /* its last chunk */
    uint32_t     parent;                /* edge, NONE for the first */
    uint32_t     bucket_next;
    uint32_t     children;              /* how many */
    uint32_t     children_xor;          /* of their chunk numbers */
    uint32_t     ends;                  /* bookings that end here */
    uint32_t     uneven;                /* cells whose weight is not 1 */
    uint32_t     n_cells;
    uint32_t     cells;                 /* chain of more cells; all of its
                                           chunks but the first are full */
    uint16_t     slots[SEL_CELLS_AN_EDGE];
    uint16_t     mixed;                 /* cells are not in the order of their
                                           slots */
    uint32_t     counts[SEL_CELLS_AN_EDGE];
    double       weights[SEL_CELLS_AN_EDGE];
} sel_edge_chunk_t;

_Static_assert(sizeof(sel_edge_chunk_t) == SEL_CHUNK_SIZE, "edge");


/* CELLS: head.count of them.  Slots stand together and first, since most
   searches are for a slot. */
typedef struct {
    sel_chunk_t  head;
    uint16_t     slots[SEL_CELLS_A_CHUNK];
    uint16_t     zero;
    uint32_t     counts[SEL_CELLS_A_CHUNK];
    double       weights[SEL_CELLS_A_CHUNK];
} sel_cells_chunk_t;

_Static_assert(sizeof(sel_cells_chunk_t) <= SEL_CHUNK_SIZE, "cells");


/* One cell. */
typedef struct {
    uint16_t  *slot;
    uint32_t  *count;
    double    *weight;
} sel_cell_t;


/* Path keys, in memory or (keys NULL) in a chain. */
typedef struct {
    const uint64_t  *keys;
    uint32_t         chunk;
    uint32_t         base;              /* position of its first key */
} sel_path_t;


/* Where a path leaves the tree. */
typedef struct {
    uint32_t  edge;                     /* the last it shares keys with */
    uint32_t  matched;                  /* how many of that edge */
    uint32_t  pos;                      /* how many in all */
} sel_place_t;


static inline sel_edge_chunk_t *
sel_zone_edge(const sel_zone_t *zone, uint32_t number)
{
    return (sel_edge_chunk_t *) sel_zone_chunk(zone, number);
}


static inline sel_keys_chunk_t *
sel_zone_keys(const sel_zone_t *zone, uint32_t number)
{
    return (sel_keys_chunk_t *) sel_zone_chunk(zone, number);
}


static inline uint32_t *
sel_zone_edge_bucket(const sel_zone_t *zone, uint64_t key)
{
    return &zone->edge_buckets[key & (zone->n_book_buckets - 1)];
}


/* Chunks for n keys. */
static inline uint32_t
sel_keys_need(uint32_t n)
{
    return (uint32_t) ((n + SEL_KEYS_A_CHUNK - 1) / SEL_KEYS_A_CHUNK);
}


/* The key at a position; cheap when positions go up. */
static inline uint64_t
sel_path_key(const sel_zone_t *zone, sel_path_t *path, uint32_t pos)
{
    if (path->keys != NULL) {
        return path->keys[pos];
    }

    while (pos - path->base >= SEL_KEYS_A_CHUNK) {
        path->chunk = sel_zone_chunk(zone, path->chunk)->next;
        path->base += SEL_KEYS_A_CHUNK;
    }

    return sel_zone_keys(zone, path->chunk)->keys[pos - path->base];
}


/* sel_keys.c: chains of keys */

/* Fills a fresh chain with n keys from a position of a path on; *last
   is its last chunk.  The chunks must be there. */
uint32_t sel_keys_write(sel_zone_t *zone, sel_path_t path, uint32_t pos,
    uint32_t n, uint32_t *last);

/* How many of an edge's keys a path of n keys has from pos on, given that it
   has the first and not all. */
uint32_t sel_keys_common(const sel_zone_t *zone, const sel_edge_chunk_t *edge,
    sel_path_t path, uint32_t pos, uint32_t n);

/* Moves the first `at` keys of an edge to another one, which has none. */
void sel_keys_divide(sel_zone_t *zone, sel_edge_chunk_t *head,
    sel_edge_chunk_t *tail, uint32_t at);

/* Puts the keys of one edge before those of another. */
void sel_keys_unite(sel_zone_t *zone, sel_edge_chunk_t *head,
    sel_edge_chunk_t *tail);


/* sel_cells.c: the ranks of an edge */

bool sel_cell_find(const sel_zone_t *zone, sel_edge_chunk_t *edge,
    uint16_t slot, sel_cell_t *cell);

/* Adds a cell of count 1 and weight 1; the slot must have none. */
void sel_cell_add(sel_zone_t *zone, sel_edge_chunk_t *edge, uint16_t slot);

void sel_cell_remove(sel_zone_t *zone, sel_edge_chunk_t *edge,
    const sel_cell_t *cell);

/* Gives all blocks of an edge a weight on a rank; true when it was not 1 and
   is now. */
bool sel_cell_weigh(sel_zone_t *zone, sel_edge_chunk_t *edge,
    const sel_cell_t *cell, double weight);

/* Copies all cells to an edge that has none. */
void sel_cells_copy(sel_zone_t *zone, const sel_edge_chunk_t *from,
    sel_edge_chunk_t *to);

/* Stores a depth for each slot of an edge. */
void sel_cells_note(const sel_zone_t *zone, const sel_edge_chunk_t *edge,
    uint32_t depth, uint32_t *depths);

/* Chunks that one more cell takes, and that a copy of all cells takes. */
static inline uint32_t
sel_cell_need(const sel_edge_chunk_t *edge)
{
    return edge->n_cells >= SEL_CELLS_AN_EDGE
           && (edge->n_cells - SEL_CELLS_AN_EDGE) % SEL_CELLS_A_CHUNK == 0;
}


static inline uint32_t
sel_cells_need(const sel_edge_chunk_t *edge)
{
    if (edge->n_cells <= SEL_CELLS_AN_EDGE) {
        return 0;
    }

    return (edge->n_cells - SEL_CELLS_AN_EDGE + SEL_CELLS_A_CHUNK - 1)
           / SEL_CELLS_A_CHUNK;
}


/* sel_edge.c: edges in their table, and how they are cut and joined */

/* The edge that goes on from a parent (or NONE) with a key; NULL: none. */
sel_edge_chunk_t *sel_edge_find(const sel_zone_t *zone, uint32_t parent,
    uint64_t key);

/* Cuts off the first `at` keys, 0 < at < length: they become an edge above,
   with copies of all cells; returns it. */
sel_edge_chunk_t *sel_edge_split(sel_zone_t *zone, sel_edge_chunk_t *edge,
    uint32_t at);

/* Chunks that a split takes. */
static inline uint32_t
sel_edge_split_need(const sel_edge_chunk_t *edge, uint32_t at)
{
    return 1 + sel_keys_need(at) + sel_keys_need(edge->length - at)
           - sel_keys_need(edge->length) + sel_cells_need(edge);
}


/* Makes an edge without cells of a path's keys from pos on, n in all, below a
   parent (NULL: none). */
sel_edge_chunk_t *sel_edge_append(sel_zone_t *zone, sel_edge_chunk_t *parent,
    sel_path_t path, uint32_t pos, uint32_t n);

/* Takes out an edge without cells, children and ends. */
void sel_edge_end(sel_zone_t *zone, sel_edge_chunk_t *edge);

/* Makes one of an edge and its only child, if no booking ends between them
   and all their blocks weigh 1; the child's number stays. */
void sel_edge_merge(sel_zone_t *zone, sel_edge_chunk_t *edge);


/* sel_tree.c: paths in the tree */

/* Follows n keys; notes depths of all slots on the way, unless NULL. */
sel_place_t sel_tree_walk(const sel_zone_t *zone, sel_path_t path, uint32_t n,
    uint32_t *depths);

/* How much of the path up to a place is live on a rank. */
uint32_t sel_tree_depth(const sel_zone_t *zone, const sel_place_t *place,
    uint16_t slot);

/* Chunks that _insert() takes; *uneven tells whether the path has
   blocks on the rank whose weight is not 1. */
uint64_t sel_tree_need(const sel_zone_t *zone, const sel_place_t *place,
    uint32_t n, uint16_t slot, uint32_t depth, bool *uneven);

/* Adds a booking's path; its last edge, NONE when n is 0.  The slot's sum is
   changed along. */
uint32_t sel_tree_insert(sel_zone_t *zone, const sel_place_t *place,
    sel_path_t path, uint32_t n, uint16_t slot, uint32_t depth);

/* Takes a booking's path out again. */
void sel_tree_remove(sel_zone_t *zone, uint32_t leaf, uint16_t slot);

/* Gives a weight to the blocks from the leaf up that one booking of the rank
   has alone. */
void sel_tree_decay(sel_zone_t *zone, uint32_t leaf, uint16_t slot,
    double weight);


#endif /* SEL_TREE_IMPL_H */
