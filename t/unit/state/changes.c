/*
 * Reading the catalog by its changes.  Without it a process that was busy for
 * a while could miss a worker, keep one that is gone, or read for ever; and
 * the tombs of workers that come and go could fill the zone.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "catalog_reader.h"


static uint64_t
set(sel_zone_t *zone, uint64_t worker_id, uint64_t expected)
{
    uint32_t         number;
    uint64_t         version;
    cat_intent_t     intent;
    sel_partition_t  existing;

    memset(&intent, 0, sizeof(intent));
    intent.worker_id = worker_id;
    intent.expected = expected;
    intent.state = SEL_WORKER_SCHEDULABLE;
    intent.n_ranks = 1;
    intent.ranks[0].slot = SEL_SLOT_NONE;
    intent.blob_seed = worker_id;
    intent.blob_len = 20;

    assert_int_equal(cat_commit(zone, &intent, &version, &number, &existing),
                     SEL_COMMIT_OK);

    return version;
}


static uint64_t
unset(sel_zone_t *zone, uint64_t worker_id, uint64_t expected)
{
    uint32_t         number;
    uint64_t         version;
    cat_intent_t     intent;
    sel_partition_t  existing;

    memset(&intent, 0, sizeof(intent));
    intent.worker_id = worker_id;
    intent.expected = expected;
    intent.state = SEL_WORKER_GONE;

    assert_int_equal(cat_commit(zone, &intent, &version, &number, &existing),
                     SEL_COMMIT_OK);

    return version;
}


typedef struct {
    uint64_t            worker_id;
    uint64_t            version;
    sel_worker_state_t  state;
} row_t;


/* All changes after since, read in batches of max, are exactly these. */
static void
expect_changes(sel_zone_t *zone, uint64_t since, uint32_t max,
    const row_t *rows, uint32_t n)
{
    int                  i, got;
    uint32_t             done;
    sel_arena_t          arena;
    sel_worker_record_t  records[CAT_BATCH_MAX];

    sel_arena_init(&arena, 0);

    for (done = 0; ; done += (uint32_t) got) {
        assert_true(since == 0 || since >= sel_catalog_forgotten(zone));
        got = sel_catalog_changes(zone, since, max, &arena, records);
        assert_int_equal(got, n - done < max ? n - done : max);

        if (got == 0) {
            break;
        }

        for (i = 0; i < got; i++) {
            assert_int_equal(records[i].worker_id, rows[done + i].worker_id);
            assert_int_equal(records[i].version, rows[done + i].version);
            assert_int_equal(records[i].state, rows[done + i].state);
            assert_int_equal(records[i].n_ranks,
                             records[i].state == SEL_WORKER_SCHEDULABLE);
            since = records[i].version;
        }
    }

    sel_arena_free(&arena);
}


static void
test_order(void **state)
{
    uint32_t     max;
    sel_zone_t   zone;

    static const row_t  rows[] = {
        { 12, 2, SEL_WORKER_SCHEDULABLE },
        { 14, 4, SEL_WORKER_SCHEDULABLE },
        { 15, 5, SEL_WORKER_SCHEDULABLE },
        { 11, 6, SEL_WORKER_SCHEDULABLE },      /* was at 1 */
        { 13, 7, SEL_WORKER_GONE },             /* was at 3 */
    };

    state_private(&zone, STATE_SIZE);
    expect_changes(&zone, 0, 4, rows, 0);

    (void) set(&zone, 11, 0);
    (void) set(&zone, 12, 0);
    (void) set(&zone, 13, 0);
    (void) set(&zone, 14, 0);
    (void) set(&zone, 15, 0);
    (void) set(&zone, 11, 1);
    (void) unset(&zone, 13, 3);

    for (max = 1; max <= 6; max++) {
        expect_changes(&zone, 0, max, rows, 5);
        expect_changes(&zone, 1, max, rows, 5);
        expect_changes(&zone, 2, max, rows + 1, 4);
        expect_changes(&zone, 5, max, rows + 3, 2);
        expect_changes(&zone, 6, max, rows + 4, 1);
        expect_changes(&zone, 7, max, rows, 0);
    }

    state_rebuild(&zone);
    expect_changes(&zone, 0, 3, rows, 5);
    expect_changes(&zone, 4, 3, rows + 2, 3);

    /* 13 comes back: its tomb goes */
    assert_int_equal(set(&zone, 13, 0), 8);
    expect_changes(&zone, 6, 2, (row_t[]) {{ 13, 8, SEL_WORKER_SCHEDULABLE }},
                   1);
    state_check(&zone);
    state_private_free(&zone);
}


typedef struct {
    sel_zone_t         zone;
    uint32_t           live;
    uint64_t           ids[8];
    cat_reader_t       idle;        /* read once, long ago */
    cat_reader_t       busy;        /* reads now and then */
    cat_reader_t       late;        /* comes at the end */
} crowd_t;


static void
expect_view(crowd_t *crowd, cat_reader_t *reader, uint32_t max)
{
    uint32_t     i;
    const char  *error;

    error = cat_reader_follow(reader, &crowd->zone, max, NULL, NULL);
    if (error != NULL) {
        fail_msg("in batches of %u: %s", max, error);
    }

    assert_int_equal(reader->n, crowd->live);

    for (i = 0; i < crowd->live; i++) {
        assert_true(cat_reader_find(reader, crowd->ids[i]) < reader->n);
    }
}


/* Readers that come late, with batches of all sizes. */
static void
expect_late(crowd_t *crowd)
{
    uint32_t  max;

    for (max = 1; max <= CAT_BATCH_MAX; max *= 2) {
        memset(&crowd->late, 0, sizeof(cat_reader_t));
        expect_view(crowd, &crowd->late, max);
    }
}


/*
 * Far more workers come and go than tombs can be kept.  Nothing fills up, and
 * every reader ends with the workers that are there, however small its
 * batches; one that missed a deletion is told to start again.
 */
static void
test_many_deletions(void **state)
{
    uint32_t           i;
    uint64_t           version;
    crowd_t           *crowd;
    sel_zone_stats_t   stats;

    crowd = calloc(1, sizeof(crowd_t));
    state_private(&crowd->zone, STATE_SIZE);

    /* two at the start, others in between: old records among tombs */
    for (i = 0; i < 30000; i++) {
        if (i == 100) {
            expect_view(crowd, &crowd->idle, 5);
        }

        version = set(&crowd->zone, i, 0);

        if (i < 2 || i % 6000 == 1500) {
            crowd->ids[crowd->live++] = i;
            continue;
        }

        if (i == 101) {         /* what the idle reader must not keep */
            (void) cat_reader_follow(&crowd->idle, &crowd->zone, 5, NULL,
                                     NULL);
        }

        (void) unset(&crowd->zone, i, version);

        if (i % 20 == 0) {
            expect_view(crowd, &crowd->busy, 1 + i % 7);
        }
    }

    assert_int_equal(crowd->busy.restarts, 0);
    assert_int_equal(crowd->live, 7);

    stats = state_stats(&crowd->zone);
    assert_int_equal(stats.workers, crowd->live);
    assert_true(stats.chunks_free > stats.chunks / 4);

    expect_view(crowd, &crowd->idle, 3);
    assert_int_equal(crowd->idle.restarts, 1);

    expect_late(crowd);
    state_check(&crowd->zone);
    state_rebuild(&crowd->zone);
    state_check(&crowd->zone);

    expect_late(crowd);
    expect_view(crowd, &crowd->busy, 2);
    assert_true(crowd->busy.restarts <= 1);

    state_private_free(&crowd->zone);
    free(crowd);
}


/* Deletions on and on while a reader is in the middle of its first pass. */
static void
test_deletions_while_reading(void **state)
{
    bool           more;
    uint32_t       i, k;
    uint64_t       versions[200];
    const char    *error;
    sel_zone_t     zone;
    cat_reader_t  *reader;

    reader = calloc(1, sizeof(cat_reader_t));
    state_private(&zone, STATE_SIZE);

    for (i = 0; i < 200; i++) {
        versions[i] = set(&zone, i, 0);
    }

    for (i = 0; i < 190; i++) {
        error = cat_reader_batch(reader, &zone, 1, NULL, NULL, &more);
        assert_null(error);
        (void) unset(&zone, i, versions[i]);

        for (k = 0; k < 100; k++) {
            (void) unset(&zone, 1000 + k, set(&zone, 1000 + k, 0));
        }
    }

    error = cat_reader_follow(reader, &zone, 4, NULL, NULL);
    if (error != NULL) {
        fail_msg("%s", error);
    }

    assert_int_equal(reader->n, 10);

    for (i = 190; i < 200; i++) {
        assert_true(cat_reader_find(reader, i) < reader->n);
    }

    state_check(&zone);
    state_private_free(&zone);
    free(reader);
}


#define WRITERS  2
#define IDS      20
#define COMMITS  5000


typedef struct {
    sel_zone_t         zone;
    uint64_t           seed;
    _Atomic uint32_t   reading;
    _Atomic uint32_t   done;
} writers_t;


static uint32_t  writer;        /* a child has what it was forked with */


/* Commits workers of its own, new ids when one is gone. */
static int
write_on(void *data)
{
    uint32_t          i, k, number;
    uint64_t          id, version;
    writers_t        *writers;
    sel_rand_t        rand;
    cat_intent_t      intent;
    cat_worker_t      workers[IDS];
    sel_partition_t   existing;

    writers = data;
    rand.state = writers->seed + writer;
    id = 1000000 * (writer + 1);
    memset(workers, 0, sizeof(workers));

    if (!state_until(&writers->reading, 1)) {
        return 1;
    }

    for (i = 0; i < COMMITS; i++) {
        k = (uint32_t) sel_rand_below(&rand, IDS);

        cat_intend(&rand, &workers[k], workers[k].version == 0 ? id++
                   : workers[k].now.worker_id, &intent);

        if (cat_commit(&writers->zone, &intent, &version, &number, &existing)
            == SEL_COMMIT_OK)
        {
            workers[k].version = intent.state == SEL_WORKER_GONE ? 0 : version;
            workers[k].number = number;
            workers[k].now = intent;
        }
    }

    atomic_fetch_add(&writers->done, 1);

    return 0;
}


/* A view that was followed beside the writers is the catalog's in the end. */
static void
expect_followed(writers_t *writers, const cat_reader_t *reader)
{
    int                  found;
    uint32_t             i;
    sel_arena_t          arena;
    sel_worker_record_t  record;

    assert_int_equal(state_stats(&writers->zone).workers, reader->n);

    for (i = 0; i < reader->n; i++) {
        sel_arena_init(&arena, 0);
        found = sel_catalog_worker(&writers->zone, reader->ids[i], &arena,
                                   &record);
        assert_int_equal(found, 1);
        assert_int_equal(record.version, reader->versions[i]);
        sel_arena_free(&arena);
    }
}


static void
test_reading_beside_writers(void **state)
{
    bool           more;
    pid_t          pids[WRITERS];
    uint32_t       i;
    uint64_t       batches;
    writers_t     *writers;
    cat_reader_t  *reader;

    reader = calloc(1, sizeof(cat_reader_t));
    writers = state_memory(sizeof(writers_t));
    state_shared(&writers->zone, STATE_SIZE);
    writers->seed = sel_rand_seed("writers");

    for (writer = 0; writer < WRITERS; writer++) {
        pids[writer] = state_fork(write_on, writers);
    }

    batches = 0;

    while (atomic_load(&writers->done) < WRITERS) {
        assert_null(cat_reader_batch(reader, &writers->zone,
                                     1 + (uint32_t) (batches++ % 5), NULL,
                                     NULL, &more));
        atomic_store(&writers->reading, 1);
    }

    for (i = 0; i < WRITERS; i++) {
        assert_int_equal(state_wait(pids[i]), 0);
    }

    assert_null(cat_reader_follow(reader, &writers->zone, 7, NULL, NULL));
    expect_followed(writers, reader);
    state_check(&writers->zone);

    print_message("# %" PRIu64 " batches, %" PRIu64 " starts again\n",
                  batches, reader->restarts);

    state_shared_free(&writers->zone);
    assert_int_equal(munmap(writers, sizeof(writers_t)), 0);
    free(reader);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_many_deletions),
        cmocka_unit_test(test_deletions_while_reading),
        cmocka_unit_test(test_reading_beside_writers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
