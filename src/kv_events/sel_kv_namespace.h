/*
 * The salt memory: which blocks of which rank were stored under a cache
 * namespace.
 *
 * Engines name the namespace on the first block of a chain only; the rest
 * inherits it from its parent.  What is remembered of a namespace is its
 * share of the block seed (0: none), which is all that it does.
 *
 * A block that came under two namespaces, or once with and once without, is
 * ambiguous: nothing can be inherited from it.
 *
 * The memory is bounded by SEL_KV_MAX_SALTED.  When it is full, further
 * salted blocks are refused and must not enter the index; nothing is
 * forgotten to make room, since a block whose namespace was forgotten could
 * later be taken for an unsalted one.
 */

#ifndef SEL_KV_NAMESPACE_H
#define SEL_KV_NAMESPACE_H

#include "index/sel_index.h"
#include "kv_events/sel_kv_ranks.h"


#define SEL_KV_MAX_SALTED  1572864      /* blocks a stream; 48 MiB */


typedef struct sel_kv_salt_s  sel_kv_salt_t;

typedef struct {
    sel_kv_salt_t   *slots;
    sel_kv_ranks_t  *ranks;
    uint64_t         seed;
    uint32_t         cap;           /* slots, a power of two, or 0 */
    uint32_t         used;          /* of them */
    uint32_t         alive;         /* of these, not cleared since */
} sel_kv_salts_t;


typedef enum {
    SEL_KV_SALT_UNKNOWN,            /* not salted, or never seen */
    SEL_KV_SALT_KNOWN,
    SEL_KV_SALT_AMBIGUOUS
} sel_kv_salt_state_t;


/* seed salts the table against chosen hashes; ranks must outlive it. */
void sel_kv_salts_init(sel_kv_salts_t *salts, sel_kv_ranks_t *ranks,
    uint64_t seed);
void sel_kv_salts_free(sel_kv_salts_t *salts);

/* What a block was stored under; *salt is set when KNOWN. */
sel_kv_salt_state_t sel_kv_salts_find(const sel_kv_salts_t *salts,
    const sel_kv_rank_t *rank, uint64_t hash, uint64_t *salt);

/*
 * Notes that the rank stores blocks in a tier (device or host) under a salt,
 * 0 for none.  False when there is no room; nothing was noted then.
 */
bool sel_kv_salts_store(sel_kv_salts_t *salts, sel_kv_rank_t *rank,
    sel_tier_t tier, const uint64_t *hashes, uint32_t n, uint64_t salt);

/* Blocks that are in no tier any more are forgotten, but not ambiguity. */
void sel_kv_salts_remove(sel_kv_salts_t *salts, sel_kv_rank_t *rank,
    sel_tier_t tier, const uint64_t *hashes, uint32_t n);

/* Forgets all of a rank. */
void sel_kv_salts_clear(sel_kv_salts_t *salts, sel_kv_rank_t *rank);

/* spreads a hash over 64 bits, differently for every seed */
static inline uint64_t
sel_kv_mix(uint64_t hash, uint64_t seed)
{
    hash = (hash ^ seed) * UINT64_C(0xff51afd7ed558ccd);
    hash = (hash ^ hash >> 32) * UINT64_C(0xc4ceb9fe1a85ec53);

    return hash ^ hash >> 32;
}


#endif /* SEL_KV_NAMESPACE_H */
