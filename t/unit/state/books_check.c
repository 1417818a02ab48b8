/*
 * What the other tests of the books rest on: the check sees each derived fact
 * that is wrong, and a rebuild mends it and changes no load.  Without it a
 * check that passes would mean nothing.  And two rare ends of a rebuild:
 * lives whose runs had to be joined, and bookings that find no room any more.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "catalog_test.h"
#include "state/sel_books_impl.h"
#include "state/sel_pending_impl.h"


#define RANKS     40
#define BOOKINGS  60
#define BLOCKS    100


static uint64_t  paths[BOOKINGS][BLOCKS];
static char      ids[BOOKINGS][8];


static sel_str_t
id_of(uint32_t i)
{
    (void) snprintf(ids[i], sizeof(ids[i]), "b%u", i);

    return sel_cstr(ids[i]);
}


static bool
routed(uint32_t i)
{
    return i % 6 == 3;
}


/* Booking i has n blocks, the first `shared` of them from all others. */
static sel_book_result_t
book(test_t *test, uint32_t i, uint32_t n, uint32_t shared, uint32_t rank)
{
    uint32_t         k, chosen;
    sel_booking_t    booking;
    sel_rank_load_t  load;

    for (k = 0; k < n; k++) {
        paths[i][k] = k < shared ? k : 1000 * (i + 1) + k;
    }

    sel_path_keys(test->number, paths[i], n, paths[i]);

    memset(&booking, 0, sizeof(booking));
    booking.id = id_of(i);
    booking.kind = routed(i) ? SEL_BOOKING_ROUTER : SEL_BOOKING_API;
    booking.proc = i % 5;
    booking.partition = test->number;
    booking.n_blocks = n;
    booking.path = paths[i];
    booking.prefill_tokens = 10 + i;
    booking.now = 1000 + i;
    booking.n_hashes = n;
    booking.hashes = paths[i];

    memset(&load, 0, sizeof(load));
    load.slot = test->ranks[rank].slot;
    load.epoch = test->ranks[rank].epoch;

    return sel_book(&test->zone, &booking, &load, 1, NULL, NULL, &chosen);
}


static void
pending(test_t *test, uint32_t i)
{
    sel_pending_t         pending;
    sel_pending_limits_t  limits;

    memset(&pending, 0, sizeof(pending));
    memset(&limits, 0xff, sizeof(limits));

    pending.id = id_of(i);
    pending.partition = test->number;
    pending.sequence = paths[i];
    pending.n_blocks = 10;
    pending.size = 100;

    assert_true(sel_pending_put(&test->zone, &pending, &limits));
}


/* Bookings that share, some decayed, two pending selections, one idle
   partition. */
static void
fill(test_t *test)
{
    uint32_t  i;

    begin(test, STATE_SIZE);

    test->partition.model_name = sel_str("idle");
    assert_int_equal(commit(test, 2, 0, SEL_WORKER_SCHEDULABLE, 1,
                            sel_str("")), SEL_COMMIT_OK);
    delete_ok(test, 2, test->version);
    test->partition.model_name = sel_str("llama");
    forget_slots(test);
    commit_ok(test, 1, 0, RANKS);

    for (i = 0; i < BOOKINGS; i++) {
        assert_int_equal(book(test, i, BLOCKS, 10 * (i % 9), i % RANKS),
                         SEL_BOOK_OK);

        if (i % 4 == 0) {
            assert_int_equal(sel_book_output(&test->zone, id_of(i), 0.5),
                             SEL_BOOK_OK);
        }
    }

    pending(test, 0);
    pending(test, 1);
    state_check(&test->zone);
}


static void
loads(test_t *test, sel_rank_load_t *ranks)
{
    uint32_t  i;

    memset(ranks, 0, RANKS * sizeof(sel_rank_load_t));

    for (i = 0; i < RANKS; i++) {
        ranks[i].slot = test->ranks[i].slot;
        ranks[i].epoch = test->ranks[i].epoch;
    }

    sel_books_read(&test->zone, paths[8], BLOCKS, ranks, RANKS);
}


static uint32_t
first_of(test_t *test, sel_chunk_tag_t tag)
{
    uint32_t  number;

    for (number = 1; sel_chunk_tag(sel_zone_chunk(&test->zone, number)) != tag;
         number += sel_chunk_span(sel_zone_chunk(&test->zone, number)))
    {
        assert_true(number <= test->zone.header->chunk_high);
    }

    return number;
}


/* One byte of derived state is changed: the check must say so, and a rebuild
   must bring back what was there. */
static void
spoil(test_t *test, void *at, uint8_t with)
{
    uint32_t         i;
    sel_rank_load_t  before[RANKS], after[RANKS];

    loads(test, before);

    sel_zone_lock(&test->zone);
    *(uint8_t *) at ^= with;
    assert_non_null(sel_zone_check(&test->zone));
    sel_zone_rebuild(&test->zone);
    assert_null(sel_zone_check(&test->zone));
    sel_zone_unlock(&test->zone);

    loads(test, after);

    for (i = 0; i < RANKS; i++) {
        assert_memory_equal(&before[i], &after[i], sizeof(before[i]));
    }
}


static void
test_check_books(void **state)
{
    test_t              *test;
    sel_slot_t          *slot;
    sel_zone_header_t   *header;
    sel_edge_chunk_t    *edge;
    sel_booking_chunk_t *booking;

    test = malloc(sizeof(test_t));
    fill(test);

    header = test->zone.header;
    slot = &test->zone.slots[test->ranks[1].slot];

    spoil(test, &header->bookings, 1);
    spoil(test, &header->booking_list.oldest, 1);
    spoil(test, &header->booking_list.newest, 1);
    spoil(test, &header->edges, 1);
    spoil(test, &slot->requests, 1);
    spoil(test, &slot->prefill, 1);
    spoil(test, (uint8_t *) &slot->blocks + 6, 0x10);
    spoil(test, &slot->bookings, 1);
    spoil(test, &test->zone.procs[0].routed, 1);

    booking = sel_zone_booking(&test->zone,
                               first_of(test, SEL_CHUNK_BOOKING));
    spoil(test, &booking->leaf, 1);
    spoil(test, &booking->order.older, 1);
    spoil(test, &booking->slot_older, 1);

    edge = sel_zone_edge(&test->zone, first_of(test, SEL_CHUNK_EDGE));
    spoil(test, &edge->start, 1);
    edge = sel_zone_edge(&test->zone, first_of(test, SEL_CHUNK_EDGE));
    spoil(test, &edge->first, 1);
    edge = sel_zone_edge(&test->zone, first_of(test, SEL_CHUNK_EDGE));
    spoil(test, &edge->last, 1);
    edge = sel_zone_edge(&test->zone, first_of(test, SEL_CHUNK_EDGE));
    spoil(test, &edge->children, 1);
    edge = sel_zone_edge(&test->zone, first_of(test, SEL_CHUNK_EDGE));
    spoil(test, &edge->children_xor, 1);
    edge = sel_zone_edge(&test->zone, first_of(test, SEL_CHUNK_EDGE));
    spoil(test, &edge->ends, 1);
    edge = sel_zone_edge(&test->zone, first_of(test, SEL_CHUNK_EDGE));
    spoil(test, &edge->uneven, 1);
    edge = sel_zone_edge(&test->zone, first_of(test, SEL_CHUNK_EDGE));
    spoil(test, &edge->counts[0], 1);
    edge = sel_zone_edge(&test->zone, first_of(test, SEL_CHUNK_EDGE));
    spoil(test, &edge->slots[0], 1);
    edge = sel_zone_edge(&test->zone, first_of(test, SEL_CHUNK_EDGE));
    spoil(test, (uint8_t *) &edge->weights[0] + 6, 0x10);

    end(test);
    free(test);
}


static void
test_check_others(void **state)
{
    test_t               *test;
    sel_zone_header_t    *header;
    sel_pending_chunk_t  *record;

    test = malloc(sizeof(test_t));
    fill(test);

    header = test->zone.header;

    spoil(test, &header->pending, 1);
    spoil(test, &header->pending_list.oldest, 1);
    spoil(test, &header->pending_list.newest, 1);
    spoil(test, &header->pending_chunks, 1);
    spoil(test, &header->pending_size, 1);
    spoil(test, &header->idle.oldest, 1);
    spoil(test, &header->idle.newest, 1);
    spoil(test, &header->idle_chunks, 1);

    record = sel_zone_pending(&test->zone, header->pending_list.oldest);
    spoil(test, &record->order.newer, 1);
    record = sel_zone_pending(&test->zone, header->pending_list.newest);
    spoil(test, &record->counted, 1);

    end(test);
    free(test);
}


/* A booking with more weights than a life has runs for. */
static void
test_joined_runs(void **state)
{
    double               before;
    test_t               test;
    uint32_t             i, chunk;
    sel_rank_load_t      ranks[RANKS];
    sel_booking_chunk_t *booking;

    begin(&test, STATE_SIZE);
    commit_ok(&test, 1, 0, RANKS);

    assert_int_equal(book(&test, 0, BLOCKS, BLOCKS, 0), SEL_BOOK_OK);

    for (i = 1; i < 30; i++) {
        assert_int_equal(book(&test, i, 3 * i, 3 * i, 0), SEL_BOOK_OK);
        assert_int_equal(sel_book_output(&test.zone, id_of(0),
                                         1.0 / (i + 1)), SEL_BOOK_OK);
        assert_int_equal((routed(i) ? sel_served_free : sel_book_free)(
                             &test.zone, id_of(i)), SEL_BOOK_OK);
        state_check(&test.zone);
    }

    loads(&test, ranks);
    before = ranks[0].blocks;
    assert_int_equal(ranks[0].requests, 1);

    chunk = sel_booking_find(&test.zone, sel_booking_hash(id_of(0)),
                             id_of(0))->life;
    assert_int_equal(sel_zone_life(&test.zone, chunk)->joined, 1);

    /* joined runs are means, so the sum stays */
    state_rebuild(&test.zone);
    state_check(&test.zone);
    loads(&test, ranks);
    assert_true(ranks[0].blocks - before < 1e-9);
    assert_true(before - ranks[0].blocks < 1e-9);

    booking = sel_booking_find(&test.zone, sel_booking_hash(id_of(0)),
                               id_of(0));
    assert_int_equal(booking->outputs, 29);

    assert_int_equal(sel_book_free(&test.zone, id_of(0)), SEL_BOOK_OK);
    assert_int_equal(state_stats(&test.zone).edges, 0);
    end(&test);
}


/* Makes a tomb of each of the first n edges, so that their chunks are gone. */
static void
rob_edges(test_t *test, uint32_t n)
{
    uint32_t             i, k, keys;
    sel_edge_chunk_t    *edge;
    sel_worker_chunk_t  *tomb;

    for (i = 0; i < n; i++) {
        edge = sel_zone_edge(&test->zone, first_of(test, SEL_CHUNK_EDGE));

        for (k = 0; k < 2; k++) {
            keys = edge->keys;
            tomb = k ? (sel_worker_chunk_t *) edge
                     : sel_zone_worker(&test->zone, keys);
            memset((uint8_t *) tomb + sizeof(sel_chunk_t), 0, SEL_CHUNK_DATA);
            tomb->worker_id = 100 + 2 * i + k;
            tomb->written = 1000 + 2 * i + k;
            tomb->gone = tomb->written;
            tomb->head.next = SEL_CHUNK_NONE;
            sel_chunk_set_tag(&tomb->head, SEL_CHUNK_WORKER);
        }
    }
}


/* There is less room than there was: bookings go, counted, as a whole. */
static void
test_no_room(void **state)
{
    test_t             test;
    uint32_t           i;
    sel_zone_stats_t   stats;

    begin(&test, SEL_ZONE_MIN_SIZE);
    commit_ok(&test, 1, 0, RANKS);

    for (i = 0; i < BOOKINGS; i++) {
        assert_int_equal(book(&test, i, BLOCKS, 10, i % RANKS), SEL_BOOK_OK);
    }

    for (i = 0; i < BOOKINGS; i += 2) {
        assert_int_equal(sel_book_output(&test.zone, id_of(i), 0.5),
                         SEL_BOOK_OK);
    }

    /* no chunk but those in use, then fewer */

    test.zone.n_chunks = test.zone.header->chunk_high;

    sel_zone_lock(&test.zone);
    sel_zone_rebuild(&test.zone);
    rob_edges(&test, 20);
    sel_zone_rebuild(&test.zone);
    sel_zone_unlock(&test.zone);

    state_check(&test.zone);
    stats = state_stats(&test.zone);
    assert_true(sel_counted(&test.zone, SEL_COUNT_BOOKING_NO_ROOM) > 0);
    assert_int_equal(stats.bookings
                     + sel_counted(&test.zone, SEL_COUNT_BOOKING_NO_ROOM),
                     BOOKINGS);

    for (i = 0; i < BOOKINGS; i++) {
        (void) (routed(i) ? sel_served_free : sel_book_free)(&test.zone,
                                                             id_of(i));
    }

    assert_int_equal(state_stats(&test.zone).bookings, 0);
    assert_int_equal(state_stats(&test.zone).edges, 0);
    end(&test);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_check_books),
        cmocka_unit_test(test_check_others),
        cmocka_unit_test(test_joined_runs),
        cmocka_unit_test(test_no_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
