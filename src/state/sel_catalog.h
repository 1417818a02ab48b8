/*
 * The worker catalog and the partitions: the truth that every process
 * compiles its private view from.
 *
 * A worker record is a blob that this room does not read, beside the few
 * facts it needs: id, partition, lifecycle, ranks.  A record is replaced as a
 * whole; each change gets the next catalog version, and records are kept in
 * the order of their versions, so a process that has seen version v reads
 * only what came after v.
 *
 * A rank slot stands for (partition, worker, dp_rank) in books and views.
 * epoch changes when the slot is given to another rank: an (index, epoch) pair
 * never means two ranks.  feed changes when the rank's event source changed:
 * blocks learned from the old source are void.
 */

#ifndef SEL_CATALOG_H
#define SEL_CATALOG_H

#include "core/sel_arena.h"
#include "state/sel_zone.h"


#define SEL_SLOT_NONE  0xffff


struct sel_slot_s {
    uint64_t  worker_id;        /* derived */
    uint32_t  dp_rank;          /* derived */
    uint32_t  partition;        /* derived: partition number */
    uint32_t  epoch;            /* primary: never goes back */
    uint32_t  feed;             /* never goes back; derived from the record
                                   while the slot is used, else primary */
    uint16_t  next_free;        /* derived */
    uint8_t   used;             /* derived */
    uint8_t   pad;
    uint32_t  requests;         /* derived, as all that follows: live bookings
                                   of the rank */

    _Atomic uint64_t  warnings; /* see sel_slot_warn(); not derived */

    uint64_t  prefill;          /* tokens being prefilled */
    double    blocks;           /* sum of weights */
    uint32_t  bookings;         /* the newest of them, chunk */
    uint32_t  rest;
};

_Static_assert(sizeof(sel_slot_t) == 64, "rank slot");


typedef enum {
    SEL_WORKER_GONE = 0,        /* a tomb: tells readers of a deletion */
    SEL_WORKER_INCOMPLETE,
    SEL_WORKER_SCHEDULABLE
} sel_worker_state_t;


/* One rank of a commit and of a read. */
typedef struct {
    uint32_t  dp_rank;
    uint32_t  epoch;            /* out */
    uint32_t  feed;             /* out */
    uint16_t  slot;             /* in: the slot to keep, or SEL_SLOT_NONE to
                                   take a new one; out: the slot */
    bool      new_feed;         /* in: the event source changed */
} sel_rank_slot_t;


/* A partition as asked for by a commit, and as read. */
typedef struct {
    uint32_t   number;          /* 1 ..., never used twice */
    uint32_t   block_size;
    bool       is_eagle;
    sel_str_t  model_name;
    sel_str_t  routing_group;
} sel_partition_t;


/* A worker record as read. */
typedef struct {
    uint64_t            worker_id;
    uint64_t            version;
    sel_worker_state_t  state;
    uint32_t            partition;  /* 0: in none (incomplete, or a tomb) */
    uint32_t            n_ranks;    /* only schedulable workers have some */
    sel_rank_slot_t    *ranks;
    sel_str_t           blob;
    uint32_t            address;    /* see sel_catalog_found(); 0: none */
} sel_worker_record_t;


typedef struct {
    uint64_t                worker_id;
    uint64_t                expected;   /* version of the record that the
                                           change was computed from; 0: there
                                           was none (a tomb is none) */
    sel_worker_state_t      state;      /* GONE deletes */
    const sel_partition_t  *partition;  /* the partition to be in, made when
                                           it is new (number is ignored).
                                           SCHEDULABLE needs one; INCOMPLETE
                                           may give one: it is made, but the
                                           worker is not in it */
    uint32_t                n_ranks;    /* SCHEDULABLE */
    sel_rank_slot_t        *ranks;
    sel_str_t               blob;
} sel_worker_commit_t;


typedef enum {
    SEL_COMMIT_OK = 0,
    SEL_COMMIT_STALE,           /* the record is not at `expected` any more:
                                   read it and compute again */
    SEL_COMMIT_BLOCK_SIZE,      /* the partition exists with another one,
                                   see *existing */
    SEL_COMMIT_EAGLE,
    SEL_COMMIT_NO_SLOTS,        /* not enough rank slots */
    SEL_COMMIT_FULL             /* not enough chunks */
} sel_commit_t;


/* The catalog's version; changes with every commit.  No lock. */
uint64_t sel_catalog_version(const sel_zone_t *zone);

/*
 * Replaces, creates or deletes a worker in one step.  Slots of the old record
 * that the new one does not keep are retired (free, next epoch), and their
 * bookings end.  When the zone is short of chunks, idle sessions and pending
 * selections are dropped, oldest first; for a new partition, also idle ones,
 * in which there is no worker and no pending selection.  On OK the
 * ranks are filled in, *version is the new version and *partition the number
 * (0 when in none).  On any other result nothing has changed; *existing (its
 * strings empty) tells the partition's properties for BLOCK_SIZE and EAGLE.
 */
sel_commit_t sel_catalog_commit(sel_zone_t *zone,
    const sel_worker_commit_t *commit, uint64_t *version, uint32_t *partition,
    sel_partition_t *existing);

/*
 * Reads one worker into arena memory: 1 found, 0 there is none (a tomb counts
 * as none), -1 memory exhausted.
 */
int sel_catalog_worker(sel_zone_t *zone, uint64_t worker_id,
    sel_arena_t *arena, sel_worker_record_t *record);

/*
 * Reads up to max records with a version above `since`, oldest first, tombs
 * included.  Returns how many, -1 when memory is exhausted.  Holds the lock
 * for one batch only: call until it returns 0.
 */
int sel_catalog_changes(sel_zone_t *zone, uint64_t since, uint32_t max,
    sel_arena_t *arena, sel_worker_record_t *records);

/*
 * Keeps what a process has found of a worker's endpoint, an IPv4 address in
 * network order, beside the record of this version, for processes that come
 * later.  A hint: no change of the catalog, and gone with the record.
 */
void sel_catalog_found(sel_zone_t *zone, uint64_t worker_id,
    uint64_t version, uint32_t address);

/*
 * The version of the newest deletion that no tomb tells of any more; no lock.
 * A reader that has seen less, or sees it change while it reads, has to read
 * everything again and to drop what it does not get.
 */
uint64_t sel_catalog_forgotten(const sel_zone_t *zone);

/* Reads one partition by number, as sel_catalog_worker().  0 also when it was
   idle and has been dropped: its number never comes back, its name may come
   back under another. */
int sel_catalog_partition(sel_zone_t *zone, uint32_t number,
    sel_arena_t *arena, sel_partition_t *partition);

/*
 * Reads up to max partitions with numbers above *after, moves *after; returns
 * how many, 0 when there are no more, -1 when memory is exhausted.
 */
int sel_catalog_partitions(sel_zone_t *zone, uint32_t *after, uint32_t max,
    sel_arena_t *arena, sel_partition_t *partitions);

/* Reads one partition by name (its number is filled in). */
int sel_catalog_find_partition(sel_zone_t *zone, sel_str_t model_name,
    sel_str_t routing_group, sel_arena_t *arena, sel_partition_t *partition);


/*
 * Warnings of a rank, up to 32 bits, shared by all processes; they belong to
 * one epoch and feed of its slot and are void for the next.  No lock.
 * sel_slot_warn() sets bits and returns those that were set before;
 * sel_slot_calm() takes bits back.
 */
uint32_t sel_slot_warn(const sel_zone_t *zone, const sel_rank_slot_t *rank,
    uint32_t bits);
void sel_slot_calm(const sel_zone_t *zone, const sel_rank_slot_t *rank,
    uint32_t bits);
uint32_t sel_slot_warnings(const sel_zone_t *zone,
    const sel_rank_slot_t *rank);


#endif /* SEL_CATALOG_H */
