/*
 * The members of events.
 *
 * extra_keys and block_mm_infos are set aside where they stand and read at
 * the end, because they need the number of hashes and the LoRA name, and keys
 * of a map come in any order.
 */

#include "kv_events/sel_kv_members.h"
#include "kv_events/sel_kv_extra.h"


static bool sel_kv_set_aside(sel_kv_reader_t *r, sel_msgpack_t *value);


static const struct {
    sel_str_t            tag;
    sel_kv_event_kind_t  kind;
} sel_kv_kinds[] = {
    { SEL_KV_NAME("BlockStored"), SEL_KV_EVENT_STORED },
    { SEL_KV_NAME("BlockRemoved"), SEL_KV_EVENT_REMOVED },
    { SEL_KV_NAME("AllBlocksCleared"), SEL_KV_EVENT_CLEARED },
    { SEL_KV_NAME("Ignored"), SEL_KV_EVENT_IGNORED },
};


bool
sel_kv_find_kind(sel_str_t tag, sel_kv_event_kind_t *kind)
{
    uint32_t  i;

    for (i = 0; i < sel_countof(sel_kv_kinds); i++) {
        if (sel_str_eq(tag, sel_kv_kinds[i].tag)) {
            *kind = sel_kv_kinds[i].kind;
            return true;
        }
    }

    return false;
}


bool
sel_kv_read_member(sel_kv_reader_t *r, sel_kv_member_t member,
    sel_kv_event_t *event)
{
    bool      given;
    uint32_t  window;

    switch (member) {

    case SEL_KV_M_HASHES:
        return sel_kv_read_hashes(r, &event->hashes);

    case SEL_KV_M_PARENT:
        return sel_kv_read_hash(r, &event->has_parent, &event->parent);

    case SEL_KV_M_TOKENS:
        return sel_kv_read_tokens(r, &event->tokens, &event->eagle);

    case SEL_KV_M_BLOCK_SIZE:
        return sel_kv_read_u64(r, &r->has_block_size, &event->block_size);

    case SEL_KV_M_MEDIUM:
        return sel_kv_read_text(r, &event->medium);

    case SEL_KV_M_LORA_NAME:
        return sel_kv_read_text(r, &event->lora_name);

    case SEL_KV_M_LORA_OR_METADATA:
        return sel_kv_read_lora_or_metadata(r, event);

    case SEL_KV_M_EXTRA_KEYS:
        return sel_kv_set_aside(r, &r->extra_keys);

    case SEL_KV_M_MM_INFOS:
        return sel_kv_set_aside(r, &r->mm_infos);

    case SEL_KV_M_SALT:
        return sel_kv_read_text(r, &event->cache_namespace);

    case SEL_KV_M_GROUP:
        return sel_kv_read_u32(r, &event->has_group, &event->group);

    case SEL_KV_M_SPEC_KIND:
        return sel_kv_read_text(r, &event->spec_kind);

    case SEL_KV_M_WINDOW:
        return sel_kv_read_u32(r, &given, &window);

    case SEL_KV_M_LOCALITY:
        return sel_kv_read_text(r, &event->locality);

    case SEL_KV_M_OWNERSHIP:
        return sel_kv_read_text(r, &event->ownership);

    case SEL_KV_M_SKIPPED:
        break;
    }

    return sel_msgpack_skip(&r->mp);
}


/* Remembers where the next value starts; a nil is no value. */
static bool
sel_kv_set_aside(sel_kv_reader_t *r, sel_msgpack_t *value)
{
    sel_msgpack_t        start;
    sel_msgpack_token_t  token;

    start = r->mp;
    *value = (sel_msgpack_t) { NULL, NULL };

    if (!sel_msgpack_next(&r->mp, &token)) {
        return false;
    }

    if (token.type == SEL_MSGPACK_NIL) {
        return true;
    }

    r->mp = start;
    *value = start;

    return sel_msgpack_skip(&r->mp);
}


bool
sel_kv_finish(sel_kv_reader_t *r, sel_kv_event_t *event)
{
    bool           ok;
    sel_msgpack_t  end;

    switch (event->kind) {

    case SEL_KV_EVENT_STORED:
        if (event->hashes.data == NULL || event->tokens.data == NULL
            || !r->has_block_size)
        {
            return false;
        }

        end = r->mp;
        ok = sel_kv_read_extra(r, event);
        r->mp = end;

        return ok;

    case SEL_KV_EVENT_REMOVED:
        return event->hashes.data != NULL;

    default:
        return true;
    }
}
