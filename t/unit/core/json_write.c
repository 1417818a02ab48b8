/*
 * The JSON writer.  Without it a reply could be no JSON at all (commas,
 * escapes, broken text of a client's), lose bits of a 64-bit number, or print
 * 0.1 as 0.10000000149011612.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <jansson.h>
#include <math.h>

#include "core/sel_json_write.h"
#include "sel_rand.h"


static sel_rand_t  rnd;


static void
expect(sel_buf_t *buf, const char *text)
{
    assert_false(buf->failed);

    if (buf->len != strlen(text) || memcmp(buf->data, text, buf->len) != 0) {
        fail_msg("wrote %.*s, expected %s", (int) buf->len,
                 (const char *) buf->data, text);
    }

    sel_buf_free(buf);
}


static void
test_structure(void **state)
{
    sel_buf_t       buf;
    sel_json_out_t  out;

    sel_buf_init(&buf);
    sel_json_out_init(&out, &buf);

    sel_json_out_object(&out);
    sel_json_out_key(&out, "a");
    sel_json_out_array(&out);
    sel_json_out_u64(&out, 1);
    sel_json_out_null(&out);
    sel_json_out_array(&out);
    sel_json_out_array_end(&out);
    sel_json_out_object(&out);
    sel_json_out_object_end(&out);
    sel_json_out_object(&out);
    sel_json_out_key_u64(&out, 18446744073709551615u);
    sel_json_out_bool(&out, true);
    sel_json_out_key_u64(&out, 0);
    sel_json_out_bool(&out, false);
    sel_json_out_object_end(&out);
    sel_json_out_text(&out, "x");
    sel_json_out_array_end(&out);
    sel_json_out_key_str(&out, sel_str("b\"\n"));
    sel_json_out_object(&out);
    sel_json_out_object_end(&out);
    sel_json_out_key(&out, "");
    sel_json_out_str(&out, sel_str(""));
    sel_json_out_object_end(&out);

    expect(&buf, "{\"a\":[1,null,[],{},{\"18446744073709551615\":true,"
           "\"0\":false},\"x\"],\"b\\\"\\n\":{},\"\":\"\"}");
}


static void
test_array_first(void **state)
{
    sel_buf_t       buf;
    sel_json_out_t  out;

    sel_buf_init(&buf);
    sel_json_out_init(&out, &buf);

    sel_json_out_array(&out);
    sel_json_out_array(&out);
    sel_json_out_array_end(&out);
    sel_json_out_array(&out);
    sel_json_out_array_end(&out);
    sel_json_out_str(&out, sel_str("y"));
    sel_json_out_i64(&out, -1);
    sel_json_out_f64(&out, 0.5);
    sel_json_out_f32(&out, 0.5f);
    sel_json_out_object(&out);
    sel_json_out_object_end(&out);
    sel_json_out_array_end(&out);

    expect(&buf, "[[],[],\"y\",-1,0.5,0.5,{}]");
}


static void
one_f64(double value, const char *text)
{
    sel_buf_t       buf;
    sel_json_out_t  out;

    sel_buf_init(&buf);
    sel_json_out_init(&out, &buf);
    sel_json_out_f64(&out, value);
    expect(&buf, text);
}


static void
one_f32(float value, const char *text)
{
    sel_buf_t       buf;
    sel_json_out_t  out;

    sel_buf_init(&buf);
    sel_json_out_init(&out, &buf);
    sel_json_out_f32(&out, value);
    expect(&buf, text);
}


static void
test_integers(void **state)
{
    sel_buf_t       buf;
    sel_json_out_t  out;

    sel_buf_init(&buf);
    sel_json_out_init(&out, &buf);
    sel_json_out_array(&out);
    sel_json_out_u64(&out, 0);
    sel_json_out_u64(&out, 9007199254740993u);
    sel_json_out_u64(&out, UINT64_MAX);
    sel_json_out_i64(&out, 0);
    sel_json_out_i64(&out, INT64_MAX);
    sel_json_out_i64(&out, INT64_MIN);
    sel_json_out_array_end(&out);

    expect(&buf, "[0,9007199254740993,18446744073709551615,0,"
           "9223372036854775807,-9223372036854775808]");
}


static void
test_float_texts(void **state)
{
    one_f64(0.0, "0.0");
    one_f64(-0.0, "-0.0");
    one_f64(2.0, "2.0");
    one_f64(-2.0, "-2.0");
    one_f64(100.0, "100.0");
    one_f64(1.25, "1.25");
    one_f64(0.1, "0.1");
    one_f64(0.3, "0.3");
    one_f64(0.1 + 0.2, "0.30000000000000004");
    one_f64(123456.789, "123456.789");
    one_f64(0.001, "0.001");
    one_f64(1e15, "1000000000000000.0");
    one_f64(9007199254740993.0, "9007199254740992.0");
    one_f64(1e21, "1e21");
    one_f64(-1.5e300, "-1.5e300");
    one_f64(1e-7, "1e-7");
    one_f64(1.5e-9, "1.5e-9");
    one_f64(5e-324, "5e-324");
    one_f64(2.2250738585072014e-308, "2.2250738585072014e-308");
    one_f64(1.7976931348623157e308, "1.7976931348623157e308");

    one_f32(0.0f, "0.0");
    one_f32(2.0f, "2.0");
    one_f32(0.1f, "0.1");
    one_f32(1.25f, "1.25");
    one_f32(0.7f, "0.7");
    one_f32(16777216.0f, "16777216.0");
    one_f32(1e-45f, "1e-45");
    one_f32(3.4028235e38f, "3.4028235e38");
}


/* How many digits count: without sign, point, exponent and outer zeros. */
static unsigned
digits(const char *text)
{
    unsigned  n, zeros;

    n = 0;
    zeros = 0;

    for ( /* void */ ; *text != '\0' && *text != 'e'; text++) {

        if (!isdigit((unsigned char) *text)) {
            continue;
        }

        if (*text == '0') {
            zeros += n != 0;
            continue;
        }

        n += zeros + 1;
        zeros = 0;
    }

    return n;
}


/* One finite value of the given width: same bits back, no digit too many. */
static void
round_trip(double value, bool narrow)
{
    char            text[64], shortest[64];
    int             precision;
    double          back;
    sel_buf_t       buf;
    json_error_t    error;
    json_t         *parsed;
    sel_json_out_t  out;

    sel_buf_init(&buf);
    sel_json_out_init(&out, &buf);

    if (narrow) {
        sel_json_out_f32(&out, (float) value);

    } else {
        sel_json_out_f64(&out, value);
    }

    assert_in_range(buf.len, 1, sizeof(text) - 1);
    memcpy(text, buf.data, buf.len);
    text[buf.len] = '\0';
    sel_buf_free(&buf);

    parsed = json_loads(text, JSON_DECODE_ANY, &error);
    back = narrow ? (double) strtof(text, NULL) : strtod(text, NULL);

    if (!json_is_real(parsed) || memcmp(&back, &value, sizeof(back)) != 0) {
        fail_msg("%a was written as %s", value, text);
    }

    json_decref(parsed);

    for (precision = 0; /* void */ ; precision++) {
        snprintf(shortest, sizeof(shortest), "%.*e", precision, value);
        back = narrow ? (double) strtof(shortest, NULL)
                      : strtod(shortest, NULL);

        if (memcmp(&back, &value, sizeof(back)) == 0) {
            break;
        }
    }

    if (digits(text) > digits(shortest)) {
        fail_msg("%a was written as %s, longer than %s", value, text,
                 shortest);
    }
}


static void
test_float_round_trip(void **state)
{
    int                              i;
    double                           value;
    union { uint64_t u; double f; }  wide;
    union { uint32_t u; float f; }   narrow;

    for (i = 0; i < 30000; i++) {
        wide.u = sel_rand(&rnd);

        if (isfinite(wide.f)) {
            round_trip(wide.f, false);
        }

        narrow.u = (uint32_t) sel_rand(&rnd);

        if (isfinite(narrow.f)) {
            round_trip((double) narrow.f, true);
        }

        /* the values that loads and weights really have */
        value = (double) (int64_t) (sel_rand(&rnd) % 2000001 - 1000000);
        round_trip(value / 1000, false);
        round_trip(value, false);
        round_trip((double) (float) (value / 1000), true);
    }

    for (i = -1074; i <= 1023; i++) {
        round_trip(ldexp(1, i), false);

        if (i >= -149 && i <= 127) {
            round_trip(ldexp(1, i), true);
        }
    }
}


/* What is no number has no JSON form, but the reply must stay JSON. */
static void
test_not_finite(void **state)
{
    size_t          i;
    json_t         *parsed;
    sel_buf_t       buf;
    json_error_t    error;
    sel_json_out_t  out;

    static const double  values[] = { NAN, INFINITY, -INFINITY };

    for (i = 0; i < sel_countof(values); i++) {
        sel_buf_init(&buf);
        sel_json_out_init(&out, &buf);
        sel_json_out_array(&out);
        sel_json_out_f64(&out, values[i]);
        sel_json_out_f32(&out, (float) values[i]);
        sel_json_out_array_end(&out);

        parsed = json_loadb((char *) buf.data, buf.len, 0, &error);

        if (json_array_size(parsed) != 2) {
            fail_msg("wrote %.*s", (int) buf.len, (char *) buf.data);
        }

        json_decref(parsed);
        sel_buf_free(&buf);
    }
}


static void
one_text(sel_str_t str, const char *text)
{
    sel_buf_t       buf;
    sel_json_out_t  out;

    sel_buf_init(&buf);
    sel_json_out_init(&out, &buf);
    sel_json_out_str(&out, str);
    expect(&buf, text);
}


static void
test_strings(void **state)
{
    one_text(sel_str(""), "\"\"");
    one_text(sel_str("a/b \x7f"), "\"a/b \x7f\"");
    one_text(sel_str("\"\\"), "\"\\\"\\\\\"");
    one_text(sel_str("\b\f\n\r\t"), "\"\\b\\f\\n\\r\\t\"");
    one_text(sel_str("\0\x01\x1f"), "\"\\u0000\\u0001\\u001f\"");
    one_text(sel_str("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
             "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    one_text(sel_str("\xef\xbf\xbf\xf4\x8f\xbf\xbf"),
             "\"\xef\xbf\xbf\xf4\x8f\xbf\xbf\"");
    one_text(sel_str("a\xff" "b"), "\"a\xef\xbf\xbd" "b\"");
    one_text(sel_str("\x80" "b"), "\"\xef\xbf\xbd" "b\"");
}


/* Any bytes give JSON; what was text comes back unchanged. */
static void
test_broken_text(void **state)
{
    int             i;
    size_t          k, n;
    json_t         *parsed, *whole;
    uint8_t         bytes[24];
    sel_buf_t       buf;
    json_error_t    error;
    sel_json_out_t  out;

    static const uint8_t  likely[] = {
        'a', '"', '\\', 0x00, 0x1f, 0x7f, 0x80, 0xbf, 0xc0, 0xc3, 0xe0, 0xe2,
        0xed, 0x9f, 0xa0, 0xf0, 0x8f, 0x90, 0xf4, 0xf5, 0xff
    };

    for (i = 0; i < 30000; i++) {
        n = sel_rand_below(&rnd, sizeof(bytes));

        for (k = 0; k < n; k++) {
            bytes[k] = sel_rand(&rnd) & 1 ? (uint8_t) sel_rand(&rnd)
                       : likely[sel_rand_below(&rnd, sizeof(likely))];
        }

        sel_buf_init(&buf);
        sel_json_out_init(&out, &buf);
        sel_json_out_str(&out, (sel_str_t) { n, bytes });

        parsed = json_loadb((char *) buf.data, buf.len,
                            JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);

        if (!json_is_string(parsed)) {
            fail_msg("wrote %.*s: %s", (int) buf.len, (char *) buf.data,
                     error.text);
        }

        whole = json_stringn((char *) bytes, n);    /* NULL: no UTF-8 */

        if (whole != NULL) {
            assert_true(json_equal(parsed, whole));

        } else {
            assert_non_null(memmem(buf.data, buf.len, "\xef\xbf\xbd", 3));
        }

        json_decref(whole);
        json_decref(parsed);
        sel_buf_free(&buf);
    }
}


static const struct CMUnitTest  tests[] = {
    cmocka_unit_test(test_structure),
    cmocka_unit_test(test_array_first),
    cmocka_unit_test(test_integers),
    cmocka_unit_test(test_float_texts),
    cmocka_unit_test(test_float_round_trip),
    cmocka_unit_test(test_not_finite),
    cmocka_unit_test(test_strings),
    cmocka_unit_test(test_broken_text)
};


int
main(void)
{
    rnd.state = sel_rand_seed("json_write");

    return cmocka_run_group_tests(tests, NULL, NULL);
}
