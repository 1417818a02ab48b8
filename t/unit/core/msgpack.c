/*
 * The msgpack cursor.  Without it five bytes from the network could make the
 * module walk or allocate gigabytes, read behind the message, or take one
 * number for another.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sel_msgpack_text.h"


static void
test_types(void **state)
{
    static const char *const  rows[][2] = {
        { "c0", "n" }, { "c2", "f" }, { "c3", "t" },
        { "00", "u0" }, { "7f", "u127" }, { "e0", "i-32" }, { "ff", "i-1" },
        { "cc00", "u0" }, { "ccff", "u255" }, { "cdffff", "u65535" },
        { "cd0001", "u1" }, { "ceffffffff", "u4294967295" },
        { "cf0000000000000001", "u1" },
        { "cf7fffffffffffffff", "u9223372036854775807" },
        { "cf8000000000000000", "u9223372036854775808" },
        { "cfffffffffffffffff", "u18446744073709551615" },
        { "d07f", "u127" }, { "d000", "u0" }, { "d080", "i-128" },
        { "d17fff", "u32767" }, { "d18000", "i-32768" },
        { "d27fffffff", "u2147483647" }, { "d280000000", "i-2147483648" },
        { "d37fffffffffffffff", "u9223372036854775807" },
        { "d38000000000000000", "i-9223372036854775808" },
        { "d3ffffffffffffffff", "i-1" }, { "d30000000000000005", "u5" },
        { "cb3ff8000000000000", "d3ff8000000000000" },
        { "ca3fc00000", "d3ff8000000000000" },
        { "cabdcccccd", "dbfb99999a0000000" },
        { "a0", "s" }, { "a3616263", "s616263" }, { "a2c3ff", "sc3ff" },
        { "d900", "s" }, { "d90161", "s61" }, { "da000161", "s61" },
        { "db0000000161", "s61" },
        { "c400", "b" }, { "c40200ff", "b00ff" }, { "c5000100", "b00" },
        { "c60000000100", "b00" },
        { "d405aa", "e5:aa" }, { "d5ffaabb", "e-1:aabb" },
        { "d680aabbccdd", "e-128:aabbccdd" },
        { "d77f0011223344556677", "e127:0011223344556677" },
        { "d80100112233445566778899aabbccddeeff",
          "e1:00112233445566778899aabbccddeeff" },
        { "c70005", "e5:" }, { "c70305aabbcc", "e5:aabbcc" },
        { "c8000105aa", "e5:aa" }, { "c90000000105aa", "e5:aa" },
        { "90", "[ ]" }, { "93010203", "[ u1 u2 u3 ]" },
        { "dc0000", "[ ]" }, { "dc0002c0c0", "[ n n ]" },
        { "dd00000000", "[ ]" }, { "dd0000000107", "[ u7 ]" },
        { "80", "{ }" }, { "82a16101a16290", "{ s61 u1 s62 [ ] }" },
        { "de00010203", "{ u2 u3 }" }, { "df0000000102c0", "{ u2 n }" },
        { "9291c08100ff", "[ [ n ] { u0 i-1 } ]" }
    };

    char    *text;
    size_t   i;

    for (i = 0; i < sel_countof(rows); i++) {
        text = sel_msgpack_text(rows[i][0]);

        if (text == NULL || strcmp(text, rows[i][1]) != 0) {
            fail_msg("%s reads as %s, expected %s", rows[i][0],
                     text == NULL ? "nothing" : text, rows[i][1]);
        }

        free(text);
    }
}


static void
test_refused(void **state)
{
    static const char *const  rows[] = {
        "", "c1", "91c1", "ddffffffff", "df7fffffff", "dfffffffff",
        "dbffffffff", "c6ffffffff", "c9ffffffff05", "dcffff", "deffff",
        "91ddffffffff", "81a161df7fffffff", "dd0000000401c0c0", "9401c0c0",
        "8301020304", "de00030102030405", "dbffffffff61", "da000261",
        "c7ff", "c704", "c9fffffffe0500"
    };

    size_t  i;

    for (i = 0; i < sel_countof(rows); i++) {

        if (sel_msgpack_text(rows[i]) != NULL) {
            fail_msg("%s was accepted", rows[i]);
        }
    }
}


/* The header alone is refused: nothing may trust its count. */
static void
test_counts(void **state)
{
    static const char *const  rows[] = {
        "ddffffffff", "df7fffffff", "dfffffffff", "dcffff0102", "94c0c0c0",
        "82c0c0c0", "df80000001c0c0", "de8000c0", "dbffffffff61",
        "c60000000200", "d60500"
    };

    size_t               i;
    sel_str_t            bytes;
    sel_msgpack_t        mp;
    sel_msgpack_token_t  token;

    for (i = 0; i < sel_countof(rows); i++) {
        bytes = sel_vectors_hex(rows[i]);
        mp = sel_msgpack(bytes.data, bytes.len);

        if (sel_msgpack_next(&mp, &token)) {
            fail_msg("the header of %s was accepted", rows[i]);
        }

        free((void *) bytes.data);
    }
}


static void
test_depth(void **state)
{
    int            kind;
    size_t         i, depth, len;
    uint8_t        bytes[64];
    sel_msgpack_t  mp;

    for (kind = 0; kind < 3; kind++) {

        for (depth = 1; depth <= SEL_MSGPACK_MAX_DEPTH + 3; depth++) {
            len = 0;

            for (i = 0; i < depth; i++) {

                if (kind == 0 || (kind == 2 && i % 2 == 0)) {
                    bytes[len++] = i == depth - 1 ? 0x90 : 0x91;

                } else {
                    bytes[len++] = i == depth - 1 ? 0x80 : 0x81;

                    if (i != depth - 1) {
                        bytes[len++] = 0x05;
                    }
                }
            }

            mp = sel_msgpack(bytes, len);
            assert_int_equal(sel_msgpack_skip(&mp),
                             depth <= SEL_MSGPACK_MAX_DEPTH);
        }
    }

    /* only what is open counts */
    memset(bytes, 0x90, sizeof(bytes));
    bytes[0] = 0xdc;
    bytes[1] = 0;
    bytes[2] = sizeof(bytes) - 3;
    mp = sel_msgpack(bytes, sizeof(bytes));
    assert_true(sel_msgpack_skip(&mp));
    assert_ptr_equal(mp.pos, bytes + sizeof(bytes));
}


static void
test_skip_stops(void **state)
{
    sel_str_t            bytes;
    sel_msgpack_t        mp;
    sel_msgpack_token_t  token;

    bytes = sel_vectors_hex("9201a2616205c0");
    mp = sel_msgpack(bytes.data, bytes.len);

    assert_true(sel_msgpack_skip(&mp));
    assert_true(sel_msgpack_next(&mp, &token));
    assert_int_equal(token.type, SEL_MSGPACK_UINT);
    assert_int_equal(token.u, 5);
    assert_true(sel_msgpack_skip(&mp));
    assert_false(sel_msgpack_skip(&mp));
    assert_false(sel_msgpack_next(&mp, &token));

    free((void *) bytes.data);
}


/* The elements of an array as u32; false also when a byte is missing. */
static bool
u32_array(const char *hex, uint32_t n, uint32_t *out, size_t *left)
{
    bool           ok;
    sel_str_t      bytes;
    sel_msgpack_t  mp;

    bytes = sel_vectors_hex(hex);
    mp = sel_msgpack(bytes.data, bytes.len);
    ok = sel_msgpack_u32_array(&mp, n, out);
    *left = (size_t) (mp.end - mp.pos);
    free((void *) bytes.data);

    return ok;
}


static void
test_u32_array(void **state)
{
    static const char *const  wrong[] = {
        "01", "01c0", "01ff", "01cf0000000100000000", "01cb0000000000000000",
        "01ca00000000", "01a131", "0190", "01c2", "01d0ff",
        "01d3ffffffffffffffff", "01c401ff", "01cc", "01cd00", "01ce000000",
        "01cf00000000000000", "01d2000000", "01d4050a", ""
    };

    size_t     i, left;
    uint32_t  *out;

    out = malloc(8 * sizeof(uint32_t));
    assert_non_null(out);

    assert_true(u32_array("007fccffcdffffceffffffffcf00000000ffffffff"
                          "d07fd30000000000000009c0", 8, out, &left));
    assert_int_equal(out[0], 0);
    assert_int_equal(out[1], 127);
    assert_int_equal(out[2], 255);
    assert_int_equal(out[3], 65535);
    assert_int_equal(out[4], 4294967295u);
    assert_int_equal(out[5], 4294967295u);
    assert_int_equal(out[6], 127);
    assert_int_equal(out[7], 9);
    assert_int_equal(left, 1);

    assert_true(u32_array("d17fffd27fffffff", 2, out, &left));
    assert_int_equal(out[0], 32767);
    assert_int_equal(out[1], 2147483647);

    assert_true(u32_array("", 0, out, &left));

    for (i = 0; i < sel_countof(wrong); i++) {

        if (u32_array(wrong[i], 2, out, &left)) {
            fail_msg("%s was accepted as two u32", wrong[i]);
        }
    }

    free(out);
}


static const struct CMUnitTest  tests[] = {
    cmocka_unit_test(test_types),
    cmocka_unit_test(test_refused),
    cmocka_unit_test(test_counts),
    cmocka_unit_test(test_depth),
    cmocka_unit_test(test_skip_stops),
    cmocka_unit_test(test_u32_array)
};


int
main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
