/*
 * The JSON writer: compact output into a buffer, commas placed by itself.
 * Floats are printed in the shortest form that reads back to the same value,
 * whole numbers keep ".0" (as serde_json prints them).
 */

#ifndef SEL_JSON_WRITE_H
#define SEL_JSON_WRITE_H

#include "core/sel_buf.h"


typedef struct {
    sel_buf_t  *buf;
    bool        comma;          /* a comma is due before the next element */
} sel_json_out_t;


void sel_json_out_init(sel_json_out_t *out, sel_buf_t *buf);

void sel_json_out_object(sel_json_out_t *out);
void sel_json_out_object_end(sel_json_out_t *out);
void sel_json_out_array(sel_json_out_t *out);
void sel_json_out_array_end(sel_json_out_t *out);

/* A member's name; its value must follow. */
void sel_json_out_key(sel_json_out_t *out, const char *key);
void sel_json_out_key_str(sel_json_out_t *out, sel_str_t key);
void sel_json_out_key_u64(sel_json_out_t *out, uint64_t key);

void sel_json_out_null(sel_json_out_t *out);
void sel_json_out_bool(sel_json_out_t *out, bool value);
void sel_json_out_u64(sel_json_out_t *out, uint64_t value);
void sel_json_out_i64(sel_json_out_t *out, int64_t value);
void sel_json_out_f32(sel_json_out_t *out, float value);
void sel_json_out_f64(sel_json_out_t *out, double value);

/* str must be UTF-8; bytes that are not come out as U+FFFD. */
void sel_json_out_str(sel_json_out_t *out, sel_str_t str);
void sel_json_out_text(sel_json_out_t *out, const char *text);


#endif /* SEL_JSON_WRITE_H */
