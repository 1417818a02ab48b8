/*
 * Inside the block index.  How the parts fit together: docs/index.md.
 *
 * An owner is what callers know: the number of a (partition, worker, rank).
 * A holder is what the sets of nodes know.  A live owner has one holder.
 * When an owner is cleared or retired its holder becomes a ghost: out of
 * every answer at once, and swept later.  A cleared owner goes on with
 * another, empty holder.
 */

#ifndef SEL_INDEX_IMPL_H
#define SEL_INDEX_IMPL_H

#include "index/sel_index.h"
#include "index/sel_mix.h"
#include "index/sel_node.h"
#include "index/sel_owner_set.h"
#include "index/sel_table.h"


#define SEL_INDEX_BATCH      32         /* blocks prefetched together */
#define SEL_INDEX_LEAST      16         /* owners and holders allocated */
#define SEL_INDEX_NO_HOLDER  UINT32_MAX
#define SEL_INDEX_ROOTS      0xa0761d6478bd642f     /* tells partitions from
                                                       other inputs to mix */


typedef enum {
    SEL_OWNER_FREE = 0,
    SEL_OWNER_LIVE,
    SEL_OWNER_RETIRED
} sel_owner_state_t;


typedef struct {
    uint64_t           worker_id;
    uint32_t           partition;
    uint32_t           dp_rank;
    sel_owner_state_t  state;
    uint16_t           holder;
    uint16_t           next;    /* in its bucket: number + 1, 0: last */
} sel_owner_t;


typedef struct {
    sel_table_t        externals;   /* external hash -> node */
    uint64_t           root;        /* of the partition's paths */
    uint32_t           blocks;      /* nodes that a live one is in */
    uint32_t           swept;       /* slots that are done, of a ghost */
    uint32_t           next;        /* younger ghost or NO_HOLDER */
    uint16_t           owner;       /* NO_OWNER: ghost of a cleared one */
} sel_holder_t;


struct sel_index_s {
    sel_memory_t       memory;
    sel_mix_t          mix;

    sel_table_t        paths;       /* path hash -> node, set of holders */
    sel_table_t        extras;      /* (holder, node) -> external hashes
                                       beyond the first */
    sel_pool_t         nodes;
    sel_owner_sets_t   sets;

    sel_owner_t       *owners;
    uint16_t          *buckets;     /* of live owners: number + 1 */
    uint32_t           owners_n;    /* allocated, a power of two */
    uint32_t           buckets_n;   /* the same, or less */
    uint32_t           owner_limit;
    uint32_t           live_n;
    uint32_t           retired_n;

    sel_holder_t      *holders;
    uint32_t           holders_n;   /* allocated, a power of two */
    uint32_t           ghosts_n;
    uint32_t           oldest;      /* the ghost to sweep first */
    uint32_t           youngest;

    uint64_t           blocks;      /* of all live holders */

    uint64_t           owners_used[SEL_SET_WORDS];
    uint64_t           holders_used[SEL_SET_WORDS];
    uint64_t           holders_live[SEL_SET_WORDS];
};


/* The lowest number whose bit is 0, n if there is none below n. */
uint32_t sel_index_lowest(const uint64_t *used, uint32_t n);

/* Makes room for one more live owner's holder. */
bool sel_index_holder_reserve(sel_index_t *index);

/* A live, empty holder for an owner; NO_HOLDER if that is impossible. */
uint32_t sel_index_holder_take(sel_index_t *index, uint16_t owner,
    uint64_t root);

/* Makes a live holder a ghost. */
void sel_index_haunt(sel_index_t *index, uint32_t holder);

/*
 * Turns the holder of a live owner into a ghost and gives the owner an empty
 * one.  Needs no memory, so it works when nothing else does.
 */
bool sel_index_clear(sel_index_t *index, uint16_t owner);

/* Gives the number of the oldest ghost back, which is swept. */
void sel_index_bury(sel_index_t *index);

/* Gives a retired owner's number back. */
void sel_index_owner_free(sel_index_t *index, uint16_t owner);

/* Sweeps at most *budget slots of the oldest ghost; true: it is gone. */
bool sel_index_sweep_ghost(sel_index_t *index, uint32_t *budget);

/*
 * Ends one external hash of a holder at a node, and with the last one its
 * membership; the caller deletes the hash.  False when memory is exhausted;
 * nothing is changed then.  dead: the holder is a ghost.
 */
bool sel_index_leave(sel_index_t *index, uint32_t holder, uint32_t node,
    bool dead);

/*
 * Gives memory back that is not needed any more, with at most budget slots of
 * work; true when nothing is left to do.
 */
bool sel_index_settle(sel_index_t *index, uint32_t budget);
void sel_index_settle_owners(sel_index_t *index);
void sel_index_settle_holders(sel_index_t *index);


static inline uint64_t
sel_index_root(const sel_index_t *index, uint32_t partition)
{
    return sel_mix(&index->mix, partition ^ SEL_INDEX_ROOTS);
}


/*
 * Have memory brought near that sel_index_leave() needs: first the node, then
 * its path's slot.  No node for 0, nor for numbers out of date.
 */
__attribute__((always_inline))
static inline void
sel_index_prefetch_node(const sel_index_t *index, uint32_t node)
{
    if (node <= index->nodes.top) {
        __builtin_prefetch(sel_node_at(&index->nodes, node));
    }
}


__attribute__((always_inline))
static inline void
sel_index_prefetch_path(const sel_index_t *index, uint32_t node)
{
    if (node != 0 && node <= index->nodes.top) {
        sel_table_prefetch(&index->paths, sel_node_path(&index->nodes, node),
                           SEL_TABLE_WIDE, 2);
    }
}


static inline uint64_t
sel_index_extra_key(const sel_index_t *index, uint32_t holder, uint32_t node)
{
    return sel_mix(&index->mix, (uint64_t) holder << 32 | node);
}


#endif /* SEL_INDEX_IMPL_H */
