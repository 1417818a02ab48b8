/*
 * A msgpack value in words, read through the cursor token by token.  Include
 * after cmocka.h.
 */

#ifndef SEL_MSGPACK_TEXT_H
#define SEL_MSGPACK_TEXT_H

#include <inttypes.h>
#include <stdio.h>

#include "core/sel_msgpack.h"
#include "sel_vectors.h"


static inline void
sel_msgpack_hex(FILE *out, sel_str_t bytes)
{
    size_t  i;

    for (i = 0; i < bytes.len; i++) {
        fprintf(out, "%02x", bytes.data[i]);
    }
}


/*
 * Prints the value under the cursor: n t f u5 i-5 d<bits> s<hex> b<hex>
 * e<type>:<hex> [ .. ] { key value .. }, each followed by a blank.
 */
static inline bool
sel_msgpack_print(sel_msgpack_t *mp, FILE *out)
{
    uint64_t             n;
    sel_msgpack_token_t  token;

    if (!sel_msgpack_next(mp, &token)) {
        return false;
    }

    n = 0;

    switch (token.type) {
    case SEL_MSGPACK_NIL:
        fputs("n", out);
        break;
    case SEL_MSGPACK_BOOL:
        fputs(token.u == 0 ? "f" : token.u == 1 ? "t" : "?", out);
        break;
    case SEL_MSGPACK_UINT:
        fprintf(out, "u%" PRIu64, token.u);
        break;
    case SEL_MSGPACK_INT:
        fprintf(out, "i%" PRId64, token.i);
        break;
    case SEL_MSGPACK_FLOAT:
        fprintf(out, "d%016" PRIx64, token.u);      /* .f's bits */
        break;
    case SEL_MSGPACK_ARRAY:
        fputs("[ ", out);
        n = token.n;
        break;
    case SEL_MSGPACK_MAP:
        fputs("{ ", out);
        n = (uint64_t) token.n * 2;
        break;
    case SEL_MSGPACK_STR:
        fputs("s", out);
        sel_msgpack_hex(out, token.str);
        break;
    case SEL_MSGPACK_BIN:
        fputs("b", out);
        sel_msgpack_hex(out, token.str);
        break;
    case SEL_MSGPACK_EXT:
        fprintf(out, "e%d:", token.ext);
        sel_msgpack_hex(out, token.str);
    }

    while (n-- != 0) {

        if (!sel_msgpack_print(mp, out)) {
            return false;
        }
    }

    fputs(token.type == SEL_MSGPACK_ARRAY ? "] "
          : token.type == SEL_MSGPACK_MAP ? "} " : " ", out);

    return true;
}


/* What a message of hexadecimal text reads as; NULL when it is refused. */
static inline char *
sel_msgpack_text(const char *hex)
{
    bool            ok, at_end;
    char           *text;
    FILE           *out;
    size_t          len;
    sel_str_t       bytes;
    sel_msgpack_t   mp;

    bytes = sel_vectors_hex(hex);
    mp = sel_msgpack(bytes.data, bytes.len);
    out = open_memstream(&text, &len);
    assert_non_null(out);

    ok = sel_msgpack_print(&mp, out);
    at_end = mp.pos == bytes.data + bytes.len;
    assert_int_equal(fclose(out), 0);

    mp = sel_msgpack(bytes.data, bytes.len);
    assert_int_equal(sel_msgpack_skip(&mp), ok);
    assert_true(!ok || at_end == (mp.pos == bytes.data + bytes.len));

    free((void *) bytes.data);

    if (!ok) {
        free(text);
        return NULL;
    }

    assert_true(at_end);
    text[len - 1] = '\0';                           /* the last blank */

    return text;
}


#endif /* SEL_MSGPACK_TEXT_H */
