/*
 * Pending selections beside a model that is a list.  Without it limits could
 * count what has gone, an order of coming and going could lose a selection,
 * and a rebuild could find others than were there.
 *
 * SEL_SEED repeats a run, SEL_OPS sets its length (100000 or more).
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "pending_test.h"


#define IDS         60
#define PARTITIONS  3
#define ENTRIES     (IDS * PARTITIONS)
#define FOREVER     (UINT64_C(1) << 62)


typedef struct {
    uint32_t  partition;
    uint32_t  id;
    uint32_t  n_blocks;
    uint64_t  seed;
    uint64_t  made;
    uint64_t  size;
    uint64_t  after;                    /* a generation seen before */
    uint64_t  generation;               /* 0: not seen yet */
} entry_t;


typedef struct {
    sel_zone_t            zone;
    sel_rand_t            rand;
    sel_arena_t           arena;
    entry_t               entries[ENTRIES + 1];     /* oldest first */
    uint32_t              n;
    uint32_t              blocks;       /* at most, of one */
    uint64_t              now;
    uint64_t              chunks;       /* free without any */
    uint64_t              last;         /* generation seen */
    uint64_t              kept;
    uint64_t              limited;
    uint64_t              expired;
    uint64_t              no_room;
    sel_pending_limits_t  limits;
} walk_t;


static uint32_t
below(walk_t *walk, uint32_t bound)
{
    return (uint32_t) sel_rand_below(&walk->rand, bound);
}


static sel_str_t
id_of(uint32_t number)
{
    static char  room[600];

    int  len;

    len = snprintf(room, sizeof(room), "%u-", number);

    for ( /* void */ ; number % 5 == 0 && len < (int) (10 * number); len++) {
        room[len] = (char) ('a' + len % 26);
    }

    return (sel_str_t) { (size_t) len, (const uint8_t *) room };
}


static uint32_t
find(walk_t *walk, uint32_t partition, uint32_t id)
{
    uint32_t  i;

    for (i = 0; i < walk->n; i++) {
        if (walk->entries[i].partition == partition
            && walk->entries[i].id == id)
        {
            break;
        }
    }

    return i;
}


static void
remove_at(walk_t *walk, uint32_t i)
{
    walk->n--;
    memmove(&walk->entries[i], &walk->entries[i + 1],
            (walk->n - i) * sizeof(entry_t));
}


/* Asks for one, in time or not, and compares what is found. */
static bool
look(walk_t *walk, uint32_t partition, uint32_t id, uint64_t now,
    uint64_t ttl)
{
    int            rc;
    uint32_t       i;
    entry_t       *entry;
    const char    *error;
    sel_pending_t  got, expected;

    memset(&got, 0xa5, sizeof(got));
    rc = sel_pending_get(&walk->zone, partition, id_of(id), now, ttl,
                         &walk->arena, &got);
    i = find(walk, partition, id);
    assert_in_range(rc, 0, 1);

    if (rc == 0 || i == walk->n) {
        return rc == 1;
    }

    entry = &walk->entries[i];
    expected = pending_make(partition, id_of(id), entry->seed,
                            entry->n_blocks, entry->made);
    error = pending_differs(&got, &expected);

    if (error != NULL) {
        fail_msg("another %s", error);
    }

    if (entry->generation == 0) {
        assert_true(got.generation > entry->after);
        entry->generation = got.generation;

        if (got.generation > walk->last) {
            walk->last = got.generation;
        }
    }

    assert_true(got.generation == entry->generation);
    sel_arena_free(&walk->arena);

    return true;
}


static bool
is_there(walk_t *walk, const entry_t *entry)
{
    return look(walk, entry->partition, entry->id, entry->made, FOREVER);
}


static uint64_t
size_of_all(walk_t *walk)
{
    uint32_t  i;
    uint64_t  sum;

    sum = 0;
    for (i = 0; i < walk->n; i++) {
        sum += walk->entries[i].size;
    }

    return sum;
}


/* What a new one does to the list; whether it stays itself. */
static bool
model_put(walk_t *walk, const entry_t *entry)
{
    uint32_t  i;

    while (walk->n > 0
           && walk->now - walk->entries[0].made > walk->limits.ttl)
    {
        remove_at(walk, 0);
        walk->expired++;
    }

    i = find(walk, entry->partition, entry->id);

    if (i < walk->n) {
        remove_at(walk, i);
    }

    walk->entries[walk->n++] = *entry;

    while (walk->n > 0 && (walk->n > walk->limits.max
                           || size_of_all(walk) > walk->limits.size))
    {
        remove_at(walk, 0);
        walk->limited++;
    }

    return walk->n > 0;
}


static void
walk_put(walk_t *walk)
{
    bool           kept, expected, room;
    entry_t        entry;
    uint64_t       half, used;
    sel_pending_t  pending;

    entry = (entry_t) {
        .partition = 1 + below(walk, PARTITIONS), .id = below(walk, IDS),
        .n_blocks = below(walk, walk->blocks), .seed = sel_rand(&walk->rand),
        .made = walk->now, .after = walk->last
    };
    pending = pending_make(entry.partition, id_of(entry.id), entry.seed,
                           entry.n_blocks, entry.made);
    entry.size = pending.size;

    half = state_stats(&walk->zone).chunks / 2;
    used = walk->chunks - state_stats(&walk->zone).chunks_free;
    room = used + 12 + 2 * (entry.n_blocks / 31) < half;

    kept = sel_pending_put(&walk->zone, &pending, &walk->limits);
    expected = model_put(walk, &entry);
    assert_true(walk->chunks - state_stats(&walk->zone).chunks_free <= half);

    if (!room) {
        if (expected && !kept) {
            assert_false(is_there(walk, &walk->entries[walk->n - 1]));
            walk->n--;
            walk->no_room++;
        }

        /* the oldest may have gone to make room */
        while (walk->n > 0 && !is_there(walk, &walk->entries[0])) {
            remove_at(walk, 0);
            walk->no_room++;
        }

        expected = expected && kept;
    }

    if (kept != expected) {
        fail_msg("a selection of %u blocks is%s kept", entry.n_blocks,
                 kept ? "" : " not");
    }

    walk->kept += kept;

    if (kept && below(walk, 2)) {
        assert_true(is_there(walk, &walk->entries[walk->n - 1]));
    }
}


static void
walk_get(walk_t *walk)
{
    uint32_t  i, id, partition;
    uint64_t  ttl, age;

    id = below(walk, IDS);
    partition = 1 + below(walk, PARTITIONS);
    i = find(walk, partition, id);
    ttl = walk->limits.ttl;

    if (i == walk->n) {
        assert_false(look(walk, partition, id, walk->now, ttl));
        return;
    }

    age = walk->now - walk->entries[i].made;
    assert_true(look(walk, partition, id, walk->now, ttl) == (age <= ttl));
    assert_true(look(walk, partition, id, walk->now, age));
    assert_true(age == 0
                || !look(walk, partition, id, walk->now, age - 1));
}


static void
walk_drop(walk_t *walk)
{
    uint32_t  i, id, partition;
    uint64_t  generation;

    id = below(walk, IDS);
    partition = 1 + below(walk, PARTITIONS);
    i = find(walk, partition, id);

    switch (below(walk, 3)) {
    case 0:
        generation = 0;
        break;
    case 1:
        generation = walk->last - below(walk, 50);
        break;
    default:
        generation = i < walk->n ? walk->entries[i].generation : walk->last;
    }

    if (i < walk->n && generation != 0) {
        assert_true(is_there(walk, &walk->entries[i]));
    }

    sel_pending_drop(&walk->zone, partition, id_of(id), generation);

    if (i < walk->n && (generation == 0
                        || generation == walk->entries[i].generation))
    {
        remove_at(walk, i);
    }

    assert_true(look(walk, partition, id, 0, FOREVER)
                == (find(walk, partition, id) < walk->n));
}


/* All that should be there is there, and nothing else. */
static void
walk_all(walk_t *walk)
{
    uint32_t  id, partition;

    for (partition = 1; partition <= PARTITIONS; partition++) {
        for (id = 0; id < IDS; id++) {
            assert_true(look(walk, partition, id, 0, FOREVER)
                        == (find(walk, partition, id) < walk->n));
        }
    }

    state_check(&walk->zone);
    assert_int_equal(state_stats(&walk->zone).pending, walk->n);
    assert_int_equal(state_stats(&walk->zone).pending_chunks,
                     walk->chunks - state_stats(&walk->zone).chunks_free);
    assert_int_equal(sel_counted(&walk->zone, SEL_COUNT_PENDING_KEPT),
                     walk->kept);
    assert_int_equal(sel_counted(&walk->zone, SEL_COUNT_PENDING_AGED),
                     walk->expired);

    if (walk->n == 0) {
        assert_int_equal(state_stats(&walk->zone).chunks_free, walk->chunks);
    }
}


static void
walk_limits(walk_t *walk)
{
    walk->limits.ttl = UINT64_C(1) << (8 + below(walk, 10));
    walk->limits.max = below(walk, 8) ? 10 + below(walk, ENTRIES)
                                      : below(walk, 5);
    walk->limits.size = below(walk, 2) ? UINT64_MAX
                        : below(walk, ENTRIES / 2 * 8 * walk->blocks);
}


static void
walk_operations(walk_t *walk, uint32_t n)
{
    uint32_t  i, dice;

    for (i = 0; i < n; i++) {
        if (i % 1000 == 0) {
            walk_limits(walk);
            walk_all(walk);
        }

        if (below(walk, 1000) == 0) {
            state_rebuild(&walk->zone);
            walk_all(walk);
        }

        walk->now += below(walk, 3) * below(walk, 40);
        dice = below(walk, 100);

        if (dice < 50) {
            walk_put(walk);

        } else if (dice < 85) {
            walk_get(walk);

        } else {
            walk_drop(walk);
        }
    }
}


static void
random_run(size_t size, uint32_t blocks, uint32_t share)
{
    char       name[16];
    walk_t    *walk;
    uint32_t   i, n, number;
    uint64_t   version;

    sel_partition_t      named, existing;
    sel_worker_commit_t  commit;

    n = getenv("SEL_OPS") != NULL ? (uint32_t) atoi(getenv("SEL_OPS"))
                                  : 100000;
    n = n * share / 10;
    walk = calloc(1, sizeof(walk_t));
    walk->rand.state = sel_rand_seed("pending model");
    walk->blocks = blocks;
    walk->now = UINT64_C(1) << 40;
    sel_arena_init(&walk->arena, 0);
    state_private(&walk->zone, size);

    for (i = 1; i <= PARTITIONS; i++) {
        (void) snprintf(name, sizeof(name), "group %u", i);
        named = (sel_partition_t) { .block_size = 16,
                                    .model_name = sel_str("model"),
                                    .routing_group = sel_cstr(name) };
        commit = (sel_worker_commit_t) {
            .worker_id = i, .state = SEL_WORKER_SCHEDULABLE, .n_ranks = 1,
            .partition = &named, .ranks = &(sel_rank_slot_t) {
                                               .slot = SEL_SLOT_NONE }
        };
        assert_int_equal(sel_catalog_commit(&walk->zone, &commit, &version,
                                            &number, &existing),
                         SEL_COMMIT_OK);
        assert_int_equal(number, i);
    }

    walk->chunks = state_stats(&walk->zone).chunks_free;
    walk_operations(walk, n);
    print_message("# %u operations: %" PRIu64 " kept, %" PRIu64 " over a "
                  "limit, %" PRIu64 " expired, %" PRIu64 " without room\n", n,
                  walk->kept, walk->limited, walk->expired, walk->no_room);
    assert_true(walk->kept > n / 4);
    assert_true(walk->limited > 0);
    assert_true(walk->expired > 0);
    assert_true((walk->no_room > 0) == (size == SEL_ZONE_MIN_SIZE));

    while (walk->n > 0) {
        i = below(walk, walk->n);
        sel_pending_drop(&walk->zone, walk->entries[i].partition,
                         id_of(walk->entries[i].id), 0);
        remove_at(walk, i);
    }

    walk_all(walk);
    state_private_free(&walk->zone);
    free(walk);
}


static void
test_roomy(void **state)
{
    random_run(4 << 20, 100, 7);
}


/* Half of the zone is less than what the limits allow. */
static void
test_tight(void **state)
{
    random_run(SEL_ZONE_MIN_SIZE, 400, 3);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_roomy),
        cmocka_unit_test(test_tight),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
