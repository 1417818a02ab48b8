/*
 * Hashes are XXH3 with 64-bit output and a seed.  On a little-endian machine
 * the token array already is the input of a block hash, so blocks are hashed
 * in place.  XXH3 derives a secret from the seed for every input above 240
 * bytes; with long blocks that is done once for all of them.
 */

#define XXH_INLINE_ALL      /* its state has no fixed layout in the library */

#include <xxhash.h>
#include "core/sel_hash.h"


_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tokens and hashes are hashed as they lie in memory");


#define SEL_HASH_SHORT     240      /* XXH3 uses the seed itself up to here */
#define SEL_HASH_MM_TEXT   64       /* hexadecimal digits of a digest */
#define SEL_HASH_MM_USED   16       /* of them */


static uint64_t sel_hash_mm_block(const uint32_t *tokens, size_t window,
    uint64_t seed, const sel_mm_block_t *mm);
static void sel_hash_sort(uint64_t *hashes, uint32_t n);
static int sel_hash_hex(uint8_t c);


uint64_t
sel_hash_block_seed(sel_str_t lora_name, sel_str_t cache_namespace)
{
    uint64_t  seed;

    seed = SEL_HASH_SEED;

    if (lora_name.len != 0) {
        seed += XXH3_64bits_withSeed(lora_name.data, lora_name.len, 0);
    }

    if (cache_namespace.len != 0) {
        seed += XXH3_64bits_withSeed(cache_namespace.data,
                                     cache_namespace.len, 1);
    }

    return seed;
}


uint32_t
sel_hash_block_count(uint32_t n, uint32_t block_size, bool eagle)
{
    if (block_size == 0 || n == 0) {
        return 0;
    }

    return (eagle ? n - 1 : n) / block_size;
}


uint32_t
sel_hash_blocks(const uint32_t *tokens, uint32_t n, uint32_t block_size,
    bool eagle, uint64_t seed, const sel_mm_block_t *mm, uint32_t mm_n,
    uint64_t *out)
{
    size_t          window, bytes;
    uint8_t         secret[XXH3_SECRET_DEFAULT_SIZE];
    uint32_t        i, count;
    const uint32_t  *p;

    count = sel_hash_block_count(n, block_size, eagle);
    window = (size_t) block_size + (eagle ? 1 : 0);
    bytes = window * sizeof(uint32_t);

    if (count != 0 && bytes > SEL_HASH_SHORT) {
        XXH3_generateSecret_fromSeed(secret, seed);
    }

    for (i = 0; i < count; i++) {
        p = tokens + (size_t) i * block_size;

        if (mm != NULL && i < mm_n && mm[i].n != 0) {
            out[i] = sel_hash_mm_block(p, window, seed, &mm[i]);

        } else if (bytes > SEL_HASH_SHORT) {
            out[i] = XXH3_64bits_withSecretandSeed(p, bytes, secret,
                                                   sizeof(secret), seed);

        } else {
            out[i] = XXH3_64bits_withSeed(p, bytes, seed);
        }
    }

    return count;
}


uint64_t
sel_hash_chain_next(uint64_t previous, uint64_t block, uint64_t seed)
{
    uint64_t  pair[2];

    pair[0] = previous;
    pair[1] = block;

    return XXH3_64bits_withSeed(pair, sizeof(pair), seed);
}


void
sel_hash_chain(const uint64_t *blocks, uint32_t n, uint64_t seed,
    uint64_t *out)
{
    uint32_t  i;

    if (n == 0) {
        return;
    }

    out[0] = blocks[0];

    for (i = 1; i < n; i++) {
        out[i] = sel_hash_chain_next(out[i - 1], blocks[i], seed);
    }
}


bool
sel_hash_mm_text(sel_str_t text, uint64_t *hash)
{
    int       digit;
    size_t    i;
    uint64_t  value;

    if (text.len == 0) {
        return false;
    }

    value = 0;

    for (i = 0; text.len == SEL_HASH_MM_TEXT && i < text.len; i++) {
        digit = sel_hash_hex(text.data[i]);
        if (digit == -1) {
            break;
        }

        if (i < SEL_HASH_MM_USED) {
            value = value << 4 | (uint64_t) digit;
        }
    }

    *hash = i == SEL_HASH_MM_TEXT ? value
                                  : XXH3_64bits_withSeed(text.data, text.len,
                                                         0);
    return true;
}


uint64_t
sel_hash_bytes(const void *data, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, len, seed);
}


static uint64_t
sel_hash_mm_block(const uint32_t *tokens, size_t window, uint64_t seed,
    const sel_mm_block_t *mm)
{
    uint32_t      n;
    uint64_t      sorted[SEL_HASH_MAX_MM];
    XXH3_state_t  state;

    n = mm->n < SEL_HASH_MAX_MM ? mm->n : SEL_HASH_MAX_MM;

    memcpy(sorted, mm->hashes, n * sizeof(uint64_t));
    sel_hash_sort(sorted, n);

    XXH3_INITSTATE(&state);         /* the reset looks at the former seed */

    (void) XXH3_64bits_reset_withSeed(&state, seed);
    (void) XXH3_64bits_update(&state, tokens, window * sizeof(uint32_t));
    (void) XXH3_64bits_update(&state, sorted, n * sizeof(uint64_t));

    return XXH3_64bits_digest(&state);
}


/* By insertion: a block rarely has more than two. */

static void
sel_hash_sort(uint64_t *hashes, uint32_t n)
{
    uint32_t  i, k;
    uint64_t  hash;

    for (i = 1; i < n; i++) {
        hash = hashes[i];

        for (k = i; k > 0 && hashes[k - 1] > hash; k--) {
            hashes[k] = hashes[k - 1];
        }

        hashes[k] = hash;
    }
}


static int
sel_hash_hex(uint8_t c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }

    c |= 0x20;

    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
