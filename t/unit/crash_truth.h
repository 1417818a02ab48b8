/*
 * The parent's side of the crash test: what the zone must hold after some
 * children have ended.  Finished operations are applied to the model in the
 * order of their versions; of one in flight the zone shows whether it
 * happened, and it must have happened as a whole or not at all.
 *
 * Functions give NULL when all is well, else a sentence.
 */

#ifndef CRASH_TRUTH_H
#define CRASH_TRUTH_H

#include "catalog_reader.h"
#include "crash_sessions.h"


#define CRASH_WORKERS  (CRASH_LIVES * CRASH_IDS)
#define CRASH_PATIENCE UINT64_C(2000000000)     /* ns, for the lock */


typedef struct {
    crash_shared_t     *shared;
    cat_book_t         *book;
    cat_reader_t       *reader;
    cat_worker_t        workers[CRASH_WORKERS];
    crash_booked_t      booked[CRASH_LIVES][CRASH_BOOKINGS];
    crash_sessions_t    sessions;
    uint64_t            no_room;        /* bookings lost for it */
    uint64_t            decided;        /* place in the decision log */
    uint64_t            version;
    bool                metered[CRASH_METERS];
    uint64_t            meters[CRASH_METERS][SEL_METER_VALUES];
    uint64_t            deaths;         /* at most, in this zone */
    uint32_t            self;           /* entry of the parent */
    uint64_t            slowest;        /* wait for the lock, ns */
    uint32_t            n_ops;          /* committed, to be applied */
    crash_op_t         *ops[CRASH_LIVES * CRASH_OPS];
    uint32_t            in_flight;      /* commits */
} crash_truth_t;


/* The lock must come in bounded time, and the zone must be sound behind it. */
static inline const char *
truth_lock(crash_truth_t *truth)
{
    uint64_t     start, waited;
    const char  *error;

    start = sel_clock_ns();
    sel_zone_lock(&truth->shared->zone);
    waited = sel_clock_ns() - start;

    error = sel_zone_check(&truth->shared->zone);
    sel_zone_unlock(&truth->shared->zone);

    if (waited > truth->slowest) {
        truth->slowest = waited;
    }

    if (error == NULL && waited > CRASH_PATIENCE) {
        error = "the lock came late";
    }

    return error;
}


/* The version that a worker has by the finished operations of its life. */
static inline uint64_t
truth_last_version(crash_truth_t *truth, crash_life_t *life, uint32_t finished,
    uint32_t worker)
{
    uint32_t  i;
    uint64_t  version;

    version = truth->workers[worker].version;

    for (i = 0; i < finished; i++) {
        if (life->ops[i].kind == CRASH_COMMIT && life->ops[i].worker == worker
            && life->ops[i].result == SEL_COMMIT_OK)
        {
            version = life->ops[i].asked.state == SEL_WORKER_GONE
                      ? 0 : life->ops[i].version;
        }
    }

    return version;
}


/* Finds out whether a commit in flight has happened; then it is complete. */
static inline const char *
truth_resolve(crash_truth_t *truth, crash_life_t *life, uint32_t finished,
    bool *happened)
{
    int                  found;
    uint64_t             last;
    crash_op_t          *op;
    sel_arena_t          arena;
    const char          *error;
    sel_worker_record_t  record;

    op = &life->ops[finished];
    last = truth_last_version(truth, life, finished, op->worker);

    sel_arena_init(&arena, 0);
    found = sel_catalog_worker(&truth->shared->zone, op->asked.worker_id,
                               &arena, &record);
    error = NULL;

    if (op->asked.state == SEL_WORKER_GONE) {
        *happened = found == 0;
        op->version = 0;

    } else {
        *happened = found == 1 && record.version > last;
    }

    op->got = op->asked;
    op->number = 0;

    if (*happened && found == 1) {
        op->version = record.version;
        op->number = record.partition;

        if (record.n_ranks != op->asked.n_ranks) {
            error = "a commit in flight has happened with other ranks";

        } else if (record.n_ranks > 0) {
            memcpy(op->got.ranks, record.ranks,
                   record.n_ranks * sizeof(sel_rank_slot_t));
        }
    }

    sel_arena_free(&arena);

    return error;
}


/* Collects what one life has committed. */
static inline const char *
truth_collect(crash_truth_t *truth, crash_life_t *life)
{
    bool         happened;
    uint32_t     i, finished;
    crash_op_t  *op;
    const char  *error;

    finished = atomic_load(&life->finished);

    for (i = 0; i < finished; i++) {
        op = &life->ops[i];

        if (op->kind != CRASH_COMMIT) {
            continue;
        }

        if (op->result == SEL_COMMIT_OK) {
            truth->ops[truth->n_ops++] = op;

        } else if (op->result != SEL_COMMIT_NO_SLOTS
                   && op->result != SEL_COMMIT_FULL)
        {
            return cat_say(truth->book, "a commit ended with %d", op->result);
        }
    }

    if (atomic_load(&life->begun) == finished
        || life->ops[finished].kind != CRASH_COMMIT)
    {
        return NULL;
    }

    truth->in_flight++;
    error = truth_resolve(truth, life, finished, &happened);

    if (error == NULL && happened) {
        truth->ops[truth->n_ops++] = &life->ops[finished];
    }

    return error;
}


/* By version; a deletion that was in flight, whose version is 0, is last. */
static inline int
truth_compare(const void *a, const void *b)
{
    uint64_t  x, y;

    x = (*(crash_op_t *const *) a)->version - 1;
    y = (*(crash_op_t *const *) b)->version - 1;

    return (x > y) - (x < y);
}


static inline const char *
truth_apply(crash_truth_t *truth, const crash_op_t *op)
{
    uint32_t       i;
    const char    *error;
    cat_worker_t  *worker;

    worker = &truth->workers[op->worker];

    if (op->version != 0) {
        if (op->version <= truth->version) {
            return cat_say(truth->book, "version %" PRIu64 " after %" PRIu64,
                           op->version, truth->version);
        }

        truth->version = op->version;
    }

    error = cat_check_ranks(truth->book, &truth->shared->zone, &op->asked,
                            &worker->now, op->got.ranks);

    if (error == NULL && op->asked.state == SEL_WORKER_SCHEDULABLE) {
        error = cat_book_number(truth->book, op->number, op->asked.partition);
    }

    for (i = 0; error == NULL && i < op->asked.n_ranks; i++) {
        error = cat_book_slot(truth->book, op->number, op->asked.worker_id,
                              &op->got.ranks[i]);
    }

    worker->version = op->asked.state == SEL_WORKER_GONE ? 0 : op->version;
    worker->number = op->number;
    worker->now = op->got;

    return error;
}


/* Every worker reads as the model has it; no slot serves two. */
static inline const char *
truth_workers(crash_truth_t *truth)
{
    int                  found;
    uint32_t             i, k, n, slots;
    uint8_t              used[SEL_ZONE_MAX_SLOTS];
    const char          *error;
    sel_arena_t          arena;
    cat_worker_t        *worker;
    sel_zone_stats_t     stats;
    sel_worker_record_t  record;

    memset(used, 0, sizeof(used));
    error = NULL;
    n = 0;
    slots = 0;

    for (i = 0; i < CRASH_WORKERS && error == NULL; i++) {
        worker = &truth->workers[i];

        sel_arena_init(&arena, 0);
        found = sel_catalog_worker(&truth->shared->zone, worker->now.worker_id,
                                   &arena, &record);

        if (found != (worker->version != 0)) {
            error = found ? "a worker that is gone is found"
                          : "a worker is not found";

        } else if (found) {
            error = cat_check_record(truth->book, &record, worker);
            n++;

            for (k = 0; k < worker->now.n_ranks; k++) {
                slots++;

                if (used[worker->now.ranks[k].slot]++) {
                    error = "a slot of two workers";
                }
            }
        }

        sel_arena_free(&arena);
    }

    stats = state_stats(&truth->shared->zone);

    if (error == NULL && (stats.workers != n || stats.slots_used != slots)) {
        error = cat_say(truth->book, "%" PRIu64 " workers with %" PRIu64
                        " slots, expected %u with %u", stats.workers,
                        stats.slots_used, n, slots);
    }

    return error;
}


static inline const char *
truth_version(crash_truth_t *truth, uint64_t before)
{
    uint64_t  now;

    now = sel_catalog_version(&truth->shared->zone);

    /* one that was in flight may have used a version up */
    if (now < truth->version || now < before
        || now > before + truth->n_ops + truth->in_flight)
    {
        return cat_say(truth->book, "catalog version %" PRIu64 ", was %" PRIu64
                       ", %u commits later", now, before, truth->n_ops);
    }

    truth->version = now;

    return NULL;
}


static inline const char *
truth_reader(crash_truth_t *truth, uint32_t max)
{
    uint32_t     i, k, n;
    const char  *error;

    error = cat_reader_follow(truth->reader, &truth->shared->zone, max, NULL,
                              NULL);
    if (error != NULL) {
        return error;
    }

    n = 0;

    for (i = 0; i < CRASH_WORKERS; i++) {
        if (truth->workers[i].version == 0) {
            continue;
        }

        n++;
        k = cat_reader_find(truth->reader, truth->workers[i].now.worker_id);

        if (k == truth->reader->n
            || truth->reader->versions[k] != truth->workers[i].version)
        {
            return "a reader has missed a change";
        }
    }

    return n == truth->reader->n ? NULL : "a reader keeps a gone worker";
}


static inline const char *
truth_meters(crash_truth_t *truth, uint32_t lives)
{
    bool         read;
    uint32_t     i, m, v, finished;
    uint64_t     maybe[CRASH_METERS][SEL_METER_VALUES];
    uint64_t     values[SEL_METER_VALUES];
    crash_op_t  *op;

    memset(maybe, 0, sizeof(maybe));

    for (m = 0; m < lives; m++) {
        finished = atomic_load(&truth->shared->lives[m].finished);

        for (i = 0; i < atomic_load(&truth->shared->lives[m].begun); i++) {
            op = &truth->shared->lives[m].ops[i];

            if (op->kind == CRASH_METER && i == finished) {
                maybe[op->meter][op->value]++;

            } else if (op->kind == CRASH_METER && op->done) {
                truth->meters[op->meter][op->value]++;
                truth->metered[op->meter] = true;
            }
        }
    }

    for (m = 0; m < CRASH_METERS; m++) {
        read = sel_meter_read(&truth->shared->zone, m, values);

        if (truth->metered[m] && !read) {
            return "a meter is gone";
        }

        truth->metered[m] = read;

        for (v = 0; read && v < SEL_METER_VALUES; v++) {
            if (values[v] < truth->meters[m][v]
                || values[v] > truth->meters[m][v] + maybe[m][v])
            {
                return "a meter has another value";
            }

            truth->meters[m][v] = values[v];
        }
    }

    return NULL;
}


/* What finished operations on bookings have come to, and the one in flight. */
static inline const char *
truth_books(crash_truth_t *truth, uint32_t lives)
{
    bool                    full;
    uint32_t                i, m, finished;
    uint64_t                no_room;
    const char             *error;
    sel_zone_t             *zone;
    crash_life_t           *life;
    const crash_book_op_t  *op;

    error = NULL;
    zone = &truth->shared->zone;
    no_room = sel_counted(zone, SEL_COUNT_BOOKING_NO_ROOM);
    full = no_room != truth->no_room;
    truth->no_room = no_room;
    truth->sessions.booked = truth->booked;

    sel_zone_lock(zone);

    for (m = 0; m < CRASH_LIVES && error == NULL; m++) {
        life = &truth->shared->lives[m];
        finished = m < lives ? atomic_load(&life->finished) : 0;
        op = NULL;

        for (i = 0; i < finished && error == NULL; i++) {
            if (life->ops[i].kind == CRASH_BOOK) {
                truth->booked[m][life->ops[i].book.id] =
                                                   life->ops[i].book.after;
                error = crash_sessions_apply(&truth->sessions,
                                             &life->ops[i].book);
            }
        }

        if (m < lives && atomic_load(&life->begun) != finished
            && life->ops[finished].kind == CRASH_BOOK)
        {
            op = &life->ops[finished].book;
        }

        truth->sessions.flight[m] = op;

        if (error == NULL) {
            error = crash_books_settle(zone, m * CRASH_IDS, truth->booked[m],
                                       op, full);
        }
    }

    if (error == NULL) {
        error = crash_sessions_settle(&truth->sessions);
    }

    sel_zone_unlock(zone);

    return error != NULL ? error : crash_decisions(zone, &truth->decided);
}


/* Nobody is in the table but the parent. */
static inline const char *
truth_procs(crash_truth_t *truth)
{
    uint32_t     i;
    sel_zone_t  *zone;

    zone = &truth->shared->zone;
    (void) sel_proc_reap(zone, truth->self);

    for (i = 0; i < SEL_ZONE_PROCS; i++) {
        if ((zone->procs[i].used != 0) != (i == truth->self)) {
            return "the process table is not what it should be";
        }
    }

    if (sel_proc_reap(zone, truth->self) != 0) {
        return "somebody dies twice";
    }

    if (sel_counted(zone, SEL_COUNT_DEATHS) > truth->deaths) {
        return "more deaths counted than there were";
    }

    return NULL;
}


/* All of it, after all of the first n children have ended. */
static inline const char *
truth_settle(crash_truth_t *truth, uint32_t lives, uint32_t max, bool procs)
{
    uint32_t     i;
    uint64_t     before;
    const char  *error;

    truth->n_ops = 0;
    truth->in_flight = 0;
    before = truth->version;

    error = truth_lock(truth);

    for (i = 0; error == NULL && i < lives; i++) {
        error = truth_collect(truth, &truth->shared->lives[i]);
    }

    qsort(truth->ops, truth->n_ops, sizeof(truth->ops[0]), truth_compare);

    for (i = 0; error == NULL && i < truth->n_ops; i++) {
        error = truth_apply(truth, truth->ops[i]);
    }

    if (error == NULL) {
        error = truth_version(truth, before);
    }

    if (error == NULL) {
        error = truth_workers(truth);
    }

    if (error == NULL) {
        error = truth_reader(truth, max);
    }

    if (error == NULL) {
        error = truth_meters(truth, lives);
    }

    if (error == NULL) {
        error = truth_books(truth, lives);
    }

    if (error == NULL && procs) {
        error = truth_procs(truth);
    }

    return error != NULL ? error : truth_lock(truth);
}


#endif /* CRASH_TRUTH_H */
