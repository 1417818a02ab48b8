/*
 * A table is right when its keys are sorted, every one is found from its home
 * and the last slot is empty: sel_table.c tells why.  Slim slots may have the
 * same key.
 */

#include "index/sel_table_check.h"


const char *
sel_table_check(const sel_table_t *table)
{
    uint64_t        key, next;
    uint32_t        count, home, pos, start;
    const uint8_t  *slot;

    key = 0;
    count = 0;
    start = 0;

    for (pos = 0; pos < table->total; pos++) {
        slot = sel_table_at(table, pos, table->width);

        next = sel_table_key(slot, table->width);

        if (!sel_table_used(slot, table->width)) {

            if (next != 0) {
                return "an empty slot has a key";
            }

            start = pos + 1;
            continue;
        }

        if (count != 0
            && (next < key
                || (next == key && table->width != SEL_TABLE_SLIM)))
        {
            return "slots are not sorted";
        }

        key = next;
        home = sel_table_home(table, key);

        if (home < start || home > pos) {
            return "a slot cannot be found from its home";
        }

        count++;
    }

    if (start != table->total) {
        return "the last slot is used";
    }

    return count == table->count ? NULL : "a table has a wrong count";
}
