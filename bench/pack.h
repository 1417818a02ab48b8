/*
 * KV events as vLLM publishes them (maps, hashes as numbers), as msgpack
 * bytes.  A batch is opened, its events are added, then it is closed.
 */

#ifndef BENCH_PACK_H
#define BENCH_PACK_H

#include <string.h>
#include "bench.h"


#define BENCH_EVENT   64                /* blocks of an event, */
#define BENCH_SIZE    16                /* tokens of a block, */
#define BENCH_DEPTH   512               /* blocks of a made-up prompt */


/* Grows as needed; zeroed at first. */
typedef struct {
    size_t    len;
    size_t    cap;
    uint8_t  *data;
} bench_pack_t;


/* A first byte, then a number of some bytes, big endian. */
static inline void
bench_pack(bench_pack_t *pack, uint8_t first, uint64_t value, unsigned bytes)
{
    if (pack->cap - pack->len < 9) {
        pack->cap = 2 * pack->cap + 4096;
        pack->data = realloc(pack->data, pack->cap);

        if (pack->data == NULL) {
            bench_fail("out of memory");
        }
    }

    pack->data[pack->len++] = first;

    while (bytes-- != 0) {
        pack->data[pack->len++] = (uint8_t) (value >> 8 * bytes);
    }
}


static inline void
bench_pack_text(bench_pack_t *pack, const char *text)
{
    bench_pack(pack, (uint8_t) (0xa0 | strlen(text)), 0, 0);

    while (*text != '\0') {
        bench_pack(pack, (uint8_t) *text++, 0, 0);
    }
}


static inline void
bench_pack_array(bench_pack_t *pack, uint32_t n)
{
    bench_pack(pack, n < 65536 ? 0xdc : 0xdd, n, n < 65536 ? 2 : 4);
}


static inline void
bench_pack_hashes(bench_pack_t *pack, const uint64_t *hashes, uint32_t n)
{
    uint32_t  i;

    bench_pack_text(pack, "block_hashes");
    bench_pack_array(pack, n);

    for (i = 0; i < n; i++) {
        bench_pack(pack, 0xcf, hashes[i], 8);
    }
}


static inline void
bench_pack_open(bench_pack_t *pack, uint32_t events)
{
    pack->len = 0;

    bench_pack(pack, 0x93, 0, 0);
    bench_pack(pack, 0xcb, 0x41d96ee000000000, 8);
    bench_pack_array(pack, events);
}


/* The rank. */
static inline void
bench_pack_close(bench_pack_t *pack)
{
    bench_pack(pack, 0xc0, 0, 0);
}


/* parent NULL: none; tokens are n times the block size, below 2^32 each */
static inline void
bench_pack_stored(bench_pack_t *pack, const uint64_t *hashes, uint32_t n,
    const uint64_t *parent, const uint32_t *tokens, uint32_t block_size)
{
    uint32_t  i;

    bench_pack(pack, 0x86, 0, 0);
    bench_pack_text(pack, "type");
    bench_pack_text(pack, "BlockStored");
    bench_pack_hashes(pack, hashes, n);
    bench_pack_text(pack, "parent_block_hash");

    if (parent == NULL) {
        bench_pack(pack, 0xc0, 0, 0);

    } else {
        bench_pack(pack, 0xcf, *parent, 8);
    }

    bench_pack_text(pack, "token_ids");
    bench_pack_array(pack, n * block_size);

    for (i = 0; i < n * block_size; i++) {
        bench_pack(pack, tokens[i] < 65536 ? 0xcd : 0xce, tokens[i],
                   tokens[i] < 65536 ? 2 : 4);
    }

    bench_pack_text(pack, "block_size");
    bench_pack(pack, (uint8_t) block_size, 0, 0);
    bench_pack_text(pack, "medium");
    bench_pack_text(pack, "GPU");
}


static inline void
bench_pack_removed(bench_pack_t *pack, const uint64_t *hashes, uint32_t n)
{
    bench_pack(pack, 0x83, 0, 0);
    bench_pack_text(pack, "type");
    bench_pack_text(pack, "BlockRemoved");
    bench_pack_hashes(pack, hashes, n);
    bench_pack_text(pack, "medium");
    bench_pack_text(pack, "GPU");
}


/*
 * Stores a number of made-up blocks from one on; with `gone` those that many
 * blocks before are removed.  Block n is known by n + 2^63, and a prompt's
 * blocks come one after another.
 */
static inline void
bench_pack_event(bench_pack_t *pack, uint64_t first, uint64_t gone)
{
    uint32_t  i, tokens[BENCH_EVENT * BENCH_SIZE];
    uint64_t  hashes[BENCH_EVENT], name, parent;

    name = first | (uint64_t) 1 << 63;
    parent = name - 1;

    for (i = 0; i < BENCH_EVENT; i++) {
        hashes[i] = name + i;
    }

    for (i = 0; i < BENCH_EVENT * BENCH_SIZE; i++) {
        tokens[i] = bench_token(first * BENCH_SIZE + i);
    }

    bench_pack_stored(pack, hashes, BENCH_EVENT,
                      first % BENCH_DEPTH == 0 ? NULL : &parent, tokens,
                      BENCH_SIZE);

    if (gone != 0) {
        for (i = 0; i < BENCH_EVENT; i++) {
            hashes[i] -= gone;
        }

        bench_pack_removed(pack, hashes, BENCH_EVENT);
    }
}


#endif /* BENCH_PACK_H */
