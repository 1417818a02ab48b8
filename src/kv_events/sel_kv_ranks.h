/*
 * The ranks that a stream has named, and which of their cache groups hold
 * full attention.
 *
 * Hybrid models keep several kinds of cache; only full attention can be
 * matched by prefix.  Engines name the kind when they store and only the
 * group's number when they remove, so the kinds are remembered.
 */

#ifndef SEL_KV_RANKS_H
#define SEL_KV_RANKS_H

#include "kv_events/sel_kv_decode.h"


#define SEL_KV_MAX_RANKS   1024     /* of a stream */
#define SEL_KV_MAX_GROUPS  64       /* of a rank */


typedef struct {
    uint32_t  group;
    bool      full_attention;
} sel_kv_group_t;

typedef struct {
    uint32_t         dp_rank;
    uint32_t         salted;        /* blocks in the salt memory */
    uint64_t         life;          /* of the salt memory's entries */
    uint32_t         groups_n;
    sel_kv_group_t  *groups;
} sel_kv_rank_t;

typedef struct {
    uint32_t        n;
    uint32_t        last;           /* looked up */
    sel_kv_rank_t  *data;
} sel_kv_ranks_t;


typedef enum {
    SEL_KV_GROUP_KEPT,
    SEL_KV_GROUP_OTHER,             /* no full attention, or not known */
    SEL_KV_GROUP_NO_MEMORY          /* it cannot be remembered */
} sel_kv_group_result_t;


/* ranks begin zeroed. */
void sel_kv_ranks_free(sel_kv_ranks_t *ranks);

/*
 * The record of a rank, made when there is none; NULL when there are too many
 * or memory is exhausted.  Valid until the next call.
 */
sel_kv_rank_t *sel_kv_ranks_get(sel_kv_ranks_t *ranks, uint32_t dp_rank);

/* Learns from a stored event, then tells whether an event's group counts. */
sel_kv_group_result_t sel_kv_group(sel_kv_rank_t *rank,
    const sel_kv_event_t *event);


#endif /* SEL_KV_RANKS_H */
