/*
 * Bookings in the crash test: what a child does with them, and what the parent
 * must find afterwards.
 *
 * Each child has ids of its own.  An operation on one has a state before and
 * an intended state after; of the one in flight at a death either is right,
 * of all others the last.  A booking may be gone when its rank is, and when
 * it is a loose one: made so long ago, or for such a process, that others end
 * it at any time.  Some belong to sessions of the child; see crash_sessions.h.
 */

#ifndef CRASH_BOOKS_H
#define CRASH_BOOKS_H

#include "catalog_model.h"
#include "state/sel_books_impl.h"
#include "state/sel_decisions.h"
#include "state/sel_session_impl.h"


#define CRASH_BOOKINGS    24        /* ids of each child */
#define CRASH_BLOCKS      120       /* of a prompt */
#define CRASH_OLD         1000      /* loose ones are made before */
#define CRASH_ROUTED      200       /* entry of loose ROUTER bookings */
#define CRASH_SESSIONS    4         /* ids of each child, in any partition */


/* A child's session in a partition, and what it is bound to. */
typedef struct {
    uint32_t            owner;
    uint32_t            id;             /* 0: no session; of the owner's */
    uint32_t            partition;
    uint32_t            dp_rank;
    uint64_t            worker_id;
    uint64_t            revision;       /* 0: none */
} crash_bound_t;


typedef struct {
    bool                live;
    bool                loose;
    crash_bound_t       bound;          /* its session and its own rank, and
                                           the binding that it holds */
    uint16_t            slot;
    uint32_t            epoch;
    uint32_t            n_blocks;
    uint32_t            id_len;
    uint32_t            outputs;
    double              weight;         /* of the outputs */
    uint64_t            prefill;
    uint64_t            seed;           /* of the prompt */
} crash_booked_t;


typedef enum {
    CRASH_BOOK_MAKE,
    CRASH_BOOK_OUTPUT,
    CRASH_BOOK_PREFILLED,
    CRASH_BOOK_FAIL,
    CRASH_BOOK_FREE
} crash_book_call_t;


typedef struct {
    uint32_t            id;             /* of the child's */
    crash_book_call_t   call;
    double              fraction;
    crash_booked_t      before;
    crash_booked_t      after;
    sel_book_result_t   result;
    uint64_t            now;            /* of a booking */

    crash_bound_t       asked;          /* session and rank; id 0: none */
    crash_bound_t       found;          /* its binding before */
    crash_bound_t       made;           /* and after, when finished */
    uint64_t            revision;       /* that the booking says */
    bool                follows;
    bool                held;           /* what was found stays */
} crash_book_op_t;


/* A walk in a small tree, so that prompts share beginnings of any length. */
static inline void
crash_prompt(uint64_t seed, uint32_t n, uint64_t *path)
{
    uint32_t    i;
    sel_rand_t  rand;

    rand.state = seed;

    for (i = 0; i < n; i++) {
        path[i] = sel_rand_below(&rand, 8) ? 1 : 1 + sel_rand_below(&rand, 3);
    }

    sel_path_keys(1, path, n, path);
}


static inline sel_str_t
crash_id(uint32_t owner, uint32_t id, uint32_t len, char *text)
{
    (void) memset(text, 'x', len);
    (void) snprintf(text, 24, "%05u-%05u", owner, id);
    text[11] = 'x';

    return (sel_str_t) { len, (const uint8_t *) text };
}


/* The id of a session, one in two longer than a record. */
static inline sel_str_t
crash_session_id(uint32_t owner, uint32_t id, char *text)
{
    static const uint32_t  lens[CRASH_SESSIONS] = { 12, 185, 184, 256 };

    return crash_id(owner, 90000 + id, lens[id - 1], text);
}


/* What to do next with one of the ids; ranks may be none. */
static inline void
crash_book_plan(sel_rand_t *rand, const crash_booked_t *booked,
    const crash_bound_t *session, const sel_rank_slot_t *rank,
    crash_book_op_t *op)
{
    static const double  fractions[] = { 0, 0.25, 0.5, 0.75, 1, -1, -1 };

    crash_booked_t  *after;

    op->id = (uint32_t) sel_rand_below(rand, CRASH_BOOKINGS);
    op->before = booked[op->id];
    op->after = op->before;
    after = &op->after;

    if (!op->before.live) {
        op->call = CRASH_BOOK_MAKE;

        if (rank == NULL) {
            op->call = CRASH_BOOK_FREE;
            return;
        }

        memset(after, 0, sizeof(crash_booked_t));
        after->live = true;
        after->loose = sel_rand_below(rand, 4) == 0;
        after->slot = rank->slot;
        after->epoch = rank->epoch;
        after->n_blocks = (uint32_t) sel_rand_below(rand, CRASH_BLOCKS + 1);
        after->id_len = sel_rand_below(rand, 6) ? 24 : 400;
        after->prefill = sel_rand_below(rand, 100);
        after->seed = sel_rand_below(rand, 1000);
        after->bound = *session;
        return;
    }

    if (op->before.loose && sel_rand_below(rand, 4) == 0) {
        op->call = CRASH_BOOK_FAIL;
        memset(after, 0, sizeof(crash_booked_t));
        return;
    }

    switch (sel_rand_below(rand, 8)) {

    case 0:
    case 1:
        op->call = CRASH_BOOK_FREE;
        memset(after, 0, sizeof(crash_booked_t));
        break;

    case 2:
        op->call = CRASH_BOOK_PREFILLED;
        after->prefill = 0;
        break;

    default:
        op->call = CRASH_BOOK_OUTPUT;
        op->fraction = op->before.loose ? -1
                                        : fractions[sel_rand_below(rand, 7)];
        after->outputs++;
        after->weight = op->fraction < 0 ? after->weight + 1
                                         : after->outputs * op->fraction;
    }
}


static inline sel_book_result_t
crash_book_make(sel_zone_t *zone, sel_str_t id, const crash_book_op_t *op)
{
    char                   text[256];
    uint32_t               chosen;
    uint64_t               path[CRASH_BLOCKS];
    const crash_booked_t  *want;

    sel_booking_t    booking;
    sel_rank_load_t  load;

    want = &op->after;
    crash_prompt(want->seed, want->n_blocks, path);

    memset(&booking, 0, sizeof(booking));
    booking.id = id;
    booking.kind = want->loose ? SEL_BOOKING_ROUTER : SEL_BOOKING_API;
    booking.proc = CRASH_ROUTED;
    booking.partition = 1;

    if (want->bound.id != 0) {
        booking.partition = want->bound.partition;
        booking.session.id = crash_session_id(want->bound.owner,
                                              want->bound.id, text);
        booking.session.revision = op->revision;
        booking.session.follows = op->follows;
    }

    booking.n_blocks = want->n_blocks;
    booking.path = path;
    booking.prefill_tokens = want->prefill;
    booking.now = op->now;
    booking.n_hashes = want->n_blocks;
    booking.hashes = path;

    memset(&load, 0, sizeof(load));
    load.slot = want->slot;
    load.epoch = want->epoch;

    return sel_book(zone, &booking, &load, 1, NULL, NULL, &chosen);
}


/* Carries it out; `after` is what came of it.  False when it cannot be. */
static inline bool
crash_book_perform(sel_zone_t *zone, uint32_t owner, crash_book_op_t *op)
{
    char               text[400];
    sel_str_t          id;
    sel_book_result_t  rc;

    id = crash_id(owner, op->id, op->call == CRASH_BOOK_MAKE
                                 ? op->after.id_len : op->before.id_len,
                  text);

    switch (op->call) {

    case CRASH_BOOK_MAKE:
        rc = crash_book_make(zone, id, op);
        break;

    case CRASH_BOOK_OUTPUT:
        rc = op->before.loose ? sel_served_output(zone, id)
                              : sel_book_output(zone, id, op->fraction);
        break;

    case CRASH_BOOK_PREFILLED:
        rc = (op->before.loose ? sel_served_prefilled
                               : sel_book_prefilled)(zone, id);
        break;

    case CRASH_BOOK_FAIL:
        rc = sel_served_failed(zone, id);
        break;

    default:
        rc = (op->before.loose ? sel_served_free : sel_book_free)(zone, id);
    }

    op->result = rc;

    switch (rc) {

    case SEL_BOOK_OK:
        return true;

    case SEL_BOOK_NONE:         /* its rank has gone, or it was a loose one */
        memset(&op->after, 0, sizeof(op->after));
        return op->call != CRASH_BOOK_MAKE;

    case SEL_BOOK_MOVED:
    case SEL_BOOK_BOUND:
        op->after = op->before;
        return op->call == CRASH_BOOK_MAKE;

    case SEL_BOOK_FULL:
        op->after = op->before;
        return true;

    default:
        return false;
    }
}


static inline const sel_booking_chunk_t *
crash_book_find(sel_zone_t *zone, uint32_t owner, uint32_t i,
    const crash_booked_t *want)
{
    char       text[400];
    sel_str_t  id;

    id = crash_id(owner, i, want->id_len, text);

    return sel_booking_find(zone, sel_booking_hash(id), id);
}


/* Whether a booking is what a state says.  Inside the lock. */
static inline bool
crash_book_is(sel_zone_t *zone, uint32_t owner, uint32_t i,
    const crash_booked_t *want)
{
    double                      apart;
    uint32_t                    k;
    uint64_t                    path[CRASH_BLOCKS];
    sel_path_t                  keys;
    const sel_booking_chunk_t  *booking;

    booking = crash_book_find(zone, owner, i, want);

    if (!want->live || booking == NULL) {
        return !want->live && booking == NULL;
    }

    apart = sel_booking_output_weight(zone, booking) - want->weight;

    if (booking->slot != want->slot || booking->epoch != want->epoch
        || booking->n_blocks != want->n_blocks
        || booking->prefill != want->prefill
        || sel_booking_outputs(zone, booking) != want->outputs
        || apart > 1e-9 || apart < -1e-9)
    {
        return false;
    }

    crash_prompt(want->seed, want->n_blocks, path);
    keys = (sel_path_t) { NULL, booking->path, 0 };

    for (k = 0; k < want->n_blocks; k++) {
        if (sel_path_key(zone, &keys, k) != path[k]) {
            return false;
        }
    }

    return true;
}


/* Whether a booking that was live may be gone. */
static inline bool
crash_book_may_go(const sel_zone_t *zone, const crash_booked_t *booked)
{
    const sel_slot_t  *slot;

    slot = &zone->slots[booked->slot];

    return booked->loose || slot->used == SEL_SLOT_FREE
           || slot->epoch != booked->epoch;
}


/*
 * All bookings of a child against the states of its table; op: the one that
 * was in flight, or NULL.  The table becomes what is there.
 */
static inline const char *
crash_books_settle(sel_zone_t *zone, uint32_t owner, crash_booked_t *booked,
    const crash_book_op_t *op, bool full)
{
    uint32_t         i;
    crash_booked_t  *state;

    for (i = 0; i < CRASH_BOOKINGS; i++) {
        state = &booked[i];

        if (op != NULL && op->id == i
            && crash_book_is(zone, owner, i, &op->after)
            && (op->after.live || !op->before.live
                || crash_book_find(zone, owner, i, &op->before) == NULL))
        {
            *state = op->after;
        }

        if (crash_book_is(zone, owner, i, state)) {
            continue;
        }

        if (crash_book_find(zone, owner, i, state) != NULL) {
            return "a booking is another than it was";
        }

        if (!full && !crash_book_may_go(zone, state)) {
            return "a booking is lost";
        }

        memset(state, 0, sizeof(crash_booked_t));
    }

    return NULL;
}


/* Decisions are whole, whatever happened when they were written. */
static inline const char *
crash_decisions(sel_zone_t *zone, uint64_t *at)
{
    static uint64_t  buffer[16384];

    uint32_t        i, k, n;
    uint64_t        lost, path[CRASH_BLOCKS];
    sel_decision_t  decisions[64];

    lost = 0;

    while ((n = sel_decisions_read(zone, at, buffer, sizeof(buffer), decisions,
                                   64, &lost)) != 0)
    {
        for (i = 0; i < n; i++) {
            k = decisions[i].n_hashes;

            if (k == 0 || k > CRASH_BLOCKS || decisions[i].partition == 0) {
                return "a decision has an impossible length";
            }

            crash_prompt((decisions[i].made - 1) % CRASH_OLD, k, path);

            if (memcmp(path, decisions[i].hashes, k * sizeof(uint64_t))
                != 0)
            {
                return "a decision has other hashes";
            }
        }
    }

    return NULL;
}


#endif /* CRASH_BOOKS_H */
