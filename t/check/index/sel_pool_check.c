/*
 * A pool is right when every record up to the top is either in use or in the
 * list of its chunk, once.
 */

#include "index/sel_pool_check.h"


const char *
sel_pool_check(const sel_pool_t *pool, const uint8_t *seen)
{
    uint32_t  c, n, number, used;

    used = 0;

    for (number = 1; number <= pool->top; number++) {
        used += seen[number];
    }

    if (used != pool->used) {
        return "a record is lost";
    }

    for (c = 0; used < pool->top && c <= pool->top / SEL_POOL_CHUNK; c++) {

        number = pool->chunks[c].free;

        if (number != 0 && c < pool->open) {
            return "a free record is overlooked";
        }

        for (n = pool->chunks[c].used + (c == 0); number != 0; n++) {

            if (number / SEL_POOL_CHUNK != c || number > pool->top
                || seen[number] != 0 || n == SEL_POOL_CHUNK)
            {
                return "a record is free and in use, or free twice";
            }

            memcpy(&number, sel_pool_at(pool, number), sizeof(uint32_t));
        }

        if (n != SEL_POOL_CHUNK
            && (c != pool->top / SEL_POOL_CHUNK
                || n != pool->top % SEL_POOL_CHUNK + 1))
        {
            return "a free record is lost";
        }
    }

    return NULL;
}


size_t
sel_pool_bytes(const sel_pool_t *pool)
{
    return pool->bytes + pool->chunks_n * sizeof(sel_pool_chunk_t);
}
