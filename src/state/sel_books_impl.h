/*
 * Inside of the books: the records of bookings.
 *
 * Primary are a booking's record, its id, its path keys and what its blocks
 * weigh (its life); see sel_zone_impl.h.  Each change of a booking is one
 * store: its tag, `prefill`, `outputs` or `life`.
 */

#ifndef SEL_BOOKS_IMPL_H
#define SEL_BOOKS_IMPL_H

#include "state/sel_books.h"
#include "state/sel_tree_impl.h"


/* the longest id that is in the record itself */
#define SEL_BOOKING_ID    144

/* runs of blocks of one weight in a life */
#define SEL_LIFE_RUNS     19

/* bookings that a new one expires at most */
#define SEL_BOOK_EXPIRES  4


/* BOOKING */
typedef struct {
    sel_chunk_t  head;
    uint64_t     hash;                  /* of the id */
    uint64_t     attempt;               /* serial number, never used twice */
    uint64_t     started;
    uint64_t     prefill;               /* tracked now, tokens */
    uint32_t     id_len;
    uint32_t     id_chain;              /* of an id that is not in here */
    uint32_t     partition;
    uint32_t     epoch;
    uint32_t     proc;
    uint32_t     expected;              /* output tokens */
    uint32_t     outputs;               /* see sel_booking_outputs() */
    uint32_t     n_blocks;
    uint32_t     path;                  /* chain of their keys */
    uint32_t     life;                  /* LIFE; NONE: all weights are 1 */
    uint32_t     session;               /* binding that it holds or held */
    uint16_t     slot;
    uint8_t      kind;
    uint8_t      zero;

    /* derived */
    uint32_t     id_next;
    uint32_t     leaf;                  /* last edge; NONE without blocks */
    sel_links_t  order;                 /* all, by the time they were made */
    uint32_t     slot_older;            /* those of the slot */
    uint32_t     slot_newer;

    uint8_t      id[SEL_BOOKING_ID];
} sel_booking_chunk_t;

_Static_assert(sizeof(sel_booking_chunk_t) == SEL_CHUNK_SIZE, "booking");


/* LIFE: head.count runs of prompt blocks, one behind the other.  Never
   changed, but replaced as a whole. */
typedef struct {
    sel_chunk_t  head;
    uint32_t     outputs;               /* so many output blocks, the oldest,
                                           have a weight */
    uint32_t     joined;                /* runs were joined: there was no
                                           place for all */
    double       weight;                /* of these outputs */
    double       weights[SEL_LIFE_RUNS];
    uint32_t     ends[SEL_LIFE_RUNS];   /* position behind the run */
} sel_life_chunk_t;

_Static_assert(sizeof(sel_life_chunk_t) <= SEL_CHUNK_SIZE, "life");


static inline sel_booking_chunk_t *
sel_zone_booking(const sel_zone_t *zone, uint32_t number)
{
    return (sel_booking_chunk_t *) sel_zone_chunk(zone, number);
}


static inline sel_life_chunk_t *
sel_zone_life(const sel_zone_t *zone, uint32_t number)
{
    return (sel_life_chunk_t *) sel_zone_chunk(zone, number);
}


static inline uint32_t *
sel_zone_id_bucket(const sel_zone_t *zone, uint64_t hash)
{
    return &zone->id_buckets[hash & (zone->n_book_buckets - 1)];
}


/* Output blocks: a new life counts one more than the record does yet. */
static inline uint32_t
sel_booking_outputs(const sel_zone_t *zone, const sel_booking_chunk_t *booking)
{
    uint32_t  outputs;

    if (booking->life == SEL_CHUNK_NONE) {
        return booking->outputs;
    }

    outputs = sel_zone_life(zone, booking->life)->outputs;

    return outputs > booking->outputs ? outputs : booking->outputs;
}


/* What they weigh. */
static inline double
sel_booking_output_weight(const sel_zone_t *zone,
    const sel_booking_chunk_t *booking)
{
    uint32_t                 outputs;
    const sel_life_chunk_t  *life;

    outputs = sel_booking_outputs(zone, booking);

    if (booking->life == SEL_CHUNK_NONE) {
        return outputs;
    }

    life = sel_zone_life(zone, booking->life);

    return life->outputs * life->weight + (outputs - life->outputs);
}


/* sel_booking.c: records in their table and lists */

uint64_t sel_booking_hash(sel_str_t id);

/* NULL when there is none. */
sel_booking_chunk_t *sel_booking_find(const sel_zone_t *zone, uint64_t hash,
    sel_str_t id);

/* Chunks of a record with its chains. */
uint64_t sel_booking_need(const sel_booking_t *in);

/* A record that is whole but for its tag, life and leaf. */
sel_booking_chunk_t *sel_booking_make(sel_zone_t *zone,
    const sel_booking_t *in, uint64_t hash, uint16_t slot, uint32_t epoch);

/* Puts a published record, whose path is in the tree, in its table, lists and
   sums. */
void sel_booking_link(sel_zone_t *zone, sel_booking_chunk_t *booking);

/* Ends a booking: its tag first. */
void sel_booking_end(sel_zone_t *zone, sel_booking_chunk_t *booking);

/* Ends all bookings of a slot. */
void sel_bookings_drop(sel_zone_t *zone, uint16_t slot);

/* Ends up to max bookings made before a time; returns how many. */
uint32_t sel_bookings_expire(sel_zone_t *zone, uint64_t before, uint32_t max);

/* Ends the ROUTER bookings of a process; returns how many. */
uint32_t sel_bookings_bury(sel_zone_t *zone, uint32_t proc);


/* sel_life.c: weights */

/*
 * A life for a booking whose path is in the tree: weights as they are there,
 * but `sole`, unless below 0, for blocks that no other booking of the rank
 * has; `outputs` outputs of a weight.  One chunk, which must be there.
 */
uint32_t sel_life_make(sel_zone_t *zone, uint32_t leaf, uint16_t slot,
    double sole, uint32_t outputs, double weight);

/* One more output block, then the fraction for all that is the booking's
   alone; false without room. */
bool sel_life_decay(sel_zone_t *zone, sel_booking_chunk_t *booking,
    double fraction);

/* Gives the tree the weights of a booking that was put in it again; false
   without room. */
bool sel_life_restore(sel_zone_t *zone, const sel_booking_chunk_t *booking);


/* sel_decisions.c: records a booking's decision, if it has one */
void sel_decisions_append(sel_zone_t *zone, const sel_booking_t *booking,
    uint16_t slot, uint32_t epoch);


#endif /* SEL_BOOKS_IMPL_H */
