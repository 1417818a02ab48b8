/*
 * The block index of one process: which rank holds which block.
 *
 * Flat, not a tree.  A block is known by the rolling hash of the path that
 * leads to it (computable from a query alone, but secret: it starts with a
 * number of the index and partition), so one open-addressing table answers
 * all depths: a look-up is one probe a block.  Per rank a second table maps
 * the engine's external hashes to blocks; it serves removals and parents.
 * Ownership is exact per block.
 *
 * Ranks appear as owners: small numbers that the index gives out.  Every
 * change comes as one sel_index_change_t through sel_index_apply(), whatever
 * its source.  One thread; no locks, no I/O, no clock.
 *
 * Partitions share the tables: a partition's number begins its paths, so
 * equal prompts of two partitions never meet.
 */

#ifndef SEL_INDEX_H
#define SEL_INDEX_H

#include "core/sel_base.h"


#define SEL_INDEX_NO_OWNER  0xffff          /* owners are 0 .. 65534 */


typedef struct sel_index_s  sel_index_t;


typedef enum {
    SEL_TIER_DEVICE = 0,
    SEL_TIER_HOST_PINNED,
    SEL_TIER_DISK,
    SEL_TIER_EXTERNAL,
    SEL_TIERS
} sel_tier_t;


typedef enum {
    SEL_INDEX_STORED,
    SEL_INDEX_REMOVED,
    SEL_INDEX_CLEARED           /* everything of the owner, every tier */
} sel_index_kind_t;


typedef struct {
    sel_index_kind_t  kind;
    sel_tier_t        tier;
    uint16_t          owner;
    bool              has_parent;
    uint64_t          parent;       /* external hash; STORED */
    uint32_t          n;            /* blocks */
    const uint64_t   *external;     /* engine's hashes; STORED, REMOVED */
    const uint64_t   *block;        /* block hashes; STORED */
} sel_index_change_t;


typedef enum {
    SEL_INDEX_OK = 0,
    SEL_INDEX_UNKNOWN_PARENT,   /* STORED: nothing was stored */
    SEL_INDEX_UNKNOWN_BLOCK,    /* REMOVED: some hashes were unknown; the
                                   rest is removed */
    SEL_INDEX_FULL,             /* the limit or memory is reached; STORED:
                                   blocks before that point are stored;
                                   REMOVED (rare): the owner is cleared, for
                                   too little credit is better than wrong */
    SEL_INDEX_NO_SUCH_OWNER,    /* not in use, or retired */
    SEL_INDEX_CONFLICT          /* STORED in a lower tier: another external
                                   hash is in this place, or this one is in
                                   another; blocks before it are stored */
} sel_index_result_t;


typedef struct {
    uint64_t  blocks[SEL_TIERS];    /* (rank, block) memberships alive */
    uint64_t  nodes;            /* distinct blocks, with those that are only
                                   waiting for a sweep */
    uint64_t  owners;           /* in use, retired ones included */
    uint64_t  retired;          /* owners that still wait for their sweep */
    uint64_t  bytes;            /* memory in use */
} sel_index_stats_t;


/*
 * One rank's credit for a query: on the device the number of consecutive
 * blocks from the first, in each lower tier the number of blocks by which
 * that tier goes on.
 */
typedef struct {
    uint16_t  owner;
    uint32_t  hits[SEL_TIERS];
} sel_index_match_t;


/*
 * max_bytes bounds the memory (0: none); a sixteenth of it is kept back for
 * removals.  seed salts the tables against chosen hashes.  NULL when memory
 * is exhausted or max_bytes is below 100,000 or so.
 */
sel_index_t *sel_index_create(size_t max_bytes, uint64_t seed);
void sel_index_destroy(sel_index_t *index);

/*
 * Gives the owner of (partition, worker, dp_rank), a new one when there is
 * none alive.  SEL_INDEX_NO_OWNER when all are in use or memory is exhausted.
 */
uint16_t sel_index_owner(sel_index_t *index, uint32_t partition,
    uint64_t worker_id, uint32_t dp_rank);

/* The same without making one. */
uint16_t sel_index_find_owner(const sel_index_t *index, uint32_t partition,
    uint64_t worker_id, uint32_t dp_rank);

/* Who an owner is; false when it is not in use or retired. */
bool sel_index_owner_key(const sel_index_t *index, uint16_t owner,
    uint32_t *partition, uint64_t *worker_id, uint32_t *dp_rank);

/* A number that tells an owner from all that there were before, also from
   those of the same rank; 0 when it is not in use or retired. */
uint32_t sel_index_owner_life(const sel_index_t *index, uint16_t owner);

/* Blocks that an owner holds now in a tier. */
uint64_t sel_index_owner_blocks(const sel_index_t *index, uint16_t owner,
    sel_tier_t tier);

/*
 * Takes an owner out: it has no credit from now on, whatever the tables
 * still say.  Its blocks go in later sweeps, then the number is used again.
 */
void sel_index_retire(sel_index_t *index, uint16_t owner);

/* The same for every owner of a worker in a partition. */
void sel_index_retire_worker(sel_index_t *index, uint32_t partition,
    uint64_t worker_id);

/*
 * Sweeps at most budget memberships of retired and cleared owners, then moves
 * growing and shrinking tables on; true when nothing is left to do.
 */
bool sel_index_sweep(sel_index_t *index, uint32_t budget);

/*
 * Applies one change.  Storing what is stored changes nothing.  On the device
 * a stored external hash that the rank maps to another block moves, and
 * several external hashes of one rank on one block count: the rank holds the
 * block until the last is removed.  In a lower tier these are conflicts, and
 * the parent need not be known.  CLEARED needs no memory.
 */
sel_index_result_t sel_index_apply(sel_index_t *index,
    const sel_index_change_t *change);

/*
 * Looks a prompt up: the credit of every live owner that has any.  blocks are
 * n block hashes (not chained) in order.  Results go to out in no particular
 * order; returns their number, at most cap.  cap sel_index_owner_limit()
 * always suffices.  Lower tiers need a little memory; without it they count
 * nothing.
 */
uint32_t sel_index_match(sel_index_t *index, uint32_t partition,
    const uint64_t *blocks, uint32_t n, sel_index_match_t *out, uint32_t cap);

/* One above the largest owner number in use. */
uint32_t sel_index_owner_limit(const sel_index_t *index);

void sel_index_stats(const sel_index_t *index, sel_index_stats_t *stats);


#endif /* SEL_INDEX_H */
