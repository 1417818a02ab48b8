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

#include "state_test.h"
#include "service_world.h"
#include "service/sel_metrics.h"


static int   countdown;         /* 0: nothing fails */
static bool  failed;


#ifndef __SANITIZE_ADDRESS__

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);


/* This allocation and all after it fail until the countdown is set anew. */
static bool
fails(void)
{
    if (countdown == 0 || --countdown != 0) {
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
    return sel_view_refresh(&b.service.view);
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
    world_begin(&b);

    return world_end(&b, sel_worker_list(&b.service,
                                         (sel_str_t) { 0, NULL },
                                         (sel_str_t) { 0, NULL }, &b.answer,
                                         &b.fault)
                         && !b.answer.failed);
}


static bool
op_ready(void)
{
    bool  ready;

    world_begin(&b);

    return world_end(&b, sel_service_ready(&b.service, &b.answer, &ready,
                                           &b.fault)
                         && !b.answer.failed);
}


static bool
op_metrics(void)
{
    bool       done;
    sel_buf_t  buf;

    sel_buf_init(&buf);
    done = sel_metrics_print(&b.service, &buf) && !buf.failed;
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
}


/* Whatever went wrong, with memory all is well again. */
static void
finish(void)
{
    state_check(&zone);
    world_refresh(&a);
    world_refresh(&b);
    world_same(&a, &b);
    world_same(&b, &witness);
    assert_null(sel_index_check(b.service.index));
    assert_true(world_select(&b, "{\"routing_group\":\"default\","
                             "\"token_ids\":[1]}"));
    assert_int_equal(b.n_listeners, witness.n_listeners);

    world_free(&a);
    world_free(&b);
    world_free(&witness);
    state_private_free(&zone);
}


/* The operation with its first, second, ... allocation failing. */
static void
try(operation_pt operation, bool changes)
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
    try(op_refresh, false);
}


static void
test_register(void **state)
{
    try(op_post, true);
    try(op_move, true);
    try(op_refused, true);
}


static void
test_update(void **state)
{
    try(op_patch, true);
}


static void
test_delete(void **state)
{
    try(op_delete, true);
}


static void
test_select(void **state)
{
    try(op_select, false);
    try(op_scores, false);
}


static void
test_read(void **state)
{
    try(op_list, false);
    try(op_ready, false);
    try(op_metrics, false);
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
