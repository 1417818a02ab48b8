/*
 * Lists of the JSON reader, the form of token ids and hashes.  Without it the
 * hot path could lose an element between two buffers, take a token id that is
 * no u32 or answer 400 where the element is merely of the wrong type.
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
print_u64_list(FILE *out, sel_u64_list_t list)
{
    uint32_t  i;

    for (i = 0; i < list.n; i++) {
        fprintf(out, "%" PRIu64 ";", list.data[i]);
    }

    fprintf(out, "n=%" PRIu32, list.n);
}


static void
read_u64_list(sel_json_t *json, FILE *out)
{
    sel_u64_list_t  list;

    if (sel_json_u64_list(json, &list) && sel_json_end(json)) {
        print_u64_list(out, list);
    }
}


static void
read_hash_list(sel_json_t *json, FILE *out)
{
    sel_u64_list_t  list;

    if (sel_json_hash_list(json, &list) && sel_json_end(json)) {
        print_u64_list(out, list);
    }
}


static void
read_string_list(sel_json_t *json, FILE *out)
{
    uint32_t        i;
    sel_str_list_t  list;

    if (sel_json_string_list(json, &list) && sel_json_end(json)) {

        for (i = 0; i < list.n; i++) {
            fwrite(list.data[i].data, 1, list.data[i].len, out);
            fprintf(out, ";");
        }

        fprintf(out, "n=%" PRIu32, list.n);
    }
}


static void
test_lists(void **state)
{
    expect(" [ ] ", read_u32_list, SEL_JSON_OK, "n=0", NULL);
    expect("[0,4294967295, 7 ]", read_u32_list, SEL_JSON_OK,
           "0;4294967295;7;n=3", NULL);
    expect("[1,4294967296]", read_u32_list, SEL_JSON_DATA, "",
           "invalid value: integer `4294967296`, expected u32");
    expect("[1,-1]", read_u32_list, SEL_JSON_DATA, "", "expected u32");
    expect("[1,1.0]", read_u32_list, SEL_JSON_DATA, "", "expected u32");
    expect("[1,1e2]", read_u32_list, SEL_JSON_DATA, "", "expected u32");
    expect("[1,null]", read_u32_list, SEL_JSON_DATA, "", "expected u32");
    expect("[1,\"2\"]", read_u32_list, SEL_JSON_DATA, "", "expected u32");
    expect("[1,[2]]", read_u32_list, SEL_JSON_DATA, "", "expected u32");
    expect("[1,02]", read_u32_list, SEL_JSON_SYNTAX, "", NULL);
    expect("[1 2]", read_u32_list, SEL_JSON_SYNTAX, "", NULL);
    expect("[1,]", read_u32_list, SEL_JSON_SYNTAX, "", NULL);
    expect("[,1]", read_u32_list, SEL_JSON_SYNTAX, "", NULL);
    expect("[1", read_u32_list, SEL_JSON_SYNTAX, "", "EOF while parsing");
    expect("[", read_u32_list, SEL_JSON_SYNTAX, "", "EOF while parsing");
    expect("7", read_u32_list, SEL_JSON_DATA, "",
           "invalid type: integer `7`, expected a sequence");
    expect("{}", read_u32_list, SEL_JSON_DATA, "", "expected a sequence");
    expect("null", read_u32_list, SEL_JSON_DATA, "", "expected a sequence");
    expect("\"12\"", read_u32_list, SEL_JSON_DATA, "",
           "expected a sequence");

    expect("[18446744073709551615,0]", read_u64_list, SEL_JSON_OK,
           "18446744073709551615;0;n=2", NULL);
    expect("[18446744073709551616]", read_u64_list, SEL_JSON_DATA, "",
           NULL);
    expect("[-1]", read_u64_list, SEL_JSON_DATA, "", "expected u64");

    expect("[-1,18446744073709551615,-9223372036854775808]", read_hash_list,
           SEL_JSON_OK,
           "18446744073709551615;18446744073709551615;"
           "9223372036854775808;n=3", NULL);
    expect("[-9223372036854775809]", read_hash_list, SEL_JSON_DATA, "",
           NULL);
    expect("[1,18446744073709551616]", read_hash_list, SEL_JSON_DATA, "",
           NULL);

    expect("[\"a\",\"\",\"\\u00e9\\n\"]", read_string_list, SEL_JSON_OK,
           "a;;\xc3\xa9\n;n=3", NULL);
    expect("[\"a\",null]", read_string_list, SEL_JSON_DATA, "",
           "invalid type: null, expected a string");
    expect("[\"a\",1]", read_string_list, SEL_JSON_DATA, "",
           "expected a string");
}


/* The first fault in document order decides between 400 and 422. */
static void
test_first_fault(void **state)
{
    expect("[1,-1,tru]", read_u32_list, SEL_JSON_DATA, "", NULL);
    expect("[1,tru,-1]", read_u32_list, SEL_JSON_SYNTAX, "", NULL);
    expect("[1,-1] x", read_u32_list, SEL_JSON_DATA, "", NULL);
    expect("[1,-1", read_u32_list, SEL_JSON_DATA, "", NULL);
    expect("[1,\"\\x\"]", read_u32_list, SEL_JSON_SYNTAX, "", NULL);
    expect("[\"\xff\",1]", read_u32_list, SEL_JSON_SYNTAX, "", NULL);
}


static void
test_long_list(void **state)
{
    enum { N = 20000 };

    char        *text;
    FILE        *doc;
    size_t       len;
    uint64_t     i;
    sel_ways_t   ways;
    const char  *difference;

    doc = open_memstream(&text, &len);
    assert_non_null(doc);
    fprintf(doc, "[");

    for (i = 0; i < N; i++) {
        fprintf(doc, "%s%" PRIu64, i != 0 ? "," : "", i * 214748);
    }

    fprintf(doc, "]");
    assert_int_equal(fclose(doc), 0);

    difference = sel_ways_run(text, len, seed, read_u32_list, &ways);

    if (difference != NULL) {
        fail_msg("%.500s", difference);
    }

    assert_int_equal(ways.status, SEL_JSON_OK);
    assert_non_null(strstr(ways.out, ";4294745252;n=20000"));
    assert_memory_equal(ways.out, "0;214748;429496;", 16);

    sel_ways_free(&ways);
    free(text);
}


static const struct CMUnitTest  tests[] = {
    cmocka_unit_test(test_lists),
    cmocka_unit_test(test_first_fault),
    cmocka_unit_test(test_long_list)
};


int
main(void)
{
    seed = sel_rand_seed("json_lists");

    return cmocka_run_group_tests(tests, NULL, NULL);
}
