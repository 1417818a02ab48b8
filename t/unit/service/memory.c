/*
 * Every allocation of every operation fails once.  Without it a process that
 * is short of memory could commit a worker and then say that it did not, be
 * left with half a view, or crash.
 *
 * malloc() and its kind are replaced here; the address sanitizer has its own,
 * so there nothing fails and each operation is only carried out.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "index/sel_index_check.h"
#include "state_test.h"
#include "service_expect.h"
#include "service/sel_metrics.h"


static int   countdown;         /* allocations until they fail; 0: never */
static bool  armed;             /* an operation is at work */
static bool  failed;


static void
inside(bool is)
{
    armed = is;
}


#ifndef __SANITIZE_ADDRESS__

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);


/* This allocation and all after it fail until the countdown is set anew. */
static bool
fails(void)
{
    if (!armed || countdown == 0 || --countdown != 0) {
        return false;
    }

    countdown = 1;
    failed = true;

    return true;
}


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


static sel_zone_t  zone;
static world_t     a, b, witness;


#define WORKER(id, group, extra)                                              \
    "{\"worker_id\":" id ",\"endpoint\":\"e\",\"block_size\":16,"             \
    "\"routing_group\":\"" group "\",\"data_parallel_size\":2,"               \
    "\"kv_events_endpoints\":{\"0\":\"tcp://h:1\",\"1\":\"tcp://h:2\"},"      \
    "\"taints\":[\"t\"]" extra "}"

#define ASK                                                                   \
    "{\"block_hashes\":[1,2,3],\"sequence_hashes\":[1,2,3],"                  \
    "\"isl_tokens\":48,\"selection_id\":\"s\",\"allowed_worker_ids\":[1,2]}"


typedef bool (*operation_pt)(void);


static bool
op_refresh(void)
{
    bool  done;

    inside(true);
    done = sel_view_refresh(&b.service.view);
    inside(false);

    return done;
}


static bool
op_post(void)
{
    return world_post(&b, WORKER("3", "new", ",\"total_kv_blocks\":5"));
}


static bool
op_move(void)
{
    return world_post(&b, WORKER("2", "other", ""));
}


static bool
op_refused(void)
{
    return world_post(&b, "{\"worker_id\":4,\"data_parallel_size\":20}");
}


static bool
op_patch(void)
{
    return world_patch(&b, 1, "{\"data_parallel_size\":1,\"taints\":"
                       "[\"x\",\"y\"],\"replay_endpoint\":\"tcp://h:3\"}");
}


static bool
op_delete(void)
{
    return world_delete(&b, 1);
}


static bool
op_select(void)
{
    return world_select(&b, ASK);
}


static bool
op_scores(void)
{
    return world_scores(&b, ASK);
}


static bool
op_list(void)
{
    return world_try_list(&b, NULL, NULL);
}


static bool
op_ready(void)
{
    bool  ready;

    return world_try_ready(&b, &ready);
}


static bool
op_metrics(void)
{
    bool       done;
    sel_buf_t  buf;

    sel_buf_init(&buf);
    inside(true);
    done = sel_metrics_print(&b.service, &buf) && !buf.failed;
    inside(false);
    sel_buf_free(&buf);

    return done;
}


/* Two workers, of which process b knows an older state and one more. */
static void
prepare(void)
{
    state_private(&zone, STATE_SIZE);
    world_init(&a, &zone, 0, true);
    world_init(&b, &zone, 1, true);
    world_init(&witness, &zone, 2, true);

    assert_true(world_post(&a, WORKER("1", "default", "")));
    assert_true(world_post(&a, WORKER("9", "default", "")));
    world_refresh(&b);
    assert_int_equal(world_store(&b, 1, 0, 0, 1, 2), SEL_INDEX_OK);
    assert_int_equal(world_store(&b, 9, 0, 0, 1, 2), SEL_INDEX_OK);
    assert_true(world_delete(&a, 9));
    assert_true(world_post(&a, WORKER("2", "default", "")));
    assert_true(world_patch(&a, 1, "{\"total_kv_blocks\":7}"));
    b.inside = inside;
}


/* Whatever went wrong, with memory all is well again. */
static void
finish(void)
{
    b.inside = NULL;
    state_check(&zone);
    world_refresh(&a);
    world_refresh(&b);
    world_same(&a, &b);
    world_same(&b, &witness);
    assert_null(sel_index_check(b.service.index));
    assert_int_equal(b.n_listeners, witness.n_listeners);

    world_free(&a);
    world_free(&b);
    world_free(&witness);
    state_private_free(&zone);
}


/* The operation with its first, second, ... allocation failing. */
static void
exhaust(operation_pt operation, bool changes)
{
    int    n;
    bool   done;
    char  *before;

    for (n = 1; ; n++) {
        assert_true(n < 2000);
        prepare();
        before = strdup(world_list(&witness, NULL, NULL));
        assert_non_null(before);

        failed = false;
        countdown = n;
        done = operation();
        countdown = 0;

        /* refused: nobody sees anything of it */
        assert_true(done || failed);

        if (!done) {
            assert_string_equal(world_list(&witness, NULL, NULL), before);
        }

        assert_true(done || b.fault.class == SEL_FAULT_NONE
                    || b.fault.class == SEL_FAULT_INTERNAL);

        if (done && changes) {
            assert_string_not_equal(world_list(&witness, NULL, NULL),
                                    before);
        }

        /* no rank has lost blocks for want of memory */
        if (!changes) {
            assert_int_equal(world_blocks(&b, "default", "default", 1, 0, 1,
                                          5), 2);
            assert_int_equal(world_blocks(&b, "default", "default", 9, 0, 1,
                                          5), -1);
        }

        free(before);
        finish();

        if (!failed) {
            break;
        }
    }

#ifndef __SANITIZE_ADDRESS__
    assert_true(n > 1);         /* it does allocate */
#endif
}


static void
test_refresh(void **state)
{
    exhaust(op_refresh, false);
}


static void
test_register(void **state)
{
    exhaust(op_post, true);
    exhaust(op_move, true);
    exhaust(op_refused, true);
}


static void
test_update(void **state)
{
    exhaust(op_patch, true);
}


static void
test_delete(void **state)
{
    exhaust(op_delete, true);
}


static void
test_select(void **state)
{
    exhaust(op_select, false);
    exhaust(op_scores, false);
}


static void
test_read(void **state)
{
    exhaust(op_list, false);
    exhaust(op_ready, false);
    exhaust(op_metrics, false);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_refresh),
        cmocka_unit_test(test_register),
        cmocka_unit_test(test_update),
        cmocka_unit_test(test_delete),
        cmocka_unit_test(test_select),
        cmocka_unit_test(test_read)
    };

    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
