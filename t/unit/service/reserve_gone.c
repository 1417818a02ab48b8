/*
 * Ranks that go, or come back as others, while an operation is at work: after
 * it has read the catalog, before it books.  Without it a request could be
 * booked on a rank that is none any more, on another one than was answered,
 * or fail though there was a rank to go to.
 *
 * The changes are made by the other process at an allocation of the operation;
 * the address sanitizer has its own malloc(), there nothing comes between.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "reserve_test.h"


#define LARGE    ((size_t) 1 << 18)     /* allocations of paths, not others */
#define BLOCKS   (LARGE / 8)


typedef void (*change_pt)(void);

static int        countdown;            /* allocations until the change */
static size_t     least;                /* only those of this size count */
static uint32_t   times;                /* changes that were made */
static uint32_t   most;
static bool       armed;
static change_pt  change;


static void
inside(bool is)
{
    armed = is;
}


#ifndef __SANITIZE_ADDRESS__

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);


static void
maybe_change(size_t size)
{
    if (armed && size >= least && times < most && --countdown <= 0) {
        armed = false;
        times++;
        change();
        armed = true;
    }
}


void *
malloc(size_t size)
{
    maybe_change(size);

    return __libc_malloc(size);
}


void *
calloc(size_t n, size_t size)
{
    maybe_change(n * size);

    return __libc_calloc(n, size);
}


void *
realloc(void *p, size_t size)
{
    maybe_change(size);

    return __libc_realloc(p, size);
}

#endif


#define WORKER(id)                                                            \
    "{\"worker_id\":" id "," EAST ",\"endpoint\":\"e" id "\","                \
    "\"block_size\":16,\"data_parallel_size\":2}"


static const char *const  workers[] = { WORKER("7"), WORKER("8"),
                                        WORKER("9") };


static int
begin(void **state)
{
    size_t  i;

    worlds_begin(16 * STATE_SIZE, false);

    for (i = 0; i < sel_countof(workers); i++) {
        must(&b, world_post(&b, workers[i]));
    }

    world_refresh(&a);
    a.inside = inside;
    countdown = 1;
    least = 0;
    times = 0;
    most = 1;

    return 0;
}


static int
end(void **state)
{
    armed = false;
    a.inside = NULL;

    return worlds_end(state);
}


static void
delete_seven(void)
{
    (void) world_delete(&b, 7);
}


/* Under the same ids they are other ranks. */
static void
anew(void)
{
    size_t  i;

    for (i = 0; i < sel_countof(workers); i++) {
        (void) world_delete(&b, 7 + i);
        must(&b, world_post(&b, workers[i]));
    }
}


static void
delete_all(void)
{
    uint64_t  id;

    for (id = 7; id < 10; id++) {
        (void) world_delete(&b, id);
    }
}


/* A body with a prompt whose path is a large block of memory. */
static char *
large(const char *members)
{
    size_t     i;
    sel_buf_t  body;

    sel_buf_init(&body);
    sel_buf_printf(&body, "{%s," EAST ",\"isl_tokens\":%zu", members,
                   16 * BLOCKS);

    sel_buf_text(&body, ",\"block_hashes\":[");

    for (i = 0; i < BLOCKS; i++) {
        sel_buf_printf(&body, "%s%zu", i != 0 ? "," : "", i + 1);
    }

    sel_buf_text(&body, "],\"sequence_hashes\":[");

    for (i = 0; i < BLOCKS; i++) {
        sel_buf_printf(&body, "%s%zu", i != 0 ? "," : "", i + 1);
    }

    sel_buf_text(&body, "]}");
    sel_buf_byte(&body, 0);
    assert_false(body.failed);

    return (char *) body.data;
}


typedef bool (*call_pt)(world_t *world, const char *text);


/*
 * Calls with a change each time that the path has been made: the first most
 * times.
 */

static bool
call(call_pt operation, const char *members, uint32_t n)
{
    bool   done;
    char  *body;

    body = large(members);
    countdown = 1;
    least = LARGE;
    times = 0;
    most = n;
    done = operation(&a, body);
    most = 0;
    free(body);

    return done;
}


#ifdef __SANITIZE_ADDRESS__
#define UNCHANGED  true
#else
#define UNCHANGED  false
#endif


/* The rank went: another one is taken. */
static void
test_one_goes(void **state)
{
    uint32_t  i;

    static const call_pt  calls[] = { world_select_and_reserve, world_select };

    change = delete_seven;

    for (i = 0; i < sel_countof(calls); i++) {
        must(&a, call(calls[i], ID("r") ",\"affinity_target\":{" TO("7", "1")
                      "}", 1));
        assert_true(UNCHANGED || times == 1);
        world_expect_not(&a, UNCHANGED ? "e8" : "\"endpoint\":\"e7\"");
        must(&b, world_post(&b, workers[0]));
    }
}


/* All are others: begun again, with what there is now. */
static void
test_all_anew(void **state)
{
    change = anew;

    must(&a, call(world_select_and_reserve, ID("r"), 1));
    must(&a, world_release(&a, "r"));
    must(&a, call(world_reserve, ID("r") "," TO("8", "1"), 1));
    world_expect(&a, "\"worker_id\":8,\"dp_rank\":1,");
    expect_loads("7/0 0 0 0, 7/1 0 0 0, 8/0 0 0 0, 8/1 1 0 32768, "
                 "9/0 0 0 0, 9/1 0 0 0");
    must(&b, world_release(&b, "r"));
    must(&a, call(world_select, ID("r"), 1));
    must(&b, world_reserve(&b, "{" ID("r") "," EAST "}"));
    must(&a, world_release(&a, "r"));
}


/* Not for ever. */
static void
test_always_anew(void **state)
{
    size_t   i;
    bool     done;

    static const struct {
        call_pt      call;
        const char  *members;
    } rows[] = {
        { world_select_and_reserve, ID("r") },
        { world_reserve, ID("r") "," TO("8", "1") },
        { world_select, ID("r") },
    };

    change = anew;

    for (i = 0; i < sel_countof(rows); i++) {

        /* one turn fewer is not too many */
        must(&a, call(rows[i].call, rows[i].members, SEL_RESERVE_TRIES - 1));
        assert_true(UNCHANGED || times == SEL_RESERVE_TRIES - 1);
        (void) world_release(&b, "r");
        (void) call(world_reserve, ID("r") "," TO("99", "1"), 0);

        done = call(rows[i].call, rows[i].members, SEL_RESERVE_TRIES);
        assert_true(UNCHANGED || times == SEL_RESERVE_TRIES);
        assert_int_equal(done, UNCHANGED);

        if (!done) {
            world_expect_fault(&a, SEL_FAULT_INTERNAL,
                               "workers are changing too fast");
            refused(&b, world_release(&b, "r"), SEL_FAULT_NOT_FOUND,
                    "reservation r not found");
            refused(&b, world_reserve(&b, "{" ID("r") "," EAST "}"),
                    SEL_FAULT_NOT_FOUND, NO_PENDING("r", IN_EAST));
        }

        (void) world_release(&b, "r");
    }
}


/* Nobody is left: said as if it had been so from the beginning. */
static void
test_all_go(void **state)
{
    size_t  i;

    static const struct {
        call_pt      call;
        const char  *members;
    } rows[] = {
        { world_select_and_reserve, ID("r") },
        { world_reserve, ID("r") "," TO("8", "1") },
        { world_select, ID("r") },
    };

    change = delete_all;

    for (i = 0; i < sel_countof(rows); i++) {
        if (!call(rows[i].call, rows[i].members, 1)) {
            world_expect_fault(&a, SEL_FAULT_NOT_READY,
                               "no schedulable workers are available");
            assert_int_equal(times, 1);
            anew();

        } else {
            assert_true(UNCHANGED);
        }

        (void) world_release(&b, "r");
    }
}


static void
once(call_pt operation, const char *body, const char *fault)
{
    int   n;
    bool  done;

    for (n = 1; n == 1 || times != 0; n++) {
        assert_true(n < 500);
        countdown = n;
        least = 0;
        times = 0;
        most = 1;

        must(&b, world_select(&b, "{" ID("p") "," EAST "," HASHES ","
                 "\"pinned_worker\":{" TO("7", "1") "}}"));
        must(&b, world_patch(&b, 9, n % 2 ? "{\"total_kv_blocks\":5}"
                                          : "{\"total_kv_blocks\":6}"));
        done = operation(&a, body);
        most = 0;
        state_check(&zone);

        if (!done) {
            assert_int_equal(times, 1);
            world_expect_fault(&a, SEL_FAULT_NOT_FOUND, fault);
            refused(&b, world_release(&b, "p"), SEL_FAULT_NOT_FOUND,
                    "reservation p not found");
        }

        /* booked before or after the change: on no rank that is gone */
        if (done && times == 0) {
            must(&b, world_release(&b, "p"));
        }

        if (times != 0) {
            refused(&b, world_release(&b, "p"), SEL_FAULT_NOT_FOUND,
                    "reservation p not found");
            must(&b, world_post(&b, workers[0]));
        }

        expect_loads("7/0 0 0 0, 7/1 0 0 0, 8/0 0 0 0, 8/1 0 0 0, "
                     "9/0 0 0 0, 9/1 0 0 0");
    }

#ifndef __SANITIZE_ADDRESS__
    assert_true(n > 2);
#endif
}


/* The worker goes at the first, second, ... allocation. */
static void
test_goes_anywhere(void **state)
{
    change = delete_seven;

    once(world_reserve, "{" ID("p") "," EAST "," TO("7", "1") ","
         "\"token_ids\":[1]}", "schedulable worker 7 not found for " IN_EAST);
    once(world_reserve, "{" ID("p") "," EAST "}",
         "schedulable worker 7 (dp_rank 1) not found for " IN_EAST);
}


static void
select_anew(void)
{
    must(&b, world_select(&b, "{" ID("p") "," EAST ",\"token_ids\":[1],"
             "\"pinned_worker\":{" TO("8", "0") "}}"));
}


/*
 * Selected again while it is replayed: the old one is booked and the new one
 * stays, or the new one is booked and used up.
 */

static void
test_selected_meanwhile(void **state)
{
    int   n;
    bool  old, stays;

    change = select_anew;
    stays = false;

    for (n = 1; n == 1 || times != 0; n++) {
        assert_true(n < 500);
        must(&b, world_select(&b, "{" ID("p") "," EAST "," HASHES ","
                 "\"pinned_worker\":{" TO("7", "1") "}}"));

        countdown = n;
        least = 0;
        times = 0;
        most = 1;
        must(&a, world_reserve(&a, "{" ID("p") "," EAST "}"));
        most = 0;
        old = strstr(world_text(&a), "\"worker_id\":7,") != NULL;
        expect_loads(old ? "7/0 0 0 0, 7/1 1 33 2, 8/0 0 0 0, 8/1 0 0 0, "
                           "9/0 0 0 0, 9/1 0 0 0"
                         : "7/0 0 0 0, 7/1 0 0 0, 8/0 1 1 0, 8/1 0 0 0, "
                           "9/0 0 0 0, 9/1 0 0 0");
        must(&b, world_release(&b, "p"));

        if (old && times != 0) {
            stays = true;
            must(&a, world_reserve(&a, "{" ID("p") "," EAST "}"));
            world_expect(&a, "\"worker_id\":8,");
            must(&b, world_release(&b, "p"));
        }

        refused(&a, world_reserve(&a, "{" ID("p") "," EAST "}"),
                SEL_FAULT_NOT_FOUND, NO_PENDING("p", IN_EAST));
    }

    assert_true(UNCHANGED || stays);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_one_goes, begin, end),
        cmocka_unit_test_setup_teardown(test_all_anew, begin, end),
        cmocka_unit_test_setup_teardown(test_always_anew, begin, end),
        cmocka_unit_test_setup_teardown(test_all_go, begin, end),
        cmocka_unit_test_setup_teardown(test_goes_anywhere, begin, end),
        cmocka_unit_test_setup_teardown(test_selected_meanwhile, begin, end),
    };

    return cmocka_run_group_tests_name("reserve_gone", tests, NULL, NULL);
}
