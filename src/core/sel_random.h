/*
 * Random numbers: xoshiro256++, seeded from the system.  Not for secrets.
 */

#ifndef SEL_RANDOM_H
#define SEL_RANDOM_H

#include "core/sel_base.h"


typedef struct {
    uint64_t  s[4];
} sel_random_t;


/* Seeds from getrandom(), or from time and pid where that fails. */
void sel_random_seed(sel_random_t *random);

/* Seeds from one number, for tests that must be repeatable. */
void sel_random_seed_with(sel_random_t *random, uint64_t seed);

uint64_t sel_random_u64(sel_random_t *random);

/* Uniform in 0 .. bound-1 without bias; bound > 0. */
uint64_t sel_random_below(sel_random_t *random, uint64_t bound);

/* Uniform in [0, 1), 53 bits. */
double sel_random_unit(sel_random_t *random);


#endif /* SEL_RANDOM_H */
