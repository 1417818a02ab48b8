/*
 * Loader of the test vectors, t/vectors/NAME.json.  Tests run in the
 * repository's root.  64-bit values are decimal strings there, bytes are
 * hexadecimal.  Include after cmocka.h.
 */

#ifndef SEL_VECTORS_H
#define SEL_VECTORS_H

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/sel_base.h"


static inline json_t *
sel_vectors_load(const char *name)
{
    char           path[128];
    json_t        *root;
    json_error_t   error;

    snprintf(path, sizeof(path), "t/vectors/%s.json", name);
    root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);

    if (root == NULL) {
        fail_msg("%s, line %d: %s (run in the repository's root)", path,
                 error.line, error.text);
    }

    return root;
}


/* A member that must be there. */
static inline json_t *
sel_vectors_get(const json_t *object, const char *name)
{
    json_t  *value;

    value = json_object_get(object, name);

    if (value == NULL) {
        fail_msg("the vector has no member \"%s\"", name);
    }

    return value;
}


static inline const char *
sel_vectors_text(const json_t *object, const char *name)
{
    const char  *text;

    text = json_string_value(sel_vectors_get(object, name));

    if (text == NULL) {
        fail_msg("the vector's \"%s\" is not a string", name);
    }

    return text;
}


/* null and absence give an empty view */
static inline sel_str_t
sel_vectors_str(const json_t *object, const char *name)
{
    const char  *text;

    text = json_string_value(json_object_get(object, name));

    return text == NULL ? (sel_str_t) { 0, NULL } : sel_cstr(text);
}


static inline uint64_t
sel_vectors_u64(const json_t *value)
{
    char        *end;
    uint64_t     number;
    const char  *text;

    if (json_is_integer(value)) {
        return (uint64_t) json_integer_value(value);
    }

    text = json_string_value(value);

    if (text == NULL || *text < '0' || *text > '9') {
        fail_msg("the vector holds no decimal number where one must be");
    }

    errno = 0;
    number = strtoull(text, &end, 10);

    if (errno != 0 || *end != '\0') {
        fail_msg("\"%s\" is not a 64-bit number", text);
    }

    return number;
}


/* Memory of exactly the decoded size, from malloc(). */
static inline sel_str_t
sel_vectors_hex(const char *hex)
{
    size_t     i, n;
    uint8_t   *data;
    unsigned   byte;

    n = strlen(hex) / 2;
    data = malloc(n != 0 ? n : 1);

    if (data == NULL || strlen(hex) % 2 != 0) {
        fail_msg("cannot decode \"%s\"", hex);
    }

    for (i = 0; i < n; i++) {

        if (sscanf(&hex[2 * i], "%2x", &byte) != 1) {
            fail_msg("\"%s\" is not hexadecimal", hex);
        }

        data[i] = (uint8_t) byte;
    }

    return (sel_str_t) { n, data };
}


#endif /* SEL_VECTORS_H */
