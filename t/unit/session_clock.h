/*
 * A clock that the tests of sessions set: releases read the time by
 * themselves.  Include once in a test.
 */

#ifndef SESSION_CLOCK_H
#define SESSION_CLOCK_H

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>


static uint64_t  session_clock;         /* sel_clock_ns(); 0: the real one */


/* In place of the system's, for all of the program. */
int
clock_gettime(clockid_t clock, struct timespec *ts)
{
    if (clock == CLOCK_MONOTONIC && session_clock != 0) {
        ts->tv_sec = (time_t) (session_clock / 1000000000);
        ts->tv_nsec = (long) (session_clock % 1000000000);
        return 0;
    }

    return (int) syscall(SYS_clock_gettime, clock, ts);
}


#endif /* SESSION_CLOCK_H */
