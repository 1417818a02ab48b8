/*
 * Blocks of memory of the index's tables.  Without it bytes of a table could
 * be lost or be left over from an earlier use when a block changes its size,
 * the memory that the index admits to could be less than it takes, a limit
 * could be passed, and memory that was asked for ahead could be missing or
 * not be zero.
 *
 * SEL_SEED repeats a run.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "memory_test.h"


#define BLOCKS   5
#define STEPS    1500
#define LARGEST  (80 * MIB)
#define TOGETHER (160 * MIB)
#define LIMIT    (20 * MIB)


static uint32_t  asked;


static bool
refuse(size_t size)
{
    asked++;

    return false;
}


static bool
allow(size_t size)
{
    asked++;

    return true;
}


/* A size that a block of the given size may get next. */
static size_t
next_size(size_t size)
{
    size_t               delta;
    static const size_t  edges[] = { 256 * KIB, MIB, 2 * MIB, 8 * MIB };

    delta = (size_t) 1 << sel_rand_below(&rand_, 14);

    switch (sel_rand_below(&rand_, 12)) {
    case 0:
    case 1:
        size += 1 + sel_rand_below(&rand_, PAGE);
        break;
    case 2:
    case 3:
        size += size / 6;
        break;
    case 4:
        size *= 2 + sel_rand_below(&rand_, 4);
        break;
    case 5:
        size -= sel_rand_below(&rand_, size / 6 + 1);
        break;
    case 6:
        size /= 2 + sel_rand_below(&rand_, 20);
        break;
    case 7:
        size = edges[sel_rand_below(&rand_, 4)] - delta;
        break;
    case 8:
        size = edges[sel_rand_below(&rand_, 4)] + delta;
        break;
    case 9:
        size = edges[sel_rand_below(&rand_, 4)];
        break;
    case 10:
        size = (size_t) 1 << sel_rand_below(&rand_, 28);
        size = sel_rand_below(&rand_, size);
        break;
    default:
        size = sel_rand_below(&rand_, 300 * KIB);
    }

    if (sel_rand_below(&rand_, 2) == 0) {
        size = sel_memory_round(size + 1);
    }

    return size == 0 ? 1 : size > LARGEST ? LARGEST : size;
}


/* Rounding gives no less, the same when done again, and no great waste. */
static void
test_round(void **state)
{
    size_t    size, rounded, last;
    uint32_t  i;

    last = 0;

    for (size = 1; size < 4096 * MIB; size += size / 1000 + 1) {
        rounded = sel_memory_round(size);
        assert_true(rounded >= size);
        assert_true(rounded >= last);
        assert_true(rounded <= size + sel_max(size / 4, PAGE));
        assert_int_equal(sel_memory_round(rounded), rounded);
        last = rounded;
    }

    for (i = 0; i < 1000; i++) {
        size = 1 + sel_rand_wide(&rand_) % ((size_t) 1 << 40);
        assert_true(sel_memory_round(size) >= size);
        assert_true(sel_memory_round(size) >= sel_memory_round(size - 1));
    }
}


/* Several blocks at once, to any size from any other. */
static void
test_walk(void **state)
{
    size_t    size;
    block_t   blocks[BLOCKS], *block;
    uint32_t  i, k;

    memset(blocks, 0, sizeof(blocks));

    for (i = 0; i < STEPS; i++) {
        k = (uint32_t) sel_rand_below(&rand_, BLOCKS);
        block = &blocks[k];

        if (block->size == 0) {
            block->key = i;
        }

        if (sel_rand_below(&rand_, 12) == 0) {
            give_back(block);
            continue;
        }

        size = next_size(block->size);

        if (memory.used - block->size + size > TOGETHER) {
            size = 1 + sel_rand_below(&rand_, MIB);
        }

        if (size > block->size && block->size != 0
            && sel_rand_below(&rand_, 3) == 0)
        {
            sel_memory_expect(&memory, block->p, block->size,
                              size - block->size);

            if (sel_rand_below(&rand_, 2) == 0) {
                sel_memory_ahead_wait();
            }
        }

        resize(block, size);
    }

    for (i = 0; i < BLOCKS; i++) {
        give_back(&blocks[i]);
    }

    assert_int_equal(memory.used, 0);
    sel_memory_free(&memory, NULL, 0);
    assert_int_equal(memory.used, 0);
}


/* A block of few bytes grows as a table does, to 80 MB, and comes back. */
static void
climb(bool rounded, bool expects)
{
    size_t   size;
    block_t  block;

    block = (block_t) { .key = 3 };

    for (size = 5; size < LARGEST; size += size / 6 + 1) {
        if (rounded) {
            size = sel_memory_round(size);
        }

        resize(&block, size);

        if (expects) {
            sel_memory_expect(&memory, block.p, size, size / 6 + PAGE);
        }
    }

    for ( ; size > 5; size = size / 3 * 2) {
        if (rounded) {
            size = sel_memory_round(size);
        }

        if (size < block.size) {
            resize(&block, size);
        }
    }

    resize(&block, 2 * MIB + 1);
    give_back(&block);
}


static void
test_climb(void **state)
{
    climb(false, false);
    climb(true, true);
}


/* What was written and given up is not seen again. */
static void
test_shrink_and_grow(void **state)
{
    size_t               large, small;
    block_t              block;
    uint32_t             i, k;
    static const size_t  sizes[] = {
        1, 100, 5000, 100 * KIB, 256 * KIB - 1, 256 * KIB, 256 * KIB + 1,
        MIB - 1, MIB, MIB + 1, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 3 * MIB + 77,
        8 * MIB - PAGE, 8 * MIB, 8 * MIB + 1, 17 * MIB
    };

    for (i = 1; i < sel_countof(sizes); i++) {
        for (k = 0; k < i; k++) {
            large = sizes[i];
            small = sizes[k];
            block = (block_t) { .key = i };
            resize(&block, large);
            resize(&block, small);
            resize(&block, small);
            resize(&block, (small + large + 1) / 2);
            resize(&block, large);
            give_back(&block);
        }
    }
}


/* The most that fits in one block. */
static size_t
most(void)
{
    size_t   low, high, middle;
    uint8_t  *p;

    low = 0;
    high = memory.max + 1;

    while (high - low > 1) {
        middle = low + (high - low) / 2;
        p = sel_memory_resize(&memory, NULL, 0, middle);

        if (p != NULL) {
            assert_int_equal(memory.used, middle);
            sel_memory_free(&memory, p, middle);
            low = middle;

        } else {
            high = middle;
        }

        assert_int_equal(memory.used, 0);
    }

    return low;
}


/* Up to a limit all goes, beyond it nothing, and what is refused stays. */
static void
test_limit(void **state)
{
    bool      fits;
    size_t    calm, size, used;
    uint8_t  *p;
    block_t   blocks[BLOCKS], *block;
    uint32_t  i, refused, urgent;

    memory.max = LIMIT;
    memory.urgent = true;
    assert_int_equal(most(), LIMIT);
    memory.urgent = false;
    calm = most();
    assert_in_range(calm, LIMIT / 8 * 7, LIMIT - 1);

    memset(blocks, 0, sizeof(blocks));
    refused = urgent = 0;

    for (i = 0; i < STEPS; i++) {
        block = &blocks[sel_rand_below(&rand_, BLOCKS)];
        block->key = block->size == 0 ? i : block->key;
        memory.urgent = sel_rand_below(&rand_, 3) == 0;
        size = next_size(block->size);

        if (sel_rand_below(&rand_, 4) == 0) {
            /* an edge, if it is one that the block can get to */
            size = sel_rand_below(&rand_, 2) == 0 ? calm : LIMIT;
            size -= memory.used - block->size < size
                    ? memory.used - block->size : 0;
            size += sel_rand_below(&rand_, 2);
        }

        used = memory.used - block->size + size;
        fits = size <= block->size
               || used <= (memory.urgent ? LIMIT : calm);

        if (fits) {
            urgent += used > calm && size > block->size;
            resize(block, size);
            continue;
        }

        refused++;
        used = memory.used;
        p = block->p;
        assert_null(sel_memory_resize(&memory, p, block->size, size));
        assert_int_equal(memory.used, used);
        assert_true(is_filled(block, 0, block->size));
    }

    assert_true(refused > STEPS / 10);
    assert_true(urgent > 0);

    for (i = 0; i < BLOCKS; i++) {
        give_back(&blocks[i]);
    }
}


/* No limit: the sizes of the sum's end are not added to something small. */
static void
test_huge(void **state)
{
    block_t  block;

    block = (block_t) { .key = 9 };
    resize(&block, 3 * MIB);

    assert_null(sel_memory_resize(&memory, block.p, block.size,
                                  (size_t) 1 << 60));
    assert_int_equal(memory.used, 3 * MIB);
    assert_null(sel_memory_resize(&memory, NULL, 0, (size_t) 1 << 60));
    assert_int_equal(memory.used, 3 * MIB);

    memory.max = 4 * MIB;
    memory.urgent = true;
    assert_null(sel_memory_resize(&memory, block.p, block.size,
                                  SIZE_MAX - 2 * MIB));
    assert_null(sel_memory_resize(&memory, NULL, 0, SIZE_MAX - 2 * MIB));
    assert_int_equal(memory.used, 3 * MIB);
    give_back(&block);
}


/* Nothing changes when no memory can be had. */
static void
test_refused(void **state)
{
    size_t               used;
    uint8_t             *p;
    block_t              block;
    uint32_t             i, k;
    static const size_t  sizes[] = {
        0, 1, 5000, 256 * KIB - 1, 256 * KIB, MIB, 2 * MIB + 1, 3 * MIB,
        9 * MIB
    };

    for (i = 0; i < sel_countof(sizes); i++) {
        block = (block_t) { .key = i };

        if (sizes[i] != 0) {
            asked = 0;
            sel_memory_hook = allow;
            resize(&block, sizes[i]);
            assert_true(asked != 0);
        }

        for (k = 1; k < sel_countof(sizes); k++) {
            asked = 0;
            used = memory.used;
            sel_memory_hook = refuse;
            p = sel_memory_resize(&memory, block.p, block.size, sizes[k]);
            sel_memory_hook = NULL;

            if (sizes[k] > block.size) {
                assert_true(asked != 0);
            }

            if (p == NULL) {
                assert_true(asked != 0);
                assert_int_equal(memory.used, used);
                assert_true(is_filled(&block, 0, block.size));
                continue;
            }

            /* smaller, or as it was: no memory was needed */
            assert_int_equal(asked, 0);
            assert_true(sizes[k] <= block.size);
            assert_int_equal(memory.used, used - block.size + sizes[k]);
            block.p = p;
            block.size = sizes[k];
            assert_true(is_filled(&block, 0, block.size));
            resize(&block, sizes[i]);
        }

        give_back(&block);
    }
}


/* Memory that was expected is there when the block gets it, and is zero. */
static void
test_expected(void **state)
{
    size_t    size, more;
    uint8_t  *p;
    block_t   block;
    uint32_t  part;

    for (part = 2; part <= 16; part *= 2) {
        block = (block_t) { .key = part };
        resize(&block, MIB);

        for (size = MIB; size < 40 * MIB; size += more) {
            more = size / part + 1 + sel_rand_below(&rand_, PAGE);
            sel_memory_expect(&memory, block.p, size, more);
            sel_memory_ahead_wait();
            assert_true(is_filled(&block, 0, size));
            assert_int_equal(absent(block.p + size, more), 0);

            p = sel_memory_resize(&memory, block.p, size, size + more);
            assert_non_null(p);
            assert_int_equal(absent(p + size, more), 0);
            block.p = p;
            assert_true(is_filled(&block, 0, size));
            assert_true(is_zero(p + size, more));
            block.size = size + more;
            fill(&block, size, block.size);
        }

        give_back(&block);
    }
}


/* Of what is not a large block, and of more than there is, nothing comes. */
static void
test_expected_in_vain(void **state)
{
    size_t   size;
    block_t  block;

    for (size = 1; size < 64 * MIB; size = size * 3 + 1) {
        block = (block_t) { .key = 7 };
        resize(&block, size);
        sel_memory_expect(&memory, block.p, size, 0);
        sel_memory_expect(&memory, block.p, size, 1);
        sel_memory_expect(&memory, block.p, size, 20 * size);
        sel_memory_expect(&memory, block.p, size, (size_t) 1 << 40);
        sel_memory_ahead_wait();
        assert_true(is_filled(&block, 0, size));
        sel_memory_expect(&memory, block.p, size, (size_t) 1 << 40);
        resize(&block, size + size / 3 + 1);
        give_back(&block);
    }
}


/* A block that shrinks gives its memory back, and what it expected as well. */
static void
test_given_back(void **state)
{
    size_t   before, large, small;
    block_t  block;

    block = (block_t) { .key = 5 };
    resize(&block, 256 * KIB);
    before = resident();

    resize(&block, 64 * MIB);
    large = resident();
    assert_true(large > before + 60 * MIB);

    resize(&block, 256 * KIB);
    small = resident();
    assert_true(small + 60 * MIB < large);

    resize(&block, 40 * MIB);
    sel_memory_expect(&memory, block.p, 40 * MIB, 20 * MIB);
    sel_memory_ahead_wait();
    resize(&block, 2 * MIB);
    assert_true(resident() < before + 6 * MIB);

    resize(&block, 40 * MIB);
    sel_memory_expect(&memory, block.p, 40 * MIB, 20 * MIB);
    sel_memory_ahead_wait();
    give_back(&block);
    assert_true(resident() < before + 4 * MIB);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_round, setup, teardown),
        cmocka_unit_test_setup_teardown(test_given_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_walk, setup, teardown),
        cmocka_unit_test_setup_teardown(test_climb, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shrink_and_grow, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_huge, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_expected, setup, teardown),
        cmocka_unit_test_setup_teardown(test_expected_in_vain, setup,
                                        teardown),
    };

    memory_test_init("memory");

    return cmocka_run_group_tests(tests, NULL, NULL);
}
