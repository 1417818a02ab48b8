/*
 * A growing byte buffer on malloc().  Appending never fails loudly: after
 * the first failure the buffer only remembers that it failed, so writers
 * check once, at the end.
 */

#ifndef SEL_BUF_H
#define SEL_BUF_H

#include "core/sel_base.h"


typedef struct {
    uint8_t  *data;
    size_t    len;
    size_t    cap;
    bool      failed;
} sel_buf_t;


void sel_buf_init(sel_buf_t *buf);
void sel_buf_free(sel_buf_t *buf);

/*
 * Makes room for size more bytes and returns where they go, or NULL when
 * memory is exhausted (failed is set).  The caller adds to len.
 */
uint8_t *sel_buf_reserve(sel_buf_t *buf, size_t size);

void sel_buf_add(sel_buf_t *buf, const void *data, size_t size);
void sel_buf_str(sel_buf_t *buf, sel_str_t str);
void sel_buf_text(sel_buf_t *buf, const char *text);
void sel_buf_byte(sel_buf_t *buf, uint8_t byte);
void sel_buf_u64(sel_buf_t *buf, uint64_t value);      /* decimal */
void sel_buf_i64(sel_buf_t *buf, int64_t value);       /* decimal */

/* printf() into the buffer, any length */
void sel_buf_printf(sel_buf_t *buf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The bytes so far; valid until the buffer changes. */
static inline sel_str_t
sel_buf_view(const sel_buf_t *buf)
{
    return (sel_str_t) { buf->len, buf->data };
}


#endif /* SEL_BUF_H */
