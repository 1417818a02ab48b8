/*
 * The meters: counters of a process that outlive it.  Without it they could
 * begin again at 0 with each reload, or be written into another's place.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "state_test.h"


typedef struct {
    sel_zone_t         zone;
    uint32_t           number;      /* of the next child */
} shared_t;


static shared_t *
shared_make(void)
{
    shared_t  *shared;

    shared = state_memory(sizeof(shared_t));
    state_shared(&shared->zone, STATE_SIZE);

    return shared;
}


static void
shared_free(shared_t *shared)
{
    state_check(&shared->zone);
    state_shared_free(&shared->zone);
    assert_int_equal(munmap(shared, sizeof(shared_t)), 0);
}


static int
count(void *data)
{
    uint32_t           i;
    shared_t          *shared;
    _Atomic uint64_t  *meter;

    shared = data;
    meter = sel_meter_attach(&shared->zone, shared->number);

    if (meter == NULL) {
        return 1;
    }

    for (i = 0; i < SEL_METER_VALUES; i++) {
        meter[i] += shared->number * 1000 + i;
    }

    return 0;
}


static void
test_meters(void **state)
{
    uint32_t           i, number, round;
    uint64_t           values[SEL_METER_VALUES];
    shared_t          *shared;
    _Atomic uint64_t  *first;

    static const uint32_t  numbers[] = { 0, 1, 7, SEL_ZONE_PROCS - 1 };

    shared = shared_make();
    assert_false(sel_meter_read(&shared->zone, 0, values));
    first = NULL;

    for (round = 1; round <= 3; round++) {
        for (number = 0; number < sel_countof(numbers); number++) {
            shared->number = numbers[number];
            assert_int_equal(state_wait(state_fork(count, shared)), 0);
        }

        for (number = 0; number < sel_countof(numbers); number++) {
            assert_true(sel_meter_read(&shared->zone, numbers[number],
                                       values));

            for (i = 0; i < SEL_METER_VALUES; i++) {
                assert_int_equal(values[i],
                                 round * (numbers[number] * 1000 + i));
            }
        }

        if (round == 1) {
            first = sel_meter_attach(&shared->zone, 0);
        }

        assert_ptr_equal(sel_meter_attach(&shared->zone, 0), first);
        assert_ptr_not_equal(sel_meter_attach(&shared->zone, 1), first);
        state_check(&shared->zone);
        state_rebuild(&shared->zone);
        state_check(&shared->zone);
    }

    assert_false(sel_meter_read(&shared->zone, 2, values));
    assert_false(sel_meter_read(&shared->zone, SEL_ZONE_PROCS, values));
    assert_false(sel_meter_read(&shared->zone, UINT32_MAX, values));
    assert_null(sel_meter_attach(&shared->zone, SEL_ZONE_PROCS));
    assert_null(sel_meter_attach(&shared->zone, UINT32_MAX));
    shared_free(shared);
}


/* Every process can have a meter, none is in another's place. */
static void
test_all_meters(void **state)
{
    uint32_t           i, k;
    uint64_t           values[SEL_METER_VALUES];
    shared_t          *shared;
    _Atomic uint64_t  *meter;

    shared = shared_make();

    for (i = 0; i < SEL_ZONE_PROCS; i++) {
        meter = sel_meter_attach(&shared->zone, i);
        assert_non_null(meter);

        for (k = 0; k < SEL_METER_VALUES; k++) {
            assert_int_equal(meter[k], 0);
            meter[k] = (uint64_t) i << 32 | (k + 1);
        }
    }

    state_rebuild(&shared->zone);

    for (i = 0; i < SEL_ZONE_PROCS; i++) {
        assert_true(sel_meter_read(&shared->zone, i, values));

        for (k = 0; k < SEL_METER_VALUES; k++) {
            assert_int_equal(values[k], (uint64_t) i << 32 | (k + 1));
        }
    }

    shared_free(shared);
}


/* Without room there is no meter, and nothing is left behind. */
static void
test_no_room_for_a_meter(void **state)
{
    uint32_t     n, left;
    uint64_t     values[SEL_METER_VALUES];
    sel_zone_t   zone;

    state_private(&zone, STATE_SIZE);

    for (left = 0; left < 3; left++) {
        sel_zone_lock(&zone);

        for (n = sel_zone_chunks_free(&zone); n > left; n--) {
            assert_int_not_equal(sel_zone_chunk_take(&zone), SEL_CHUNK_NONE);
        }

        sel_zone_unlock(&zone);

        assert_null(sel_meter_attach(&zone, 3));
        assert_false(sel_meter_read(&zone, 3, values));
        assert_int_equal(state_stats(&zone).chunks_free, left);

        state_rebuild(&zone);       /* gives back what was taken */
        state_check(&zone);
    }

    assert_non_null(sel_meter_attach(&zone, 3));
    state_check(&zone);
    state_private_free(&zone);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_meters),
        cmocka_unit_test(test_all_meters),
        cmocka_unit_test(test_no_room_for_a_meter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
