/*
 * The arena and the byte buffer.  Without it two values of a request could
 * share memory, a limit could be passed, or a failed allocation be missed.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/sel_arena.h"
#include "core/sel_buf.h"
#include "sel_rand.h"


#define PIECES  400


static sel_rand_t  rnd;


/* Fills random pieces, grows some; every one must keep what it holds. */
static void
test_pieces(void **state)
{
    int           round, i;
    size_t        size[PIECES], more, k;
    uint8_t      *piece[PIECES];
    sel_arena_t   arena;

    sel_arena_init(&arena, 0);
    assert_int_equal(arena.used, 0);

    for (round = 0; round < 5; round++) {

        for (i = 0; i < PIECES; i++) {
            size[i] = sel_rand_below(&rnd, i % 50 == 0 ? 30000 : 100);
            piece[i] = sel_arena_alloc(&arena, size[i]);
            assert_non_null(piece[i]);
            assert_int_equal((uintptr_t) piece[i] % _Alignof(max_align_t), 0);
            memset(piece[i], i, size[i]);

            k = sel_rand_below(&rnd, 2) == 0 ? (size_t) i
                : sel_rand_below(&rnd, (uint64_t) i + 1);

            if (sel_rand_below(&rnd, 3) == 0) {
                more = size[k] + sel_rand_below(&rnd, 200);
                piece[k] = sel_arena_grow(&arena, piece[k], size[k], more);
                assert_non_null(piece[k]);
                assert_int_equal((uintptr_t) piece[k]
                                 % _Alignof(max_align_t), 0);
                memset(piece[k] + size[k], (int) k, more - size[k]);
                size[k] = more;
            }
        }

        for (i = 0; i < PIECES; i++) {

            for (k = 0; k < size[i]; k++) {
                assert_int_equal(piece[i][k], (uint8_t) i);
            }
        }

        assert_true(arena.used > 0);
        sel_arena_free(&arena);
        assert_int_equal(arena.used, 0);
    }
}


static void
test_zalloc(void **state)
{
    int           i;
    size_t        k, size;
    uint8_t      *p;
    sel_arena_t   arena;

    sel_arena_init(&arena, 0);

    for (i = 0; i < 200; i++) {
        size = sel_rand_below(&rnd, 3000);
        p = sel_arena_zalloc(&arena, size);
        assert_non_null(p);

        for (k = 0; k < size; k++) {
            assert_int_equal(p[k], 0);
        }

        memset(p, 0xee, size);

        if (i % 40 == 39) {
            sel_arena_free(&arena);
        }
    }

    sel_arena_free(&arena);
}


static void
test_grow(void **state)
{
    uint8_t      *p, *q;
    size_t        n;
    sel_arena_t   arena;

    sel_arena_init(&arena, 0);

    p = sel_arena_grow(&arena, NULL, 0, 10);
    assert_non_null(p);
    memset(p, 'a', 10);

    /* the newest one stays where it is */
    q = sel_arena_grow(&arena, p, 10, 40);
    assert_ptr_equal(q, p);
    memset(q, 'b', 40);
    assert_ptr_equal(sel_arena_grow(&arena, q, 40, 40), q);

    /* an older one moves */
    assert_non_null(sel_arena_alloc(&arena, 1));
    p = sel_arena_grow(&arena, q, 40, 60);
    assert_non_null(p);
    assert_ptr_not_equal(p, q);
    assert_memory_equal(p, "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", 40);

    /* as a list grows */
    for (n = 60; n < 1000000; n += n / 2) {
        p = sel_arena_grow(&arena, p, n, n + n / 2);
        assert_non_null(p);
        assert_memory_equal(p, "bbbbbbbbbb", 10);
        memset(p + n, 'c', n / 2);
    }

    sel_arena_free(&arena);
}


static void
test_limit(void **state)
{
    size_t        used;
    uint8_t      *p;
    sel_str_t     str;
    sel_arena_t   arena;
    uint8_t       text[3000];

    memset(text, 't', sizeof(text));
    sel_arena_init(&arena, 64 * 1024);

    p = sel_arena_alloc(&arena, 100);
    assert_non_null(p);
    memset(p, 'k', 100);

    assert_null(sel_arena_alloc(&arena, 64 * 1024 + 1));
    assert_null(sel_arena_zalloc(&arena, 64 * 1024 + 1));
    assert_null(sel_arena_grow(&arena, p, 100, 64 * 1024 + 1));
    assert_null(sel_arena_alloc(&arena, SIZE_MAX));
    assert_null(sel_arena_alloc(&arena, SIZE_MAX - 8));
    assert_null(sel_arena_zalloc(&arena, SIZE_MAX / 2));
    assert_null(sel_arena_grow(&arena, p, 100, SIZE_MAX));
    assert_memory_equal(p, "kkkkkkkkkk", 10);

    do {
        assert_true(arena.used <= 64 * 1024);
        used = arena.used;
        str = sel_arena_str(&arena, (sel_str_t) { sizeof(text), text });
    } while (str.data != NULL);

    assert_true(used >= 16 * 1024);
    assert_true(arena.used <= 64 * 1024);
    sel_arena_free(&arena);

    /* the limit holds again after all was freed */
    assert_non_null(sel_arena_alloc(&arena, 16 * 1024));
    assert_null(sel_arena_alloc(&arena, 64 * 1024));
    sel_arena_free(&arena);

    sel_arena_init(&arena, 0);
    assert_null(sel_arena_alloc(&arena, SIZE_MAX));
    assert_null(sel_arena_alloc(&arena, SIZE_MAX - 40));
    assert_non_null(sel_arena_alloc(&arena, 8));
    sel_arena_free(&arena);
}


static void
test_strings(void **state)
{
    sel_str_t    copy;
    sel_arena_t  arena;
    uint8_t      text[] = { 'a', 0, 'b' };

    sel_arena_init(&arena, 0);

    copy = sel_arena_str(&arena, (sel_str_t) { 3, text });
    text[0] = 'x';
    assert_int_equal(copy.len, 3);
    assert_memory_equal(copy.data, "a\0b", 4);      /* and a NUL */

    copy = sel_arena_str(&arena, (sel_str_t) { 0, NULL });
    assert_int_equal(copy.len, 0);
    assert_non_null(copy.data);
    assert_int_equal(copy.data[0], 0);

    assert_non_null(sel_arena_alloc(&arena, 0));
    assert_non_null(sel_arena_zalloc(&arena, 0));

    sel_arena_free(&arena);
    sel_arena_free(&arena);
}


static void
test_buf(void **state)
{
    int         i;
    char        text[9000];
    uint8_t    *room;
    sel_buf_t   buf;
    sel_str_t   view;

    sel_buf_init(&buf);
    assert_int_equal(sel_buf_view(&buf).len, 0);

    sel_buf_text(&buf, "ab");
    sel_buf_byte(&buf, 0);
    sel_buf_str(&buf, sel_str("c"));
    sel_buf_str(&buf, (sel_str_t) { 0, NULL });
    sel_buf_add(&buf, "de", 1);
    sel_buf_u64(&buf, 0);
    sel_buf_byte(&buf, ' ');
    sel_buf_u64(&buf, UINT64_MAX);
    sel_buf_byte(&buf, ' ');
    sel_buf_i64(&buf, INT64_MIN);
    sel_buf_i64(&buf, -1);
    sel_buf_i64(&buf, INT64_MAX);
    sel_buf_printf(&buf, "<%s|%d>", "x", 7);
    sel_buf_printf(&buf, "%s", "");

    view = sel_buf_view(&buf);
    assert_true(sel_str_eq(view, sel_str("ab\0cd0 18446744073709551615 "
        "-9223372036854775808-19223372036854775807<x|7>")));

    memset(text, 'y', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    i = (int) buf.len;
    sel_buf_printf(&buf, "%s|%s", text, text);
    assert_int_equal(buf.len, (size_t) i + 2 * (sizeof(text) - 1) + 1);
    assert_int_equal(buf.data[i + (int) sizeof(text) - 1], '|');
    assert_int_equal(buf.data[buf.len - 1], 'y');

    room = sel_buf_reserve(&buf, 10);
    assert_non_null(room);
    assert_ptr_equal(room, buf.data + buf.len);
    assert_true(buf.cap - buf.len >= 10);
    memcpy(room, "0123456789", 10);
    buf.len += 10;
    assert_false(buf.failed);

    for (i = 0; i < 70000; i++) {
        sel_buf_byte(&buf, (uint8_t) i);
    }

    for (i = 0; i < 70000; i++) {
        assert_int_equal(buf.data[buf.len - 70000 + (size_t) i],
                         (uint8_t) i);
    }

    sel_buf_free(&buf);
}


static void
test_buf_numbers(void **state)
{
    int        i;
    char       expected[64];
    sel_buf_t  buf;

    for (i = 0; i < 64; i++) {
        sel_buf_init(&buf);
        sel_buf_u64(&buf, (uint64_t) 1 << i);
        sel_buf_i64(&buf, -((int64_t) 1 << (i % 63)));
        sprintf(expected, "%" PRIu64 "%" PRId64, (uint64_t) 1 << i,
                -((int64_t) 1 << (i % 63)));
        assert_int_equal(buf.len, strlen(expected));
        assert_memory_equal(buf.data, expected, buf.len);
        sel_buf_free(&buf);
    }
}


/* After a failure appending does nothing, and says so until the end. */
static void
test_buf_failure(void **state)
{
    size_t     len;
    sel_buf_t  buf;

    static const size_t  sizes[] = {
        SIZE_MAX, SIZE_MAX - 3, SIZE_MAX / 2 + 10
    };

    size_t  i;

    for (i = 0; i < sel_countof(sizes); i++) {
        sel_buf_init(&buf);
        sel_buf_text(&buf, "kept");
        assert_null(sel_buf_reserve(&buf, sizes[i]));
        assert_true(buf.failed);

        len = buf.len;
        sel_buf_text(&buf, "more");
        sel_buf_u64(&buf, 7);
        sel_buf_byte(&buf, 'x');
        sel_buf_printf(&buf, "%d", 5);
        assert_true(buf.failed);
        assert_null(sel_buf_reserve(&buf, 1));
        assert_int_equal(buf.len, len);

        sel_buf_free(&buf);
    }
}


static const struct CMUnitTest  tests[] = {
    cmocka_unit_test(test_pieces),
    cmocka_unit_test(test_zalloc),
    cmocka_unit_test(test_grow),
    cmocka_unit_test(test_limit),
    cmocka_unit_test(test_strings),
    cmocka_unit_test(test_buf),
    cmocka_unit_test(test_buf_numbers),
    cmocka_unit_test(test_buf_failure)
};


int
main(void)
{
    rnd.state = sel_rand_seed("arena");

    return cmocka_run_group_tests(tests, NULL, NULL);
}
