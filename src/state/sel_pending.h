/*
 * Pending selections: what POST /select has answered under an id, kept for a
 * while so that POST /reservations can book exactly that.  Shared by all
 * processes.  A pending selection is found by partition and id.
 *
 * Every function takes the lock by itself.
 */

#ifndef SEL_PENDING_H
#define SEL_PENDING_H

#include "core/sel_arena.h"
#include "state/sel_zone.h"


typedef struct {
    sel_str_t        id;
    uint32_t         partition;         /* number */
    uint32_t         dp_rank;
    uint64_t         worker_id;
    uint64_t         isl_tokens;
    uint64_t         prefill_tokens;    /* effective */
    bool             tracked;           /* prefill is to be booked */
    uint32_t         expected_output_tokens;
    uint32_t         n_blocks;
    const uint64_t  *sequence;          /* tracking hashes, as answered */
    uint32_t         n_hashes;          /* 0: not kept */
    const uint64_t  *hashes;            /* public block hashes */
    sel_str_t        lora_name;
    sel_str_t        session_id;        /* data NULL: none */
    uint64_t         size;              /* estimate that counts against the
                                           limit, bytes */
    uint64_t         made;              /* sel_clock_ns() */
    uint64_t         generation;        /* out: never used twice */
} sel_pending_t;


typedef struct {
    uint64_t  ttl;              /* nanoseconds; an entry is valid while its
                                   age is at most this */
    uint32_t  max;              /* entries */
    uint64_t  size;             /* bytes, by their estimates */
} sel_pending_limits_t;


/*
 * Keeps a selection in place of an older one of its partition and id: drops
 * expired ones from the oldest on, adds it, then drops the oldest while there
 * are too many or they are too large (it may be the new one itself).  All
 * together take at most half of the zone's chunks; without room nothing is
 * kept and the older one is gone.  Returns whether it is kept.
 */
bool sel_pending_put(sel_zone_t *zone, const sel_pending_t *pending,
    const sel_pending_limits_t *limits);

/*
 * Copies a valid selection into arena memory: 1 found, 0 there is none, -1
 * memory exhausted.  An expired one is not removed.
 */
int sel_pending_get(sel_zone_t *zone, uint32_t partition, sel_str_t id,
    uint64_t now, uint64_t ttl, sel_arena_t *arena, sel_pending_t *pending);

/* Drops a selection if it has this generation (0: any). */
void sel_pending_drop(sel_zone_t *zone, uint32_t partition, sel_str_t id,
    uint64_t generation);


#endif /* SEL_PENDING_H */
