/*
 * Blocks below 256 KiB come from malloc() and are copied when they grow.
 * Larger ones are mappings of their own that start at a multiple of 2 MiB,
 * ask for huge pages and grow through mremap(): no copy, no second block
 * beside the first.  The alignment matters: between two aligned places the
 * kernel moves whole page tables and keeps huge pages whole.
 *
 * A sixteenth of the limit is kept back for changes that take something out
 * of the index.  They need memory too (a set of owners without one owner may
 * be a new set), and must not fail just because stores have used it all.
 */

#include <stdlib.h>
#include <sys/mman.h>

#include "index/sel_memory.h"


#define SEL_MEMORY_PAGE   ((size_t) 4096)
#define SEL_MEMORY_HUGE   ((size_t) 2 * 1024 * 1024)
#define SEL_MEMORY_MAP    ((size_t) 256 * 1024)    /* mapped from here on */
#define SEL_MEMORY_WHOLE  ((size_t) 8 * 1024 * 1024)    /* only huge pages */


static void sel_memory_give(void *p, size_t size);
static bool sel_memory_allowed(const sel_memory_t *memory, size_t more);
static void *sel_memory_map(size_t size, int protection);
static void *sel_memory_remap(void *p, size_t old, size_t size);


bool  (*sel_memory_hook)(size_t size);


size_t
sel_memory_round(size_t size)
{
    size_t  unit;

    if (size < SEL_MEMORY_MAP) {
        return size;
    }

    unit = size < SEL_MEMORY_WHOLE ? SEL_MEMORY_PAGE : SEL_MEMORY_HUGE;

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
                ? malloc(size) : sel_memory_map(size, PROT_READ|PROT_WRITE);

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
sel_memory_free(sel_memory_t *memory, void *p, size_t size)
{
    sel_memory_give(p, size);

    memory->used -= size;
}


static void
sel_memory_give(void *p, size_t size)
{
    if (size >= SEL_MEMORY_MAP) {
        munmap(p, size);

    } else if (size != 0) {
        free(p);
    }
}


static bool
sel_memory_allowed(const sel_memory_t *memory, size_t more)
{
    size_t  limit;

    limit = memory->max;

    if (!memory->urgent && limit != SIZE_MAX) {
        limit -= limit / 16;
    }

    if (memory->used > limit || more > limit - memory->used) {
        return false;
    }

    return sel_memory_hook == NULL || sel_memory_hook(more);
}


static void *
sel_memory_map(size_t size, int protection)
{
    size_t    head, length;
    uint8_t  *p;

    length = (size + SEL_MEMORY_PAGE - 1) / SEL_MEMORY_PAGE * SEL_MEMORY_PAGE;

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
    void  *grown, *target;

    grown = mremap(p, old, size, 0);

    if (grown == MAP_FAILED) {

        target = sel_memory_map(size, PROT_NONE);

        if (target == NULL) {
            return NULL;
        }

        grown = mremap(p, old, size, MREMAP_MAYMOVE|MREMAP_FIXED, target);

        if (grown == MAP_FAILED) {
            /* the target is unmapped by then, and maybe another thread's */
            return NULL;
        }
    }

    if (old < SEL_MEMORY_HUGE) {
        (void) madvise(grown, size, MADV_HUGEPAGE);
    }

    return grown;
}
