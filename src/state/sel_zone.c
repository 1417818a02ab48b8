/*
 * The zone's layout, its lock and its counters.
 *
 * Where things are follows from the size alone, so a handle can be made anew
 * from the header at any time.  All zeroes is the right content for whatever
 * was not used yet; this is why formatting writes nothing but the header.
 */

#include <errno.h>
#include "core/sel_clock.h"
#include "core/sel_random.h"
#include "state/sel_zone_impl.h"


/* how long to spin for the lock before sleeping, and how often to look at
   the clock meanwhile */
#define SEL_SPIN_NS      50000
#define SEL_SPIN_TRIES   8
#define SEL_SPIN_PAUSES  8

/* one worker bucket for so many bytes of the zone, and one of each table of
   the books */
#define SEL_BUCKET_EACH   4096
#define SEL_MAX_BUCKETS   65536
#define SEL_BOOK_EACH     2048
#define SEL_BOOK_BUCKETS  (1u << 24)

/* the part of the zone that is the decision log: with a zone of 1m, one
   decision of 4,096 hashes fits */
#define SEL_RING_PART     32
#define SEL_RING_MORE     256
#define SEL_RING_MAX      (1u << 30)


static bool sel_zone_layout(sel_zone_t *zone, void *base, size_t size);
static uint32_t sel_zone_buckets(size_t size, size_t each, uint32_t max);
static uint8_t *sel_zone_place(sel_zone_t *zone, void *base);
static int sel_zone_wait(sel_zone_t *zone);
static int sel_zone_spin(sel_zone_t *zone, uint64_t start);


bool
sel_zone_format(sel_zone_t *zone, void *base, size_t size)
{
    sel_random_t        random;
    sel_zone_header_t  *header;

    if (!sel_zone_layout(zone, base, size)) {
        return false;
    }

    header = zone->header;
    sel_random_seed(&random);

    if (!sel_zone_init_mutex(&header->lock)) {
        return false;
    }

    header->size = size;
    header->layout = SEL_ZONE_LAYOUT;
    header->seed = sel_random_u64(&random);
    header->slot_free_first = SEL_SLOT_NONE;
    header->slot_free_last = SEL_SLOT_NONE;

    atomic_store_explicit(&header->magic, SEL_ZONE_MAGIC,
                          memory_order_release);

    return true;
}


bool
sel_zone_attach(sel_zone_t *zone, void *base)
{
    sel_zone_header_t  *header;

    header = base;

    return base != NULL
           && (uintptr_t) base % 64 == 0
           && atomic_load_explicit(&header->magic, memory_order_acquire)
              == SEL_ZONE_MAGIC
           && header->layout == SEL_ZONE_LAYOUT
           && sel_zone_layout(zone, base, header->size);
}


static bool
sel_zone_layout(sel_zone_t *zone, void *base, size_t size)
{
    size_t  n, used;

    if (base == NULL || (uintptr_t) base % 64 != 0
        || size < SEL_ZONE_MIN_SIZE)
    {
        return false;
    }

    n = size / SEL_ZONE_MAX_SLOTS < 4096 ? size / 4096 : SEL_ZONE_MAX_SLOTS;

    zone->size = size;
    zone->n_slots = (uint32_t) n;

    zone->n_worker_buckets = sel_zone_buckets(size, SEL_BUCKET_EACH,
                                              SEL_MAX_BUCKETS);
    zone->n_partition_buckets = zone->n_worker_buckets / 4;
    zone->n_book_buckets = sel_zone_buckets(size, SEL_BOOK_EACH,
                                            SEL_BOOK_BUCKETS);

    n = size / SEL_RING_PART + SEL_RING_MORE;
    n = n < SEL_RING_MAX ? n : SEL_RING_MAX;
    zone->ring_size = (uint32_t) (n / 64 * 64);

    used = (size_t) (sel_zone_place(zone, base) - (uint8_t *) base);
    used = (used + SEL_CHUNK_SIZE - 1) / SEL_CHUNK_SIZE * SEL_CHUNK_SIZE;

    zone->chunks = (uint8_t *) base + used;

    n = (size - used) / SEL_CHUNK_SIZE;
    zone->n_chunks = n < UINT32_MAX ? (uint32_t) n : UINT32_MAX - 1;

    return true;
}


/* The highest power of two that is at most one for `each` bytes. */

static uint32_t
sel_zone_buckets(size_t size, size_t each, uint32_t max)
{
    uint32_t  n;

    n = 1;

    while (n < max && n <= size / each / 2) {
        n *= 2;
    }

    return n;
}


/* Lays out what stands before the chunks; returns where it ends. */

static uint8_t *
sel_zone_place(sel_zone_t *zone, void *base)
{
    uint8_t  *p;

    p = base;
    zone->header = base;

    p += SEL_HEADER_SIZE;
    zone->procs = (sel_proc_t *) p;

    p += SEL_ZONE_PROCS * sizeof(sel_proc_t);
    zone->slots = (sel_slot_t *) p;

    p += zone->n_slots * sizeof(sel_slot_t);
    zone->worker_buckets = (uint32_t *) p;

    p += zone->n_worker_buckets * sizeof(uint32_t);
    zone->partition_buckets = (uint32_t *) p;

    p += 2 * zone->n_partition_buckets * sizeof(uint32_t);
    zone->id_buckets = (uint32_t *) p;

    p += zone->n_book_buckets * sizeof(uint32_t);
    zone->edge_buckets = (uint32_t *) p;

    p += zone->n_book_buckets * sizeof(uint32_t);
    zone->pending_buckets = (uint32_t *) p;

    p += zone->n_book_buckets * sizeof(uint32_t);
    zone->session_buckets = (uint32_t *) p;

    p += zone->n_book_buckets * sizeof(uint32_t);
    zone->ring = p;

    return p + zone->ring_size;
}


bool
sel_zone_init_mutex(pthread_mutex_t *mutex)
{
    bool                 ok;
    pthread_mutexattr_t  attr;

    if (pthread_mutexattr_init(&attr) != 0) {
        return false;
    }

    ok = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) == 0
         && pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST) == 0
         && pthread_mutex_init(mutex, &attr) == 0;

    (void) pthread_mutexattr_destroy(&attr);

    return ok;
}


void
sel_zone_lock(sel_zone_t *zone)
{
    int  rc;

    rc = pthread_mutex_trylock(&zone->header->lock);

    if (rc == EBUSY) {
        rc = sel_zone_wait(zone);
    }

    if (rc == EOWNERDEAD) {

        /* only a whole rebuild makes the lock consistent: who dies in it
           leaves EOWNERDEAD to the next owner once more */

        sel_zone_rebuild(zone);
        SEL_ZONE_STEP();
        (void) pthread_mutex_consistent(&zone->header->lock);
        sel_count(zone, SEL_COUNT_REBUILDS, 1);
    }
}


void
sel_zone_unlock(sel_zone_t *zone)
{
    (void) pthread_mutex_unlock(&zone->header->lock);
}


static int
sel_zone_wait(sel_zone_t *zone)
{
    int       rc;
    uint64_t  start;

    start = sel_clock_ns();

    rc = sel_zone_spin(zone, start);

    if (rc == EBUSY) {
        rc = pthread_mutex_lock(&zone->header->lock);
    }

    sel_count(zone, SEL_COUNT_LOCK_WAITS, 1);
    sel_count(zone, SEL_COUNT_LOCK_WAIT_NS, sel_clock_ns() - start);

    return rc;
}


static int
sel_zone_spin(sel_zone_t *zone, uint64_t start)
{
    int       rc;
    unsigned  i, j;

    do {
        for (i = 0; i < SEL_SPIN_TRIES; i++) {

            for (j = 0; j < SEL_SPIN_PAUSES; j++) {
#if defined(__x86_64__) || defined(__i386__)
                __builtin_ia32_pause();
#elif defined(__aarch64__)
                __asm__ __volatile__("yield");
#endif
            }

            rc = pthread_mutex_trylock(&zone->header->lock);

            if (rc != EBUSY) {
                return rc;
            }
        }

    } while (sel_clock_ns() - start < SEL_SPIN_NS);

    return EBUSY;
}


void
sel_zone_stats(sel_zone_t *zone, sel_zone_stats_t *stats)
{
    sel_zone_header_t  *header;

    header = zone->header;

    stats->chunks = zone->n_chunks;
    stats->slots = zone->n_slots;

    sel_zone_lock(zone);

    stats->chunks_free = sel_zone_chunks_free(zone);
    stats->slots_used = header->slots_used;
    stats->workers = header->workers;
    stats->partitions = header->partitions;
    stats->catalog_version = sel_catalog_version(zone);
    stats->bookings = header->bookings;
    stats->edges = header->edges;
    stats->pending = header->pending;
    stats->pending_chunks = header->pending_chunks;
    stats->sessions = header->sessions;

    sel_zone_unlock(zone);
}


void
sel_count(const sel_zone_t *zone, sel_counter_t counter, uint64_t n)
{
    (void) atomic_fetch_add_explicit(&zone->header->counters[counter], n,
                                     memory_order_relaxed);
}


uint64_t
sel_counted(const sel_zone_t *zone, sel_counter_t counter)
{
    return atomic_load_explicit(&zone->header->counters[counter],
                                memory_order_relaxed);
}
