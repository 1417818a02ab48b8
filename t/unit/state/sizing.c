/*
 * docs/zone.md tells what a record takes.  Its formulas are read from the page
 * and compared with what records really take.  Without it the page could
 * promise room that is not there.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "books_test.h"
#include "state/sel_session.h"
#include "zone_page.h"


#define ZONE    ((size_t) 32 << 20)
#define FAMILY  40
#define BIG_ID  1000


static test_t    test;
static rank_t    ranks[FAMILY];
static uint64_t  chunks;                /* free before what is measured */


static int
setup(void **state)
{
    (void) books_plain(state);
    begin(&test, ZONE);
    worker(&test, 1, 0, FAMILY, ranks);
    chunks = state_stats(&test.zone).chunks_free;

    return 0;
}


static int
teardown(void **state)
{
    end(&test);

    return 0;
}


/* Bytes since the last time. */
static uint64_t
taken(void)
{
    uint64_t  before;

    before = chunks;
    chunks = state_stats(&test.zone).chunks_free;

    return (before - chunks) * SEL_CHUNK_SIZE;
}


static void
test_workers(void **state)
{
    static const uint32_t  counts[] = { 1, 20, 21, 40, 41, 300 };
    static const uint32_t  sizes[] = { 1, 248, 249, 700, 5000 };
    static uint8_t         blob[5000];

    uint32_t  i, k;
    uint64_t  id;

    id = 100;

    for (i = 0; i < sel_countof(counts); i++) {
        for (k = 0; k < sel_countof(sizes); k++) {
            forget_slots(&test);
            assert_int_equal(commit(&test, id++, 0, SEL_WORKER_SCHEDULABLE,
                                    counts[i], (sel_str_t) { sizes[k], blob }),
                             SEL_COMMIT_OK);
            assert_int_equal(taken(), formula("worker",
                with({ "ranks", counts[i] }, { "settings", sizes[k] })));
        }
    }
}


/* A deleted worker leaves a tomb, and there are so many of them at most. */
static void
test_tombs(void **state)
{
    uint64_t  id, n;
    row_t     row;

    find_row(&row, "tomb", false);
    n = number_after(&row, 1, "at most ");

    for (id = 100; id < 100 + n + 10; id++) {
        forget_slots(&test);
        commit_ok(&test, id, 0, 1);
        delete_ok(&test, id, test.version);
    }

    assert_int_equal(taken(), n * formula("tomb", nothing));
}


static void
test_partitions(void **state)
{
    static const uint32_t  sizes[] = { 2, 100, 248, 249, 1000 };
    static uint8_t         name[1000];

    uint32_t  i;

    for (i = 0; i < sel_countof(sizes); i++) {
        forget_slots(&test);
        test.partition.model_name = (sel_str_t) { sizes[i] - 1, name };
        test.partition.routing_group = sel_str("x");
        commit_ok(&test, 100 + i, 0, 1);
        assert_int_equal(taken(),
            formula("partition", with({ "names", sizes[i] }))
            + formula("worker", with({ "ranks", 1 }, { "settings", 4 })));
    }
}


static void
test_meters(void **state)
{
    uint32_t  i;
    row_t     row;

    for (i = 0; i < 5; i++) {
        assert_non_null(sel_meter_attach(&test.zone, i));
    }

    find_row(&row, "meter", false);
    assert_int_equal(number_after(&row, 2, "") * 1024,
                     formula("meter", nothing));
    assert_int_equal(taken(), 5 * formula("meter", nothing));
}


/* An id of so many bytes that ends with a number. */
static sel_str_t
id_of(uint32_t i, uint32_t len)
{
    static char  id[BIG_ID + 1];

    (void) snprintf(id, sizeof(id), "%0*u", (int) len, i);

    return (sel_str_t) { len, (const uint8_t *) id };
}


static void
test_bookings_alone(void **state)
{
    static const uint32_t  blocks[] = { 1, 31, 32, 512, 5000 };
    static const uint32_t  ids[] = { 36, 144, 145, 248, 249, BIG_ID };
    static uint64_t        prompt[5000];

    uint32_t  i, k, n, serial;

    serial = 0;

    for (i = 0; i < sel_countof(blocks); i++) {
        for (k = 0; k < sel_countof(ids); k++) {
            serial++;

            for (n = 0; n < blocks[i]; n++) {
                prompt[n] = serial << 16 | n;
            }

            assert_int_equal(book_id(&test, ranks, id_of(serial, ids[k]),
                                     (sel_u64_list_t) { blocks[i], prompt },
                                     1), SEL_BOOK_OK);
            assert_int_equal(taken(),
                             booking_needs(blocks[i], blocks[i], ids[k]));

            assert_int_equal(sel_book_output(&test.zone,
                                             id_of(serial, ids[k]), 0.5),
                             SEL_BOOK_OK);
            assert_int_equal(taken(),
                             formula("its decayed blocks", nothing));
        }
    }
}


/* Bookings with a common beginning, each on a rank of its own. */
static void
test_bookings_shared(void **state)
{
    static const uint32_t  shares[] = { 1, 30, 31, 32, 62, 100, 256, 511 };

    uint32_t  i, k, n, own;
    uint64_t  prompt[512], took, needs, runs;
    row_t     row;

    find_row(&row, "ranks of a run", true);
    runs = number_after(&row, 2, "ranks above ");

    for (i = 0; i < sel_countof(shares); i++) {
        needs = 0;
        took = 0;

        for (k = 0; k < FAMILY; k++) {

            for (n = 0; n < 512; n++) {
                prompt[n] = (i + 1) << 24 | (n < shares[i] ? 0 : k) << 16 | n;
            }

            assert_int_equal(book_id(&test, &ranks[k], id_of(i << 8 | k, 36),
                                     (sel_u64_list_t) { 512, prompt }, 1),
                             SEL_BOOK_OK);
            own = k == 0 ? 512 : 512 - shares[i];
            needs += booking_needs(512, own, 36);
            took += taken();

            if (k == 1) {

                /* the fork came with the second one */

                assert_true(took > needs);
                assert_true(took <= needs + formula("fork", nothing));
                needs = took;
            }
        }

        needs += formula("ranks of a run", with({ "more", FAMILY - runs }));
        assert_int_equal(took, needs);
    }
}


/* One that ends within another, and equal ones: never more than promised. */
static void
test_bookings_within(void **state)
{
    uint32_t  n;
    uint64_t  prompt[512], took;

    for (n = 0; n < 512; n++) {
        prompt[n] = n;
    }

    book_ok(&test, ranks, "whole", ((sel_u64_list_t) { 512, prompt }), 1);
    assert_int_equal(taken(), booking_needs(512, 512, 5));

    book_ok(&test, ranks, "part", ((sel_u64_list_t) { 100, prompt }), 1);
    took = taken();
    assert_true(took <= booking_needs(100, 0, 4) + formula("fork", nothing));
    assert_true(took >= booking_needs(100, 0, 4));

    book_ok(&test, ranks, "same", ((sel_u64_list_t) { 512, prompt }), 1);
    took = taken();
    assert_true(took <= booking_needs(512, 0, 4));
    assert_true(took + 256 >= booking_needs(512, 0, 4));
}


static void
test_pending(void **state)
{
    static const uint32_t               blocks[] = { 0, 1, 31, 32, 512 };
    static const uint32_t               ids[] = { 36, 104, 105, BIG_ID };
    static const uint32_t               texts[] = { 0, 30, 248, 249 };
    static const sel_pending_limits_t   limits = { UINT64_MAX, 100000,
                                                   UINT64_MAX };
    static uint64_t                     hashes[512];
    static uint8_t                      text[249];

    uint32_t       i, serial;
    sel_pending_t  pending;

    serial = 0;

    for (i = 0; i < 5 * 4 * 4 * 2; i++) {
        pending = (sel_pending_t) {
            .id = id_of(++serial, ids[i / 5 % 4]), .partition = test.number,
            .n_blocks = blocks[i % 5], .sequence = hashes,
            .n_hashes = i / 80 ? blocks[i % 5] : 0, .hashes = hashes,
            .lora_name = { texts[i / 20 % 4] / 2, text },
            .session_id = { (texts[i / 20 % 4] + 1) / 2, text },
        };

        assert_true(sel_pending_put(&test.zone, &pending, &limits));
        assert_int_equal(taken(), formula("pending selection",
            with({ "blocks", pending.n_blocks },
                 { "hashes", pending.n_hashes },
                 { "texts", texts[i / 20 % 4] },
                 { "id", id_counts("pending selection",
                                   ids[i / 5 % 4]) })));
    }
}


/* A booking without blocks is one chunk; the rest is its session's. */
static void
test_sessions(void **state)
{
    static const uint32_t  ids[] = { 0, 1, 36, 184, 185, 248, 249, 256 };

    uint32_t         i, chosen;
    uint64_t         alone;
    sel_booking_t    booking;
    sel_rank_load_t  load;

    assert_int_equal(book_id(&test, ranks, sel_str("alone"), none, 1),
                     SEL_BOOK_OK);
    alone = taken();
    load.slot = ranks->slot;
    load.epoch = ranks->epoch;

    for (i = 0; i < sel_countof(ids); i++) {
        booking = booking_of(ranks, sel_cstr("a"), none);
        booking.session.id = id_of(i, ids[i]);
        assert_int_equal(sel_book(&test.zone, &booking, &load, 1, NULL, NULL,
                                  &chosen), SEL_BOOK_OK);
        assert_int_equal(taken(), alone + formula("session",
            with({ "id", id_counts("session", ids[i]) })));

        /* the next of the same session has nothing to add */

        booking.id = sel_cstr("b");
        booking.session.revision = sel_session_find(&test.zone, test.number,
                                       booking.session.id, books_now).revision;
        assert_int_equal(sel_book(&test.zone, &booking, &load, 1, NULL, NULL,
                                  &chosen), SEL_BOOK_OK);
        assert_int_equal(taken(), alone);
        free_ok(&test, "a");
        free_ok(&test, "b");
        assert_int_equal(taken(), -2 * alone);
    }
}


/* As many bookings of 512 blocks as promised are really made. */
static void
test_full(void **state)
{
    uint32_t           i, n;
    uint64_t           room;
    sel_book_result_t  rc;

    room = chunks * SEL_CHUNK_SIZE / booking_needs(512, 512, 36);

    for (n = 0; ; n++) {
        uint64_t  prompt[512];

        for (i = 0; i < 512; i++) {
            prompt[i] = (uint64_t) n << 16 | i;
        }

        rc = book_id(&test, &ranks[n % FAMILY], id_of(n, 36),
                     (sel_u64_list_t) { 512, prompt }, 1);

        if (rc != SEL_BOOK_OK) {
            break;
        }
    }

    assert_int_equal(rc, SEL_BOOK_FULL);
    assert_int_equal(n, room);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_workers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tombs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_partitions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_meters, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bookings_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bookings_shared, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_bookings_within, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_pending, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sessions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full, setup, teardown)
    };

    return cmocka_run_group_tests_name("sizing", tests, NULL, NULL);
}
