/*
 * Objects by table.  A member is found by its name, checked for repetition
 * and read into its field; what was given is a bit mask, from which missing
 * members follow at the end.
 */

#include <stdio.h>
#include "core/sel_json_impl.h"
#include "core/sel_json_text.h"


#define SEL_JSON_NAMES_ROOM  256    /* of the variants in a message */


static uint32_t sel_json_find(const sel_json_struct_t *type, sel_str_t key);
static bool sel_json_member(sel_json_t *json, const sel_json_struct_t *type,
    uint32_t i, void *record);
static bool sel_json_unknown(sel_json_t *json, sel_str_t key);
static bool sel_json_field(sel_json_t *json, const sel_json_member_t *member,
    void *field);
static bool sel_json_enum(sel_json_t *json, const char *const *names,
    uint32_t *value);
static bool sel_json_variant_fault(sel_json_t *json, const char *const *names,
    sel_str_t text);
static bool sel_json_complete(sel_json_t *json, const sel_json_struct_t *type,
    void *record);
static uint64_t *sel_json_given(const sel_json_struct_t *type, void *record);


bool
sel_json_read_struct(sel_json_t *json, const sel_json_struct_t *type,
    void *record)
{
    int        rc;
    bool       ok;
    uint32_t   i;
    uint64_t   seen;
    sel_str_t  key;

    if (!sel_json_expect(json, SEL_JSON_OBJECT, type->expected)
        || !sel_json_open(json))
    {
        return false;
    }

    seen = 0;
    *sel_json_given(type, record) = 0;

    while ((rc = sel_json_key(json, SEL_JSON_KEEP, &key)) == 1) {
        i = sel_json_find(type, key);

        if (i == type->n) {
            ok = sel_json_unknown(json, key);

        } else if ((seen & UINT64_C(1) << i) != 0) {
            ok = sel_json_fail(json, "duplicate field `%s`",
                               type->members[i].name);

        } else {
            seen |= UINT64_C(1) << i;
            ok = sel_json_member(json, type, i, record);
        }

        if (!ok) {
            return false;
        }
    }

    return rc == 0 && sel_json_complete(json, type, record);
}


static uint32_t
sel_json_find(const sel_json_struct_t *type, sel_str_t key)
{
    uint32_t     i;
    const char  *name;

    for (i = 0; i < type->n; i++) {
        name = type->members[i].name;

        if (key.len != 0 && (uint8_t) name[0] == key.data[0]
            && sel_str_eq(sel_cstr(name), key))
        {
            break;
        }
    }

    return i;
}


static bool
sel_json_member(sel_json_t *json, const sel_json_struct_t *type, uint32_t i,
    void *record)
{
    bool                      ok, null;
    sel_json_path_t           here;
    const sel_json_member_t  *member;

    member = &type->members[i];

    here.up = json->path;
    here.name = sel_cstr(member->name);

    json->path = &here;

    ok = sel_json_colon(json);
    null = false;

    if (ok && (member->flags & SEL_JSON_NOT_NULL) == 0) {
        null = sel_json_peek(json) == SEL_JSON_NULL;
    }

    if (ok && null) {
        ok = sel_json_null(json);

    } else if (ok) {
        ok = sel_json_field(json, member, (char *) record + member->offset);
    }

    json->path = here.up;

    if (ok && !null) {
        *sel_json_given(type, record) |= UINT64_C(1) << i;
    }

    return ok;
}


/* The key's memory is gone when the value is read; the path needs a copy. */

static bool
sel_json_unknown(sel_json_t *json, sel_str_t key)
{
    bool             ok;
    uint8_t          name[SEL_JSON_QUOTE_MAX];
    sel_json_path_t  here;

    here.up = json->path;
    here.name.len = sel_utf8_cut(key, sizeof(name));
    here.name.data = name;

    if (here.name.len != 0) {
        memcpy(name, key.data, here.name.len);
    }

    json->path = &here;

    ok = sel_json_colon(json) && sel_json_skip(json);

    json->path = here.up;

    return ok;
}


static bool
sel_json_field(sel_json_t *json, const sel_json_member_t *member, void *field)
{
    switch (member->kind) {

    case SEL_JSON_M_BOOL:
        return sel_json_bool(json, field);

    case SEL_JSON_M_U32:
        return sel_json_u32(json, field);

    case SEL_JSON_M_U64:
        return sel_json_u64(json, field);

    case SEL_JSON_M_F32:
        return sel_json_f32(json, field);

    case SEL_JSON_M_F64:
        return sel_json_f64(json, field);

    case SEL_JSON_M_STRING:
        return sel_json_string(json, field);

    case SEL_JSON_M_U32_LIST:
        return sel_json_u32_list(json, field);

    case SEL_JSON_M_U64_LIST:
        return sel_json_u64_list(json, field);

    case SEL_JSON_M_HASH_LIST:
        return sel_json_hash_list(json, field);

    case SEL_JSON_M_STRING_LIST:
        return sel_json_string_list(json, field);

    case SEL_JSON_M_ENUM:
        return sel_json_enum(json, member->names, field);

    case SEL_JSON_M_OBJECT:
        return sel_json_read_struct(json, member->object, field);

    default:
        return member->call(json, field);
    }
}


static bool
sel_json_enum(sel_json_t *json, const char *const *names, uint32_t *value)
{
    uint32_t   i;
    sel_str_t  text;

    if (!sel_json_expect(json, SEL_JSON_STRING, "a string")
        || !sel_json_text(json, SEL_JSON_KEEP, &text))
    {
        return false;
    }

    for (i = 0; names[i] != NULL; i++) {
        if (sel_str_eq(sel_cstr(names[i]), text)) {
            *value = i;
            return true;
        }
    }

    return sel_json_variant_fault(json, names, text);
}


/* "expected `a`", "expected `a` or `b`", "expected one of `a`, `b`, `c`" */

static bool
sel_json_variant_fault(sel_json_t *json, const char *const *names,
    sel_str_t text)
{
    char      quoted[SEL_JSON_QUOTE_MAX + 1], list[SEL_JSON_NAMES_ROOM];
    size_t    len;
    uint32_t  i, n;

    for (n = 0; names[n] != NULL; n++) {
        /* void */
    }

    len = 0;
    list[0] = '\0';

    for (i = 0; i < n && len < sizeof(list); i++) {
        len += snprintf(list + len, sizeof(list) - len, "%s`%s`",
                        i == 0 ? (n > 2 ? "one of " : "")
                               : (n > 2 ? ", " : " or "),
                        names[i]);
    }

    sel_json_quote(quoted, text, false);

    return sel_json_fail(json, "unknown variant `%s`, expected %s", quoted,
                         list);
}


static bool
sel_json_complete(sel_json_t *json, const sel_json_struct_t *type,
    void *record)
{
    uint32_t  i;
    uint64_t  given;

    given = *sel_json_given(type, record);

    for (i = 0; i < type->n; i++) {

        if ((type->members[i].flags & SEL_JSON_REQUIRED) != 0
            && (given & UINT64_C(1) << i) == 0)
        {
            return sel_json_fail(json, "missing field `%s`",
                                 type->members[i].name);
        }
    }

    return type->check == NULL || type->check(json, record);
}


static uint64_t *
sel_json_given(const sel_json_struct_t *type, void *record)
{
    return (uint64_t *) ((char *) record + type->given);
}
