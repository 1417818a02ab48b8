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


static uint64_t    seed;
static sel_rand_t  rnd;


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
    expect("[1,]", read_u32_list, SEL_JSON_SYNTAX, "", "trailing comma");
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


/* A number, or seldom something that no list of numbers takes. */
static void
random_element(FILE *doc, uint64_t *value, bool *fits32, bool *fits64,
    bool *is_hash)
{
    bool         minus;
    const char  *odd;

    static const char *const  odds[] = {
        "1.0", "1e2", "-0", "18446744073709551616", "99999999999999999999",
        "-9223372036854775809", "null", "\"7\"", "[]"
    };

    *value = sel_rand_wide(&rnd) >> (sel_rand_below(&rnd, 2) * 40);
    minus = *value != 0 && sel_rand_below(&rnd, 8) == 0;
    *fits32 = !minus && *value <= UINT32_MAX;
    *fits64 = !minus;
    *is_hash = !minus || *value <= (uint64_t) INT64_MAX + 1;

    if (sel_rand_below(&rnd, 40) == 0) {
        odd = odds[sel_rand_below(&rnd, sel_countof(odds))];
        fputs(odd, doc);
        *fits32 = *fits64 = *is_hash = false;
        return;
    }

    fprintf(doc, "%s%" PRIu64, minus ? "-" : "", *value);
    *value = minus ? 0 - *value : *value;
}


/* Each fault first, in the middle and last of a list long enough to run. */
static void
test_faults_on_the_way(void **state)
{
    static const char *const  faults[] = {
        "01", "00", "007", "0000000000", "00000000000000001", "1x", "1 2",
        "+1", "-", "--1", "-01", "1.", "1e", "", "1;", "1}", "0x1", "\"",
        "tru", "4294967295x", "1\v"
    };

    char    text[1024];
    size_t  i, k, place;

    static const size_t  places[] = { 0, 1, 20, 39, 40 };

    for (i = 0; i < sel_countof(faults); i++) {

        for (k = 0; k < sel_countof(places); k++) {
            strcpy(text, "[");

            for (place = 0; place <= 40; place++) {
                strcat(text, place != 0 ? "," : "");
                strcat(text, place == places[k] ? faults[i] : "12345");
            }

            strcat(text, "]");
            expect(text, read_u32_list, SEL_JSON_SYNTAX, "", NULL);
            expect(text, read_u64_list, SEL_JSON_SYNTAX, "", NULL);
            expect(text, read_hash_list, SEL_JSON_SYNTAX, "", NULL);
        }
    }
}


/* What must come out: the values, or nothing and the status DATA. */
static void
expect_list(const char *text, size_t len, sel_ways_read_pt read, bool ok,
    const char *values)
{
    sel_ways_t   ways;
    const char  *difference;

    difference = sel_ways_run(text, len, sel_rand(&rnd), read, &ways);

    if (difference != NULL) {
        fail_msg("%s", difference);
    }

    if (ways.status != (ok ? SEL_JSON_OK : SEL_JSON_DATA)
        || strcmp(ways.out, ok ? values : "") != 0)
    {
        fail_msg("%s: status %d (%s), read as %s", text, ways.status,
                 ways.message, ways.out);
    }

    sel_ways_free(&ways);
}


/*
 * Lists of numbers of all sizes, with blanks here and there, in one piece and
 * in segments: no way may differ, and every number comes out as it is.
 */
static void
test_random_lists(void **state)
{
    int        i;
    bool       fits32, fits64, is_hash, all32, all64, all_hash;
    char      *text, *values;
    FILE      *doc, *out;
    size_t     len, size;
    uint64_t   k, n, value;

    for (i = 0; i < 1500; i++) {
        doc = open_memstream(&text, &len);
        out = open_memstream(&values, &size);
        assert_true(doc != NULL && out != NULL);

        n = sel_rand_below(&rnd, 24);
        all32 = all64 = all_hash = true;
        fputc('[', doc);

        for (k = 0; k < n; k++) {
            fprintf(doc, "%s%*s", k != 0 ? "," : "",
                    (int) (sel_rand_below(&rnd, 12) % 3), "");
            random_element(doc, &value, &fits32, &fits64, &is_hash);
            fprintf(doc, "%*s", sel_rand_below(&rnd, 9) == 0, "");
            fprintf(out, "%" PRIu64 ";", value);
            all32 = all32 && fits32;
            all64 = all64 && fits64;
            all_hash = all_hash && is_hash;
        }

        fputs("]", doc);
        fprintf(out, "n=%" PRIu64, n);
        assert_int_equal(fclose(doc), 0);
        assert_int_equal(fclose(out), 0);

        expect_list(text, len, read_u32_list, all32, values);
        expect_list(text, len, read_u64_list, all64, values);
        expect_list(text, len, read_hash_list, all_hash, values);

        free(text);
        free(values);
    }
}


static const struct CMUnitTest  tests[] = {
    cmocka_unit_test(test_lists),
    cmocka_unit_test(test_first_fault),
    cmocka_unit_test(test_long_list),
    cmocka_unit_test(test_faults_on_the_way),
    cmocka_unit_test(test_random_lists)
};


int
main(void)
{
    seed = sel_rand_seed("json_lists");
    rnd.state = seed;

    return cmocka_run_group_tests(tests, NULL, NULL);
}
