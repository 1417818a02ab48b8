/*
 * Reading is strtod() in the C locale.  Printing tries precisions from the
 * number of decimal digits that every value of the type keeps; when so few
 * digits give the value back, they differ from the shortest ones only by
 * zeros at the end.  Subnormal values keep fewer, so there all precisions are
 * tried.  At a power of two the gap below is half the gap above: the nearest
 * decimal may read back wrong while the next larger one reads back right, so
 * that one is tried as well.
 *
 * Layout: plain digits in a window of magnitudes, else an exponent, which is
 * how serde_json prints.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE                 /* strtod_l() */
#endif

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "core/sel_float.h"


#define SEL_FLOAT_DIGITS  17        /* that tell any two doubles apart */


typedef struct {
    bool      narrow;               /* a float */
    int       first;                /* precision that is tried first */
    int       last;                 /* precision that always suffices */
    int       small;                /* the window: 10^small <= value */
    int       large;                /* and value < 10^large */
} sel_float_type_t;


/* The value is 0.DIGITS times ten to the exponent. */
typedef struct {
    int       n;
    int       exponent;
    char      digits[SEL_FLOAT_DIGITS + 1];
} sel_float_decimal_t;


static size_t sel_float_print(double value, const sel_float_type_t *type,
    char *out);
static void sel_float_shortest(double value, const sel_float_type_t *type,
    sel_float_decimal_t *decimal);
static void sel_float_round(double value, int precision,
    sel_float_decimal_t *decimal);
static void sel_float_next(sel_float_decimal_t *decimal);
static void sel_float_trim(sel_float_decimal_t *decimal);
static bool sel_float_same(double value, const sel_float_type_t *type,
    const sel_float_decimal_t *decimal);
static char *sel_float_layout(const sel_float_decimal_t *decimal,
    const sel_float_type_t *type, char *out);


static const sel_float_type_t  sel_float_32 = { true, FLT_DIG, 9, -6, 13 };
static const sel_float_type_t  sel_float_64 = { false, DBL_DIG, 17, -5, 16 };


bool
sel_float_parse32(const char *text, float *value)
{
    locale_t  locale;

    locale = newlocale(LC_ALL_MASK, "C", (locale_t) 0);
    if (locale == (locale_t) 0) {
        return false;
    }

    *value = strtof_l(text, NULL, locale);

    freelocale(locale);

    return true;
}


bool
sel_float_parse64(const char *text, double *value)
{
    locale_t  locale;

    locale = newlocale(LC_ALL_MASK, "C", (locale_t) 0);
    if (locale == (locale_t) 0) {
        return false;
    }

    *value = strtod_l(text, NULL, locale);

    freelocale(locale);

    return true;
}


size_t
sel_float_print32(float value, char out[SEL_FLOAT_TEXT])
{
    return sel_float_print(value, &sel_float_32, out);
}


size_t
sel_float_print64(double value, char out[SEL_FLOAT_TEXT])
{
    return sel_float_print(value, &sel_float_64, out);
}


static size_t
sel_float_print(double value, const sel_float_type_t *type, char *out)
{
    char                 *p;
    sel_float_decimal_t   decimal;

    p = out;

    if (signbit(value)) {
        *p++ = '-';
        value = -value;
    }

    if (value == 0) {
        decimal.n = 1;
        decimal.exponent = 1;
        decimal.digits[0] = '0';

    } else {
        sel_float_shortest(value, type, &decimal);
    }

    p = sel_float_layout(&decimal, type, p);
    *p = '\0';

    return p - out;
}


static void
sel_float_shortest(double value, const sel_float_type_t *type,
    sel_float_decimal_t *decimal)
{
    int  precision;

    precision = value < (type->narrow ? FLT_MIN : DBL_MIN) ? 1 : type->first;

    for ( ;; ) {
        sel_float_round(value, precision, decimal);

        if (precision == type->last || sel_float_same(value, type, decimal)) {
            break;
        }

        sel_float_next(decimal);

        if (sel_float_same(value, type, decimal)) {
            break;
        }

        precision++;
    }

    sel_float_trim(decimal);
}


/* The decimal point that printf() writes depends on the locale. */

static void
sel_float_round(double value, int precision, sel_float_decimal_t *decimal)
{
    char         text[64];
    const char  *p;

    (void) snprintf(text, sizeof(text), "%.*e", precision - 1, value);

    decimal->n = 0;

    for (p = text; *p != 'e'; p++) {
        if (*p >= '0' && *p <= '9') {
            decimal->digits[decimal->n++] = *p;
        }
    }

    decimal->exponent = atoi(p + 1) + 1;
}


static void
sel_float_next(sel_float_decimal_t *decimal)
{
    int  i;

    for (i = decimal->n - 1; i >= 0; i--) {

        if (decimal->digits[i] != '9') {
            decimal->digits[i]++;
            return;
        }

        decimal->digits[i] = '0';
    }

    decimal->digits[0] = '1';
    decimal->exponent++;
}


static void
sel_float_trim(sel_float_decimal_t *decimal)
{
    while (decimal->n > 1 && decimal->digits[decimal->n - 1] == '0') {
        decimal->n--;
    }
}


static bool
sel_float_same(double value, const sel_float_type_t *type,
    const sel_float_decimal_t *decimal)
{
    char    text[64];
    float   narrow;
    double  wide;

    (void) snprintf(text, sizeof(text), "%.*se%d", decimal->n,
                    decimal->digits, decimal->exponent - decimal->n);

    if (type->narrow) {
        return sel_float_parse32(text, &narrow) && narrow == value;
    }

    return sel_float_parse64(text, &wide) && wide == value;
}


static char *
sel_float_layout(const sel_float_decimal_t *decimal,
    const sel_float_type_t *type, char *out)
{
    int  i, point;

    point = decimal->exponent;

    if (point <= type->small || point > type->large) {
        *out++ = decimal->digits[0];

        if (decimal->n > 1) {
            *out++ = '.';
            memcpy(out, decimal->digits + 1, decimal->n - 1);
            out += decimal->n - 1;
        }

        return out + sprintf(out, "e%d", point - 1);
    }

    if (point <= 0) {
        *out++ = '0';
        *out++ = '.';

        for (i = point; i < 0; i++) {
            *out++ = '0';
        }

        memcpy(out, decimal->digits, decimal->n);
        return out + decimal->n;
    }

    for (i = 0; i < point || i < decimal->n; i++) {
        if (i == point) {
            *out++ = '.';
        }

        *out++ = i < decimal->n ? decimal->digits[i] : '0';
    }

    if (decimal->n <= point) {
        *out++ = '.';
        *out++ = '0';
    }

    return out;
}
