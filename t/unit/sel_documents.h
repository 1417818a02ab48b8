/*
 * Random JSON documents: all kinds of values, white space, escapes and
 * characters of every length, numbers within the range of a double.
 */

#ifndef SEL_DOCUMENTS_H
#define SEL_DOCUMENTS_H

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/sel_base.h"
#include "sel_rand.h"


static inline void
sel_document_space(sel_rand_t *rand, FILE *doc)
{
    static const char  spaces[] = " \t\n\r";

    while (sel_rand_below(rand, 6) == 0) {
        fputc(spaces[sel_rand_below(rand, 4)], doc);
    }
}


static inline void
sel_document_utf8(sel_rand_t *rand, FILE *doc)
{
    uint32_t  c;

    do {
        c = (uint32_t) (sel_rand_wide(rand) % 0x110000);
    } while (c < 0x20 || c == '"' || c == '\\'
             || (c >= 0xd800 && c < 0xe000));

    if (c < 0x80) {
        fputc((int) c, doc);

    } else if (c < 0x800) {
        fprintf(doc, "%c%c", 0xc0 | c >> 6, 0x80 | (c & 0x3f));

    } else if (c < 0x10000) {
        fprintf(doc, "%c%c%c", 0xe0 | c >> 12, 0x80 | (c >> 6 & 0x3f),
                0x80 | (c & 0x3f));

    } else {
        fprintf(doc, "%c%c%c%c", 0xf0 | c >> 18, 0x80 | (c >> 12 & 0x3f),
                0x80 | (c >> 6 & 0x3f), 0x80 | (c & 0x3f));
    }
}


static inline void
sel_document_string(sel_rand_t *rand, FILE *doc)
{
    static const char *const  escapes[] = {
        "\\\"", "\\\\", "\\/", "\\b", "\\f", "\\n", "\\r", "\\t",
        "\\u0041", "\\u00E9", "\\u20ac", "\\uD83D\\ude00", "\\uFFFF",
        "\\udbff\\udfff"
    };

    fputc('"', doc);

    while (sel_rand_below(rand, 5) != 0) {

        switch (sel_rand_below(rand, 4)) {
        case 0:
            fputs(escapes[sel_rand_below(rand, sel_countof(escapes))], doc);
            break;
        case 1:
            sel_document_utf8(rand, doc);
            break;
        default:
            fputc((int) ('a' + sel_rand_below(rand, 4)), doc);
        }
    }

    fputc('"', doc);
}


static inline void
sel_document_number(sel_rand_t *rand, FILE *doc)
{
    union { uint64_t u; double f; }  bits;

    switch (sel_rand_below(rand, 4)) {

    case 0:
        fprintf(doc, "%" PRId64, (int64_t) sel_rand_wide(rand));
        break;

    case 1:
        fprintf(doc, "%" PRIu64, sel_rand_wide(rand));
        break;

    case 2:
        fprintf(doc, "%s%" PRIu64 ".%03u%s%d",
                sel_rand(rand) & 1 ? "-" : "", sel_rand_wide(rand),
                (unsigned) sel_rand_below(rand, 1000),
                sel_rand(rand) & 1 ? "e" : "E",
                (int) sel_rand_below(rand, 500) - 250);
        break;

    default:
        do {
            bits.u = sel_rand(rand);
        } while (!isfinite(bits.f));

        fprintf(doc, "%.*e", (int) sel_rand_below(rand, 25), bits.f);
    }
}


static inline void
sel_document(sel_rand_t *rand, FILE *doc, unsigned depth)
{
    static const char *const  words[] = { "null", "true", "false", "0" };

    unsigned  i, n, kind;

    sel_document_space(rand, doc);
    kind = (unsigned) sel_rand_below(rand, depth < 6 ? 7 : 3);
    n = (unsigned) sel_rand_below(rand, 5);

    switch (kind) {

    case 0:
        fputs(words[sel_rand_below(rand, 4)], doc);
        break;

    case 1:
        sel_document_number(rand, doc);
        break;

    case 2:
        sel_document_string(rand, doc);
        break;

    case 3:
    case 4:
        fputc('[', doc);

        for (i = 0; i < n; i++) {
            fputs(i != 0 ? "," : "", doc);
            sel_document(rand, doc, depth + 1);
        }

        sel_document_space(rand, doc);
        fputc(']', doc);
        break;

    default:
        fputc('{', doc);

        for (i = 0; i < n; i++) {
            fputs(i != 0 ? "," : "", doc);
            sel_document_space(rand, doc);
            sel_document_string(rand, doc);
            sel_document_space(rand, doc);
            fputc(':', doc);
            sel_document(rand, doc, depth + 1);
        }

        sel_document_space(rand, doc);
        fputc('}', doc);
    }

    sel_document_space(rand, doc);
}


#endif /* SEL_DOCUMENTS_H */
