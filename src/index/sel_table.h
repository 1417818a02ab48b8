/*
 * A table of 64-bit keys: a sorted array with gaps.  The keys must be evenly
 * spread (sel_mix.h).  How it works and grows: sel_table.c.
 *
 * A slot is 12 bytes, 16 with a second number, or 8 with the upper half of
 * the key alone.  In a table of the latter kind several keys may look equal,
 * and whoever searches must know another way which one is meant.  The width
 * is chosen at sel_table_init(), and passed as a constant where speed matters.
 */

#ifndef SEL_TABLE_H
#define SEL_TABLE_H

#include "index/sel_memory.h"


#define SEL_TABLE_SLIM    8
#define SEL_TABLE_NARROW  12
#define SEL_TABLE_WIDE    16
#define SEL_TABLE_STEP    16    /* slots of growth for every insertion */


typedef struct {
    uint32_t  key;              /* the upper half */
    uint32_t  value;            /* 0: the slot is empty */
} sel_slim_slot_t;


typedef struct __attribute__((packed)) {
    uint64_t  key;
    uint32_t  value;
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
    uint32_t   expect;          /* of count, before memory for that is asked
                                   for */
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


/* The part of a key that a slot holds. */
static inline uint64_t
sel_table_cut(uint64_t key, uint32_t width)
{
    return width == SEL_TABLE_SLIM ? key >> 32 << 32 : key;
}


static inline uint64_t
sel_table_key(const uint8_t *slot, uint32_t width)
{
    if (width == SEL_TABLE_SLIM) {
        return (uint64_t) ((const sel_slim_slot_t *) slot)->key << 32;
    }

    return ((const sel_slot_t *) slot)->key;
}


static inline bool
sel_table_used(const uint8_t *slot, uint32_t width)
{
    if (width == SEL_TABLE_SLIM) {
        return ((const sel_slim_slot_t *) slot)->value != 0;
    }

    return ((const sel_slot_t *) slot)->value != 0;
}


/* The home of a key that is cut. */
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


/* Is there room for n insertions without sel_table_reserve()? */
static inline bool
sel_table_room(const sel_table_t *table, uint32_t n)
{
    const uint8_t  *p;

    if (n >= table->total) {
        return false;
    }

    p = sel_table_at(table, table->total - 1, table->width);

    for ( ; n != 0; n--) {
        p -= table->width;

        if (sel_table_used(p, table->width)) {
            return false;
        }
    }

    return true;
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
        key = sel_table_cut(key, width);
        p = sel_table_at(table, sel_table_home(table, key), width);

        for (i = 0; i < lines; i++) {
            __builtin_prefetch(p + i * 64);
        }
    }
}


/* The slot of a key, the first one if several look equal. */
static inline void *
sel_table_find(const sel_table_t *table, uint64_t key, uint32_t width)
{
    uint8_t  *p;

    if (table->count == 0) {
        return NULL;
    }

    key = sel_table_cut(key, width);
    p = sel_table_at(table, sel_table_home(table, key), width);

    while (sel_table_key(p, width) < key && sel_table_used(p, width)) {
        p += width;
    }

    return sel_table_key(p, width) == key && sel_table_used(p, width) ? p
                                                                      : NULL;
}


/* The next slot whose key looks equal. */
static inline sel_slim_slot_t *
sel_table_next(sel_slim_slot_t *slot)
{
    return slot[1].key == slot->key && slot[1].value != 0 ? slot + 1 : NULL;
}


#endif /* SEL_TABLE_H */
