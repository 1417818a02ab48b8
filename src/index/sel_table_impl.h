/*
 * Inside the table: one slot in and one slot out, for a constant width.
 */

#ifndef SEL_TABLE_IMPL_H
#define SEL_TABLE_IMPL_H

#include "index/sel_table.h"


static inline bool
sel_table_used(const uint8_t *slot)
{
    return ((const sel_slot_t *) slot)->value != 0;
}


static inline uint64_t
sel_table_key(const uint8_t *slot)
{
    return ((const sel_slot_t *) slot)->key;
}


static inline void *
sel_table_insert_by(sel_table_t *table, uint64_t key, uint32_t width)
{
    uint8_t  *p, *q;

    p = sel_table_at(table, sel_table_home(table, key), width);

    while (sel_table_used(p) && sel_table_key(p) < key) {
        p += width;
    }

    for (q = p; sel_table_used(q); q += width) { /* void */ }

    memmove(p + width, p, (size_t) (q - p));
    memset(p, 0, width);
    memcpy(p, &key, sizeof(uint64_t));

    table->count++;

    return p;
}


static inline void
sel_table_delete_by(sel_table_t *table, uint8_t *p, uint32_t width)
{
    uint8_t   *q;
    uint32_t   pos;

    pos = (uint32_t) ((size_t) (p - table->slots) / width);

    for (q = p + width; sel_table_used(q); q += width) {
        if (sel_table_home(table, sel_table_key(q)) == ++pos) {
            break;
        }
    }

    memmove(p, p + width, (size_t) (q - p) - width);
    memset(q - width, 0, width);

    table->count--;
}


/* Moves a change of size on by budget slots: sel_table_move.c. */
void sel_table_upwards(sel_table_t *table, uint32_t budget);
void sel_table_downwards(sel_table_t *table, uint32_t budget);


#endif /* SEL_TABLE_IMPL_H */
