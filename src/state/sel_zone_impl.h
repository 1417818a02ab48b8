/*
 * Inside of the zone: the header page, the records, and what the files of
 * this room share.  No other room includes it.
 *
 * Why a death between any two stores is survivable.  A process that is killed
 * stops between two instructions: what it stored before is there, what comes
 * after is not, and the kernel hands its robust mutex on only then.  So the
 * next owner of the lock sees a prefix of the stores in program order; the
 * compiler alone could spoil that, and SEL_ZONE_STEP() between the stores
 * that the argument rests on keeps it from doing so.  Fields called primary
 * are written such that every prefix makes sense; all others are derived from
 * them by sel_zone_rebuild().
 */

#ifndef SEL_ZONE_IMPL_H
#define SEL_ZONE_IMPL_H

#include "state/sel_catalog.h"
#include "state/sel_proc.h"
#include "state/sel_zone.h"


#define SEL_ZONE_MAGIC   0x454e4f5a2d4c4553ull      /* "SEL-ZONE" */
#define SEL_ZONE_LAYOUT  4

#define SEL_HEADER_SIZE  4096

#define SEL_CHUNK_DATA   (SEL_CHUNK_SIZE - sizeof(sel_chunk_t))

/* bit of aux: whoever walks over lists has come by; clear outside the lock */
#define SEL_CHUNK_SEEN   0x80

/* chunks of a meter: the head, then the values in one piece */
#define SEL_METER_CHUNKS                                                      \
    (1 + SEL_METER_VALUES * sizeof(uint64_t) / SEL_CHUNK_SIZE)

/* deletions that readers can still be told of */
#define SEL_TOMBS        64


/* One step of a mutation ends here: no store is moved over it. */
#define SEL_ZONE_STEP()                                                       \
    do {                                                                      \
        atomic_signal_fence(memory_order_seq_cst);                            \
        SEL_CRASH_POINT();                                                    \
        atomic_signal_fence(memory_order_seq_cst);                            \
    } while (0)


/* A list of records: chunk numbers, NONE at the ends.  Derived. */
typedef struct {
    uint32_t  oldest;
    uint32_t  newest;
} sel_list_t;


#define SEL_LIST_EMPTY  (sel_list_t) { SEL_CHUNK_NONE, SEL_CHUNK_NONE }


/* A record's place in one; at the same offset in all records of a list. */
typedef struct {
    uint32_t  older;
    uint32_t  newer;
} sel_links_t;


struct sel_zone_header_s {
    _Atomic uint64_t  magic;            /* stored last */
    uint64_t          size;
    uint32_t          layout;

    /* primary; all of these only grow */
    uint32_t          chunk_high;       /* chunks above were never used */
    uint32_t          slot_high;        /* likewise, slots from here on */
    uint32_t          partition_last;   /* highest number given out */
    _Atomic uint64_t  catalog_version;
    _Atomic uint64_t  forgotten;        /* version of the newest deletion that
                                           no tomb tells of any more */
    uint64_t          attempts;         /* serial numbers of bookings */
    uint64_t          generations;      /* and of pending selections */
    uint64_t          expiry;           /* age of bookings, ns; 0: none */
    uint64_t          session_ttl;      /* ns */
    uint64_t          seed;             /* of the table of sessions */
    uint64_t          ring_tail;        /* oldest decision in the log */
    _Atomic uint64_t  ring_head;        /* end of the newest */
    pthread_mutex_t   lock;

    /* derived */
    uint32_t          chunk_free;       /* list of returned chunks */
    uint32_t          chunks_returned;
    uint32_t          slot_free_first;  /* queue of returned slots: what was */
    uint32_t          slot_free_last;   /* free longest is given out first */
    uint32_t          slots_used;
    uint32_t          workers;          /* tombs not counted */
    uint32_t          partitions;
    sel_list_t        changes;          /* worker records by version */
    uint32_t          n_tombs;
    uint32_t          tombs[SEL_TOMBS];         /* oldest first */
    sel_list_t        idle;             /* partitions that nothing is in */
    uint64_t          idle_chunks;      /* that these take */
    uint32_t          bookings;
    sel_list_t        booking_list;     /* by the time they were made */
    uint32_t          edges;
    uint32_t          pending;
    sel_list_t        pending_list;     /* by generation */
    uint32_t          pending_chunks;
    uint64_t          pending_size;     /* sum of their estimates */
    uint32_t          sessions;
    uint32_t          sessions_idle;
    sel_list_t        session_list;     /* idle ones, by since when */
    uint64_t          session_chunks;   /* that idle ones take */
    _Atomic uint32_t  meters[SEL_ZONE_PROCS];   /* head chunk or NONE */

    _Atomic uint64_t  counters[SEL_COUNTERS];
};

_Static_assert(sizeof(sel_zone_header_t) <= SEL_HEADER_SIZE, "zone header");


/* How a slot is used; all but the first two only during a commit. */
typedef enum {
    SEL_SLOT_FREE = 0,
    SEL_SLOT_USED,
    SEL_SLOT_KEPT,                      /* to be taken over */
    SEL_SLOT_CARRIED                    /* is in the new record */
} sel_slot_use_t;


/* Whom slots are given to. */
typedef struct {
    uint64_t  worker_id;
    uint32_t  partition;                /* 0: one that is not there yet */
} sel_slot_owner_t;


/* WORKER: a worker record.  A record that is gone is a tomb: whatever its
   other fields still say, it has no ranks, partition or blob. */
typedef struct {
    sel_chunk_t  head;
    uint64_t     worker_id;
    uint64_t     written;               /* version that made it */
    uint64_t     gone;                  /* version that deleted it, or 0 */
    uint64_t     blob_len;
    uint32_t     state;                 /* before it was gone */
    uint32_t     partition;
    uint32_t     n_ranks;
    uint32_t     ranks;                 /* chain of sel_rank_entry_t */
    uint32_t     blob;                  /* chain */
    uint32_t     address;               /* a hint, beside the record */

    /* derived */
    uint32_t     bucket_next;
    sel_links_t  order;
} sel_worker_chunk_t;

_Static_assert(sizeof(sel_worker_chunk_t) <= SEL_CHUNK_SIZE, "worker record");


/* A rank in a worker record. */
typedef struct {
    uint32_t  dp_rank;
    uint32_t  feed;
    uint16_t  slot;
    uint16_t  zero;
} sel_rank_entry_t;

/* none is spread over two chunks */
#define SEL_RANKS_A_CHUNK  (SEL_CHUNK_DATA / sizeof(sel_rank_entry_t))


/* Walks the ranks of a record. */
typedef struct {
    uint32_t  chunk;
    uint32_t  pos;                      /* in the chunk's data */
} sel_rank_walk_t;


/* METER: head of SEL_METER_CHUNKS chunks in one piece, never given back. */
typedef struct {
    sel_chunk_t  head;
    uint32_t     number;
} sel_meter_chunk_t;

_Static_assert(SEL_METER_VALUES * sizeof(uint64_t) % SEL_CHUNK_SIZE == 0,
               "a meter's values fill whole chunks");


/* A primary field: one store, not before what stands above it. */
static inline void
sel_zone_set(uint32_t *field, uint32_t value)
{
    __atomic_store_n(field, value, __ATOMIC_RELEASE);
}


static inline uint8_t
sel_chunk_tag(const sel_chunk_t *chunk)
{
    return atomic_load_explicit(&chunk->tag, memory_order_acquire);
}


static inline void
sel_chunk_set_tag(sel_chunk_t *chunk, sel_chunk_tag_t tag)
{
    atomic_store_explicit(&chunk->tag, (uint8_t) tag, memory_order_release);
}


static inline uint8_t *
sel_chunk_data(sel_chunk_t *chunk)
{
    return (uint8_t *) chunk + sizeof(sel_chunk_t);
}


/* Whether the chunk was ever handed out. */
static inline bool
sel_zone_chunk_known(const sel_zone_t *zone, uint32_t number)
{
    return number != SEL_CHUNK_NONE && number <= zone->header->chunk_high;
}


/* How many chunks, this one included, have no head of their own. */
static inline uint32_t
sel_chunk_span(const sel_chunk_t *chunk)
{
    return sel_chunk_tag(chunk) == SEL_CHUNK_METER ? SEL_METER_CHUNKS : 1;
}


static inline uint32_t
sel_zone_chunk_number(const sel_zone_t *zone, const void *chunk)
{
    return (uint32_t) (((const uint8_t *) chunk - zone->chunks)
                       / SEL_CHUNK_SIZE) + 1;
}


/* The field of another record that is where this one is in its own. */
static inline void *
sel_zone_same(const sel_zone_t *zone, const void *field, uint32_t number)
{
    const uint8_t  *record;

    record = (const uint8_t *) sel_zone_chunk(zone,
                                         sel_zone_chunk_number(zone, field));

    return (uint8_t *) sel_zone_chunk(zone, number)
           + ((const uint8_t *) field - record);
}


static inline sel_worker_chunk_t *
sel_zone_worker(const sel_zone_t *zone, uint32_t number)
{
    return (sel_worker_chunk_t *) sel_zone_chunk(zone, number);
}


static inline uint64_t
sel_worker_version(const sel_worker_chunk_t *worker)
{
    return worker->gone != 0 ? worker->gone : worker->written;
}


/* What a tomb has none of. */
static inline void
sel_worker_bare(sel_worker_chunk_t *worker)
{
    worker->partition = 0;
    worker->n_ranks = 0;
    worker->ranks = SEL_CHUNK_NONE;
    worker->blob_len = 0;
    worker->blob = SEL_CHUNK_NONE;
}


static inline sel_rank_walk_t
sel_rank_walk(uint32_t ranks)
{
    return (sel_rank_walk_t) { ranks, 0 };
}


static inline uint32_t *
sel_zone_worker_bucket(const sel_zone_t *zone, uint64_t worker_id)
{
    uint64_t  mixed;

    mixed = (worker_id * 0x9e3779b97f4a7c15ull) >> 32;

    return &zone->worker_buckets[mixed & (zone->n_worker_buckets - 1)];
}


/* sel_zone.c: initialises a robust mutex shared by processes */
bool sel_zone_init_mutex(pthread_mutex_t *mutex);


/* sel_chunk.c */

/* A chain of BYTES chunks for len bytes, up to `each` in one chunk; not
   filled, else as _chain_write().  The chunks must be there. */
uint32_t sel_zone_chain_make(sel_zone_t *zone, size_t len, size_t each);

/* As _chain_write(), the bytes of a, then those of b. */
uint32_t sel_zone_chain_join(sel_zone_t *zone, sel_str_t a, sel_str_t b);

/* Whether a chain holds the bytes of a, then those of b, and no more. */
bool sel_zone_chain_equal(const sel_zone_t *zone, uint32_t first, sel_str_t a,
    sel_str_t b);

/* n chunks in one piece, as _chunk_take(); their first number or NONE. */
uint32_t sel_zone_run_take(sel_zone_t *zone, uint32_t n);


/* sel_room.c */

/* Makes room for n chunks, as far as that goes: idle bindings of sessions are
   dropped, then pending selections, oldest first. */
void sel_zone_room_make(sel_zone_t *zone, uint64_t n);

/* How many chunks there can be at most. */
uint64_t sel_zone_room_most(const sel_zone_t *zone);

/* Whether there is room for n chunks, which is made if need be.  If not, none
   was made. */
bool sel_zone_room(sel_zone_t *zone, uint64_t n);


/* sel_id.c: ids of records that have `room` bytes for them */

/* Chunks beside the record. */
uint32_t sel_zone_id_need(size_t len, size_t room);

/* Writes an id; its chain or NONE.  The chunks must be there. */
uint32_t sel_zone_id_write(sel_zone_t *zone, sel_str_t id, uint8_t *place,
    size_t room);

/* Whether a record's id, of len bytes, is this one. */
bool sel_zone_id_equal(const sel_zone_t *zone, sel_str_t id, uint32_t len,
    const uint8_t *place, uint32_t chain);


/* sel_list.c */

/* Puts a record into a list behind another of it, or NONE: as the oldest. */
void sel_list_insert(sel_zone_t *zone, sel_list_t *list, uint32_t older,
    sel_links_t *links);

/* Takes a record out of a list that it is in; its own links stay as they
   were. */
void sel_list_remove(sel_zone_t *zone, sel_list_t *list,
    const sel_links_t *links);


/* sel_bucket.c */

/* Puts a record into a bucket; next is its link there. */
void sel_bucket_insert(sel_zone_t *zone, uint32_t *bucket, uint32_t *next);

/* Takes a record out of a bucket that it is in. */
void sel_bucket_remove(sel_zone_t *zone, uint32_t *bucket,
    const uint32_t *next);


/* sel_worker.c: worker records in their table and order */

/* The record of a worker, also a tomb; NULL when there is none. */
sel_worker_chunk_t *sel_zone_worker_find(const sel_zone_t *zone,
    uint64_t worker_id);

/* Puts a published record, newer than all others, in table and order. */
void sel_zone_worker_link(sel_zone_t *zone, sel_worker_chunk_t *worker);

/* Ends a record: its tag first; slots that were not carried over are free. */
void sel_zone_worker_retire(sel_zone_t *zone, sel_worker_chunk_t *worker);

/* Makes a tomb, the newest change, of a record in its place. */
void sel_zone_worker_bury(sel_zone_t *zone, sel_worker_chunk_t *worker,
    uint64_t version);

/* Drops the oldest tomb; there must be one. */
void sel_zone_tomb_drop(sel_zone_t *zone);


/* sel_slot.c: rank slots, and the ranks of records */

/* Goes on to the next rank; NULL at the end. */
sel_rank_entry_t *sel_rank_next(const sel_zone_t *zone, sel_rank_walk_t *walk);

/*
 * Marks the slots that ranks ask to keep, as far as they stand for these very
 * ranks of the owner, which has a record; returns how many more are needed.
 * Whoever asks for another's slot gets a new one.
 */
uint32_t sel_zone_slots_mark(sel_zone_t *zone, const sel_slot_owner_t *owner,
    const sel_rank_slot_t *ranks, uint32_t n);
void sel_zone_slots_unmark(sel_zone_t *zone, const sel_slot_owner_t *owner,
    const sel_rank_slot_t *ranks, uint32_t n);

/* Carries a marked slot over or gives out a free one, which must be there;
   fills in the rank's slot, epoch and feed. */
void sel_zone_slot_assign(sel_zone_t *zone, const sel_slot_owner_t *owner,
    sel_rank_slot_t *rank);

/* Retires a slot: next epoch, and to the end of the queue of free ones. */
void sel_zone_slot_give(sel_zone_t *zone, uint16_t slot);

/* Frees the slots of a record, but for those that another has now, and ends
   their bookings. */
void sel_zone_slots_release(sel_zone_t *zone,
    const sel_worker_chunk_t *worker);


/* sel_meter.c */

/* Makes a published meter found. */
void sel_zone_meter_link(sel_zone_t *zone, sel_meter_chunk_t *meter);

/* Whether a process number leads to its own meter, or to none. */
bool sel_zone_meter_right(const sel_zone_t *zone, uint32_t number);


#endif /* SEL_ZONE_IMPL_H */
