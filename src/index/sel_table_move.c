/*
 * How entries move to their other home while a table changes its size; see
 * sel_table.c for the idea.
 */

#include "index/sel_table_impl.h"


static inline void sel_table_upwards_by(sel_table_t *table, uint32_t budget,
    uint32_t width);
static inline void sel_table_downwards_by(sel_table_t *table,
    uint32_t budget, uint32_t width);
static inline void sel_table_move(sel_table_t *table, uint8_t *p,
    uint64_t last, uint32_t width);
static uint64_t sel_table_first_key(uint32_t homes, uint32_t pos);


void
sel_table_upwards(sel_table_t *table, uint32_t budget)
{
    if (table->width == SEL_TABLE_WIDE) {
        sel_table_upwards_by(table, budget, SEL_TABLE_WIDE);

    } else {
        sel_table_upwards_by(table, budget, SEL_TABLE_NARROW);
    }
}


/*
 * The largest key at its low home is in the run at the last low home, or in
 * the first used slot below that.
 */

static inline void
sel_table_upwards_by(sel_table_t *table, uint32_t budget, uint32_t width)
{
    uint8_t   *p;
    uint32_t   pos;

    pos = sel_table_home(table, table->last);
    p = sel_table_at(table, pos, width);

    while (sel_table_used(p) && sel_table_key(p) <= table->last) {
        p += width;
        pos++;
    }

    for ( ; budget != 0 && sel_table_room(table); budget--) {

        if (pos == 0) {
            table->low = table->high;
            return;
        }

        p -= width;
        pos--;

        if (sel_table_used(p)) {

            if (sel_table_key(p) == 0) {
                table->low = table->high;
                return;
            }

            sel_table_move(table, p, sel_table_key(p) - 1, width);

        } else if (pos == 0) {
            table->low = table->high;
            return;

        } else if (budget == 1) {
            table->last = sel_table_first_key(table->low, pos) - 1;
        }
    }
}


void
sel_table_downwards(sel_table_t *table, uint32_t budget)
{
    if (table->width == SEL_TABLE_WIDE) {
        sel_table_downwards_by(table, budget, SEL_TABLE_WIDE);

    } else {
        sel_table_downwards_by(table, budget, SEL_TABLE_NARROW);
    }
}


/*
 * The smallest key at its high home is in the first used slot behind the high
 * home that comes after `last`, apart from keys up to `last` that lie there.
 */

static inline void
sel_table_downwards_by(sel_table_t *table, uint32_t budget,
    uint32_t width)
{
    uint8_t   *p;
    uint32_t   pos;

    for ( ; budget != 0; budget--) {

        pos = (uint32_t) (((unsigned __int128) (table->last + 1)
                           * table->high) >> 64);
        p = sel_table_at(table, pos, width);

        while (sel_table_used(p) && sel_table_key(p) <= table->last) {
            p += width;
            pos++;
        }

        while (pos + 1 < table->total && !sel_table_used(p)) {

            if (budget == 0) {
                table->last = sel_table_first_key(table->high, pos) - 1;
                return;
            }

            p += width;
            pos++;
            budget -= pos < table->high;
        }

        if (pos + 1 == table->total) {
            table->last = UINT64_MAX;
            return;
        }

        sel_table_move(table, p, sel_table_key(p), width);

        if (budget == 0) {
            return;
        }
    }
}


/* Carries an entry over to its other home. */

static inline void
sel_table_move(sel_table_t *table, uint8_t *p, uint64_t last, uint32_t width)
{
    sel_wide_slot_t  copy;

    memcpy(&copy, p, width);

    if (sel_table_used(p + width)) {
        sel_table_delete_by(table, p, width);

    } else {
        memset(p, 0, width);
        table->count--;
    }

    table->last = last;

    p = sel_table_insert_by(table, copy.key, width);
    memcpy(p, &copy, width);
}


/* The smallest key whose home is pos, which is not 0. */

static uint64_t
sel_table_first_key(uint32_t homes, uint32_t pos)
{
    return (uint64_t) ((((unsigned __int128) pos << 64) + homes - 1) / homes);
}
