/*
 * A JSON text as a stream of segments.  Each segment is a malloc() of its
 * exact size that is overwritten and freed when the next one is asked for,
 * so a reader that looks too far or too late is caught.
 */

#ifndef SEL_SEGMENTS_H
#define SEL_SEGMENTS_H

#include <stdlib.h>
#include <string.h>

#include "core/sel_json_read.h"
#include "sel_rand.h"


typedef struct {
    const uint8_t  *pos;
    const uint8_t  *end;
    uint8_t        *copy;
    size_t          len;        /* of copy */
    size_t          size;       /* of a segment; 0: random, 1 .. 17 */
    sel_rand_t      rand;
} sel_segments_t;


static inline void
sel_segments_init(sel_segments_t *seg, const void *text, size_t len,
    size_t size, uint64_t seed)
{
    seg->pos = text;
    seg->end = seg->pos + len;
    seg->copy = NULL;
    seg->len = 0;
    seg->size = size;
    seg->rand.state = seed;
}


static inline void
sel_segments_drop(sel_segments_t *seg)
{
    if (seg->copy != NULL) {
        memset(seg->copy, '#', seg->len);
        free(seg->copy);
        seg->copy = NULL;
    }
}


static inline size_t
sel_segments_more(void *source, const uint8_t **data)
{
    size_t           n, left;
    sel_segments_t  *seg;

    seg = source;
    sel_segments_drop(seg);

    left = (size_t) (seg->end - seg->pos);
    n = seg->size != 0 ? seg->size : 1 + sel_rand_below(&seg->rand, 17);
    n = n < left ? n : left;

    if (n == 0) {
        return 0;
    }

    seg->copy = malloc(n);

    if (seg->copy == NULL) {
        abort();
    }

    memcpy(seg->copy, seg->pos, n);
    seg->len = n;
    seg->pos += n;
    *data = seg->copy;

    return n;
}


#endif /* SEL_SEGMENTS_H */
