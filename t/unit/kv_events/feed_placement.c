/*
 * Which events a rank's stream lets through, and into which tier.  Without it
 * a worker would get credit for blocks that it does not hold, or that cannot
 * serve a prefix.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sel_kv_sink.h"
#include "sel_pack.h"


static uint64_t         seq;
static sel_pack_t       pk;
static sel_kv_feed_t   *feed;
static sel_kv_record_t  rec;


static int
setup(void **state)
{
    sel_kv_record_reset(&rec);
    feed = sel_kv_feed_create(4, 0);
    seq = 0;

    return feed == NULL;
}


static int
teardown(void **state)
{
    sel_kv_feed_destroy(feed);

    return 0;
}


/* Ends the batch of rank and sends it; the record starts anew. */
static void
deliver(uint32_t rank)
{
    sel_pack_rank(&pk, rank);
    sel_kv_record_reset(&rec);
    assert_true(sel_kv_send(feed, &rec, seq++, pk.data, pk.len));
    sel_kv_record_squeeze(&rec);
}


/* A store, or a removal, with up to three more members. */
static void
event(bool stored, const char *medium, const char *locality,
    const char *ownership)
{
    uint32_t  more;

    more = (medium != NULL) + (locality != NULL) + (ownership != NULL);
    sel_pack_batch(&pk, 1);

    if (stored) {
        sel_pack_stored(&pk, 1, 10, 0, 1, more);

    } else {
        sel_pack_removed(&pk, 1, 10, more);
    }

    if (medium != NULL) {
        sel_pack_member(&pk, "medium", medium);
    }

    if (locality != NULL) {
        sel_pack_member(&pk, "locality", locality);
    }

    if (ownership != NULL) {
        sel_pack_member(&pk, "ownership", ownership);
    }

    deliver(0);
}


static void
test_tiers(void **state)
{
    static const struct {
        const char  *medium;
        sel_tier_t   tier;
    } rows[] = {
        { NULL, SEL_TIER_DEVICE }, { "", SEL_TIER_DEVICE },
        { "GPU", SEL_TIER_DEVICE }, { "DEVICE", SEL_TIER_DEVICE },
        { "CPU", SEL_TIER_HOST_PINNED },
        { "CPU_PINNED", SEL_TIER_HOST_PINNED },
        { "CPU_TIER1", SEL_TIER_HOST_PINNED },
        { "CPU_TIER2", SEL_TIER_DISK }, { "DISK", SEL_TIER_DISK },
        { "NVME", SEL_TIER_DISK }, { "STORAGE", SEL_TIER_DISK },
        { "EXTERNAL", SEL_TIER_EXTERNAL }, { "NETWORK", SEL_TIER_EXTERNAL },
        { "REMOTE", SEL_TIER_EXTERNAL }, { "SHARED", SEL_TIER_EXTERNAL },
        { "FS", SEL_TIERS }, { "OBJ", SEL_TIERS }, { "GPU ", SEL_TIERS },
        { "CPU_TIER3", SEL_TIERS }, { "GP", SEL_TIERS }
    };

    int     stored;
    size_t  i;

    for (i = 0; i < sel_countof(rows); i++) {

        for (stored = 0; stored < 2; stored++) {
            event(stored != 0, rows[i].medium, NULL, NULL);

            if (rows[i].tier == SEL_TIERS) {
                assert_int_equal(rec.n, 0);
                assert_int_equal(rec.counts[SEL_KV_MEDIUM], 1);
                continue;
            }

            assert_int_equal(rec.n, 1);
            assert_int_equal(rec.seen[0].kind, stored ? SEL_INDEX_STORED
                                                      : SEL_INDEX_REMOVED);
            assert_int_equal(rec.seen[0].tier, rows[i].tier);
            assert_int_equal(rec.counts[stored ? SEL_KV_STORED
                                               : SEL_KV_REMOVED], 1);
        }
    }
}


/* Some publishers write these names in small letters. */
static void
test_medium_case(void **state)
{
    static const struct {
        const char  *medium;
        sel_tier_t   tier;
    } media[] = {
        { "gpu", SEL_TIER_DEVICE },
        { "cpu", SEL_TIER_HOST_PINNED },
        { "Disk", SEL_TIER_DISK },
        { "remote", SEL_TIER_EXTERNAL }
    };

    size_t  i;

    for (i = 0; i < sel_countof(media); i++) {
        event(true, media[i].medium, NULL, NULL);
        assert_int_equal(rec.n, 1);
        assert_int_equal(rec.seen[0].tier, media[i].tier);
        assert_int_equal(rec.counts[SEL_KV_MEDIUM], 0);
    }
}


static void
test_locality_and_ownership(void **state)
{
    int  stored;

    for (stored = 0; stored < 2; stored++) {
        event(stored != 0, NULL, "LOCAL", NULL);
        assert_int_equal(rec.n, 1);
        event(stored != 0, "CPU", "LOCAL", NULL);
        assert_int_equal(rec.n, 1);

        event(stored != 0, NULL, "REMOTE", NULL);
        assert_int_equal(rec.n, 0);
        assert_int_equal(rec.counts[SEL_KV_LOCALITY], 1);
        event(stored != 0, NULL, "local", NULL);
        assert_int_equal(rec.n, 0);
        assert_int_equal(rec.counts[SEL_KV_LOCALITY], 1);

        event(stored != 0, NULL, NULL, "kvcr");
        assert_int_equal(rec.n, 0);
        assert_int_equal(rec.counts[SEL_KV_OWNERSHIP], 1);
        event(stored != 0, NULL, NULL, "other");
        assert_int_equal(rec.n, 0);
        assert_int_equal(rec.counts[SEL_KV_OWNERSHIP], 1);

        /* given, though empty */
        event(stored != 0, NULL, "", NULL);
        assert_int_equal(rec.n, 0);
        assert_int_equal(rec.counts[SEL_KV_LOCALITY], 1);
        event(stored != 0, NULL, NULL, "");
        assert_int_equal(rec.n, 0);
        assert_int_equal(rec.counts[SEL_KV_OWNERSHIP], 1);

        /* the first reason in the order ownership, locality, medium */
        event(stored != 0, "FS", "REMOTE", "kvcr");
        assert_int_equal(rec.counts[SEL_KV_OWNERSHIP], 1);
        assert_int_equal(rec.counts[SEL_KV_LOCALITY], 0);
        assert_int_equal(rec.counts[SEL_KV_MEDIUM], 0);
        event(stored != 0, "FS", "REMOTE", NULL);
        assert_int_equal(rec.counts[SEL_KV_LOCALITY], 1);
        assert_int_equal(rec.counts[SEL_KV_MEDIUM], 0);
    }

    /* a clear that is not the engine's own */
    sel_pack_batch(&pk, 1);
    sel_pack_map(&pk, 2);
    sel_pack_member(&pk, "type", "AllBlocksCleared");
    sel_pack_member(&pk, "ownership", "kvcr");
    deliver(0);
    assert_int_equal(rec.n, 0);
    assert_int_equal(rec.counts[SEL_KV_OWNERSHIP], 1);
}


/* A store, or a removal, of a cache group; group -1 and kind NULL: absent. */
static void
grouped(uint32_t rank, bool stored, int group, const char *kind,
    const char *medium)
{
    uint32_t  more;

    more = (group >= 0) + (kind != NULL) + (medium != NULL);
    sel_pack_batch(&pk, 1);

    if (stored) {
        sel_pack_stored(&pk, 1, 10, 0, 1, more);

    } else {
        sel_pack_removed(&pk, 1, 10, more);
    }

    if (medium != NULL) {
        sel_pack_member(&pk, "medium", medium);
    }

    if (group >= 0) {
        sel_pack_member_uint(&pk, "group_idx", (uint64_t) group);
    }

    if (kind != NULL) {
        sel_pack_member(&pk, "kv_cache_spec_kind", kind);
    }

    deliver(rank);
    assert_int_equal(rec.n + rec.counts[SEL_KV_GROUP], 1);
}


static void
test_kinds(void **state)
{
    static const char *const  main_kinds[] = {
        "full_attention", "mla_attention", "sink_full_attention"
    };

    static const char *const  others[] = {
        "sliding_window", "sliding_window_mla", "mamba",
        "chunked_local_attention", "encoder_only_attention",
        "cross_attention", "Full_attention", "future", ""
    };

    size_t  i;

    for (i = 0; i < sel_countof(main_kinds); i++) {
        grouped(0, true, -1, main_kinds[i], NULL);
        assert_int_equal(rec.n, 1);
        grouped(0, false, -1, main_kinds[i], "CPU");
        assert_int_equal(rec.n, 1);
    }

    for (i = 0; i < sel_countof(others); i++) {
        grouped(0, true, -1, others[i], NULL);
        assert_int_equal(rec.n, 0);
        grouped(0, false, -1, others[i], "CPU");
        assert_int_equal(rec.n, 0);
    }
}


static void
test_groups(void **state)
{
    /* nothing learned: group 0 and no group pass */
    grouped(0, false, -1, NULL, NULL);
    assert_int_equal(rec.n, 1);
    grouped(0, false, 0, NULL, NULL);
    assert_int_equal(rec.n, 1);
    grouped(0, false, 1, NULL, NULL);
    assert_int_equal(rec.n, 0);

    /* removals do not teach */
    grouped(0, false, 1, "full_attention", NULL);
    assert_int_equal(rec.n, 1);
    grouped(0, false, 1, NULL, NULL);
    assert_int_equal(rec.n, 0);

    /* stores do, also those that are refused */
    grouped(0, true, 1, "full_attention", NULL);
    assert_int_equal(rec.n, 1);
    grouped(0, true, 0, "mamba", NULL);
    assert_int_equal(rec.n, 0);
    grouped(0, false, 1, NULL, NULL);
    assert_int_equal(rec.n, 1);
    grouped(0, true, 1, NULL, NULL);
    assert_int_equal(rec.n, 1);
    grouped(0, false, 0, NULL, NULL);
    assert_int_equal(rec.n, 0);

    /* the kind in the event wins over what was learned */
    grouped(0, false, 0, "mla_attention", NULL);
    assert_int_equal(rec.n, 1);

    /* the last lesson counts */
    grouped(0, true, 1, "mamba", NULL);
    grouped(0, false, 1, NULL, NULL);
    assert_int_equal(rec.n, 0);

    /* each rank learns for itself */
    grouped(5, false, 0, NULL, NULL);
    assert_int_equal(rec.n, 1);
    grouped(5, false, 1, NULL, NULL);
    assert_int_equal(rec.n, 0);
    grouped(5, true, 1000000, "full_attention", NULL);
    grouped(5, false, 1000000, NULL, NULL);
    assert_int_equal(rec.n, 1);
    grouped(0, false, 1000000, NULL, NULL);
    assert_int_equal(rec.n, 0);
}


/* Groups are the business of the device and the host alone. */
static void
test_lower_tiers(void **state)
{
    grouped(0, true, 2, "mamba", "DISK");
    assert_int_equal(rec.n, 1);
    grouped(0, false, 2, NULL, "EXTERNAL");
    assert_int_equal(rec.n, 1);
    grouped(0, true, 2, "mamba", "CPU");
    assert_int_equal(rec.n, 0);
}


/* Many groups on many ranks are remembered apart. */
static void
test_many_groups(void **state)
{
    int       group;
    uint32_t  rank;

    for (rank = 0; rank < 12; rank++) {

        for (group = 0; group < 12; group++) {
            grouped(rank, true, group, (rank + (uint32_t) group) % 3 == 0
                    ? "full_attention" : "mamba", NULL);
        }
    }

    for (rank = 0; rank < 12; rank++) {

        for (group = 0; group < 12; group++) {
            grouped(rank, false, group, NULL, NULL);
            assert_int_equal(rec.n, (rank + (uint32_t) group) % 3 == 0);
        }
    }
}


#define TEST(name)  cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest  tests[] = {
    TEST(test_tiers),
    TEST(test_medium_case),
    TEST(test_locality_and_ownership),
    TEST(test_kinds),
    TEST(test_groups),
    TEST(test_lower_tiers),
    TEST(test_many_groups)
};


int
main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
