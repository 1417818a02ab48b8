/*
 * xoshiro256++ by Blackman and Vigna; a single seed is spread over the state
 * by splitmix64, which never gives the all-zero state.
 */

#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include "core/sel_clock.h"
#include "core/sel_random.h"


static uint64_t sel_random_rotate(uint64_t value, unsigned bits);


void
sel_random_seed(sel_random_t *random)
{
    ssize_t  n;

    n = getrandom(random->s, sizeof(random->s), GRND_NONBLOCK);

    if (n != (ssize_t) sizeof(random->s)
        || (random->s[0] | random->s[1] | random->s[2] | random->s[3]) == 0)
    {
        sel_random_seed_with(random, sel_clock_ns()
                                     ^ (uint64_t) time(NULL) << 32
                                     ^ (uint64_t) getpid() << 16);
    }
}


void
sel_random_seed_with(sel_random_t *random, uint64_t seed)
{
    unsigned  i;
    uint64_t  z;

    for (i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15;

        z = seed;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;

        random->s[i] = z ^ (z >> 31);
    }
}


uint64_t
sel_random_u64(sel_random_t *random)
{
    uint64_t  *s, t, result;

    s = random->s;

    result = sel_random_rotate(s[0] + s[3], 23) + s[0];
    t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = sel_random_rotate(s[3], 45);

    return result;
}


/* Drops the lowest 2^64 mod bound values, so that the rest divides evenly. */

uint64_t
sel_random_below(sel_random_t *random, uint64_t bound)
{
    uint64_t  value, uneven;

    uneven = -bound % bound;

    do {
        value = sel_random_u64(random);
    } while (value < uneven);

    return value % bound;
}


double
sel_random_unit(sel_random_t *random)
{
    return (double) (sel_random_u64(random) >> 11) * 0x1p-53;
}


static uint64_t
sel_random_rotate(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}
