/*
 * Most values of a batch are numbers of one to nine bytes in no order that a
 * processor could guess, so their length comes from a table instead of from
 * branches.  What the table does not know (containers, and lengths in bytes
 * of their own) goes the way of sel_msgpack_next().
 */

#include "kv_events/sel_kv_scan.h"


#define SEL_KV_X4(n)   n, n, n, n
#define SEL_KV_X16(n)  SEL_KV_X4(n), SEL_KV_X4(n), SEL_KV_X4(n), SEL_KV_X4(n)
#define SEL_KV_X32(n)  SEL_KV_X16(n), SEL_KV_X16(n)


static uint64_t sel_kv_scan_plain(sel_msgpack_t *mp, uint64_t n);


/* bytes of a value by its first one; 0: not known from that alone */
static const uint8_t  sel_kv_scan_sizes[256] = {
    SEL_KV_X32(1), SEL_KV_X32(1),               /* small numbers */
    SEL_KV_X32(1), SEL_KV_X32(1),
    SEL_KV_X32(0),                              /* maps and arrays */
    1, 2, 3, 4, 5, 6, 7, 8,                     /* short strings */
    9, 10, 11, 12, 13, 14, 15, 16,
    17, 18, 19, 20, 21, 22, 23, 24,
    25, 26, 27, 28, 29, 30, 31, 32,
    1, 0, 1, 1,                                 /* nil, none, booleans */
    0, 0, 0, 0, 0, 0,                           /* bytes, extensions */
    5, 9,                                       /* floats */
    2, 3, 5, 9, 2, 3, 5, 9,                     /* numbers */
    3, 4, 6, 10, 18,                            /* short extensions */
    0, 0, 0, 0, 0, 0, 0,                        /* strings, arrays, maps */
    SEL_KV_X32(1)                               /* small negative numbers */
};


bool
sel_kv_scan(sel_msgpack_t *mp, uint32_t depth)
{
    uint32_t             at;
    uint64_t             left[SEL_MSGPACK_MAX_DEPTH + 1];
    sel_msgpack_token_t  token;

    at = 0;
    left[0] = 1;

    for ( ;; ) {
        left[at] = sel_kv_scan_plain(mp, left[at]);

        if (left[at] == 0) {
            if (at == 0) {
                return true;
            }

            at--;
            continue;
        }

        if (!sel_msgpack_next(mp, &token)) {
            return false;
        }

        left[at]--;

        if (token.type == SEL_MSGPACK_ARRAY || token.type == SEL_MSGPACK_MAP) {
            if (at == depth) {
                return false;
            }

            left[++at] = token.type == SEL_MSGPACK_MAP
                         ? 2 * (uint64_t) token.n : token.n;
        }
    }
}


/* Skips up to n values whose first byte tells all; returns what is left. */
static uint64_t
sel_kv_scan_plain(sel_msgpack_t *mp, uint64_t n)
{
    uint8_t         size;
    const uint8_t  *p;

    p = mp->pos;

    while (n != 0 && p != mp->end) {
        size = sel_kv_scan_sizes[*p];

        if (size == 0 || size > mp->end - p) {
            break;
        }

        p += size;
        n--;
    }

    mp->pos = p;

    return n;
}
