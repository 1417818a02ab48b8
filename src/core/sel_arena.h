/*
 * A bump allocator for what lives exactly as long as one request (or one
 * private copy of a record): nothing is freed alone, all goes at once.
 */

#ifndef SEL_ARENA_H
#define SEL_ARENA_H

#include "core/sel_base.h"


typedef struct sel_arena_chunk_s  sel_arena_chunk_t;

typedef struct {
    sel_arena_chunk_t  *chunks;     /* newest first */
    uint8_t            *pos;
    uint8_t            *end;
    size_t              used;       /* bytes taken from malloc() */
    size_t              max;        /* limit of used; 0: none */
} sel_arena_t;


/* Makes an empty arena; it takes no memory yet. */
void sel_arena_init(sel_arena_t *arena, size_t max);

/*
 * Returns size bytes, not initialised, aligned for any type, or NULL when
 * memory or the arena's limit is exhausted.  size 0 gives a valid pointer.
 */
void *sel_arena_alloc(sel_arena_t *arena, size_t size);

/* As sel_arena_alloc(), zeroed. */
void *sel_arena_zalloc(sel_arena_t *arena, size_t size);

/*
 * Makes the allocation p of old bytes size bytes long (size >= old): in
 * place when it is the newest one and fits, else by copying.  p may be NULL
 * when old is 0.  NULL on exhaustion; p stays valid then.
 */
void *sel_arena_grow(sel_arena_t *arena, void *p, size_t old, size_t size);

/*
 * Copies a string; out->data is NULL on exhaustion and only then.  A NUL
 * follows the copy (not counted in len), so it can be handed to C functions.
 */
sel_str_t sel_arena_str(sel_arena_t *arena, sel_str_t str);

/* Frees everything; the arena is empty again and usable. */
void sel_arena_free(sel_arena_t *arena);


#endif /* SEL_ARENA_H */
