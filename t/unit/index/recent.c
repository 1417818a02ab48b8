/*
 * Blocks that are believed for a while (sel_recent.h).  Without it a rank
 * could keep the credit of a prompt that it has thrown away long ago, lose
 * one that was booked again, or lose blocks to the prompts of an owner that
 * had its number before.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "recent_test.h"


/* External hashes are the public sequence hashes. */
static void
test_external_hashes(void **state)
{
    sel_index_change_t  change;

    static const uint64_t  external[] = {
        11, UINT64_C(10497221074644697006), UINT64_C(8340346278797266542)
    };

    store(one, 3, 100 * MS);
    assert_int_equal(hits(one), 3);
    assert_int_equal(hits(two), 0);

    change = (sel_index_change_t) {
        .kind = SEL_INDEX_STORED, .owner = one, .has_parent = true,
        .parent = external[2], .n = 1, .external = &(uint64_t) { 99 },
        .block = &chain[3]
    };

    assert_int_equal(sel_index_apply(index_, &change), SEL_INDEX_OK);
    assert_int_equal(hits(one), 4);

    change = (sel_index_change_t) {
        .kind = SEL_INDEX_REMOVED, .owner = one, .n = 3, .external = external
    };

    assert_int_equal(sel_index_apply(index_, &change), SEL_INDEX_OK);
    assert_int_equal(hits(one), 0);
}


/* Rounded up to 100 ms: never earlier than asked for. */
static void
test_deadlines(void **state)
{
    size_t  i;

    static const struct {
        uint64_t  until, last, gone;
    } rows[] = {
        { 1, 100 * MS - 1, 100 * MS },
        { 150 * MS, 200 * MS - 1, 200 * MS },
        { 300 * MS - 1, 300 * MS - 1, 300 * MS },
        { 400 * MS, 400 * MS - 1, 400 * MS },
        { 400 * MS + 1, 500 * MS - 1, 500 * MS },
        { 3600000 * MS, 3600000 * MS - 1, 3600000 * MS },
    };

    for (i = 0; i < sel_countof(rows); i++) {
        store(one, 3, rows[i].until);
        expire(rows[i].last);
        assert_int_equal(hits(one), 3);
        expire(rows[i].gone);
        assert_int_equal(hits(one), 0);
        assert_int_equal(held(), 0);
    }
}


static void
test_renewed(void **state)
{
    store(one, 3, 100 * MS);
    store(one, 3, 200 * MS);
    store(one, 3, 300 * MS);
    assert_int_equal(held(), 3);

    expire(200 * MS);
    assert_int_equal(hits(one), 3);
    expire(300 * MS);
    assert_int_equal(hits(one), 0);
    assert_int_equal(held(), 0);
}


/* What a shorter prompt shares lives longer, what only the longer one has
   does not. */
static void
test_renewed_in_part(void **state)
{
    store(one, 5, 100 * MS);
    store(one, 2, 200 * MS);
    store(one, 4, 300 * MS);

    expire(100 * MS);
    assert_int_equal(hits(one), 4);
    expire(200 * MS);
    assert_int_equal(hits(one), 4);
    expire(300 * MS);
    assert_int_equal(held(), 0);

    store(one, 2, 400 * MS);
    store(one, 5, 500 * MS);
    expire(400 * MS);
    assert_int_equal(hits(one), 5);
}


/* Once gone, a prompt is as good as never seen. */
static void
test_stored_anew(void **state)
{
    store(one, 3, 100 * MS);
    expire(FAR);
    store(one, 2, FAR + 100 * MS);
    assert_int_equal(hits(one), 2);
    expire(FAR + 100 * MS - 1);
    assert_int_equal(hits(one), 2);
    expire(FAR + 100 * MS);
    assert_int_equal(held(), 0);
}


static void
test_owners_apart(void **state)
{
    store(one, 3, 100 * MS);
    store(two, 5, 200 * MS);
    expire(100 * MS);
    assert_int_equal(hits(one), 0);
    assert_int_equal(hits(two), 5);
    expire(200 * MS);
    assert_int_equal(held(), 0);
}


static void
test_nothing(void **state)
{
    uint64_t  bytes;

    bytes = sel_recent_bytes(recent);
    assert_true(sel_recent_expire(recent, FAR, 0));
    store(one, 0, 100 * MS);
    assert_int_equal(sel_recent_bytes(recent), bytes);
    assert_true(sel_recent_expire(recent, FAR, 0));
    assert_int_equal(held(), 0);
}


/* From the end, never more than the budget, and true when nothing is due. */
static void
test_budget(void **state)
{
    uint32_t  i, left;
    uint64_t  blocks[LONG];

    for (i = 0; i < LONG; i++) {
        blocks[i] = 1000 + i;
    }

    assert_int_equal(sel_recent_store(recent, one, blocks, LONG, 100 * MS),
                     SEL_INDEX_OK);
    store(two, 5, 100 * MS);
    store(one, 5, 200 * MS);

    assert_true(sel_recent_expire(recent, 100 * MS - 1, 0));
    assert_false(sel_recent_expire(recent, 100 * MS, 0));
    assert_int_equal(held(), LONG + 10);

    /* of one time, what was stored last goes first */

    assert_false(sel_recent_expire(recent, 100 * MS, 4));
    assert_int_equal(hits(two), 1);
    assert_false(sel_recent_expire(recent, 100 * MS, 1));
    assert_int_equal(hits(two), 0);

    for (left = LONG, i = 1; left > i; left -= i, i += 37) {
        assert_false(sel_recent_expire(recent, 100 * MS, i));
        assert_int_equal(hits_of(one, blocks, LONG), left - i);
        assert_int_equal(held(), left - i + 5);
        assert_null(sel_index_check(index_));
    }

    assert_true(sel_recent_expire(recent, 100 * MS, left));
    assert_int_equal(hits(one), 5);
    assert_int_equal(held(), 5);
}


static void
test_no_such_owner(void **state)
{
    uint16_t  owner;
    uint64_t  bytes;

    bytes = sel_recent_bytes(recent);
    sel_index_retire(index_, two);

    for (owner = 0; owner < 5; owner++) {
        if (owner != one) {
            assert_int_equal(sel_recent_store(recent, owner, chain, 3, MS),
                             SEL_INDEX_NO_SUCH_OWNER);
        }
    }

    assert_int_equal(sel_recent_store(recent, SEL_INDEX_NO_OWNER, chain, 0,
                                      MS), SEL_INDEX_NO_SUCH_OWNER);
    assert_int_equal(sel_recent_bytes(recent), bytes);
    assert_int_equal(held(), 0);
}


/* Prompts of an owner that is gone expire without a trace. */
static void
test_retired(void **state)
{
    store(one, 5, 100 * MS);
    store(two, 3, 100 * MS);
    sel_index_retire(index_, one);
    assert_int_equal(hits(one), 0);
    expire(100 * MS);
    assert_int_equal(held(), 0);
    sweep();
    assert_null(sel_index_check(index_));
    expire(FAR);
}


/* Whoever has the number then keeps what is its own. */
static void
test_number_used_again(void **state)
{
    uint16_t  owner;

    store(one, 5, 200 * MS);
    sel_index_retire(index_, one);
    sweep();

    owner = sel_index_owner(index_, 1, 77, 3);
    assert_int_equal(owner, one);
    assert_int_equal(hits(owner), 0);

    store(owner, 4, 300 * MS);
    expire(200 * MS);
    assert_int_equal(hits(owner), 4);
    store(owner, 2, 400 * MS);
    expire(300 * MS);
    assert_int_equal(hits(owner), 2);
    expire(400 * MS);
    assert_int_equal(held(), 0);
}


/* The same rank that has come back holds nothing, and learns all anew. */
static void
test_rank_is_back(void **state)
{
    uint16_t  owner;

    store(one, 5, 200 * MS);
    sel_index_retire(index_, one);
    sweep();

    owner = sel_index_owner(index_, 1, 5, 0);
    assert_int_equal(owner, one);
    assert_int_equal(hits(owner), 0);

    store(owner, 4, 300 * MS);
    assert_int_equal(hits(owner), 4);
    expire(200 * MS);
    assert_int_equal(hits(owner), 4);
    expire(300 * MS);
    assert_int_equal(held(), 0);
}


/* What was queued for the old owner does not put off the new one's. */
static void
test_number_used_again_in_time(void **state)
{
    uint16_t  owner;

    store(one, 2, 100 * MS);
    store(one, 5, 200 * MS);
    sel_index_retire(index_, one);
    sweep();

    owner = sel_index_owner(index_, 1, 77, 3);
    assert_int_equal(owner, one);
    expire(100 * MS);
    store(owner, 3, 200 * MS);
    expire(200 * MS - 1);
    assert_int_equal(hits(owner), 3);
    expire(200 * MS);
    assert_int_equal(held(), 0);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_external_hashes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deadlines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_renewed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_renewed_in_part, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stored_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(test_owners_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_budget, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_such_owner, setup, teardown),
        cmocka_unit_test_setup_teardown(test_retired, setup, teardown),
        cmocka_unit_test_setup_teardown(test_number_used_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_rank_is_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_number_used_again_in_time, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
