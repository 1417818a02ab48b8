/*
 * Floating-point numbers as decimal text, both ways exact and independent of
 * the process's locale.
 */

#ifndef SEL_FLOAT_H
#define SEL_FLOAT_H

#include "core/sel_base.h"


#define SEL_FLOAT_TEXT  32          /* room for any printed number */


/*
 * The value nearest to a JSON number (NUL-terminated, any length); infinite
 * when it is out of range.  False when memory is exhausted.
 */
bool sel_float_parse32(const char *text, float *value);
bool sel_float_parse64(const char *text, double *value);

/*
 * Prints the shortest text that reads back to the same finite value, with a
 * fraction or an exponent always, and a NUL; returns its length.  Of several
 * shortest texts it is the nearest to the value.
 */
size_t sel_float_print32(float value, char out[SEL_FLOAT_TEXT]);
size_t sel_float_print64(double value, char out[SEL_FLOAT_TEXT]);


#endif /* SEL_FLOAT_H */
