/*
 * Chunks and chains of them.
 *
 * Free chunks are those above the high-water mark, which were never touched,
 * and a list of those that came back.  Neither needs care for a death: the
 * mark is moved before the chunk is used, and a rebuild frees every chunk
 * below it that no record leads to.
 */

#include "state/sel_zone_impl.h"


static uint32_t sel_zone_run_find(const sel_zone_t *zone, uint32_t n);
static void sel_zone_run_mark(sel_zone_t *zone, uint8_t mark);
static void sel_zone_run_unlink(sel_zone_t *zone, uint32_t first, uint32_t n);
static bool sel_zone_chain_part(const sel_zone_t *zone, uint32_t *number,
    uint32_t *pos, sel_str_t str);


uint32_t
sel_zone_chunks_free(const sel_zone_t *zone)
{
    return zone->n_chunks - zone->header->chunk_high
           + zone->header->chunks_returned;
}


uint32_t
sel_zone_chunk_take(sel_zone_t *zone)
{
    uint32_t            number;
    sel_chunk_t        *chunk;
    sel_zone_header_t  *header;

    header = zone->header;
    number = header->chunk_free;

    if (number != SEL_CHUNK_NONE) {
        chunk = sel_zone_chunk(zone, number);

        header->chunk_free = chunk->next;
        SEL_ZONE_STEP();
        header->chunks_returned--;

    } else if (header->chunk_high < zone->n_chunks) {
        number = header->chunk_high + 1;
        chunk = sel_zone_chunk(zone, number);

        sel_zone_set(&header->chunk_high, number);

    } else {
        return SEL_CHUNK_NONE;
    }

    SEL_ZONE_STEP();

    chunk->next = SEL_CHUNK_NONE;
    chunk->aux = 0;
    chunk->count = 0;

    return number;
}


void
sel_zone_chain_give(sel_zone_t *zone, uint32_t first)
{
    uint32_t            next;
    sel_chunk_t        *chunk;
    sel_zone_header_t  *header;

    header = zone->header;

    for ( /* void */ ; first != SEL_CHUNK_NONE; first = next) {
        chunk = sel_zone_chunk(zone, first);
        next = chunk->next;

        sel_chunk_set_tag(chunk, SEL_CHUNK_FREE);
        SEL_ZONE_STEP();
        chunk->next = header->chunk_free;
        SEL_ZONE_STEP();
        header->chunk_free = first;
        SEL_ZONE_STEP();
        header->chunks_returned++;
    }
}


uint32_t
sel_zone_chain_need(size_t len)
{
    size_t  n;

    n = len / SEL_CHUNK_DATA + (len % SEL_CHUNK_DATA != 0);

    return n < UINT32_MAX ? (uint32_t) n : UINT32_MAX;
}


uint32_t
sel_zone_chain_make(sel_zone_t *zone, size_t len, size_t each)
{
    size_t        size;
    uint32_t      first, number, *link;
    sel_chunk_t  *chunk;

    first = SEL_CHUNK_NONE;
    link = &first;

    while (len != 0) {
        number = sel_zone_chunk_take(zone);
        chunk = sel_zone_chunk(zone, number);

        size = len < each ? len : each;
        len -= size;

        chunk->count = (uint16_t) size;
        sel_chunk_set_tag(chunk, SEL_CHUNK_BYTES);
        SEL_ZONE_STEP();

        *link = number;
        link = &chunk->next;
    }

    return first;
}


uint32_t
sel_zone_chain_write(sel_zone_t *zone, const void *data, size_t len)
{
    return sel_zone_chain_join(zone, (sel_str_t) { len, data },
                               (sel_str_t) { 0, NULL });
}


uint32_t
sel_zone_chain_join(sel_zone_t *zone, sel_str_t a, sel_str_t b)
{
    size_t        n, pos;
    uint32_t      first, number;
    sel_chunk_t  *chunk;

    if (sel_zone_chain_need(a.len + b.len) > sel_zone_chunks_free(zone)) {
        return SEL_CHUNK_NONE;
    }

    first = sel_zone_chain_make(zone, a.len + b.len, SEL_CHUNK_DATA);

    for (number = first; number != SEL_CHUNK_NONE; number = chunk->next) {
        chunk = sel_zone_chunk(zone, number);

        for (pos = 0; pos < chunk->count; pos += n) {

            if (a.len == 0) {
                a = b;
            }

            n = chunk->count - pos;
            n = n < a.len ? n : a.len;

            memcpy(sel_chunk_data(chunk) + pos, a.data, n);
            a.data += n;
            a.len -= n;
        }

        SEL_ZONE_STEP();
    }

    return first;
}


bool
sel_zone_chain_read(const sel_zone_t *zone, uint32_t first, void *data,
    size_t len)
{
    uint8_t      *p;
    sel_chunk_t  *chunk;

    p = data;

    for ( /* void */ ; first != SEL_CHUNK_NONE; first = chunk->next) {

        if (!sel_zone_chunk_known(zone, first)) {
            return false;
        }

        chunk = sel_zone_chunk(zone, first);

        if (sel_chunk_tag(chunk) != SEL_CHUNK_BYTES
            || chunk->count == 0
            || chunk->count > SEL_CHUNK_DATA
            || chunk->count > len)
        {
            return false;
        }

        memcpy(p, sel_chunk_data(chunk), chunk->count);
        p += chunk->count;
        len -= chunk->count;
    }

    return len == 0;
}


bool
sel_zone_chain_equal(const sel_zone_t *zone, uint32_t first, sel_str_t a,
    sel_str_t b)
{
    uint32_t  pos;

    pos = 0;

    return sel_zone_chain_part(zone, &first, &pos, a)
           && sel_zone_chain_part(zone, &first, &pos, b)
           && (first == SEL_CHUNK_NONE
               || (pos == sel_zone_chunk(zone, first)->count
                   && sel_zone_chunk(zone, first)->next == SEL_CHUNK_NONE));
}


/* Compares from a place in a chain on, and moves on. */

static bool
sel_zone_chain_part(const sel_zone_t *zone, uint32_t *number, uint32_t *pos,
    sel_str_t str)
{
    size_t        n;
    sel_chunk_t  *chunk;

    while (str.len != 0) {

        if (*number == SEL_CHUNK_NONE) {
            return false;
        }

        chunk = sel_zone_chunk(zone, *number);

        if (*pos == chunk->count) {
            *number = chunk->next;
            *pos = 0;
            continue;
        }

        n = chunk->count - *pos;
        n = n < str.len ? n : str.len;

        if (memcmp(sel_chunk_data(chunk) + *pos, str.data, n) != 0) {
            return false;
        }

        *pos += (uint32_t) n;
        str.data += n;
        str.len -= n;
    }

    return true;
}


uint32_t
sel_zone_run_take(sel_zone_t *zone, uint32_t n)
{
    uint32_t            first;
    sel_zone_header_t  *header;

    header = zone->header;

    if (zone->n_chunks - header->chunk_high >= n) {
        first = header->chunk_high + 1;
        sel_zone_set(&header->chunk_high, header->chunk_high + n);

        return first;
    }

    sel_zone_run_mark(zone, SEL_CHUNK_SEEN);
    first = sel_zone_run_find(zone, n);
    sel_zone_run_mark(zone, 0);

    if (first != SEL_CHUNK_NONE) {
        sel_zone_run_unlink(zone, first, n);
    }

    return first;
}


/* Marks the chunks of the free list, or takes the marks away. */

static void
sel_zone_run_mark(sel_zone_t *zone, uint8_t mark)
{
    uint32_t      number;
    sel_chunk_t  *chunk;

    for (number = zone->header->chunk_free; number != SEL_CHUNK_NONE;
         number = chunk->next)
    {
        chunk = sel_zone_chunk(zone, number);
        chunk->aux = mark;
        SEL_ZONE_STEP();
    }
}


/* Looks for marked neighbours. */

static uint32_t
sel_zone_run_find(const sel_zone_t *zone, uint32_t n)
{
    uint32_t      number, found;
    sel_chunk_t  *chunk;

    found = 0;

    for (number = 1; number <= zone->header->chunk_high; /* void */ ) {
        chunk = sel_zone_chunk(zone, number);

        found = (chunk->aux & SEL_CHUNK_SEEN) != 0 ? found + 1 : 0;

        if (found == n) {
            return number - n + 1;
        }

        number += sel_chunk_span(chunk);
    }

    return SEL_CHUNK_NONE;
}


/* Takes the chunks of a run out of the free list. */

static void
sel_zone_run_unlink(sel_zone_t *zone, uint32_t first, uint32_t n)
{
    uint32_t      left, *link;
    sel_chunk_t  *chunk;

    left = n;
    link = &zone->header->chunk_free;

    while (*link != SEL_CHUNK_NONE && left != 0) {
        chunk = sel_zone_chunk(zone, *link);

        if (*link - first >= n) {
            link = &chunk->next;
            continue;
        }

        *link = chunk->next;
        SEL_ZONE_STEP();
        zone->header->chunks_returned--;
        SEL_ZONE_STEP();
        left--;
    }
}
