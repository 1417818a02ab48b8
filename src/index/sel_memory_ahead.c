#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "index/sel_memory_ahead.h"


#define SEL_AHEAD_RANGES  16
#define SEL_AHEAD_STEP    ((size_t) 4096)
#define SEL_AHEAD_STACK   ((size_t) 256 * 1024)


typedef struct {
    uint8_t  *from;
    uint8_t  *to;
} sel_ahead_range_t;


typedef struct {
    pthread_mutex_t    lock;
    pthread_cond_t     posted;
    pthread_cond_t     done;
    pid_t              pid;             /* of the process with the thread */
    uint32_t           n;
    sel_ahead_range_t  ranges[SEL_AHEAD_RANGES];
    sel_ahead_range_t  now;             /* being touched; from NULL: none */
} sel_ahead_t;


static bool sel_ahead_running(void);
static bool sel_ahead_start(pid_t pid);
static void *sel_ahead_thread(void *data);
static sel_ahead_range_t sel_ahead_next(void);
static void sel_ahead_touch(sel_ahead_range_t page);
static bool sel_ahead_overlap(sel_ahead_range_t one, sel_ahead_range_t two);


static sel_ahead_t       sel_ahead;
static volatile uint8_t  sel_ahead_zero;


void
sel_memory_ahead(uint8_t *p, size_t size)
{
    if (size == 0 || !sel_ahead_running()) {
        return;
    }

    (void) pthread_mutex_lock(&sel_ahead.lock);

    if (sel_ahead.n < SEL_AHEAD_RANGES) {
        sel_ahead.ranges[sel_ahead.n++] = (sel_ahead_range_t) { p, p + size };
        (void) pthread_cond_signal(&sel_ahead.posted);
    }

    (void) pthread_mutex_unlock(&sel_ahead.lock);
}


void
sel_memory_ahead_forget(const uint8_t *p, size_t size)
{
    uint32_t           i, n;
    sel_ahead_range_t  gone;

    if (sel_ahead.pid != getpid()) {
        return;
    }

    gone = (sel_ahead_range_t) { (uint8_t *) p, (uint8_t *) p + size };

    (void) pthread_mutex_lock(&sel_ahead.lock);

    for (i = 0, n = 0; i < sel_ahead.n; i++) {
        if (!sel_ahead_overlap(sel_ahead.ranges[i], gone)) {
            sel_ahead.ranges[n++] = sel_ahead.ranges[i];
        }
    }

    sel_ahead.n = n;

    while (sel_ahead_overlap(sel_ahead.now, gone)) {
        (void) pthread_cond_wait(&sel_ahead.done, &sel_ahead.lock);
    }

    (void) pthread_mutex_unlock(&sel_ahead.lock);
}


void
sel_memory_ahead_wait(void)
{
    if (sel_ahead.pid != getpid()) {
        return;
    }

    (void) pthread_mutex_lock(&sel_ahead.lock);

    while (sel_ahead.n != 0 || sel_ahead.now.from != NULL) {
        (void) pthread_cond_wait(&sel_ahead.done, &sel_ahead.lock);
    }

    (void) pthread_mutex_unlock(&sel_ahead.lock);
}


/* A child of fork() has no thread, and starts one of its own. */

static bool
sel_ahead_running(void)
{
    pid_t  pid;

    pid = getpid();

    return sel_ahead.pid == pid || sel_ahead_start(pid);
}


static bool
sel_ahead_start(pid_t pid)
{
    bool            ok;
    sigset_t        all, old;
    pthread_t       thread;
    pthread_attr_t  attr;

    sel_ahead = (sel_ahead_t) {
        .lock = PTHREAD_MUTEX_INITIALIZER, .posted = PTHREAD_COND_INITIALIZER,
        .done = PTHREAD_COND_INITIALIZER
    };

    if (pthread_attr_init(&attr) != 0) {
        return false;
    }

    /* signals are for the event loop */

    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &old);

    ok = pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) == 0
         && pthread_attr_setstacksize(&attr, SEL_AHEAD_STACK) == 0
         && pthread_create(&thread, &attr, sel_ahead_thread, NULL) == 0;

    (void) pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void) pthread_attr_destroy(&attr);

    if (ok) {
        sel_ahead.pid = pid;
    }

    return ok;
}


static void *
sel_ahead_thread(void *data)
{
    (void) pthread_mutex_lock(&sel_ahead.lock);

    for ( ;; ) {

        while (sel_ahead.n == 0) {
            (void) pthread_cond_wait(&sel_ahead.posted, &sel_ahead.lock);
        }

        sel_ahead.now = sel_ahead_next();

        (void) pthread_mutex_unlock(&sel_ahead.lock);

        sel_ahead_touch(sel_ahead.now);

        (void) pthread_mutex_lock(&sel_ahead.lock);

        sel_ahead.now = (sel_ahead_range_t) { NULL, NULL };
        (void) pthread_cond_broadcast(&sel_ahead.done);
    }

    return NULL;
}


/* Takes the uppermost page of the first range, whose rest waits until the
   others had their turn: the first pages of all are needed first. */

static sel_ahead_range_t
sel_ahead_next(void)
{
    uint32_t            i;
    sel_ahead_range_t   page, range;

    range = sel_ahead.ranges[0];
    sel_ahead.n--;

    for (i = 0; i < sel_ahead.n; i++) {
        sel_ahead.ranges[i] = sel_ahead.ranges[i + 1];
    }

    page.to = range.to;
    page.from = (uint8_t *) (((uintptr_t) range.to - 1)
                             & ~(uintptr_t) (SEL_MEMORY_HUGE - 1));
    page.from = page.from > range.from ? page.from : range.from;

    range.to = page.from;

    if (range.to != range.from) {
        sel_ahead.ranges[sel_ahead.n++] = range;
    }

    return page;
}


/* The owner may write to the page at the same time.  A compiler that knew of
   the zero would only read, which makes nothing present. */

static void
sel_ahead_touch(sel_ahead_range_t page)
{
    uint8_t  *p;

    for (p = page.from; p < page.to; p += SEL_AHEAD_STEP) {
        (void) __atomic_fetch_or(p, sel_ahead_zero, __ATOMIC_RELAXED);
    }
}


static bool
sel_ahead_overlap(sel_ahead_range_t one, sel_ahead_range_t two)
{
    return one.from < two.to && two.from < one.to;
}
