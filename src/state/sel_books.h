/*
 * The books: which request occupies which rank, and the load that follows.
 *
 * A booking is one live request on one rank.  Its id is taken service-wide
 * from the moment of booking until it is freed, it expires or its rank goes.
 * Of a prompt's blocks the books know path keys (sel_path_keys()): a block is
 * its path from the root, so a rank counts what several bookings share once.
 * Every block on a rank has a weight, 1 when it becomes live there; output
 * blocks belong to one booking and have a weight of their own.  Rules and
 * examples: docs/scheduling.md.
 *
 * Every function takes the lock by itself and holds it once.  Time inside does
 * not depend on how many bookings there are; it grows with the length of a
 * prompt, and with the number of ranks that have its beginning, a few
 * nanoseconds for each.  Hashing, parsing and printing are done outside.
 */

#ifndef SEL_BOOKS_H
#define SEL_BOOKS_H

#include "state/sel_catalog.h"


/* the longest id, bytes */
#define SEL_BOOK_MAX_ID  65536


/* One rank whose load is asked for. */
typedef struct {
    uint16_t  slot;             /* in */
    uint32_t  epoch;            /* in */
    bool      gone;             /* out: slot and epoch are no rank any more;
                                   all that follows is 0 */
    uint64_t  prefill_tokens;   /* out: being prefilled now */
    double    blocks;           /* out: sum of weights, not rounded */
    uint32_t  requests;         /* out: live bookings */
    uint32_t  depth;            /* out: leading blocks of the path asked for
                                   that are live prompt blocks there */
} sel_rank_load_t;


typedef enum {
    SEL_BOOKING_API = 0,        /* made and freed by calls */
    SEL_BOOKING_ROUTER,         /* of a request that this process serves */
    SEL_BOOKING_MIRROR          /* made by another selector */
} sel_booking_kind_t;


/* The session that a booking belongs to. */
typedef struct {
    sel_str_t  id;              /* data NULL: none; at most
                                   SEL_SESSION_MAX_ID bytes */
    uint64_t   revision;        /* of its binding as the rank was chosen, 0:
                                   there was none */
    bool       follows;         /* the binding goes with the booking, whatever
                                   its rank */
} sel_booking_session_t;


/* What a new booking says. */
typedef struct {
    sel_str_t           id;
    sel_booking_kind_t  kind;
    uint32_t            proc;           /* entry of the owner, ROUTER */
    uint32_t            partition;
    uint32_t            n_blocks;       /* prompt blocks, at most
                                           SEL_BOOK_MAX_BLOCKS */
    const uint64_t     *path;           /* their path keys */
    uint64_t            prefill_tokens; /* 0: nothing to be tracked; above
                                           SEL_BOOK_MAX_PREFILL: as that */
    uint32_t            expected_output_tokens;     /* kept, no effect */
    uint64_t            now;            /* sel_clock_ns() */
    sel_booking_session_t
                        session;

    /* a decision to be recorded with the booking, see sel_decisions.h */
    uint32_t            n_hashes;       /* 0: none */
    const uint64_t     *hashes;         /* public block hashes */
} sel_booking_t;

#define SEL_BOOK_MAX_BLOCKS   (1u << 20)

/* sums of them stay exact, however many there are */
#define SEL_BOOK_MAX_PREFILL  ((uint64_t) 1 << 44)


typedef enum {
    SEL_BOOK_OK = 0,
    SEL_BOOK_TAKEN,             /* a booking has this id */
    SEL_BOOK_GONE,              /* the rank is none any more */
    SEL_BOOK_FULL,              /* no room in the zone; nothing has changed */
    SEL_BOOK_NONE,              /* no live booking has this id */
    SEL_BOOK_REFUSED,           /* the chooser took none */
    SEL_BOOK_MOVED,             /* the session has another binding by now;
                                   nothing has changed */
    SEL_BOOK_BOUND              /* the session was bound to another rank, which
                                   is still there; this binding has ended, and
                                   nothing is booked */
} sel_book_result_t;


/*
 * Chooses a rank while the lock is held: all loads are filled in, and what is
 * chosen is booked before anybody else can book.  May set
 * booking->prefill_tokens.  Bounded time, no system calls.  Returns an index
 * below n that is not gone, or SEL_CHOOSE_NONE.
 */
typedef uint32_t (*sel_choose_pt)(void *data, sel_booking_t *booking,
    const sel_rank_load_t *ranks, uint32_t n);

#define SEL_CHOOSE_NONE  UINT32_MAX


/*
 * Path keys of n sequence hashes: path[0] = xxh3 of partition number and
 * sequence[0], path[i] = xxh3 of path[i - 1] and sequence[i].  path and
 * sequence may be the same memory.
 */
void sel_path_keys(uint32_t partition, const uint64_t *sequence, uint32_t n,
    uint64_t *path);

/* Blocks as clients see them: rounded half away from zero. */
uint64_t sel_load_blocks(double blocks);

/* Loads of n ranks, and how much of a path (maybe none) is live on each. */
void sel_books_read(sel_zone_t *zone, const uint64_t *path,
    uint32_t n_blocks, sel_rank_load_t *ranks, uint32_t n);

/*
 * Reads the loads of n ranks, lets choose() (NULL: the first) take one and
 * books it, all in one critical section; *chosen tells which.  Room is made
 * by dropping idle bindings of sessions, then pending selections, oldest
 * first.
 *
 * A booking with a session holds its binding.  A session without one is bound
 * to the rank, unless there are too many in the partition or the zone is too
 * full.  One that is bound to another rank moves if that rank is not there any
 * more or the binding follows; else the result is BOUND.
 */
sel_book_result_t sel_book(sel_zone_t *zone, sel_booking_t *booking,
    sel_rank_load_t *ranks, uint32_t n, sel_choose_pt choose, void *data,
    uint32_t *chosen);

/* Is the id taken? */
bool sel_booked(sel_zone_t *zone, sel_str_t id);

/*
 * What happens to a booking.  Those of kind ROUTER belong to the process that
 * serves the request, and are none here: see sel_served_free().
 */

/* Ends the prefill load of a booking; repeating it is OK. */
sel_book_result_t sel_book_prefilled(sel_zone_t *zone, sel_str_t id);

/*
 * Adds one output block of weight 1; then, with a fraction of 0 .. 1 (below
 * 0: none), gives this weight to all output blocks of the booking and to
 * every prompt block that no other booking of its rank has.
 */
sel_book_result_t sel_book_output(sel_zone_t *zone, sel_str_t id,
    double fraction);

sel_book_result_t sel_book_free(sel_zone_t *zone, sel_str_t id);

/* The same for bookings of kind ROUTER, and for no others. */
sel_book_result_t sel_served_prefilled(sel_zone_t *zone, sel_str_t id);
sel_book_result_t sel_served_output(sel_zone_t *zone, sel_str_t id);
sel_book_result_t sel_served_free(sel_zone_t *zone, sel_str_t id);

/* Frees it with the binding that it holds: its rank did not serve. */
sel_book_result_t sel_served_failed(sel_zone_t *zone, sel_str_t id);

/*
 * Frees up to max bookings made before a time (sel_clock_ns()), oldest first;
 * returns how many.  Those of kind ROUTER are ended by whoever serves the
 * request: they count, but only become young again.  sel_book() does this for
 * a few by itself when a limit is set with sel_books_expiry().
 */
uint32_t sel_books_expire(sel_zone_t *zone, uint64_t before, uint32_t max);

/* Sets the age, nanoseconds, at which bookings expire; 0: never. */
void sel_books_expiry(sel_zone_t *zone, uint64_t age);

/* Frees the ROUTER bookings of a process that is dead; returns how many. */
uint32_t sel_books_bury(sel_zone_t *zone, uint32_t proc);


#endif /* SEL_BOOKS_H */
