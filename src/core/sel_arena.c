/*
 * Chunks come from malloc(), the newest in front; only that one is filled.
 * An ordinary chunk holds many allocations; one that is too large for it gets
 * a chunk of its own size.  While an allocation is alone in the newest chunk,
 * growing it is a realloc() of the chunk, so a list that doubles its room
 * leaves no copies behind.
 */

#include <stdlib.h>
#include "core/sel_arena.h"


#define SEL_ARENA_MIN    4096       /* of a chunk, its head included */
#define SEL_ARENA_MAX    32768
#define SEL_ARENA_ALIGN  _Alignof(max_align_t)


struct sel_arena_chunk_s {
    sel_arena_chunk_t        *next;
    size_t                    size; /* as asked of malloc() */
    _Alignas(max_align_t) uint8_t  data[];
};


static size_t sel_arena_round(size_t size);
static bool sel_arena_chunk(sel_arena_t *arena, size_t size);
static bool sel_arena_stretch(sel_arena_t *arena, size_t size);


void
sel_arena_init(sel_arena_t *arena, size_t max)
{
    memset(arena, 0, sizeof(sel_arena_t));
    arena->max = max;
}


void *
sel_arena_alloc(sel_arena_t *arena, size_t size)
{
    void  *p;

    if (size > SIZE_MAX / 2) {
        return NULL;
    }

    size = sel_arena_round(size);

    if (size > (size_t) (arena->end - arena->pos)
        && !sel_arena_chunk(arena, size))
    {
        return NULL;
    }

    p = arena->pos;
    arena->pos += size;

    return p;
}


void *
sel_arena_zalloc(sel_arena_t *arena, size_t size)
{
    void  *p;

    p = sel_arena_alloc(arena, size);
    if (p != NULL) {
        memset(p, 0, size);
    }

    return p;
}


void *
sel_arena_grow(sel_arena_t *arena, void *p, size_t old, size_t size)
{
    void     *copy;
    uint8_t  *start;

    if (p == NULL) {
        return sel_arena_alloc(arena, size);
    }

    if (size > SIZE_MAX / 2) {
        return NULL;
    }

    start = p;

    if (start + sel_arena_round(old) == arena->pos) {

        if (sel_arena_round(size) <= (size_t) (arena->end - start)) {
            arena->pos = start + sel_arena_round(size);
            return p;
        }

        if (start == arena->chunks->data) {
            return sel_arena_stretch(arena, sel_arena_round(size))
                   ? arena->chunks->data : NULL;
        }
    }

    copy = sel_arena_alloc(arena, size);
    if (copy != NULL) {
        memcpy(copy, p, old);
    }

    return copy;
}


sel_str_t
sel_arena_str(sel_arena_t *arena, sel_str_t str)
{
    uint8_t  *p;

    p = sel_arena_alloc(arena, str.len + 1);
    if (p == NULL) {
        return (sel_str_t) { 0, NULL };
    }

    if (str.len != 0) {
        memcpy(p, str.data, str.len);
    }

    p[str.len] = '\0';

    return (sel_str_t) { str.len, p };
}


void
sel_arena_free(sel_arena_t *arena)
{
    sel_arena_chunk_t  *chunk, *next;

    for (chunk = arena->chunks; chunk != NULL; chunk = next) {
        next = chunk->next;
        free(chunk);
    }

    sel_arena_init(arena, arena->max);
}


/* Even an empty allocation takes a place of its own. */

static size_t
sel_arena_round(size_t size)
{
    if (size == 0) {
        size = 1;
    }

    return (size + SEL_ARENA_ALIGN - 1) & ~(SEL_ARENA_ALIGN - 1);
}


static bool
sel_arena_chunk(sel_arena_t *arena, size_t size)
{
    size_t              want;
    sel_arena_chunk_t  *chunk;

    size += sizeof(sel_arena_chunk_t);

    want = arena->used < SEL_ARENA_MIN ? SEL_ARENA_MIN
           : arena->used < SEL_ARENA_MAX ? arena->used : SEL_ARENA_MAX;

    if (want < size) {
        want = size;
    }

    if (arena->max != 0 && want > arena->max - arena->used) {
        want = size;

        if (want > arena->max - arena->used) {
            return false;
        }
    }

    chunk = malloc(want);
    if (chunk == NULL) {
        return false;
    }

    chunk->next = arena->chunks;
    chunk->size = want;

    arena->chunks = chunk;
    arena->used += want;
    arena->pos = chunk->data;
    arena->end = (uint8_t *) chunk + want;

    return true;
}


/* Makes the newest chunk, which holds one allocation, size bytes large. */

static bool
sel_arena_stretch(sel_arena_t *arena, size_t size)
{
    size_t              want;
    sel_arena_chunk_t  *chunk;

    chunk = arena->chunks;
    want = sizeof(sel_arena_chunk_t) + size;

    if (arena->max != 0 && want - chunk->size > arena->max - arena->used) {
        return false;
    }

    arena->used -= chunk->size;

    chunk = realloc(chunk, want);
    if (chunk == NULL) {
        arena->used += arena->chunks->size;
        return false;
    }

    chunk->size = want;

    arena->chunks = chunk;
    arena->used += want;
    arena->pos = chunk->data + size;
    arena->end = arena->pos;

    return true;
}
