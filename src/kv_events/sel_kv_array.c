/*
 * The array form of an event: members by position, then a tail of which
 * engines sent two layouts.
 *
 * The fixed layout names each place of the tail.  It is assumed when the tail
 * is long enough and every element fits its place or is nil.  Older senders
 * left out what they did not have, so there the type tells the member.
 */

#include "kv_events/sel_kv_members.h"


#define SEL_KV_TAIL_MAX    5
#define SEL_KV_TAIL_FIXED  4        /* elements make the fixed layout */


typedef struct {
    const sel_kv_member_t  *members;
    uint32_t                n;
    bool                    tail;
} sel_kv_layout_t;


static bool sel_kv_array_known(sel_kv_reader_t *r, uint32_t n, uint32_t *read,
    sel_kv_event_t *event);
static uint32_t sel_kv_array_min(uint32_t a, uint32_t b);
static bool sel_kv_array_tail(sel_kv_reader_t *r, uint32_t n,
    sel_kv_event_t *event);
static bool sel_kv_array_fits(sel_msgpack_t mp, uint32_t n);
static bool sel_kv_array_tail_by_type(sel_kv_reader_t *r, uint32_t n,
    sel_kv_event_t *event);


static const sel_kv_member_t  sel_kv_stored_order[] = {
    SEL_KV_M_HASHES, SEL_KV_M_PARENT, SEL_KV_M_TOKENS, SEL_KV_M_BLOCK_SIZE,
    SEL_KV_M_SKIPPED, SEL_KV_M_MEDIUM, SEL_KV_M_LORA_OR_METADATA,
    SEL_KV_M_EXTRA_KEYS
};

static const sel_kv_member_t  sel_kv_removed_order[] = {
    SEL_KV_M_HASHES, SEL_KV_M_MEDIUM
};

static const sel_kv_member_t  sel_kv_cleared_order[] = {
    SEL_KV_M_OWNERSHIP
};

/* what stands behind the tag */
static const sel_kv_layout_t  sel_kv_layouts[] = {
    [SEL_KV_EVENT_STORED] = {
        sel_kv_stored_order, sel_countof(sel_kv_stored_order), true
    },
    [SEL_KV_EVENT_REMOVED] = {
        sel_kv_removed_order, sel_countof(sel_kv_removed_order), true
    },
    [SEL_KV_EVENT_CLEARED] = {
        sel_kv_cleared_order, sel_countof(sel_kv_cleared_order), false
    },
    [SEL_KV_EVENT_IGNORED] = { NULL, 0, false },
};

static const sel_kv_member_t  sel_kv_fixed_tail[SEL_KV_TAIL_MAX] = {
    SEL_KV_M_GROUP, SEL_KV_M_SPEC_KIND, SEL_KV_M_WINDOW, SEL_KV_M_LOCALITY,
    SEL_KV_M_OWNERSHIP
};


sel_kv_outcome_t
sel_kv_read_array(sel_kv_reader_t *r, uint32_t n, sel_kv_event_t *event)
{
    uint32_t   read;
    sel_str_t  tag;

    if (n == 0 || !sel_kv_read_text(r, &tag) || tag.data == NULL) {
        return SEL_KV_REFUSED;
    }

    if (!sel_kv_find_kind(tag, &event->kind)) {
        return SEL_KV_UNKNOWN;
    }

    n--;

    if (!sel_kv_array_known(r, n, &read, event)) {
        return SEL_KV_REFUSED;
    }

    for ( /* void */ ; read < n; read++) {
        if (!sel_msgpack_skip(&r->mp)) {
            return SEL_KV_REFUSED;
        }
    }

    return sel_kv_finish(r, event) ? SEL_KV_READ : SEL_KV_REFUSED;
}


/* Reads those of n elements that have a meaning, *read of them. */
static bool
sel_kv_array_known(sel_kv_reader_t *r, uint32_t n, uint32_t *read,
    sel_kv_event_t *event)
{
    uint32_t                 i, head, tail;
    const sel_kv_layout_t   *layout;

    layout = &sel_kv_layouts[event->kind];
    head = sel_kv_array_min(n, layout->n);
    tail = layout->tail ? sel_kv_array_min(n - head, SEL_KV_TAIL_MAX) : 0;

    for (i = 0; i < head; i++) {
        if (!sel_kv_read_member(r, layout->members[i], event)) {
            return false;
        }
    }

    *read = head + tail;

    return sel_kv_array_tail(r, tail, event);
}


static uint32_t
sel_kv_array_min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}


static bool
sel_kv_array_tail(sel_kv_reader_t *r, uint32_t n, sel_kv_event_t *event)
{
    uint32_t  i;

    if (n < SEL_KV_TAIL_FIXED || !sel_kv_array_fits(r->mp, n)) {
        return sel_kv_array_tail_by_type(r, n, event);
    }

    for (i = 0; i < n; i++) {
        if (!sel_kv_read_member(r, sel_kv_fixed_tail[i], event)) {
            return false;
        }
    }

    return true;
}


static bool
sel_kv_array_fits(sel_msgpack_t mp, uint32_t n)
{
    bool                 fits;
    uint32_t             i;
    sel_msgpack_token_t  token;

    for (i = 0; i < n; i++) {
        if (!sel_msgpack_next(&mp, &token)) {
            return false;
        }

        if (token.type == SEL_MSGPACK_NIL) {
            continue;
        }

        if (sel_kv_fixed_tail[i] == SEL_KV_M_GROUP
            || sel_kv_fixed_tail[i] == SEL_KV_M_WINDOW)
        {
            fits = token.type == SEL_MSGPACK_UINT && token.u <= UINT32_MAX;

        } else {
            fits = sel_kv_is_text(&token);
        }

        if (!fits) {
            return false;
        }
    }

    return true;
}


static bool
sel_kv_array_tail_by_type(sel_kv_reader_t *r, uint32_t n,
    sel_kv_event_t *event)
{
    uint32_t             numbers;
    sel_msgpack_t        next;
    sel_kv_member_t      member;
    sel_msgpack_token_t  token;

    numbers = 0;

    while (n-- != 0) {
        next = r->mp;

        if (!sel_msgpack_next(&next, &token)) {
            return false;
        }

        member = SEL_KV_M_SKIPPED;

        switch (token.type) {

        case SEL_MSGPACK_ARRAY:
            member = SEL_KV_M_MM_INFOS;
            break;

        case SEL_MSGPACK_UINT:
            if (token.u <= UINT32_MAX && numbers < 2) {
                member = numbers++ == 0 ? SEL_KV_M_GROUP : SEL_KV_M_WINDOW;
            }

            break;

        case SEL_MSGPACK_STR:
        case SEL_MSGPACK_BIN:
            member = SEL_KV_M_SPEC_KIND;        /* the last one counts */
            break;

        default:                                /* nil, or of no use */
            break;
        }

        if (!sel_kv_read_member(r, member, event)) {
            return false;
        }
    }

    return true;
}
