/*
 * The map form of an event: members by key, in any order.
 *
 * What a key means depends on the event's tag.  The tag is the first key of
 * every engine's maps, so that is tried first.  Where it is not, or where it
 * comes twice (the last one counts), or where nothing came of it, the map is
 * read again, with the tag looked for in all of it.
 */

#include "kv_events/sel_kv_members.h"


#define SEL_KV_OF_STORED   (1u << SEL_KV_EVENT_STORED)
#define SEL_KV_OF_REMOVED  (1u << SEL_KV_EVENT_REMOVED)
#define SEL_KV_OF_CLEARED  (1u << SEL_KV_EVENT_CLEARED)


typedef struct {
    sel_str_t        name;
    sel_kv_member_t  member;
    uint32_t         kinds;     /* of events that have it */
} sel_kv_row_t;


static sel_kv_outcome_t sel_kv_map_tagged(sel_kv_reader_t *r, uint32_t n,
    bool anywhere, sel_kv_event_t *event);
static bool sel_kv_map_tag(sel_kv_reader_t *r, uint32_t n, sel_str_t *tag);
static bool sel_kv_map_is_tag(sel_str_t key);
static sel_kv_outcome_t sel_kv_map_members(sel_kv_reader_t *r, uint32_t n,
    bool anywhere, sel_kv_event_t *event);
static const sel_kv_row_t *sel_kv_map_row(sel_str_t key, uint32_t *hint);


/* in the order in which engines send them */
static const sel_kv_row_t  sel_kv_rows[] = {
    { SEL_KV_NAME("block_hashes"), SEL_KV_M_HASHES,
      SEL_KV_OF_STORED | SEL_KV_OF_REMOVED },
    { SEL_KV_NAME("parent_block_hash"), SEL_KV_M_PARENT,
      SEL_KV_OF_STORED },
    { SEL_KV_NAME("token_ids"), SEL_KV_M_TOKENS,
      SEL_KV_OF_STORED },
    { SEL_KV_NAME("block_size"), SEL_KV_M_BLOCK_SIZE,
      SEL_KV_OF_STORED },
    { SEL_KV_NAME("medium"), SEL_KV_M_MEDIUM,
      SEL_KV_OF_STORED | SEL_KV_OF_REMOVED },
    { SEL_KV_NAME("lora_name"), SEL_KV_M_LORA_NAME,
      SEL_KV_OF_STORED },
    { SEL_KV_NAME("extra_keys"), SEL_KV_M_EXTRA_KEYS,
      SEL_KV_OF_STORED },
    { SEL_KV_NAME("block_mm_infos"), SEL_KV_M_MM_INFOS,
      SEL_KV_OF_STORED },
    { SEL_KV_NAME("cache_salt"), SEL_KV_M_SALT,
      SEL_KV_OF_STORED },
    { SEL_KV_NAME("group_idx"), SEL_KV_M_GROUP,
      SEL_KV_OF_STORED | SEL_KV_OF_REMOVED },
    { SEL_KV_NAME("kv_cache_spec_kind"), SEL_KV_M_SPEC_KIND,
      SEL_KV_OF_STORED | SEL_KV_OF_REMOVED },
    { SEL_KV_NAME("kv_cache_spec_sliding_window"), SEL_KV_M_WINDOW,
      SEL_KV_OF_STORED | SEL_KV_OF_REMOVED },
    { SEL_KV_NAME("locality"), SEL_KV_M_LOCALITY,
      SEL_KV_OF_STORED | SEL_KV_OF_REMOVED | SEL_KV_OF_CLEARED },
    { SEL_KV_NAME("ownership"), SEL_KV_M_OWNERSHIP,
      SEL_KV_OF_STORED | SEL_KV_OF_REMOVED | SEL_KV_OF_CLEARED },
};


sel_kv_outcome_t
sel_kv_read_map(sel_kv_reader_t *r, uint32_t n, sel_kv_event_t *event)
{
    sel_kv_reader_t   start;
    sel_kv_outcome_t  outcome;

    start = *r;
    outcome = sel_kv_map_tagged(r, n, false, event);

    if (outcome != SEL_KV_READ && !r->no_memory) {
        *r = start;
        memset(event, 0, sizeof(sel_kv_event_t));

        outcome = sel_kv_map_tagged(r, n, true, event);
    }

    return outcome;
}


/*
 * anywhere: the tag is looked for in the whole map; else the first key has to
 * be it and no other, or the outcome is SEL_KV_UNKNOWN.
 */
static sel_kv_outcome_t
sel_kv_map_tagged(sel_kv_reader_t *r, uint32_t n, bool anywhere,
    sel_kv_event_t *event)
{
    sel_str_t        tag;
    sel_kv_reader_t  start;

    start = *r;

    if (!sel_kv_map_tag(r, anywhere || n == 0 ? n : 1, &tag)) {
        return SEL_KV_REFUSED;
    }

    if (tag.data == NULL) {
        return anywhere ? SEL_KV_REFUSED : SEL_KV_UNKNOWN;
    }

    if (!sel_kv_find_kind(tag, &event->kind)) {
        return SEL_KV_UNKNOWN;
    }

    *r = start;

    return sel_kv_map_members(r, n, anywhere, event);
}


static bool
sel_kv_map_tag(sel_kv_reader_t *r, uint32_t n, sel_str_t *tag)
{
    sel_str_t  key;

    *tag = (sel_str_t) { 0, NULL };

    while (n-- != 0) {
        if (!sel_kv_read_key(r, &key)) {
            return false;
        }

        if (sel_kv_map_is_tag(key) ? !sel_kv_read_text(r, tag)
                                   : !sel_msgpack_skip(&r->mp))
        {
            return false;
        }
    }

    return true;
}


static bool
sel_kv_map_is_tag(sel_str_t key)
{
    return sel_str_eq(key, sel_str("type"));
}


static sel_kv_outcome_t
sel_kv_map_members(sel_kv_reader_t *r, uint32_t n, bool anywhere,
    sel_kv_event_t *event)
{
    uint32_t              i, hint;
    sel_str_t             key;
    sel_kv_member_t       member;
    const sel_kv_row_t   *row;

    hint = 0;

    for (i = 0; i < n; i++) {
        if (!sel_kv_read_key(r, &key)) {
            return SEL_KV_REFUSED;
        }

        if (i != 0 && !anywhere && sel_kv_map_is_tag(key)) {
            return SEL_KV_UNKNOWN;
        }

        row = sel_kv_map_row(key, &hint);
        member = SEL_KV_M_SKIPPED;

        if (row != NULL && (row->kinds & 1u << event->kind) != 0) {
            member = row->member;
        }

        if (!sel_kv_read_member(r, member, event)) {
            return SEL_KV_REFUSED;
        }
    }

    return sel_kv_finish(r, event) ? SEL_KV_READ : SEL_KV_REFUSED;
}


/* Keys come in the order of the rows, so looking goes on behind the last. */
static const sel_kv_row_t *
sel_kv_map_row(sel_str_t key, uint32_t *hint)
{
    uint32_t  i, row;

    row = *hint;

    for (i = 0; i < sel_countof(sel_kv_rows); i++) {
        if (sel_str_eq(key, sel_kv_rows[row].name)) {
            *hint = (row + 1) % sel_countof(sel_kv_rows);
            return &sel_kv_rows[row];
        }

        row = (row + 1) % sel_countof(sel_kv_rows);
    }

    return NULL;
}
