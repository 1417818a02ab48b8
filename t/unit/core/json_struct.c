/*
 * Tables of members, the form in which every request is read.  Without it a
 * missing, repeated, null or mistyped member would be taken for something
 * else, or refused under another name than the client's own.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sel_expect.h"


typedef struct {
    uint64_t  given;
    uint32_t  level;
    uint32_t  depth;
} inner_t;


typedef struct {
    bool            flag;
    uint32_t        u32;
    uint64_t        u64;
    float           f32;
    double          f64;
    sel_str_t       text;
    sel_u32_list_t  tokens;
    sel_u64_list_t  ids;
    sel_u64_list_t  hashes;
    sel_str_list_t  names;
    uint32_t        mode;
    uint32_t        colour;
    inner_t         inner;
    uint64_t        custom;
    uint64_t        given;
} record_t;


static uint64_t  seed;


/* A string of decimal digits, or a fault of the callback's own. */
static bool
read_custom(sel_json_t *json, void *field)
{
    char       digits[24];
    sel_str_t  text;

    if (!sel_json_string(json, &text)) {
        return false;
    }

    if (text.len == 0 || text.len >= sizeof(digits)) {
        return sel_json_fail(json, "bad number of %d digits",
                             (int) text.len);
    }

    memcpy(digits, text.data, text.len);
    digits[text.len] = '\0';
    *(uint64_t *) field = strtoull(digits, NULL, 10);

    return true;
}


static bool
check_record(sel_json_t *json, void *data)
{
    record_t  *record;

    record = data;

    if (record->flag && record->u32 == 13) {
        return sel_json_fail(json, "flag and %u do not go together",
                             record->u32);
    }

    return true;
}


static const char *const  modes[] = { "required", "preferred", NULL };
static const char *const  colours[] = { "red", "green", "blue", NULL };

static const sel_json_member_t  inner_members[] = {
    { "level", SEL_JSON_M_U32, SEL_JSON_REQUIRED, offsetof(inner_t, level),
      NULL, NULL, NULL },
    { "depth", SEL_JSON_M_U32, 0, offsetof(inner_t, depth),
      NULL, NULL, NULL }
};

static const sel_json_struct_t  inner_type = {
    "struct Inner", inner_members, sel_countof(inner_members),
    offsetof(inner_t, given), NULL
};

#define MEMBER(name, kind, flags, names, object, call)                        \
    { #name, SEL_JSON_M_##kind, flags, offsetof(record_t, name), names,       \
      object, call }

static const sel_json_member_t  members[] = {
    MEMBER(flag, BOOL, SEL_JSON_NOT_NULL, NULL, NULL, NULL),
    MEMBER(u32, U32, 0, NULL, NULL, NULL),
    MEMBER(u64, U64, SEL_JSON_REQUIRED, NULL, NULL, NULL),
    MEMBER(f32, F32, 0, NULL, NULL, NULL),
    MEMBER(f64, F64, 0, NULL, NULL, NULL),
    MEMBER(text, STRING, SEL_JSON_NOT_NULL, NULL, NULL, NULL),
    MEMBER(tokens, U32_LIST, 0, NULL, NULL, NULL),
    MEMBER(ids, U64_LIST, 0, NULL, NULL, NULL),
    MEMBER(hashes, HASH_LIST, SEL_JSON_NOT_NULL, NULL, NULL, NULL),
    MEMBER(names, STRING_LIST, 0, NULL, NULL, NULL),
    MEMBER(mode, ENUM, 0, modes, NULL, NULL),
    MEMBER(colour, ENUM, SEL_JSON_NOT_NULL, colours, NULL, NULL),
    MEMBER(inner, OBJECT, 0, NULL, &inner_type, NULL),
    MEMBER(custom, CALL, 0, NULL, NULL, read_custom)
};

static const sel_json_struct_t  record_type = {
    "struct Record", members, sel_countof(members),
    offsetof(record_t, given), check_record
};


static void
defaults(record_t *record)
{
    memset(record, 0, sizeof(*record));
    record->u32 = 101;
    record->u64 = 102;
    record->f32 = 103;
    record->f64 = 104;
    record->text = sel_str("dflt");
    record->mode = 105;
    record->colour = 106;
    record->inner.level = 107;
    record->inner.depth = 108;
    record->custom = 109;
}


static void
print_lists(FILE *out, const record_t *record)
{
    uint32_t  i;

    for (i = 0; i < record->tokens.n; i++) {
        fprintf(out, " t%" PRIu32, record->tokens.data[i]);
    }

    for (i = 0; i < record->ids.n; i++) {
        fprintf(out, " i%" PRIu64, record->ids.data[i]);
    }

    for (i = 0; i < record->hashes.n; i++) {
        fprintf(out, " h%" PRIu64, record->hashes.data[i]);
    }

    for (i = 0; i < record->names.n; i++) {
        fprintf(out, " n%.*s", (int) record->names.data[i].len,
                (const char *) record->names.data[i].data);
    }
}


static void
read_record(sel_json_t *json, FILE *out)
{
    record_t  record;

    defaults(&record);

    if (!sel_json_read_struct(json, &record_type, &record)
        || !sel_json_end(json))
    {
        return;
    }

    fprintf(out, "given=%" PRIx64 " %d %" PRIu32 " %" PRIu64 " %g %g %.*s "
            "%" PRIu32 " %" PRIu32 " {%" PRIx64 " %" PRIu32 " %" PRIu32 "} "
            "%" PRIu64, record.given, record.flag, record.u32, record.u64,
            (double) record.f32, record.f64, (int) record.text.len,
            (const char *) record.text.data, record.mode, record.colour,
            record.inner.given, record.inner.level, record.inner.depth,
            record.custom);
    print_lists(out, &record);
}


static void
good(const char *text, const char *out)
{
    sel_expect(text, read_record, SEL_JSON_OK, out, NULL, seed);
}


static void
syntax(const char *text)
{
    sel_expect(text, read_record, SEL_JSON_SYNTAX, "", NULL, seed);
}


static void
data(const char *text, const char *words)
{
    sel_expect(text, read_record, SEL_JSON_DATA, "", words, seed);
}


static void
test_members(void **state)
{
    good("{\"u64\":18446744073709551615}",
         "given=4 0 101 18446744073709551615 103 104 dflt 105 106 "
         "{0 107 108} 109");

    good(" { \"custom\" : \"12345678901234567890\" , \"inner\" : "
         "{ \"level\" : 4 , \"depth\" : 9 } , \"colour\" : \"blue\" , "
         "\"mode\" : \"preferred\" , \"names\" : [ \"x\" , \"y\" ] , "
         "\"hashes\" : [ -1 , 7 ] , \"ids\" : [ 18446744073709551615 ] , "
         "\"tokens\" : [ 1 , 2 , 3 ] , \"text\" : \"\" , \"f64\" : 1.5 , "
         "\"f32\" : 2 , \"u64\" : 1 , \"u32\" : 4294967295 , "
         "\"flag\" : true } ",
         "given=3fff 1 4294967295 1 2 1.5  1 2 {3 4 9} 12345678901234567890 "
         "t1 t2 t3 i18446744073709551615 h18446744073709551615 h7 nx ny");

    /* an empty list is given; escapes in keys are resolved */
    good("{\"\\u00754\\u0030\":0,\"\\u0075\\u00364\":1,\"tokens\":[]}",
         "given=44 0 101 1 103 104 dflt 105 106 {0 107 108} 109");
}


static void
test_unknown_members(void **state)
{
    good("{\"x\":{\"u64\":[1,{\"u64\":2}],\"y\":null},\"u64\":5,\"x\":1,"
         "\"U64\":9,\"u64 \":9,\"\":9,\"u6\":9,\"u640\":9,"
         "\"u64\\u0000\":9}",
         "given=4 0 101 5 103 104 dflt 105 106 {0 107 108} 109");

    syntax("{\"u64\":5,\"x\":tru}");
    syntax("{\"u64\":5,\"x\":[1,]}");
    syntax("{\"u64\":5,\"x\":\"\xff\"}");
    syntax("{\"u64\":5,\"x\":\"\\ud800\"}");
    syntax("{\"u64\":5,\"\xed\xa0\x80\":1}");
}


static void
test_required(void **state)
{
    data("{}", "missing field `u64`");
    data("{\"u32\":1}", "missing field `u64`");
    data("{\"u64\":null}", "u64");
    data("{\"u64\":1,\"inner\":{}}", "missing field `level`");
    data("{\"u64\":1,\"inner\":{\"depth\":2}}", "inner");

    /* what is missing shows only at the end of the object */
    syntax("{\"u32\":1");
    syntax("{\"u32\":1,}");
    data("{\"u32\":1} x", "missing field `u64`");
}


static void
test_null(void **state)
{
    good("{\"u32\":null,\"u64\":1,\"f32\":null,\"f64\":null,\"tokens\":null,"
         "\"ids\":null,\"names\":null,\"mode\":null,\"inner\":null,"
         "\"custom\":null}",
         "given=4 0 101 1 103 104 dflt 105 106 {0 107 108} 109");

    good("{\"u64\":1,\"inner\":{\"level\":2,\"depth\":null}}",
         "given=1004 0 101 1 103 104 dflt 105 106 {1 2 108} 109");

    data("{\"u64\":1,\"flag\":null}", "flag");
    data("{\"u64\":1,\"text\":null}",
         "invalid type: null, expected a string");
    data("{\"u64\":1,\"hashes\":null}",
         "invalid type: null, expected a sequence");
    data("{\"u64\":1,\"colour\":null}", "colour");
    syntax("{\"u64\":1,\"u32\":nul}");
}


static void
test_repeated(void **state)
{
    data("{\"u64\":1,\"u64\":1}", "duplicate field `u64`");
    data("{\"u64\":1,\"\\u00754\":0,\"u\\u00364\":1}",
         "duplicate field `u64`");
    data("{\"u32\":null,\"u64\":1,\"u32\":null}", "duplicate field `u32`");
    data("{\"custom\":\"1\",\"custom\":\"1\"}", "duplicate field `custom`");
    data("{\"u64\":1,\"inner\":{\"level\":1,\"level\":1}}",
         "duplicate field `level`");
    data("{\"u64\":1,\"u64\":1", "duplicate field `u64`");
    syntax("{\"u64\":1,\"u64");
}


static void
test_types(void **state)
{
    data("{\"u64\":1.0}",
         "u64: invalid type: floating point `1.0`, expected u64 at line 1");
    data("{\"u64\":\"1\"}",
         "u64: invalid type: string \"1\", expected u64 at line 1 column ");
    data("{\"u64\":-1}", "u64: invalid value: integer `-1`, expected u64");
    data("{\"u32\":4294967296}",
         "u32: invalid value: integer `4294967296`, expected u32");
    data("{\"flag\":0}", "flag: invalid type: integer `0`");
    data("{\"f32\":\"1\"}", "f32: invalid type: string \"1\"");
    data("{\"f64\":true}", "f64: invalid type: boolean `true`");
    data("{\"text\":[]}", "text: invalid type: sequence");
    data("{\"tokens\":[1,\"2\"]}", "invalid type: string \"2\", expected u32");
    data("{\"tokens\":[1,-2]}", "tokens");
    data("{\"tokens\":1}",
         "tokens: invalid type: integer `1`, expected a sequence");
    data("{\"ids\":[-1]}", "ids");
    data("{\"hashes\":[18446744073709551616]}", "hashes");
    data("{\"names\":[\"a\",1]}", "names");
    data("{\"custom\":1}", "custom: invalid type: integer `1`");
    data("{\"u64\":1,\"inner\":[]}", "inner: invalid type: sequence, "
         "expected struct Inner");
    data("[]", "invalid type: sequence, expected struct Record");
    data("null", "invalid type: null, expected struct Record");
    data("\"x\"", "expected struct Record");
    syntax("");
    syntax("{\"u64\":1e999}");
    syntax("{\"u64\":}");
    syntax("{\"tokens\":[1,\"2]}");
}


static void
test_enum(void **state)
{
    good("{\"u64\":1,\"mode\":\"required\",\"colour\":\"gr\\u0065en\"}",
         "given=c04 0 101 1 103 104 dflt 0 1 {0 107 108} 109");

    data("{\"mode\":\"x\"}", "mode: unknown variant `x`, expected `required` "
         "or `preferred` at line 1 column ");
    data("{\"mode\":\"\"}", "mode: unknown variant ``");
    data("{\"mode\":\"Required\"}", "unknown variant `Required`");
    data("{\"mode\":\"require\"}", "unknown variant `require`");
    data("{\"mode\":\"required\\u0000\"}", "unknown variant `required");
    data("{\"colour\":\"pink\"}", "colour: unknown variant `pink`, expected "
         "one of `red`, `green`, `blue` at line 1 column ");
    data("{\"mode\":1}", "mode");
    data("{\"mode\":[\"required\"]}", "mode");
}


static void
test_path(void **state)
{
    data("{\"u64\":1,\"inner\":{\"level\":\"x\"}}",
         "inner.level: invalid type: string \"x\", expected u32 at line 1 ");
    data("{\"u64\":1,\n\"inner\":{\"level\":2,\n\"depth\":-2}}",
         "inner.depth: invalid value: integer `-2`, expected u32 at line 3 ");
    data("{\"u64\":1,\"custom\":\"\"}",
         "custom: bad number of 0 digits at line 1 column ");

    /* the path is left again */
    data("{\"u64\":1,\"inner\":{\"level\":2},\"u32\":-2}", "u32: invalid");
}


static void
test_check(void **state)
{
    good("{\"u64\":1,\"flag\":true,\"u32\":12}",
         "given=7 1 12 1 103 104 dflt 105 106 {0 107 108} 109");
    data("{\"flag\":true,\"u32\":13,\"u64\":1}",
         "flag and 13 do not go together at line 1 column ");
    data("{\"flag\":true,\"u32\":13}", "missing field `u64`");
    syntax("{\"flag\":true,\"u32\":13");
}


/* Names and strings of any length in a message must not overflow it. */
static void
test_long_values(void **state)
{
    char  text[4096];

    memset(text, 'y', sizeof(text));
    memcpy(text, "{\"mode\":\"", 9);
    memcpy(&text[sizeof(text) - 3], "\"}", 3);
    data(text, "mode: unknown variant `yyyy");

    memset(text, 'y', sizeof(text));
    memcpy(text, "{\"u64\":1,\"", 10);
    memcpy(&text[sizeof(text) - 8], "\":tru }", 8);
    syntax(text);
}


static const struct CMUnitTest  tests[] = {
    cmocka_unit_test(test_members),
    cmocka_unit_test(test_unknown_members),
    cmocka_unit_test(test_required),
    cmocka_unit_test(test_null),
    cmocka_unit_test(test_repeated),
    cmocka_unit_test(test_types),
    cmocka_unit_test(test_enum),
    cmocka_unit_test(test_path),
    cmocka_unit_test(test_check),
    cmocka_unit_test(test_long_values)
};


int
main(void)
{
    seed = sel_rand_seed("json_struct");

    return cmocka_run_group_tests(tests, NULL, NULL);
}
