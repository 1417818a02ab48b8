/*
 * Numbers.  The text is checked against the grammar while it is collected in
 * scratch, where it may grow to any length.  What fits 64 bits is an integer;
 * the rest, and -0, is real and converted from the text by need.
 */

#include <math.h>
#include "core/sel_float.h"
#include "core/sel_json_impl.h"


static bool sel_json_integer(sel_json_t *json, sel_json_number_t *number,
    const char *expected);
static bool sel_json_whole(sel_json_t *json, size_t *n);
static bool sel_json_fraction(sel_json_t *json, size_t *n);
static bool sel_json_digits(sel_json_t *json, size_t *n);
static int sel_json_take(sel_json_t *json, size_t *n);
static bool sel_json_magnitude(const char *digits, uint64_t *value);


bool
sel_json_u32(sel_json_t *json, uint32_t *value)
{
    sel_json_number_t  number;

    if (!sel_json_integer(json, &number, "u32")) {
        return false;
    }

    if (number.negative || number.value > UINT32_MAX) {
        return sel_json_value_fault(json, &number, "u32");
    }

    *value = (uint32_t) number.value;

    return true;
}


bool
sel_json_u64(sel_json_t *json, uint64_t *value)
{
    sel_json_number_t  number;

    if (!sel_json_integer(json, &number, "u64")) {
        return false;
    }

    if (number.negative) {
        return sel_json_value_fault(json, &number, "u64");
    }

    *value = number.value;

    return true;
}


bool
sel_json_i64(sel_json_t *json, int64_t *value)
{
    sel_json_number_t  number;

    if (!sel_json_integer(json, &number, "i64")) {
        return false;
    }

    if (!number.negative && number.value > INT64_MAX) {
        return sel_json_value_fault(json, &number, "i64");
    }

    *value = (int64_t) (number.negative ? -number.value : number.value);

    return true;
}


bool
sel_json_hash(sel_json_t *json, uint64_t *value)
{
    sel_json_number_t  number;

    if (!sel_json_integer(json, &number, "i64")) {
        return false;
    }

    *value = number.negative ? -number.value : number.value;

    return true;
}


bool
sel_json_f32(sel_json_t *json, float *value)
{
    float              narrow;
    double             wide;
    sel_json_number_t  number;

    if (!sel_json_expect(json, SEL_JSON_NUMBER, "f32")
        || !sel_json_number(json, &number)
        || !sel_json_double(json, &number, &wide))
    {
        return false;
    }

    if (!number.real) {
        narrow = (float) number.value;
        *value = number.negative ? -narrow : narrow;
        return true;
    }

    if (!sel_float_parse32(number.text, &narrow)) {
        return sel_json_no_memory(json);
    }

    if (isinf(narrow)) {
        return sel_json_value_fault(json, &number, "f32");
    }

    *value = narrow;

    return true;
}


bool
sel_json_f64(sel_json_t *json, double *value)
{
    double             wide;
    sel_json_number_t  number;

    if (!sel_json_expect(json, SEL_JSON_NUMBER, "f64")
        || !sel_json_number(json, &number)
        || !sel_json_double(json, &number, &wide))
    {
        return false;
    }

    *value = wide;

    return true;
}


/* An integer of -2^63 .. 2^64-1. */

static bool
sel_json_integer(sel_json_t *json, sel_json_number_t *number,
    const char *expected)
{
    if (!sel_json_expect(json, SEL_JSON_NUMBER, expected)
        || !sel_json_number(json, number))
    {
        return false;
    }

    return !number->real || sel_json_type_fault(json, number, expected);
}


bool
sel_json_double(sel_json_t *json, const sel_json_number_t *number,
    double *value)
{
    if (!number->real) {
        *value = (double) number->value;

        if (number->negative) {
            *value = -*value;
        }

        return true;
    }

    if (!sel_float_parse64(number->text, value)) {
        return sel_json_no_memory(json);
    }

    return !isinf(*value) || sel_json_syntax(json, "number out of range");
}


bool
sel_json_number(sel_json_t *json, sel_json_number_t *number)
{
    int     c;
    size_t  n;

    n = 0;
    number->negative = *json->pos == '-';

    if (number->negative) {
        (void) sel_json_take(json, &n);
    }

    if (!sel_json_whole(json, &n)) {
        return false;
    }

    c = sel_json_byte(json);
    number->real = c == '.' || c == 'e' || c == 'E';

    if (number->real && !sel_json_fraction(json, &n)) {
        return false;
    }

    if (!sel_json_scratch(json, n + 1)) {
        return false;
    }

    json->scratch[n] = '\0';
    number->text = (const char *) json->scratch;

    if (!number->real) {
        number->real = !sel_json_magnitude(number->text + number->negative,
                                           &number->value);
    }

    if (number->negative && !number->real) {
        number->real = number->value == 0
                       || number->value > (uint64_t) INT64_MAX + 1;
    }

    return true;
}


static bool
sel_json_whole(sel_json_t *json, size_t *n)
{
    int  c;

    if (sel_json_byte(json) != '0') {
        return sel_json_digits(json, n);
    }

    c = sel_json_take(json, n);

    if (c >= '0' && c <= '9') {
        return sel_json_syntax(json, "invalid number");
    }

    return json->status == SEL_JSON_OK;
}


static bool
sel_json_fraction(sel_json_t *json, size_t *n)
{
    int  c;

    c = sel_json_byte(json);

    if (c == '.') {
        (void) sel_json_take(json, n);

        if (!sel_json_digits(json, n)) {
            return false;
        }

        c = sel_json_byte(json);
    }

    if (c != 'e' && c != 'E') {
        return true;
    }

    c = sel_json_take(json, n);

    if (c == '+' || c == '-') {
        (void) sel_json_take(json, n);
    }

    return sel_json_digits(json, n);
}


/* One digit at least. */

static bool
sel_json_digits(sel_json_t *json, size_t *n)
{
    int  c;

    c = sel_json_byte(json);

    if (c < '0' || c > '9') {
        return sel_json_syntax(json, c == -1 ? "EOF while parsing a value"
                                             : "invalid number");
    }

    do {
        c = sel_json_take(json, n);
    } while (c >= '0' && c <= '9');

    return json->status == SEL_JSON_OK;
}


/* Moves a byte to scratch; returns the next one, or -1. */

static int
sel_json_take(sel_json_t *json, size_t *n)
{
    if (!sel_json_scratch(json, *n + 1)) {
        return -1;
    }

    json->scratch[(*n)++] = *json->pos++;

    return sel_json_byte(json);
}


static bool
sel_json_magnitude(const char *digits, uint64_t *value)
{
    uint64_t  v;
    unsigned  digit;

    v = 0;

    for ( /* void */ ; *digits != '\0'; digits++) {
        digit = *digits - '0';

        if (v > (UINT64_MAX - digit) / 10) {
            return false;
        }

        v = v * 10 + digit;
    }

    *value = v;

    return true;
}
