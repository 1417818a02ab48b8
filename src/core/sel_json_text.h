/*
 * What a JSON string may hold: tests of bytes for the reader and the writer.
 */

#ifndef SEL_JSON_TEXT_H
#define SEL_JSON_TEXT_H

#include "core/sel_base.h"


/* one byte value in all eight bytes of a word */
#define SEL_JSON_BYTES(byte)  (UINT64_C(0x0101010101010101) * (byte))


/* Printable ASCII that stands for itself in a JSON string. */
static inline bool
sel_json_plain(uint8_t c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}


/*
 * The first byte at or after p that is not plain.  Eight bytes at a time:
 * x - 1 has its high bit set when x is 0 and x has no high bit, which finds
 * equal bytes; x - 0x20 likewise finds control characters.  A borrow can
 * only spoil bytes after the first hit.
 */
static inline const uint8_t *
sel_json_plain_end(const uint8_t *p, const uint8_t *end)
{
    uint64_t  word, quote, slash, hits;

    while (end - p >= 8) {
        memcpy(&word, p, 8);

        quote = word ^ SEL_JSON_BYTES('"');
        slash = word ^ SEL_JSON_BYTES('\\');

        hits = word | (word - SEL_JSON_BYTES(0x20))
               | (quote - SEL_JSON_BYTES(1)) | (slash - SEL_JSON_BYTES(1));

        if ((hits & SEL_JSON_BYTES(0x80)) != 0) {
            break;
        }

        p += 8;
    }

    while (p < end && sel_json_plain(*p)) {
        p++;
    }

    return p;
}


/* The length of the UTF-8 character that begins with this byte; 0: none. */
static inline unsigned
sel_utf8_len(uint8_t lead)
{
    return lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2
           : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
}


/* May byte be number i (from 1) of a character with this first byte? */
static inline bool
sel_utf8_follows(uint8_t lead, unsigned i, uint8_t byte)
{
    uint8_t  low, high;

    low = 0x80;
    high = 0xbf;

    if (i == 1) {
        low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : low;
        high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : high;
    }

    return byte >= low && byte <= high;
}


/* The length of the whole, valid UTF-8 character at p < end; 0: none. */
static inline unsigned
sel_utf8_char(const uint8_t *p, const uint8_t *end)
{
    unsigned  i, n;

    n = sel_utf8_len(*p);

    if (n > (size_t) (end - p)) {
        return 0;
    }

    for (i = 1; i < n; i++) {
        if (!sel_utf8_follows(*p, i, p[i])) {
            return 0;
        }
    }

    return n;
}


static inline bool
sel_utf8_valid(sel_str_t text)
{
    unsigned        n;
    const uint8_t  *p, *end;

    end = text.data + text.len;

    for (p = text.data; p != end; p += n) {
        n = sel_utf8_char(p, end);

        if (n == 0) {
            return false;
        }
    }

    return true;
}


/* The length of a valid text when cut to max bytes between characters. */
static inline size_t
sel_utf8_cut(sel_str_t text, size_t max)
{
    size_t  n;

    if (text.len <= max) {
        return text.len;
    }

    for (n = max; n > 0 && (text.data[n] & 0xc0) == 0x80; n--) {
        /* void */
    }

    return n;
}


#endif /* SEL_JSON_TEXT_H */
