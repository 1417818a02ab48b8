/*
 * Containers, nesting, memory and faults of the JSON reader.  Without
 * it a body could exhaust the stack by nesting or the memory by a list,
 * and a fault would be reported at the wrong place or twice.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sel_expect.h"


static uint64_t  seed;


static void
expect(const char *text, sel_ways_read_pt read, sel_json_status_t status,
    const char *out, const char *words)
{
    sel_expect(text, read, status, out, words, seed);
}


static void
read_u32_list(sel_json_t *json, FILE *out)
{
    uint32_t        i;
    sel_u32_list_t  list;

    if (sel_json_u32_list(json, &list) && sel_json_end(json)) {

        for (i = 0; i < list.n; i++) {
            fprintf(out, "%" PRIu32 ";", list.data[i]);
        }

        fprintf(out, "n=%" PRIu32, list.n);
    }
}


static void
read_by_hand(sel_json_t *json, FILE *out)
{
    int        rc;
    bool       flag;
    sel_str_t  key;

    if (!sel_json_object_begin(json)) {
        return;
    }

    while ((rc = sel_json_object_next(json, &key)) == 1) {
        fprintf(out, "%.*s:%d ", (int) key.len, (const char *) key.data,
                (int) sel_json_peek(json));

        if (sel_json_peek(json) != SEL_JSON_ARRAY) {
            (void) sel_json_skip(json);
            continue;
        }

        (void) sel_json_array_begin(json);

        while ((rc = sel_json_array_next(json)) == 1) {
            fprintf(out, "%s ", sel_json_bool(json, &flag)
                                ? (flag ? "yes" : "no") : "?");
        }

        if (rc != 0) {
            break;
        }
    }

    fprintf(out, "rc=%d end=%d", rc, sel_json_end(json));
}


static void
test_containers(void **state)
{
    expect("{}", read_by_hand, SEL_JSON_OK, "rc=0 end=1", NULL);
    expect(" { \"n\" : null , \"b\":true,\"i\":-1,\"s\":\"x\",\"o\":{},"
           "\"a\" : [ true , false ] , \"e\":[ ] } ", read_by_hand,
           SEL_JSON_OK, "n:1 b:2 i:3 s:4 o:6 a:5 yes no e:5 rc=0 end=1",
           NULL);
    expect("{\"a\":[true,1]}", read_by_hand, SEL_JSON_DATA,
           "a:5 yes ? rc=-1 end=0", "expected a boolean");
    expect("{\"a\":[true,false}", read_by_hand, SEL_JSON_SYNTAX,
           "a:5 yes no rc=-1 end=0", NULL);
    expect("{\"\\u0061\\n\":1}", read_by_hand, SEL_JSON_OK,
           "a\n:3 rc=0 end=1", NULL);
    expect("[]", read_by_hand, SEL_JSON_DATA, "", "invalid type: sequence");
    expect("{\"a\":1} ,", read_by_hand, SEL_JSON_SYNTAX, "a:3 rc=0 end=0",
           "trailing characters");
    expect("{\"\xc3(\":1}", read_by_hand, SEL_JSON_SYNTAX, "rc=-1 end=0",
           NULL);
}


static void
read_nested(sel_json_t *json, FILE *out)
{
    int        rc;
    sel_str_t  key;

    if (sel_json_peek(json) == SEL_JSON_ARRAY) {

        if (sel_json_array_begin(json)) {
            rc = sel_json_array_next(json);

            if (rc == 1) {
                read_nested(json, out);
                rc = sel_json_array_next(json);
            }

            fputs(rc == 0 ? "]" : "", out);
        }

    } else if (sel_json_object_begin(json)) {
        rc = sel_json_object_next(json, &key);

        if (rc == 1) {
            read_nested(json, out);
            rc = sel_json_object_next(json, &key);
        }

        fputs(rc == 0 ? "}" : "", out);
    }
}


static void
read_skipped(sel_json_t *json, FILE *out)
{
    if (sel_json_skip(json) && sel_json_end(json)) {
        fprintf(out, "skipped");
    }
}


static void
read_members(sel_json_t *json, FILE *out)
{
    int        rc;
    sel_str_t  key;

    if (!sel_json_object_begin(json)) {
        return;
    }

    while ((rc = sel_json_object_next(json, &key)) == 1) {
        (void) sel_json_skip(json);
    }

    fprintf(out, "rc=%d end=%d", rc, sel_json_end(json));
}


/* depth containers, of one kind ('[' or '{') or of both in turn */
static void
nest(char *text, unsigned depth, char kind)
{
    size_t    len;
    unsigned  i;

    len = 0;

    for (i = 0; i < depth; i++) {

        if (kind == '[' || (kind == 'x' && i % 2 != 0)) {
            text[len++] = '[';

        } else if (i == depth - 1) {
            text[len++] = '{';

        } else {
            len += (size_t) sprintf(&text[len], "{\"k\":");
        }
    }

    for (i = depth; i-- != 0; /* void */ ) {
        text[len++] = kind == '[' || (kind == 'x' && i % 2 != 0) ? ']' : '}';
    }

    text[len] = '\0';
}


static void
test_depth(void **state)
{
    static const char  kinds[] = { '[', '{', 'x' };

    char      text[4096], member[4200];
    size_t    i;
    unsigned  depth;

    for (i = 0; i < sizeof(kinds); i++) {

        for (depth = 126; depth <= 130; depth++) {
            nest(text, depth, kinds[i]);

            expect(text, read_skipped, depth <= SEL_JSON_MAX_DEPTH
                   ? SEL_JSON_OK : SEL_JSON_SYNTAX, NULL, NULL);
            expect(text, read_nested, depth <= SEL_JSON_MAX_DEPTH
                   ? SEL_JSON_OK : SEL_JSON_SYNTAX, NULL, NULL);

            sprintf(member, "{\"a\":0,\"o\":%s}", text);
            expect(member, read_members, depth < SEL_JSON_MAX_DEPTH
                   ? SEL_JSON_OK : SEL_JSON_SYNTAX, NULL, NULL);
        }
    }

    memset(text, '[', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    expect(text, read_skipped, SEL_JSON_SYNTAX, "", "recursion limit");

    /* depth counts what is open, not what was seen */
    memset(text, '\0', sizeof(text));
    text[0] = '[';

    for (i = 0; i < 1000; i++) {
        strcat(text, "[],");
    }

    strcat(text, "{}]");
    expect(text, read_skipped, SEL_JSON_OK, "skipped", NULL);
}


static void
read_mismatch(sel_json_t *json, FILE *out)
{
    fprintf(out, "%d", sel_json_mismatch(json, "a rank"));
}


static void
test_mismatch(void **state)
{
    expect("1.5", read_mismatch, SEL_JSON_DATA, "0",
           "invalid type: floating point `1.5`, expected a rank at line 1");
    expect("-3", read_mismatch, SEL_JSON_DATA, "0",
           "invalid type: integer `-3`, expected a rank at line 1");
    expect("null", read_mismatch, SEL_JSON_DATA, "0",
           "invalid type: null, expected a rank at line 1");
    expect("[1,2]", read_mismatch, SEL_JSON_DATA, "0",
           "invalid type: sequence, expected a rank at line 1");
    expect("{}", read_mismatch, SEL_JSON_DATA, "0",
           "invalid type: map, expected a rank at line 1");
    expect("\"a\\u0062\"", read_mismatch, SEL_JSON_DATA, "0",
           "invalid type: string \"ab\", expected a rank at line 1");
    expect("\"a\\x\"", read_mismatch, SEL_JSON_SYNTAX, "0", NULL);
    expect("[1,tru]", read_mismatch, SEL_JSON_SYNTAX, "0", NULL);
    expect("{\"a\"}", read_mismatch, SEL_JSON_SYNTAX, "0", NULL);
    expect("", read_mismatch, SEL_JSON_SYNTAX, "0", "EOF while parsing");
}


static void
read_complaint(sel_json_t *json, FILE *out)
{
    uint64_t  value;

    (void) sel_json_u64(json, &value);
    fprintf(out, "%d", sel_json_fail(json, "%s must be at most %d", "it", 5));

    /* nothing goes on after a failure, and the first word stays */
    fprintf(out, "%d%d%d%d", sel_json_skip(json),
            sel_json_u64(json, &value), sel_json_array_next(json),
            sel_json_fail(json, "other"));
    fprintf(out, "%d", sel_json_peek(json));
}


static void
test_fail(void **state)
{
    expect("7 8", read_complaint, SEL_JSON_DATA, "000-100",
           "it must be at most 5 at line 1 column ");
}


static void
test_place(void **state)
{
    expect("[1,\n2,\n\n  x]", read_u32_list, SEL_JSON_SYNTAX, "",
           " at line 4 column 3");
    expect("\n\n[1,-2]", read_u32_list, SEL_JSON_DATA, "",
           " at line 3 column ");
    expect("[]\r\n\t\"", read_u32_list, SEL_JSON_SYNTAX, "",
           "trailing characters at line 2 column 2");
}


/* A string of any length in a message must not overflow it. */
static void
test_long_message(void **state)
{
    char  text[4096];

    memset(text, 'x', sizeof(text));
    text[0] = '"';
    text[sizeof(text) - 2] = '"';
    text[sizeof(text) - 1] = '\0';

    expect(text, read_u32_list, SEL_JSON_DATA, "", "invalid type: string");
}


static void
test_memory(void **state)
{
    char         text[32768];
    size_t       i;
    sel_json_t   json;
    sel_arena_t  arena;

    union {
        sel_u32_list_t  numbers;
        sel_str_list_t  strings;
        sel_str_t       string;
    } value;

    text[0] = '[';

    for (i = 1; i < sizeof(text) - 2; i += 2) {
        text[i] = '7';
        text[i + 1] = ',';
    }

    text[sizeof(text) - 3] = '7';
    text[sizeof(text) - 2] = ']';

    sel_arena_init(&arena, 16384);
    sel_json_init_text(&json, &arena,
                       (sel_str_t) { sizeof(text) - 1, (uint8_t *) text });
    assert_false(sel_json_u32_list(&json, &value.numbers));
    assert_int_equal(json.status, SEL_JSON_NO_MEMORY);
    assert_false(sel_json_end(&json));
    sel_arena_free(&arena);

    memset(text, 'a', sizeof(text));
    text[0] = '"';
    text[1] = '\\';
    text[2] = 'n';
    text[sizeof(text) - 1] = '"';

    sel_arena_init(&arena, 16384);
    sel_json_init_text(&json, &arena,
                       (sel_str_t) { sizeof(text), (uint8_t *) text });
    assert_false(sel_json_string(&json, &value.string));
    assert_int_equal(json.status, SEL_JSON_NO_MEMORY);
    sel_arena_free(&arena);
}


static const struct CMUnitTest  tests[] = {
    cmocka_unit_test(test_containers),
    cmocka_unit_test(test_depth),
    cmocka_unit_test(test_mismatch),
    cmocka_unit_test(test_fail),
    cmocka_unit_test(test_place),
    cmocka_unit_test(test_long_message),
    cmocka_unit_test(test_memory)
};


int
main(void)
{
    seed = sel_rand_seed("json_containers");

    return cmocka_run_group_tests(tests, NULL, NULL);
}
