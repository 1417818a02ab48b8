/*
 * Cache namespace and multimodal objects of a stored event.
 *
 * Engines say the same thing in different places.  The namespace is a member
 * of its own, or stands in a metadata map, or is a tagged text among the
 * extra keys of the first block.  Multimodal objects stand in
 * block_mm_infos as numbers, or among each block's extra keys as texts; the
 * former wins.  Extra keys of a kind that is not known here are passed over:
 * engines add kinds.
 */

#include "kv_events/sel_kv_extra.h"
#include "kv_events/sel_kv_mm.h"


#define SEL_KV_SALT_TAG   "dynamo-cache-salt:"
#define SEL_KV_MM_DIGITS  64


/* one item of extra_keys; text.data NULL: of no use here */
typedef struct {
    sel_str_t  text;
    bool       pair;            /* [text, offset] */
} sel_kv_item_t;


static bool sel_kv_extra_metadata(sel_kv_reader_t *r, uint32_t n,
    sel_kv_event_t *event);
static bool sel_kv_extra_keys(sel_kv_reader_t *r, sel_kv_event_t *event);
static bool sel_kv_extra_entry(sel_kv_reader_t *r, uint32_t n, bool salted,
    sel_kv_event_t *event, sel_kv_mm_list_t *list);
static bool sel_kv_extra_item(sel_kv_reader_t *r, sel_kv_item_t *item);
static bool sel_kv_extra_pair(sel_kv_reader_t *r, sel_kv_item_t *item);
static bool sel_kv_extra_salt(sel_kv_item_t *item, sel_str_t *salt);
static bool sel_kv_extra_mm(sel_kv_item_t *item, sel_str_t lora_name,
    uint64_t *hash);


bool
sel_kv_read_lora_or_metadata(sel_kv_reader_t *r, sel_kv_event_t *event)
{
    sel_msgpack_t        start;
    sel_msgpack_token_t  token;

    start = r->mp;

    if (!sel_msgpack_next(&r->mp, &token)) {
        return false;
    }

    if (token.type == SEL_MSGPACK_MAP) {
        return sel_kv_extra_metadata(r, token.n, event);
    }

    r->mp = start;

    return sel_kv_read_text(r, &event->lora_name);
}


static bool
sel_kv_extra_metadata(sel_kv_reader_t *r, uint32_t n, sel_kv_event_t *event)
{
    sel_str_t  key;

    while (n-- != 0) {
        if (!sel_kv_read_key(r, &key)) {
            return false;
        }

        if (sel_str_eq(key, sel_str("cache_salt"))
            ? !sel_kv_read_text(r, &event->cache_namespace)
            : !sel_msgpack_skip(&r->mp))
        {
            return false;
        }
    }

    return true;
}


bool
sel_kv_read_extra(sel_kv_reader_t *r, sel_kv_event_t *event)
{
    if (r->mm_infos.pos != NULL) {
        r->mp = r->mm_infos;

        if (!sel_kv_read_mm_infos(r, event)) {
            return false;
        }
    }

    if (r->extra_keys.pos != NULL) {
        r->mp = r->extra_keys;

        return sel_kv_extra_keys(r, event);
    }

    return true;
}


static bool
sel_kv_extra_keys(sel_kv_reader_t *r, sel_kv_event_t *event)
{
    bool                 salted;
    uint32_t             i, n;
    sel_kv_mm_list_t     list;
    sel_msgpack_token_t  token;

    if (!sel_msgpack_next(&r->mp, &token) || token.type != SEL_MSGPACK_ARRAY) {
        return false;
    }

    n = token.n;
    salted = event->cache_namespace.data != NULL;

    for (i = 0; i < n; i++) {
        if (!sel_msgpack_next(&r->mp, &token)) {
            return false;
        }

        if (token.type == SEL_MSGPACK_NIL) {
            continue;
        }

        list = (sel_kv_mm_list_t) { 0, 0, NULL };

        if (token.type != SEL_MSGPACK_ARRAY
            || !sel_kv_extra_entry(r, token.n, salted || i != 0, event, &list))
        {
            return false;
        }

        if (list.n != 0 && r->mm_infos.pos == NULL
            && !sel_kv_mm_keep(r, event, i, &list))
        {
            return false;
        }
    }

    return true;
}


/* salted: the namespace is known, or this is not the first block */
static bool
sel_kv_extra_entry(sel_kv_reader_t *r, uint32_t n, bool salted,
    sel_kv_event_t *event, sel_kv_mm_list_t *list)
{
    bool           lora_seen;
    uint64_t       hash;
    sel_str_t      lora;
    sel_kv_item_t  item;

    lora = event->lora_name;
    lora_seen = lora.len == 0;

    while (n-- != 0) {
        if (!sel_kv_extra_item(r, &item)) {
            return false;
        }

        if (!item.pair && !lora_seen && sel_str_eq(item.text, lora)) {
            lora_seen = true;
            continue;
        }

        if (!salted) {
            salted = sel_kv_extra_salt(&item, &event->cache_namespace);
        }

        if (sel_kv_extra_mm(&item, lora, &hash)
            && !sel_kv_mm_add(r, list, hash))
        {
            return false;
        }
    }

    return true;
}


static bool
sel_kv_extra_item(sel_kv_reader_t *r, sel_kv_item_t *item)
{
    sel_msgpack_t        start;
    sel_msgpack_token_t  token;

    *item = (sel_kv_item_t) { { 0, NULL }, false };
    start = r->mp;

    if (!sel_msgpack_next(&r->mp, &token)) {
        return false;
    }

    if (token.type == SEL_MSGPACK_ARRAY && token.n == 2) {
        return sel_kv_extra_pair(r, item);
    }

    if (sel_kv_is_text(&token)) {
        item->text = token.str;
        return true;
    }

    r->mp = start;

    return sel_msgpack_skip(&r->mp);
}


static bool
sel_kv_extra_pair(sel_kv_reader_t *r, sel_kv_item_t *item)
{
    sel_msgpack_t        start;
    sel_msgpack_token_t  text, offset;

    start = r->mp;

    if (sel_msgpack_next(&r->mp, &text) && sel_kv_is_text(&text)
        && sel_msgpack_next(&r->mp, &offset)
        && (offset.type == SEL_MSGPACK_UINT || offset.type == SEL_MSGPACK_INT))
    {
        item->text = text.str;
        item->pair = true;
        return true;
    }

    r->mp = start;

    return sel_msgpack_skip(&r->mp) && sel_msgpack_skip(&r->mp);
}


static bool
sel_kv_extra_salt(sel_kv_item_t *item, sel_str_t *salt)
{
    sel_str_t  tag;

    tag = sel_str(SEL_KV_SALT_TAG);

    if (item->pair || item->text.len <= tag.len
        || memcmp(item->text.data, tag.data, tag.len) != 0)
    {
        return false;
    }

    salt->data = item->text.data + tag.len;
    salt->len = item->text.len - tag.len;

    return true;
}


static bool
sel_kv_extra_mm(sel_kv_item_t *item, sel_str_t lora_name, uint64_t *hash)
{
    size_t   i;
    uint8_t  c;

    if (item->pair) {
        return sel_hash_mm_text(item->text, hash);
    }

    if (item->text.len != SEL_KV_MM_DIGITS
        || sel_str_eq(item->text, lora_name))
    {
        return false;
    }

    for (i = 0; i < SEL_KV_MM_DIGITS; i++) {
        c = item->text.data[i];

        if (!(c >= '0' && c <= '9') && !((c | 0x20) >= 'a'
            && (c | 0x20) <= 'f'))
        {
            return false;
        }
    }

    return sel_hash_mm_text(item->text, hash);
}
