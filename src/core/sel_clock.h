/*
 * CLOCK_MONOTONIC in nanoseconds.
 */

#ifndef SEL_CLOCK_H
#define SEL_CLOCK_H

#include <stdint.h>
#include <time.h>


static inline uint64_t
sel_clock_ns(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);

    return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}


#endif /* SEL_CLOCK_H */
