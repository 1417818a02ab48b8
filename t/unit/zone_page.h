/*
 * The tables of docs/zone.md, for the tests that hold it to what it says: rows,
 * numbers, and formulas like "256 x (1 + names / 248)".  Include after
 * cmocka.h.
 */

#ifndef ZONE_PAGE_H
#define ZONE_PAGE_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>


#define DOCUMENT  "docs/zone.md"
#define LINE      2048
#define COLUMNS   6

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


/* The columns of the next line that has some; false at the end. */
static inline bool
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
static inline void
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
static inline uint64_t
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
static inline uint64_t
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


static inline uint64_t
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
static inline uint64_t
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


/* What an id counts in a row's formula. */
static inline uint64_t
id_counts(const char *name, uint32_t len)
{
    row_t  row;

    find_row(&row, name, true);

    return len > number_after(&row, 2, "id above ") ? len : 0;
}


static inline uint64_t
booking_needs(uint32_t blocks, uint32_t own, uint32_t id)
{
    return formula("booking", with({ "blocks", blocks }, { "own", own },
                   { "id", id_counts("booking", id) }));
}


#endif /* ZONE_PAGE_H */
