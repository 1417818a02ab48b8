/*
 * Strings.  One without escapes that lies in one segment is looked at in
 * place; else its pieces are collected in scratch.  Runs of whole characters
 * are passed quickly; a character that the segment cuts, or that is not
 * valid, goes byte by byte, so a fault is found at the same byte however the
 * input is cut.
 */

#include "core/sel_json_impl.h"
#include "core/sel_json_text.h"


/* A string that is being collected in scratch. */
typedef struct {
    bool    copied;                 /* something was put */
    size_t  n;
    size_t  keep;
} sel_json_pieces_t;


static bool sel_json_put(sel_json_t *json, sel_json_pieces_t *pieces,
    const uint8_t *data, size_t len);
static const uint8_t *sel_json_run(const uint8_t *p, const uint8_t *end);
static bool sel_json_special(sel_json_t *json, sel_json_pieces_t *pieces);
static bool sel_json_wide(sel_json_t *json, sel_json_pieces_t *pieces);
static bool sel_json_escape(sel_json_t *json, sel_json_pieces_t *pieces);
static bool sel_json_unicode(sel_json_t *json, sel_json_pieces_t *pieces);
static bool sel_json_low_surrogate(sel_json_t *json, uint32_t *low);
static bool sel_json_hex(sel_json_t *json, uint32_t *code);
static size_t sel_json_encode(uint32_t code, uint8_t *out);
static bool sel_json_eof_string(sel_json_t *json);


bool
sel_json_string(sel_json_t *json, sel_str_t *value)
{
    sel_str_t  text;

    if (!sel_json_expect(json, SEL_JSON_STRING, "a string")
        || !sel_json_text(json, SIZE_MAX, &text))
    {
        return false;
    }

    text = sel_arena_str(json->arena, text);

    if (text.data == NULL) {
        return sel_json_no_memory(json);
    }

    *value = text;

    return true;
}


bool
sel_json_text(sel_json_t *json, size_t keep, sel_str_t *text)
{
    const uint8_t      *from, *p;
    sel_json_pieces_t   pieces;

    json->pos++;

    pieces.copied = false;
    pieces.n = 0;
    pieces.keep = keep;

    for ( ;; ) {
        from = json->pos;
        p = sel_json_run(from, json->end);
        json->pos = p;

        if (p < json->end && *p == '"' && !pieces.copied) {
            text->len = (size_t) (p - from) < keep ? (size_t) (p - from)
                                                   : keep;
            text->data = from;
            break;
        }

        if (!sel_json_put(json, &pieces, from, p - from)) {
            return false;
        }

        if (p < json->end && *p == '"') {
            text->len = pieces.n;
            text->data = json->scratch;
            break;
        }

        if (!sel_json_special(json, &pieces)) {
            return false;
        }
    }

    json->pos++;

    return true;
}


static bool
sel_json_put(sel_json_t *json, sel_json_pieces_t *pieces,
    const uint8_t *data, size_t len)
{
    pieces->copied = true;

    if (len > pieces->keep - pieces->n) {
        len = pieces->keep - pieces->n;
    }

    if (len == 0) {
        return true;
    }

    if (!sel_json_scratch(json, pieces->n + len)) {
        return false;
    }

    memcpy(json->scratch + pieces->n, data, len);
    pieces->n += len;

    return true;
}


/* The end of the whole valid characters at p that stand for themselves. */

static const uint8_t *
sel_json_run(const uint8_t *p, const uint8_t *end)
{
    unsigned  n;

    for ( ;; ) {
        p = sel_json_plain_end(p, end);

        if (p == end || *p < 0x80) {
            return p;
        }

        n = sel_utf8_char(p, end);
        if (n == 0) {
            return p;
        }

        p += n;
    }
}


/* Passes what stopped a run, unless it is the closing quote. */

static bool
sel_json_special(sel_json_t *json, sel_json_pieces_t *pieces)
{
    int  c;

    c = sel_json_byte(json);

    if (c == -1) {
        return sel_json_eof_string(json);
    }

    if (c == '\\') {
        return sel_json_escape(json, pieces);
    }

    if (c < 0x20) {
        return sel_json_syntax(json, "control character (\\u0000-\\u001F) "
                                     "found while parsing a string");
    }

    return c < 0x80 || sel_json_wide(json, pieces);
}


static bool
sel_json_wide(sel_json_t *json, sel_json_pieces_t *pieces)
{
    int       c;
    uint8_t   bytes[4];
    unsigned  i, n;

    bytes[0] = *json->pos;
    n = sel_utf8_len(bytes[0]);

    if (n == 0) {
        return sel_json_syntax(json, "invalid unicode code point");
    }

    json->pos++;

    for (i = 1; i < n; i++) {
        c = sel_json_byte(json);

        if (c == -1) {
            return sel_json_eof_string(json);
        }

        if (!sel_utf8_follows(bytes[0], i, c)) {
            return sel_json_syntax(json, "invalid unicode code point");
        }

        bytes[i] = c;
        json->pos++;
    }

    return sel_json_put(json, pieces, bytes, n);
}


static bool
sel_json_escape(sel_json_t *json, sel_json_pieces_t *pieces)
{
    int            c;
    uint8_t        byte;
    const char    *p;

    static const char  escapes[] = "\"\"\\\\//b\bf\fn\nr\rt\t";

    json->pos++;
    c = sel_json_byte(json);

    if (c == -1) {
        return sel_json_eof_string(json);
    }

    if (c == 'u') {
        json->pos++;
        return sel_json_unicode(json, pieces);
    }

    for (p = escapes; *p != '\0'; p += 2) {
        if (c == *p) {
            byte = p[1];
            json->pos++;
            return sel_json_put(json, pieces, &byte, 1);
        }
    }

    return sel_json_syntax(json, "invalid escape");
}


/* One code point: four digits, or two such escapes that make a pair. */

static bool
sel_json_unicode(sel_json_t *json, sel_json_pieces_t *pieces)
{
    uint8_t   bytes[4];
    uint32_t  code, low;

    if (!sel_json_hex(json, &code)) {
        return false;
    }

    if (code >= 0xdc00 && code <= 0xdfff) {
        return sel_json_syntax(json, "lone leading surrogate in hex escape");
    }

    if (code >= 0xd800 && code <= 0xdbff) {
        low = 0;

        if (!sel_json_low_surrogate(json, &low)) {
            return false;
        }

        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }

    return sel_json_put(json, pieces, bytes, sel_json_encode(code, bytes));
}


static bool
sel_json_low_surrogate(sel_json_t *json, uint32_t *low)
{
    int          c;
    const char  *p;

    for (p = "\\u"; *p != '\0'; p++) {
        c = sel_json_byte(json);

        if (c == -1) {
            return sel_json_eof_string(json);
        }

        if (c != *p) {
            return sel_json_syntax(json, "unexpected end of hex escape");
        }

        json->pos++;
    }

    if (!sel_json_hex(json, low)) {
        return false;
    }

    return (*low >= 0xdc00 && *low <= 0xdfff)
           || sel_json_syntax(json, "lone leading surrogate in hex escape");
}


static bool
sel_json_hex(sel_json_t *json, uint32_t *code)
{
    int       c;
    unsigned  i;

    *code = 0;

    for (i = 0; i < 4; i++) {
        c = sel_json_byte(json);

        if (c == -1) {
            return sel_json_eof_string(json);
        }

        if (c >= '0' && c <= '9') {
            c -= '0';

        } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
            c = (c | 0x20) - 'a' + 10;

        } else {
            return sel_json_syntax(json, "invalid escape");
        }

        *code = *code << 4 | c;
        json->pos++;
    }

    return true;
}


static size_t
sel_json_encode(uint32_t code, uint8_t *out)
{
    if (code < 0x80) {
        out[0] = code;
        return 1;
    }

    if (code < 0x800) {
        out[0] = 0xc0 | code >> 6;
        out[1] = 0x80 | (code & 0x3f);
        return 2;
    }

    if (code < 0x10000) {
        out[0] = 0xe0 | code >> 12;
        out[1] = 0x80 | (code >> 6 & 0x3f);
        out[2] = 0x80 | (code & 0x3f);
        return 3;
    }

    out[0] = 0xf0 | code >> 18;
    out[1] = 0x80 | (code >> 12 & 0x3f);
    out[2] = 0x80 | (code >> 6 & 0x3f);
    out[3] = 0x80 | (code & 0x3f);

    return 4;
}


static bool
sel_json_eof_string(sel_json_t *json)
{
    return sel_json_syntax(json, "EOF while parsing a string");
}
