/*
 * The index scenarios of t/vectors/indexer.json in all tiers, with the token
 * summary that a reply makes of them.  Without it the rules of the lower
 * tiers that these scenarios pin (orphans, holes, copies, conflicts, removals
 * in one tier) and the way in which the hits of a query add up could change
 * unseen.
 *
 * One test a scenario; those that need recorded decisions are left out, and
 * named.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <jansson.h>
#include "index/sel_index.h"
#include "index/sel_index_check.h"


#define VECTORS    "t/vectors/indexer.json"
#define PARTITION  3
#define SCENARIOS  64
#define LIST_MAX   64


typedef struct {
    uint64_t           worker;
    uint32_t           rank;
    uint32_t           hits[SEL_TIERS];
} row_t;


typedef struct {
    sel_index_t       *index;
    uint32_t           block_size;
    uint32_t           queries;
    uint32_t           n;
    row_t              rows[LIST_MAX];  /* of the last query */
} play_t;


static const char  *tiers[SEL_TIERS] = {
    "device", "host_pinned", "disk", "external"
};


static const struct {
    const char          *text;
    bool                 whole;
    sel_index_result_t   result;
} results[] = {
    { "ok", true, SEL_INDEX_OK },
    { "dropped: unknown parent", true, SEL_INDEX_UNKNOWN_PARENT },
    { "rest dropped: ", false, SEL_INDEX_CONFLICT },
    { "unknown: ", false, SEL_INDEX_UNKNOWN_BLOCK },
};


static uint64_t
number(const json_t *value)
{
    assert_true(json_is_integer(value));
    assert_true(json_integer_value(value) >= 0);

    return (uint64_t) json_integer_value(value);
}


static const char *
text_of(const json_t *object, const char *key)
{
    const char  *text;

    text = json_string_value(json_object_get(object, key));
    assert_non_null(text);

    return text;
}


static sel_index_result_t
result_of(const json_t *step)
{
    size_t       i;
    const char  *text;

    text = text_of(step, "result");

    for (i = 0; i < sel_countof(results); i++) {
        if (results[i].whole ? strcmp(text, results[i].text) == 0
                             : strncmp(text, results[i].text,
                                       strlen(results[i].text)) == 0)
        {
            return results[i].result;
        }
    }

    fail_msg("no rule for the result \"%s\"", text);

    return SEL_INDEX_OK;
}


static sel_tier_t
tier_of(const json_t *step)
{
    uint32_t     tier;
    const char  *name;

    name = text_of(step, "tier");

    for (tier = 0; tier < SEL_TIERS; tier++) {
        if (strcmp(tiers[tier], name) == 0) {
            return (sel_tier_t) tier;
        }
    }

    fail_msg("no tier \"%s\"", name);

    return SEL_TIER_DEVICE;
}


static void
start(play_t *play, const json_t *step, sel_index_change_t *change)
{
    memset(change, 0, sizeof(sel_index_change_t));
    change->owner = sel_index_owner(play->index, PARTITION,
                           number(json_object_get(step, "worker")),
                           (uint32_t) number(json_object_get(step, "rank")));
}


static void
play_stored(play_t *play, const json_t *step)
{
    size_t              i;
    json_t             *pair, *parent;
    uint64_t            external[LIST_MAX], block[LIST_MAX];
    sel_index_change_t  change;

    start(play, step, &change);
    change.kind = SEL_INDEX_STORED;
    change.tier = tier_of(step);
    change.external = external;
    change.block = block;

    parent = json_object_get(step, "parent");
    change.has_parent = !json_is_null(parent);

    if (change.has_parent) {
        change.parent = number(parent);
    }

    json_array_foreach(json_object_get(step, "blocks"), i, pair) {
        assert_true(i < LIST_MAX);
        external[i] = number(json_array_get(pair, 0));
        block[i] = number(json_array_get(pair, 1));
        change.n++;
    }

    assert_int_equal(sel_index_apply(play->index, &change), result_of(step));
}


static void
play_removed(play_t *play, const json_t *step)
{
    size_t              i;
    json_t             *hash;
    uint64_t            external[LIST_MAX];
    sel_index_change_t  change;

    start(play, step, &change);
    change.kind = SEL_INDEX_REMOVED;
    change.tier = tier_of(step);
    change.external = external;

    json_array_foreach(json_object_get(step, "hashes"), i, hash) {
        assert_true(i < LIST_MAX);
        external[i] = number(hash);
        change.n++;
    }

    assert_int_equal(sel_index_apply(play->index, &change), result_of(step));
}


static void
play_cleared(play_t *play, const json_t *step)
{
    sel_index_change_t  change;

    start(play, step, &change);
    change.kind = SEL_INDEX_CLEARED;

    assert_int_equal(sel_index_apply(play->index, &change), result_of(step));
}


static void
play_remove_worker(play_t *play, const json_t *step)
{
    assert_int_equal(result_of(step), SEL_INDEX_OK);
    sel_index_retire_worker(play->index, PARTITION,
                            number(json_object_get(step, "worker")));
}


/* Takes the answer to a prompt down, by worker and rank. */
static void
ask(play_t *play, const json_t *step)
{
    size_t              i;
    json_t             *hash;
    uint32_t            k, n, partition;
    uint64_t            blocks[LIST_MAX];
    sel_index_match_t   out[LIST_MAX];

    n = 0;

    json_array_foreach(json_object_get(step, "hashes"), i, hash) {
        assert_true(i < LIST_MAX);
        blocks[n++] = number(hash);
    }

    assert_true(sel_index_owner_limit(play->index) <= LIST_MAX / 2);
    n = sel_index_match(play->index, PARTITION, blocks, n, out, LIST_MAX / 2);

    for (k = 0; k < n; k++) {
        assert_true(sel_index_owner_key(play->index, out[k].owner, &partition,
                                        &play->rows[k].worker,
                                        &play->rows[k].rank));
        assert_int_equal(partition, PARTITION);
        memcpy(play->rows[k].hits, out[k].hits, sizeof(out[k].hits));
        assert_true(out[k].hits[0] + out[k].hits[1] + out[k].hits[2]
                    + out[k].hits[3] > 0);
    }

    play->n = n;
}


/* {"1/0":2}: each rank is there with its count, and no other has any. */
static void
expect_tier(play_t *play, const json_t *expected, sel_tier_t tier)
{
    char      key[64];
    uint32_t  k, n;

    assert_true(json_is_object(expected));
    n = 0;

    for (k = 0; k < play->n; k++) {
        if (play->rows[k].hits[tier] == 0) {
            continue;
        }

        (void) snprintf(key, sizeof(key), "%llu/%u",
                        (unsigned long long) play->rows[k].worker,
                        play->rows[k].rank);
        assert_non_null(json_object_get(expected, key));
        assert_int_equal(play->rows[k].hits[tier],
                         number(json_object_get(expected, key)));
        n++;
    }

    assert_int_equal(n, json_object_size(expected));
}


/* Ranks that the caller expects are there, with 0 if need be. */
static void
add_expected_ranks(play_t *play, const json_t *ranks)
{
    size_t     i;
    json_t    *pair;
    uint32_t   k, rank;
    uint64_t   worker;

    json_array_foreach(ranks, i, pair) {
        worker = number(json_array_get(pair, 0));
        rank = (uint32_t) number(json_array_get(pair, 1));

        for (k = 0; k < play->n; k++) {
            if (play->rows[k].worker == worker && play->rows[k].rank == rank) {
                break;
            }
        }

        if (k == play->n) {
            assert_true(k < LIST_MAX);
            play->rows[play->n++] = (row_t) { worker, rank, { 0, 0, 0, 0 } };
        }
    }
}


static uint32_t
tokens(uint64_t blocks, uint32_t block_size)
{
    blocks *= block_size;

    return blocks < UINT32_MAX ? (uint32_t) blocks : UINT32_MAX;
}


/* Raises a number of a worker to what one of its ranks has. */
static void
raise_to(json_t *worker, const char *key, uint32_t value)
{
    if (json_integer_value(json_object_get(worker, key)) <= value) {
        assert_int_equal(json_object_set_new(worker, key, json_integer(value)),
                         0);
    }
}


/* In tokens: per worker the best of its ranks, and each rank's device part. */
static json_t *
summary(const play_t *play)
{
    char          key[32];
    json_t       *all, *worker, *dp;
    uint32_t      k, gpu, cpu, disk;
    const row_t  *row;

    all = json_object();

    for (k = 0; k < play->n; k++) {
        row = &play->rows[k];
        gpu = tokens(row->hits[0], play->block_size);
        cpu = tokens((uint64_t) row->hits[0] + row->hits[1], play->block_size);
        disk = tokens((uint64_t) row->hits[0] + row->hits[1] + row->hits[2]
                      + row->hits[3], play->block_size);

        (void) snprintf(key, sizeof(key), "%llu",
                        (unsigned long long) row->worker);
        worker = json_object_get(all, key);

        if (worker == NULL) {
            worker = json_object();
            (void) json_object_set_new(all, key, worker);
            (void) json_object_set_new(worker, "dp", json_object());
        }

        raise_to(worker, "gpu", gpu);
        raise_to(worker, "cpu", cpu);
        raise_to(worker, "disk", disk);
        raise_to(worker, "longest_matched", gpu);
        raise_to(worker, "longest_matched", cpu);
        raise_to(worker, "longest_matched", disk);

        dp = json_object_get(worker, "dp");
        (void) snprintf(key, sizeof(key), "%u", row->rank);
        (void) json_object_set_new(dp, key, json_integer(gpu));
    }

    return all;
}


static void
play_query(play_t *play, const json_t *step)
{
    char      *text;
    json_t    *expected, *got;
    uint32_t   tier;

    ask(play, step);
    expected = json_object_get(step, "expect");

    for (tier = 0; tier < SEL_TIERS; tier++) {
        expect_tier(play, json_object_get(expected, tiers[tier]),
                    (sel_tier_t) tier);
    }

    add_expected_ranks(play, json_object_get(step, "expect_ranks"));
    got = summary(play);

    if (!json_equal(got, json_object_get(expected, "summary"))) {
        text = json_dumps(got, JSON_SORT_KEYS);
        fail_msg("the summary is %s", text);
    }

    json_decref(got);
    play->queries++;
}


static const struct {
    const char  *op;
    void       (*play)(play_t *play, const json_t *step);
} ops[] = {
    { "stored", play_stored },
    { "removed", play_removed },
    { "cleared", play_cleared },
    { "remove_worker", play_remove_worker },
    { "query", play_query },
};


static void
test_scenario(void **state)
{
    size_t       i, k;
    json_t      *scenario, *step;
    play_t       play;
    const char  *op;

    scenario = *state;
    memset(&play, 0, sizeof(play));
    play.block_size = (uint32_t) number(json_object_get(scenario,
                                                        "block_size"));
    play.index = sel_index_create(0, 1);
    assert_non_null(play.index);

    json_array_foreach(json_object_get(scenario, "steps"), i, step) {
        op = text_of(step, "op");

        for (k = 0; k < sel_countof(ops) && strcmp(ops[k].op, op) != 0; k++) {
            /* void */
        }

        if (k == sel_countof(ops)) {
            fail_msg("no rule for a step \"%s\"", op);
        }

        ops[k].play(&play, step);
        assert_null(sel_index_check(play.index));
    }

    assert_true(play.queries > 0);
    sel_index_destroy(play.index);
}


static bool
has_recordings(const json_t *scenario)
{
    size_t   i;
    json_t  *step;

    json_array_foreach(json_object_get(scenario, "steps"), i, step) {
        if (strcmp(json_string_value(json_object_get(step, "op")),
                   "predicted") == 0)
        {
            return true;
        }
    }

    return false;
}


/* A change of the file must not leave everything out. */
static void
test_enough(void **state)
{
    assert_true(*(size_t *) *state >= 21);
}


int
main(void)
{
    int                failed;
    size_t             i, n;
    json_t            *scenario, *root;
    const char        *name;
    json_error_t       error;
    struct CMUnitTest  tests[SCENARIOS + 1];

    root = json_load_file(VECTORS, 0, &error);

    if (root == NULL) {
        (void) fprintf(stderr, "%s: %s\n", VECTORS, error.text);
        return 1;
    }

    memset(tests, 0, sizeof(tests));
    n = 0;

    json_array_foreach(json_object_get(root, "scenarios"), i, scenario) {
        name = json_string_value(json_object_get(scenario, "name"));

        if (has_recordings(scenario)) {
            printf("# left out, needs recorded decisions: %s\n", name);

        } else if (n < SCENARIOS) {
            tests[n].initial_state = scenario;
            tests[n].name = name;
            tests[n++].test_func = test_scenario;
        }
    }

    tests[n].name = "enough scenarios are played";
    tests[n].test_func = test_enough;
    tests[n].initial_state = &n;

    failed = _cmocka_run_group_tests("index scenarios in all tiers", tests,
                                     n + 1, NULL, NULL);
    json_decref(root);

    return failed;
}
