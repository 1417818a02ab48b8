/*
 * Arrays of token ids by windows.  64 bytes are compared at once, which gives
 * sets of places: a bit a byte, the first byte lowest.  From these it is seen
 * whether the window is right, and where all the numbers in it end, so that
 * none has to wait for the one before it.  A window is right when
 *
 *   - each byte is a digit, a comma or, in an array with blanks, the blank
 *     that is then behind every comma and nowhere else;
 *   - the first byte of each number is a digit: no element is empty;
 *   - behind a zero that is the first byte of a number is no digit.
 *
 * What the next window may begin with depends on the end of this one and is
 * carried over.  A number is taken with its comma: by then all of its bytes
 * have been in windows that were right, and where it begins is known from the
 * comma before.  A window that is not right is left as a whole to the words of
 * sel_json_run.c.
 */

#include "core/sel_json_list_impl.h"


/* SEL_JSON_PORTABLE: for tests of what other processors do */

#if defined(__SSE2__) && !defined(SEL_JSON_PORTABLE)

#include <emmintrin.h>


#define SEL_JSON_WINDOW   64
#define SEL_JSON_NUMBERS  32        /* that end in a window, at most: each has
                                       a comma and begins with a digit */
#define SEL_JSON_DIGITS   10        /* of UINT32_MAX */

/* what is looked at: a window, and words that begin in it */
#define SEL_JSON_REACH    (SEL_JSON_WINDOW + 8)


/* Places in a window. */
typedef struct {
    uint64_t  comma;
    uint64_t  digit;
    uint64_t  zero;
    uint64_t  blank;                /* none unless the array has blanks */
} sel_json_window_t;


/* Is the next window's first byte this?  0 or 1. */
typedef struct {
    uint64_t  behind;               /* behind a comma */
    uint64_t  first;                /* the first of a number */
    uint64_t  zero;                 /* behind a zero that is the first */
} sel_json_carry_t;


sel_json_inline uint64_t
sel_json_places(__m128i bytes, char c)
{
    return (unsigned) _mm_movemask_epi8(_mm_cmpeq_epi8(bytes,
                                                       _mm_set1_epi8(c)));
}


sel_json_inline void
sel_json_look(const uint8_t *p, sel_json_window_t *window, const bool blanks)
{
    int       i;
    __m128i   bytes, above, digit;

    memset(window, 0, sizeof(sel_json_window_t));

    for (i = 0; i < SEL_JSON_WINDOW; i += 16) {
        bytes = _mm_loadu_si128((const __m128i *) (p + i));

        /* unsigned: what is less than '0' is far above 9 */

        above = _mm_sub_epi8(bytes, _mm_set1_epi8('0'));
        digit = _mm_cmpeq_epi8(_mm_min_epu8(above, _mm_set1_epi8(9)), above);

        window->digit |= (uint64_t) _mm_movemask_epi8(digit) << i;
        window->zero |= sel_json_places(bytes, '0') << i;
        window->comma |= sel_json_places(bytes, ',') << i;

        if (blanks) {
            window->blank |= sel_json_places(bytes, ' ') << i;
        }
    }
}


sel_json_inline bool
sel_json_right(const sel_json_window_t *window, sel_json_carry_t *carry,
    const bool blanks)
{
    uint64_t  last, first, zero, behind, wrong;

    last = blanks ? window->blank : window->comma;
    first = last << 1 | carry->first;
    zero = first & window->zero;

    wrong = ~(window->digit | window->comma | window->blank)
            | (first & ~window->digit)
            | ((zero << 1 | carry->zero) & window->digit);

    if (blanks) {
        behind = window->comma << 1 | carry->behind;
        wrong |= window->blank ^ behind;
    }

    carry->behind = window->comma >> (SEL_JSON_WINDOW - 1);
    carry->first = last >> (SEL_JSON_WINDOW - 1);
    carry->zero = zero >> (SEL_JSON_WINDOW - 1);

    return wrong == 0;
}


/* One or more digits; false when they are no number of 32 bits. */

sel_json_inline bool
sel_json_narrow(const uint8_t *p, size_t digits, uint32_t *value)
{
    uint64_t  word, whole;

    if (__builtin_expect(digits <= 8, 1)) {
        memcpy(&word, p, sizeof(word));

        word = (word - SEL_JSON_ALL('0')) << (64 - 8 * digits);
        *value = (uint32_t) sel_json_join(word);

        return true;
    }

    if (digits > SEL_JSON_DIGITS) {
        return false;
    }

    whole = *p - '0';

    if (digits == 10) {
        whole = whole * 10 + p[1] - '0';
    }

    memcpy(&word, p + digits - 8, sizeof(word));

    whole = whole * 100000000 + sel_json_join(word - SEL_JSON_ALL('0'));
    *value = (uint32_t) whole;

    return whole <= UINT32_MAX;
}


/* Compiled once with blanks and once without. */

sel_json_inline uint32_t
sel_json_windows(sel_json_t *json, sel_json_list_t *list, const bool blanks)
{
    uint32_t            n, *out;
    uint64_t            commas;
    const uint8_t      *p, *first, *end;
    sel_json_carry_t    carry;
    sel_json_window_t   window;

    p = json->pos;
    first = p;
    n = list->n;
    out = list->data;
    carry = (sel_json_carry_t) { .first = 1 };

    while (list->cap - n >= SEL_JSON_NUMBERS
           && json->end - p >= SEL_JSON_REACH)
    {
        sel_json_look(p, &window, blanks);

        if (!sel_json_right(&window, &carry, blanks)) {
            break;
        }

        for (commas = window.comma; commas != 0; commas &= commas - 1) {
            end = p + __builtin_ctzll(commas);

            if (!sel_json_narrow(first, (size_t) (end - first), &out[n])) {
                break;
            }

            n++;
            first = end + 1 + blanks;
        }

        if (commas != 0) {
            break;
        }

        p += SEL_JSON_WINDOW;
    }

    if (n == list->n) {
        return 0;
    }

    json->pos = first - 1 - blanks;     /* the last comma */

    n -= list->n;
    list->n += n;

    return n;
}


/*
 * The first comma tells whether the array has blanks.  Where nothing is taken
 * the next try would most often be in vain, too, so none is made before the
 * list has grown.
 */

uint32_t
sel_json_run_windows(sel_json_t *json, sel_json_list_t *list)
{
    uint32_t        n;
    const uint8_t  *comma;

    if (list->cap - list->n < SEL_JSON_NUMBERS
        || json->end - json->pos < SEL_JSON_REACH)
    {
        return 0;
    }

    n = 0;
    comma = memchr(json->pos, ',', SEL_JSON_DIGITS + 1);

    if (comma != NULL) {
        n = comma[1] == ' ' ? sel_json_windows(json, list, true)
                            : sel_json_windows(json, list, false);
    }

    list->windows = n != 0;

    return n;
}

#else

uint32_t
sel_json_run_windows(sel_json_t *json, sel_json_list_t *list)
{
    return 0;
}

#endif
