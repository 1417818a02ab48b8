/*
 * Random numbers of the tests: splitmix64, so that nothing depends on the
 * generator under test.  The seed comes from SEL_SEED or from the clock and
 * is printed, so a failure can be repeated.
 */

#ifndef SEL_RAND_H
#define SEL_RAND_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>


typedef struct {
    uint64_t  state;
} sel_rand_t;


static inline uint64_t
sel_rand(sel_rand_t *rand)
{
    uint64_t  x;

    rand->state += 0x9e3779b97f4a7c15;
    x = rand->state;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;

    return x ^ (x >> 31);
}


/* 0 .. bound-1; the bias of the remainder does not matter to tests */
static inline uint64_t
sel_rand_below(sel_rand_t *rand, uint64_t bound)
{
    return sel_rand(rand) % bound;
}


/* one of 64 sizes of numbers with equal chance, and their edges */
static inline uint64_t
sel_rand_wide(sel_rand_t *rand)
{
    uint64_t  edge;

    edge = (uint64_t) 1 << sel_rand_below(rand, 64);

    switch (sel_rand_below(rand, 8)) {
    case 0:
        return edge;
    case 1:
        return edge - 1;
    case 2:
        return ~edge;
    case 3:
        return 0 - edge;
    default:
        return sel_rand(rand) & (edge | (edge - 1));
    }
}


static inline uint64_t
sel_rand_seed(const char *name)
{
    uint64_t          seed;
    const char       *env;
    struct timespec   ts;

    env = getenv("SEL_SEED");

    if (env != NULL) {
        seed = strtoull(env, NULL, 0);

    } else {
        (void) clock_gettime(CLOCK_REALTIME, &ts);
        seed = (uint64_t) ts.tv_sec * 1000000007 + (uint64_t) ts.tv_nsec
               + (uint64_t) getpid() * 7919;
    }

    printf("# %s: SEL_SEED=%" PRIu64 "\n", name, seed);
    fflush(stdout);

    return seed;
}


#endif /* SEL_RAND_H */
