/*
 * Counts, windows and bounds of block hashing.  Without it a block too many
 * or too few would be hashed, multimodal data could overflow the input, or an
 * identifier get another hash than the engine's.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/sel_hash.h"


static void
test_counts(void **state)
{
    uint32_t  n, size;

    assert_int_equal(sel_hash_block_count(100, 0, false), 0);
    assert_int_equal(sel_hash_block_count(100, 0, true), 0);
    assert_int_equal(sel_hash_block_count(0, 4, true), 0);
    assert_int_equal(sel_hash_block_count(UINT32_MAX, 1, false), UINT32_MAX);
    assert_int_equal(sel_hash_block_count(UINT32_MAX, 1, true),
                     UINT32_MAX - 1);
    assert_int_equal(sel_hash_block_count(UINT32_MAX, UINT32_MAX, false), 1);
    assert_int_equal(sel_hash_block_count(UINT32_MAX, UINT32_MAX, true), 0);

    for (size = 1; size < 6; size++) {

        for (n = 0; n < 40; n++) {
            assert_int_equal(sel_hash_block_count(n, size, false), n / size);
            assert_int_equal(sel_hash_block_count(n, size, true),
                             n == 0 ? 0 : (n - 1) / size);
        }
    }
}


static void
test_block_size_zero(void **state)
{
    uint64_t               out;
    static const uint32_t  tokens[] = { 1, 2, 3 };

    out = 77;
    assert_int_equal(sel_hash_blocks(tokens, 3, 0, false, 1337, NULL, 0,
                                     &out), 0);
    assert_true(out == 77);
}


/*
 * Every block size on its own, with one multimodal hash, against XXH3 of the
 * bytes put together by hand: short, middle and long inputs.
 */
static void
test_windows(void **state)
{
    uint8_t         bytes[1600];
    uint32_t        i, k, size, width, n;
    uint64_t        out[400];
    sel_mm_block_t  mm[2];

    static uint32_t        tokens[800];
    static const uint64_t  hashes[] = { UINT64_MAX, 5, 5 };

    for (i = 0; i < sel_countof(tokens); i++) {
        tokens[i] = i * 2654435761u;
    }

    mm[0] = (sel_mm_block_t) { 0, NULL };
    mm[1] = (sel_mm_block_t) { 3, hashes };

    for (size = 1; size <= 300; size++) {

        for (k = 0; k < 2; k++) {
            width = size + k;
            n = sel_hash_blocks(tokens, 2 * size + k, size, k != 0, 99, mm, 2,
                                out);
            assert_int_equal(n, 2);

            memcpy(bytes, tokens, width * 4);
            assert_true(out[0] == sel_hash_bytes(bytes, width * 4, 99));

            /* repeated hashes stay, in ascending order */
            memcpy(bytes, &tokens[size], width * 4);
            memcpy(&bytes[width * 4], &hashes[1], 8);
            memcpy(&bytes[width * 4 + 8], &hashes[1], 8);
            memcpy(&bytes[width * 4 + 16], &hashes[0], 8);
            assert_true(out[1] == sel_hash_bytes(bytes, width * 4 + 24, 99));
        }
    }
}


/* Overwrites 64 bytes that lie n bytes below the caller's frame. */
static uint8_t __attribute__((noinline))
dirty_stack(size_t n)
{
    size_t            i;
    volatile uint8_t  rest[n];

    for (i = 0; i < 64; i++) {
        rest[i] = (uint8_t) n;
    }

    return rest[n % 64];
}


/*
 * The hash of a block is the same whatever earlier work left on the stack:
 * XXH3's state for multimodal blocks lies there.
 */
static void
test_stack(void **state)
{
    size_t          depth;
    uint8_t         bytes[300], rest;
    uint32_t        size;
    uint64_t        first, again, expected;
    sel_mm_block_t  mm;

    static const uint32_t  tokens[70] = { 1, 2, 3 };
    static const uint64_t  hash = 5;

    mm = (sel_mm_block_t) { 1, &hash };

    for (size = 55; size <= 70; size++) {
        memcpy(bytes, tokens, size * 4);
        memcpy(&bytes[size * 4], &hash, 8);
        expected = sel_hash_bytes(bytes, size * 4 + 8, 99);

        for (depth = 64; depth < 4096; depth += 32) {
            (void) sel_hash_blocks(tokens, size, size, false, 99, &mm, 1,
                                   &first);
            rest = dirty_stack(depth);
            (void) sel_hash_blocks(tokens, size, size, false, 99, &mm, 1,
                                   &again);
            assert_true(first == expected && again == expected);
            assert_int_equal(rest, (uint8_t) depth);
        }
    }
}


/* Fewer and more entries than blocks, and more hashes than are used. */
static void
test_mm_bounds(void **state)
{
    uint32_t         i;
    uint64_t         hashes[SEL_HASH_MAX_MM + 50], one[3], two[3];
    sel_mm_block_t   mm[5];

    static const uint32_t  tokens[] = { 1, 2, 3, 4, 5, 6 };

    for (i = 0; i < sel_countof(hashes); i++) {
        hashes[i] = 1000 - i;
    }

    for (i = 0; i < 5; i++) {
        mm[i] = (sel_mm_block_t) { 1, hashes };
    }

    assert_int_equal(sel_hash_blocks(tokens, 6, 2, false, 1, mm, 1, one), 3);
    assert_int_equal(sel_hash_blocks(tokens, 6, 2, false, 1, NULL, 0, two),
                     3);
    assert_true(one[0] != two[0] && one[1] == two[1] && one[2] == two[2]);

    assert_int_equal(sel_hash_blocks(tokens, 6, 2, false, 1, mm, 5, one), 3);
    assert_int_equal(sel_hash_blocks(tokens, 6, 2, false, 1, mm, 3, two), 3);
    assert_memory_equal(one, two, sizeof(one));

    mm[0].n = sel_countof(hashes);
    assert_int_equal(sel_hash_blocks(tokens, 6, 2, false, 1, mm, 1, one), 3);
    mm[0].n = SEL_HASH_MAX_MM;
    assert_int_equal(sel_hash_blocks(tokens, 6, 2, false, 1, mm, 1, two), 3);
    assert_memory_equal(one, two, sizeof(one));
    mm[0].n = SEL_HASH_MAX_MM - 1;
    assert_int_equal(sel_hash_blocks(tokens, 6, 2, false, 1, mm, 1, two), 3);
    assert_true(one[0] != two[0]);
    assert_true(hashes[0] == 1000 && hashes[1] == 999);
}


static void
test_mm_text(void **state)
{
    char      text[66];
    uint64_t  hash;

    assert_false(sel_hash_mm_text(sel_str(""), &hash));

    memset(text, '0', sizeof(text));
    memcpy(text, "FEDCBA9876543210", 16);
    text[65] = '\0';

    /* 65, 64 and 63 digits, and one that is none */
    assert_true(sel_hash_mm_text(sel_cstr(text), &hash));
    assert_true(hash == sel_hash_bytes(text, 65, 0));

    text[64] = '\0';
    assert_true(sel_hash_mm_text(sel_cstr(text), &hash));
    assert_true(hash == 0xfedcba9876543210);

    text[63] = 'g';
    assert_true(sel_hash_mm_text(sel_cstr(text), &hash));
    assert_true(hash == sel_hash_bytes(text, 64, 0));

    text[63] = '\0';
    assert_true(sel_hash_mm_text(sel_cstr(text), &hash));
    assert_true(hash == sel_hash_bytes(text, 63, 0));
}


static void
test_chain_seed(void **state)
{
    uint64_t               out[2];
    static const uint64_t  blocks[] = { 5, 6 };

    sel_hash_chain(blocks, 2, 4711, out);
    assert_true(out[0] == 5);
    assert_true(out[1] == sel_hash_bytes(blocks, 16, 4711));
    assert_true(sel_hash_chain_next(5, 6, 4711) == out[1]);

    out[0] = 1;
    sel_hash_chain(blocks, 0, 4711, out);
    assert_true(out[0] == 1);
}


static const struct CMUnitTest  tests[] = {
    cmocka_unit_test(test_counts),
    cmocka_unit_test(test_block_size_zero),
    cmocka_unit_test(test_windows),
    cmocka_unit_test(test_stack),
    cmocka_unit_test(test_mm_bounds),
    cmocka_unit_test(test_mm_text),
    cmocka_unit_test(test_chain_seed)
};


int
main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
