/*
 * The children of the crash test: what they do until they die, and the log
 * that tells the parent how far they came.
 *
 * A child is forked with the parent's model in its memory, so it knows the
 * catalog without reading it; it changes only workers of its own.  Each
 * operation is written to the log before it begins and again when it is done,
 * so at a death at most one is in flight.
 */

#ifndef CRASH_CHILD_H
#define CRASH_CHILD_H

#include "crash_pending.h"


#define CRASH_LIVES   3         /* children at one time */
#define CRASH_IDS     16        /* workers of each */
#define CRASH_OPS     256       /* of a life */
#define CRASH_SITES   1024
#define CRASH_METERS  24
#define CRASH_ANY     0xffffffff
#define CRASH_NAMES   60        /* of partitions that nobody is in */


typedef enum {
    CRASH_COMMIT,
    CRASH_METER,
    CRASH_BOOK
} crash_kind_t;


typedef struct {
    crash_kind_t        kind;
    uint32_t            worker;     /* in the table */
    uint32_t            meter;
    uint32_t            value;
    crash_book_op_t     book;
    cat_intent_t        asked;
    cat_intent_t        got;        /* its ranks */
    sel_commit_t        result;
    uint32_t            number;
    uint64_t            version;
    bool                done;       /* METER: has been counted */
} crash_op_t;


typedef struct {
    _Atomic uint32_t    started;
    _Atomic uint32_t    begun;
    _Atomic uint32_t    finished;
    crash_op_t          ops[CRASH_OPS];
} crash_life_t;


/* In memory of parent and children. */
typedef struct {
    sel_zone_t          zone;
    crash_life_t        lives[CRASH_LIVES];
    _Atomic uint32_t    armed;      /* a site, CRASH_ANY */
    _Atomic uint32_t    countdown;  /* die the n-th time; 0: never */
    _Atomic uint32_t    rebuilding; /* the child only takes the lock */
    _Atomic uint32_t    passed[CRASH_SITES];    /* while somebody is armed */
    _Atomic uint32_t    passed_rebuilding[CRASH_SITES];
    _Atomic uint32_t    died[CRASH_SITES];
    _Atomic uint64_t    fresh;      /* ids never used before */
} crash_shared_t;


typedef struct {
    crash_shared_t     *shared;
    crash_life_t       *life;
    cat_worker_t       *workers;    /* its own */
    uint32_t            first;      /* number of the first of them */
    crash_booked_t     *booked;     /* its own */
    uint32_t            proc;
    sel_rand_t          rand;
} crash_child_t;


/* Set in children only. */
static crash_shared_t  *crash_armed;

#ifdef SEL_CRASH_TEST

extern const unsigned  __start_sel_crash_points[];
extern const unsigned  __stop_sel_crash_points[];


static inline uint32_t
crash_sites(void)
{
    return (uint32_t) (__stop_sel_crash_points - __start_sel_crash_points);
}


static inline unsigned
crash_line(uint32_t site)
{
    return __start_sel_crash_points[site];
}


void
sel_crash_point(const unsigned *site)
{
    uint32_t  i, armed;

    if (crash_armed == NULL) {
        return;
    }

    if (atomic_load(&crash_armed->countdown) == 0) {
        return;
    }

    i = (uint32_t) (site - __start_sel_crash_points);

    if (atomic_load(&crash_armed->rebuilding)) {
        atomic_fetch_add(&crash_armed->passed_rebuilding[i], 1);

    } else {
        atomic_fetch_add(&crash_armed->passed[i], 1);
    }

    armed = atomic_load(&crash_armed->armed);

    if ((armed == CRASH_ANY || armed == i)
        && atomic_fetch_sub(&crash_armed->countdown, 1) == 1)
    {
        atomic_fetch_add(&crash_armed->died[i], 1);
        (void) kill(getpid(), SIGKILL);
    }
}

#else       /* only random kills */

static inline uint32_t
crash_sites(void)
{
    return 0;
}


static inline unsigned
crash_line(uint32_t site)
{
    return site;
}

#endif


static inline uint32_t
crash_below(crash_child_t *child, uint32_t bound)
{
    return (uint32_t) sel_rand_below(&child->rand, bound);
}


static inline crash_op_t *
crash_begin(crash_child_t *child, crash_kind_t kind)
{
    crash_op_t  *op;

    op = &child->life->ops[atomic_load(&child->life->begun)];
    op->kind = kind;

    return op;
}


static inline void
crash_commit(crash_child_t *child)
{
    uint32_t          i;
    uint64_t          id;
    crash_op_t       *op;
    cat_worker_t     *worker;
    sel_partition_t   existing;

    i = crash_below(child, CRASH_IDS);
    worker = &child->workers[i];
    id = worker->now.worker_id;

    if (worker->version == 0 && crash_below(child, 2)) {
        id = atomic_fetch_add(&child->shared->fresh, 1);
    }

    op = crash_begin(child, CRASH_COMMIT);
    op->worker = child->first + i;
    cat_intend(&child->rand, worker, id, &op->asked);

    if (op->asked.blob_len != 0 && crash_below(child, 30) == 0) {
        op->asked.blob_len = crash_below(child, CAT_BLOB_MAX);
    }

    if (op->asked.makes) {
        op->asked.partition = CAT_PARTITIONS + crash_below(child, CRASH_NAMES);
    }

    op->got = op->asked;
    atomic_fetch_add(&child->life->begun, 1);

    op->result = cat_commit(&child->shared->zone, &op->got, &op->version,
                            &op->number, &existing);

    if (op->result == SEL_COMMIT_OK) {
        worker->version = op->asked.state == SEL_WORKER_GONE ? 0 : op->version;
        worker->number = op->number;
        worker->now = op->got;
    }

    atomic_fetch_add(&child->life->finished, 1);
}


static inline void
crash_book(crash_child_t *child)
{
    crash_op_t             *op;
    const cat_worker_t     *worker;
    const sel_rank_slot_t  *rank;

    op = crash_begin(child, CRASH_BOOK);
    worker = &child->workers[crash_below(child, CRASH_IDS)];
    rank = NULL;

    if (worker->version != 0 && worker->now.n_ranks != 0) {
        rank = &worker->now.ranks[crash_below(child, worker->now.n_ranks)];
    }

    crash_book_plan(&child->rand, child->booked, rank, &op->book);
    atomic_fetch_add(&child->life->begun, 1);

    if (!crash_book_perform(&child->shared->zone, child->first, &op->book)) {
        _exit(5);
    }

    child->booked[op->book.id] = op->book.after;
    atomic_fetch_add(&child->life->finished, 1);
}


/* What ends loose bookings, and what is kept beside bookings. */
static inline void
crash_beside(crash_child_t *child)
{
    sel_zone_t  *zone;

    zone = &child->shared->zone;

    switch (crash_below(child, 10)) {

    case 0:
        (void) sel_books_expire(zone, crash_below(child, CRASH_OLD),
                                1 + crash_below(child, 3));
        break;

    case 1:
        (void) sel_books_bury(zone, CRASH_ROUTED);
        break;

    default:
        if (!crash_pending_any(zone, &child->rand)) {
            _exit(6);
        }
    }
}


static inline void
crash_meter(crash_child_t *child)
{
    static const uint32_t  values[] = { 0, 40, SEL_METER_VALUES - 1 };

    crash_op_t        *op;
    _Atomic uint64_t  *meter;

    op = crash_begin(child, CRASH_METER);
    op->meter = crash_below(child, CRASH_METERS);
    op->value = values[crash_below(child, sel_countof(values))];
    op->done = false;
    atomic_fetch_add(&child->life->begun, 1);

    meter = sel_meter_attach(&child->shared->zone, op->meter);

    if (meter != NULL) {
        meter[op->value]++;
        op->done = true;
    }

    atomic_fetch_add(&child->life->finished, 1);
}


/* Chunks that are taken and given back under one lock. */
static inline void
crash_churn(crash_child_t *child)
{
    static uint8_t  data[3000], copy[3000];

    uint32_t     first, more;
    size_t       len;
    sel_zone_t  *zone;

    zone = &child->shared->zone;
    len = crash_below(child, sizeof(data));
    cat_blob(len, (uint32_t) len, data);

    sel_zone_lock(zone);

    first = sel_zone_chain_write(zone, data, len);
    more = sel_zone_chunk_take(zone);

    if (first != SEL_CHUNK_NONE
        && (!sel_zone_chain_read(zone, first, copy, len)
            || memcmp(data, copy, len) != 0))
    {
        _exit(2);
    }

    sel_zone_chain_give(zone, first);
    sel_zone_chain_give(zone, more);
    sel_zone_unlock(zone);
}


/* Reads, which must leave everything as it is wherever they end. */
static inline void
crash_read(crash_child_t *child)
{
    uint32_t             since, want;
    sel_zone_t          *zone;
    sel_arena_t          arena;
    sel_partition_t      partition;
    sel_zone_stats_t     stats;
    sel_worker_record_t  records[8];

    zone = &child->shared->zone;
    want = crash_below(child, CRASH_IDS);
    since = crash_below(child, (uint32_t) sel_catalog_version(zone) + 1);

    sel_arena_init(&arena, crash_below(child, 4) ? 0 : 100);

    if (sel_catalog_worker(zone, child->workers[want].now.worker_id, &arena,
                           records)
        != (child->workers[want].version != 0) && arena.max == 0)
    {
        _exit(3);
    }

    (void) sel_catalog_changes(zone, since, 8, &arena, records);
    (void) sel_catalog_partition(zone, 1 + want, &arena, &partition);
    sel_zone_stats(zone, &stats);
    sel_arena_free(&arena);
}


static inline void
crash_proc(crash_child_t *child)
{
    sel_zone_t  *zone;

    zone = &child->shared->zone;

    switch (crash_below(child, 4)) {

    case 0:
        (void) sel_proc_reap(zone, child->proc);
        break;

    case 1:
        sel_proc_notify(zone, child->proc, SEL_LOOK_CATALOG);
        (void) sel_proc_looked(zone, child->proc);
        break;

    default:
        sel_proc_leave(zone, child->proc);
        child->proc = sel_proc_enter(zone, (uint32_t) getpid(), child->first,
                                     2);
        if (child->proc == SEL_PROC_NONE) {
            _exit(4);
        }
    }
}


/* A life; it ends after `ops` operations if nothing happens before. */
static inline int
crash_live(crash_child_t *child, uint32_t ops)
{
    uint32_t  dice;

    crash_armed = child->shared;
    child->proc = sel_proc_enter(&child->shared->zone, (uint32_t) getpid(),
                                 child->first, 1);
    if (child->proc == SEL_PROC_NONE) {
        return 4;
    }

    atomic_store(&child->life->started, 1);

    while (atomic_load(&child->life->begun) < ops) {
        dice = crash_below(child, 100);

        if (dice < 30) {
            crash_commit(child);

        } else if (dice < 70) {
            crash_book(child);

        } else if (dice < 82) {
            crash_beside(child);

        } else if (dice < 86) {
            crash_meter(child);

        } else if (dice < 90) {
            crash_churn(child);

        } else if (dice < 94) {
            crash_read(child);

        } else {
            crash_proc(child);
        }
    }

    sel_proc_leave(&child->shared->zone, child->proc);

    return 0;
}


#endif /* CRASH_CHILD_H */
