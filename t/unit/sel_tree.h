/*
 * A whole JSON document through the reader as a jansson tree, to be compared
 * with what jansson itself reads.  Numbers become reals.
 */

#ifndef SEL_TREE_H
#define SEL_TREE_H

#include <jansson.h>

#include "core/sel_json_read.h"


static inline const char *
sel_tree_chars(sel_str_t text)
{
    return text.len != 0 ? (const char *) text.data : "";
}


/* Reads any value; NULL when the reader failed. */
static inline json_t *sel_tree_value(sel_json_t *json);


/* The container, or NULL when rc says that the reader failed. */
static inline json_t *
sel_tree_done(json_t *container, int rc)
{
    if (rc != 0) {
        json_decref(container);
        return NULL;
    }

    return container;
}


static inline json_t *
sel_tree_array(sel_json_t *json)
{
    int      rc;
    json_t  *array, *value;

    if (!sel_json_array_begin(json)) {
        return NULL;
    }

    array = json_array();

    while ((rc = sel_json_array_next(json)) == 1) {
        value = sel_tree_value(json);

        if (value == NULL) {
            return sel_tree_done(array, -1);
        }

        json_array_append_new(array, value);
    }

    return sel_tree_done(array, rc);
}


static inline json_t *
sel_tree_object(sel_json_t *json)
{
    int         rc;
    json_t     *object, *value;
    sel_str_t   key;

    if (!sel_json_object_begin(json)) {
        return NULL;
    }

    object = json_object();

    while ((rc = sel_json_object_next(json, &key)) == 1) {
        value = sel_tree_value(json);

        if (value == NULL) {
            return sel_tree_done(object, -1);
        }

        json_object_setn_new_nocheck(object, sel_tree_chars(key), key.len,
                                     value);
    }

    return sel_tree_done(object, rc);
}


static inline json_t *
sel_tree_scalar(sel_json_t *json, sel_json_type_t type)
{
    bool       flag;
    double     number;
    sel_str_t  text;

    switch (type) {

    case SEL_JSON_NULL:
        return sel_json_null(json) ? json_null() : NULL;

    case SEL_JSON_BOOL:
        return sel_json_bool(json, &flag) ? json_boolean(flag) : NULL;

    case SEL_JSON_NUMBER:
        return sel_json_f64(json, &number) ? json_real(number) : NULL;

    case SEL_JSON_STRING:
        if (!sel_json_string(json, &text)) {
            return NULL;
        }

        return json_stringn_nocheck(sel_tree_chars(text), text.len);

    default:
        (void) sel_json_skip(json);         /* let it say what is wrong */
        return NULL;
    }
}


static inline json_t *
sel_tree_value(sel_json_t *json)
{
    sel_json_type_t  type;

    type = sel_json_peek(json);

    switch (type) {
    case SEL_JSON_ARRAY:
        return sel_tree_array(json);
    case SEL_JSON_OBJECT:
        return sel_tree_object(json);
    default:
        return sel_tree_scalar(json, type);
    }
}


/* The whole document, with nothing behind it. */
static inline json_t *
sel_tree_document(sel_json_t *json)
{
    json_t  *root;

    root = sel_tree_value(json);

    if (root != NULL && !sel_json_end(json)) {
        json_decref(root);
        return NULL;
    }

    return root;
}


/*
 * jansson's own reading, with every number as a real.  It takes a NUL byte
 * behind a number for the end of the text, which is no JSON.
 */
static inline json_t *
sel_tree_jansson(const void *text, size_t len, json_error_t *error)
{
    memset(error, 0, sizeof(*error));

    if (memchr(text, '\0', len) != NULL) {
        return NULL;
    }

    return json_loadb(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL
                                 | JSON_DECODE_INT_AS_REAL, error);
}


/* nested arrays and objects */
static inline unsigned
sel_tree_depth(json_t *value)
{
    void        *it;
    size_t       i;
    unsigned     depth, deepest;

    deepest = 0;

    for (i = 0; i < json_array_size(value); i++) {
        depth = sel_tree_depth(json_array_get(value, i));
        deepest = depth > deepest ? depth : deepest;
    }

    for (it = json_object_iter(value);
         it != NULL;
         it = json_object_iter_next(value, it))
    {
        depth = sel_tree_depth(json_object_iter_value(it));
        deepest = depth > deepest ? depth : deepest;
    }

    return json_is_array(value) || json_is_object(value) ? deepest + 1 : 0;
}


#endif /* SEL_TREE_H */
