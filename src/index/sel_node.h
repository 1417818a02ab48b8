/*
 * A node is one block of one path, whoever holds it: the hash of the path in
 * front of it and its own block hash.  The chain of the two is the hash of
 * the path that ends here, hence the node's key in the table of paths.  It
 * also has the external hash under which it was stored first.
 *
 * The parent is named by content, not by number, so it cannot dangle: it may
 * go and come back (a hole that is filled again) under another number, and
 * is found through the table whenever it is there.  It costs nothing either,
 * as it stands in the place of the node's own path hash.
 *
 * A path begins with a number that belongs to the partition and is secret
 * (sel_index_root()), so nobody can choose a block hash that equals the hash
 * of some path, and paths of two partitions do not meet.
 */

#ifndef SEL_NODE_H
#define SEL_NODE_H

#include "core/sel_hash.h"
#include "index/sel_pool.h"


typedef struct {
    uint64_t  parent;           /* path hash; of a first block: the root */
    uint64_t  block;
    uint64_t  external;
} sel_node_t;


static inline uint64_t
sel_node_chain(uint64_t parent, uint64_t block)
{
    return sel_hash_chain_next(parent, block, SEL_HASH_SEED);
}


static inline sel_node_t *
sel_node_at(const sel_pool_t *nodes, uint32_t number)
{
    return sel_pool_at(nodes, number);
}


/* The hash of the path that ends with the node. */
static inline uint64_t
sel_node_path(const sel_pool_t *nodes, uint32_t number)
{
    const sel_node_t  *node;

    node = sel_node_at(nodes, number);

    return sel_node_chain(node->parent, node->block);
}


#endif /* SEL_NODE_H */
