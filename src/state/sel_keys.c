/*
 * Chains of path keys.  They are packed: only the last chunk may have room.
 * Those of edges stay so when edges are cut and joined, which moves the keys
 * of the lower part.  So what a tree takes follows from its edges alone, and
 * one that is built anew from the same bookings never takes more.
 */

#include "state/sel_tree_impl.h"


static void sel_keys_copy(const sel_zone_t *zone, sel_path_t *path,
    uint32_t pos, uint32_t n, uint64_t *out);
static void sel_keys_cut(sel_keys_chunk_t *keys, uint32_t n);
static void sel_keys_pack(sel_zone_t *zone, sel_edge_chunk_t *edge,
    uint32_t number);


uint32_t
sel_keys_write(sel_zone_t *zone, sel_path_t path, uint32_t pos, uint32_t n,
    uint32_t *last)
{
    uint32_t           count, first, number, *link;
    sel_keys_chunk_t  *keys;

    first = SEL_CHUNK_NONE;
    link = &first;
    *last = SEL_CHUNK_NONE;

    for ( /* void */ ; n != 0; n -= count) {
        number = sel_zone_chunk_take(zone);
        keys = sel_zone_keys(zone, number);

        count = n < SEL_KEYS_A_CHUNK ? n : (uint32_t) SEL_KEYS_A_CHUNK;

        sel_keys_copy(zone, &path, pos, count, keys->keys);
        pos += count;

        keys->head.count = (uint16_t) count;
        sel_chunk_set_tag(&keys->head, SEL_CHUNK_KEYS);
        SEL_ZONE_STEP();

        *link = number;
        *last = number;
        link = &keys->head.next;
    }

    return first;
}


static void
sel_keys_copy(const sel_zone_t *zone, sel_path_t *path, uint32_t pos,
    uint32_t n, uint64_t *out)
{
    uint32_t                 part, at;
    const sel_keys_chunk_t  *keys;

    if (path->keys != NULL) {
        memcpy(out, &path->keys[pos], n * sizeof(uint64_t));
        return;
    }

    for ( /* void */ ; n != 0; n -= part) {
        (void) sel_path_key(zone, path, pos);

        keys = sel_zone_keys(zone, path->chunk);
        at = pos - path->base;

        part = (uint32_t) SEL_KEYS_A_CHUNK - at;
        part = part < n ? part : n;

        memcpy(out, &keys->keys[at], part * sizeof(uint64_t));
        out += part;
        pos += part;
    }
}


uint32_t
sel_keys_common(const sel_zone_t *zone, const sel_edge_chunk_t *edge,
    sel_path_t path, uint32_t pos, uint32_t n)
{
    uint32_t                 done, low, high, middle, number;
    sel_path_t               behind;
    const sel_keys_chunk_t  *keys;

    done = 0;
    number = edge->keys;
    keys = sel_zone_keys(zone, number);

    /* whole chunks, by their last keys */

    for (behind = path; n - pos - done >= keys->head.count; path = behind) {

        if (sel_path_key(zone, &behind, pos + done + keys->head.count - 1)
            != keys->keys[keys->head.count - 1])
        {
            break;
        }

        done += keys->head.count;
        number = keys->head.next;

        if (number == SEL_CHUNK_NONE) {
            return done - 1;            /* keys collide: cut anywhere */
        }

        keys = sel_zone_keys(zone, number);
    }

    low = 0;
    high = keys->head.count - 1;
    high = high < n - pos - done ? high : n - pos - done;

    while (low < high) {
        middle = (low + high + 1) / 2;
        behind = path;

        if (sel_path_key(zone, &behind, pos + done + middle - 1)
            == keys->keys[middle - 1])
        {
            low = middle;

        } else {
            high = middle - 1;
        }
    }

    return done + low != 0 ? done + low : 1;
}


void
sel_keys_divide(sel_zone_t *zone, sel_edge_chunk_t *head,
    sel_edge_chunk_t *tail, uint32_t at)
{
    uint32_t           number, before, left, last;
    uint64_t           part[SEL_KEYS_A_CHUNK];
    sel_keys_chunk_t  *keys;

    before = SEL_CHUNK_NONE;
    number = tail->keys;
    left = at;

    for ( /* void */ ; left >= SEL_KEYS_A_CHUNK; left -= SEL_KEYS_A_CHUNK) {
        before = number;
        number = sel_zone_chunk(zone, number)->next;
    }

    head->keys = before != SEL_CHUNK_NONE ? tail->keys : SEL_CHUNK_NONE;
    head->keys_last = before;
    tail->keys = number;

    if (before != SEL_CHUNK_NONE) {
        sel_zone_chunk(zone, before)->next = SEL_CHUNK_NONE;
    }

    if (left == 0) {
        return;
    }

    /* the tail may give a chunk back before the head takes one */

    keys = sel_zone_keys(zone, number);
    memcpy(part, keys->keys, left * sizeof(uint64_t));
    sel_keys_cut(keys, left);
    sel_keys_pack(zone, tail, number);

    number = sel_keys_write(zone, (sel_path_t) { part, SEL_CHUNK_NONE, 0 }, 0,
                            left, &last);

    if (before != SEL_CHUNK_NONE) {
        sel_zone_chunk(zone, before)->next = number;

    } else {
        head->keys = number;
    }

    head->keys_last = number;
}


void
sel_keys_unite(sel_zone_t *zone, sel_edge_chunk_t *head,
    sel_edge_chunk_t *tail)
{
    sel_zone_chunk(zone, head->keys_last)->next = tail->keys;
    tail->keys = head->keys;

    sel_keys_pack(zone, tail, head->keys_last);
}


/* Takes out the first keys of a chunk. */

static void
sel_keys_cut(sel_keys_chunk_t *keys, uint32_t n)
{
    keys->head.count = (uint16_t) (keys->head.count - n);
    memmove(keys->keys, keys->keys + n, keys->head.count * sizeof(uint64_t));
}


/* Packs a chain again from a chunk on that may have room; what is behind it
   is packed but for this. */

static void
sel_keys_pack(sel_zone_t *zone, sel_edge_chunk_t *edge, uint32_t number)
{
    uint32_t           n, next;
    sel_keys_chunk_t  *keys, *more;

    for ( /* void */ ; /* void */ ; number = next) {
        keys = sel_zone_keys(zone, number);
        next = keys->head.next;

        if (next == SEL_CHUNK_NONE || keys->head.count == SEL_KEYS_A_CHUNK) {
            return;
        }

        more = sel_zone_keys(zone, next);

        n = (uint32_t) SEL_KEYS_A_CHUNK - keys->head.count;
        n = n < more->head.count ? n : more->head.count;

        memcpy(keys->keys + keys->head.count, more->keys,
               n * sizeof(uint64_t));
        keys->head.count = (uint16_t) (keys->head.count + n);
        sel_keys_cut(more, n);

        if (more->head.count == 0) {
            keys->head.next = SEL_CHUNK_NONE;
            edge->keys_last = number;
            sel_zone_chain_give(zone, next);
            return;
        }
    }
}
