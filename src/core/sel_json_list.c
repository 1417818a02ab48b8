/*
 * Arrays straight into lists.  Token ids and hashes are the bulk of every
 * request, so numbers have a fast path: eight digits are found and converted
 * at once in one word, and what is usual after a number, a comma and maybe
 * a blank, is passed in place.
 *
 * The fast path takes only numbers that are right and lie, with everything
 * that it may look at, inside the segment.  At any other byte it stops behind
 * the last number taken, and the ordinary reader goes on from there: it knows
 * the whole grammar, crosses segments and finds the words for a fault.
 */

#include "core/sel_json_impl.h"


_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the first digit is the lowest byte of a word");


#define SEL_JSON_LIST_MIN   64
#define SEL_JSON_LOOKAHEAD  32      /* sign, three words, comma, blank */

/* one byte value in all eight bytes of a word */
#define SEL_JSON_ALL(byte)  (UINT64_C(0x0101010101010101) * (byte))

#define sel_json_inline     static inline __attribute__((always_inline))


typedef enum {
    SEL_JSON_LIST_U32,
    SEL_JSON_LIST_U64,
    SEL_JSON_LIST_HASH,
    SEL_JSON_LIST_STRING
} sel_json_list_kind_t;


/* A list while it is read. */
typedef struct {
    sel_json_list_kind_t   kind;
    size_t                 size;    /* of an element */
    uint32_t               n;
    uint32_t               cap;
    void                  *data;
} sel_json_list_t;


static bool sel_json_u64s(sel_json_t *json, sel_json_list_kind_t kind,
    sel_u64_list_t *out);
static bool sel_json_list(sel_json_t *json, sel_json_list_kind_t kind,
    size_t size, sel_json_list_t *list);
static bool sel_json_list_grow(sel_json_t *json, sel_json_list_t *list);
static uint32_t sel_json_list_run(sel_json_t *json, sel_json_list_t *list);
static bool sel_json_list_one(sel_json_t *json, sel_json_list_t *list);


static const uint64_t  sel_json_tens[] = {
    1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000
};


bool
sel_json_u32_list(sel_json_t *json, sel_u32_list_t *out)
{
    sel_json_list_t  list;

    if (!sel_json_list(json, SEL_JSON_LIST_U32, sizeof(uint32_t), &list)) {
        return false;
    }

    out->n = list.n;
    out->data = list.data;

    return true;
}


bool
sel_json_u64_list(sel_json_t *json, sel_u64_list_t *out)
{
    return sel_json_u64s(json, SEL_JSON_LIST_U64, out);
}


bool
sel_json_hash_list(sel_json_t *json, sel_u64_list_t *out)
{
    return sel_json_u64s(json, SEL_JSON_LIST_HASH, out);
}


bool
sel_json_string_list(sel_json_t *json, sel_str_list_t *out)
{
    sel_json_list_t  list;

    if (!sel_json_list(json, SEL_JSON_LIST_STRING, sizeof(sel_str_t),
                       &list))
    {
        return false;
    }

    out->n = list.n;
    out->data = list.data;

    return true;
}


static bool
sel_json_u64s(sel_json_t *json, sel_json_list_kind_t kind,
    sel_u64_list_t *out)
{
    sel_json_list_t  list;

    if (!sel_json_list(json, kind, sizeof(uint64_t), &list)) {
        return false;
    }

    out->n = list.n;
    out->data = list.data;

    return true;
}


static bool
sel_json_list(sel_json_t *json, sel_json_list_kind_t kind, size_t size,
    sel_json_list_t *list)
{
    int  rc;

    list->kind = kind;
    list->size = size;
    list->n = 0;
    list->cap = 0;
    list->data = NULL;

    /* scratch first, so that the list stays the newest and grows in place */

    if (!sel_json_array_begin(json) || !sel_json_scratch(json, 1)) {
        return false;
    }

    while ((rc = sel_json_array_next(json)) == 1) {

        if (list->n == list->cap && !sel_json_list_grow(json, list)) {
            return false;
        }

        if (sel_json_list_run(json, list) == 0
            && !sel_json_list_one(json, list))
        {
            return false;
        }
    }

    return rc == 0;
}


static bool
sel_json_list_grow(sel_json_t *json, sel_json_list_t *list)
{
    void      *data;
    uint32_t   cap;

    if (list->cap > UINT32_MAX / 2) {
        return sel_json_no_memory(json);
    }

    cap = list->cap != 0 ? list->cap * 2 : SEL_JSON_LIST_MIN;

    data = sel_arena_grow(json->arena, list->data, list->cap * list->size,
                          cap * list->size);
    if (data == NULL) {
        return sel_json_no_memory(json);
    }

    list->data = data;
    list->cap = cap;

    return true;
}


/* The slow path: one element of any form. */

static bool
sel_json_list_one(sel_json_t *json, sel_json_list_t *list)
{
    bool             ok;
    sel_json_path_t  here;

    here.up = json->path;
    here.name.len = list->n;
    here.name.data = NULL;

    json->path = &here;

    switch (list->kind) {

    case SEL_JSON_LIST_U32:
        ok = sel_json_u32(json, (uint32_t *) list->data + list->n);
        break;

    case SEL_JSON_LIST_U64:
        ok = sel_json_u64(json, (uint64_t *) list->data + list->n);
        break;

    case SEL_JSON_LIST_HASH:
        ok = sel_json_hash(json, (uint64_t *) list->data + list->n);
        break;

    default:
        ok = sel_json_string(json, (sel_str_t *) list->data + list->n);
    }

    json->path = here.up;
    list->n += ok;

    return ok;
}


/*
 * Converts the digits at p, eight at most, and returns how many there are.
 *
 * A byte is a digit when neither taking away '0' nor adding the distance from
 * '9' to 0x7f sets its high bit.  A borrow or a carry spoils only bytes after
 * the first that is not a digit.  That one's place tells how far to shift the
 * word, so that zeros come in front of the digits; then neighbours are joined
 * to pairs, pairs to fours, fours to the number.
 */

sel_json_inline unsigned
sel_json_word(const uint8_t *p, uint64_t *value)
{
    unsigned  n;
    uint64_t  word, others;

    memcpy(&word, p, sizeof(word));

    others = ((word - SEL_JSON_ALL('0')) | (word + SEL_JSON_ALL(0x7f - '9')))
             & SEL_JSON_ALL(0x80);

    word -= SEL_JSON_ALL('0');
    n = 8;

    if (others != 0) {
        n = __builtin_ctzll(others) / 8;
        word = n != 0 ? word << (64 - 8 * n) : 0;
    }

    word = (word * 10 + (word >> 8)) & 0x00ff00ff00ff00ff;
    word = (word * 100 + (word >> 16)) & 0x0000ffff0000ffff;

    *value = (word * 10000 + (word >> 32)) & 0xffffffff;

    return n;
}


/* The digits of an integer below 2^64; 0 when it is none as it should be. */

sel_json_inline unsigned
sel_json_fast(const uint8_t *p, uint64_t *value)
{
    unsigned  n;
    uint64_t  more;

    n = sel_json_word(p, value);

    if (*p == '0' && n > 1) {
        return 0;
    }

    if (n < 8) {
        return n;
    }

    n = sel_json_word(p + 8, &more);
    *value = *value * sel_json_tens[n] + more;

    if (n < 8) {
        return 8 + n;
    }

    n = sel_json_word(p + 16, &more);

    if (n > 4
        || __builtin_mul_overflow(*value, sel_json_tens[n], value)
        || __builtin_add_overflow(*value, more, value))
    {
        return 0;
    }

    return 16 + n;
}


/* Compiled once for each kind. */

sel_json_inline uint32_t
sel_json_run_of(sel_json_t *json, sel_json_list_t *list,
    const sel_json_list_kind_t kind)
{
    bool            negative;
    uint32_t        n;
    uint64_t        value;
    unsigned        digits;
    const uint8_t  *p;

    p = json->pos;
    n = list->n;

    while (n < list->cap && json->end - p >= SEL_JSON_LOOKAHEAD) {

        negative = kind == SEL_JSON_LIST_HASH && *p == '-';
        p += negative;

        digits = sel_json_fast(p, &value);
        p += digits;

        if (digits == 0 || (*p != ',' && *p != ']')) {
            break;
        }

        if (negative) {
            if (value == 0 || value > (uint64_t) INT64_MAX + 1) {
                break;
            }

            value = -value;
        }

        if (kind == SEL_JSON_LIST_U32) {
            if (value > UINT32_MAX) {
                break;
            }

            ((uint32_t *) list->data)[n++] = (uint32_t) value;

        } else {
            ((uint64_t *) list->data)[n++] = value;
        }

        json->pos = p;

        if (*p++ == ']') {
            break;
        }

        /* a branch: as a sum, the next number had to wait for this byte */

        if (__builtin_expect(*p == ' ', 0)) {
            p++;
        }
    }

    digits = n - list->n;
    list->n = n;

    return digits;
}


/* The fast path: as many numbers as it can, and how many they were. */

static uint32_t
sel_json_list_run(sel_json_t *json, sel_json_list_t *list)
{
    switch (list->kind) {

    case SEL_JSON_LIST_U32:
        return sel_json_run_of(json, list, SEL_JSON_LIST_U32);

    case SEL_JSON_LIST_U64:
        return sel_json_run_of(json, list, SEL_JSON_LIST_U64);

    case SEL_JSON_LIST_HASH:
        return sel_json_run_of(json, list, SEL_JSON_LIST_HASH);

    default:
        return 0;
    }
}
