/*
 * The books beside a slow model, in one process.  Without it loads could
 * drift from what is booked, the tree of prompts could fall apart in some
 * order of bookings and ends, and a rebuild could come to other numbers.
 *
 * SEL_SEED repeats a run, SEL_OPS sets its length (100000 or more).
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "books_workers.h"


typedef const char *(*operation_pt)(walk_t *walk);

static const char *walk_output(walk_t *walk);
static const char *walk_prefilled(walk_t *walk);
static const char *walk_free(walk_t *walk);
static const char *walk_expire(walk_t *walk);
static const char *walk_rebuild(walk_t *walk);


static const struct {
    uint32_t      weight;
    operation_pt  call;
} operations[] = {
    { 4000, walk_book },
    { 2000, walk_output },
    { 1000, walk_prefilled },
    { 2800, walk_free },
    {   80, walk_expire },
    {   10, walk_worker },
    {    8, walk_rebuild },
};


static const char *
expect_result(walk_t *walk, uint32_t at, const char *what,
    sel_book_result_t result)
{
    if (result == (walk->model.bookings[at].live ? SEL_BOOK_OK
                                                 : SEL_BOOK_NONE))
    {
        return NULL;
    }

    return walk_say(walk, "%s of booking %u: result %d, but it is %s", what,
                    at, result,
                    walk->model.bookings[at].live ? "live" : "not there");
}


static const char *
walk_output(walk_t *walk)
{
    char                id[WALK_ID];
    double              fraction;
    uint32_t            at;
    const char         *error;
    sel_book_result_t   result;

    at = below(walk, MODEL_BOOKINGS);

    switch (below(walk, 4)) {
    case 0:
        fraction = -1;
        break;
    case 1:
        fraction = below(walk, 1000001) / 1e6;
        break;
    default:
        fraction = below(walk, 5) / 4.0;
    }

    result = sel_book_output(&walk->zone, walk_id(at, id), fraction);

    if (result == SEL_BOOK_FULL && walk->model.bookings[at].live
        && state_stats(&walk->zone).chunks_free < 64)
    {
        walk->results[result]++;
        return NULL;
    }

    error = expect_result(walk, at, "output", result);

    if (error == NULL && result == SEL_BOOK_OK) {
        model_output(&walk->model, &walk->model.bookings[at], fraction);
    }

    return error;
}


static const char *
walk_prefilled(walk_t *walk)
{
    char         id[WALK_ID];
    uint32_t     at;
    const char  *error;

    at = below(walk, MODEL_BOOKINGS);

    if (sel_booked(&walk->zone, walk_id(at, id))
        != walk->model.bookings[at].live)
    {
        return "an id is taken when it is not, or the reverse";
    }

    error = expect_result(walk, at, "prefill",
                          sel_book_prefilled(&walk->zone, walk_id(at, id)));
    walk->model.bookings[at].prefill = 0;

    return error;
}


static const char *
walk_free(walk_t *walk)
{
    char         id[WALK_ID];
    uint32_t     at;
    const char  *error;

    at = below(walk, MODEL_BOOKINGS);
    error = expect_result(walk, at, "end",
                          sel_book_free(&walk->zone, walk_id(at, id)));

    if (error == NULL && walk->model.bookings[at].live) {
        model_free(&walk->model, &walk->model.bookings[at]);
        walk->freed++;
    }

    return error;
}


static const char *
walk_expire(walk_t *walk)
{
    uint32_t          n, max, got;
    uint64_t          before;
    model_booking_t  *oldest;

    max = below(walk, 12);
    before = walk->now - below(walk, 1000000);
    got = sel_books_expire(&walk->zone, before, max);

    for (n = 0; n < max; n++) {
        oldest = model_oldest(&walk->model, before);

        if (oldest == NULL) {
            break;
        }

        model_free(&walk->model, oldest);
    }

    walk->expired += n;

    return got == n ? NULL : walk_say(walk, "%u bookings expired, expected "
                                      "%u", got, n);
}


/*
 * A rebuild changes nothing, as long as no prompt has more weights than one
 * record of a booking keeps.
 */
static const char *
walk_rebuild(walk_t *walk)
{
    const char  *error;

    if (model_stretches(&walk->model) > WALK_STRETCHES) {
        walk->not_rebuilt++;
        return NULL;
    }

    walk->rebuilt++;
    error = walk_compare_all(walk);

    if (error != NULL) {
        return error;
    }

    state_rebuild(&walk->zone);
    error = walk_compare_all(walk);

    return error == NULL ? NULL : walk_say(walk, "after a rebuild: %s",
                                           strdupa(error));
}


static const char *
walk_check(walk_t *walk)
{
    const char  *error;

    sel_zone_lock(&walk->zone);
    error = sel_zone_check(&walk->zone);
    sel_zone_unlock(&walk->zone);

    return error;
}


static void
walk_operations(walk_t *walk, uint32_t n)
{
    uint32_t     i, op, dice, sum;
    const char  *error;

    sum = 0;
    for (op = 0; op < sel_countof(operations); op++) {
        sum += operations[op].weight;
    }

    for (i = 0; i < n; i++) {
        dice = below(walk, sum);

        for (op = 0; dice >= operations[op].weight; op++) {
            dice -= operations[op].weight;
        }

        walk->now += below(walk, 4) * below(walk, 200);
        error = operations[op].call(walk);

        if (error == NULL && i % 100 == 0) {
            error = walk_compare_all(walk);
        }

        if (error == NULL && i % 2000 == 0) {
            error = walk_check(walk);
        }

        if (error != NULL) {
            fail_msg("operation %u (of kind %u): %s", i, op, error);
        }
    }
}


/* All bookings end, in any order; nothing is left of them. */
static void
walk_end(walk_t *walk, uint64_t chunks)
{
    char              id[WALK_ID];
    uint32_t          i, k, n;
    sel_rank_load_t   loads[MODEL_RANKS + 1];

    k = below(walk, MODEL_BOOKINGS);

    for (i = 0; i < MODEL_BOOKINGS; i++) {
        n = (k + i * 7) % MODEL_BOOKINGS;
        assert_int_equal(sel_book_free(&walk->zone, walk_id(n, id)),
                         walk->model.bookings[n].live ? SEL_BOOK_OK
                                                      : SEL_BOOK_NONE);

        if (walk->model.bookings[n].live) {
            model_free(&walk->model, &walk->model.bookings[n]);
            walk->freed++;
        }
    }

    for (k = 1; k <= WALK_PARTITIONS; k++) {
        n = walk_read(walk, k, walk_node(walk), loads);

        for (i = 0; i < n; i++) {
            assert_int_equal(loads[i].prefill_tokens, 0);
            assert_true(loads[i].blocks == 0.0);
            assert_int_equal(loads[i].requests, 0);
            assert_int_equal(loads[i].depth, 0);
        }
    }

    assert_int_equal(sel_counted(&walk->zone, SEL_COUNT_BOOKED),
                     walk->results[SEL_BOOK_OK]);
    assert_int_equal(sel_counted(&walk->zone, SEL_COUNT_BOOKING_FREED),
                     walk->freed);
    assert_int_equal(sel_counted(&walk->zone, SEL_COUNT_BOOKING_EXPIRED),
                     walk->expired);
    assert_int_equal(sel_counted(&walk->zone, SEL_COUNT_BOOKING_RANK_GONE),
                     walk->rank_gone);
    assert_int_equal(state_stats(&walk->zone).bookings, 0);
    assert_int_equal(state_stats(&walk->zone).edges, 0);

    assert_int_equal(walk_settle(walk), chunks);
    state_check(&walk->zone);
    state_rebuild(&walk->zone);
    state_check(&walk->zone);
    assert_int_equal(state_stats(&walk->zone).chunks_free, chunks);
}


static void
random_run(size_t size, uint32_t depth, uint64_t age, uint32_t share)
{
    walk_t    *walk;
    uint32_t   i, n;
    uint64_t   chunks;

    n = getenv("SEL_OPS") != NULL ? (uint32_t) atoi(getenv("SEL_OPS"))
                                  : 200000;
    n = n * share / 10;
    walk = calloc(1, sizeof(walk_t));
    walk->rand.state = sel_rand_seed("books model");
    walk->now = UINT64_C(1) << 40;
    walk->age = age;
    walk->visitor = 1000;
    state_private(&walk->zone, size);
    sel_books_expiry(&walk->zone, age);
    model_grow(&walk->model, &walk->rand, depth);

    for (i = 0; i < WALK_HOT; i++) {
        walk->hot[i] = below(walk, MODEL_NODES);
    }

    chunks = walk_settle(walk);
    walk_operations(walk, n);

    print_message("# %u operations: %" PRIu64 " booked, %" PRIu64 " taken, %"
                  PRIu64 " refused, %" PRIu64 " full, %" PRIu64 " expired, %"
                  PRIu64 " rebuilds and %" PRIu64 " not tried\n", n,
                  walk->results[SEL_BOOK_OK], walk->results[SEL_BOOK_TAKEN],
                  walk->results[SEL_BOOK_REFUSED],
                  walk->results[SEL_BOOK_FULL], walk->expired, walk->rebuilt,
                  walk->not_rebuilt);

    assert_true(walk->results[SEL_BOOK_OK] > n / 10);
    assert_true(walk->results[SEL_BOOK_TAKEN] > 0);
    assert_true(walk->results[SEL_BOOK_REFUSED] > 0);
    assert_true((walk->results[SEL_BOOK_FULL] > 0) == (size < 2 << 20));
    assert_true(walk->expired > 0);
    assert_true(walk->rebuilt >= walk->not_rebuilt);

    walk_end(walk, chunks);
    state_private_free(&walk->zone);
    free(walk);
}


static void
test_roomy(void **state)
{
    random_run(4 << 20, 60, 0, 5);
}


/* Prompts whose keys fill many chunks. */
static void
test_long(void **state)
{
    random_run(16 << 20, MODEL_DEPTH, 0, 1);
}


static void
test_expiring(void **state)
{
    random_run(4 << 20, 60, 300000, 2);
}


/* Little room: refusals are ordinary, and must change nothing. */
static void
test_tight(void **state)
{
    random_run(SEL_ZONE_MIN_SIZE, 60, 0, 2);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_roomy),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_expiring),
        cmocka_unit_test(test_tight),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
