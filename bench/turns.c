/*
 * How long the turns of an event loop are: from the return of epoll_wait() to
 * the next call.  Preloaded into nginx, with BENCH_TURNS naming a file that is
 * TURNS_SIZE bytes long; the main thread's turns go there, those of libzmq's
 * threads do not count.  The file has a number of turns, then of each the
 * nanoseconds on the clock and of the CPU, and the page faults.
 *
 * Only a single worker process may write: nothing is locked.
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>


#define TURNS_MAX   ((TURNS_SIZE - sizeof(turns_t)) / sizeof(turns_turn_t))
#define TURNS_SIZE  (16 << 20)


typedef struct {
    uint64_t       clock;
    uint64_t       cpu;
    uint64_t       faults;
} turns_turn_t;


typedef struct {
    uint64_t       n;
    turns_turn_t   turns[];
} turns_t;


typedef int (*turns_wait_pt)(int, struct epoll_event *, int, int);


static void turns_now(turns_turn_t *now);
static uint64_t turns_ns(clockid_t clock);


static turns_t        *turns;
static turns_turn_t    turns_began;
static turns_wait_pt   turns_wait;


static void __attribute__((constructor))
turns_init(void)
{
    int          fd;
    void        *map;
    const char  *path;

    *(void **) &turns_wait = dlsym(RTLD_NEXT, "epoll_wait");

    path = getenv("BENCH_TURNS");
    fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);

    if (fd != -1) {
        map = mmap(NULL, TURNS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                   0);
        turns = map == MAP_FAILED ? NULL : map;
        (void) close(fd);
    }
}


int
epoll_wait(int epfd, struct epoll_event *events, int max, int timeout)
{
    int            n;
    turns_turn_t   now, *turn;

    if (turns == NULL || gettid() != getpid()) {
        return turns_wait(epfd, events, max, timeout);
    }

    if (turns_began.clock != 0 && turns->n < TURNS_MAX) {
        turns_now(&now);
        turn = &turns->turns[turns->n++];
        turn->clock = now.clock - turns_began.clock;
        turn->cpu = now.cpu - turns_began.cpu;
        turn->faults = now.faults - turns_began.faults;
    }

    n = turns_wait(epfd, events, max, timeout);

    turns_now(&turns_began);

    return n;
}


static void
turns_now(turns_turn_t *now)
{
    struct rusage  usage;

    (void) getrusage(RUSAGE_THREAD, &usage);

    now->clock = turns_ns(CLOCK_MONOTONIC);
    now->cpu = turns_ns(CLOCK_THREAD_CPUTIME_ID);
    now->faults = (uint64_t) (usage.ru_minflt + usage.ru_majflt);
}


static uint64_t
turns_ns(clockid_t clock)
{
    struct timespec  ts;

    (void) clock_gettime(clock, &ts);

    return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}
