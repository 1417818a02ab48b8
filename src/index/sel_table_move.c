/*
 * How entries move to their other home while a table changes its size; see
 * sel_table.c for the idea.  Entries whose keys look equal have one home, so
 * they move together, whatever the budget.
 */

#include "index/sel_table_impl.h"


SEL_TABLE_INLINE void sel_table_upwards_by(sel_table_t *table,
    uint32_t budget, uint32_t width);
SEL_TABLE_INLINE uint32_t sel_table_before(const sel_table_t *table,
    uint8_t *p, uint32_t width);
static bool sel_table_fits(const sel_table_t *table, const uint8_t *p,
    uint32_t n, uint32_t width);
SEL_TABLE_INLINE void sel_table_move_up(sel_table_t *table, uint8_t *p,
    uint32_t width);
SEL_TABLE_INLINE void sel_table_downwards_by(sel_table_t *table,
    uint32_t budget, uint32_t width);
SEL_TABLE_INLINE void sel_table_move_down(sel_table_t *table, uint8_t *p,
    uint32_t width);
static uint64_t sel_table_first_key(uint32_t homes, uint32_t pos);


void
sel_table_upwards(sel_table_t *table, uint32_t budget)
{
    switch (table->width) {

    case SEL_TABLE_SLIM:
        sel_table_upwards_by(table, budget, SEL_TABLE_SLIM);
        break;

    case SEL_TABLE_NARROW:
        sel_table_upwards_by(table, budget, SEL_TABLE_NARROW);
        break;

    default:
        sel_table_upwards_by(table, budget, SEL_TABLE_WIDE);
    }
}


/*
 * The largest key at its low home is in the run at the last low home, or in
 * the first used slot below that.
 */

SEL_TABLE_INLINE void
sel_table_upwards_by(sel_table_t *table, uint32_t budget, uint32_t width)
{
    uint8_t   *p;
    uint32_t   n, pos;

    pos = sel_table_home(table, table->last);
    p = sel_table_at(table, pos, width);

    while (sel_table_used(p, width)
           && sel_table_key(p, width) <= table->last)
    {
        p += width;
        pos++;
    }

    for ( ; budget != 0 && sel_table_room(table, 1); budget--) {

        if (pos == 0) {
            table->low = table->high;
            return;
        }

        p -= width;
        pos--;

        if (sel_table_used(p, width)) {

            if (sel_table_key(p, width) == 0) {
                table->low = table->high;
                return;
            }

            n = sel_table_before(table, p, width);

            if (n != 0 && !sel_table_fits(table, p, n + 1, width)) {
                return;
            }

            sel_table_move_up(table, p, width);

            for ( ; n != 0; n--) {
                p -= width;
                pos--;
                sel_table_move_up(table, p, width);
            }

        } else if (pos == 0) {
            table->low = table->high;
            return;

        } else if (budget == 1) {
            table->last = sel_table_first_key(table->low, pos) - 1;
        }
    }
}


/* How many entries before this one look equal. */

SEL_TABLE_INLINE uint32_t
sel_table_before(const sel_table_t *table, uint8_t *p, uint32_t width)
{
    uint8_t   *q;
    uint64_t   key;

    if (width != SEL_TABLE_SLIM) {
        return 0;
    }

    key = sel_table_key(p, width);

    for (q = p; q != table->slots; q -= width) {
        if (!sel_table_used(q - width, width)
            || sel_table_key(q - width, width) != key)
        {
            break;
        }
    }

    return (uint32_t) ((size_t) (p - q) / width);
}


/* May an entry and those before it, n in all, go to their high home? */

static bool
sel_table_fits(const sel_table_t *table, const uint8_t *p, uint32_t n,
    uint32_t width)
{
    uint64_t  home;

    home = (uint64_t) (((unsigned __int128) sel_table_key(p, width)
                        * table->high) >> 64);

    return home + n < table->total && sel_table_room(table, n);
}


SEL_TABLE_INLINE void
sel_table_move_up(sel_table_t *table, uint8_t *p, uint32_t width)
{
    uint64_t         key;
    sel_wide_slot_t  copy;

    memcpy(&copy, p, width);
    memset(p, 0, width);

    key = sel_table_key((const uint8_t *) &copy, width);

    if (sel_table_used(p + width, width)) {
        sel_table_close_by(table, p, width);
    }

    table->last = key - 1;
    table->count--;

    p = sel_table_insert_by(table, key, width);
    memcpy(p, &copy, width);
}


void
sel_table_downwards(sel_table_t *table, uint32_t budget)
{
    switch (table->width) {

    case SEL_TABLE_SLIM:
        sel_table_downwards_by(table, budget, SEL_TABLE_SLIM);
        break;

    case SEL_TABLE_NARROW:
        sel_table_downwards_by(table, budget, SEL_TABLE_NARROW);
        break;

    default:
        sel_table_downwards_by(table, budget, SEL_TABLE_WIDE);
    }
}


/*
 * The smallest key at its high home is in the first used slot behind the high
 * home that comes after `last`, apart from keys up to `last` that lie there.
 */

SEL_TABLE_INLINE void
sel_table_downwards_by(sel_table_t *table, uint32_t budget,
    uint32_t width)
{
    uint8_t   *p;
    uint32_t   pos;

    for ( ; budget != 0; budget--) {

        pos = (uint32_t) (((unsigned __int128) (table->last + 1)
                           * table->high) >> 64);
        p = sel_table_at(table, pos, width);

        while (sel_table_used(p, width)
               && sel_table_key(p, width) <= table->last)
        {
            p += width;
            pos++;
        }

        while (pos + 1 < table->total && !sel_table_used(p, width)) {

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

        sel_table_move_down(table, p, width);

        if (budget == 0) {
            return;
        }
    }
}


/*
 * The entry, and those behind that look equal, go to the first gap behind
 * their low home; smaller keys lie before it, and nothing between it and
 * them.
 */

SEL_TABLE_INLINE void
sel_table_move_down(sel_table_t *table, uint8_t *p, uint32_t width)
{
    uint8_t   *end, *gap, *to;
    uint64_t   key;

    key = sel_table_key(p, width);
    end = p + width;

    while (width == SEL_TABLE_SLIM && sel_table_used(end, width)
           && sel_table_key(end, width) == key)
    {
        end += width;
    }

    table->last = key;
    to = sel_table_at(table, sel_table_home(table, key), width);

    while (to < p && sel_table_used(to, width)) {
        to += width;
    }

    if (to == p) {
        return;
    }

    memmove(to, p, (size_t) (end - p));

    to += end - p;
    to = to < p ? p : to;
    memset(to, 0, (size_t) (end - to));

    for (gap = end; gap > to; /* void */ ) {
        gap -= width;

        if (sel_table_used(gap + width, width)) {
            sel_table_close_by(table, gap, width);
        }
    }
}


/* The smallest key whose home is pos, which is not 0. */

static uint64_t
sel_table_first_key(uint32_t homes, uint32_t pos)
{
    return (uint64_t) ((((unsigned __int128) pos << 64) + homes - 1) / homes);
}
