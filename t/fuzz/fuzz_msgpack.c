/*
 * Any bytes as a msgpack value.  A plain recursive reading of the format
 * beside the cursor must agree with it on every token, on what is well
 * formed, and on where the value ends.
 */

#include <string.h>

#include "core/sel_msgpack.h"
#include "fuzz.h"


/* A model of one token; len is what it takes with its payload. */
typedef struct {
    sel_msgpack_type_t  type;
    size_t              len;
    uint64_t            n;          /* elements or pairs */
    uint64_t            bits;
    size_t              payload;    /* bytes */
    int8_t              ext;
} model_t;


static uint64_t
big_endian(const uint8_t *data, unsigned n)
{
    uint64_t  value;

    value = 0;

    while (n-- != 0) {
        value = value << 8 | *data++;
    }

    return value;
}


static void
model_int(model_t *model, int64_t value)
{
    model->type = value < 0 ? SEL_MSGPACK_INT : SEL_MSGPACK_UINT;
    model->bits = (uint64_t) value;
}


/* A first byte with a payload whose length is in the next n bytes. */
static bool
model_sized(model_t *model, const uint8_t *data, size_t size, unsigned n,
    sel_msgpack_type_t type)
{
    size_t  head;

    head = 1 + n + (type == SEL_MSGPACK_EXT);

    if (size < head) {
        return false;
    }

    model->type = type;
    model->payload = big_endian(data + 1, n);
    model->ext = (int8_t) data[head - 1];
    model->len = head + model->payload;

    return model->len <= size;
}


static bool
model_number(model_t *model, const uint8_t *data, size_t size)
{
    float     narrow;
    double    wide;
    uint8_t   first;
    uint32_t  bits;
    unsigned  n;

    static const uint8_t  widths[] = { 4, 8, 1, 2, 4, 8, 1, 2, 4, 8 };

    first = data[0];                            /* 0xca .. 0xd3 */
    n = widths[first - 0xca];

    if (size < 1 + n) {
        return false;
    }

    model->len = 1 + n;
    model->bits = big_endian(data + 1, n);

    if (first == 0xca) {
        bits = (uint32_t) model->bits;
        memcpy(&narrow, &bits, sizeof(narrow));
        wide = (double) narrow;
        memcpy(&model->bits, &wide, sizeof(wide));
    }

    if (first <= 0xcb) {
        model->type = SEL_MSGPACK_FLOAT;

    } else if (first <= 0xcf) {
        model->type = SEL_MSGPACK_UINT;

    } else {
        model_int(model, (int64_t) (model->bits << (64 - 8 * n))
                         >> (64 - 8 * n));
    }

    return true;
}


static bool
model_container(model_t *model, uint64_t n, bool map, size_t head,
    size_t size)
{
    if (size < head) {
        return false;
    }

    model->type = map ? SEL_MSGPACK_MAP : SEL_MSGPACK_ARRAY;
    model->n = n;
    model->len = head;

    return (map ? 2 * n : n) <= size - head;
}


/* The first bytes 0xc0 .. 0xdf; 0xd4 .. 0xd8 have a length of their own. */
static bool
model_tail(model_t *model, const uint8_t *data, size_t size)
{
    uint8_t   first;
    unsigned  n;

    first = data[0];

    if (first >= 0xca && first <= 0xd3) {
        return model_number(model, data, size);
    }

    if (first >= 0xc4 && first <= 0xc6) {
        return model_sized(model, data, size, 1u << (first - 0xc4),
                           SEL_MSGPACK_BIN);
    }

    if (first >= 0xc7 && first <= 0xc9) {
        return model_sized(model, data, size, 1u << (first - 0xc7),
                           SEL_MSGPACK_EXT);
    }

    if (first >= 0xd9 && first <= 0xdb) {
        return model_sized(model, data, size, 1u << (first - 0xd9),
                           SEL_MSGPACK_STR);
    }

    if (first >= 0xdc) {
        n = first & 1 ? 4 : 2;
        return size >= 1 + n
               && model_container(model, big_endian(data + 1, n),
                                  first >= 0xde, 1 + n, size);
    }

    if (first >= 0xd4) {
        model->type = SEL_MSGPACK_EXT;
        model->payload = (size_t) 1 << (first - 0xd4);
        model->len = 2 + model->payload;
        model->ext = size > 1 ? (int8_t) data[1] : 0;
        return model->len <= size;
    }

    model->type = first == 0xc0 ? SEL_MSGPACK_NIL : SEL_MSGPACK_BOOL;
    model->bits = first == 0xc3;

    return first != 0xc1;
}


/* One token of size bytes, or false. */
static bool
model_token(model_t *model, const uint8_t *data, size_t size)
{
    uint8_t  first;

    memset(model, 0, sizeof(*model));

    if (size == 0) {
        return false;
    }

    first = data[0];
    model->len = 1;

    if (first < 0x80 || first >= 0xe0) {
        model_int(model, (int8_t) first);
        return true;
    }

    if (first < 0xa0) {
        return model_container(model, first & 0x0f, first < 0x90, 1, size);
    }

    if (first < 0xc0) {
        model->type = SEL_MSGPACK_STR;
        model->payload = first & 0x1f;
        model->len = 1 + model->payload;
        return model->len <= size;
    }

    return model_tail(model, data, size);
}


static void
check_token(const model_t *model, const sel_msgpack_token_t *token)
{
    FUZZ_CHECK(token->type == model->type, "type %d, not %d", token->type,
               model->type);

    switch (token->type) {

    case SEL_MSGPACK_NIL:
        break;

    case SEL_MSGPACK_ARRAY:
    case SEL_MSGPACK_MAP:
        FUZZ_CHECK(token->n == model->n, "count %u", token->n);
        break;

    case SEL_MSGPACK_EXT:
        FUZZ_CHECK(token->ext == model->ext, "ext %d", token->ext);
        /* fall through */

    case SEL_MSGPACK_STR:
    case SEL_MSGPACK_BIN:
        FUZZ_CHECK(token->str.len == model->payload, "%zu bytes",
                   token->str.len);
        break;

    case SEL_MSGPACK_FLOAT:
        FUZZ_CHECK(token->u == model->bits || token->f != token->f,
                   "double %a", token->f);
        break;

    default:
        FUZZ_CHECK(token->u == model->bits, "number %llx",
                   (unsigned long long) token->u);
    }
}


/*
 * Where the value at data ends, or NULL: by the model, while the cursor goes
 * along.  depth containers may be open inside.
 */
static const uint8_t *
walk(sel_msgpack_t *mp, const uint8_t *data, const uint8_t *end, int depth)
{
    bool                 ok;
    model_t              model;
    uint64_t             n;
    sel_msgpack_token_t  token;

    ok = model_token(&model, data, (size_t) (end - data));
    FUZZ_CHECK(sel_msgpack_next(mp, &token) == ok, "next() at 0x%02x",
               data < end ? *data : 0);

    if (!ok) {
        return NULL;
    }

    check_token(&model, &token);
    data += model.len;
    FUZZ_CHECK(mp->pos == data && mp->end == end, "the cursor is elsewhere");

    if (model.payload != 0) {
        FUZZ_CHECK(token.str.data == data - model.payload, "payload");
    }

    if (model.type != SEL_MSGPACK_ARRAY && model.type != SEL_MSGPACK_MAP) {
        return data;
    }

    if (depth == 0) {
        return NULL;
    }

    n = model.type == SEL_MSGPACK_MAP ? 2 * model.n : model.n;

    while (n-- != 0 && data != NULL) {
        data = walk(mp, data, end, depth - 1);
    }

    return data;
}


/* An array of numbers through u32_array(), against the tokens. */
static void
check_u32_array(const uint8_t *data, size_t size)
{
    bool                  fits;
    uint32_t              i, *out;
    sel_msgpack_t         array, single;
    sel_msgpack_token_t   token;

    array = sel_msgpack(data, size);

    if (!sel_msgpack_next(&array, &token)
        || token.type != SEL_MSGPACK_ARRAY)
    {
        return;
    }

    out = malloc(token.n != 0 ? token.n * sizeof(uint32_t) : 1);
    FUZZ_CHECK(out != NULL, "no memory for %u numbers", token.n);

    single = array;
    fits = sel_msgpack_u32_array(&array, token.n, out);

    for (i = token.n, token.type = SEL_MSGPACK_UINT, token.u = 0; i != 0; i--)
    {
        if (!sel_msgpack_next(&single, &token)
            || token.type != SEL_MSGPACK_UINT || token.u > UINT32_MAX)
        {
            break;
        }

        FUZZ_CHECK(!fits || *out == token.u, "u32 %u", *out);
        memmove(out, out + 1, (i - 1) * sizeof(uint32_t));
    }

    FUZZ_CHECK(fits == (i == 0), "u32_array() gives %d", fits);
    FUZZ_CHECK(!fits || array.pos == single.pos, "u32_array() ends wrong");
    free(out);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool            ok;
    uint8_t        *copy;
    sel_msgpack_t   mp;
    const uint8_t  *end;

    copy = malloc(size != 0 ? size : 1);

    if (copy == NULL) {
        return 0;
    }

    memcpy(copy, data, size);

    mp = sel_msgpack(copy, size);
    end = walk(&mp, copy, copy + size, SEL_MSGPACK_MAX_DEPTH);

    mp = sel_msgpack(copy, size);
    ok = sel_msgpack_skip(&mp);
    FUZZ_CHECK(ok == (end != NULL), "skip() gives %d", ok);
    FUZZ_CHECK(!ok || mp.pos == end, "skip() ends wrong");

    check_u32_array(copy, size);
    free(copy);

    return 0;
}
