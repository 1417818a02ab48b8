/*
 * Skipping.  Nesting is a loop with the kinds of the open containers, not a
 * recursion; the depth limit of the reader bounds it.
 */

#include "core/sel_json_impl.h"


static int sel_json_skip_next(sel_json_t *json, bool object);
static bool sel_json_skip_scalar(sel_json_t *json, sel_json_type_t type);


bool
sel_json_skip(sel_json_t *json)
{
    int              rc;
    bool             object[SEL_JSON_MAX_DEPTH];
    unsigned         level;
    sel_json_type_t  type;

    level = 0;

    do {
        if (level != 0) {
            rc = sel_json_skip_next(json, object[level - 1]);

            if (rc == -1) {
                return false;
            }

            if (rc == 0) {
                level--;
                continue;
            }
        }

        type = sel_json_peek(json);

        if (type == SEL_JSON_ARRAY || type == SEL_JSON_OBJECT) {
            if (!sel_json_open(json)) {
                return false;
            }

            object[level++] = type == SEL_JSON_OBJECT;

        } else if (!sel_json_skip_scalar(json, type)) {
            return false;
        }

    } while (level != 0);

    return true;
}


static int
sel_json_skip_next(sel_json_t *json, bool object)
{
    int        rc;
    sel_str_t  key;

    if (!object) {
        return sel_json_array_next(json);
    }

    rc = sel_json_key(json, 0, &key);

    return rc == 1 && !sel_json_colon(json) ? -1 : rc;
}


static bool
sel_json_skip_scalar(sel_json_t *json, sel_json_type_t type)
{
    double             value;
    sel_str_t          text;
    sel_json_number_t  number;

    switch (type) {

    case SEL_JSON_NULL:
        return sel_json_literal(json, "null");

    case SEL_JSON_BOOL:
        return sel_json_literal(json, *json->pos == 't' ? "true" : "false");

    case SEL_JSON_NUMBER:
        return sel_json_number(json, &number)
               && sel_json_double(json, &number, &value);

    case SEL_JSON_STRING:
        return sel_json_text(json, 0, &text);

    default:
        return sel_json_syntax(json, "EOF while parsing a value");
    }
}
