/*
 * docs/zone.md tells what is before the chunks of a zone, and what fits into
 * zones of some sizes.  Without it an operator could choose a size by numbers
 * that were true once.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include "state_test.h"
#include "zone_page.h"


static uint64_t
least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}


/* The highest power of two that is not above. */
static uint64_t
power(uint64_t n)
{
    while ((n & (n - 1)) != 0) {
        n &= n - 1;
    }

    return n;
}


/* The part before the chunks, by the first table. */
static uint64_t
fixed_part(size_t size, uint64_t *slots)
{
    row_t     row;
    uint64_t  sum;

    find_row(&row, "header", false);
    sum = number_after(&row, 2, "") * 1024;

    find_row(&row, "process table", false);
    sum += number_after(&row, 2, "") * 1024;

    find_row(&row, "rank slots", false);
    *slots = least(size / number_after(&row, 1, "size / "),
                   number_after(&row, 1, "at most "));
    sum += *slots * number_after(&row, 2, "");

    find_row(&row, "look-up tables of the catalog", false);
    sum += power(least(size / (number_after(&row, 1, "one entry for ")
                               * 1024),
                       number_after(&row, 1, "at most ")))
           * number_after(&row, 2, "");

    find_row(&row, "look-up tables of the books", false);
    sum += power(size / (number_after(&row, 1, "one entry for ") * 1024))
           * number_after(&row, 2, "");

    find_row(&row, "decision log", false);

    return sum + size / number_after(&row, 1, "1/");
}


static void
test_fixed_part(void **state)
{
    static const size_t  sizes[] = {
        SEL_ZONE_MIN_SIZE, 1 << 20, 1040384, 16 << 20, 100000000, 128 << 20,
        (size_t) 1 << 30, (size_t) 3 << 30
    };

    uint32_t     i;
    uint64_t     slots, used, promised;
    sel_zone_t   zone;

    for (i = 0; i < sel_countof(sizes); i++) {
        state_shared(&zone, sizes[i]);
        promised = fixed_part(sizes[i], &slots);
        used = (uint64_t) (zone.chunks - (uint8_t *) zone.header);

        assert_int_equal(zone.n_slots, slots);

        if (used < promised - 64 || used > promised + 512) {
            fail_msg("zone of %zu bytes: %" PRIu64 " before the chunks, not "
                     "%" PRIu64, sizes[i], used, promised);
        }

        state_shared_free(&zone);
    }
}


/* A number of the table of sizes: its digits, as far as they are there. */
static void
expect_near(const row_t *row, uint32_t column, double value)
{
    char    *end, text[32];
    size_t   i, n;
    double   told, step;

    assert_true(column < row->n);

    for (i = 0, n = 0; row->cells[column][i] != '\0' && n < 31; i++) {

        if (row->cells[column][i] != ',') {
            text[n++] = row->cells[column][i];
        }
    }

    text[n] = '\0';
    told = strtod(text, &end);
    assert_ptr_not_equal(end, text);

    /* rounded to what is written, or by a hundredth */

    step = strchr(text, '.') != NULL && strchr(text, '.') < end ? 0.05 : 0.5;
    step = step > value / 100 ? step : value / 100;

    if (fabs(told - value) > step) {
        fail_msg("%s, %s: \"%s\", not %.1f", DOCUMENT, row->cells[0],
                 row->cells[column], value);
    }
}


static void
test_table_of_sizes(void **state)
{
    row_t        row;
    FILE        *file;
    size_t       size;
    uint32_t     n;
    double       left;
    sel_zone_t   zone;
    const char  *unit;

    n = 0;
    file = fopen(DOCUMENT, "r");
    assert_non_null(file);

    while (next_row(file, &row)) {

        if (row.n != 6 || row.cells[0][0] < '0' || row.cells[0][0] > '9') {
            continue;
        }

        n++;
        size = number(row.cells[0], &unit);
        assert_true(*unit == 'm' || *unit == 'g');
        size <<= *unit == 'm' ? 20 : 30;

        /* nginx has 24 bytes for each page, and some more, in whole pages */

        size -= (size / 4096 * 24 + 512 + 4095) / 4096 * 4096;
        state_shared(&zone, size);
        left = (double) zone.n_chunks * SEL_CHUNK_SIZE;

        expect_near(&row, 1, zone.n_slots);
        expect_near(&row, 2, ((double) size - left) / (1 << 20));
        expect_near(&row, 3, left / (1 << 20));
        expect_near(&row, 4, left / 1280);
        expect_near(&row, 5, left / (double) booking_needs(512, 512, 36));

        state_shared_free(&zone);
    }

    assert_int_equal(fclose(file), 0);
    assert_true(n >= 5);
}


/* The examples in the text. */
static void
test_examples(void **state)
{
    char    line[LINE], *p;
    FILE   *file;
    bool    found;

    assert_int_equal(formula("worker", with({ "ranks", 20 },
                                            { "settings", 700 })), 1280);
    assert_int_equal(booking_needs(512, 512, 36), 9216);
    assert_int_equal(booking_needs(512, 256, 36), 7168);

    found = false;
    file = fopen(DOCUMENT, "r");
    assert_non_null(file);

    while (fgets(line, LINE, file) != NULL) {
        p = strstr(line, "9,216 bytes alone and 7,168");
        found = found || p != NULL;
    }

    assert_int_equal(fclose(file), 0);
    assert_true(found);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_fixed_part),
        cmocka_unit_test(test_table_of_sizes),
        cmocka_unit_test(test_examples)
    };

    return cmocka_run_group_tests_name("sizing_table", tests, NULL, NULL);
}
