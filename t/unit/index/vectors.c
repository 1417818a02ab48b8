/*
 * The index scenarios of t/vectors/indexer.json, as far as they need the
 * device tier alone.  Without it the rules that these scenarios pin (whole
 * stores dropped for an unknown parent, one removal after two stores, tails
 * that come back when a hole is refilled, unequal external hashes) could
 * change unseen.
 *
 * One test a scenario.  A scenario that needs something else is left out by
 * the rule in needs_more(), and its name printed.  (cmocka's own skip() says
 * "not ok".)
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
    json_t       *scenario;
    sel_index_t  *index;
    uint32_t      queries;
} play_t;


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


/* What a scenario needs that this test has not; NULL when nothing. */
static const char *
needs_more(const json_t *scenario)
{
    size_t       i;
    json_t      *step;
    const char  *op, *tier;

    json_array_foreach(json_object_get(scenario, "steps"), i, step) {
        op = json_string_value(json_object_get(step, "op"));
        tier = json_string_value(json_object_get(step, "tier"));

        if (op == NULL || strcmp(op, "predicted") == 0) {
            return "recorded decisions";
        }

        if (strcmp(op, "dump") == 0 || strcmp(op, "restore") == 0) {
            return "dumps";
        }

        if (tier != NULL && strcmp(tier, "device") != 0) {
            return "lower tiers";
        }
    }

    return NULL;
}


static uint16_t
owner_of(play_t *play, const json_t *step)
{
    return sel_index_owner(play->index, PARTITION,
                           number(json_object_get(step, "worker")),
                           (uint32_t) number(json_object_get(step, "rank")));
}


static void
play_stored(play_t *play, const json_t *step)
{
    size_t              i;
    json_t             *pair;
    uint64_t            external[LIST_MAX], block[LIST_MAX];
    const char         *result;
    sel_index_change_t  change;
    sel_index_result_t  got;

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_STORED;
    change.tier = SEL_TIER_DEVICE;
    change.owner = owner_of(play, step);
    change.external = external;
    change.block = block;

    if (!json_is_null(json_object_get(step, "parent"))) {
        change.has_parent = true;
        change.parent = number(json_object_get(step, "parent"));
    }

    json_array_foreach(json_object_get(step, "blocks"), i, pair) {
        assert_true(i < LIST_MAX);
        external[i] = number(json_array_get(pair, 0));
        block[i] = number(json_array_get(pair, 1));
        change.n++;
    }

    got = sel_index_apply(play->index, &change);
    result = text_of(step, "result");

    if (strcmp(result, "ok") == 0) {
        assert_int_equal(got, SEL_INDEX_OK);

    } else if (strcmp(result, "dropped: unknown parent") == 0) {
        assert_int_equal(got, SEL_INDEX_UNKNOWN_PARENT);

    } else {
        fail_msg("no rule for a store's result \"%s\"", result);
    }
}


static void
play_removed(play_t *play, const json_t *step)
{
    size_t              i;
    json_t             *hash;
    uint64_t            external[LIST_MAX];
    const char         *result;
    sel_index_change_t  change;
    sel_index_result_t  got;

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_REMOVED;
    change.tier = SEL_TIER_DEVICE;
    change.owner = owner_of(play, step);
    change.external = external;

    json_array_foreach(json_object_get(step, "hashes"), i, hash) {
        assert_true(i < LIST_MAX);
        external[i] = number(hash);
        change.n++;
    }

    got = sel_index_apply(play->index, &change);
    result = text_of(step, "result");

    if (strcmp(result, "ok") == 0) {
        assert_int_equal(got, SEL_INDEX_OK);

    } else if (strncmp(result, "unknown: ", 9) == 0) {
        assert_int_equal(got, SEL_INDEX_UNKNOWN_BLOCK);

    } else {
        fail_msg("no rule for a removal's result \"%s\"", result);
    }
}


static void
play_cleared(play_t *play, const json_t *step)
{
    sel_index_change_t  change;

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_CLEARED;
    change.owner = owner_of(play, step);

    assert_string_equal(text_of(step, "result"), "ok");
    assert_int_equal(sel_index_apply(play->index, &change), SEL_INDEX_OK);
}


static void
play_remove_worker(play_t *play, const json_t *step)
{
    assert_string_equal(text_of(step, "result"), "ok");
    sel_index_retire_worker(play->index, PARTITION,
                            number(json_object_get(step, "worker")));
}


/* Each rank that matched is expected with its count, and none is missing. */
static void
play_query(play_t *play, const json_t *step)
{
    char                key[64];
    json_t             *hash, *device;
    size_t              i;
    uint32_t            k, n, partition, rank;
    uint64_t            blocks[LIST_MAX], worker;
    sel_index_match_t   out[LIST_MAX];

    n = 0;

    json_array_foreach(json_object_get(step, "hashes"), i, hash) {
        assert_true(i < LIST_MAX);
        blocks[n++] = number(hash);
    }

    assert_true(sel_index_owner_limit(play->index) <= LIST_MAX);
    n = sel_index_match(play->index, PARTITION, blocks, n, out, LIST_MAX);

    device = json_object_get(json_object_get(step, "expect"), "device");
    assert_true(json_is_object(device));
    assert_int_equal(n, json_object_size(device));

    for (k = 0; k < n; k++) {
        assert_true(sel_index_owner_key(play->index, out[k].owner, &partition,
                                        &worker, &rank));
        assert_int_equal(partition, PARTITION);

        (void) snprintf(key, sizeof(key), "%llu/%u",
                        (unsigned long long) worker, rank);
        assert_non_null(json_object_get(device, key));
        assert_int_equal(out[k].hits[SEL_TIER_DEVICE],
                         number(json_object_get(device, key)));
    }

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
    json_t      *step;
    play_t       play;
    const char  *op;

    memset(&play, 0, sizeof(play));
    play.scenario = *state;

    play.index = sel_index_create(0, 1);
    assert_non_null(play.index);

    json_array_foreach(json_object_get(play.scenario, "steps"), i, step) {
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


/* A change of the file or of the rule must not leave everything out. */
static void
test_enough(void **state)
{
    assert_true(*(size_t *) *state >= 9);
}


int
main(void)
{
    int                failed;
    size_t             i, n;
    json_t            *scenario, *root;
    const char        *more;
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
        more = needs_more(scenario);

        if (more != NULL) {
            printf("# left out, needs %s: %s\n", more,
                   json_string_value(json_object_get(scenario, "name")));

        } else if (n < SCENARIOS) {
            tests[n].initial_state = scenario;
            tests[n].name = json_string_value(json_object_get(scenario,
                                                              "name"));
            tests[n++].test_func = test_scenario;
        }
    }

    tests[n].name = "enough scenarios are played";
    tests[n].test_func = test_enough;
    tests[n].initial_state = &n;

    failed = _cmocka_run_group_tests("index scenarios", tests, n + 1, NULL,
                                     NULL);
    json_decref(root);

    return failed;
}
