/*
 * Inside what is believed for a while: the table of ends and the wheel.  How
 * they work together: sel_recent.c.
 */

#ifndef SEL_RECENT_IMPL_H
#define SEL_RECENT_IMPL_H

#include "index/sel_mix.h"
#include "index/sel_recent.h"
#include "index/sel_table.h"


#define SEL_RECENT_GRAIN  100000000ull  /* nanoseconds of a tick */
#define SEL_RECENT_TICKS  4096          /* of the wheel, a power of two */
#define SEL_RECENT_BATCH  64            /* removed, or looked ahead */
#define SEL_RECENT_CHUNK  62            /* blocks of a chunk */


/* A block in the wheel. */
typedef struct {
    uint64_t              external;
    uint32_t              life;
    uint16_t              owner;
} sel_recent_block_t;


typedef struct sel_recent_chunk_s  sel_recent_chunk_t;

struct sel_recent_chunk_s {
    sel_recent_chunk_t   *next;
    uint32_t              n;
    sel_recent_block_t    blocks[SEL_RECENT_CHUNK];
};


/* Who an owner's number is. */
typedef struct {
    uint32_t              of;           /* sel_index_owner_life(); 0: nobody
                                           yet */
    uint32_t              life;
} sel_recent_owner_t;


struct sel_recent_s {
    sel_index_t          *index;
    sel_memory_t          memory;
    sel_mix_t             mix;
    uint32_t              now;          /* the tick that it is */
    uint32_t              lives;        /* given out */
    uint32_t              n_owners;
    sel_recent_owner_t   *owners;
    sel_table_t           ends;         /* (owner, life, hash) -> tick */
    sel_recent_chunk_t   *wheel[SEL_RECENT_TICKS];
};


/* Who a number is now, with a life of its own; NULL: nobody. */
sel_recent_owner_t *sel_recent_owner(sel_recent_t *recent, uint16_t owner);

/*
 * A block into the table, if it is not there, and into the wheel; false when
 * memory is exhausted.
 */
bool sel_recent_put(sel_recent_t *recent, const sel_recent_block_t *block,
    uint32_t end);

/*
 * Removes blocks of one life of an owner from the index.  If the index has to
 * drop all that the owner has, nothing of this life is known any more.
 */
void sel_recent_remove(sel_recent_t *recent, const sel_recent_block_t *of,
    const uint64_t *external, uint32_t n);


static inline uint64_t
sel_recent_key(const sel_recent_t *recent, const sel_recent_block_t *block)
{
    return sel_mix(&recent->mix,
                   sel_mix(&recent->mix, (uint64_t) block->life << 16
                                         | block->owner)
                   ^ block->external);
}


#endif /* SEL_RECENT_IMPL_H */
