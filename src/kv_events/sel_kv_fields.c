/*
 * Readers of the values that events are made of.
 *
 * Block hashes come in three shapes that mean the same 64 bits: unsigned,
 * signed (a negative number is its two's complement) and the bytes of the
 * engine's digest, of which the last 8 count, big endian.
 */

#include "core/sel_json_text.h"
#include "kv_events/sel_kv_fields.h"


static bool sel_kv_hash_of(const sel_msgpack_token_t *token, uint64_t *hash);
static bool sel_kv_read_pairs(sel_kv_reader_t *r, uint32_t n,
    sel_u32_list_t *list);


void *
sel_kv_reader_alloc(sel_kv_reader_t *r, uint32_t n, size_t size)
{
    void  *p;

    p = sel_arena_alloc(r->arena, n * size);
    r->no_memory |= p == NULL;

    return p;
}


bool
sel_kv_is_text(const sel_msgpack_token_t *token)
{
    return (token->type == SEL_MSGPACK_STR || token->type == SEL_MSGPACK_BIN)
           && sel_utf8_valid(token->str);
}


bool
sel_kv_read_text(sel_kv_reader_t *r, sel_str_t *text)
{
    sel_msgpack_token_t  token;

    if (!sel_msgpack_next(&r->mp, &token)) {
        return false;
    }

    if (token.type == SEL_MSGPACK_NIL) {
        *text = (sel_str_t) { 0, NULL };
        return true;
    }

    *text = token.str;

    return sel_kv_is_text(&token);
}


bool
sel_kv_read_u64(sel_kv_reader_t *r, bool *given, uint64_t *value)
{
    sel_msgpack_token_t  token;

    if (!sel_msgpack_next(&r->mp, &token)) {
        return false;
    }

    *given = token.type == SEL_MSGPACK_UINT;
    *value = *given ? token.u : 0;

    return *given || token.type == SEL_MSGPACK_NIL;
}


bool
sel_kv_read_u32(sel_kv_reader_t *r, bool *given, uint32_t *value)
{
    uint64_t  wide;

    if (!sel_kv_read_u64(r, given, &wide) || wide > UINT32_MAX) {
        return false;
    }

    *value = (uint32_t) wide;

    return true;
}


bool
sel_kv_read_hash(sel_kv_reader_t *r, bool *given, uint64_t *hash)
{
    sel_msgpack_token_t  token;

    if (!sel_msgpack_next(&r->mp, &token)) {
        return false;
    }

    *given = token.type != SEL_MSGPACK_NIL;

    return !*given || sel_kv_hash_of(&token, hash);
}


static bool
sel_kv_hash_of(const sel_msgpack_token_t *token, uint64_t *hash)
{
    size_t    i;
    uint64_t  value;

    switch (token->type) {

    case SEL_MSGPACK_UINT:
        *hash = token->u;
        return true;

    case SEL_MSGPACK_INT:
        *hash = (uint64_t) token->i;
        return true;

    case SEL_MSGPACK_BIN:
        value = 0;

        for (i = token->str.len > 8 ? token->str.len - 8 : 0;
             i < token->str.len;
             i++)
        {
            value = value << 8 | token->str.data[i];
        }

        *hash = value;
        return token->str.len != 0;

    default:
        return false;
    }
}


bool
sel_kv_read_hashes(sel_kv_reader_t *r, sel_u64_list_t *list)
{
    uint32_t             i;
    sel_msgpack_token_t  token;

    *list = (sel_u64_list_t) { 0, NULL };

    if (!sel_msgpack_next(&r->mp, &token)) {
        return false;
    }

    if (token.type != SEL_MSGPACK_ARRAY) {
        return token.type == SEL_MSGPACK_NIL;
    }

    list->n = token.n;
    list->data = sel_kv_reader_alloc(r, list->n, sizeof(uint64_t));

    if (list->data == NULL) {
        return false;
    }

    for (i = 0; i < list->n; i++) {
        if (!sel_msgpack_next(&r->mp, &token)
            || !sel_kv_hash_of(&token, &list->data[i]))
        {
            return false;
        }
    }

    return true;
}


bool
sel_kv_read_tokens(sel_kv_reader_t *r, sel_u32_list_t *list, bool *eagle)
{
    sel_msgpack_t        first;
    sel_msgpack_token_t  token;

    *eagle = false;
    *list = (sel_u32_list_t) { 0, NULL };

    if (!sel_msgpack_next(&r->mp, &token)) {
        return false;
    }

    if (token.type != SEL_MSGPACK_ARRAY) {
        return token.type == SEL_MSGPACK_NIL;
    }

    list->n = token.n;
    first = r->mp;

    if (list->n != 0 && sel_msgpack_next(&first, &token)
        && token.type == SEL_MSGPACK_ARRAY)
    {
        *eagle = true;
        return sel_kv_read_pairs(r, list->n, list);
    }

    list->data = sel_kv_reader_alloc(r, list->n, sizeof(uint32_t));

    return list->data != NULL
           && sel_msgpack_u32_array(&r->mp, list->n, list->data);
}


/* (a0,a1), (a1,a2), ...: all first members, then the last second one */
static bool
sel_kv_read_pairs(sel_kv_reader_t *r, uint32_t n, sel_u32_list_t *list)
{
    uint32_t             i;
    sel_msgpack_token_t  token;

    list->n = n + 1;
    list->data = sel_kv_reader_alloc(r, list->n, sizeof(uint32_t));

    if (list->data == NULL) {
        return false;
    }

    /* the second member lies where the next pair puts its first one */

    for (i = 0; i < n; i++) {
        if (!sel_msgpack_next(&r->mp, &token)
            || token.type != SEL_MSGPACK_ARRAY || token.n != 2
            || !sel_msgpack_u32_array(&r->mp, 2, &list->data[i]))
        {
            return false;
        }
    }

    return true;
}


bool
sel_kv_read_key(sel_kv_reader_t *r, sel_str_t *key)
{
    sel_msgpack_t        start;
    sel_msgpack_token_t  token;

    start = r->mp;

    if (!sel_msgpack_next(&r->mp, &token)) {
        return false;
    }

    if (token.type == SEL_MSGPACK_STR || token.type == SEL_MSGPACK_BIN) {
        *key = token.str;
        return true;
    }

    *key = (sel_str_t) { 0, NULL };
    r->mp = start;

    return sel_msgpack_skip(&r->mp);
}
