/*
 * Every allocation of every operation on reservations fails once.  Without it
 * a process that is short of memory could book and say that it did not, keep
 * an id for ever, lose a pending selection, or crash.
 *
 * malloc() and its kind are replaced here, and the index's memory asks first;
 * the address sanitizer has its own malloc(), so there only the index's fails.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "index/sel_memory.h"
#include "reserve_test.h"


static int   countdown;         /* allocations until they fail; 0: never */
static bool  armed;             /* an operation is at work */
static bool  failed;
static bool  lasting;           /* all after it fail, too */


static void
inside(bool is)
{
    armed = is;
}


static bool
fails(void)
{
    if (!armed || countdown == 0 || --countdown != 0) {
        return false;
    }

    countdown = lasting;
    failed = true;

    return true;
}


static bool
hook(size_t size)
{
    return !fails();
}


#ifndef __SANITIZE_ADDRESS__

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);


void *
malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}


void *
calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}


void *
realloc(void *p, size_t size)
{
    return fails() ? NULL : __libc_realloc(p, size);
}

#endif


#define THREE    "\"block_hashes\":[1,2,3],\"sequence_hashes\":[1,2,3],"      \
                 "\"isl_tokens\":48"
#define BEFORE   "7/0 0 0 0, 7/1 1 48 3"
#define PENDING  "{" ID("p") "," EAST "}"

typedef bool (*operation_pt)(void);

static world_t  c;


static bool
op_select_and_reserve(void)
{
    return world_select_and_reserve(&c, "{" ID("r") "," EAST "," THREE ","
               "\"allowed_worker_ids\":[7],\"pinned_worker\":{" TO("7", "0")
               "}}");
}


static bool
op_generated(void)
{
    return world_select_and_reserve(&c, "{" EAST ",\"token_ids\":[1,2,3,4,5,"
               "6,7,8,9,10,11,12,13,14,15,16],\"pinned_worker\":{"
               TO("7", "0") "}}");
}


static bool
op_explicit(void)
{
    return world_reserve(&c, "{" ID("r") "," EAST "," TO("7", "0") "," THREE
                         ",\"effective_prefill_tokens\":48}");
}


static bool
op_replay(void)
{
    return world_reserve(&c, PENDING);
}


static bool
op_select(void)
{
    return world_select(&c, "{" ID("q") "," EAST "," THREE "}");
}


static bool
op_prefilled(void)
{
    return world_prefilled(&c, "old");
}


static bool
op_output(void)
{
    return world_output(&c, "old", "{\"decay_fraction\":0.5}");
}


static bool
op_release(void)
{
    return world_release(&c, "old");
}


static bool
op_unknown(void)
{
    return world_release(&c, "unknown");
}


static bool
op_loads(void)
{
    return world_try_loads(&c, NULL, NULL);
}


static bool
op_potential(void)
{
    return world_potential(&c, "{" EAST "," THREE "}");
}


/* A process that has yet to see the workers and what was decided. */
static void
prepare(void)
{
    worlds_begin(STATE_SIZE, false);
    world_init(&c, &zone, 2, false);
    world_learn(&a, UINT64_C(1) << 50);
    world_learn(&b, UINT64_C(1) << 50);
    world_learn(&c, UINT64_C(1) << 50);

    must(&a, world_post(&a, EIGHT));
    world_refresh(&c);
    must(&a, world_delete(&a, 8));
    must(&a, world_post(&a, SEVEN));
    must(&a, world_select_and_reserve(&a, "{" ID("old") "," EAST "," THREE
             ",\"pinned_worker\":{" TO("7", "1") "}}"));
    must(&a, world_select(&a, "{" ID("p") "," EAST "," THREE
             ",\"pinned_worker\":{" TO("7", "0") "}}"));
    c.inside = inside;
    sel_memory_hook = hook;
}


/* With memory all is well again. */
static void
finish(bool pending)
{
    c.inside = NULL;
    sel_memory_hook = NULL;
    state_check(&zone);

    world_refresh(&c);
    world_same(&a, &c);
    assert_int_equal(c.n_listeners, a.n_listeners);
    assert_null(sel_index_check(c.service.index));

    /* ids are free, and the pending selection is there */
    (void) world_release(&b, "old");
    (void) world_release(&b, "r");

    if (pending) {
        (void) world_release(&b, "p");
        must(&c, world_select(&c, "{" ID("p") "," EAST "," THREE "}"));
        must(&c, world_reserve(&c, PENDING));
    }

    must(&c, op_explicit());
    world_free(&c);
    (void) worlds_end(NULL);
}


/*
 * The operation with its first, second, ... allocation failing, alone or with
 * all that follow.  after: the loads when it is done.
 */

static void
exhaust(operation_pt operation, const char *after)
{
    int   n;
    bool  done;

    for (lasting = false; ; lasting = true) {

        for (n = 1; ; n++) {
            assert_true(n < 2000);
            prepare();

            failed = false;
            countdown = n;
            done = operation();
            countdown = 0;

            if (!done) {
                assert_true(failed || operation == op_unknown);

                if (operation != op_unknown) {
                    assert_true(c.fault.class == SEL_FAULT_NONE
                                || c.fault.class == SEL_FAULT_INTERNAL);
                }

                expect_loads(BEFORE);
                must(&b, operation == op_explicit
                         || world_reserve(&b, PENDING));

            } else {
                expect_loads(after);
            }

            finish(operation != op_explicit);

            if (!failed) {
                break;
            }
        }

        if (lasting) {
            break;
        }
    }
}


static void
test_book(void **state)
{
    exhaust(op_select_and_reserve, "7/0 1 48 3, 7/1 1 48 3");
    exhaust(op_generated, "7/0 1 16 1, 7/1 1 48 3");
    exhaust(op_explicit, "7/0 1 48 3, 7/1 1 48 3");
    exhaust(op_replay, "7/0 1 48 3, 7/1 1 48 3");
}


static void
test_select(void **state)
{
    exhaust(op_select, BEFORE);
}


static void
test_events(void **state)
{
    exhaust(op_prefilled, "7/0 0 0 0, 7/1 1 0 3");
    exhaust(op_output, "7/0 0 0 0, 7/1 1 48 2");
    exhaust(op_release, "7/0 0 0 0, 7/1 0 0 0");
    exhaust(op_unknown, BEFORE);
}


static void
test_read(void **state)
{
    exhaust(op_loads, BEFORE);
    exhaust(op_potential, BEFORE);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_book),
        cmocka_unit_test(test_select),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_read),
    };

    return cmocka_run_group_tests_name("reserve_memory", tests, NULL, NULL);
}
