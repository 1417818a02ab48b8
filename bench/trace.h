/*
 * Reads a trace of requests, see trace.py.
 */

#ifndef BENCH_TRACE_H
#define BENCH_TRACE_H

#include <string.h>
#include "bench.h"


#define TRACE_TOKENS  512               /* of an id */
#define TRACE_IDS     2048              /* of a request, at most */


typedef struct {
    uint64_t        at;                 /* ns from the start */
    uint32_t        tokens;
    uint32_t        n;
    uint32_t        ids[TRACE_IDS];
} trace_line_t;


typedef struct {
    uint32_t        n;
    uint32_t        limit;              /* above all ids */
    trace_line_t   *lines;
} trace_t;


/* False for an empty line. */
static inline bool
trace_line(const char *text, trace_line_t *line)
{
    char           *end;
    const char     *time, *length, *ids;

    time = strstr(text, "\"timestamp\":");
    length = strstr(text, "\"input_length\":");
    ids = strstr(text, "\"hash_ids\":");

    if (text[0] == '\n' || text[0] == '\0') {
        return false;
    }

    ids = ids == NULL ? NULL : strchr(ids, '[');

    if (time == NULL || length == NULL || ids == NULL) {
        bench_fail("this is no line of a trace");
    }

    line->at = (uint64_t) (strtod(strchr(time, ':') + 1, NULL) * 1e6);
    line->tokens = (uint32_t) strtoul(strchr(length, ':') + 1, NULL, 10);
    line->n = 0;

    while (*ids == '[' || *ids == ',') {

        if (line->n == TRACE_IDS) {
            bench_fail("a request has too many ids");
        }

        line->ids[line->n++] = (uint32_t) strtoul(ids + 1, &end, 10);

        if (end == ids + 1 || line->ids[line->n - 1] >= 1u << 24) {
            bench_fail("an id is no number, or too large");
        }

        ids = end;
    }

    if (*ids != ']'
        || line->n != (line->tokens + TRACE_TOKENS - 1) / TRACE_TOKENS)
    {
        bench_fail("a request has another number of ids than its length "
                   "needs");
    }

    return true;
}


static inline trace_t
trace_read(const char *path)
{
    FILE      *file;
    char      *text;
    size_t     size;
    trace_t    trace;
    uint32_t   i, room;

    trace = (trace_t) { 0, 0, NULL };
    file = fopen(path, "r");
    text = NULL;
    size = 0;
    room = 0;

    if (file == NULL) {
        bench_fail("the trace cannot be read");
    }

    while (getline(&text, &size, file) > 0) {

        if (trace.n == room) {
            room = 2 * room + 1024;
            trace.lines = realloc(trace.lines, room * sizeof(trace_line_t));

            if (trace.lines == NULL) {
                bench_fail("out of memory");
            }
        }

        if (!trace_line(text, &trace.lines[trace.n])) {
            continue;
        }

        for (i = 0; i < trace.lines[trace.n].n; i++) {
            if (trace.lines[trace.n].ids[i] >= trace.limit) {
                trace.limit = trace.lines[trace.n].ids[i] + 1;
            }
        }

        trace.n++;
    }

    (void) fclose(file);
    free(text);

    if (trace.n == 0) {
        bench_fail("the trace is empty");
    }

    return trace;
}


#endif /* BENCH_TRACE_H */
