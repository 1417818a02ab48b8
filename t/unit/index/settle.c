/*
 * A change of a table's size comes to its end whatever the step and however
 * many slots are left to move.  A step that exactly reached the end of the
 * table once left it where it was: a worker process swept for ever.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "core/sel_random.h"
#include "index/sel_table.h"
#include "index/sel_table_check.h"


#define KEYS   150
#define STEPS  160


/* A table in the middle of growing, of which only a few keys are left. */
static uint32_t
half_grown(sel_table_t *table, sel_memory_t *memory, uint32_t n,
    uint32_t keep)
{
    uint32_t       i;
    uint64_t       key[KEYS];
    sel_slot_t    *slot;
    sel_random_t   random;

    sel_random_seed_with(&random, n);
    sel_table_init(table, SEL_TABLE_NARROW);

    for (i = 0; i < n; i++) {
        key[i] = sel_random_u64(&random);
        assert_true(sel_table_reserve(table, memory));
        slot = sel_table_insert(table, key[i]);
        slot->value = 1;
    }

    for (i = keep; i < n; i++) {
        slot = sel_table_find(table, key[i], SEL_TABLE_NARROW);
        assert_non_null(slot);
        sel_table_delete(table, slot);
    }

    return table->low != table->high;
}


static void
test_every_step_ends(void **state)
{
    uint32_t      n, keep, step, turns, growing;
    sel_table_t   table;
    sel_memory_t  memory;

    memory = (sel_memory_t) { 0, SIZE_MAX, false };
    growing = 0;

    for (n = 1; n <= KEYS; n++) {
        for (step = 1; step <= STEPS; step++) {
            for (keep = 1; keep <= 3 && keep <= n; keep++) {
                growing += half_grown(&table, &memory, n, keep);

                for (turns = 0; !sel_table_settle(&table, &memory, step);
                     turns++)
                {
                    assert_in_range(turns, 0, 1000);
                }

                assert_null(sel_table_check(&table));
                assert_int_equal(table.count, keep);
                sel_table_reset(&table, &memory);
            }
        }
    }

    assert_true(growing > 1000);
    assert_int_equal(memory.used, 0);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_every_step_ends)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
