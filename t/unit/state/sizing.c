/*
 * docs/zone.md tells how large a zone must be.  The formulas and numbers are
 * read from its tables and compared with what a zone really takes.  Without it
 * the page could promise room that is not there.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "books_test.h"


#define DOCUMENT  "docs/zone.md"
#define LINE      2048
#define COLUMNS   6
#define ZONE      ((size_t) 32 << 20)
#define FAMILY    40
#define BIG_ID    1000

/* variables of formulas, ended by a name that is NULL */
#define with(...)  ((value_t[]) { __VA_ARGS__, { NULL, 0 } })
#define nothing    ((value_t[]) { { NULL, 0 } })


typedef struct {
    const char  *name;
    uint64_t     value;
} value_t;


typedef struct {
    char         line[LINE];
    char        *cells[COLUMNS];
    uint32_t     n;
} row_t;


static test_t    test;
static rank_t    ranks[FAMILY];
static uint64_t  chunks;                /* free before what is measured */


/* The columns of the next line that has some; false at the end. */
static bool
next_row(FILE *file, row_t *row)
{
    char  *p, *end;

    while (fgets(row->line, LINE, file) != NULL) {

        if (strncmp(row->line, "| ", 2) != 0) {
            continue;
        }

        row->n = 0;

        for (p = row->line + 2; row->n < COLUMNS; p = end + 3) {
            end = strstr(p, " |");

            if (end == NULL) {
                break;
            }

            *end = '\0';
            row->cells[row->n++] = p;

            if (end[2] != ' ') {
                break;
            }
        }

        return true;
    }

    return false;
}


/* The first row whose first column is this, or begins with it and a colon, of
   the table of formulas or another one. */
static void
find_row(row_t *row, const char *name, bool formulas)
{
    FILE   *file;
    size_t  len;

    len = strlen(name);
    file = fopen(DOCUMENT, "r");
    assert_non_null(file);

    while (next_row(file, row)) {

        if ((strncmp(row->cells[1], "256 x ", 6) == 0) == formulas
            && strncmp(row->cells[0], name, len) == 0
            && (row->cells[0][len] == '\0' || row->cells[0][len] == ':'))
        {
            (void) fclose(file);
            return;
        }
    }

    fail_msg("%s has no row \"%s\"", DOCUMENT, name);
}


/* A number like 65,535, and where it ends. */
static uint64_t
number(const char *p, const char **end)
{
    uint64_t  n;

    if (*p < '0' || *p > '9') {
        fail_msg("%s: no number at \"%s\"", DOCUMENT, p);
    }

    for (n = 0; (*p >= '0' && *p <= '9')
                || (*p == ',' && p[1] >= '0' && p[1] <= '9'); p++)
    {
        n = *p == ',' ? n : n * 10 + (uint64_t) (*p - '0');
    }

    *end = p;

    return n;
}


/* The number behind some words in one of a row's columns. */
static uint64_t
number_after(const row_t *row, uint32_t column, const char *words)
{
    const char  *p, *end;

    assert_true(column < row->n);
    p = strstr(row->cells[column], words);

    if (p == NULL) {
        fail_msg("%s: \"%s\" has no \"%s\"", DOCUMENT, row->cells[0], words);
    }

    return number(p + strlen(words), &end);
}


static uint64_t
value_of(const char *name, size_t len, const value_t *values)
{
    for ( /* void */ ; values->name != NULL; values++) {

        if (strlen(values->name) == len
            && memcmp(values->name, name, len) == 0)
        {
            return values->value;
        }
    }

    fail_msg("%s: what is \"%.*s\"?", DOCUMENT, (int) len, name);

    return 0;
}


/* "256 x 4", or "256 x (1 + names / 248)" with each quotient rounded up. */
static uint64_t
formula(const char *name, const value_t *values)
{
    row_t        row;
    size_t       len;
    uint64_t     unit, sum, value, each;
    const char  *p;

    find_row(&row, name, true);
    unit = number(row.cells[1], &p);
    assert_memory_equal(p, " x ", 3);
    p += 3;
    p += *p == '(';
    sum = 0;

    for ( /* void */ ; ; p += 3) {

        if (*p >= '0' && *p <= '9') {
            sum += number(p, &p);

        } else {
            len = strspn(p, "abcdefghijklmnopqrstuvwxyz");
            value = value_of(p, len, values);
            assert_memory_equal(p + len, " / ", 3);
            each = number(p + len + 3, &p);
            sum += (value + each - 1) / each;
        }

        if (strncmp(p, " + ", 3) != 0) {
            break;
        }
    }

    assert_true(*p == '\0' || *p == ')');

    return unit * sum;
}


static int
setup(void **state)
{
    (void) books_plain(state);
    begin(&test, ZONE);
    worker(&test, 1, 0, FAMILY, ranks);
    chunks = state_stats(&test.zone).chunks_free;

    return 0;
}


static int
teardown(void **state)
{
    end(&test);

    return 0;
}


/* Bytes since the last time. */
static uint64_t
taken(void)
{
    uint64_t  before;

    before = chunks;
    chunks = state_stats(&test.zone).chunks_free;

    return (before - chunks) * SEL_CHUNK_SIZE;
}


static void
test_workers(void **state)
{
    static const uint32_t  counts[] = { 1, 20, 21, 40, 41, 300 };
    static const uint32_t  sizes[] = { 1, 248, 249, 700, 5000 };
    static uint8_t         blob[5000];

    uint32_t  i, k;
    uint64_t  id;

    id = 100;

    for (i = 0; i < sel_countof(counts); i++) {
        for (k = 0; k < sel_countof(sizes); k++) {
            forget_slots(&test);
            assert_int_equal(commit(&test, id++, 0, SEL_WORKER_SCHEDULABLE,
                                    counts[i], (sel_str_t) { sizes[k], blob }),
                             SEL_COMMIT_OK);
            assert_int_equal(taken(), formula("worker",
                with({ "ranks", counts[i] }, { "settings", sizes[k] })));
        }
    }
}


/* A deleted worker leaves a tomb, and there are so many of them at most. */
static void
test_tombs(void **state)
{
    uint64_t  id, n;
    row_t     row;

    find_row(&row, "tomb", false);
    n = number_after(&row, 1, "at most ");

    for (id = 100; id < 100 + n + 10; id++) {
        forget_slots(&test);
        commit_ok(&test, id, 0, 1);
        delete_ok(&test, id, test.version);
    }

    assert_int_equal(taken(), n * formula("tomb", nothing));
}


static void
test_partitions(void **state)
{
    static const uint32_t  sizes[] = { 2, 100, 248, 249, 1000 };
    static uint8_t         name[1000];

    uint32_t  i;

    for (i = 0; i < sel_countof(sizes); i++) {
        forget_slots(&test);
        test.partition.model_name = (sel_str_t) { sizes[i] - 1, name };
        test.partition.routing_group = sel_str("x");
        commit_ok(&test, 100 + i, 0, 1);
        assert_int_equal(taken(),
            formula("partition", with({ "names", sizes[i] }))
            + formula("worker", with({ "ranks", 1 }, { "settings", 4 })));
    }
}


static void
test_meters(void **state)
{
    uint32_t  i;
    row_t     row;

    for (i = 0; i < 5; i++) {
        assert_non_null(sel_meter_attach(&test.zone, i));
    }

    find_row(&row, "meter", false);
    assert_int_equal(number_after(&row, 2, "") * 1024,
                     formula("meter", nothing));
    assert_int_equal(taken(), 5 * formula("meter", nothing));
}


/* An id of so many bytes that ends with a number. */
static sel_str_t
id_of(uint32_t i, uint32_t len)
{
    static char  id[BIG_ID + 1];

    (void) snprintf(id, sizeof(id), "%0*u", (int) len, i);

    return (sel_str_t) { len, (const uint8_t *) id };
}


/* What an id counts in a row's formula. */
static uint64_t
id_counts(const char *name, uint32_t len)
{
    row_t  row;

    find_row(&row, name, true);

    return len > number_after(&row, 2, "id above ") ? len : 0;
}


static uint64_t
booking_needs(uint32_t blocks, uint32_t own, uint32_t id)
{
    return formula("booking", with({ "blocks", blocks }, { "own", own },
                   { "id", id_counts("booking", id) }));
}


static void
test_bookings_alone(void **state)
{
    static const uint32_t  blocks[] = { 1, 31, 32, 512, 5000 };
    static const uint32_t  ids[] = { 36, 144, 145, 248, 249, BIG_ID };
    static uint64_t        prompt[5000];

    uint32_t  i, k, n, serial;

    serial = 0;

    for (i = 0; i < sel_countof(blocks); i++) {
        for (k = 0; k < sel_countof(ids); k++) {
            serial++;

            for (n = 0; n < blocks[i]; n++) {
                prompt[n] = serial << 16 | n;
            }

            assert_int_equal(book_id(&test, ranks, id_of(serial, ids[k]),
                                     (sel_u64_list_t) { blocks[i], prompt },
                                     1), SEL_BOOK_OK);
            assert_int_equal(taken(),
                             booking_needs(blocks[i], blocks[i], ids[k]));

            assert_int_equal(sel_book_output(&test.zone,
                                             id_of(serial, ids[k]), 0.5),
                             SEL_BOOK_OK);
            assert_int_equal(taken(),
                             formula("its decayed blocks", nothing));
        }
    }
}


/* Bookings with a common beginning, each on a rank of its own. */
static void
test_bookings_shared(void **state)
{
    static const uint32_t  shares[] = { 1, 30, 31, 32, 62, 100, 256, 511 };

    uint32_t  i, k, n, own;
    uint64_t  prompt[512], took, needs, runs;
    row_t     row;

    find_row(&row, "ranks of a run", true);
    runs = number_after(&row, 2, "ranks above ");

    for (i = 0; i < sel_countof(shares); i++) {
        needs = 0;
        took = 0;

        for (k = 0; k < FAMILY; k++) {

            for (n = 0; n < 512; n++) {
                prompt[n] = (i + 1) << 24 | (n < shares[i] ? 0 : k) << 16 | n;
            }

            assert_int_equal(book_id(&test, &ranks[k], id_of(i << 8 | k, 36),
                                     (sel_u64_list_t) { 512, prompt }, 1),
                             SEL_BOOK_OK);
            own = k == 0 ? 512 : 512 - shares[i];
            needs += booking_needs(512, own, 36);
            took += taken();

            if (k == 1) {

                /* the fork came with the second one */

                assert_true(took > needs);
                assert_true(took <= needs + formula("fork", nothing));
                needs = took;
            }
        }

        needs += formula("ranks of a run", with({ "more", FAMILY - runs }));
        assert_int_equal(took, needs);
    }
}


/* One that ends within another, and equal ones: never more than promised. */
static void
test_bookings_within(void **state)
{
    uint32_t  n;
    uint64_t  prompt[512], took;

    for (n = 0; n < 512; n++) {
        prompt[n] = n;
    }

    book_ok(&test, ranks, "whole", ((sel_u64_list_t) { 512, prompt }), 1);
    assert_int_equal(taken(), booking_needs(512, 512, 5));

    book_ok(&test, ranks, "part", ((sel_u64_list_t) { 100, prompt }), 1);
    took = taken();
    assert_true(took <= booking_needs(100, 0, 4) + formula("fork", nothing));
    assert_true(took >= booking_needs(100, 0, 4));

    book_ok(&test, ranks, "same", ((sel_u64_list_t) { 512, prompt }), 1);
    took = taken();
    assert_true(took <= booking_needs(512, 0, 4));
    assert_true(took + 256 >= booking_needs(512, 0, 4));
}


static void
test_pending(void **state)
{
    static const uint32_t               blocks[] = { 0, 1, 31, 32, 512 };
    static const uint32_t               ids[] = { 36, 104, 105, BIG_ID };
    static const uint32_t               texts[] = { 0, 30, 248, 249 };
    static const sel_pending_limits_t   limits = { UINT64_MAX, 100000,
                                                   UINT64_MAX };
    static uint64_t                     hashes[512];
    static uint8_t                      text[249];

    uint32_t       i, serial;
    sel_pending_t  pending;

    serial = 0;

    for (i = 0; i < 5 * 4 * 4 * 2; i++) {
        pending = (sel_pending_t) {
            .id = id_of(++serial, ids[i / 5 % 4]), .partition = test.number,
            .n_blocks = blocks[i % 5], .sequence = hashes,
            .n_hashes = i / 80 ? blocks[i % 5] : 0, .hashes = hashes,
            .lora_name = { texts[i / 20 % 4] / 2, text },
            .session_id = { (texts[i / 20 % 4] + 1) / 2, text },
        };

        assert_true(sel_pending_put(&test.zone, &pending, &limits));
        assert_int_equal(taken(), formula("pending selection",
            with({ "blocks", pending.n_blocks },
                 { "hashes", pending.n_hashes },
                 { "texts", texts[i / 20 % 4] },
                 { "id", id_counts("pending selection",
                                   ids[i / 5 % 4]) })));
    }
}


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


/* As many bookings of 512 blocks as promised are really made. */
static void
test_full(void **state)
{
    uint32_t           i, n;
    uint64_t           room;
    sel_book_result_t  rc;

    room = chunks * SEL_CHUNK_SIZE / booking_needs(512, 512, 36);

    for (n = 0; ; n++) {
        uint64_t  prompt[512];

        for (i = 0; i < 512; i++) {
            prompt[i] = (uint64_t) n << 16 | i;
        }

        rc = book_id(&test, &ranks[n % FAMILY], id_of(n, 36),
                     (sel_u64_list_t) { 512, prompt }, 1);

        if (rc != SEL_BOOK_OK) {
            break;
        }
    }

    assert_int_equal(rc, SEL_BOOK_FULL);
    assert_int_equal(n, room);
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
        cmocka_unit_test_setup_teardown(test_workers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tombs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_partitions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_meters, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bookings_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bookings_shared, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_bookings_within, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_pending, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full, setup, teardown),
        cmocka_unit_test(test_fixed_part),
        cmocka_unit_test(test_table_of_sizes),
        cmocka_unit_test(test_examples)
    };

    return cmocka_run_group_tests_name("sizing", tests, NULL, NULL);
}
