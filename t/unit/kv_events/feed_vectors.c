/*
 * Every sample message of the vectors, one test each.  Without it an engine's
 * event could enter the index under another hash, tier or rank than the one
 * that selections look for.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>

#include "sel_kv_sink.h"
#include "sel_vectors.h"


#define MESSAGES  20


/* What the vectors say in words about an event that is not applied. */
static const struct {
    const char      *words;
    sel_kv_count_t   count;
} refusals[] = {
    { "filtered: non_main_attention_kind", SEL_KV_GROUP },
    { "filtered: non_main_attention_group", SEL_KV_GROUP },
    { "filtered: unlearned_group_idx", SEL_KV_GROUP },
    { "filtered: non_local_locality", SEL_KV_LOCALITY },
    { "filtered: unknown_medium", SEL_KV_MEDIUM },
    { "filtered: unsupported_ownership", SEL_KV_OWNERSHIP },
    { "no-op: duplicate hash inside one store event", SEL_KV_REPEATED },
    { "skipped: unknown tag", SEL_KV_UNKNOWN_TAG },
    { "skipped: malformed event", SEL_KV_MALFORMED }
};


/* Blocks that an applied event left out, which the vectors only show. */
static const struct {
    const char      *name;
    sel_kv_count_t   count;
} left_out[] = {
    { "13-block-size-mismatch", SEL_KV_BLOCK_SIZE },
    { "13-block-size-mismatch", SEL_KV_TOKENS }
};


static const char *const  tiers[] = {
    "device", "host_pinned", "disk", "external"
};


static const char *const  count_names[] = {
#define NAME(name, label, help)  label,
    SEL_KV_APPLIED(NAME)
    SEL_KV_REFUSED(NAME)
    SEL_KV_MESSAGES(NAME)
#undef NAME
};


/* The member for us where the vector has one, else the reference's. */
static json_t *
for_us(json_t *message, const char *name)
{
    char     ours[64];
    json_t  *value;

    snprintf(ours, sizeof(ours), "%s_for_us", name);
    value = json_object_get(message, ours);

    return value != NULL ? value : sel_vectors_get(message, name);
}


static void
check_stored(const sel_kv_seen_t *seen, json_t *event)
{
    size_t   i;
    json_t  *blocks, *block, *parent;

    assert_int_equal(seen->kind, SEL_INDEX_STORED);
    parent = sel_vectors_get(event, "parent_hash");
    assert_int_equal(seen->has_parent, !json_is_null(parent));

    if (seen->has_parent) {
        assert_true(seen->parent == sel_vectors_u64(parent));
    }

    blocks = sel_vectors_get(event, "blocks");
    assert_int_equal(seen->n, json_array_size(blocks));

    json_array_foreach(blocks, i, block) {
        assert_true(seen->external[i]
                    == sel_vectors_u64(sel_vectors_get(block, "block_hash")));
        assert_true(seen->block[i]
                    == sel_vectors_u64(sel_vectors_get(block,
                                                       "tokens_hash")));
    }
}


static void
check_removed(const sel_kv_seen_t *seen, json_t *event)
{
    size_t   i;
    json_t  *hashes, *hash;

    assert_int_equal(seen->kind, SEL_INDEX_REMOVED);
    hashes = sel_vectors_get(event, "block_hashes");
    assert_int_equal(seen->n, json_array_size(hashes));

    json_array_foreach(hashes, i, hash) {
        assert_true(seen->external[i] == sel_vectors_u64(hash));
    }
}


/* One change against one event; counts what must have been counted. */
static void
check_change(const sel_kv_seen_t *seen, json_t *event, uint64_t *counts)
{
    const char  *kind;

    kind = sel_vectors_text(event, "kind");
    assert_int_equal(seen->rank,
                     sel_vectors_u64(sel_vectors_get(event, "dp_rank")));

    if (strcmp(kind, "cleared") == 0) {
        assert_int_equal(seen->kind, SEL_INDEX_CLEARED);
        counts[SEL_KV_CLEARED]++;
        return;
    }

    assert_true(seen->tier < SEL_TIERS);
    assert_string_equal(tiers[seen->tier], sel_vectors_text(event, "tier"));

    if (strcmp(kind, "stored") == 0) {
        check_stored(seen, event);
        counts[SEL_KV_STORED]++;

    } else {
        assert_string_equal(kind, "removed");
        check_removed(seen, event);
        counts[SEL_KV_REMOVED]++;
    }
}


static bool
changes_nothing(json_t *event)
{
    return json_is_null(event)
           || (json_array_size(json_object_get(event, "blocks")) == 0
               && json_array_size(json_object_get(event, "block_hashes")) == 0
               && strcmp(sel_vectors_text(event, "kind"), "cleared") != 0);
}


static void
count_refusal(const char *words, uint64_t *counts)
{
    size_t  i;

    for (i = 0; i < sel_countof(refusals); i++) {

        if (strcmp(words, refusals[i].words) == 0) {
            counts[refusals[i].count]++;
            return;
        }
    }

    fail_msg("the vector says \"%s\"", words);
}


static void
check_counts(const uint64_t *counts, const uint64_t *expected)
{
    int  i;

    for (i = 0; i < SEL_KV_COUNTS; i++) {

        if (counts[i] != expected[i]) {
            fail_msg("%s counted %" PRIu64 " times, expected %" PRIu64,
                     count_names[i], counts[i], expected[i]);
        }
    }
}


static void
check_events(json_t *message, sel_kv_record_t *record, uint64_t *counts)
{
    size_t       i, k;
    uint32_t     n;
    json_t      *rows, *row, *event;
    const char  *result;

    n = 0;
    rows = for_us(message, "expected");

    json_array_foreach(rows, i, row) {
        result = sel_vectors_text(row, "result");
        event = sel_vectors_get(row, "event");

        if (strcmp(result, "applied") != 0) {
            count_refusal(result, counts);
        }

        if (!changes_nothing(event)) {
            assert_true(n < record->n);
            check_change(&record->seen[n++], event, counts);
        }
    }

    assert_int_equal(record->n, n);

    for (k = 0; k < sel_countof(left_out); k++) {

        if (strcmp(sel_vectors_text(message, "name"), left_out[k].name) == 0)
        {
            counts[left_out[k].count]++;
        }
    }
}


static void
test_message(void **state)
{
    int               i;
    json_t           *message, *hex;
    uint64_t          seq, watermark, expected[SEL_KV_COUNTS];
    uint32_t          block_size;
    sel_str_t         frames[3];
    sel_kv_feed_t    *feed;
    sel_kv_record_t   record;

    message = *state;
    hex = sel_vectors_get(message, "frames_hex");

    for (i = 0; i < 3; i++) {
        frames[i] = sel_vectors_hex(json_string_value(json_array_get(hex,
                                                      (size_t) i)));
    }

    block_size = strstr(sel_vectors_text(message, "precondition"),
                        "block_size 16") != NULL ? 16 : 4;
    feed = sel_kv_feed_create(block_size, 0);
    assert_non_null(feed);
    assert_false(sel_kv_feed_watermark(feed, &watermark));

    sel_kv_record_reset(&record);
    assert_true(sel_kv_feed_message(feed, frames, 3, &record.sink,
                                    record.counts));
    sel_kv_record_squeeze(&record);

    memset(expected, 0, sizeof(expected));
    seq = sel_vectors_u64(sel_vectors_get(message, "seq"));
    expected[SEL_KV_BATCHES] = 1;
    expected[SEL_KV_GAP] = seq != 0;
    expected[SEL_KV_MISSED] = seq;

    check_events(message, &record, expected);
    check_counts(record.counts, expected);

    assert_true(sel_kv_feed_watermark(feed, &watermark));
    assert_true(watermark == sel_vectors_u64(for_us(message,
                                                    "watermark_after")));

    /* the same one again is old */
    assert_false(sel_kv_feed_message(feed, frames, 3, &record.sink,
                                     record.counts));
    expected[SEL_KV_OLD] = 1;
    check_counts(record.counts, expected);

    sel_kv_feed_destroy(feed);

    for (i = 0; i < 3; i++) {
        free((void *) frames[i].data);
    }
}


/* The effective rank of the batch is the rank of every change. */
static void
test_ranks(void **state)
{
    size_t   i, k;
    json_t  *messages, *message, *rows, *row, *event, *rank;

    messages = *state;

    json_array_foreach(messages, i, message) {
        rank = for_us(message, "effective_dp_rank");
        rows = for_us(message, "expected");

        json_array_foreach(rows, k, row) {
            event = sel_vectors_get(row, "event");

            if (!json_is_null(event)) {
                assert_true(sel_vectors_u64(sel_vectors_get(event, "dp_rank"))
                            == sel_vectors_u64(rank));
            }
        }
    }
}


int
main(void)
{
    int                 rc;
    size_t              i, n;
    json_t             *root, *messages;
    struct CMUnitTest   tests[MESSAGES + 1];

    root = sel_vectors_load("kv-events");
    messages = json_object_get(root, "messages");
    n = json_array_size(messages);

    if (n != MESSAGES) {
        fprintf(stderr, "%zu messages instead of %d\n", n, MESSAGES);
        return EXIT_FAILURE;
    }

    memset(tests, 0, sizeof(tests));

    for (i = 0; i < n; i++) {
        tests[i].initial_state = json_array_get(messages, i);
        tests[i].test_func = test_message;
        tests[i].name = json_string_value(json_object_get(
                            json_array_get(messages, i), "name"));
    }

    tests[n].name = "effective ranks";
    tests[n].test_func = test_ranks;
    tests[n].initial_state = messages;

    rc = _cmocka_run_group_tests("kv-events vectors", tests, n + 1, NULL,
                                 NULL);
    json_decref(root);

    return rc;
}
