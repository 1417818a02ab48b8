/*
 * Inside the block index.  How the parts fit together: docs/index.md.
 *
 * An owner is what callers know: the number of a (partition, worker, rank).
 * A holder is what the sets of nodes know.  A live owner has one for each
 * tier in which it has blocks.  When an owner is cleared or retired its
 * holders become ghosts: out of every answer at once, and swept later.
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
#define SEL_INDEX_NO_WALKER  UINT32_MAX
#define SEL_INDEX_NAMED      0x80000000     /* bit of a value that is a name's
                                               number, not a node's */
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
    uint32_t           life;    /* serial number, never used twice */
    uint32_t           holder[SEL_TIERS];   /* or NO_HOLDER */
    sel_owner_state_t  state;
    uint16_t           next;    /* in its bucket, or of `empty`:
                                   number + 1, 0: last */
} sel_owner_t;


typedef struct {
    sel_table_t        externals;   /* external hash -> node or name */
    uint64_t           root;        /* of the partition's and tier's paths */
    uint32_t           blocks;      /* nodes that a live one is in */
    uint32_t           swept;       /* slots that are done, of a ghost */
    uint32_t           next;        /* younger ghost or NO_HOLDER */
    uint16_t           owner;       /* of a ghost: the retired one whose last
                                       ghost it is, or NO_OWNER */
    uint16_t           tier;
} sel_holder_t;


/* A block that is to be stored. */
typedef struct {
    uint64_t           parent;      /* path hash, or what stands for it */
    uint64_t           block;
    uint64_t           path;
    uint64_t           external;
    uint64_t           key;         /* external, mixed */
} sel_index_place_t;


/*
 * An external hash by which a holder knows a node of the device, where it is
 * not the node's or not the only one.  A holder's names of one node are a
 * ring in the order in which they came.
 */
typedef struct {
    uint64_t           external;
    uint32_t           node;
    uint32_t           next;
    uint32_t           prev;
} sel_name_t;


/* One rank on its way through the lower tiers: sel_index_follow.c. */
typedef struct {
    uint64_t           anchor;      /* external hash of its last block */
    uint32_t           pos;         /* blocks that it has */
    uint32_t           match;       /* its place in the result */
    uint32_t           next;        /* walker behind it, NO_WALKER: none */
    uint16_t           holder;      /* of the tier at hand */
} sel_walker_t;


/* Walkers at one place, which go on together. */
typedef struct {
    uint64_t           anchor;
    uint64_t           path;        /* of the block they ask for */
    uint32_t           node;        /* of their last block in this tier */
    uint32_t           set;         /* that all of them are in, 0: unknown */
    uint32_t           first;
    uint32_t           last;
    uint32_t           guess;       /* node that may be that of the block */
    uint32_t           ahead;       /* before this one */
} sel_walk_group_t;


struct sel_index_s {
    sel_memory_t       memory;
    sel_mix_t          mix;

    sel_table_t        paths;       /* path hash -> node, set of holders */
    sel_table_t        extras;      /* (holder, node) -> oldest name */
    sel_pool_t         nodes;
    sel_pool_t         names;
    sel_owner_sets_t   sets;

    sel_owner_t       *owners;
    uint16_t          *buckets;     /* of live owners: number + 1 */
    uint32_t           owners_n;    /* allocated, a power of two */
    uint32_t           buckets_n;   /* the same, or less */
    uint32_t           owner_limit;
    uint32_t           lives;       /* serial numbers given out */
    uint32_t           live_n;
    uint32_t           retired_n;
    uint16_t           empty;       /* retired owners without ghosts */

    sel_walker_t      *walkers;     /* memory of sel_index_match(), */
    sel_walk_group_t  *groups;      /* while there are lower tiers */
    uint32_t           walkers_n;   /* allocated, of each */

    sel_holder_t      *holders;
    uint32_t           holders_n;   /* allocated, a power of two */
    uint32_t           alive_n;     /* holders that are no ghosts */
    uint32_t           ghosts_n;
    uint32_t           oldest;      /* the ghost to sweep first */
    uint32_t           youngest;

    uint64_t           blocks[SEL_TIERS];   /* of all live holders */

    uint64_t           owners_used[SEL_SET_WORDS];
    uint64_t           holders_used[SEL_SET_WORDS];
    uint64_t           holders_live[SEL_SET_WORDS];
};


/* The lowest number whose bit is 0, n if there is none below n. */
uint32_t sel_index_lowest(const uint64_t *used, uint32_t n);

/*
 * A live, empty holder for an owner in a tier; NO_HOLDER when there is no
 * memory, or no number and the oldest ghost has more blocks than may be swept
 * at once.
 */
uint32_t sel_index_holder_take(sel_index_t *index, uint16_t owner,
    sel_tier_t tier);

/* Gives a live holder back, which is empty. */
void sel_index_holder_free(sel_index_t *index, uint32_t holder);

/*
 * Takes the holders from a live owner; those that are not empty become
 * ghosts.  Needs no memory.  The youngest ghost of them or NO_HOLDER.
 */
uint32_t sel_index_clear(sel_index_t *index, uint16_t owner);

/* Gives the number of the oldest ghost back, which is swept. */
void sel_index_bury(sel_index_t *index);

/* Gives the number of a retired owner back. */
void sel_index_owner_free(sel_index_t *index, uint16_t owner);

/* Sweeps at most *budget slots of the oldest ghost; true: it is gone. */
bool sel_index_sweep_ghost(sel_index_t *index, uint32_t *budget);

/*
 * Stores one block.  In a lower tier nothing moves: SEL_INDEX_CONFLICT leaves
 * everything as it was.  So does SEL_INDEX_FULL, except that a hash which was
 * to move may cost the owner all that it has.
 */
sel_index_result_t sel_index_store(sel_index_t *index, uint32_t holder,
    const sel_index_place_t *place);

/*
 * Ends one external hash of a holder, whose slot has this value, and with the
 * last one at a node its membership; the caller deletes the slot.  False when
 * memory is exhausted; nothing is changed then.  dead: the holder is a ghost,
 * and there is always memory.
 */
bool sel_index_leave(sel_index_t *index, uint32_t holder, uint32_t value,
    bool dead);

/* The same for the membership alone. */
bool sel_index_quit(sel_index_t *index, uint32_t holder, uint32_t node,
    bool dead);

/* Makes room for n more names of one holder and node, n <= 2. */
bool sel_index_name_reserve(sel_index_t *index, uint32_t n);

/* Gives a node a name after that; the value for the name's slot. */
uint32_t sel_index_name_add(sel_index_t *index, uint32_t holder,
    uint32_t node, uint64_t external);

/* Takes out the name of a slot's value. */
void sel_index_name_drop(sel_index_t *index, uint32_t holder,
    uint32_t value);

/* The oldest name that a holder has for a node, 0: none. */
uint32_t sel_index_name_of(const sel_index_t *index, uint32_t holder,
    uint32_t node);

/* Does any live owner have a block below the device? */
bool sel_index_has_lower(const sel_index_t *index);

/* Makes room for as many walkers as there may be; false: no memory. */
bool sel_index_follow_reserve(sel_index_t *index);

/*
 * Goes on where the device has ended: the first walkers_n walkers belong to
 * results, in the order of their positions.  Gives the new number of results.
 */
uint32_t sel_index_follow(sel_index_t *index, uint32_t partition,
    const uint64_t *blocks, uint32_t n, uint32_t walkers_n,
    sel_index_match_t *out, uint32_t out_n, uint32_t cap);

/*
 * Gives memory back that is not needed any more, with at most budget slots of
 * work; true when nothing is left to do.
 */
bool sel_index_settle(sel_index_t *index, uint32_t budget);
void sel_index_settle_owners(sel_index_t *index);
void sel_index_settle_holders(sel_index_t *index);
void sel_index_settle_walkers(sel_index_t *index);


static inline uint64_t
sel_index_root(const sel_index_t *index, uint32_t partition, sel_tier_t tier)
{
    return sel_mix(&index->mix, ((uint64_t) tier << 32 | partition)
                                ^ SEL_INDEX_ROOTS);
}


/* What stands for the path in front of a lower tier's block. */
static inline uint64_t
sel_index_behind(const sel_index_t *index, uint64_t root, uint64_t external)
{
    return sel_mix(&index->mix, root ^ external);
}


static inline sel_name_t *
sel_index_name(const sel_index_t *index, uint32_t number)
{
    return sel_pool_at(&index->names, number & ~SEL_INDEX_NAMED);
}


/* What the value of a slot of external hashes stands for. */
static inline uint32_t
sel_index_value_node(const sel_index_t *index, uint32_t value)
{
    return value & SEL_INDEX_NAMED ? sel_index_name(index, value)->node
                                   : value;
}


static inline uint64_t
sel_index_value_external(const sel_index_t *index, uint32_t value)
{
    return value & SEL_INDEX_NAMED ? sel_index_name(index, value)->external
                                   : sel_node_at(&index->nodes,
                                                 value)->external;
}


/* The slot of an external hash of a live holder; key is the hash mixed. */
static inline sel_slim_slot_t *
sel_index_known(const sel_index_t *index, const sel_table_t *externals,
    uint64_t external, uint64_t key)
{
    sel_slim_slot_t  *slot;

    slot = sel_table_find(externals, key, SEL_TABLE_SLIM);

    while (slot != NULL
           && sel_index_value_external(index, slot->value) != external)
    {
        slot = sel_table_next(slot);
    }

    return slot;
}


/*
 * Have memory brought near that sel_index_leave() needs: first the node, then
 * its path's slot.  No node for 0 and for names, nor for numbers out of date.
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
