/*
 * The buffer doubles.  A failed one keeps the bytes it has until it is
 * freed, but takes no more.
 */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "core/sel_buf.h"


#define SEL_BUF_MIN     256
#define SEL_BUF_DIGITS  20          /* of 2^64 - 1 */


void
sel_buf_init(sel_buf_t *buf)
{
    memset(buf, 0, sizeof(sel_buf_t));
}


void
sel_buf_free(sel_buf_t *buf)
{
    free(buf->data);
    sel_buf_init(buf);
}


uint8_t *
sel_buf_reserve(sel_buf_t *buf, size_t size)
{
    size_t    cap;
    uint8_t  *data;

    if (buf->failed) {
        return NULL;
    }

    if (size <= buf->cap - buf->len && buf->data != NULL) {
        return buf->data + buf->len;
    }

    if (size > SIZE_MAX / 4 - buf->len) {
        buf->failed = true;
        return NULL;
    }

    cap = buf->cap != 0 ? buf->cap : SEL_BUF_MIN;

    while (cap - buf->len < size) {
        cap *= 2;
    }

    data = realloc(buf->data, cap);
    if (data == NULL) {
        buf->failed = true;
        return NULL;
    }

    buf->data = data;
    buf->cap = cap;

    return data + buf->len;
}


void
sel_buf_add(sel_buf_t *buf, const void *data, size_t size)
{
    uint8_t  *p;

    p = sel_buf_reserve(buf, size);

    if (p != NULL && size != 0) {
        memcpy(p, data, size);
        buf->len += size;
    }
}


void
sel_buf_str(sel_buf_t *buf, sel_str_t str)
{
    sel_buf_add(buf, str.data, str.len);
}


void
sel_buf_text(sel_buf_t *buf, const char *text)
{
    sel_buf_add(buf, text, strlen(text));
}


void
sel_buf_byte(sel_buf_t *buf, uint8_t byte)
{
    uint8_t  *p;

    p = sel_buf_reserve(buf, 1);

    if (p != NULL) {
        *p = byte;
        buf->len++;
    }
}


void
sel_buf_u64(sel_buf_t *buf, uint64_t value)
{
    uint8_t   text[SEL_BUF_DIGITS];
    uint8_t  *p;
    unsigned  pair;

    p = text + SEL_BUF_DIGITS;

    while (value >= 100) {
        pair = value % 100;
        value /= 100;
        *--p = '0' + pair % 10;
        *--p = '0' + pair / 10;
    }

    *--p = '0' + value % 10;

    if (value >= 10) {
        *--p = '0' + value / 10;
    }

    sel_buf_add(buf, p, text + SEL_BUF_DIGITS - p);
}


void
sel_buf_i64(sel_buf_t *buf, int64_t value)
{
    if (value < 0) {
        sel_buf_byte(buf, '-');
        sel_buf_u64(buf, -(uint64_t) value);
        return;
    }

    sel_buf_u64(buf, value);
}


void
sel_buf_printf(sel_buf_t *buf, const char *format, ...)
{
    int       len;
    uint8_t  *p;
    va_list   args;

    va_start(args, format);
    len = vsnprintf(NULL, 0, format, args);
    va_end(args);

    if (len < 0) {
        buf->failed = true;
        return;
    }

    p = sel_buf_reserve(buf, (size_t) len + 1);
    if (p == NULL) {
        return;
    }

    va_start(args, format);
    (void) vsnprintf((char *) p, (size_t) len + 1, format, args);
    va_end(args);

    buf->len += len;
}
