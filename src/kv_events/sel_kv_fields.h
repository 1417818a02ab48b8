/*
 * Readers of the values that events are made of.  All bounds come from the
 * cursor; lists go into the arena, strings stay views of the payload.
 *
 * Every reader consumes one value, or returns false; the cursor is then of
 * no use.  False with no_memory set means that the arena is exhausted, else
 * the value is of a wrong type.
 */

#ifndef SEL_KV_FIELDS_H
#define SEL_KV_FIELDS_H

#include "kv_events/sel_kv_decode.h"


/* the view of a literal, for tables */
#define SEL_KV_NAME(text)  { sizeof(text) - 1, (const uint8_t *) (text) }


typedef struct {
    sel_msgpack_t   mp;
    sel_arena_t    *arena;
    bool            no_memory;
    bool            has_block_size;
    sel_msgpack_t   extra_keys;     /* values that are read last, because */
    sel_msgpack_t   mm_infos;       /*   they need others; pos NULL: absent */
} sel_kv_reader_t;


/* Room for n items of size bytes, or NULL with no_memory set. */
void *sel_kv_reader_alloc(sel_kv_reader_t *r, uint32_t n, size_t size);

/* True for a string, also one sent as bytes, that is UTF-8. */
bool sel_kv_is_text(const sel_msgpack_token_t *token);

/* Text, or nil, which gives data NULL. */
bool sel_kv_read_text(sel_kv_reader_t *r, sel_str_t *text);

/* An unsigned integer, or nil, which clears *given and gives 0. */
bool sel_kv_read_u64(sel_kv_reader_t *r, bool *given, uint64_t *value);
bool sel_kv_read_u32(sel_kv_reader_t *r, bool *given, uint32_t *value);

/* A block hash: an integer of either sign, or bytes; or nil. */
bool sel_kv_read_hash(sel_kv_reader_t *r, bool *given, uint64_t *hash);

/* An array of block hashes; nil gives data NULL. */
bool sel_kv_read_hashes(sel_kv_reader_t *r, sel_u64_list_t *list);

/*
 * An array of token ids, or of overlapping pairs of them, which sets *eagle
 * and is made flat; nil gives data NULL.
 */
bool sel_kv_read_tokens(sel_kv_reader_t *r, sel_u32_list_t *list,
    bool *eagle);

/*
 * Reads a map's next key: its text, or an empty one when the key is no
 * string.
 */
bool sel_kv_read_key(sel_kv_reader_t *r, sel_str_t *key);


#endif /* SEL_KV_FIELDS_H */
