/*
 * The reader's frame: the stream of segments, what comes next, literals and
 * containers.
 *
 * Bytes are taken through sel_json_byte(), which moves on to the next segment
 * by itself, so a token may be cut anywhere; only the fast paths of strings
 * and number lists look at a segment's memory, and they leave the last bytes
 * of a segment to the slow ones.
 *
 * No stack of containers is kept: who reads a container knows its kind, and
 * one flag tells a container just opened, where no comma is due.
 */

#include "core/sel_json_impl.h"


static int sel_json_next(sel_json_t *json, uint8_t close, const char *eof,
    const char *comma);


/* where an exhausted stream stands */
static const uint8_t  sel_json_nothing[1];


void
sel_json_init(sel_json_t *json, sel_arena_t *arena, sel_json_more_pt more,
    void *source)
{
    memset(json, 0, sizeof(sel_json_t));

    json->segment = sel_json_nothing;
    json->pos = sel_json_nothing;
    json->end = sel_json_nothing;
    json->more = more;
    json->source = source;
    json->arena = arena;
}


void
sel_json_init_text(sel_json_t *json, sel_arena_t *arena, sel_str_t text)
{
    sel_json_init(json, arena, NULL, NULL);

    if (text.len != 0) {
        json->pos = text.data;
        json->end = text.data + text.len;
        json->segment = text.data;
    }
}


/* The old segment dies in more(), so its lines are counted before. */

int
sel_json_refill(sel_json_t *json)
{
    size_t          len;
    const uint8_t  *p;

    if (json->more == NULL) {
        return -1;
    }

    sel_json_place(json, json->end, &json->lines, &json->column);

    len = json->more(json->source, &p);

    if (len == 0) {
        p = sel_json_nothing;
        json->more = NULL;
    }

    json->segment = p;
    json->pos = p;
    json->end = p + len;

    if (len == 0) {
        return -1;
    }

    return *json->pos;
}


void
sel_json_place(const sel_json_t *json, const uint8_t *to, uint64_t *lines,
    uint64_t *column)
{
    const uint8_t  *p, *line;

    *lines = json->lines;
    *column = json->column;

    for (p = json->segment; p < to; p = line + 1) {
        line = memchr(p, '\n', to - p);
        if (line == NULL) {
            break;
        }

        (*lines)++;
        *column = 0;
    }

    *column += to - p;
}


int
sel_json_space(sel_json_t *json)
{
    int  c;

    for ( ;; ) {
        c = sel_json_byte(json);

        if (c != ' ' && c != '\n' && c != '\r' && c != '\t') {
            return c;
        }

        json->pos++;
    }
}


bool
sel_json_scratch(sel_json_t *json, size_t size)
{
    size_t    cap;
    uint8_t  *scratch;

    if (size <= json->scratch_cap) {
        return true;
    }

    if (size > SIZE_MAX / 4) {
        return sel_json_no_memory(json);
    }

    cap = json->scratch_cap != 0 ? json->scratch_cap : SEL_JSON_KEEP;

    while (cap < size) {
        cap *= 2;
    }

    scratch = sel_arena_grow(json->arena, json->scratch, json->scratch_cap,
                             cap);
    if (scratch == NULL) {
        return sel_json_no_memory(json);
    }

    json->scratch = scratch;
    json->scratch_cap = cap;

    return true;
}


sel_json_type_t
sel_json_peek(sel_json_t *json)
{
    if (json->status != SEL_JSON_OK) {
        return SEL_JSON_END;
    }

    switch (sel_json_space(json)) {

    case -1:
        return SEL_JSON_END;

    case 'n':
        return SEL_JSON_NULL;

    case 't':
    case 'f':
        return SEL_JSON_BOOL;

    case '"':
        return SEL_JSON_STRING;

    case '[':
        return SEL_JSON_ARRAY;

    case '{':
        return SEL_JSON_OBJECT;

    case '-':
    case '0': case '1': case '2': case '3': case '4':
    case '5': case '6': case '7': case '8': case '9':
        return SEL_JSON_NUMBER;

    default:
        (void) sel_json_syntax(json, "expected value");
        return SEL_JSON_END;
    }
}


bool
sel_json_expect(sel_json_t *json, sel_json_type_t type, const char *expected)
{
    return sel_json_peek(json) == type || sel_json_mismatch(json, expected);
}


bool
sel_json_null(sel_json_t *json)
{
    return sel_json_expect(json, SEL_JSON_NULL, "null")
           && sel_json_literal(json, "null");
}


bool
sel_json_bool(sel_json_t *json, bool *value)
{
    bool  yes;

    if (!sel_json_expect(json, SEL_JSON_BOOL, "a boolean")) {
        return false;
    }

    yes = *json->pos == 't';

    if (!sel_json_literal(json, yes ? "true" : "false")) {
        return false;
    }

    *value = yes;

    return true;
}


bool
sel_json_literal(sel_json_t *json, const char *word)
{
    int  c;

    for ( /* void */ ; *word != '\0'; word++) {
        c = sel_json_byte(json);

        if (c == -1) {
            return sel_json_syntax(json, "EOF while parsing a value");
        }

        if (c != *word) {
            return sel_json_syntax(json, "expected ident");
        }

        json->pos++;
    }

    return true;
}


bool
sel_json_array_begin(sel_json_t *json)
{
    return sel_json_expect(json, SEL_JSON_ARRAY, "a sequence")
           && sel_json_open(json);
}


bool
sel_json_object_begin(sel_json_t *json)
{
    return sel_json_expect(json, SEL_JSON_OBJECT, "a map")
           && sel_json_open(json);
}


bool
sel_json_open(sel_json_t *json)
{
    if (json->depth == SEL_JSON_MAX_DEPTH) {
        return sel_json_syntax(json, "recursion limit exceeded");
    }

    json->pos++;
    json->depth++;
    json->fresh = true;

    return true;
}


/*
 * Passes the comma before an element, or the container's end: 1, 0 or -1 as
 * sel_json_array_next().
 */

static int
sel_json_next(sel_json_t *json, uint8_t close, const char *eof,
    const char *comma)
{
    int   c;
    bool  fresh;

    if (json->status != SEL_JSON_OK) {
        return -1;
    }

    c = sel_json_space(json);

    fresh = json->fresh;
    json->fresh = false;

    if (c == close) {
        json->pos++;
        json->depth--;
        return 0;
    }

    if (c == -1) {
        (void) sel_json_syntax(json, eof);
        return -1;
    }

    if (fresh) {
        return 1;
    }

    if (c != ',') {
        (void) sel_json_syntax(json, comma);
        return -1;
    }

    json->pos++;
    c = sel_json_space(json);

    if (c == close) {
        (void) sel_json_syntax(json, "trailing comma");
        return -1;
    }

    if (c == -1) {
        (void) sel_json_syntax(json, "EOF while parsing a value");
        return -1;
    }

    return 1;
}


int
sel_json_array_next(sel_json_t *json)
{
    return sel_json_next(json, ']', "EOF while parsing a list",
                         "expected `,` or `]`");
}


int
sel_json_object_next(sel_json_t *json, sel_str_t *key)
{
    int        rc;
    sel_str_t  text;

    rc = sel_json_key(json, SIZE_MAX, &text);
    if (rc != 1) {
        return rc;
    }

    *key = sel_arena_str(json->arena, text);

    if (key->data == NULL) {
        (void) sel_json_no_memory(json);
        return -1;
    }

    return sel_json_colon(json) ? 1 : -1;
}


int
sel_json_key(sel_json_t *json, size_t keep, sel_str_t *key)
{
    int  rc;

    rc = sel_json_next(json, '}', "EOF while parsing an object",
                       "expected `,` or `}`");
    if (rc != 1) {
        return rc;
    }

    if (*json->pos != '"') {
        (void) sel_json_syntax(json, "key must be a string");
        return -1;
    }

    return sel_json_text(json, keep, key) ? 1 : -1;
}


bool
sel_json_colon(sel_json_t *json)
{
    int  c;

    c = sel_json_space(json);

    if (c == -1) {
        return sel_json_syntax(json, "EOF while parsing an object");
    }

    if (c != ':') {
        return sel_json_syntax(json, "expected `:`");
    }

    json->pos++;

    return true;
}


bool
sel_json_end(sel_json_t *json)
{
    if (json->status != SEL_JSON_OK) {
        return false;
    }

    return sel_json_space(json) == -1
           || sel_json_syntax(json, "trailing characters");
}
