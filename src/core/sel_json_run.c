/*
 * The fast path of number arrays.  Token ids and hashes are the bulk of every
 * request, so eight digits are found and converted at once in one word, and
 * what is usual after a number, a comma and maybe a blank, is passed in place.
 * Each number waits here until the end of the one before is found; token ids,
 * which are short and many, are first tried by windows (sel_json_window.c).
 *
 * The fast path takes only numbers that are right and lie, with everything
 * that it may look at, inside the segment.  At any other byte it stops behind
 * the last number taken, and the ordinary reader goes on from there: it knows
 * the whole grammar, crosses segments and finds the words for a fault.
 */

#include "core/sel_json_list_impl.h"


#define SEL_JSON_LOOKAHEAD  32      /* sign, three words, comma, blank */


static const uint64_t  sel_json_tens[] = {
    1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000
};


/*
 * Converts the digits at p, eight at most, and returns how many there are.
 *
 * A byte is a digit when neither taking away '0' nor adding the distance from
 * '9' to 0x7f sets its high bit.  A borrow or a carry spoils only bytes after
 * the first that is not a digit.  That one's place tells how far to shift the
 * word, so that zeros come in front of the digits.
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

    *value = sel_json_join(word);

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
sel_json_run_words(sel_json_t *json, sel_json_list_t *list,
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

        if (negative && (value == 0 || value > (uint64_t) INT64_MAX + 1)) {
            break;
        }

        if (kind == SEL_JSON_LIST_U32) {
            if (value > UINT32_MAX) {
                break;
            }

            ((uint32_t *) list->data)[n++] = (uint32_t) value;

        } else {
            ((uint64_t *) list->data)[n++] = negative ? -value : value;
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


static uint32_t
sel_json_run_u32(sel_json_t *json, sel_json_list_t *list)
{
    uint32_t  n;

    n = list->windows ? sel_json_run_windows(json, list) : 0;

    return n != 0 ? n : sel_json_run_words(json, list, SEL_JSON_LIST_U32);
}


uint32_t
sel_json_run(sel_json_t *json, sel_json_list_t *list)
{
    switch (list->kind) {

    case SEL_JSON_LIST_U32:
        return sel_json_run_u32(json, list);

    case SEL_JSON_LIST_U64:
        return sel_json_run_words(json, list, SEL_JSON_LIST_U64);

    case SEL_JSON_LIST_HASH:
        return sel_json_run_words(json, list, SEL_JSON_LIST_HASH);

    default:
        return 0;
    }
}
