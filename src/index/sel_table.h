/*
 * A table of 64-bit keys: a sorted array with gaps.  The keys must be evenly
 * spread (sel_mix.h).  How it works and grows: sel_table.c.
 *
 * A slot is 12 bytes, or 16 with a second number; the width is chosen at
 * sel_table_init(), and passed as a constant where speed matters.
 */

#ifndef SEL_TABLE_H
#define SEL_TABLE_H

#include "index/sel_memory.h"


#define SEL_TABLE_NARROW  12
#define SEL_TABLE_WIDE    16
#define SEL_TABLE_STEP    16    /* slots of growth for every insertion */


typedef struct __attribute__((packed)) {
    uint64_t  key;
    uint32_t  value;            /* 0: the slot is empty */
} sel_slot_t;


typedef struct __attribute__((packed)) {
    uint64_t  key;
    uint32_t  value;
    uint32_t  set;
} sel_wide_slot_t;


typedef struct {
    uint8_t   *slots;
    size_t     bytes;
    uint64_t   last;            /* keys up to here are at home by `low` */
    uint32_t   low;             /* homes */
    uint32_t   high;            /* the same as low: the table is at rest */
    uint32_t   total;           /* slots; the last one is always empty */
    uint32_t   count;
    uint32_t   limit;           /* of count, before the table must grow */
    uint16_t   width;
    bool       shrinking;
} sel_table_t;


void sel_table_init(sel_table_t *table, uint16_t width);

/* Frees the memory; the table is empty and usable. */
void sel_table_reset(sel_table_t *table, sel_memory_t *memory);

/*
 * Makes sure that the next sel_table_insert() finds room, and moves a change
 * of size under way on by SEL_TABLE_STEP slots.
 */
bool sel_table_reserve(sel_table_t *table, sel_memory_t *memory);

/* Is there room for an insertion without sel_table_reserve()? */
bool sel_table_room(const sel_table_t *table);

/*
 * Takes a slot for a key that is not in the table; the caller sets the value
 * to other than 0 before anything else happens.  Needs room.
 */
void *sel_table_insert(sel_table_t *table, uint64_t key);

/* Takes a slot out; slots move. */
void sel_table_delete(sel_table_t *table, void *slot);

/*
 * Makes a table smaller that has become too large, and moves a change of size
 * under way on by budget slots.  True when nothing is left to do.
 */
bool sel_table_settle(sel_table_t *table, sel_memory_t *memory,
    uint32_t budget);


static inline uint32_t
sel_table_home(const sel_table_t *table, uint64_t key)
{
    uint64_t  homes;

    homes = key > table->last ? table->high : table->low;

    return (uint32_t) (((unsigned __int128) key * homes) >> 64);
}


static inline void *
sel_table_at(const sel_table_t *table, uint32_t pos, uint32_t width)
{
    return table->slots + (size_t) pos * width;
}


/*
 * Has a key's home and the slots behind it brought near: two cache lines, as
 * a search needs, or three for an insertion.  Not inlined, gcc would take it
 * for a function without effect and drop its calls.
 */
__attribute__((always_inline))
static inline void
sel_table_prefetch(const sel_table_t *table, uint64_t key, uint32_t width,
    uint32_t lines)
{
    uint8_t   *p;
    uint32_t   i;

    if (table->count != 0) {
        p = sel_table_at(table, sel_table_home(table, key), width);

        for (i = 0; i < lines; i++) {
            __builtin_prefetch(p + i * 64);
        }
    }
}


static inline void *
sel_table_find(const sel_table_t *table, uint64_t key, uint32_t width)
{
    uint8_t           *p;
    const sel_slot_t  *slot;

    if (table->count == 0) {
        return NULL;
    }

    p = sel_table_at(table, sel_table_home(table, key), width);

    for ( ;; ) {
        slot = (const sel_slot_t *) p;

        if (slot->key >= key || slot->value == 0) {
            break;
        }

        p += width;
    }

    return slot->key == key && slot->value != 0 ? p : NULL;
}


#endif /* SEL_TABLE_H */
