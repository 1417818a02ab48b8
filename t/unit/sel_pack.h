/*
 * A small msgpack encoder for tests, and the messages of KV events.  Writes
 * the smallest form of numbers, the 8-bit or 16-bit form of lengths.
 */

#ifndef SEL_PACK_H
#define SEL_PACK_H

#include <stdlib.h>
#include <string.h>

#include "core/sel_base.h"


typedef struct {
    size_t   len;
    uint8_t  data[16384];
} sel_pack_t;


static inline void
sel_pack_bytes(sel_pack_t *pack, const void *data, size_t len)
{
    if (len > sizeof(pack->data) - pack->len) {
        abort();
    }

    memcpy(&pack->data[pack->len], data, len);
    pack->len += len;
}


/* A first byte and the low n bytes of value, big endian. */
static inline void
sel_pack_head(sel_pack_t *pack, uint8_t first, uint64_t value, unsigned n)
{
    uint8_t  byte;

    sel_pack_bytes(pack, &first, 1);

    while (n-- != 0) {
        byte = (uint8_t) (value >> 8 * n);
        sel_pack_bytes(pack, &byte, 1);
    }
}


static inline void
sel_pack_nil(sel_pack_t *pack)
{
    sel_pack_head(pack, 0xc0, 0, 0);
}


static inline void
sel_pack_uint(sel_pack_t *pack, uint64_t value)
{
    if (value < 0x80) {
        sel_pack_head(pack, (uint8_t) value, 0, 0);

    } else if (value <= UINT8_MAX) {
        sel_pack_head(pack, 0xcc, value, 1);

    } else if (value <= UINT16_MAX) {
        sel_pack_head(pack, 0xcd, value, 2);

    } else if (value <= UINT32_MAX) {
        sel_pack_head(pack, 0xce, value, 4);

    } else {
        sel_pack_head(pack, 0xcf, value, 8);
    }
}


/* always the signed 64-bit form */
static inline void
sel_pack_int(sel_pack_t *pack, int64_t value)
{
    sel_pack_head(pack, 0xd3, (uint64_t) value, 8);
}


static inline void
sel_pack_f64(sel_pack_t *pack, double value)
{
    uint64_t  bits;

    memcpy(&bits, &value, sizeof(bits));
    sel_pack_head(pack, 0xcb, bits, 8);
}


static inline void
sel_pack_array(sel_pack_t *pack, uint32_t n)
{
    if (n < 16) {
        sel_pack_head(pack, (uint8_t) (0x90 | n), 0, 0);

    } else {
        sel_pack_head(pack, 0xdc, n, 2);
    }
}


static inline void
sel_pack_map(sel_pack_t *pack, uint32_t n)
{
    if (n < 16) {
        sel_pack_head(pack, (uint8_t) (0x80 | n), 0, 0);

    } else {
        sel_pack_head(pack, 0xde, n, 2);
    }
}


static inline void
sel_pack_text(sel_pack_t *pack, const char *text)
{
    size_t  len;

    len = strlen(text);

    if (len < 32) {
        sel_pack_head(pack, (uint8_t) (0xa0 | len), 0, 0);

    } else {
        sel_pack_head(pack, 0xda, len, 2);
    }

    sel_pack_bytes(pack, text, len);
}


static inline void
sel_pack_bin(sel_pack_t *pack, const void *data, size_t len)
{
    sel_pack_head(pack, 0xc4, len, 1);
    sel_pack_bytes(pack, data, len);
}


static inline void
sel_pack_list(sel_pack_t *pack, uint32_t n, const uint64_t *numbers)
{
    uint32_t  i;

    sel_pack_array(pack, n);

    for (i = 0; i < n; i++) {
        sel_pack_uint(pack, numbers[i]);
    }
}


/* n numbers that count up from first */
static inline void
sel_pack_range(sel_pack_t *pack, uint32_t n, uint64_t first)
{
    uint32_t  i;

    sel_pack_array(pack, n);

    for (i = 0; i < n; i++) {
        sel_pack_uint(pack, first + i);
    }
}


/* Starts a batch of n events; sel_pack_rank() or _no_rank() ends it. */
static inline void
sel_pack_batch(sel_pack_t *pack, uint32_t n)
{
    pack->len = 0;
    sel_pack_array(pack, 3);
    sel_pack_f64(pack, 1754.25);
    sel_pack_array(pack, n);
}


static inline void
sel_pack_no_rank(sel_pack_t *pack)
{
    sel_pack_nil(pack);
}


static inline void
sel_pack_rank(sel_pack_t *pack, uint32_t rank)
{
    sel_pack_uint(pack, rank);
}


/*
 * A BlockStored map of the blocks first, first + 1, ... with 4 tokens each,
 * which count up from tokens, and room for more members: the caller packs
 * more keys and values.  parent 0: none.
 */
static inline void
sel_pack_stored(sel_pack_t *pack, uint32_t n, uint64_t first, uint64_t parent,
    uint32_t tokens, uint32_t more)
{
    sel_pack_map(pack, 5 + more);
    sel_pack_text(pack, "type");
    sel_pack_text(pack, "BlockStored");
    sel_pack_text(pack, "block_hashes");
    sel_pack_range(pack, n, first);
    sel_pack_text(pack, "parent_block_hash");

    if (parent != 0) {
        sel_pack_uint(pack, parent);

    } else {
        sel_pack_nil(pack);
    }

    sel_pack_text(pack, "token_ids");
    sel_pack_range(pack, 4 * n, tokens);
    sel_pack_text(pack, "block_size");
    sel_pack_uint(pack, 4);
}


static inline void
sel_pack_removed(sel_pack_t *pack, uint32_t n, uint64_t first, uint32_t more)
{
    sel_pack_map(pack, 2 + more);
    sel_pack_text(pack, "type");
    sel_pack_text(pack, "BlockRemoved");
    sel_pack_text(pack, "block_hashes");
    sel_pack_range(pack, n, first);
}


static inline void
sel_pack_cleared(sel_pack_t *pack)
{
    sel_pack_map(pack, 1);
    sel_pack_text(pack, "type");
    sel_pack_text(pack, "AllBlocksCleared");
}


/* One more member of a text value. */
static inline void
sel_pack_member(sel_pack_t *pack, const char *key, const char *text)
{
    sel_pack_text(pack, key);
    sel_pack_text(pack, text);
}


static inline void
sel_pack_member_uint(sel_pack_t *pack, const char *key, uint64_t value)
{
    sel_pack_text(pack, key);
    sel_pack_uint(pack, value);
}


#endif /* SEL_PACK_H */
