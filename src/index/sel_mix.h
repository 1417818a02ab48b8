/*
 * A bijection of 64-bit numbers that depends on a seed.  It spreads keys
 * over the tables; whoever does not know the seed cannot choose hashes that
 * meet there, and as it is one to one, equal keys mean equal hashes.
 */

#ifndef SEL_MIX_H
#define SEL_MIX_H

#include "core/sel_base.h"


typedef struct {
    uint64_t  flip[2];
    uint64_t  times[2];         /* odd */
} sel_mix_t;


static inline uint64_t
sel_mix(const sel_mix_t *mix, uint64_t x)
{
    x = (x ^ mix->flip[0]) * mix->times[0];
    x = (x ^ (x >> 32) ^ mix->flip[1]) * mix->times[1];
    x = (x ^ (x >> 29)) * 0xd6e8feb86659fd93;

    return x ^ (x >> 32);
}


#endif /* SEL_MIX_H */
