/*
 * Steps on a block index with tiers, for tests that read like a protocol: a
 * list "1 2=202" is block 1 with the external hash 101 and block 2 with 202,
 * "102: 3" is block 3 under the parent 102.  Each change is followed by a
 * check of all the tables.  Include after cmocka.h.
 */

#ifndef TIER_STEPS_H
#define TIER_STEPS_H

#include <stdlib.h>
#include <string.h>
#include "index/sel_index.h"
#include "index/sel_index_check.h"


#define DEVICE     SEL_TIER_DEVICE
#define HOST       SEL_TIER_HOST_PINNED
#define DISK       SEL_TIER_DISK
#define EXTERNAL   SEL_TIER_EXTERNAL

#define PARTITION  3
#define STEP_LIST  64
#define STEP_RANKS 64


static sel_index_t  *steps;


static inline int
steps_begin(void **state)
{
    steps = sel_index_create(0, 1);

    return steps == NULL;
}


static inline int
steps_end(void **state)
{
    sel_index_destroy(steps);

    return 0;
}


#define steps_test(test)                                                      \
    cmocka_unit_test_setup_teardown(test, steps_begin, steps_end)


static inline void
steps_check(void)
{
    const char  *error;

    error = sel_index_check(steps);

    if (error != NULL) {
        fail_msg("%s", error);
    }
}


static inline uint16_t
owner_in(uint32_t partition, uint64_t worker, uint32_t rank)
{
    uint16_t  owner;

    owner = sel_index_owner(steps, partition, worker, rank);
    assert_int_not_equal(owner, SEL_INDEX_NO_OWNER);

    return owner;
}


static inline uint16_t
owner_of(uint64_t worker, uint32_t rank)
{
    return owner_in(PARTITION, worker, rank);
}


/* Numbers with blanks between them; how many. */
static inline uint32_t
numbers(const char *text, uint64_t *out)
{
    char      *end;
    uint32_t   n;

    for (n = 0; *text != '\0'; n++) {
        assert_true(n < STEP_LIST);
        out[n] = strtoull(text, &end, 10);
        assert_true(end != text && (*end == ' ' || *end == '\0'));
        text = *end == ' ' ? end + 1 : end;
    }

    return n;
}


static inline sel_index_result_t
store(uint16_t owner, sel_tier_t tier, const char *text)
{
    char                *end;
    uint64_t             external[STEP_LIST], block[STEP_LIST];
    const char          *colon;
    sel_index_change_t   change;
    sel_index_result_t   result;

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_STORED;
    change.tier = tier;
    change.owner = owner;
    change.external = external;
    change.block = block;

    colon = strchr(text, ':');

    if (colon != NULL) {
        change.has_parent = true;
        change.parent = strtoull(text, NULL, 10);
        text = colon + 1;
    }

    while (*text != '\0') {
        assert_true(change.n < STEP_LIST);
        block[change.n] = strtoull(text, &end, 10);
        assert_true(end != text);
        external[change.n] = block[change.n] + 100;
        text = end;

        if (*text == '=') {
            external[change.n] = strtoull(text + 1, &end, 10);
            text = end;
        }

        change.n++;
    }

    result = sel_index_apply(steps, &change);
    steps_check();

    return result;
}


static inline sel_index_result_t
take(uint16_t owner, sel_tier_t tier, const char *hashes)
{
    uint64_t            external[STEP_LIST];
    sel_index_change_t  change;
    sel_index_result_t  result;

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_REMOVED;
    change.tier = tier;
    change.owner = owner;
    change.n = numbers(hashes, external);
    change.external = external;

    result = sel_index_apply(steps, &change);
    steps_check();

    return result;
}


static inline void
stored(uint16_t owner, sel_tier_t tier, const char *text)
{
    assert_int_equal(store(owner, tier, text), SEL_INDEX_OK);
}


static inline void
conflict(uint16_t owner, sel_tier_t tier, const char *text)
{
    assert_int_equal(store(owner, tier, text), SEL_INDEX_CONFLICT);
}


static inline void
removed(uint16_t owner, sel_tier_t tier, const char *hashes)
{
    assert_int_equal(take(owner, tier, hashes), SEL_INDEX_OK);
}


static inline void
unknown(uint16_t owner, sel_tier_t tier, const char *hashes)
{
    assert_int_equal(take(owner, tier, hashes), SEL_INDEX_UNKNOWN_BLOCK);
}


/* the change names a tier, which must not matter */
static inline void
cleared(uint16_t owner)
{
    sel_index_change_t  change;

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_CLEARED;
    change.tier = DISK;
    change.owner = owner;

    assert_int_equal(sel_index_apply(steps, &change), SEL_INDEX_OK);
    steps_check();
}


static inline void
swept(void)
{
    uint32_t  turns;

    for (turns = 0; !sel_index_sweep(steps, 3); turns++) {
        assert_true(turns < 100000);
        steps_check();
    }

    steps_check();
}


/* How many ranks have credit for a prompt. */
static inline uint32_t
credited(uint32_t partition, const char *prompt)
{
    uint32_t           n;
    uint64_t           blocks[STEP_LIST];
    sel_index_match_t  out[STEP_RANKS];

    assert_true(sel_index_owner_limit(steps) <= STEP_RANKS);
    n = numbers(prompt, blocks);

    return sel_index_match(steps, partition, blocks, n, out, STEP_RANKS);
}


static inline void
expect_in(uint32_t partition, uint16_t owner, const char *prompt,
    const uint32_t *hits)
{
    uint32_t           i, n, rows;
    uint64_t           blocks[STEP_LIST];
    sel_index_match_t  out[STEP_RANKS], sum;

    assert_true(sel_index_owner_limit(steps) <= STEP_RANKS);
    memset(&sum, 0, sizeof(sum));
    rows = 0;

    n = numbers(prompt, blocks);
    n = sel_index_match(steps, partition, blocks, n, out, STEP_RANKS);
    assert_true(n <= STEP_RANKS);

    for (i = 0; i < n; i++) {
        if (out[i].owner == owner) {
            sum = out[i];
            rows++;
        }
    }

    if (memcmp(sum.hits, hits, sizeof(sum.hits)) != 0) {
        fail_msg("owner %u, prompt \"%s\": hits %u %u %u %u, "
                 "expected %u %u %u %u", owner, prompt, sum.hits[0],
                 sum.hits[1], sum.hits[2], sum.hits[3], hits[0], hits[1],
                 hits[2], hits[3]);
    }

    assert_int_equal(rows, hits[0] + hits[1] + hits[2] + hits[3] > 0);
}


/* expect(owner, prompt, device, host, disk, external); all 0: not listed */
#define expect(owner, prompt, ...)                                            \
    expect_in(PARTITION, owner, prompt,                                       \
              (const uint32_t[SEL_TIERS]) { __VA_ARGS__ })


/* Blocks of one owner by tier. */
#define expect_blocks(owner, ...)                                             \
    expect_blocks_of(owner, (const uint64_t[SEL_TIERS]) { __VA_ARGS__ })

static inline void
expect_blocks_of(uint16_t owner, const uint64_t *blocks)
{
    uint32_t  tier;

    for (tier = 0; tier < SEL_TIERS; tier++) {
        assert_int_equal(sel_index_owner_blocks(steps, owner,
                                                (sel_tier_t) tier),
                         blocks[tier]);
    }
}


/* Blocks of all owners by tier. */
#define expect_stats(...)                                                     \
    expect_stats_of((const uint64_t[SEL_TIERS]) { __VA_ARGS__ })

static inline void
expect_stats_of(const uint64_t *blocks)
{
    uint32_t           tier;
    sel_index_stats_t  stats;

    sel_index_stats(steps, &stats);

    for (tier = 0; tier < SEL_TIERS; tier++) {
        assert_int_equal(stats.blocks[tier], blocks[tier]);
    }
}


#endif /* TIER_STEPS_H */
