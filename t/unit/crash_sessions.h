/*
 * Bindings of sessions in the crash test: what the parent must find.
 *
 * Each child has sessions of its own, so what a binding is follows from what
 * the child's bookings came to, in their order.  An operation in flight at a
 * death leaves the binding of its session as it was, or as it was to be, or
 * none when it was to be replaced.  Beside that a binding may go only when no
 * booking holds it: when its time is over, or when the zone has no room.
 */

#ifndef CRASH_SESSIONS_H
#define CRASH_SESSIONS_H

#include "crash_child.h"


#define CRASH_BOUNDS     4096
#define CRASH_TTL_SHORT  UINT64_C(20000)            /* ns */
#define CRASH_TTL_LONG   UINT64_C(3600000000000)


/* A binding that there is. */
typedef struct {
    crash_bound_t         bound;
    uint64_t              since;
    uint32_t              leases;
    bool                  used;         /* booked for in this turn */
} crash_kept_t;


typedef struct {
    sel_zone_t           *zone;
    uint64_t              start;        /* of the turn */
    uint64_t              ttl;
    uint64_t              no_room;      /* bindings lost for it */
    bool                  full;         /* in this turn */
    uint32_t              n;
    crash_kept_t          kept[CRASH_BOUNDS];
    const crash_book_op_t
                         *flight[CRASH_LIVES];
    crash_booked_t      (*booked)[CRASH_BOOKINGS];
    uint64_t              halves;       /* bound, but the booking was not made:
                                           by a death */
} crash_sessions_t;


static inline bool
crash_same_session(const crash_bound_t *a, const crash_bound_t *b)
{
    return a->owner == b->owner && a->id == b->id
           && a->partition == b->partition;
}


static inline crash_kept_t *
crash_kept(crash_sessions_t *sessions, const crash_bound_t *session)
{
    uint32_t  i;

    for (i = 0; i < sessions->n; i++) {
        if (crash_same_session(&sessions->kept[i].bound, session)) {
            return &sessions->kept[i];
        }
    }

    return NULL;
}


static inline void
crash_unkeep(crash_sessions_t *sessions, crash_kept_t *kept)
{
    if (kept != NULL) {
        *kept = sessions->kept[--sessions->n];
    }
}


static inline bool
crash_keep(crash_sessions_t *sessions, const crash_bound_t *bound)
{
    crash_kept_t  *kept;

    kept = crash_kept(sessions, bound);

    if (bound->revision == 0) {
        crash_unkeep(sessions, kept);
        return true;
    }

    if (kept == NULL) {
        if (sessions->n == CRASH_BOUNDS) {
            return false;
        }

        kept = &sessions->kept[sessions->n++];
    }

    kept->bound = *bound;
    kept->used = true;

    return true;
}


/* Before children begin.  Sometimes all that is idle goes. */
static inline const char *
crash_sessions_begin(crash_sessions_t *sessions, bool brief, bool reap)
{
    uint32_t  i, n;

    sessions->start = sel_clock_ns();
    sessions->ttl = brief ? CRASH_TTL_SHORT : CRASH_TTL_LONG;
    sel_sessions_ttl(sessions->zone, sessions->ttl);

    for (i = 0; i < sessions->n; i++) {
        sessions->kept[i].used = false;
    }

    if (!reap) {
        return NULL;
    }

    n = 0;

    for (i = sessions->n; i-- > 0; ) {
        if (sessions->kept[i].leases == 0) {
            crash_unkeep(sessions, &sessions->kept[i]);
            n++;
        }
    }

    return sel_sessions_reap(sessions->zone, UINT64_MAX, UINT32_MAX) == n
           ? NULL : "other bindings were idle than should have been";
}


/* What a finished operation has come to. */
static inline const char *
crash_sessions_apply(crash_sessions_t *sessions, const crash_book_op_t *op)
{
    crash_kept_t  *kept;

    if (op->call == CRASH_BOOK_FAIL && op->result == SEL_BOOK_OK
        && op->before.bound.id != 0)
    {
        kept = crash_kept(sessions, &op->before.bound);

        if (kept != NULL
            && kept->bound.revision == op->before.bound.revision)
        {
            crash_unkeep(sessions, kept);
        }
    }

    if (op->asked.id == 0) {
        return NULL;
    }

    if (op->result == SEL_BOOK_OK) {
        return crash_keep(sessions, &op->made)
               ? NULL : "too many bindings for the test";
    }

    if (op->result == SEL_BOOK_BOUND) {
        crash_unkeep(sessions, crash_kept(sessions, &op->asked));
    }

    return NULL;
}


static inline sel_session_chunk_t *
crash_session_record(crash_sessions_t *sessions, const crash_bound_t *session)
{
    char       text[256];
    sel_str_t  id;

    id = crash_session_id(session->owner, session->id, text);

    return sel_zone_session_find(sessions->zone,
                                 sel_session_hash(sessions->zone,
                                                  session->partition, id),
                                 session->partition, id);
}


/* Bookings of the table that hold a binding. */
static inline uint32_t
crash_session_holders(const crash_sessions_t *sessions,
    const crash_bound_t *bound)
{
    uint32_t               m, i, n;
    const crash_booked_t  *booked;

    n = 0;

    for (m = 0; m < CRASH_LIVES; m++) {
        for (i = 0; i < CRASH_BOOKINGS; i++) {
            booked = &sessions->booked[m][i];
            n += booked->live && crash_same_session(&booked->bound, bound)
                 && booked->bound.revision == bound->revision;
        }
    }

    return n;
}


/* Which binding a booking holds whose child did not live to tell. */
static inline void
crash_session_in_flight(crash_sessions_t *sessions, uint32_t m)
{
    const crash_book_op_t      *op;
    sel_session_chunk_t        *record;
    const sel_booking_chunk_t  *booking;

    op = sessions->flight[m];

    if (op == NULL || op->asked.id == 0) {
        return;
    }

    record = crash_session_record(sessions, &op->asked);

    if (!sessions->booked[m][op->id].live) {
        if (record != NULL
            && record->revision != op->found.revision)
        {
            sessions->halves++;
        }

        return;
    }

    booking = crash_book_find(sessions->zone, m * CRASH_IDS, op->id,
                              &sessions->booked[m][op->id]);

    if (record != NULL && record->revision <= booking->attempt
        && booking->session == sel_zone_chunk_number(sessions->zone, record))
    {
        sessions->booked[m][op->id].bound.revision = record->revision;
    }
}


/* Whether a binding may be gone though nobody ended it. */
static inline bool
crash_may_vanish(const crash_sessions_t *sessions, const crash_kept_t *kept)
{
    if (crash_session_holders(sessions, &kept->bound) != 0) {
        return false;
    }

    if (sessions->full) {
        return true;
    }

    return kept->leases != 0 || kept->used
           ? sessions->ttl == CRASH_TTL_SHORT
           : kept->since + sessions->ttl <= sel_clock_ns();
}


/* The operation in flight that may change a session. */
static inline const crash_book_op_t *
crash_session_flight(const crash_sessions_t *sessions,
    const crash_bound_t *session)
{
    uint32_t                m;
    const crash_book_op_t  *op;

    for (m = 0; m < CRASH_LIVES; m++) {
        op = sessions->flight[m];

        if (op != NULL
            && (crash_same_session(&op->asked, session)
                || (op->call == CRASH_BOOK_FAIL
                    && crash_same_session(&op->before.bound, session))))
        {
            return op;
        }
    }

    return NULL;
}


/* Whether the operation in flight has ended or replaced this binding. */
static inline bool
crash_may_end(const crash_book_op_t *op, const crash_bound_t *bound)
{
    if (op == NULL) {
        return false;
    }

    return op->call == CRASH_BOOK_FAIL
           ? op->before.bound.revision == bound->revision
           : !crash_same_rank(&op->asked, bound);
}


/* One that there was. */
static inline const char *
crash_session_settle(crash_sessions_t *sessions, crash_kept_t *kept,
    bool *gone)
{
    bool                    may_go;
    const sel_session_chunk_t
                           *record;
    const crash_book_op_t  *op;

    record = crash_session_record(sessions, &kept->bound);
    op = crash_session_flight(sessions, &kept->bound);
    may_go = crash_may_end(op, &kept->bound)
             || crash_may_vanish(sessions, kept);
    *gone = record == NULL;

    if (record == NULL) {
        return may_go ? NULL : "a binding is lost";
    }

    if (record->revision == kept->bound.revision) {

        if (record->worker_id != kept->bound.worker_id
            || record->dp_rank != kept->bound.dp_rank)
        {
            return "a binding is to another rank";
        }

        if (record->leases != 0) {
            return NULL;
        }

        if (kept->leases == 0 && !kept->used) {
            return record->since == kept->since
                   ? NULL : "an idle binding has another time";
        }

        return record->since >= sessions->start
               ? NULL : "a binding's time does not count from the last end";
    }

    if (!may_go || op == NULL || op->call != CRASH_BOOK_MAKE
        || record->revision < kept->bound.revision
        || record->worker_id != op->asked.worker_id
        || record->dp_rank != op->asked.dp_rank)
    {
        return "a binding is another than it was";
    }

    kept->bound = op->asked;
    kept->bound.revision = record->revision;

    return NULL;
}


/* What operations in flight have bound that was not bound before. */
static inline const char *
crash_sessions_new(crash_sessions_t *sessions)
{
    uint32_t                m;
    crash_bound_t           bound;
    const crash_book_op_t  *op;
    sel_session_chunk_t    *record;

    for (m = 0; m < CRASH_LIVES; m++) {
        op = sessions->flight[m];

        if (op == NULL || op->asked.id == 0
            || crash_kept(sessions, &op->asked) != NULL)
        {
            continue;
        }

        record = crash_session_record(sessions, &op->asked);

        if (record == NULL) {
            continue;
        }

        bound = op->asked;
        bound.revision = record->revision;

        if (record->worker_id != bound.worker_id
            || record->dp_rank != bound.dp_rank)
        {
            return "a binding came to a rank that nobody asked for";
        }

        if (!crash_keep(sessions, &bound)) {
            return "too many bindings for the test";
        }
    }

    return NULL;
}


/* All bindings against what is known.  Inside the lock. */
static inline const char *
crash_sessions_settle(crash_sessions_t *sessions)
{
    bool                  gone;
    uint32_t              i;
    uint64_t              no_room;
    const char           *error;
    crash_kept_t         *kept;
    sel_session_chunk_t  *record;

    no_room = sel_counted(sessions->zone, SEL_COUNT_SESSION_NO_ROOM);
    sessions->full = no_room != sessions->no_room;
    sessions->no_room = no_room;

    for (i = 0; i < CRASH_LIVES; i++) {
        crash_session_in_flight(sessions, i);
    }

    for (i = sessions->n; i-- > 0; ) {
        error = crash_session_settle(sessions, &sessions->kept[i], &gone);

        if (error != NULL) {
            return error;
        }

        if (gone) {
            crash_unkeep(sessions, &sessions->kept[i]);
        }
    }

    error = crash_sessions_new(sessions);

    if (error != NULL) {
        return error;
    }

    for (i = 0; i < sessions->n; i++) {
        kept = &sessions->kept[i];
        record = crash_session_record(sessions, &kept->bound);
        kept->leases = record->leases;
        kept->since = record->since;

        if (record->leases != crash_session_holders(sessions, &kept->bound)) {
            return "a binding has other leases than bookings";
        }
    }

    return sessions->n == sessions->zone->header->sessions
           ? NULL : "a binding came from nowhere";
}


#endif /* CRASH_SESSIONS_H */
