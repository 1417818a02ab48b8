/*
 * The fast paths of token id arrays, which take many numbers at once.  Without
 * it a number could be cut, lost or taken though it is none, depending on
 * where in the 64 bytes of a window it happens to lie.  What segments of one
 * byte give, where nothing is fast, is the measure for all other ways.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sel_ways.h"


#define WINDOW   64
#define PLACES   (2 * WINDOW + 3)


/* An array while it is written, and what must be read from it. */
typedef struct {
    const char  *between;           /* its elements: "," or ", " */
    FILE        *text_file;
    FILE        *out_file;
    char        *text;
    char        *out;
    size_t       len;
    size_t       out_len;
    uint32_t     n;
} array_t;


/* One element, or what stands for it. */
typedef struct {
    const char         *text;
    sel_json_status_t   status;
    const char         *values;
} element_t;


static const char *const  betweens[] = { ",", ", " };

static const element_t  elements[] = {
    { "0", SEL_JSON_OK, "0" },
    { "9", SEL_JSON_OK, "9" },
    { "10", SEL_JSON_OK, "10" },
    { "908", SEL_JSON_OK, "908" },
    { "1234", SEL_JSON_OK, "1234" },
    { "50607", SEL_JSON_OK, "50607" },
    { "987654", SEL_JSON_OK, "987654" },
    { "1000000", SEL_JSON_OK, "1000000" },
    { "99999999", SEL_JSON_OK, "99999999" },
    { "100000000", SEL_JSON_OK, "100000000" },
    { "987654321", SEL_JSON_OK, "987654321" },
    { "1000000000", SEL_JSON_OK, "1000000000" },
    { "4294967295", SEL_JSON_OK, "4294967295" },
    { "4294967296", SEL_JSON_DATA, NULL },
    { "5123456789", SEL_JSON_DATA, NULL },
    { "9999999999", SEL_JSON_DATA, NULL },
    { "10000000000", SEL_JSON_DATA, NULL },
    { "42949672950", SEL_JSON_DATA, NULL },
    { "18446744073709551616", SEL_JSON_DATA, NULL },
    { "100000000000000000000000000000000000000000000000000000000000000000000",
      SEL_JSON_DATA, NULL },
    { "-1", SEL_JSON_DATA, NULL },
    { "-0", SEL_JSON_DATA, NULL },
    { "1.0", SEL_JSON_DATA, NULL },
    { "1e2", SEL_JSON_DATA, NULL },
    { "\"7\"", SEL_JSON_DATA, NULL },
    { "[7]", SEL_JSON_DATA, NULL },
    { "00", SEL_JSON_SYNTAX, NULL },
    { "01", SEL_JSON_SYNTAX, NULL },
    { "0123456789", SEL_JSON_SYNTAX, NULL },
    { "00000000", SEL_JSON_SYNTAX, NULL },
    { "", SEL_JSON_SYNTAX, NULL },
    { " ", SEL_JSON_SYNTAX, NULL },
    { "7,,8", SEL_JSON_SYNTAX, NULL },
    { "7, ,8", SEL_JSON_SYNTAX, NULL },
    { "7 8", SEL_JSON_SYNTAX, NULL },
    { "7;8", SEL_JSON_SYNTAX, NULL },
    { "7/", SEL_JSON_SYNTAX, NULL },
    { "7:", SEL_JSON_SYNTAX, NULL },
    { "7-", SEL_JSON_SYNTAX, NULL },
    { "+7", SEL_JSON_SYNTAX, NULL },
    { "7\xb8", SEL_JSON_SYNTAX, NULL },
    { "7,8", SEL_JSON_OK, "7;8" },
    { "7, 8", SEL_JSON_OK, "7;8" },
    { "7,  8", SEL_JSON_OK, "7;8" },
    { "7 ,8", SEL_JSON_OK, "7;8" },
    { "7 , 8", SEL_JSON_OK, "7;8" },
    { "7,\n8", SEL_JSON_OK, "7;8" },
    { "7\n, 8", SEL_JSON_OK, "7;8" },
    { "\n7", SEL_JSON_OK, "7" },
    { "7\n", SEL_JSON_OK, "7" },
    { " 7", SEL_JSON_OK, "7" },
    { "7 ", SEL_JSON_OK, "7" },
    { "\t7\r", SEL_JSON_OK, "7" },
    { "      7      ", SEL_JSON_OK, "7" }
};

static sel_rand_t  rnd;


static void
read_array(sel_json_t *json, FILE *out)
{
    uint32_t        i;
    sel_u32_list_t  list;

    if (sel_json_u32_list(json, &list) && sel_json_end(json)) {

        for (i = 0; i < list.n; i++) {
            fprintf(out, "%" PRIu32 ";", list.data[i]);
        }
    }
}


static void
array_begin(array_t *array, const char *between)
{
    array->between = between;
    array->n = 0;
    array->text_file = open_memstream(&array->text, &array->len);
    array->out_file = open_memstream(&array->out, &array->out_len);

    assert_true(array->text_file != NULL && array->out_file != NULL);

    fputs("[", array->text_file);
}


static void
array_add(array_t *array, const char *text, const char *values)
{
    if (array->n++ != 0) {
        fputs(array->between, array->text_file);
    }

    fputs(text, array->text_file);
    fprintf(array->out_file, "%s;", values != NULL ? values : "");
}


/* A number of so many digits. */
static void
array_digits(array_t *array, size_t digits)
{
    char    text[24];
    size_t  i;

    text[0] = (char) ('1' + sel_rand_below(&rnd, digits == 10 ? 3 : 9));

    for (i = 1; i < digits; i++) {
        text[i] = (char) ('0' + sel_rand_below(&rnd, 10));
    }

    text[digits] = '\0';
    array_add(array, text, text);
}


/* Numbers and what is behind each of them, of so many bytes. */
static void
array_fill(array_t *array, size_t bytes)
{
    size_t  least;

    least = 1 + strlen(array->between);

    while (bytes >= 2 * least) {
        array_digits(array, 1);
        bytes -= least;
    }

    if (bytes >= least) {
        array_digits(array, 1 + bytes - least);
    }
}


static void
array_end(array_t *array)
{
    fputs("]", array->text_file);

    assert_int_equal(fclose(array->text_file), 0);
    assert_int_equal(fclose(array->out_file), 0);
}


static void
array_free(array_t *array)
{
    free(array->text);
    free(array->out);
}


/* The array in one piece and in segments of this size, by the slow reader. */
static void
expect_same(const array_t *array, size_t size, sel_ways_t *slow)
{
    sel_ways_t  whole, parts;

    sel_ways_whole(array->text, array->len, read_array, &whole);
    sel_ways_parts(array->text, array->len, size, 0, read_array, &parts);
    sel_ways_parts(array->text, array->len, 1, 0, read_array, slow);

    if (!sel_ways_equal(&whole, slow) || !sel_ways_equal(&parts, slow)) {
        fail_msg("%s\nis read in single bytes as status %d (%s) %s\n"
                 "in one piece as status %d (%s) %s\n"
                 "in segments of %zu as status %d (%s) %s", array->text,
                 slow->status, slow->message, slow->out,
                 whole.status, whole.message, whole.out, size,
                 parts.status, parts.message, parts.out);
    }

    sel_ways_free(&whole);
    sel_ways_free(&parts);
}


static void
expect_array(const array_t *array, size_t size, sel_json_status_t status)
{
    sel_ways_t  ways;

    expect_same(array, size, &ways);

    if (ways.status != status
        || strcmp(ways.out, status == SEL_JSON_OK ? array->out : "") != 0)
    {
        fail_msg("%s: status %d (%s), read as %s", array->text, ways.status,
                 ways.message, ways.out);
    }

    sel_ways_free(&ways);
}


/* Each of them so that it begins at each byte of two windows. */
static void
test_every_place(void **state)
{
    size_t            i, k, place;
    array_t           array;
    const element_t  *element;

    for (k = 0; k < sel_countof(betweens); k++) {

        for (i = 0; i < sel_countof(elements); i++) {
            element = &elements[i];

            for (place = 0; place < PLACES; place++) {
                array_begin(&array, betweens[k]);
                array_fill(&array, place);
                array_add(&array, element->text, element->values);
                array_fill(&array, 2 * WINDOW + sel_rand_below(&rnd, WINDOW));
                array_end(&array);

                expect_array(&array, WINDOW + sel_rand_below(&rnd, 200),
                             element->status);
                array_free(&array);
            }
        }
    }
}


/* Lengths at which a list has to grow while numbers are taken by dozens. */
static void
test_growing(void **state)
{
    size_t    i, k, n, digits;
    array_t   array;

    static const size_t  steps[] = { 32, 64, 96, 128, 256, 512, 4096 };

    for (i = 0; i < sel_countof(steps) * sel_countof(betweens); i++) {

        for (n = steps[i / 2] - 2; n <= steps[i / 2] + 2; n++) {

            for (digits = 1; digits <= 10; digits += 3) {
                array_begin(&array, betweens[i % 2]);

                for (k = 0; k < n; k++) {
                    array_digits(&array, digits);
                }

                array_end(&array);
                expect_array(&array, 1000, SEL_JSON_OK);
                array_free(&array);
            }
        }
    }
}


/*
 * Segments of all sizes: most end inside a window, and a list has room for
 * part of one when the next begins.
 */
static void
test_segments(void **state)
{
    size_t    i, k, size, most;
    array_t   array;

    static const size_t  digits[] = { 1, 5, 10 };

    for (i = 0; i < sel_countof(digits) * sel_countof(betweens); i++) {
        most = digits[i / 2];

        for (size = 1; size <= 200; size++) {
            array_begin(&array, betweens[i % 2]);

            for (k = 0; k < 2000 / most; k++) {
                array_digits(&array, 1 + sel_rand_below(&rnd, most));
            }

            array_end(&array);
            expect_array(&array, size, SEL_JSON_OK);
            array_free(&array);
        }
    }
}


/* Every byte somewhere in an array; the slow reader knows what it means. */
static void
test_any_byte(void **state)
{
    int         i;
    size_t      k;
    array_t     array;
    sel_ways_t  ways;

    for (i = 0; i < 256 * 20; i++) {
        array_begin(&array, betweens[i % 2]);

        for (k = 0; k < 60; k++) {
            array_digits(&array, 1 + sel_rand_below(&rnd, 10));
        }

        array_end(&array);
        array.text[1 + sel_rand_below(&rnd, array.len - 1)] = (char) (i / 20);

        expect_same(&array, 1 + sel_rand_below(&rnd, 300), &ways);
        sel_ways_free(&ways);
        array_free(&array);
    }
}


/* Two bytes that mean something, one behind the other or further apart. */
static void
test_two_bytes(void **state)
{
    int         i;
    size_t      k, at;
    array_t     array;
    sel_ways_t  ways;

    static const char  bytes[] = "00119,,,,  \n]-.e";

    for (i = 0; i < 4000; i++) {
        array_begin(&array, betweens[i % 2]);

        for (k = 0; k < 60; k++) {
            array_digits(&array, 1 + sel_rand_below(&rnd, 5));
        }

        array_end(&array);

        at = 1 + sel_rand_below(&rnd, array.len - 4);
        array.text[at] = bytes[sel_rand_below(&rnd, sizeof(bytes) - 1)];
        at += 1 + sel_rand_below(&rnd, 2);
        array.text[at] = bytes[sel_rand_below(&rnd, sizeof(bytes) - 1)];

        expect_same(&array, 1 + sel_rand_below(&rnd, 300), &ways);
        sel_ways_free(&ways);
        array_free(&array);
    }
}


static const struct CMUnitTest  tests[] = {
    cmocka_unit_test(test_every_place),
    cmocka_unit_test(test_growing),
    cmocka_unit_test(test_segments),
    cmocka_unit_test(test_any_byte),
    cmocka_unit_test(test_two_bytes)
};


int
main(void)
{
    rnd.state = sel_rand_seed("json_runs");

    return cmocka_run_group_tests(tests, NULL, NULL);
}
