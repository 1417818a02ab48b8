/*
 * Messages: "PATH: REASON at line L column C".  The column counts bytes.
 * Everything that comes from the client is cut, so the reason always fits
 * between path and place; a caller's own long reason is cut too.
 */

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include "core/sel_float.h"
#include "core/sel_json_impl.h"
#include "core/sel_json_text.h"


#define SEL_JSON_PATH_ROOM    160
#define SEL_JSON_PLACE_ROOM   64    /* " at line L column C" of any numbers */
#define SEL_JSON_NUMBER_ROOM  64
#define SEL_JSON_ESCAPE_ROOM  8     /* of one character: \u{9f} and a NUL */


static void sel_json_report(sel_json_t *json, sel_json_status_t status,
    size_t ahead, const char *format, va_list args);
static bool sel_json_raise(sel_json_t *json, sel_json_status_t status,
    size_t ahead, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static size_t sel_json_path_text(const sel_json_path_t *path, char *out);
static void sel_json_number_text(const sel_json_number_t *number, char *out);
static size_t sel_json_quote_char(char *out, sel_str_t *text, bool quotes);


bool
sel_json_fail(sel_json_t *json, const char *format, ...)
{
    va_list  args;

    va_start(args, format);
    sel_json_report(json, SEL_JSON_DATA, 0, format, args);
    va_end(args);

    return false;
}


/* The next byte is fetched first: a segment's end shall not show. */

bool
sel_json_syntax(sel_json_t *json, const char *reason)
{
    if (json->status != SEL_JSON_OK) {
        return false;
    }

    return sel_json_raise(json, SEL_JSON_SYNTAX, sel_json_byte(json) != -1,
                          "%s", reason);
}


bool
sel_json_no_memory(sel_json_t *json)
{
    return sel_json_raise(json, SEL_JSON_NO_MEMORY, 0, "out of memory");
}


bool
sel_json_type_fault(sel_json_t *json, const sel_json_number_t *number,
    const char *expected)
{
    char    text[SEL_JSON_NUMBER_ROOM];
    double  value;

    if (number->real && !sel_json_double(json, number, &value)) {
        return false;
    }

    sel_json_number_text(number, text);

    return sel_json_fail(json, "invalid type: %s, expected %s", text,
                         expected);
}


bool
sel_json_value_fault(sel_json_t *json, const sel_json_number_t *number,
    const char *expected)
{
    char  text[SEL_JSON_NUMBER_ROOM];

    sel_json_number_text(number, text);

    return sel_json_fail(json, "invalid value: %s, expected %s", text,
                         expected);
}


bool
sel_json_mismatch(sel_json_t *json, const char *expected)
{
    bool               yes;
    char               quoted[SEL_JSON_QUOTE_MAX + 1];
    sel_str_t          text;
    sel_json_type_t    type;
    sel_json_number_t  number;

    type = sel_json_peek(json);

    switch (type) {

    case SEL_JSON_BOOL:
        return sel_json_bool(json, &yes)
               && sel_json_fail(json, "invalid type: boolean `%s`, "
                                "expected %s", yes ? "true" : "false",
                                expected);

    case SEL_JSON_NUMBER:
        return sel_json_number(json, &number)
               && sel_json_type_fault(json, &number, expected);

    case SEL_JSON_STRING:
        if (!sel_json_text(json, SEL_JSON_KEEP, &text)) {
            return false;
        }

        sel_json_quote(quoted, text, true);

        return sel_json_fail(json, "invalid type: string \"%s\", expected %s",
                             quoted, expected);

    default:
        return sel_json_skip(json)
               && sel_json_fail(json, "invalid type: %s, expected %s",
                                type == SEL_JSON_NULL ? "null"
                                : type == SEL_JSON_ARRAY ? "sequence" : "map",
                                expected);
    }
}


static bool
sel_json_raise(sel_json_t *json, sel_json_status_t status, size_t ahead,
    const char *format, ...)
{
    va_list  args;

    va_start(args, format);
    sel_json_report(json, status, ahead, format, args);
    va_end(args);

    return false;
}


/* The place is ahead bytes after the current one. */

static void
sel_json_report(sel_json_t *json, sel_json_status_t status, size_t ahead,
    const char *format, va_list args)
{
    int        len;
    char      *out;
    size_t     room;
    uint64_t   lines, column;
    sel_str_t  text;

    if (json->status != SEL_JSON_OK) {
        return;
    }

    json->status = status;

    out = json->message;
    out += sel_json_path_text(json->path, out);

    if (out != json->message) {
        *out++ = ':';
        *out++ = ' ';
    }

    room = json->message + sizeof(json->message) - SEL_JSON_PLACE_ROOM - out;

    len = vsnprintf(out, room, format, args);
    if (len < 0) {
        len = 0;
    }

    text.data = (const uint8_t *) out;
    text.len = (size_t) len < room ? (size_t) len : room - 1;

    out += sel_utf8_cut(text, room - 2);

    sel_json_place(json, json->pos + ahead, &lines, &column);

    (void) snprintf(out, SEL_JSON_PLACE_ROOM,
                    " at line %" PRIu64 " column %" PRIu64, lines + 1,
                    column);
}


/* The outermost name comes first; one that finds no room is left out. */

static size_t
sel_json_path_text(const sel_json_path_t *path, char *out)
{
    char    piece[SEL_JSON_QUOTE_MAX + 2];
    size_t  n, len;

    if (path == NULL) {
        return 0;
    }

    n = sel_json_path_text(path->up, out);

    if (path->name.data == NULL) {
        (void) snprintf(piece, sizeof(piece), "[%zu]", path->name.len);

    } else {
        piece[0] = '.';
        sel_json_quote(piece + (n != 0), path->name, false);
    }

    len = strlen(piece);

    if (len > SEL_JSON_PATH_ROOM - n) {
        return n;
    }

    memcpy(out + n, piece, len);

    return n + len;
}


static void
sel_json_number_text(const sel_json_number_t *number, char *out)
{
    double  value;
    size_t  n;

    if (number->real) {
        n = strlen("floating point `");
        memcpy(out, "floating point `", n);

        value = 0;
        (void) sel_float_parse64(number->text, &value);

        n += sel_float_print64(value, out + n);
        memcpy(out + n, "`", sizeof("`"));
        return;
    }

    (void) snprintf(out, SEL_JSON_NUMBER_ROOM, "integer `%s%" PRIu64 "`",
                    number->negative ? "-" : "", number->value);
}


void
sel_json_quote(char *out, sel_str_t text, bool quotes)
{
    char    piece[SEL_JSON_ESCAPE_ROOM];
    size_t  n, len;

    n = 0;

    while (text.len != 0) {
        len = sel_json_quote_char(piece, &text, quotes);

        if (len > SEL_JSON_QUOTE_MAX - n) {
            break;
        }

        memcpy(out + n, piece, len);
        n += len;
    }

    out[n] = '\0';
}


/* Takes a character from text; what is not one becomes a question mark. */

static size_t
sel_json_quote_char(char *out, sel_str_t *text, bool quotes)
{
    unsigned        n, code;
    const uint8_t  *p;

    p = text->data;
    n = sel_utf8_char(p, p + text->len);

    text->data += n != 0 ? n : 1;
    text->len -= n != 0 ? n : 1;

    if (n == 0) {
        out[0] = '?';
        return 1;
    }

    code = n == 2 && *p == 0xc2 ? p[1] : *p;

    if (n <= 2 && (code < 0x20 || (code >= 0x7f && code < 0xa0))) {
        return snprintf(out, SEL_JSON_ESCAPE_ROOM,
                        code == '\0' ? "\\0" : code == '\n' ? "\\n"
                        : code == '\r' ? "\\r" : code == '\t' ? "\\t"
                        : "\\u{%x}", code);
    }

    if (quotes && (*p == '"' || *p == '\\')) {
        out[0] = '\\';
        out[1] = *p;
        return 2;
    }

    memcpy(out, p, n);

    return n;
}
