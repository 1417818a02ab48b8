/*
 * Blocks below 256 KiB come from malloc() and are copied when they grow.
 * Larger ones are mappings of their own that start at a multiple of 2 MiB,
 * ask for huge pages and grow through mremap(): no copy, no second block
 * beside the first.  The alignment matters: between two aligned places the
 * kernel moves whole page tables and keeps huge pages whole.
 *
 * From 1 MiB on a mapping is longer than its block, so that most growth needs
 * no call and what comes next can be made present (sel_memory_ahead.h).  What
 * is not touched takes no memory.
 *
 * A sixteenth of the limit is kept back for changes that take something out
 * of the index.  They need memory too (a set of owners without one owner may
 * be a new set), and must not fail just because stores have used it all.
 */

#include <stdlib.h>
#include <sys/mman.h>

#include "index/sel_memory.h"
#include "index/sel_memory_ahead.h"


#define SEL_MEMORY_PAGE   ((size_t) 4096)
#define SEL_MEMORY_MAP    ((size_t) 256 * 1024)    /* mapped from here on */
#define SEL_MEMORY_LARGE  ((size_t) 1024 * 1024)    /* with room to grow */
#define SEL_MEMORY_LEAST  ((size_t) 1024 * 1024)    /* is made present */
#define SEL_MEMORY_WHOLE  ((size_t) 8 * 1024 * 1024)    /* only huge pages */


static size_t sel_memory_up(size_t size, size_t unit);
static void sel_memory_give(void *p, size_t size);
static bool sel_memory_allowed(const sel_memory_t *memory, size_t more);
static bool sel_memory_within(const sel_memory_t *memory, size_t more);
static size_t sel_memory_length(size_t size);
static void *sel_memory_map(size_t length, int protection);
static void *sel_memory_remap(void *p, size_t old, size_t size);
static void *sel_memory_move(void *p, size_t old, size_t length);
static void sel_memory_clear(uint8_t *p, size_t size, size_t old);


bool  (*sel_memory_hook)(size_t size);


size_t
sel_memory_round(size_t size)
{
    if (size < SEL_MEMORY_MAP) {
        return size;
    }

    return sel_memory_up(size, size < SEL_MEMORY_WHOLE ? SEL_MEMORY_PAGE
                                                       : SEL_MEMORY_HUGE);
}


/* The next multiple. */

static size_t
sel_memory_up(size_t size, size_t unit)
{
    return (size + unit - 1) / unit * unit;
}


void *
sel_memory_resize(sel_memory_t *memory, void *p, size_t old, size_t size)
{
    uint8_t  *moved;

    if (size > old && !sel_memory_allowed(memory, size - old)) {
        return NULL;
    }

    if (old >= SEL_MEMORY_MAP && size >= SEL_MEMORY_MAP) {
        moved = sel_memory_remap(p, old, size);

    } else if (old < SEL_MEMORY_MAP && size < SEL_MEMORY_MAP) {
        moved = realloc(p, size);

    } else {
        moved = size < SEL_MEMORY_MAP
                ? malloc(size) : sel_memory_map(sel_memory_length(size),
                                                PROT_READ|PROT_WRITE);

        if (moved != NULL && old != 0) {
            memcpy(moved, p, size < old ? size : old);
            sel_memory_give(p, old);
        }
    }

    if (moved == NULL) {
        return NULL;
    }

    if (size > old && size < SEL_MEMORY_MAP) {
        memset(moved + old, 0, size - old);
    }

    memory->used += size - old;

    return moved;
}


void
sel_memory_expect(const sel_memory_t *memory, uint8_t *p, size_t size,
    size_t more)
{
    size_t  end, length;

    if (size < SEL_MEMORY_LARGE || !sel_memory_within(memory, more)) {
        return;
    }

    length = sel_memory_length(size);
    end = size + (more < SEL_MEMORY_LEAST ? SEL_MEMORY_LEAST : more);
    end = end < length ? end : length;

    sel_memory_ahead(p + size, end - size);
}


void
sel_memory_free(sel_memory_t *memory, void *p, size_t size)
{
    sel_memory_give(p, size);

    memory->used -= size;
}


static void
sel_memory_give(void *p, size_t size)
{
    if (size >= SEL_MEMORY_LARGE) {
        sel_memory_ahead_forget(p, sel_memory_length(size));
    }

    if (size >= SEL_MEMORY_MAP) {
        munmap(p, sel_memory_length(size));

    } else if (size != 0) {
        free(p);
    }
}


static bool
sel_memory_allowed(const sel_memory_t *memory, size_t more)
{
    return sel_memory_within(memory, more)
           && (sel_memory_hook == NULL || sel_memory_hook(more));
}


static bool
sel_memory_within(const sel_memory_t *memory, size_t more)
{
    size_t  limit;

    limit = memory->max;

    if (!memory->urgent && limit != SIZE_MAX) {
        limit -= limit / 16;
    }

    return memory->used <= limit && more <= limit - memory->used;
}


/* Of the mapping of a block: a block that grows by a quarter at once finds
   room in it, and as a rule it has more. */

static size_t
sel_memory_length(size_t size)
{
    size_t  unit;

    if (size < SEL_MEMORY_LARGE) {
        return sel_memory_up(size, SEL_MEMORY_PAGE);
    }

    unit = 4 * SEL_MEMORY_HUGE;

    while (unit < size / 4) {
        unit *= 2;
    }

    return sel_memory_up(size + size / 4 + 2 * SEL_MEMORY_HUGE, unit);
}


static void *
sel_memory_map(size_t length, int protection)
{
    size_t    head;
    uint8_t  *p;

    p = mmap(NULL, length + SEL_MEMORY_HUGE, protection,
             MAP_PRIVATE|MAP_ANONYMOUS|MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED) {
        return NULL;
    }

    head = -(uintptr_t) p & (SEL_MEMORY_HUGE - 1);

    if (head != 0) {
        munmap(p, head);
    }

    munmap(p + head + length, SEL_MEMORY_HUGE - head);

    if (length >= SEL_MEMORY_HUGE) {
        (void) madvise(p + head, length, MADV_HUGEPAGE);
    }

    return p + head;
}


static void *
sel_memory_remap(void *p, size_t old, size_t size)
{
    void    *moved;
    size_t   length, before;

    moved = p;
    before = sel_memory_length(old);
    length = sel_memory_length(size);

    if (length != before) {

        if (old >= SEL_MEMORY_LARGE) {
            sel_memory_ahead_forget(p, before);
        }

        moved = sel_memory_move(p, before, length);
    }

    if (moved != NULL && size < old) {
        sel_memory_clear(moved, size, length < old ? length : old);
    }

    return moved;
}


/* Makes a mapping of another length; NULL: it stays as it was. */

static void *
sel_memory_move(void *p, size_t old, size_t length)
{
    void  *moved, *target;

    moved = mremap(p, old, length, 0);

    if (moved == MAP_FAILED) {

        target = sel_memory_map(length, PROT_NONE);

        if (target == NULL) {
            return NULL;
        }

        moved = mremap(p, old, length, MREMAP_MAYMOVE|MREMAP_FIXED, target);

        if (moved == MAP_FAILED) {
            /* the target is unmapped by then, and maybe another thread's */
            return NULL;
        }
    }

    if (old < SEL_MEMORY_HUGE) {
        (void) madvise(moved, length, MADV_HUGEPAGE);
    }

    return moved;
}


/* What a block has given up of its mapping: it is zero when it comes back. */

static void
sel_memory_clear(uint8_t *p, size_t size, size_t old)
{
    size_t  whole;

    whole = sel_memory_up(size, SEL_MEMORY_PAGE);
    whole = whole < old ? whole : old;

    memset(p + size, 0, whole - size);

    if (whole < old && madvise(p + whole, old - whole, MADV_DONTNEED) != 0) {
        memset(p + whole, 0, old - whole);
    }
}
