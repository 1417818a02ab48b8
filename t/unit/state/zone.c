/*
 * The zone: layout and chunks.  Without it a part could overlap another or
 * the region's end, a big zone could be touched whole at start, a chain that
 * finds no room could keep what it took, and the check that other tests lean
 * on could be unable to fail.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "state_test.h"


#define MB          ((size_t) 1 << 20)
#define HUGE_ZONE   ((size_t) 4 << 30)
#define PAYLOAD     (SEL_CHUNK_SIZE - sizeof(sel_chunk_t))


/* Parts lie in order, aligned, inside the region, and do not overlap. */
static void
expect_layout(const sel_zone_t *zone, const uint8_t *base, size_t size)
{
    const uint8_t  *end;

    end = base + size;

    assert_ptr_equal(zone->header, base);
    assert_int_equal(zone->size, size);
    assert_true(zone->n_slots > 0 && zone->n_slots <= SEL_ZONE_MAX_SLOTS);
    assert_true(zone->n_chunks > size / SEL_CHUNK_SIZE / 2);
    assert_true(zone->n_worker_buckets > 0 && zone->n_partition_buckets > 0);
    assert_int_equal(zone->n_worker_buckets & (zone->n_worker_buckets - 1), 0);
    assert_int_equal(zone->n_partition_buckets
                     & (zone->n_partition_buckets - 1), 0);

    assert_true((const uint8_t *) zone->procs >= base + 4096);
    assert_true((const uint8_t *) zone->slots
                >= (const uint8_t *) (zone->procs + SEL_ZONE_PROCS));
    assert_true((const uint8_t *) zone->worker_buckets
                >= (const uint8_t *) (zone->slots + zone->n_slots));
    assert_true(zone->partition_buckets
                >= zone->worker_buckets + zone->n_worker_buckets);
    assert_true(zone->id_buckets >= zone->partition_buckets
                                    + 2 * zone->n_partition_buckets);
    assert_true(zone->edge_buckets
                >= zone->id_buckets + zone->n_book_buckets);
    assert_true(zone->pending_buckets
                >= zone->edge_buckets + zone->n_book_buckets);
    assert_true(zone->ring >= (const uint8_t *) (zone->pending_buckets
                                                 + zone->n_book_buckets));
    assert_true(zone->chunks >= zone->ring + zone->ring_size);
    assert_true(zone->chunks + (size_t) zone->n_chunks * SEL_CHUNK_SIZE
                <= end);

    /* one decision of 4,096 hashes fits in the log of a zone of 1m */
    assert_true(zone->n_book_buckets > 0);
    assert_int_equal(zone->n_book_buckets & (zone->n_book_buckets - 1), 0);
    assert_true(zone->ring_size >= size / 32);
    assert_int_equal(zone->ring_size % 8, 0);
    assert_true(size < MB || zone->ring_size >= 4096 * 8 + 24);

    assert_int_equal((uintptr_t) zone->procs % 64, 0);
    assert_int_equal((uintptr_t) zone->slots % 64, 0);
    assert_int_equal((uintptr_t) zone->chunks % 64, 0);
    assert_ptr_equal(sel_zone_chunk(zone, 1), zone->chunks);
}


static void
test_sizes(void **state)
{
    static const size_t  sizes[] = {
        SEL_ZONE_MIN_SIZE, SEL_ZONE_MIN_SIZE + 1, SEL_ZONE_MIN_SIZE + 4095,
        2 * MB + 64, 3 * MB - 192, 5 * MB + 255, 16 * MB, 33 * MB + 8
    };

    size_t      i;
    void       *base;
    sel_zone_t  zone;

    for (i = 0; i < sel_countof(sizes); i++) {
        state_private(&zone, sizes[i]);
        expect_layout(&zone, (uint8_t *) zone.header, sizes[i]);
        assert_int_equal(state_stats(&zone).chunks, zone.n_chunks);
        assert_int_equal(state_stats(&zone).chunks_free, zone.n_chunks);
        assert_int_equal(state_stats(&zone).slots, zone.n_slots);
        assert_int_equal(state_stats(&zone).slots_used, 0);
        state_check(&zone);
        state_private_free(&zone);
    }

    assert_int_equal(posix_memalign(&base, 64, SEL_ZONE_MIN_SIZE), 0);
    memset(base, 0, SEL_ZONE_MIN_SIZE);
    assert_false(sel_zone_format(&zone, base, SEL_ZONE_MIN_SIZE - 1));
    assert_false(sel_zone_format(&zone, base, 0));
    free(base);
}


static void
test_attach(void **state)
{
    uint8_t     *base;
    sel_zone_t   zone, other;

    state_private(&zone, 2 * MB);
    base = (uint8_t *) zone.header;

    memset(&other, 0x5a, sizeof(other));
    assert_true(sel_zone_attach(&other, base));
    expect_layout(&other, base, 2 * MB);
    assert_ptr_equal(other.procs, zone.procs);
    assert_ptr_equal(other.slots, zone.slots);
    assert_ptr_equal(other.worker_buckets, zone.worker_buckets);
    assert_ptr_equal(other.partition_buckets, zone.partition_buckets);
    assert_ptr_equal(other.id_buckets, zone.id_buckets);
    assert_ptr_equal(other.edge_buckets, zone.edge_buckets);
    assert_ptr_equal(other.pending_buckets, zone.pending_buckets);
    assert_ptr_equal(other.ring, zone.ring);
    assert_int_equal(other.ring_size, zone.ring_size);
    assert_int_equal(other.n_book_buckets, zone.n_book_buckets);
    assert_ptr_equal(other.chunks, zone.chunks);
    assert_int_equal(other.n_slots, zone.n_slots);
    assert_int_equal(other.n_chunks, zone.n_chunks);
    assert_int_equal(other.n_worker_buckets, zone.n_worker_buckets);
    assert_int_equal(other.n_partition_buckets, zone.n_partition_buckets);
    state_check(&other);

    /* what begins otherwise is none of ours, nor is what is empty */
    memset(base, 0xff, 8);
    assert_false(sel_zone_attach(&other, base));
    memset(base, 0, 4096);
    assert_false(sel_zone_attach(&other, base));

    state_private_free(&zone);
}


static uint32_t
pages_touched(const sel_zone_t *zone)
{
    long            page;
    size_t          i, n;
    uint32_t        touched;
    unsigned char  *in;

    page = sysconf(_SC_PAGESIZE);
    n = zone->size / (size_t) page;
    in = malloc(n);
    assert_int_equal(mincore(zone->header, zone->size, in), 0);

    touched = 0;
    for (i = 0; i < n; i++) {
        touched += in[i] & 1;
    }

    free(in);

    return touched;
}


/* A big zone costs what is used of it, not what it could hold. */
static void
test_huge(void **state)
{
    sel_zone_t  zone;

    state_shared(&zone, HUGE_ZONE);
    expect_layout(&zone, (uint8_t *) zone.header, HUGE_ZONE);
    assert_int_equal(zone.n_slots, SEL_ZONE_MAX_SLOTS);
    assert_in_range(pages_touched(&zone), 1, 2);

    state_commit_one(&zone, 1);
    assert_int_equal(sel_proc_enter(&zone, (uint32_t) getpid(), 0, 1), 0);
    assert_non_null(sel_meter_attach(&zone, 0));
    assert_in_range(pages_touched(&zone), 3, 32);

    /* the slot table is 1,024 pages, each table of the books 2,048 */
    state_rebuild(&zone);
    assert_in_range(pages_touched(&zone), 3, 10240);

    assert_int_equal(state_stats(&zone).workers, 1);
    sel_proc_leave(&zone, 0);
    state_shared_free(&zone);
}


static void
test_chunks(void **state)
{
    uint8_t     *taken;
    uint32_t     i, n, number;
    sel_zone_t   zone;

    state_private(&zone, SEL_ZONE_MIN_SIZE);
    taken = calloc(1, zone.n_chunks + 1);

    sel_zone_lock(&zone);

    for (n = 0; n < 2; n++) {
        memset(taken, 0, zone.n_chunks + 1);

        for (i = 0; i < zone.n_chunks; i++) {
            assert_int_equal(sel_zone_chunks_free(&zone), zone.n_chunks - i);

            number = sel_zone_chunk_take(&zone);
            assert_in_range(number, 1, zone.n_chunks);
            assert_int_equal(taken[number], 0);
            taken[number] = 1;

            assert_int_equal(sel_zone_chunk(&zone, number)->next,
                             SEL_CHUNK_NONE);
            assert_int_equal(sel_zone_chunk(&zone, number)->tag,
                             SEL_CHUNK_FREE);

            /* a user's bytes must not reach the free list */
            memset((uint8_t *) sel_zone_chunk(&zone, number)
                   + sizeof(sel_chunk_t), 0xee, PAYLOAD);
        }

        assert_int_equal(sel_zone_chunks_free(&zone), 0);
        assert_int_equal(sel_zone_chunk_take(&zone), SEL_CHUNK_NONE);
        assert_int_equal(sel_zone_chain_write(&zone, "x", 1), SEL_CHUNK_NONE);

        for (i = 1; i <= zone.n_chunks; i++) {
            number = n ? i : zone.n_chunks + 1 - i;
            sel_zone_chain_give(&zone, number);
        }

        assert_int_equal(sel_zone_chunks_free(&zone), zone.n_chunks);
        assert_null(sel_zone_check(&zone));
    }

    sel_zone_chain_give(&zone, SEL_CHUNK_NONE);
    assert_int_equal(sel_zone_chunks_free(&zone), zone.n_chunks);

    sel_zone_unlock(&zone);

    free(taken);
    state_private_free(&zone);
}


static void
expect_chain(sel_zone_t *zone, const uint8_t *data, size_t len)
{
    uint32_t   first, free_before;
    uint8_t   *out;

    free_before = sel_zone_chunks_free(zone);
    assert_int_equal(sel_zone_chain_need(len), (len + PAYLOAD - 1) / PAYLOAD);

    first = sel_zone_chain_write(zone, data, len);
    assert_true((first == SEL_CHUNK_NONE) == (len == 0));
    assert_int_equal(sel_zone_chunks_free(zone),
                     free_before - sel_zone_chain_need(len));

    out = malloc(len + 2);
    memset(out, 0, len + 2);
    out[len] = 0x77;

    assert_true(sel_zone_chain_read(zone, first, out, len));
    assert_int_equal(out[len], 0x77);

    if (len > 0) {
        assert_memory_equal(out, data, len);
        assert_false(sel_zone_chain_read(zone, first, out, len - 1));
    }

    assert_false(sel_zone_chain_read(zone, first, out, len + 1));
    free(out);

    sel_zone_chain_give(zone, first);
    assert_int_equal(sel_zone_chunks_free(zone), free_before);
}


static void
test_chains(void **state)
{
    size_t       i, len;
    uint8_t     *data;
    sel_zone_t   zone;

    state_private(&zone, 8 * MB);
    data = malloc(4 * MB);

    for (i = 0; i < 4 * MB; i++) {
        data[i] = (uint8_t) (i * 31 + (i >> 8));
    }

    sel_zone_lock(&zone);

    for (len = 0; len < 1030; len++) {
        expect_chain(&zone, data, len);
    }

    expect_chain(&zone, data, 65535);
    expect_chain(&zone, data, 65536 * PAYLOAD / 16);
    expect_chain(&zone, data, 4 * MB);

    assert_null(sel_zone_check(&zone));
    sel_zone_unlock(&zone);

    free(data);
    state_private_free(&zone);
}


/* A chain that does not fit takes nothing; one that just fits does. */
static void
test_chain_full(void **state)
{
    size_t       all;
    uint8_t     *data;
    uint32_t     a, b, before;
    sel_zone_t   zone;

    state_private(&zone, SEL_ZONE_MIN_SIZE);
    all = (size_t) zone.n_chunks * PAYLOAD;
    data = malloc(all + 1);
    memset(data, 0x33, all + 1);

    sel_zone_lock(&zone);

    assert_int_equal(sel_zone_chain_write(&zone, data, all + 1),
                     SEL_CHUNK_NONE);
    assert_int_equal(sel_zone_chunks_free(&zone), zone.n_chunks);

    a = sel_zone_chain_write(&zone, data, all / 2);
    assert_int_not_equal(a, SEL_CHUNK_NONE);
    before = sel_zone_chunks_free(&zone);

    assert_int_equal(sel_zone_chain_write(&zone, data, all / 2 + 2 * PAYLOAD),
                     SEL_CHUNK_NONE);
    assert_int_equal(sel_zone_chunks_free(&zone), before);

    b = sel_zone_chain_write(&zone, data, (size_t) before * PAYLOAD);
    assert_int_not_equal(b, SEL_CHUNK_NONE);
    assert_int_equal(sel_zone_chunks_free(&zone), 0);
    assert_true(sel_zone_chain_read(&zone, a, data, all / 2));

    sel_zone_chain_give(&zone, a);
    sel_zone_chain_give(&zone, b);
    assert_int_equal(sel_zone_chunks_free(&zone), zone.n_chunks);
    assert_null(sel_zone_check(&zone));

    sel_zone_unlock(&zone);

    free(data);
    state_private_free(&zone);
}


/* The check sees a chunk that nobody has, and a rebuild finds it again. */
static void
test_check_can_fail(void **state)
{
    uint32_t    i;
    sel_zone_t  zone;

    state_private(&zone, SEL_ZONE_MIN_SIZE);
    state_commit_one(&zone, 1);
    state_commit_one(&zone, 2);
    state_check(&zone);

    sel_zone_lock(&zone);

    i = sel_zone_chunks_free(&zone);
    assert_int_not_equal(sel_zone_chain_write(&zone, &zone, sizeof(zone)),
                         SEL_CHUNK_NONE);
    assert_non_null(sel_zone_check(&zone));

    sel_zone_rebuild(&zone);
    assert_null(sel_zone_check(&zone));
    assert_int_equal(sel_zone_chunks_free(&zone), i);

    for (i = 0; i < zone.n_worker_buckets; i++) {
        zone.worker_buckets[i] = SEL_CHUNK_NONE;
    }

    assert_non_null(sel_zone_check(&zone));
    sel_zone_rebuild(&zone);
    assert_null(sel_zone_check(&zone));

    for (i = 0; i < zone.n_partition_buckets; i++) {
        zone.partition_buckets[i] = SEL_CHUNK_NONE;
    }

    assert_non_null(sel_zone_check(&zone));
    sel_zone_rebuild(&zone);
    assert_null(sel_zone_check(&zone));

    for (i = 0; i < zone.n_slots; i++) {
        zone.slots[i].used = 0;
    }

    assert_non_null(sel_zone_check(&zone));
    sel_zone_rebuild(&zone);
    assert_null(sel_zone_check(&zone));

    sel_zone_unlock(&zone);

    assert_int_equal(state_stats(&zone).workers, 2);
    assert_int_equal(state_stats(&zone).slots_used, 2);
    state_private_free(&zone);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_attach),
        cmocka_unit_test(test_huge),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_chain_full),
        cmocka_unit_test(test_check_can_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
