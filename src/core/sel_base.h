/*
 * Base types of the library rooms.  A sel_str_t is a view: length and
 * pointer, no terminating NUL, memory owned by whoever made it.
 */

#ifndef SEL_BASE_H
#define SEL_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>


typedef struct {
    size_t          len;
    const uint8_t  *data;
} sel_str_t;


typedef struct {
    uint32_t        n;
    uint32_t       *data;
} sel_u32_list_t;


typedef struct {
    uint32_t        n;
    uint64_t       *data;
} sel_u64_list_t;


typedef struct {
    uint32_t        n;
    sel_str_t      *data;
} sel_str_list_t;


/* a view of a string literal */
#define sel_str(text)  ((sel_str_t) { sizeof(text) - 1,                       \
                                      (const uint8_t *) (text) })

#define sel_countof(array)  (sizeof(array) / sizeof((array)[0]))

#define sel_max(a, b)  ((a) > (b) ? (a) : (b))


static inline bool
sel_str_eq(sel_str_t a, sel_str_t b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}


/* byte order of unsigned bytes, a shorter prefix first; <0, 0 or >0 */
static inline int
sel_str_cmp(sel_str_t a, sel_str_t b)
{
    int     rc;
    size_t  n;

    n = a.len < b.len ? a.len : b.len;
    rc = n ? memcmp(a.data, b.data, n) : 0;

    return rc ? rc : (a.len > b.len) - (a.len < b.len);
}


static inline sel_str_t
sel_cstr(const char *text)
{
    return (sel_str_t) { strlen(text), (const uint8_t *) text };
}


#endif /* SEL_BASE_H */
