/*
 * One flag suffices for commas: after a value one is due before the next
 * element, after an opening bracket or a name none is.
 */

#include <math.h>
#include "core/sel_float.h"
#include "core/sel_json_text.h"
#include "core/sel_json_write.h"


static void sel_json_out_value(sel_json_out_t *out, const char *text);
static void sel_json_out_comma(sel_json_out_t *out);
static void sel_json_out_quoted(sel_buf_t *buf, sel_str_t str);
static const uint8_t *sel_json_out_special(sel_buf_t *buf, const uint8_t *p,
    const uint8_t *end);


void
sel_json_out_init(sel_json_out_t *out, sel_buf_t *buf)
{
    out->buf = buf;
    out->comma = false;
}


void
sel_json_out_object(sel_json_out_t *out)
{
    sel_json_out_comma(out);
    sel_buf_byte(out->buf, '{');
}


void
sel_json_out_object_end(sel_json_out_t *out)
{
    sel_buf_byte(out->buf, '}');
    out->comma = true;
}


void
sel_json_out_array(sel_json_out_t *out)
{
    sel_json_out_comma(out);
    sel_buf_byte(out->buf, '[');
}


void
sel_json_out_array_end(sel_json_out_t *out)
{
    sel_buf_byte(out->buf, ']');
    out->comma = true;
}


void
sel_json_out_key(sel_json_out_t *out, const char *key)
{
    sel_json_out_key_str(out, sel_cstr(key));
}


void
sel_json_out_key_str(sel_json_out_t *out, sel_str_t key)
{
    sel_json_out_comma(out);
    sel_json_out_quoted(out->buf, key);
    sel_buf_byte(out->buf, ':');
}


void
sel_json_out_key_u64(sel_json_out_t *out, uint64_t key)
{
    sel_json_out_comma(out);
    sel_buf_byte(out->buf, '"');
    sel_buf_u64(out->buf, key);
    sel_buf_add(out->buf, "\":", 2);
}


void
sel_json_out_null(sel_json_out_t *out)
{
    sel_json_out_value(out, "null");
}


void
sel_json_out_bool(sel_json_out_t *out, bool value)
{
    sel_json_out_value(out, value ? "true" : "false");
}


void
sel_json_out_u64(sel_json_out_t *out, uint64_t value)
{
    sel_json_out_comma(out);
    sel_buf_u64(out->buf, value);
    out->comma = true;
}


void
sel_json_out_i64(sel_json_out_t *out, int64_t value)
{
    sel_json_out_comma(out);
    sel_buf_i64(out->buf, value);
    out->comma = true;
}


void
sel_json_out_f32(sel_json_out_t *out, float value)
{
    char  text[SEL_FLOAT_TEXT];

    if (!isfinite(value)) {
        sel_json_out_null(out);
        return;
    }

    (void) sel_float_print32(value, text);
    sel_json_out_value(out, text);
}


void
sel_json_out_f64(sel_json_out_t *out, double value)
{
    char  text[SEL_FLOAT_TEXT];

    if (!isfinite(value)) {
        sel_json_out_null(out);
        return;
    }

    (void) sel_float_print64(value, text);
    sel_json_out_value(out, text);
}


void
sel_json_out_str(sel_json_out_t *out, sel_str_t str)
{
    sel_json_out_comma(out);
    sel_json_out_quoted(out->buf, str);
    out->comma = true;
}


void
sel_json_out_text(sel_json_out_t *out, const char *text)
{
    sel_json_out_str(out, sel_cstr(text));
}


static void
sel_json_out_value(sel_json_out_t *out, const char *text)
{
    sel_json_out_comma(out);
    sel_buf_text(out->buf, text);
    out->comma = true;
}


static void
sel_json_out_comma(sel_json_out_t *out)
{
    if (out->comma) {
        sel_buf_byte(out->buf, ',');
        out->comma = false;
    }
}


static void
sel_json_out_quoted(sel_buf_t *buf, sel_str_t str)
{
    const uint8_t  *p, *from, *end;

    sel_buf_byte(buf, '"');

    p = str.data;
    end = p + str.len;

    while (p < end) {
        from = p;
        p = sel_json_plain_end(p, end);

        sel_buf_add(buf, from, p - from);

        if (p < end) {
            p = sel_json_out_special(buf, p, end);
        }
    }

    sel_buf_byte(buf, '"');
}


/* Writes what cannot stand for itself, or a character of several bytes. */

static const uint8_t *
sel_json_out_special(sel_buf_t *buf, const uint8_t *p, const uint8_t *end)
{
    unsigned     n;
    const char  *escape;

    static const char  escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt";

    if (*p >= 0x80) {
        n = sel_utf8_char(p, end);

        if (n == 0) {
            sel_buf_add(buf, "\xef\xbf\xbd", 3);    /* U+FFFD */
            return p + 1;
        }

        sel_buf_add(buf, p, n);
        return p + n;
    }

    for (escape = escapes; *escape != '\0'; escape += 2) {
        if ((uint8_t) *escape == *p) {
            sel_buf_byte(buf, '\\');
            sel_buf_byte(buf, escape[1]);
            return p + 1;
        }
    }

    sel_buf_printf(buf, "\\u%04x", *p);

    return p + 1;
}
