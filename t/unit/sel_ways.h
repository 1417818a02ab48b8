/*
 * Reads one JSON text in every way: in one piece, in segments of fixed and of
 * random sizes.  What a reader writes into its stream, the status and the
 * message must be the same each time.
 */

#ifndef SEL_WAYS_H
#define SEL_WAYS_H

#include <stdio.h>

#include "sel_segments.h"


/* Reads what it wants and prints it; the status tells whether it failed. */
typedef void (*sel_ways_read_pt)(sel_json_t *json, FILE *out);

typedef struct {
    sel_json_status_t   status;
    char                message[sizeof(((sel_json_t *) 0)->message)];
    char               *out;        /* from malloc() */
    size_t              out_len;
} sel_ways_t;


static inline void
sel_ways_take(sel_json_t *json, sel_ways_read_pt read, sel_ways_t *ways)
{
    FILE  *out;

    out = open_memstream(&ways->out, &ways->out_len);

    if (out == NULL) {
        abort();
    }

    read(json, out);

    if (fclose(out) != 0) {
        abort();
    }

    ways->status = json->status;
    memset(ways->message, 0, sizeof(ways->message));

    if (json->status != SEL_JSON_OK) {
        memcpy(ways->message, json->message, sizeof(ways->message));
    }
}


static inline void
sel_ways_free(sel_ways_t *ways)
{
    free(ways->out);
    ways->out = NULL;
}


/* the text in one piece of exactly its size */
static inline void
sel_ways_whole(const void *text, size_t len, sel_ways_read_pt read,
    sel_ways_t *ways)
{
    uint8_t      *copy;
    sel_json_t    json;
    sel_arena_t   arena;

    copy = malloc(len != 0 ? len : 1);

    if (copy == NULL) {
        abort();
    }

    memcpy(copy, text, len);
    sel_arena_init(&arena, 0);
    sel_json_init_text(&json, &arena, (sel_str_t) { len, copy });
    sel_ways_take(&json, read, ways);
    sel_arena_free(&arena);
    free(copy);
}


static inline void
sel_ways_parts(const void *text, size_t len, size_t size, uint64_t seed,
    sel_ways_read_pt read, sel_ways_t *ways)
{
    sel_json_t      json;
    sel_arena_t     arena;
    sel_segments_t  seg;

    sel_arena_init(&arena, 0);
    sel_segments_init(&seg, text, len, size, seed);
    sel_json_init(&json, &arena, sel_segments_more, &seg);
    sel_ways_take(&json, read, ways);
    sel_segments_drop(&seg);
    sel_arena_free(&arena);
}


static inline bool
sel_ways_equal(const sel_ways_t *a, const sel_ways_t *b)
{
    return a->status == b->status
           && strncmp(a->message, b->message, sizeof(a->message)) == 0
           && a->out_len == b->out_len
           && memcmp(a->out, b->out, a->out_len) == 0;
}


/*
 * Leaves the outcome in *ways (free it) and returns NULL, or a description of
 * the way that gave another one, valid until the next call.
 */
static inline const char *
sel_ways_run(const void *text, size_t len, uint64_t seed,
    sel_ways_read_pt read, sel_ways_t *ways)
{
    static char           difference[2048];
    static const size_t   sizes[] = { 1, 2, 3, 7, 64, 0, 0 };

    size_t                i;
    sel_ways_t            other;

    sel_ways_whole(text, len, read, ways);

    for (i = 0; i < sel_countof(sizes); i++) {
        sel_ways_parts(text, len, sizes[i], seed + i, read, &other);

        if (!sel_ways_equal(ways, &other)) {
            snprintf(difference, sizeof(difference),
                     "segments of %zu (0: random, seed %" PRIu64 "): "
                     "status %d, \"%.200s\", output \"%.300s\"; in one piece: "
                     "status %d, \"%.200s\", output \"%.300s\"; text: %.*s",
                     sizes[i], seed + i, other.status, other.message,
                     other.out, ways->status, ways->message, ways->out,
                     (int) (len < 400 ? len : 400), (const char *) text);
            sel_ways_free(&other);
            return difference;
        }

        sel_ways_free(&other);
    }

    return NULL;
}


#endif /* SEL_WAYS_H */
