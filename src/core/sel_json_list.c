/*
 * Arrays straight into lists.  Elements are taken by the run of numbers where
 * it can (sel_json_run.c), else one by one with the ordinary reader: it knows
 * the whole grammar, crosses segments and finds the words for a fault.
 */

#include "core/sel_json_list_impl.h"


#define SEL_JSON_LIST_MIN  64


static bool sel_json_u64s(sel_json_t *json, sel_json_list_kind_t kind,
    sel_u64_list_t *out);
static bool sel_json_list(sel_json_t *json, sel_json_list_kind_t kind,
    size_t size, sel_json_list_t *list);
static bool sel_json_list_grow(sel_json_t *json, sel_json_list_t *list);
static bool sel_json_list_one(sel_json_t *json, sel_json_list_t *list);


bool
sel_json_u32_list(sel_json_t *json, sel_u32_list_t *out)
{
    sel_json_list_t  list;

    if (!sel_json_list(json, SEL_JSON_LIST_U32, sizeof(uint32_t), &list)) {
        return false;
    }

    out->n = list.n;
    out->data = list.data;

    return true;
}


bool
sel_json_u64_list(sel_json_t *json, sel_u64_list_t *out)
{
    return sel_json_u64s(json, SEL_JSON_LIST_U64, out);
}


bool
sel_json_hash_list(sel_json_t *json, sel_u64_list_t *out)
{
    return sel_json_u64s(json, SEL_JSON_LIST_HASH, out);
}


bool
sel_json_string_list(sel_json_t *json, sel_str_list_t *out)
{
    sel_json_list_t  list;

    if (!sel_json_list(json, SEL_JSON_LIST_STRING, sizeof(sel_str_t),
                       &list))
    {
        return false;
    }

    out->n = list.n;
    out->data = list.data;

    return true;
}


static bool
sel_json_u64s(sel_json_t *json, sel_json_list_kind_t kind,
    sel_u64_list_t *out)
{
    sel_json_list_t  list;

    if (!sel_json_list(json, kind, sizeof(uint64_t), &list)) {
        return false;
    }

    out->n = list.n;
    out->data = list.data;

    return true;
}


static bool
sel_json_list(sel_json_t *json, sel_json_list_kind_t kind, size_t size,
    sel_json_list_t *list)
{
    int  rc;

    list->kind = kind;
    list->windows = true;
    list->size = size;
    list->n = 0;
    list->cap = 0;
    list->data = NULL;

    /* scratch first, so that the list stays the newest and grows in place */

    if (!sel_json_array_begin(json) || !sel_json_scratch(json, 1)) {
        return false;
    }

    while ((rc = sel_json_array_next(json)) == 1) {

        if (list->n == list->cap && !sel_json_list_grow(json, list)) {
            return false;
        }

        if (sel_json_run(json, list) == 0
            && !sel_json_list_one(json, list))
        {
            return false;
        }
    }

    return rc == 0;
}


static bool
sel_json_list_grow(sel_json_t *json, sel_json_list_t *list)
{
    void      *data;
    uint32_t   cap;

    if (list->cap > UINT32_MAX / 2) {
        return sel_json_no_memory(json);
    }

    cap = list->cap != 0 ? list->cap * 2 : SEL_JSON_LIST_MIN;

    data = sel_arena_grow(json->arena, list->data, list->cap * list->size,
                          cap * list->size);
    if (data == NULL) {
        return sel_json_no_memory(json);
    }

    list->data = data;
    list->cap = cap;
    list->windows = true;

    return true;
}


/* The slow path: one element of any form. */

static bool
sel_json_list_one(sel_json_t *json, sel_json_list_t *list)
{
    bool             ok;
    sel_json_path_t  here;

    here.up = json->path;
    here.name.len = list->n;
    here.name.data = NULL;

    json->path = &here;

    switch (list->kind) {

    case SEL_JSON_LIST_U32:
        ok = sel_json_u32(json, (uint32_t *) list->data + list->n);
        break;

    case SEL_JSON_LIST_U64:
        ok = sel_json_u64(json, (uint64_t *) list->data + list->n);
        break;

    case SEL_JSON_LIST_HASH:
        ok = sel_json_hash(json, (uint64_t *) list->data + list->n);
        break;

    default:
        ok = sel_json_string(json, (sel_str_t *) list->data + list->n);
    }

    json->path = here.up;
    list->n += ok;

    return ok;
}
