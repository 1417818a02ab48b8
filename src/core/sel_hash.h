/*
 * Block and sequence hashes.  Formulas: docs/hashing.md.
 */

#ifndef SEL_HASH_H
#define SEL_HASH_H

#include "core/sel_base.h"


#define SEL_HASH_SEED  1337


/* Multimodal hashes of one block, in any order; n 0: none. */
typedef struct {
    uint32_t         n;
    const uint64_t  *hashes;
} sel_mm_block_t;


/*
 * The seed of block hashes.  An empty string counts as absence.
 */
uint64_t sel_hash_block_seed(sel_str_t lora_name, sel_str_t cache_namespace);

/*
 * How many complete blocks n tokens make: n / block_size, with eagle
 * (n - 1) / block_size; 0 for block_size 0.
 */
uint32_t sel_hash_block_count(uint32_t n, uint32_t block_size, bool eagle);

/*
 * Hashes the complete blocks of n tokens into out, which has room for
 * sel_hash_block_count() of them; returns that count.  mm may be NULL, else
 * it has one entry for each of the first mm_n blocks; more are ignored.
 * Never allocates; a block with more than SEL_HASH_MAX_MM multimodal hashes
 * uses only the first SEL_HASH_MAX_MM of them.
 */
#define SEL_HASH_MAX_MM  256

uint32_t sel_hash_blocks(const uint32_t *tokens, uint32_t n,
    uint32_t block_size, bool eagle, uint64_t seed, const sel_mm_block_t *mm,
    uint32_t mm_n, uint64_t *out);

/* The next sequence hash of a chain: XXH3 of (previous, block). */
uint64_t sel_hash_chain_next(uint64_t previous, uint64_t block, uint64_t seed);

/* The whole chain: out[0] = blocks[0]; out may not overlap blocks. */
void sel_hash_chain(const uint64_t *blocks, uint32_t n, uint64_t seed,
    uint64_t *out);

/*
 * The 64-bit multimodal hash of a textual identifier: 64 hexadecimal digits
 * give the first 16 as a number, other text its XXH3.  False for an empty
 * text, which has none.
 */
bool sel_hash_mm_text(sel_str_t text, uint64_t *hash);

/* xxh3 of bytes, for tables and names. */
uint64_t sel_hash_bytes(const void *data, size_t len, uint64_t seed);


#endif /* SEL_HASH_H */
