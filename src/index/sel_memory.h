/*
 * Memory of the index's tables: counted, bounded, zeroed, growing in place,
 * and present before it is needed.  The caller keeps the size of a block and
 * passes it back exactly.
 */

#ifndef SEL_MEMORY_H
#define SEL_MEMORY_H

#include "core/sel_base.h"


typedef struct {
    size_t  used;
    size_t  max;            /* SIZE_MAX: no limit */
    bool    urgent;         /* the reserve may be used: see sel_memory.c */
} sel_memory_t;


/* For tests: asked before every allocation unless NULL; false: it fails. */
extern bool  (*sel_memory_hook)(size_t size);


/* The size that a request is best rounded up to. */
size_t sel_memory_round(size_t size);

/*
 * Makes the block p of old bytes size bytes long, size > 0; bytes that come
 * new are zero.  p is NULL when old is 0.  Gives its new place, or NULL when
 * the limit or memory is reached; then p stays as it was.
 */
void *sel_memory_resize(sel_memory_t *memory, void *p, size_t old,
    size_t size);

/*
 * The block p of size bytes will soon be `more` bytes longer: from 1 MiB on,
 * that memory (at least 1 MiB, at most what is mapped behind the block) is
 * made present meanwhile, from its end downwards; nothing if the limit will
 * not allow it.
 */
void sel_memory_expect(const sel_memory_t *memory, uint8_t *p, size_t size,
    size_t more);

/* Gives a block of size bytes back; size 0: nothing to do. */
void sel_memory_free(sel_memory_t *memory, void *p, size_t size);


#endif /* SEL_MEMORY_H */
