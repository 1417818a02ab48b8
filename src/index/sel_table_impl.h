/*
 * Inside the table: one slot in and one slot out, for a constant width.
 */

#ifndef SEL_TABLE_IMPL_H
#define SEL_TABLE_IMPL_H

#include "index/sel_table.h"


/* For functions whose width is to be a constant. */
#define SEL_TABLE_INLINE  __attribute__((always_inline)) static inline


SEL_TABLE_INLINE void *
sel_table_insert_by(sel_table_t *table, uint64_t key, uint32_t width)
{
    uint8_t  *p, *q;

    p = sel_table_at(table, sel_table_home(table, key), width);

    while (sel_table_used(p, width) && sel_table_key(p, width) < key) {
        p += width;
    }

    for (q = p; sel_table_used(q, width); q += width) { /* void */ }

    memmove(p + width, p, (size_t) (q - p));
    memset(p, 0, width);

    if (width == SEL_TABLE_SLIM) {
        ((sel_slim_slot_t *) p)->key = (uint32_t) (key >> 32);

    } else {
        ((sel_slot_t *) p)->key = key;
    }

    table->count++;

    return p;
}


/* Lets the entries behind a slot, whose own has gone, move up. */

SEL_TABLE_INLINE void
sel_table_close_by(sel_table_t *table, uint8_t *p, uint32_t width)
{
    uint8_t   *q;
    uint32_t   pos;

    pos = (uint32_t) ((size_t) (p - table->slots) / width);

    for (q = p + width; sel_table_used(q, width); q += width) {
        if (sel_table_home(table, sel_table_key(q, width)) == ++pos) {
            break;
        }
    }

    memmove(p, p + width, (size_t) (q - p) - width);
    memset(q - width, 0, width);
}


/* Moves a change of size on by budget slots: sel_table_move.c. */
void sel_table_upwards(sel_table_t *table, uint32_t budget);
void sel_table_downwards(sel_table_t *table, uint32_t budget);


#endif /* SEL_TABLE_IMPL_H */
