/*
 * The ids of reservations in two processes, and the room that they take.
 * Without it two processes could book one id, an id could stay taken for ever,
 * or a full zone could hold half a booking.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "reserve_test.h"


static int
begin(void **state)
{
    worlds_begin(STATE_SIZE, false);

    return 0;
}


static void
reserve_refused(const char *body, sel_fault_class_t class, const char *text)
{
    refused(&a, world_reserve(&a, body), class, text);
    refused(&b, world_reserve(&b, body), class, text);
}


static void
select_refused(const char *body, sel_fault_class_t class, const char *text)
{
    refused(&a, world_select_and_reserve(&a, body), class, text);
    refused(&b, world_select_and_reserve(&b, body), class, text);
}


/* Taken in one process is taken in both, until it is freed in either. */
static void
test_ids(void **state)
{
    size_t    i;
    world_t  *one, *two;

    must(&a, world_post(&a, SEVEN));

    for (i = 0; i < 8; i++) {
        one = i % 2 ? &a : &b;
        two = i / 2 % 2 ? &a : &b;

        must(one, world_reserve(one, "{" ID("r") "," EAST "," TO("7", "0")
                                ",\"token_ids\":[1]}"));
        reserve_refused("{" ID("r") "," EAST "," TO("7", "1")
                        ",\"token_ids\":[1]}", SEL_FAULT_CONFLICT,
                        TAKEN("r"));
        select_refused("{" ID("r") "," EAST ",\"token_ids\":[1]}",
                       SEL_FAULT_CONFLICT, TAKEN("r"));

        /* an id is the same in every partition */
        select_refused("{" ID("r") "," EAST ",\"token_ids\":[]}",
                       SEL_FAULT_CONFLICT, TAKEN("r"));

        must(two, i < 4 ? world_release(two, "r") : world_delete(two, 7));
        refused(one, world_release(one, "r"), SEL_FAULT_NOT_FOUND,
                "reservation r not found");

        if (i >= 4) {
            must(two, world_post(two, SEVEN));
        }
    }
}


/* Random, version 4, variant 1, and no two processes make the same. */
static void
test_generated_ids(void **state)
{
    size_t       i, k, n;
    char         ids[40][37];
    world_t     *world;
    const char  *text;

    must(&a, world_post(&a, SEVEN));

    for (n = 0; n < sel_countof(ids); n++) {
        world = n % 2 ? &a : &b;
        must(world, world_select_and_reserve(world, "{" EAST "," HASHES "}"));
        text = world_text(world);
        assert_memory_equal(text, "{\"selection_id\":\"", 17);
        memcpy(ids[n], text + 17, 36);
        ids[n][36] = '\0';
        assert_int_equal(text[17 + 36], '"');

        for (i = 0; i < 36; i++) {
            if (i == 8 || i == 13 || i == 18 || i == 23) {
                assert_int_equal(ids[n][i], '-');

            } else {
                assert_non_null(strchr("0123456789abcdef", ids[n][i]));
            }
        }

        assert_int_equal(ids[n][14], '4');
        assert_non_null(strchr("89ab", ids[n][19]));

        for (k = 0; k < n; k++) {
            assert_string_not_equal(ids[k], ids[n]);
        }
    }

    for (n = 0; n < sel_countof(ids); n++) {
        must(&a, world_release(&a, ids[n]));
    }

    expect_loads("7/0 0 0 0, 7/1 0 0 0");
}


static void
test_long_ids(void **state)
{
    size_t     len;
    bool       done;
    uint32_t   i;
    sel_buf_t  body;

    static const struct {
        bool         (*call)(world_t *world, const char *text);
        const char    *members;
    } rows[] = {
        { world_reserve, TO("7", "0") "," },
        { world_select_and_reserve, "" },
        { world_select, "" },
        { world_reserve, "" },
    };

    must(&a, world_post(&a, SEVEN));

    for (i = 0; i < 2 * sel_countof(rows); i++) {
        sel_buf_init(&body);
        sel_buf_printf(&body, "{%s" EAST "," HASHES ",\"selection_id\":\"",
                       rows[i / 2].members);

        for (len = SEL_BOOK_MAX_ID + i % 2; len != 0; len--) {
            sel_buf_byte(&body, (uint8_t) ('p' + i / 2 % 3));
        }

        sel_buf_text(&body, "\"}");
        sel_buf_byte(&body, 0);
        done = rows[i / 2].call(&b, (char *) body.data);
        sel_buf_free(&body);

        if (i % 2) {
            refused(&b, done, SEL_FAULT_BAD_REQUEST,
                    "selection_id must not exceed 65536 bytes");

        } else {
            must(&b, done || i / 2 == 3);
        }
    }
}


/* Room goes to bookings until there is none; then nothing has changed. */
static void
test_full(void **state)
{
    uint32_t  n;
    char      body[256], id[16];
    uint64_t  full;

    (void) worlds_end(NULL);
    worlds_begin(SEL_ZONE_MIN_SIZE, false);
    must(&a, world_post(&a, SEVEN));

    for (n = 0; ; n++) {
        assert_true(n < 100000);
        (void) snprintf(body, sizeof(body), "{\"selection_id\":\"%u\","
                        EAST "," HASHES "%s}", n,
                        n % 2 ? ",\"worker_id\":7" : "");

        if (!(n % 2 ? world_reserve(&b, body)
                    : world_select_and_reserve(&b, body)))
        {
            break;
        }
    }

    assert_in_range(n, 100, 100000);
    (void) snprintf(id, sizeof(id), "%u", n);
    (void) snprintf(body, sizeof(body),
                    "select_zone is full: no room for reservation %s", id);
    world_expect_fault(&b, SEL_FAULT_FULL, body);
    assert_true(sel_counted(&zone, SEL_COUNT_ZONE_FULL) == 1);
    (void) snprintf(body, sizeof(body), "reservation %s not found", id);
    refused(&a, world_release(&a, id), SEL_FAULT_NOT_FOUND, body);

    full = 1;

    while (world_output(&a, "0", "{\"decay_fraction\":0.25}")) {
        assert_true(full++ < 100000);
    }

    world_expect_fault(&a, SEL_FAULT_FULL,
                       "select_zone is full: no room for reservation 0");
    assert_true(sel_counted(&zone, SEL_COUNT_ZONE_FULL) == 2);
    state_check(&zone);

    while (n-- != 0) {
        (void) snprintf(id, sizeof(id), "%u", n);
        must(&a, world_release(&a, id));
    }

    expect_loads("7/0 0 0 0, 7/1 0 0 0");
    must(&a, world_select_and_reserve(&a, "{" EAST "," HASHES "}"));
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_ids, begin, worlds_end),
        cmocka_unit_test_setup_teardown(test_generated_ids, begin,
                                        worlds_end),
        cmocka_unit_test_setup_teardown(test_long_ids, begin, worlds_end),
        cmocka_unit_test_setup_teardown(test_full, begin, worlds_end),
    };

    return cmocka_run_group_tests_name("reserve_ids", tests, NULL, NULL);
}
