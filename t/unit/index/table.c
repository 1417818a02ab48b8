/*
 * Slim tables, whose slots hold half of a key, so that different keys look
 * equal.  Without it one of several slots that look equal could be lost, or
 * taken for another, while a table grows, shrinks or closes a gap; in the
 * index itself such slots are too rare to show it.
 *
 * SEL_SEED repeats a run.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <setjmp.h>
#include <cmocka.h>
#include "index/sel_table_check.h"
#include "sel_rand.h"


#define MOST   4000
#define ROUNDS 6


typedef struct {
    uint64_t      key;
    uint32_t      value;
} entry_t;


typedef struct {
    sel_table_t   table;
    sel_memory_t  memory;
    sel_rand_t    rand;
    uint64_t      pool[MOST];
    uint32_t      pool_n;
    entry_t       entries[2 * MOST];
    uint32_t      n;
    uint32_t      value;
} slim_t;


static sel_slim_slot_t *
slim_find(const slim_t *slim, const entry_t *entry)
{
    sel_slim_slot_t  *slot;

    slot = sel_table_find(&slim->table, entry->key, SEL_TABLE_SLIM);

    while (slot != NULL && slot->value != entry->value) {
        slot = sel_table_next(slot);
    }

    return slot;
}


static void
slim_insert(slim_t *slim)
{
    entry_t          *entry;
    sel_slim_slot_t  *slot;

    assert_true(slim->n < 2 * MOST);
    entry = &slim->entries[slim->n++];
    entry->key = slim->pool[sel_rand_below(&slim->rand, slim->pool_n)];
    entry->value = ++slim->value;

    assert_true(sel_table_reserve(&slim->table, &slim->memory));

    slot = sel_table_insert(&slim->table, entry->key);
    slot->value = entry->value;
}


static void
slim_delete(slim_t *slim)
{
    entry_t          *entry;
    sel_slim_slot_t  *slot;

    entry = &slim->entries[sel_rand_below(&slim->rand, slim->n)];
    slot = slim_find(slim, entry);
    assert_non_null(slot);
    sel_table_delete(&slim->table, slot);

    *entry = slim->entries[--slim->n];
}


/* Every entry is there, and nothing else. */
static void
slim_verify(const slim_t *slim)
{
    uint32_t     i;
    const char  *error;

    error = sel_table_check(&slim->table);

    if (error != NULL) {
        fail_msg("%s", error);
    }

    assert_int_equal(slim->table.count, slim->n);
    assert_int_equal(slim->memory.used, slim->table.bytes);

    for (i = 0; i < slim->n; i++) {
        assert_non_null(slim_find(slim, &slim->entries[i]));
    }
}


/* Steps until there are n entries; every eighth is in the other direction. */
static void
slim_to(slim_t *slim, uint32_t n)
{
    bool      up;
    uint32_t  steps;

    up = slim->n < n;

    for (steps = 0; slim->n != n; steps++) {

        if ((sel_rand_below(&slim->rand, 8) == 0) != up
            || slim->n == 0)
        {
            slim_insert(slim);

        } else {
            slim_delete(slim);
        }

        if (sel_rand_below(&slim->rand, 4) == 0) {
            (void) sel_table_settle(&slim->table, &slim->memory,
                                    sel_rand_below(&slim->rand, 40));
        }

        if (steps % 32 == 0) {
            slim_verify(slim);
        }
    }

    slim_verify(slim);
}


static void
slim_run(uint32_t pool_n, uint32_t most)
{
    uint32_t       i, turns;
    static slim_t  slim;

    memset(&slim, 0, sizeof(slim));
    slim.memory.max = SIZE_MAX;
    slim.rand.state = sel_rand_seed("slim table");
    slim.pool_n = pool_n;

    sel_table_init(&slim.table, SEL_TABLE_SLIM);

    /* the first and the last key of all, and any */
    for (i = 0; i < pool_n; i++) {
        slim.pool[i] = i == 0 ? 0 : i == 1 ? UINT64_MAX : sel_rand(&slim.rand);
    }

    for (i = 0; i < ROUNDS; i++) {
        slim_to(&slim, most);
        slim_to(&slim, i % 2 == 0 ? most / 20 : 0);
    }

    for (turns = 0;
         !sel_table_settle(&slim.table, &slim.memory, 20); turns++)
    {
        assert_true(turns < 100000);
    }

    slim_verify(&slim);
    sel_table_reset(&slim.table, &slim.memory);
    assert_int_equal(slim.memory.used, 0);
}


static void
test_few_look_equal(void **state)
{
    slim_run(3000, MOST);
}


static void
test_some_look_equal(void **state)
{
    slim_run(400, 2000);
}


/* more than may move at once */
static void
test_most_look_equal(void **state)
{
    slim_run(5, 400);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_few_look_equal),
        cmocka_unit_test(test_some_look_equal),
        cmocka_unit_test(test_most_look_equal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
