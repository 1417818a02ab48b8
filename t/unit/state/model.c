/*
 * The catalog beside a slow model, in one process.  Without it a slot could
 * stand for two ranks, a refused commit could leave something behind, a
 * reader that follows the changes could keep a worker that is gone, and a
 * rebuild could find another catalog than the one that was there.
 *
 * SEL_SEED repeats a run.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "catalog_walk.h"


#define OPERATIONS  100000


typedef const char *(*operation_pt)(run_t *run);

static const char *run_commit(run_t *run);
static const char *run_visitors(run_t *run);
static const char *run_worker(run_t *run);
static const char *run_partition(run_t *run);
static const char *run_batch(run_t *run);
static const char *run_follow(run_t *run);
static const char *run_meter(run_t *run);
static const char *run_rebuild(run_t *run);
static const char *run_check(run_t *run);


static const struct {
    uint32_t      weight;
    operation_pt  call;
} operations[] = {
    { 500, run_commit },
    {   5, run_visitors },
    { 250, run_worker },
    {  80, run_partition },
    { 100, run_batch },
    {  20, run_follow },
    {  20, run_meter },
    {   5, run_rebuild },
    {  20, run_check },
};


/* What is to be committed next for a worker; now and then a wrong thing. */
static void
intend(run_t *run, uint32_t i, cat_intent_t *asked)
{
    cat_intend(&run->rand, &run->workers[i], id_of(i), asked);

    if (below(run, 100) < run->long_blobs && asked->blob_len != 0) {
        asked->blob_len = below(run, CAT_BLOB_MAX);
    }

    if (below(run, 100) < 4) {
        asked->expected = below(run, 2) ? 0 : asked->expected + below(run, 4);
        asked->expected = below(run, 4) ? asked->expected : run->version;

    } else if (asked->state == SEL_WORKER_SCHEDULABLE
               && ever_made(run, asked->partition) && below(run, 100) < 4)
    {
        asked->block_size = below(run, 2) ? 7 : 0;
        asked->flip_eagle = asked->block_size == 0;
    }
}


static const char *
run_commit(run_t *run)
{
    uint32_t           i, number;
    uint64_t           version;
    const char        *error;
    cat_intent_t       asked, got;
    cat_worker_t      *worker;
    sel_commit_t       result;
    sel_partition_t    existing;
    sel_zone_stats_t   before;

    i = below(run, WORKERS);
    worker = &run->workers[i];

    intend(run, i, &asked);

    if (asked.state == SEL_WORKER_GONE && asked.expected == 0
        && worker->version == 0)
    {
        return NULL;
    }

    got = asked;
    before = state_stats(&run->zone);
    result = cat_commit(&run->zone, &got, &version, &number, &existing);

    if (!may_be(run, worker, &asked, result, &before)) {
        return cat_say(&run->book, "worker %u, state %d, %u ranks, expected %"
                       PRIu64 " (is at %" PRIu64 "): result %d", i,
                       asked.state, asked.n_ranks, asked.expected,
                       worker->version, result);
    }

    run->results[result]++;

    if (result != SEL_COMMIT_OK) {
        error = expect_existing(run, result, &asked, &existing);
        return error != NULL ? error : expect_stats(run, &before);
    }

    error = committed(run, worker, &asked, &got, version, number);

    if (error == NULL && asked.makes) {
        error = learn_partition(run, asked.partition);
    }

    return error != NULL ? error : expect_stats(run, NULL);
}


/* Workers that come and go at once: nothing but tombs is left of them. */
static const char *
run_visitors(run_t *run)
{
    uint32_t          i, n, number;
    uint64_t          version;
    sel_commit_t      result;
    cat_intent_t      intent;
    sel_partition_t   existing;

    n = 1 + below(run, 30);

    for (i = 0; i < n; i++) {
        memset(&intent, 0, sizeof(intent));
        intent.worker_id = run->fresh++;
        intent.state = SEL_WORKER_INCOMPLETE;
        intent.blob_len = below(run, 300);

        result = cat_commit(&run->zone, &intent, &version, &number,
                            &existing);
        if (result == SEL_COMMIT_FULL && run->long_blobs > 0) {
            break;
        }

        if (result != SEL_COMMIT_OK || version != ++run->version) {
            return "a visitor cannot come";
        }

        intent.expected = version;
        intent.state = SEL_WORKER_GONE;
        result = cat_commit(&run->zone, &intent, &version, &number,
                            &existing);

        if (result != SEL_COMMIT_OK || version != ++run->version) {
            return "a visitor cannot leave";
        }
    }

    return expect_stats(run, NULL);
}


static const char *
run_worker(run_t *run)
{
    int                  rc;
    uint32_t             i;
    uint64_t             worker_id;
    const char          *error;
    sel_arena_t          arena;
    sel_worker_record_t  record;

    i = below(run, WORKERS + 1);
    worker_id = i < WORKERS ? id_of(i) : run->fresh - below(run, 4);

    sel_arena_init(&arena, 0);
    rc = sel_catalog_worker(&run->zone, worker_id, &arena, &record);

    if (i == WORKERS || run->workers[i].version == 0) {
        error = rc == 0 ? NULL : "a worker that is not there is found";

    } else if (rc != 1) {
        error = "a worker is not found";

    } else {
        error = cat_check_record(&run->book, &record, &run->workers[i]);
    }

    sel_arena_free(&arena);

    return error;
}


static const char *
run_partition(run_t *run)
{
    int               by_name, by_number;
    char              text[2][64];
    uint32_t          i;
    const char       *error;
    sel_arena_t       arena;
    sel_partition_t   asked, named, numbered;

    i = below(run, CAT_PARTITIONS);
    cat_names(i, text, &asked);

    sel_arena_init(&arena, 0);
    by_name = sel_catalog_find_partition(&run->zone, asked.model_name,
                                         asked.routing_group, &arena, &named);
    by_number = 0;
    error = NULL;

    if (by_name == 1) {
        by_number = sel_catalog_partition(&run->zone, named.number, &arena,
                                          &numbered);
    }

    if (by_name != by_number || by_name != ever_made(run, i)) {
        error = "a partition is found when it is not there, or the reverse";

    } else if (by_name == 1
               && (run->book.numbers[named.number] != i + 1
                   || numbered.number != named.number
                   || numbered.block_size != asked.block_size
                   || named.block_size != asked.block_size
                   || numbered.is_eagle != asked.is_eagle
                   || named.is_eagle != asked.is_eagle
                   || !sel_str_eq(named.model_name, asked.model_name)
                   || !sel_str_eq(named.routing_group, asked.routing_group)
                   || !sel_str_eq(numbered.model_name, asked.model_name)
                   || !sel_str_eq(numbered.routing_group,
                                  asked.routing_group)))
    {
        error = "a partition is described otherwise";
    }

    sel_arena_free(&arena);

    return error;
}


static const char *
look_at(void *data, const sel_worker_record_t *record)
{
    run_t     *run;
    uint32_t   i;

    run = data;

    for (i = 0; i < WORKERS; i++) {
        if (record->worker_id != id_of(i)) {
            continue;
        }

        if ((run->workers[i].version == 0)
            != (record->state == SEL_WORKER_GONE))
        {
            return "a change that is no more";
        }

        return record->state == SEL_WORKER_GONE ? NULL
               : cat_check_record(&run->book, record, &run->workers[i]);
    }

    return record->state == SEL_WORKER_GONE ? NULL : "an unknown worker";
}


static const char *
run_batch(run_t *run)
{
    bool  more;

    return cat_reader_batch(&run->readers[below(run, READERS)], &run->zone,
                            1 + below(run, 8), look_at, run, &more);
}


static const char *
run_follow(run_t *run)
{
    uint32_t       i, k, n;
    const char    *error;
    cat_reader_t  *reader;

    reader = &run->readers[below(run, READERS)];

    if (below(run, 4) == 0) {
        memset(reader, 0, sizeof(cat_reader_t));
    }

    error = cat_reader_follow(reader, &run->zone,
                              1 + below(run, CAT_BATCH_MAX), look_at, run);
    if (error != NULL) {
        return error;
    }

    n = 0;

    for (i = 0; i < WORKERS; i++) {
        if (run->workers[i].version == 0) {
            continue;
        }

        n++;
        k = cat_reader_find(reader, id_of(i));

        if (k == reader->n || reader->versions[k] != run->workers[i].version) {
            return "a reader has missed a change";
        }
    }

    return n == reader->n ? NULL : "a reader keeps a worker that is gone";
}


static const char *
run_meter(run_t *run)
{
    uint32_t           number;
    uint64_t           values[SEL_METER_VALUES];
    _Atomic uint64_t  *meter;

    number = below(run, METERS);

    if (sel_meter_read(&run->zone, number, values)
        != (run->meters[number] != 0))
    {
        return "a meter is there when it is not, or the reverse";
    }

    if (run->meters[number] != 0 && (values[0] != run->meters[number]
        || values[SEL_METER_VALUES - 1] != number))
    {
        return "a meter has lost its values";
    }

    meter = sel_meter_attach(&run->zone, number);

    if (meter == NULL) {
        return run->meters[number] == 0 && run->long_blobs > 0
               ? NULL : "a meter cannot be had";
    }

    meter[0]++;
    meter[SEL_METER_VALUES - 1] = number;
    run->meters[number]++;

    return NULL;
}


static const char *
run_rebuild(run_t *run)
{
    sel_zone_stats_t  before;

    before = state_stats(&run->zone);
    state_rebuild(&run->zone);

    if (memcmp(&before, &(sel_zone_stats_t[1]) { state_stats(&run->zone) },
               sizeof(before)) != 0)
    {
        return "a rebuild changed the statistics";
    }

    return run_check(run);
}


static const char *
run_check(run_t *run)
{
    const char  *error;

    sel_zone_lock(&run->zone);
    error = sel_zone_check(&run->zone);
    sel_zone_unlock(&run->zone);

    return error;
}


static void
run_operations(run_t *run, uint32_t n)
{
    uint32_t     i, op, dice, sum;
    const char  *error;

    sum = 0;
    for (op = 0; op < sel_countof(operations); op++) {
        sum += operations[op].weight;
    }

    for (i = 0; i < n; i++) {
        dice = below(run, sum);

        for (op = 0; dice >= operations[op].weight; op++) {
            dice -= operations[op].weight;
        }

        error = operations[op].call(run);

        if (error != NULL) {
            fail_msg("operation %u (of kind %u): %s", i, op, error);
        }
    }

    for (i = 0; i < WORKERS; i++) {
        error = run_worker(run);

        if (error != NULL) {
            fail_msg("at the end: %s", error);
        }
    }

    state_check(&run->zone);
}


static void
random_run(size_t size, uint32_t long_blobs, uint32_t n)
{
    run_t  *run;

    run = calloc(1, sizeof(run_t));
    run->rand.state = sel_rand_seed("catalog model");
    run->fresh = 1000000;
    run->long_blobs = long_blobs;

    state_private(&run->zone, size);
    run_operations(run, n);

    print_message("# %" PRIu64 " commits, %" PRIu64 " stale, %" PRIu64 " + %"
                  PRIu64 " other properties, %" PRIu64 " no slots, %" PRIu64
                  " full\n", run->results[SEL_COMMIT_OK],
                  run->results[SEL_COMMIT_STALE],
                  run->results[SEL_COMMIT_BLOCK_SIZE],
                  run->results[SEL_COMMIT_EAGLE],
                  run->results[SEL_COMMIT_NO_SLOTS],
                  run->results[SEL_COMMIT_FULL]);

    assert_true(run->results[SEL_COMMIT_OK] > n / 10);
    assert_true(run->results[SEL_COMMIT_STALE] > 0);
    assert_true(run->results[SEL_COMMIT_BLOCK_SIZE] > 0);
    assert_true(run->results[SEL_COMMIT_EAGLE] > 0);
    assert_true((run->results[SEL_COMMIT_FULL] > 0) == (long_blobs > 0));
    assert_true(run->results[SEL_COMMIT_NO_SLOTS] > 0
                || run->zone.n_slots > WORKERS * CAT_RANKS / 2);

    state_private_free(&run->zone);
    free(run);
}


static void
test_roomy(void **state)
{
    random_run(2 << 20, 0, OPERATIONS);
}


static void
test_few_slots(void **state)
{
    random_run(SEL_ZONE_MIN_SIZE, 0, OPERATIONS / 4);
}


/* Little room: refusals are ordinary, and must change nothing. */
static void
test_tight(void **state)
{
    random_run(STATE_SIZE, 60, OPERATIONS / 4);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_roomy),
        cmocka_unit_test(test_few_slots),
        cmocka_unit_test(test_tight),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
