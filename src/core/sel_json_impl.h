/*
 * What the files of the JSON reader share.  Nobody else includes this.
 */

#ifndef SEL_JSON_IMPL_H
#define SEL_JSON_IMPL_H

#include "core/sel_json_read.h"


/*
 * How many bytes of a string from the client a message quotes, and how many
 * are kept of a string that is only looked at (a member's name, a variant):
 * more than a message needs, more than any name of ours has.
 */
#define SEL_JSON_QUOTE_MAX  64
#define SEL_JSON_KEEP       128


typedef struct {
    bool         negative;
    bool         real;              /* has a fraction or an exponent, does not
                                       fit -2^63 .. 2^64-1, or is -0 */
    uint64_t     value;             /* magnitude; unless real */
    const char  *text;              /* in scratch */
} sel_json_number_t;


/*
 * The stream.  sel_json_refill() returns the next byte, or -1 at the end; it
 * is called when the segment is used up.  sel_json_space() also passes white
 * space.  sel_json_place() counts the lines before a byte of the segment, and
 * the bytes after the last of them.  sel_json_scratch() makes scratch size
 * bytes large at least.
 */
int sel_json_refill(sel_json_t *json);
void sel_json_place(const sel_json_t *json, const uint8_t *to,
    uint64_t *lines, uint64_t *column);
int sel_json_space(sel_json_t *json);
bool sel_json_scratch(sel_json_t *json, size_t size);

static inline int
sel_json_byte(sel_json_t *json)
{
    return json->pos < json->end ? *json->pos : sel_json_refill(json);
}


/*
 * Faults; all return false.  A syntax fault is at the next byte.
 * sel_json_type_fault() and sel_json_value_fault() refuse a number.
 */
bool sel_json_syntax(sel_json_t *json, const char *reason);
bool sel_json_no_memory(sel_json_t *json);
bool sel_json_type_fault(sel_json_t *json, const sel_json_number_t *number,
    const char *expected);
bool sel_json_value_fault(sel_json_t *json, const sel_json_number_t *number,
    const char *expected);

/*
 * Writes text for a message: at most SEL_JSON_QUOTE_MAX bytes, cut between
 * characters, control characters as escapes, with quotes also what would end
 * a quoted text.  out has room for a NUL besides.
 */
void sel_json_quote(char *out, sel_str_t text, bool quotes);

/* True when a value of this type comes next; else a mismatch. */
bool sel_json_expect(sel_json_t *json, sel_json_type_t type,
    const char *expected);

/* null, true, false; the bracket of a container: what peek() announced. */
bool sel_json_literal(sel_json_t *json, const char *word);
bool sel_json_open(sel_json_t *json);

/*
 * Reads a number whose first byte is known to come next.  sel_json_double()
 * gives its value as a double and fails when that is infinite.
 */
bool sel_json_number(sel_json_t *json, sel_json_number_t *number);
bool sel_json_double(sel_json_t *json, const sel_json_number_t *number,
    double *value);

/*
 * Reads a string whose opening quote comes next.  *text, valid until the next
 * read, is cut to keep bytes (maybe inside a character).
 */
bool sel_json_text(sel_json_t *json, size_t keep, sel_str_t *text);

/* The two halves of sel_json_object_next(); the key as sel_json_text(). */
int sel_json_key(sel_json_t *json, size_t keep, sel_str_t *key);
bool sel_json_colon(sel_json_t *json);


#endif /* SEL_JSON_IMPL_H */
