/*
 * One JSON text read in every way, against what must come out: the status,
 * what the reader prints, words of the message.  Include after cmocka.h.
 */

#ifndef SEL_EXPECT_H
#define SEL_EXPECT_H

#include "sel_ways.h"


typedef struct {
    sel_ways_read_pt    read;
    const char         *text;
    sel_json_status_t   status;
    const char         *out;        /* NULL: not looked at */
    const char         *words;      /* NULL: not looked at */
} sel_expect_t;


static inline void
sel_expect_bytes(const sel_expect_t *row, size_t len, uint64_t seed)
{
    sel_ways_t   ways;
    const char  *difference;

    difference = sel_ways_run(row->text, len, seed, row->read, &ways);

    if (difference != NULL) {
        fail_msg("%s", difference);
    }

    if (ways.status != row->status) {
        fail_msg("%.80s: status %d (%s), expected %d", row->text,
                 ways.status, ways.message, row->status);
    }

    if (row->out != NULL && strcmp(ways.out, row->out) != 0) {
        fail_msg("%.80s: read as %.200s, expected %.200s", row->text,
                 ways.out, row->out);
    }

    if (row->words != NULL && strstr(ways.message, row->words) == NULL) {
        fail_msg("%.80s: \"%s\" does not say \"%s\"", row->text,
                 ways.message, row->words);
    }

    if (row->status != SEL_JSON_OK
        && (strstr(ways.message, " at line ") == NULL
            || strstr(ways.message, " column ") == NULL))
    {
        fail_msg("%.80s: \"%s\" names no place", row->text, ways.message);
    }

    sel_ways_free(&ways);
}


static inline void
sel_expect(const char *text, sel_ways_read_pt read, sel_json_status_t status,
    const char *out, const char *words, uint64_t seed)
{
    sel_expect_t  row;

    row = (sel_expect_t) { read, text, status, out, words };
    sel_expect_bytes(&row, strlen(text), seed);
}


static inline void
sel_expect_rows(const sel_expect_t *rows, size_t n, uint64_t seed)
{
    size_t  i;

    for (i = 0; i < n; i++) {
        sel_expect_bytes(&rows[i], strlen(rows[i].text), seed);
    }
}


#endif /* SEL_EXPECT_H */
