/*
 * Multimodal hashes of a stored event's blocks.
 *
 * block_mm_infos has an entry a block: nil, or a record whose mm_objects is a
 * list of records with an mm_hash each.  Records are maps, or arrays in which
 * the member in question comes first.
 */

#include "kv_events/sel_kv_mm.h"


static bool sel_kv_mm_info(sel_kv_reader_t *r, sel_kv_mm_list_t *list);
static bool sel_kv_mm_objects(sel_kv_reader_t *r, sel_kv_mm_list_t *list);
static bool sel_kv_mm_hash(sel_kv_reader_t *r, sel_kv_mm_list_t *list);
static bool sel_kv_mm_member(sel_kv_reader_t *r,
    const sel_msgpack_token_t *token, sel_str_t name, sel_msgpack_t *value);


bool
sel_kv_read_mm_infos(sel_kv_reader_t *r, sel_kv_event_t *event)
{
    uint32_t             i, n;
    sel_kv_mm_list_t            list;
    sel_msgpack_token_t  token;

    if (!sel_msgpack_next(&r->mp, &token) || token.type != SEL_MSGPACK_ARRAY) {
        return false;
    }

    n = token.n;

    for (i = 0; i < n; i++) {
        list = (sel_kv_mm_list_t) { 0, 0, NULL };

        if (!sel_kv_mm_info(r, &list)
            || (list.n != 0 && !sel_kv_mm_keep(r, event, i, &list)))
        {
            return false;
        }
    }

    return true;
}


static bool
sel_kv_mm_info(sel_kv_reader_t *r, sel_kv_mm_list_t *list)
{
    sel_msgpack_t        objects, end;
    sel_msgpack_token_t  token;

    if (!sel_msgpack_next(&r->mp, &token)) {
        return false;
    }

    if (token.type == SEL_MSGPACK_NIL) {
        return true;
    }

    if (!sel_kv_mm_member(r, &token, sel_str("mm_objects"), &objects)) {
        return false;
    }

    end = r->mp;
    r->mp = objects;

    if (!sel_kv_mm_objects(r, list)) {
        return false;
    }

    r->mp = end;

    return true;
}


static bool
sel_kv_mm_objects(sel_kv_reader_t *r, sel_kv_mm_list_t *list)
{
    uint32_t             n;
    sel_msgpack_token_t  token;

    if (!sel_msgpack_next(&r->mp, &token) || token.type != SEL_MSGPACK_ARRAY) {
        return false;
    }

    for (n = token.n; n != 0; n--) {
        if (!sel_kv_mm_hash(r, list)) {
            return false;
        }
    }

    return true;
}


static bool
sel_kv_mm_hash(sel_kv_reader_t *r, sel_kv_mm_list_t *list)
{
    bool                 given;
    uint64_t             hash;
    sel_msgpack_t        value, end;
    sel_msgpack_token_t  token;

    if (!sel_msgpack_next(&r->mp, &token)
        || !sel_kv_mm_member(r, &token, sel_str("mm_hash"), &value))
    {
        return false;
    }

    end = r->mp;
    r->mp = value;

    if (!sel_kv_read_hash(r, &given, &hash) || !given) {
        return false;
    }

    r->mp = end;

    return sel_kv_mm_add(r, list, hash);
}


/*
 * Steps over the container that token opened; *value is where its member of
 * that name starts, which is the first one when the container is an array.
 */
static bool
sel_kv_mm_member(sel_kv_reader_t *r, const sel_msgpack_token_t *token,
    sel_str_t name, sel_msgpack_t *value)
{
    bool       found;
    uint32_t   i;
    sel_str_t  key;

    if (token->type != SEL_MSGPACK_MAP && token->type != SEL_MSGPACK_ARRAY) {
        return false;
    }

    found = false;
    key = (sel_str_t) { 0, NULL };

    for (i = 0; i < token->n; i++) {
        if (token->type == SEL_MSGPACK_MAP && !sel_kv_read_key(r, &key)) {
            return false;
        }

        if (token->type == SEL_MSGPACK_MAP ? sel_str_eq(key, name) : i == 0) {
            *value = r->mp;
            found = true;
        }

        if (!sel_msgpack_skip(&r->mp)) {
            return false;
        }
    }

    return found;
}


bool
sel_kv_mm_add(sel_kv_reader_t *r, sel_kv_mm_list_t *list, uint64_t hash)
{
    uint32_t   cap;
    uint64_t  *hashes;

    if (list->n == list->cap) {
        cap = list->cap ? list->cap * 2 : 4;
        hashes = sel_arena_grow(r->arena, list->hashes,
                                list->cap * sizeof(uint64_t),
                                cap * sizeof(uint64_t));
        if (hashes == NULL) {
            r->no_memory = true;
            return false;
        }

        list->hashes = hashes;
        list->cap = cap;
    }

    list->hashes[list->n++] = hash;

    return true;
}


bool
sel_kv_mm_keep(sel_kv_reader_t *r, sel_kv_event_t *event, uint32_t i,
    const sel_kv_mm_list_t *list)
{
    if (i >= event->hashes.n) {
        return true;
    }

    if (event->mm == NULL) {
        event->mm = sel_kv_reader_alloc(r, event->hashes.n,
                                        sizeof(sel_mm_block_t));
        if (event->mm == NULL) {
            return false;
        }

        memset(event->mm, 0, event->hashes.n * sizeof(sel_mm_block_t));
    }

    event->mm_n = event->hashes.n;
    event->mm[i].n = list->n;
    event->mm[i].hashes = list->hashes;

    return true;
}
