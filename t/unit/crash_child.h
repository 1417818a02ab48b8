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


/* A rank of the child's workers that is there now, maybe in this partition
   (0: any); false when there is none. */
static inline bool
crash_rank(crash_child_t *child, uint32_t partition, crash_bound_t *bound,
    sel_rank_slot_t *rank)
{
    uint32_t             i, k;
    const cat_worker_t  *worker;

    k = crash_below(child, CRASH_IDS);

    for (i = 0; i < CRASH_IDS; i++) {
        worker = &child->workers[(k + i) % CRASH_IDS];

        if (worker->version == 0 || worker->now.n_ranks == 0
            || (partition != 0 && worker->number != partition))
        {
            if (partition == 0 && i > 2) {
                return false;
            }

            continue;
        }

        *rank = worker->now.ranks[crash_below(child, worker->now.n_ranks)];
        bound->partition = worker->number;
        bound->worker_id = worker->now.worker_id;
        bound->dp_rank = rank->dp_rank;
        return true;
    }

    return false;
}


/* The rank of this name, if it is there. */
static inline bool
crash_rank_of(const crash_child_t *child, const crash_bound_t *bound,
    sel_rank_slot_t *rank)
{
    uint32_t             i, k;
    const cat_worker_t  *worker;

    for (i = 0; i < CRASH_IDS; i++) {
        worker = &child->workers[i];

        if (worker->version == 0 || worker->number != bound->partition
            || worker->now.worker_id != bound->worker_id)
        {
            continue;
        }

        for (k = 0; k < worker->now.n_ranks; k++) {
            if (worker->now.ranks[k].dp_rank == bound->dp_rank) {
                *rank = worker->now.ranks[k];
                return true;
            }
        }
    }

    return false;
}


/* Whether a booking that nobody else ends holds a binding. */
static inline bool
crash_held(const crash_child_t *child, uint64_t revision)
{
    uint32_t               i;
    sel_rank_slot_t        rank;
    const crash_booked_t  *booked;

    for (i = 0; i < CRASH_BOOKINGS; i++) {
        booked = &child->booked[i];

        if (booked->live && !booked->loose && booked->bound.id != 0
            && booked->bound.revision == revision
            && crash_rank_of(child, &booked->bound, &rank)
            && rank.slot == booked->slot && rank.epoch == booked->epoch)
        {
            return true;
        }
    }

    return false;
}


static inline crash_bound_t
crash_find(crash_child_t *child, const crash_bound_t *session, uint64_t now)
{
    char           text[256];
    crash_bound_t  bound;
    sel_binding_t  found;

    found = sel_session_find(&child->shared->zone, session->partition,
                             crash_session_id(session->owner, session->id,
                                              text), now);
    bound = *session;
    bound.revision = found.revision;
    bound.worker_id = found.worker_id;
    bound.dp_rank = found.dp_rank;

    return bound;
}


static inline bool
crash_same_rank(const crash_bound_t *a, const crash_bound_t *b)
{
    return a->worker_id == b->worker_id && a->dp_rank == b->dp_rank;
}


/* Whether a booking of a session came to what the rules say. */
static inline bool
crash_book_right(crash_child_t *child, crash_book_op_t *op, uint64_t unbound)
{
    bool             other, stale, there;
    sel_rank_slot_t  rank;

    op->made = crash_find(child, &op->asked, op->now);
    stale = op->revision != op->found.revision;
    other = op->found.revision != 0
            && !crash_same_rank(&op->found, &op->asked);
    there = crash_rank_of(child, &op->found, &rank);

    switch (op->result) {

    case SEL_BOOK_OK:
        op->after.bound.revision = op->made.revision;

        if (op->made.revision == 0) {
            return op->after.loose
                   || sel_counted(&child->shared->zone,
                                  SEL_COUNT_SESSION_UNBOUND) != unbound;
        }

        return crash_same_rank(&op->made, &op->asked)
               && (!op->held
                   || (!stale && (!other || op->follows || !there)
                       && (op->made.revision == op->found.revision)
                          == !other));

    case SEL_BOOK_BOUND:
        return !stale && other && !op->follows && there
               && op->made.revision == 0;

    case SEL_BOOK_MOVED:
        return stale || (op->made.revision != op->found.revision && !op->held);

    default:
        return !op->held || op->made.revision == op->found.revision;
    }
}


/* A booking for a session: often one that others are of. */
static inline void
crash_book_session(crash_child_t *child, crash_book_op_t *op,
    sel_rank_slot_t *rank)
{
    bool                   again;
    crash_bound_t         *asked;
    const crash_booked_t  *booked;

    asked = &op->asked;
    booked = &child->booked[crash_below(child, CRASH_BOOKINGS)];
    again = booked->live && booked->bound.id != 0;

    if (again && crash_below(child, 2)
        && crash_rank_of(child, &booked->bound, rank))
    {
        *asked = booked->bound;

    } else if (!crash_rank(child, again ? booked->bound.partition : 0, asked,
                           rank))
    {
        return;
    }

    asked->owner = child->first;
    asked->id = again ? booked->bound.id
                      : 1 + crash_below(child, CRASH_SESSIONS);
    asked->revision = 0;
    op->follows = crash_below(child, 5) == 0;
}


/* Which binding it is chosen by, and when. */
static inline void
crash_book_chosen(crash_child_t *child, crash_book_op_t *op)
{
    uint64_t  start;

    start = op->after.loose ? 0 : CRASH_OLD;

    if (op->asked.id == 0) {
        op->now = start + 1 + op->after.seed;
        return;
    }

    if (!op->after.loose) {
        start = sel_clock_ns() / CRASH_OLD * CRASH_OLD;
    }

    op->now = start + 1 + op->after.seed;
    op->found = crash_find(child, &op->asked, op->now);
    op->held = op->found.revision != 0
               && crash_held(child, op->found.revision);
    op->revision = op->found.revision;

    if (!op->follows && crash_below(child, 16) == 0) {
        op->revision = crash_below(child, 2) ? op->revision + 1 : 0;
    }
}


static inline void
crash_book(crash_child_t *child)
{
    uint64_t          unbound;
    sel_zone_t       *zone;
    crash_op_t       *op;
    crash_book_op_t  *book;
    sel_rank_slot_t   rank;

    zone = &child->shared->zone;
    op = crash_begin(child, CRASH_BOOK);
    book = &op->book;
    memset(book, 0, sizeof(crash_book_op_t));
    rank.slot = SEL_SLOT_NONE;

    if (crash_below(child, 2)) {
        crash_book_session(child, book, &rank);

    } else {
        (void) crash_rank(child, 0, &book->asked, &rank);
    }

    crash_book_plan(&child->rand, child->booked, &book->asked,
                    rank.slot == SEL_SLOT_NONE ? NULL : &rank, book);

    if (book->call == CRASH_BOOK_MAKE) {
        crash_book_chosen(child, book);

    } else {
        book->asked.id = 0;
    }

    unbound = sel_counted(zone, SEL_COUNT_SESSION_UNBOUND);
    atomic_fetch_add(&child->life->begun, 1);

    if (!crash_book_perform(zone, child->first, book)) {
        _exit(5);
    }

    if (book->asked.id != 0 && !crash_book_right(child, book, unbound)) {
        _exit(7);
    }

    child->booked[book->id] = book->after;
    atomic_fetch_add(&child->life->finished, 1);
}


/* What ends loose bookings, and what is kept beside bookings. */
static inline void
crash_beside(crash_child_t *child)
{
    sel_zone_t  *zone;

    zone = &child->shared->zone;

    switch (crash_below(child, 12)) {

    case 0:
    case 1:
        (void) sel_sessions_reap(zone, sel_clock_ns(),
                                 1 + crash_below(child, 4));
        break;

    case 2:
        (void) sel_books_expire(zone, crash_below(child, CRASH_OLD),
                                1 + crash_below(child, 3));
        break;

    case 3:
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
