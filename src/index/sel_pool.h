/*
 * Records of one size that are known by number, from 1.  A record's address
 * holds only until the next sel_pool_reserve().
 */

#ifndef SEL_POOL_H
#define SEL_POOL_H

#include "index/sel_memory.h"


#define SEL_POOL_CHUNK  4096        /* records */
#define SEL_POOL_LIMIT  INT32_MAX   /* numbers end here */


typedef struct {
    uint32_t           free;    /* first free record, 0: none */
    uint32_t           used;
} sel_pool_chunk_t;


typedef struct {
    uint8_t           *base;
    size_t             bytes;
    sel_pool_chunk_t  *chunks;
    uint32_t           chunks_n;
    uint32_t           width;   /* of a record, at least 4 */
    uint32_t           top;     /* numbers up to here are used or free */
    uint32_t           used;
    uint32_t           open;    /* no chunk below has a free record */
} sel_pool_t;


void sel_pool_init(sel_pool_t *pool, uint32_t width);

/* Frees the memory; the pool is empty and usable. */
void sel_pool_reset(sel_pool_t *pool, sel_memory_t *memory);

/* Makes sure that the next n calls of sel_pool_get() find a record, n < 16. */
bool sel_pool_reserve(sel_pool_t *pool, sel_memory_t *memory, uint32_t n);

/* Takes a record after sel_pool_reserve(); its content is undefined. */
uint32_t sel_pool_get(sel_pool_t *pool);

/* Gives a record back; its first four bytes are overwritten. */
void sel_pool_put(sel_pool_t *pool, uint32_t number);

/* Gives memory back that is not needed any more. */
void sel_pool_settle(sel_pool_t *pool, sel_memory_t *memory);


static inline void *
sel_pool_at(const sel_pool_t *pool, uint32_t number)
{
    return pool->base + (size_t) number * pool->width;
}


#endif /* SEL_POOL_H */
