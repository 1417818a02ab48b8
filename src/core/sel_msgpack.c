/*
 * The first byte of a value tells its type and either its value or how many
 * bytes of value or length follow; all of them are big endian.  Containers
 * are checked against the bytes that are left when their header is read, so
 * no count from the wire can make anybody loop or allocate beyond the input.
 */

#include "core/sel_msgpack.h"


static bool sel_msgpack_tail(sel_msgpack_t *mp, uint8_t lead,
    sel_msgpack_token_t *token);
static bool sel_msgpack_float(sel_msgpack_t *mp, unsigned size,
    sel_msgpack_token_t *token);
static bool sel_msgpack_signed(sel_msgpack_t *mp, unsigned size,
    sel_msgpack_token_t *token);
static bool sel_msgpack_bytes(sel_msgpack_t *mp, sel_msgpack_type_t type,
    unsigned size, sel_msgpack_token_t *token);
static bool sel_msgpack_payload(sel_msgpack_t *mp, sel_msgpack_type_t type,
    uint64_t len, sel_msgpack_token_t *token);
static bool sel_msgpack_container(sel_msgpack_t *mp, sel_msgpack_type_t type,
    uint64_t n, sel_msgpack_token_t *token);
static bool sel_msgpack_number(sel_msgpack_t *mp, unsigned size,
    uint64_t *value);


bool
sel_msgpack_next(sel_msgpack_t *mp, sel_msgpack_token_t *token)
{
    uint8_t  lead;

    if (mp->pos == mp->end) {
        return false;
    }

    lead = *mp->pos++;

    if (lead <= 0x7f) {
        token->type = SEL_MSGPACK_UINT;
        token->u = lead;
        return true;
    }

    if (lead >= 0xe0) {
        token->type = SEL_MSGPACK_INT;
        token->i = (int8_t) lead;
        return true;
    }

    if (lead <= 0x8f) {
        return sel_msgpack_container(mp, SEL_MSGPACK_MAP, lead & 0x0f, token);
    }

    if (lead <= 0x9f) {
        return sel_msgpack_container(mp, SEL_MSGPACK_ARRAY, lead & 0x0f,
                                     token);
    }

    if (lead <= 0xbf) {
        return sel_msgpack_payload(mp, SEL_MSGPACK_STR, lead & 0x1f, token);
    }

    return sel_msgpack_tail(mp, lead, token);
}


bool
sel_msgpack_skip(sel_msgpack_t *mp)
{
    unsigned             depth;
    uint64_t             left[SEL_MSGPACK_MAX_DEPTH + 1];
    sel_msgpack_token_t  token;

    depth = 0;
    left[0] = 1;

    for ( ;; ) {

        while (left[depth] == 0) {
            if (depth == 0) {
                return true;
            }

            depth--;
        }

        left[depth]--;

        if (!sel_msgpack_next(mp, &token)) {
            return false;
        }

        if (token.type == SEL_MSGPACK_ARRAY || token.type == SEL_MSGPACK_MAP) {
            if (depth == SEL_MSGPACK_MAX_DEPTH) {
                return false;
            }

            left[++depth] = token.type == SEL_MSGPACK_MAP
                            ? (uint64_t) token.n * 2 : token.n;
        }
    }
}


/* Token ids are the bulk of all events: their usual forms first. */

bool
sel_msgpack_u32_array(sel_msgpack_t *mp, uint32_t n, uint32_t *out)
{
    uint32_t              i, wide;
    const uint8_t        *p;
    sel_msgpack_token_t   token;

    for (i = 0; i < n; i++) {
        p = mp->pos;

        /* two or four bytes: no branch, it could not be predicted */

        if (mp->end - p >= 5 && (*p == 0xcd || *p == 0xce)) {
            wide = *p - 0xcdu;
            out[i] = ((uint32_t) p[1] << 24 | (uint32_t) p[2] << 16
                      | (uint32_t) p[3] << 8 | p[4])
                     >> (16 - 16 * wide);
            mp->pos += 3 + 2 * wide;
            continue;
        }

        if (!sel_msgpack_next(mp, &token) || token.type != SEL_MSGPACK_UINT
            || token.u > UINT32_MAX)
        {
            return false;
        }

        out[i] = (uint32_t) token.u;
    }

    return true;
}


/* The types 0xc0 .. 0xdf; a byte's place in its group gives a size. */

static bool
sel_msgpack_tail(sel_msgpack_t *mp, uint8_t lead, sel_msgpack_token_t *token)
{
    uint64_t            n;
    sel_msgpack_type_t  type;

    if (lead <= 0xc3) {
        token->type = lead == 0xc0 ? SEL_MSGPACK_NIL : SEL_MSGPACK_BOOL;
        token->u = lead & 1;
        return lead != 0xc1;
    }

    if (lead <= 0xc6) {
        return sel_msgpack_bytes(mp, SEL_MSGPACK_BIN, 1 << (lead - 0xc4),
                                 token);
    }

    if (lead <= 0xc9) {
        return sel_msgpack_bytes(mp, SEL_MSGPACK_EXT, 1 << (lead - 0xc7),
                                 token);
    }

    if (lead <= 0xcb) {
        return sel_msgpack_float(mp, 4 << (lead - 0xca), token);
    }

    if (lead <= 0xcf) {
        token->type = SEL_MSGPACK_UINT;
        return sel_msgpack_number(mp, 1 << (lead - 0xcc), &token->u);
    }

    if (lead <= 0xd3) {
        return sel_msgpack_signed(mp, 1 << (lead - 0xd0), token);
    }

    if (lead <= 0xd8) {
        return sel_msgpack_payload(mp, SEL_MSGPACK_EXT, 1 << (lead - 0xd4),
                                   token);
    }

    if (lead <= 0xdb) {
        return sel_msgpack_bytes(mp, SEL_MSGPACK_STR, 1 << (lead - 0xd9),
                                 token);
    }

    type = lead <= 0xdd ? SEL_MSGPACK_ARRAY : SEL_MSGPACK_MAP;

    return sel_msgpack_number(mp, 2 << (lead & 1), &n)
           && sel_msgpack_container(mp, type, n, token);
}


static bool
sel_msgpack_float(sel_msgpack_t *mp, unsigned size,
    sel_msgpack_token_t *token)
{
    float     narrow;
    uint32_t  bits;
    uint64_t  value;

    if (!sel_msgpack_number(mp, size, &value)) {
        return false;
    }

    token->type = SEL_MSGPACK_FLOAT;

    if (size == sizeof(float)) {
        bits = (uint32_t) value;
        memcpy(&narrow, &bits, sizeof(float));
        token->f = narrow;

    } else {
        memcpy(&token->f, &value, sizeof(double));
    }

    return true;
}


static bool
sel_msgpack_signed(sel_msgpack_t *mp, unsigned size,
    sel_msgpack_token_t *token)
{
    uint64_t  value, sign;

    if (!sel_msgpack_number(mp, size, &value)) {
        return false;
    }

    sign = UINT64_C(1) << (8 * size - 1);

    if (value & sign) {
        token->type = SEL_MSGPACK_INT;
        token->i = (int64_t) ((value ^ sign) - sign);

    } else {
        token->type = SEL_MSGPACK_UINT;
        token->u = value;
    }

    return true;
}


/* Text, bytes or an extension behind a length of size bytes. */

static bool
sel_msgpack_bytes(sel_msgpack_t *mp, sel_msgpack_type_t type, unsigned size,
    sel_msgpack_token_t *token)
{
    uint64_t  len;

    return sel_msgpack_number(mp, size, &len)
           && sel_msgpack_payload(mp, type, len, token);
}


static bool
sel_msgpack_payload(sel_msgpack_t *mp, sel_msgpack_type_t type, uint64_t len,
    sel_msgpack_token_t *token)
{
    if (type == SEL_MSGPACK_EXT) {
        if (mp->pos == mp->end) {
            return false;
        }

        token->ext = (int8_t) *mp->pos++;
    }

    if (len > (uint64_t) (mp->end - mp->pos)) {
        return false;
    }

    token->type = type;
    token->str.len = (size_t) len;
    token->str.data = mp->pos;

    mp->pos += len;

    return true;
}


static bool
sel_msgpack_container(sel_msgpack_t *mp, sel_msgpack_type_t type, uint64_t n,
    sel_msgpack_token_t *token)
{
    uint64_t  values;

    values = type == SEL_MSGPACK_MAP ? 2 * n : n;

    if (values > (uint64_t) (mp->end - mp->pos)) {
        return false;
    }

    token->type = type;
    token->n = (uint32_t) n;

    return true;
}


static bool
sel_msgpack_number(sel_msgpack_t *mp, unsigned size, uint64_t *value)
{
    unsigned  i;

    if (size > (size_t) (mp->end - mp->pos)) {
        return false;
    }

    *value = 0;

    for (i = 0; i < size; i++) {
        *value = *value << 8 | *mp->pos++;
    }

    return true;
}
