/*
 * The records are one block of memory that grows in place (sel_memory.h), so
 * there is no directory between a number and its record.
 *
 * Free records form lists, through their first four bytes, one for every
 * chunk of 4,096.  The lowest chunk that has a free record serves next.  So
 * the records in use drift down, and when the highest chunks have become
 * empty the pool gives up their memory.
 */

#include "index/sel_pool.h"


#define SEL_POOL_LEAST  ((size_t) 1024)     /* bytes to grow by */
#define SEL_POOL_MOST   ((size_t) 2 * 1024 * 1024)


static bool sel_pool_more_records(sel_pool_t *pool, sel_memory_t *memory);
static bool sel_pool_more_chunks(sel_pool_t *pool, sel_memory_t *memory);


void
sel_pool_init(sel_pool_t *pool, uint32_t width)
{
    memset(pool, 0, sizeof(sel_pool_t));

    pool->width = width;
}


void
sel_pool_reset(sel_pool_t *pool, sel_memory_t *memory)
{
    sel_memory_free(memory, pool->base, pool->bytes);
    sel_memory_free(memory, pool->chunks,
                    pool->chunks_n * sizeof(sel_pool_chunk_t));

    sel_pool_init(pool, pool->width);
}


bool
sel_pool_reserve(sel_pool_t *pool, sel_memory_t *memory, uint32_t n)
{
    if (pool->top - pool->used >= n) {
        return true;
    }

    if (n > SEL_POOL_LIMIT - pool->top) {
        return false;
    }

    if (((size_t) pool->top + n + 1) * pool->width > pool->bytes
        && !sel_pool_more_records(pool, memory))
    {
        return false;
    }

    return (pool->top + n) / SEL_POOL_CHUNK < pool->chunks_n
           || sel_pool_more_chunks(pool, memory);
}


static bool
sel_pool_more_records(sel_pool_t *pool, sel_memory_t *memory)
{
    void    *base;
    size_t   bytes, more;

    more = pool->bytes / 16;
    more = more < SEL_POOL_LEAST ? SEL_POOL_LEAST : more;
    more = more > SEL_POOL_MOST ? SEL_POOL_MOST : more;

    bytes = sel_memory_round(pool->bytes + more);
    base = sel_memory_resize(memory, pool->base, pool->bytes, bytes);

    if (base == NULL) {
        return false;
    }

    pool->base = base;
    pool->bytes = bytes;

    sel_memory_expect(memory, base, bytes, more);

    return true;
}


static bool
sel_pool_more_chunks(sel_pool_t *pool, sel_memory_t *memory)
{
    void      *chunks;
    uint32_t   n;

    n = pool->chunks_n + pool->chunks_n / 2 + 1;

    chunks = sel_memory_resize(memory, pool->chunks,
                             pool->chunks_n * sizeof(sel_pool_chunk_t),
                             n * sizeof(sel_pool_chunk_t));
    if (chunks == NULL) {
        return false;
    }

    pool->chunks = chunks;
    pool->chunks_n = n;

    return true;
}


uint32_t
sel_pool_get(sel_pool_t *pool)
{
    uint32_t           number;
    sel_pool_chunk_t  *chunk;

    if (pool->used == pool->top) {
        number = ++pool->top;
        chunk = &pool->chunks[number / SEL_POOL_CHUNK];

    } else {

        while (pool->chunks[pool->open].free == 0) {
            pool->open++;
        }

        chunk = &pool->chunks[pool->open];
        number = chunk->free;
        memcpy(&chunk->free, sel_pool_at(pool, number), sizeof(uint32_t));
    }

    chunk->used++;
    pool->used++;

    return number;
}


void
sel_pool_put(sel_pool_t *pool, uint32_t number)
{
    uint32_t           c;
    sel_pool_chunk_t  *chunk;

    c = number / SEL_POOL_CHUNK;
    chunk = &pool->chunks[c];

    memcpy(sel_pool_at(pool, number), &chunk->free, sizeof(uint32_t));

    chunk->free = number;
    chunk->used--;
    pool->used--;

    if (c < pool->open) {
        pool->open = c;
    }

    while (pool->top != 0
           && pool->chunks[pool->top / SEL_POOL_CHUNK].used == 0)
    {
        c = pool->top / SEL_POOL_CHUNK;
        pool->chunks[c].free = 0;
        pool->top = c == 0 ? 0 : c * SEL_POOL_CHUNK - 1;
    }
}


void
sel_pool_settle(sel_pool_t *pool, sel_memory_t *memory)
{
    void    *base;
    size_t   bytes;

    if (pool->top == 0) {
        sel_pool_reset(pool, memory);
        return;
    }

    bytes = ((size_t) pool->top + 1) * pool->width;

    if (bytes + SEL_POOL_LEAST > pool->bytes / 2) {
        return;
    }

    bytes = sel_memory_round(bytes + bytes / 8);
    base = sel_memory_resize(memory, pool->base, pool->bytes, bytes);

    if (base != NULL) {
        pool->base = base;
        pool->bytes = bytes;
    }
}
