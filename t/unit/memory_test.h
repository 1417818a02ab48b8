/*
 * What the tests of sel_memory.h and sel_memory_ahead.h share: blocks whose
 * bytes are known, and what the system says about memory and threads.  Include
 * after cmocka.h.
 */

#ifndef MEMORY_TEST_H
#define MEMORY_TEST_H

#include <dirent.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include "index/sel_memory.h"
#include "index/sel_memory_ahead.h"
#include "sel_rand.h"


#define KIB     ((size_t) 1024)
#define MIB     (1024 * KIB)
#define PAGE    ((size_t) 4096)
#define PERIOD  ((size_t) 65521)    /* prime: no two pages are alike */


typedef struct {
    uint8_t   *p;
    size_t     size;
    uint32_t   key;                 /* what its bytes are */
} block_t;


static sel_memory_t  memory;
static sel_rand_t    rand_;
static uint8_t       pattern[PERIOD];


/* The length of the piece at i of a block in which the pattern runs on. */
static inline size_t
piece(const block_t *block, size_t i, size_t to, const uint8_t **bytes)
{
    size_t  at;

    at = (i + (size_t) block->key * 7919) % PERIOD;
    *bytes = pattern + at;

    return PERIOD - at < to - i ? PERIOD - at : to - i;
}


static inline void
fill(const block_t *block, size_t from, size_t to)
{
    size_t          n;
    const uint8_t  *bytes;

    for ( ; from < to; from += n) {
        n = piece(block, from, to, &bytes);
        memcpy(block->p + from, bytes, n);
    }
}


static inline bool
is_filled(const block_t *block, size_t from, size_t to)
{
    size_t          n;
    const uint8_t  *bytes;

    for ( ; from < to; from += n) {
        n = piece(block, from, to, &bytes);

        if (memcmp(block->p + from, bytes, n) != 0) {
            return false;
        }
    }

    return true;
}


static inline bool
is_zero(const uint8_t *p, size_t size)
{
    return size == 0 || (p[0] == 0 && memcmp(p, p + 1, size - 1) == 0);
}


/* All that holds for a block at any time, but for its content. */
static inline void
expect_block(const block_t *block)
{
    if (block->size >= MIB) {
        assert_int_equal((uintptr_t) block->p % SEL_MEMORY_HUGE, 0);

    } else if (block->size >= 16) {
        assert_int_equal((uintptr_t) block->p % 16, 0);
    }
}


/* Takes, grows or shrinks a block; all of its bytes are looked at. */
static inline void
resize(block_t *block, size_t size)
{
    size_t    old, used;
    uint8_t  *p;

    used = memory.used;
    old = block->size;
    p = sel_memory_resize(&memory, block->p, old, size);
    assert_non_null(p);
    assert_int_equal(memory.used, used - old + size);

    block->p = p;
    block->size = size;
    expect_block(block);

    if (size <= old) {
        assert_true(is_filled(block, 0, size));

    } else {
        assert_true(is_filled(block, 0, old));
        assert_true(is_zero(p + old, size - old));
        fill(block, old, size);
    }
}


static inline void
give_back(block_t *block)
{
    size_t  used;

    used = memory.used;
    assert_true(is_filled(block, 0, block->size));
    sel_memory_free(&memory, block->p, block->size);
    assert_int_equal(memory.used, used - block->size);
    block->p = NULL;
    block->size = 0;
}


/* How many whole pages of a range are not present; SIZE_MAX: not mapped. */
static inline size_t
absent(const uint8_t *p, size_t size)
{
    size_t                i, n, pages;
    uintptr_t             from, to;
    static unsigned char  present[128 * 1024 * 1024 / 4096];

    from = ((uintptr_t) p + PAGE - 1) / PAGE * PAGE;
    to = ((uintptr_t) p + size) / PAGE * PAGE;
    pages = to > from ? (to - from) / PAGE : 0;
    assert_true(pages <= sizeof(present));

    if (pages != 0 && mincore((void *) from, to - from, present) != 0) {
        return SIZE_MAX;
    }

    for (n = i = 0; i < pages; i++) {
        n += (present[i] & 1) == 0;
    }

    return n;
}


/* Bytes of the process that are present. */
static inline size_t
resident(void)
{
    long   pages, all;
    FILE  *file;

    file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &all, &pages), 2);
    (void) fclose(file);

    return (size_t) pages * (size_t) sysconf(_SC_PAGESIZE);
}


static inline uint32_t
threads(void)
{
    DIR            *dir;
    uint32_t        n;
    struct dirent  *entry;

    dir = opendir("/proc/self/task");

    if (dir == NULL) {
        return 0;
    }

    for (n = 0; (entry = readdir(dir)) != NULL; ) {
        n += entry->d_name[0] != '.';
    }

    (void) closedir(dir);

    return n;
}


/* Lets some time pass, up to about 50 us, without a system call. */
static inline void
linger(void)
{
    volatile uint64_t  turns;

    for (turns = sel_rand_below(&rand_, 30000); turns != 0; turns--) {
        /* void */
    }
}


static inline void
memory_test_init(const char *name)
{
    size_t  i;

    rand_.state = sel_rand_seed(name);

    for (i = 0; i < PERIOD; i++) {
        pattern[i] = (uint8_t) (1 + sel_rand_below(&rand_, 255));
    }
}


static inline int
setup(void **state)
{
    memory = (sel_memory_t) { .max = SIZE_MAX };

    return 0;
}


static inline int
teardown(void **state)
{
    sel_memory_hook = NULL;

    return memory.used != 0;
}


#endif /* MEMORY_TEST_H */
