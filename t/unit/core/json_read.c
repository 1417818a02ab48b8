/*
 * Values, containers, limits and refusals of the JSON reader.  Without it a
 * request with a 64-bit hash would be read through a double, a body that is
 * cut between two buffers would read differently from one that is not, and a
 * refusal would come with the wrong status (400 and 422 are told apart here).
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sel_expect.h"


static uint64_t  seed;


/* Every reader prints only what it got, so a false success shows. */

static void
read_skip(sel_json_t *json, FILE *out)
{
    if (sel_json_skip(json) && sel_json_end(json)) {
        fprintf(out, "skipped");
    }
}


static void
read_bool(sel_json_t *json, FILE *out)
{
    bool  value;

    if (sel_json_bool(json, &value) && sel_json_end(json)) {
        fprintf(out, "%s", value ? "true" : "false");
    }
}


static void
read_null(sel_json_t *json, FILE *out)
{
    if (sel_json_null(json) && sel_json_end(json)) {
        fprintf(out, "null");
    }
}


static void
read_u32(sel_json_t *json, FILE *out)
{
    uint32_t  value;

    if (sel_json_u32(json, &value) && sel_json_end(json)) {
        fprintf(out, "%" PRIu32, value);
    }
}


static void
read_u64(sel_json_t *json, FILE *out)
{
    uint64_t  value;

    if (sel_json_u64(json, &value) && sel_json_end(json)) {
        fprintf(out, "%" PRIu64, value);
    }
}


static void
read_i64(sel_json_t *json, FILE *out)
{
    int64_t  value;

    if (sel_json_i64(json, &value) && sel_json_end(json)) {
        fprintf(out, "%" PRId64, value);
    }
}


static void
read_hash(sel_json_t *json, FILE *out)
{
    uint64_t  value;

    if (sel_json_hash(json, &value) && sel_json_end(json)) {
        fprintf(out, "%" PRIu64, value);
    }
}


static void
read_f64(sel_json_t *json, FILE *out)
{
    double  value;

    if (sel_json_f64(json, &value) && sel_json_end(json)) {
        fprintf(out, "%.17g", value);
    }
}


static void
read_f32(sel_json_t *json, FILE *out)
{
    float  value;

    if (sel_json_f32(json, &value) && sel_json_end(json)) {
        fprintf(out, "%.9g", (double) value);
    }
}


static void
print_str(FILE *out, sel_str_t text)
{
    size_t  i;

    for (i = 0; i < text.len; i++) {
        fprintf(out, text.data[i] > 0x20 && text.data[i] < 0x7f ? "%c"
                     : "<%02x>", text.data[i]);
    }
}


static void
read_string(sel_json_t *json, FILE *out)
{
    sel_str_t  value;

    if (sel_json_string(json, &value) && sel_json_end(json)) {
        print_str(out, value);
    }
}


static void
test_u64(void **state)
{
    static const sel_expect_t  rows[] = {
        { read_u64, "0", SEL_JSON_OK, "0", NULL },
        { read_u64, "9007199254740993", SEL_JSON_OK, "9007199254740993",
          NULL },
        { read_u64, "9223372036854775807", SEL_JSON_OK,
          "9223372036854775807", NULL },
        { read_u64, "9223372036854775808", SEL_JSON_OK,
          "9223372036854775808", NULL },
        { read_u64, "18446744073709551615", SEL_JSON_OK,
          "18446744073709551615", NULL },
        { read_u64, " \t\r\n18446744073709551614\n ", SEL_JSON_OK,
          "18446744073709551614", NULL },
        { read_u64, "18446744073709551616", SEL_JSON_DATA, "",
          "expected u64" },
        { read_u64, "99999999999999999999999", SEL_JSON_DATA, "",
          "expected u64" },
        { read_u64, "-1", SEL_JSON_DATA, "",
          "invalid value: integer `-1`, expected u64" },
        { read_u64, "1.0", SEL_JSON_DATA, "",
          "invalid type: floating point `1.0`, expected u64" },
        { read_u64, "1e3", SEL_JSON_DATA, "", "expected u64" },
        { read_u64, "1E0", SEL_JSON_DATA, "", "expected u64" },
        { read_u64, "-0.0", SEL_JSON_DATA, "", "expected u64" },
        { read_u64, "-0", SEL_JSON_DATA, "",
          "invalid type: floating point `-0.0`, expected u64" },
        { read_u64, "\"1\"", SEL_JSON_DATA, "",
          "invalid type: string \"1\", expected u64" },
        { read_u64, "null", SEL_JSON_DATA, "",
          "invalid type: null, expected u64" },
        { read_u64, "true", SEL_JSON_DATA, "",
          "invalid type: boolean `true`, expected u64" },
        { read_u64, "[1]", SEL_JSON_DATA, "",
          "invalid type: sequence, expected u64" },
        { read_u64, "{\"a\":1}", SEL_JSON_DATA, "",
          "invalid type: map, expected u64" },
        { read_u64, "1e999", SEL_JSON_SYNTAX, "", "number out of range" },
        { read_u64, "01", SEL_JSON_SYNTAX, "", "invalid number" },
        { read_u64, "1 2", SEL_JSON_SYNTAX, "", "trailing characters" },
        { read_u64, "1x", SEL_JSON_SYNTAX, "", NULL },
        { read_u64, "", SEL_JSON_SYNTAX, "", "EOF while parsing a value" },
        { read_u64, " \n ", SEL_JSON_SYNTAX, "", "EOF while parsing" }
    };

    sel_expect_rows(rows, sel_countof(rows), seed);
}


static void
test_other_integers(void **state)
{
    static const sel_expect_t  rows[] = {
        { read_u32, "0", SEL_JSON_OK, "0", NULL },
        { read_u32, "4294967295", SEL_JSON_OK, "4294967295", NULL },
        { read_u32, "4294967296", SEL_JSON_DATA, "",
          "invalid value: integer `4294967296`, expected u32" },
        { read_u32, "18446744073709551616", SEL_JSON_DATA, "",
          "expected u32" },
        { read_u32, "-1", SEL_JSON_DATA, "",
          "invalid value: integer `-1`, expected u32" },
        { read_u32, "1.5", SEL_JSON_DATA, "",
          "invalid type: floating point `1.5`, expected u32" },

        { read_i64, "9223372036854775807", SEL_JSON_OK,
          "9223372036854775807", NULL },
        { read_i64, "-9223372036854775808", SEL_JSON_OK,
          "-9223372036854775808", NULL },
        { read_i64, "-1", SEL_JSON_OK, "-1", NULL },
        { read_i64, "9223372036854775808", SEL_JSON_DATA, "",
          "expected i64" },
        { read_i64, "-9223372036854775809", SEL_JSON_DATA, "",
          "expected i64" },
        { read_i64, "-1.0", SEL_JSON_DATA, "", "expected i64" },

        { read_hash, "18446744073709551615", SEL_JSON_OK,
          "18446744073709551615", NULL },
        { read_hash, "-1", SEL_JSON_OK, "18446744073709551615", NULL },
        { read_hash, "-9223372036854775808", SEL_JSON_OK,
          "9223372036854775808", NULL },
        { read_hash, "9223372036854775807", SEL_JSON_OK,
          "9223372036854775807", NULL },
        { read_hash, "9223372036854775808", SEL_JSON_OK,
          "9223372036854775808", NULL },
        { read_hash, "18446744073709551616", SEL_JSON_DATA, "", NULL },
        { read_hash, "-9223372036854775809", SEL_JSON_DATA, "", NULL },
        { read_hash, "1.0", SEL_JSON_DATA, "", NULL },
        { read_hash, "1e3", SEL_JSON_DATA, "", NULL },
        { read_hash, "\"5\"", SEL_JSON_DATA, "", NULL }
    };

    sel_expect_rows(rows, sel_countof(rows), seed);
}


static void
test_floats(void **state)
{
    static const sel_expect_t  rows[] = {
        { read_f64, "0", SEL_JSON_OK, "0", NULL },
        { read_f64, "-0", SEL_JSON_OK, "-0", NULL },
        { read_f64, "-0.0", SEL_JSON_OK, "-0", NULL },
        { read_f64, "1", SEL_JSON_OK, "1", NULL },
        { read_f64, "1e3", SEL_JSON_OK, "1000", NULL },
        { read_f64, "1E+3", SEL_JSON_OK, "1000", NULL },
        { read_f64, "125e-2", SEL_JSON_OK, "1.25", NULL },
        { read_f64, "0.1", SEL_JSON_OK, "0.10000000000000001", NULL },
        { read_f64, "9007199254740993", SEL_JSON_OK, "9007199254740992",
          NULL },
        { read_f64, "18446744073709551616", SEL_JSON_OK,
          "1.8446744073709552e+19", NULL },
        { read_f64, "-9223372036854775809", SEL_JSON_OK,
          "-9.2233720368547758e+18", NULL },
        { read_f64, "1.7976931348623157e308", SEL_JSON_OK,
          "1.7976931348623157e+308", NULL },
        { read_f64, "5e-324", SEL_JSON_OK, "4.9406564584124654e-324", NULL },
        { read_f64, "1e-999", SEL_JSON_OK, "0", NULL },
        { read_f64, "1e999", SEL_JSON_SYNTAX, "", "number out of range" },
        { read_f64, "-1e999", SEL_JSON_SYNTAX, "", "number out of range" },
        { read_f64, "1.8e308", SEL_JSON_SYNTAX, "", "number out of range" },
        { read_f64, "1e99999999999999999999", SEL_JSON_SYNTAX, "",
          "number out of range" },
        { read_f64, "0e99999999999999999999", SEL_JSON_OK, "0", NULL },
        { read_f64, "1e-99999999999999999999", SEL_JSON_OK, "0", NULL },
        { read_f64, "\"1\"", SEL_JSON_DATA, "", "expected f64" },
        { read_f64, "null", SEL_JSON_DATA, "", "expected f64" },

        { read_f32, "0.1", SEL_JSON_OK, "0.100000001", NULL },
        { read_f32, "2", SEL_JSON_OK, "2", NULL },
        { read_f32, "-0", SEL_JSON_OK, "-0", NULL },
        { read_f32, "16777217", SEL_JSON_OK, "16777216", NULL },
        { read_f32, "false", SEL_JSON_DATA, "", "expected f32" },
        { read_f32, "1e999", SEL_JSON_SYNTAX, "", NULL }
    };

    sel_expect_rows(rows, sel_countof(rows), seed);
}


static void
test_words_and_strings(void **state)
{
    static const sel_expect_t  rows[] = {
        { read_null, "null", SEL_JSON_OK, "null", NULL },
        { read_null, "0", SEL_JSON_DATA, "", NULL },
        { read_null, "nul", SEL_JSON_SYNTAX, "", NULL },
        { read_bool, "true", SEL_JSON_OK, "true", NULL },
        { read_bool, " false ", SEL_JSON_OK, "false", NULL },
        { read_bool, "1", SEL_JSON_DATA, "",
          "invalid type: integer `1`, expected a boolean" },
        { read_bool, "tru", SEL_JSON_SYNTAX, "", NULL },
        { read_bool, "truee", SEL_JSON_SYNTAX, "", NULL },
        { read_bool, "True", SEL_JSON_SYNTAX, "", "expected value" },

        { read_string, "\"\"", SEL_JSON_OK, "", NULL },
        { read_string, "\"abc\"", SEL_JSON_OK, "abc", NULL },
        { read_string, "\"a\\u0000b\"", SEL_JSON_OK, "a<00>b", NULL },
        { read_string, "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", SEL_JSON_OK,
          "\"\\/<08><0c><0a><0d><09>", NULL },
        { read_string, "\"\\u00e9\\u20AC\\ud83d\\uDE00\\uffff\"",
          SEL_JSON_OK, "<c3><a9><e2><82><ac><f0><9f><98><80><ef><bf><bf>",
          NULL },
        { read_string, "\"\x7f\xc2\x80\xf4\x8f\xbf\xbf\"", SEL_JSON_OK,
          "<7f><c2><80><f4><8f><bf><bf>", NULL },
        { read_string, "null", SEL_JSON_DATA, "",
          "invalid type: null, expected a string" },
        { read_string, "7", SEL_JSON_DATA, "",
          "invalid type: integer `7`, expected a string" },
        { read_string, "\"abc", SEL_JSON_SYNTAX, "",
          "EOF while parsing a string" }
    };

    sel_expect_rows(rows, sel_countof(rows), seed);
}


/* What no reader may take, neither a skipping one nor an asking one. */
static void
test_syntax(void **state)
{
    static const char *const  texts[] = {
        "", " ", "\xef\xbb\xbf" "1", "nul", "nulll", "NaN", "Infinity",
        "-Infinity", "inf", "+1", "-", "--1", "- 1", "01", "-01", "00", "1.",
        ".5", "1.e1", "1e", "1e+", "1e-", "1E +1", "0x10", "1_0", "1,",
        "1 1", "'a'", "\"", "\"\\", "\"\\\"", "\"\\x\"", "\"\\u\"",
        "\"\\u12\"", "\"\\u123\"", "\"\\u123g\"", "\"\\u 123\"",
        "\"\\u+123\"", "\"\\U0041\"", "\"\t\"", "\"\n\"", "\"\x01\"",
        "\"\x1f\"", "[", "]", "[1", "[1,", "[1,]", "[,1]", "[,]", "[1 2]",
        "[1;2]", "[1}", "[1]]", "{", "}", "{\"a\"", "{\"a\":", "{\"a\":1",
        "{\"a\":1,", "{\"a\":1,}", "{,}", "{\"a\" 1}", "{\"a\"=1}", "{a:1}",
        "{1:1}", "{null:1}", "{\"a\":1]", "{\"a\":1}}", "{\"a\":}",
        "{\"a\":1 \"b\":2}", "{\"a\":1,,\"b\":2}", "{\"a\"::1}",
        "[1]\f", "\v[1]", "\xc2\xa0[1]", "[1] // x", "/* x */ 1", "[1]\x01",
        "{\"a\":1} x", "true false", "[tru]", "[nan]", "{\"a\":fals}",
        "1e999", "[-1e999]", "{\"a\":1e99999999999999999999}"
    };

    static const sel_expect_t  nul_behind = {
        read_skip, "[1]\0", SEL_JSON_SYNTAX, "", NULL
    };

    static const sel_expect_t  nul_inside = {
        read_skip, "\"a\0b\"", SEL_JSON_SYNTAX, "", NULL
    };

    size_t  i;

    for (i = 0; i < sel_countof(texts); i++) {
        sel_expect(texts[i], read_skip, SEL_JSON_SYNTAX, "", NULL, seed);
    }

    sel_expect_bytes(&nul_behind, 4, seed);
    sel_expect_bytes(&nul_inside, 5, seed);
}


static void
test_skip(void **state)
{
    static const char *const  texts[] = {
        "null", "true", "false", "0", "-0", "-1", "1.5", "1e5", "1E-5",
        "123456789012345678901234567890", "\"\"", "\"\\u0041\"", "[]", "{}",
        "[[],{},[[]]]", "{\"a\":{\"b\":[1,2,{\"c\":null}]},\"a\":1}",
        "\t\r\n [ 1 , 2 ] \n", "{ \"a\" : [ ] , \"b\" : { } }",
        "{\"\":0,\"\\u0000\":1}"
    };

    size_t  i;

    for (i = 0; i < sel_countof(texts); i++) {
        sel_expect(texts[i], read_skip, SEL_JSON_OK, "skipped", NULL, seed);
    }
}


static const struct CMUnitTest  tests[] = {
    cmocka_unit_test(test_u64),
    cmocka_unit_test(test_other_integers),
    cmocka_unit_test(test_floats),
    cmocka_unit_test(test_words_and_strings),
    cmocka_unit_test(test_syntax),
    cmocka_unit_test(test_skip)
};


int
main(void)
{
    seed = sel_rand_seed("json_read");

    return cmocka_run_group_tests(tests, NULL, NULL);
}
