/*
 * The home of a key is key * homes / 2^64, so the order of keys is the order
 * of homes, and the array is kept sorted: an entry lies at its home or, if
 * smaller keys fill it, in the first slot behind them.  A search goes from
 * the home to the first key that is not smaller; an insertion shifts the
 * entries behind it to the next gap, a deletion shifts back those that are
 * not at home.  The layout depends on the keys alone.  Nothing wraps around:
 * behind the last home lie spare slots, more are added when they fill up.
 *
 * Any number of homes will do, so the table grows by a sixth, in place.
 * All homes move up then, and the entries follow one by one from the top:
 * keys up to `last` are still at their low home, larger ones at the high one.
 * As the high home of a key is never below its low one, homes remain in the
 * order of keys at every moment of it, and search, insertion and deletion
 * work as ever.  Every insertion carries the growth some slots further,
 * enough to end it before the next one is due; no operation handles the whole
 * table.  Shrinking to the half is the same backwards: `last` goes up, and
 * the entries move down from the bottom.
 *
 * An empty slot is all zero.
 */

#include "index/sel_table_impl.h"


#define SEL_TABLE_SPARE  32         /* slots behind the last home */
#define SEL_TABLE_LEAST  32         /* homes to grow by, at least */

/* memory for growth is asked for so many insertions before: a part of the
   limit, but at least what takes some milliseconds */
#define SEL_TABLE_AHEAD  32
#define SEL_TABLE_SOON   65536


static bool sel_table_resize(sel_table_t *table, uint64_t total,
    sel_memory_t *memory);
static void sel_table_limit(sel_table_t *table, uint32_t homes);
static uint64_t sel_table_more(const sel_table_t *table);
static void sel_table_expect(sel_table_t *table,
    const sel_memory_t *memory);
static bool sel_table_grow(sel_table_t *table, sel_memory_t *memory);
static bool sel_table_shrink(sel_table_t *table);
static void sel_table_truncate(sel_table_t *table, sel_memory_t *memory);
static void sel_table_advance(sel_table_t *table, sel_memory_t *memory,
    uint32_t budget);


void
sel_table_init(sel_table_t *table, uint16_t width)
{
    memset(table, 0, sizeof(sel_table_t));

    table->width = width;
}


void
sel_table_reset(sel_table_t *table, sel_memory_t *memory)
{
    sel_memory_free(memory, table->slots, table->bytes);
    sel_table_init(table, table->width);
}


bool
sel_table_reserve(sel_table_t *table, sel_memory_t *memory)
{
    if (table->low != table->high) {
        sel_table_advance(table, memory, SEL_TABLE_STEP);

    } else if (table->count >= table->expect) {

        if (table->count < table->limit) {
            sel_table_expect(table, memory);

        } else if (!sel_table_grow(table, memory)) {
            return false;
        }
    }

    return sel_table_room(table, 1)
           || sel_table_resize(table, (uint64_t) table->total
                                      + SEL_TABLE_SPARE, memory);
}


static bool
sel_table_resize(sel_table_t *table, uint64_t total, sel_memory_t *memory)
{
    void    *slots;
    size_t   bytes;

    bytes = sel_memory_round(total * table->width);

    if (bytes / table->width > UINT32_MAX) {
        return false;
    }

    slots = sel_memory_resize(memory, table->slots, table->bytes, bytes);

    if (slots == NULL) {
        return false;
    }

    table->slots = slots;
    table->bytes = bytes;
    table->total = (uint32_t) (bytes / table->width);

    return true;
}


/* How many entries are enough for as many homes. */

static void
sel_table_limit(sel_table_t *table, uint32_t homes)
{
    uint32_t  ahead;

    table->limit = homes - homes / (table->width == SEL_TABLE_SLIM ? 7 : 5);

    ahead = table->limit / SEL_TABLE_AHEAD;
    ahead = ahead > SEL_TABLE_SOON ? ahead : SEL_TABLE_SOON;
    ahead = ahead < table->limit / 2 ? ahead : table->limit / 2;

    table->expect = table->limit - ahead;
}


static bool
sel_table_grow(sel_table_t *table, sel_memory_t *memory)
{
    if (!sel_table_resize(table, sel_table_more(table), memory)) {
        return false;
    }

    table->high = table->total - SEL_TABLE_SPARE;
    table->low = table->count == 0 ? table->high : table->low;
    table->last = UINT64_MAX;

    sel_table_limit(table, table->high);

    return true;
}


/* Slots that it grows to. */

static uint64_t
sel_table_more(const sel_table_t *table)
{
    uint32_t  more, total;

    more = table->high / 6;
    more = more < SEL_TABLE_LEAST ? SEL_TABLE_LEAST : more;
    total = table->total == 0 ? SEL_TABLE_SPARE : table->total;

    return (uint64_t) total + more;
}


static void
sel_table_expect(sel_table_t *table, const sel_memory_t *memory)
{
    size_t  bytes;

    table->expect = table->limit;
    bytes = sel_memory_round(sel_table_more(table) * table->width);

    sel_memory_expect(memory, table->slots, table->bytes,
                      bytes - table->bytes);
}


/* Begins to shrink if three quarters are empty. */

static bool
sel_table_shrink(sel_table_t *table)
{
    size_t  bytes, homes;

    if (table->count >= table->high / 4 || table->high <= SEL_TABLE_LEAST) {
        return false;
    }

    bytes = sel_memory_round(((size_t) table->high / 2 + SEL_TABLE_SPARE)
                             * table->width);
    homes = bytes / table->width - SEL_TABLE_SPARE;

    if (homes >= table->high - table->high / 4) {
        return false;
    }

    /* the home of key 0 is 0 either way */
    table->last = 0;
    table->low = (uint32_t) homes;
    sel_table_limit(table, table->low);
    table->shrinking = true;

    return true;
}


static void
sel_table_truncate(sel_table_t *table, sel_memory_t *memory)
{
    void      *slots;
    size_t     bytes;
    uint32_t   end;

    table->high = table->low;
    table->shrinking = false;

    end = table->high;

    while (sel_table_used(sel_table_at(table, end, table->width),
                          table->width))
    {
        end++;
    }

    end = end + 2 < table->high + SEL_TABLE_SPARE
          ? table->high + SEL_TABLE_SPARE : end + 2;
    bytes = sel_memory_round((size_t) end * table->width);

    if (bytes >= table->bytes) {
        return;
    }

    slots = sel_memory_resize(memory, table->slots, table->bytes, bytes);

    if (slots != NULL) {
        table->slots = slots;
        table->bytes = bytes;
        table->total = (uint32_t) (bytes / table->width);
    }
}


void *
sel_table_insert(sel_table_t *table, uint64_t key)
{
    switch (table->width) {

    case SEL_TABLE_SLIM:
        return sel_table_insert_by(table,
                                   sel_table_cut(key, SEL_TABLE_SLIM),
                                   SEL_TABLE_SLIM);

    case SEL_TABLE_NARROW:
        return sel_table_insert_by(table, key, SEL_TABLE_NARROW);

    default:
        return sel_table_insert_by(table, key, SEL_TABLE_WIDE);
    }
}


void
sel_table_delete(sel_table_t *table, void *slot)
{
    switch (table->width) {

    case SEL_TABLE_SLIM:
        sel_table_close_by(table, slot, SEL_TABLE_SLIM);
        break;

    case SEL_TABLE_NARROW:
        sel_table_close_by(table, slot, SEL_TABLE_NARROW);
        break;

    default:
        sel_table_close_by(table, slot, SEL_TABLE_WIDE);
    }

    table->count--;
}


bool
sel_table_settle(sel_table_t *table, sel_memory_t *memory, uint32_t budget)
{
    uint64_t  last;

    if (table->count == 0) {
        sel_table_reset(table, memory);
        return true;
    }

    if (table->low == table->high && !sel_table_shrink(table)) {
        return true;
    }

    last = table->last;

    sel_table_advance(table, memory, budget);

    /* a growth without room goes on with the next insertion */
    return !table->shrinking && table->last == last
           && table->low != table->high;
}


static void
sel_table_advance(sel_table_t *table, sel_memory_t *memory, uint32_t budget)
{
    if (!table->shrinking) {
        sel_table_upwards(table, budget);
        return;
    }

    sel_table_downwards(table, budget);

    if (table->last == UINT64_MAX) {
        sel_table_truncate(table, memory);
    }
}
