/*
 * The shared zone: one region of memory, mapped at the same address in every
 * process, that holds whatever two processes must agree on.
 *
 *     header      4 KiB: magic, layout, size, lock, versions, free list, roots
 *     proc        256 entries of 128 bytes: the process table
 *     slot        S entries of 64 bytes: the rank slots
 *     buckets     u32 each: workers by id, partitions by name and by number,
 *                 bookings by id, edges by their first key, pending
 *                 selections, bindings of sessions
 *     ring        the decision log, 1/32 of the zone
 *     chunk       256 bytes each; everything else is made of chunks
 *
 * One lock guards all of it: a robust, process-shared mutex.  A process that
 * dies inside leaves the lock with EOWNERDEAD, which is the dirty mark: the
 * taker rebuilds what is derived from the primary records and goes on.  So a
 * mutation must be written such that a death between any two of its stores
 * leaves primary records whole: chains are filled before the head chunk's tag
 * is set (release order), the tag is cleared first when a record goes, and
 * all chunks of an operation are counted before the first visible store.
 *
 * Inside the lock: no logging, no allocation, no parsing, no system calls.
 */

#ifndef SEL_ZONE_H
#define SEL_ZONE_H

#include <pthread.h>
#include <stdatomic.h>
#include "core/sel_base.h"
#include "state/sel_counters.h"


#define SEL_ZONE_MIN_SIZE    (1u << 19)
#define SEL_ZONE_MAX_SLOTS   65535
#define SEL_ZONE_PROCS       256

#define SEL_CHUNK_SIZE       256
#define SEL_CHUNK_NONE       0          /* chunk numbers start at 1 */


/* The first 8 bytes of every chunk. */
typedef struct {
    uint32_t          next;             /* chunk number of the chain */
    _Atomic uint8_t   tag;              /* sel_chunk_tag_t */
    uint8_t           aux;
    uint16_t          count;            /* used bytes or items, by tag */
} sel_chunk_t;


typedef enum {
    SEL_CHUNK_FREE = 0,
    SEL_CHUNK_BYTES,                    /* count bytes of a chain's data */
    SEL_CHUNK_WORKER,                   /* primary */
    SEL_CHUNK_PARTITION,                /* primary */
    SEL_CHUNK_METER,                    /* primary: counters of a process */
    SEL_CHUNK_BOOKING,                  /* primary */
    SEL_CHUNK_KEYS,                     /* count u64 of a chain */
    SEL_CHUNK_LIFE,                     /* a booking's weights */
    SEL_CHUNK_PENDING,                  /* primary */
    SEL_CHUNK_SESSION,                  /* primary */
    SEL_CHUNK_SESSION_ENDED,            /* primary: bookings hold it yet */
    SEL_CHUNK_EDGE,                     /* derived: of the prefix tree */
    SEL_CHUNK_CELLS                     /* derived: ranks of an edge */
} sel_chunk_tag_t;


typedef struct sel_zone_header_s  sel_zone_header_t;
typedef struct sel_proc_s         sel_proc_t;
typedef struct sel_slot_s         sel_slot_t;


/* A process's handle of the zone: addresses only, no state of its own. */
typedef struct {
    sel_zone_header_t  *header;
    sel_proc_t         *procs;
    sel_slot_t         *slots;
    uint32_t           *worker_buckets;
    uint32_t           *partition_buckets;
    uint32_t           *id_buckets;
    uint32_t           *edge_buckets;
    uint32_t           *pending_buckets;
    uint32_t           *session_buckets;
    uint8_t            *ring;           /* decision log */
    uint8_t            *chunks;         /* chunk 1 */
    size_t              size;
    uint32_t            n_slots;
    uint32_t            n_chunks;
    uint32_t            n_worker_buckets;       /* power of two */
    uint32_t            n_partition_buckets;    /* power of two; there are
                                                   two tables of them, by
                                                   names and by number */
    uint32_t            n_book_buckets;         /* power of two: of ids, of
                                                   edges, of pending, of
                                                   sessions */
    uint32_t            ring_size;              /* bytes, whole words */
} sel_zone_t;


typedef struct {
    uint64_t  chunks;           /* all */
    uint64_t  chunks_free;
    uint64_t  slots;
    uint64_t  slots_used;
    uint64_t  workers;          /* live records, tombs not counted */
    uint64_t  partitions;
    uint64_t  catalog_version;
    uint64_t  bookings;
    uint64_t  edges;            /* of the bookings' prefix tree */
    uint64_t  pending;          /* pending selections */
    uint64_t  pending_chunks;   /* that they take */
    uint64_t  sessions;         /* bindings */
} sel_zone_stats_t;


/*
 * Formats a zeroed region (size >= SEL_ZONE_MIN_SIZE, base aligned to 64) and
 * fills the handle.  Writes the header only: the rest stays untouched until
 * it is used.  False when the region is too small.
 */
bool sel_zone_format(sel_zone_t *zone, void *base, size_t size);

/* Fills the handle for a formatted region; false when it is none of ours. */
bool sel_zone_attach(sel_zone_t *zone, void *base);

/*
 * Takes the lock: spins with try-lock for up to 50 us, then sleeps.  When the
 * former owner died inside, rebuilds first.  Waits are counted.
 */
void sel_zone_lock(sel_zone_t *zone);
void sel_zone_unlock(sel_zone_t *zone);

/* Locks by itself. */
void sel_zone_stats(sel_zone_t *zone, sel_zone_stats_t *stats);

/*
 * Rebuilds everything that is derived (free list, buckets, slot table, order
 * of changes, prefix tree and loads) from the primary records.  Called inside
 * the lock; public for tests.
 */
void sel_zone_rebuild(sel_zone_t *zone);


/* Chunks.  All inside the lock. */

static inline sel_chunk_t *
sel_zone_chunk(const sel_zone_t *zone, uint32_t number)
{
    return (sel_chunk_t *) (zone->chunks
                            + (size_t) (number - 1) * SEL_CHUNK_SIZE);
}

/* How many chunks can be taken now. */
uint32_t sel_zone_chunks_free(const sel_zone_t *zone);

/* Takes a chunk, its tag FREE, next NONE; SEL_CHUNK_NONE when full. */
uint32_t sel_zone_chunk_take(sel_zone_t *zone);

/* Gives a whole chain back; SEL_CHUNK_NONE is allowed. */
void sel_zone_chain_give(sel_zone_t *zone, uint32_t first);

/*
 * Writes len bytes into a fresh chain of BYTES chunks; its first chunk, or
 * SEL_CHUNK_NONE when the zone is full (nothing is taken then) or len is 0.
 */
uint32_t sel_zone_chain_write(sel_zone_t *zone, const void *data, size_t len);

/* Chunks that len bytes need. */
uint32_t sel_zone_chain_need(size_t len);

/* Copies a chain's bytes out; false when they are not exactly len. */
bool sel_zone_chain_read(const sel_zone_t *zone, uint32_t first, void *data,
    size_t len);


/* Counters of the service; no lock. */
void sel_count(const sel_zone_t *zone, sel_counter_t counter, uint64_t n);
uint64_t sel_counted(const sel_zone_t *zone, sel_counter_t counter);


/*
 * A place where a process may die: one stands between any two stores of a
 * mutation.  Builds with SEL_CRASH_TEST call sel_crash_point() with the
 * address of the site's entry in the section sel_crash_points, so a test can
 * enumerate all sites from __start_sel_crash_points to
 * __stop_sel_crash_points; other builds do nothing here.
 */
#ifdef SEL_CRASH_TEST

void sel_crash_point(const unsigned *site);

#define SEL_CRASH_POINT()                                                     \
    do {                                                                      \
        static const unsigned  sel_site                                       \
            __attribute__((used, section("sel_crash_points"))) = __LINE__;    \
                                                                              \
        sel_crash_point(&sel_site);                                           \
    } while (0)

#else

#define SEL_CRASH_POINT()  ((void) 0)

#endif


#endif /* SEL_ZONE_H */
