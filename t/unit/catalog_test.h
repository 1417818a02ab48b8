/*
 * What the tests of single catalog rules share: one zone, and the arguments
 * and results of its last call.  Include after cmocka.h.
 */

#ifndef CATALOG_TEST_H
#define CATALOG_TEST_H

#include "catalog_model.h"


typedef struct {
    sel_zone_t           zone;
    sel_arena_t          arena;
    sel_partition_t      partition;     /* of the next commit */
    sel_partition_t      existing;
    sel_rank_slot_t      ranks[300];    /* of the next and the last commit */
    sel_worker_record_t  record;
    uint64_t             version;       /* of the last commit */
    uint32_t             number;
} test_t;


static inline void
begin(test_t *test, size_t size)
{
    uint32_t  i;

    memset(test, 0, sizeof(test_t));
    state_private(&test->zone, size);
    sel_arena_init(&test->arena, 0);

    test->partition.block_size = 16;
    test->partition.model_name = sel_str("llama");
    test->partition.routing_group = sel_str("east");

    for (i = 0; i < sel_countof(test->ranks); i++) {
        test->ranks[i].dp_rank = i;
        test->ranks[i].slot = SEL_SLOT_NONE;
    }
}


static inline void
end(test_t *test)
{
    state_check(&test->zone);
    state_rebuild(&test->zone);
    state_check(&test->zone);

    sel_arena_free(&test->arena);
    state_private_free(&test->zone);
}


static inline sel_commit_t
commit(test_t *test, uint64_t worker_id, uint64_t expected,
    sel_worker_state_t state, uint32_t n_ranks, sel_str_t blob)
{
    sel_worker_commit_t  c;

    c = (sel_worker_commit_t) {
        .worker_id = worker_id, .expected = expected, .state = state,
        .partition = state == SEL_WORKER_SCHEDULABLE ? &test->partition : NULL,
        .n_ranks = n_ranks, .ranks = n_ranks ? test->ranks : NULL,
        .blob = blob
    };

    return sel_catalog_commit(&test->zone, &c, &test->version, &test->number,
                              &test->existing);
}


static inline void
commit_ok(test_t *test, uint64_t worker_id, uint64_t expected,
    uint32_t n_ranks)
{
    assert_int_equal(commit(test, worker_id, expected, SEL_WORKER_SCHEDULABLE,
                            n_ranks, sel_str("blob")), SEL_COMMIT_OK);
}


static inline void
delete_ok(test_t *test, uint64_t worker_id, uint64_t expected)
{
    assert_int_equal(commit(test, worker_id, expected, SEL_WORKER_GONE, 0,
                            sel_str("")), SEL_COMMIT_OK);
    assert_int_equal(test->number, 0);
}


static inline int
read_worker(test_t *test, uint64_t worker_id)
{
    return sel_catalog_worker(&test->zone, worker_id, &test->arena,
                              &test->record);
}


/* The next commit takes new slots for all ranks. */
static inline void
forget_slots(test_t *test)
{
    uint32_t  i;

    for (i = 0; i < sel_countof(test->ranks); i++) {
        test->ranks[i].slot = SEL_SLOT_NONE;
        test->ranks[i].new_feed = false;
    }
}


#endif /* CATALOG_TEST_H */
