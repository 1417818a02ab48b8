/*
 * Inside of sessions: the records of their bindings.
 *
 * A booking names the record that it holds.  A binding may end before they
 * do: then its record is in no table any more, and goes with the last of them.
 */

#ifndef SEL_SESSION_IMPL_H
#define SEL_SESSION_IMPL_H

#include "state/sel_books_impl.h"
#include "state/sel_session.h"


/* the longest id that is in the record itself */
#define SEL_SESSION_ID     184

/* bindings that a booking reaps at most */
#define SEL_SESSION_REAPS  4


/* SESSION: never changed but for `since`. */
typedef struct {
    sel_chunk_t  head;
    uint64_t     hash;                  /* of partition and id */
    uint64_t     revision;              /* attempt of the booking that bound */
    uint64_t     worker_id;
    uint64_t     since;                 /* made, or let go of for the last
                                           time: so long idle, if it is */
    uint32_t     dp_rank;
    uint32_t     partition;
    uint32_t     id_len;
    uint32_t     id_chain;              /* of an id that is not in here */

    /* derived */
    uint32_t     leases;                /* bookings that hold it */
    uint32_t     bucket_next;
    sel_links_t  idle;                  /* by `since`, while there are no
                                           leases */
    uint8_t      id[SEL_SESSION_ID];
} sel_session_chunk_t;

_Static_assert(sizeof(sel_session_chunk_t) == SEL_CHUNK_SIZE, "session");


static inline sel_session_chunk_t *
sel_zone_session(const sel_zone_t *zone, uint32_t number)
{
    return (sel_session_chunk_t *) sel_zone_chunk(zone, number);
}


static inline uint32_t *
sel_zone_session_bucket(const sel_zone_t *zone, uint64_t hash)
{
    return &zone->session_buckets[hash & (zone->n_book_buckets - 1)];
}


/* Chunks of a record with an id of so many bytes. */
static inline uint32_t
sel_session_chunks(size_t id_len)
{
    return 1 + sel_zone_id_need(id_len, SEL_SESSION_ID);
}


/* sel_session_list.c: records in their table and order */

uint64_t sel_session_hash(const sel_zone_t *zone, uint32_t partition,
    sel_str_t id);

/* Also one whose time is over; NULL when there is none. */
sel_session_chunk_t *sel_zone_session_find(const sel_zone_t *zone,
    uint64_t hash, uint32_t partition, sel_str_t id);

/* The same, alive. */
sel_session_chunk_t *sel_zone_session_live(const sel_zone_t *zone,
    uint64_t hash, uint32_t partition, sel_str_t id, uint64_t now);

/* Whether its time is over and nobody holds it. */
bool sel_zone_session_dead(const sel_zone_t *zone,
    const sel_session_chunk_t *session, uint64_t now);

/* The one that a booking holds, ended or not; or NULL. */
sel_session_chunk_t *sel_zone_session_held(const sel_zone_t *zone,
    const sel_booking_chunk_t *booking);

/* The binding counts as let go of now. */
void sel_zone_session_touch(sel_session_chunk_t *session);

/* Puts a published record in its table; nobody holds it.  None has become
   idle later. */
void sel_zone_session_link(sel_zone_t *zone, sel_session_chunk_t *session);

/* One more or one fewer holds it. */
void sel_zone_session_hold(sel_zone_t *zone, sel_session_chunk_t *session);
void sel_zone_session_drop(sel_zone_t *zone, sel_session_chunk_t *session);

/* One that nobody holds counts as let go of now. */
void sel_zone_session_renew(sel_zone_t *zone, sel_session_chunk_t *session);

/* Ends a binding, whoever holds it: its tag first. */
void sel_zone_session_end(sel_zone_t *zone, sel_session_chunk_t *session);

static inline bool
sel_zone_session_ended(const sel_session_chunk_t *session)
{
    return sel_chunk_tag(&session->head) == SEL_CHUNK_SESSION_ENDED;
}

/* Gives an ended record back that nobody holds. */
void sel_zone_session_give(sel_zone_t *zone, sel_session_chunk_t *session);

/* Ends the binding that has been idle longest; there must be one. */
void sel_zone_session_idle_end(sel_zone_t *zone, sel_counter_t counter);

/* As sel_sessions_reap(). */
uint32_t sel_zone_sessions_reap(sel_zone_t *zone, uint64_t now, uint32_t max);


/* sel_session_bind.c: what a booking does to its session */

/* A session that a booking under way belongs to; all zeroes: none. */
typedef struct {
    const sel_booking_session_t
                         *in;
    uint64_t              hash;
    sel_session_chunk_t  *record;       /* its live binding, or NULL */
    sel_session_chunk_t  *dead;         /* or one whose time is over */
    bool                  moves;        /* and that is for another rank, */
    bool                  gone;         /* which is not there any more */
    bool                  binds;        /* a new binding is to be made */
    bool                  full;         /* there are too many for that */
} sel_session_plan_t;

/* Finds the binding; false when it is not the one that the rank was chosen
   by. */
bool sel_session_plan(sel_zone_t *zone, const sel_booking_t *booking,
    sel_session_plan_t *plan);

/* Whether the binding's rank could serve: it is a schedulable worker's. */
bool sel_session_there(const sel_zone_t *zone,
    const sel_session_chunk_t *session);

/* What is to become of it when the booking is on a slot; false when it is
   bound to another rank: that binding has ended. */
bool sel_session_settle(sel_zone_t *zone, const sel_booking_t *booking,
    uint16_t slot, sel_session_plan_t *plan);

/* Makes room for a booking of so many chunks, and for a new binding if that
   goes; false without room, when nothing has changed.  Holds the binding that
   there is. */
bool sel_session_room(sel_zone_t *zone, sel_session_plan_t *plan,
    uint64_t need);

/* The binding for a booking whose record is not published yet: its number or
   NONE. */
uint32_t sel_session_bind(sel_zone_t *zone, sel_session_plan_t *plan,
    const sel_booking_chunk_t *booking);

/* Lets go of the binding when the booking holds it. */
void sel_session_leave(sel_zone_t *zone, const sel_session_plan_t *plan);


#endif /* SEL_SESSION_IMPL_H */
