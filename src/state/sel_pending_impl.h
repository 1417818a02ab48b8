/*
 * Inside of pending selections: their records.
 */

#ifndef SEL_PENDING_IMPL_H
#define SEL_PENDING_IMPL_H

#include "state/sel_pending.h"
#include "state/sel_tree_impl.h"


/* the longest id that is in the record itself */
#define SEL_PENDING_ID  104


/* PENDING: never changed. */
typedef struct {
    sel_chunk_t  head;
    uint64_t     hash;                  /* of partition and id */
    uint64_t     generation;            /* serial number, never used twice */
    uint64_t     worker_id;
    uint64_t     isl_tokens;
    uint64_t     prefill_tokens;
    uint64_t     size;
    uint64_t     made;
    uint32_t     id_len;
    uint32_t     id_chain;              /* of an id that is not in here */
    uint32_t     partition;
    uint32_t     dp_rank;
    uint32_t     expected;              /* output tokens */
    uint32_t     n_blocks;
    uint32_t     sequence;              /* chain of keys */
    uint32_t     n_hashes;
    uint32_t     hashes;                /* chain of keys */
    uint32_t     lora_len;
    uint32_t     session_len;
    uint32_t     texts;                 /* chain: LoRA name, session id */
    uint32_t     chunks;                /* with all chains */
    uint8_t      tracked;
    uint8_t      session;               /* there is one */
    uint16_t     zero;

    /* derived */
    uint32_t     counted;               /* in its partition */
    uint32_t     bucket_next;
    sel_links_t  order;

    uint8_t      id[SEL_PENDING_ID];
} sel_pending_chunk_t;

_Static_assert(sizeof(sel_pending_chunk_t) <= SEL_CHUNK_SIZE, "pending");


static inline sel_pending_chunk_t *
sel_zone_pending(const sel_zone_t *zone, uint32_t number)
{
    return (sel_pending_chunk_t *) sel_zone_chunk(zone, number);
}


static inline uint32_t *
sel_zone_pending_bucket(const sel_zone_t *zone, uint64_t hash)
{
    return &zone->pending_buckets[hash & (zone->n_book_buckets - 1)];
}


/* sel_pending_list.c: records in their table and order */

uint64_t sel_pending_hash(uint32_t partition, sel_str_t id);

/* NULL when there is none. */
sel_pending_chunk_t *sel_zone_pending_find(const sel_zone_t *zone,
    uint64_t hash, uint32_t partition, sel_str_t id);

/* Puts a published record, newer than all others, in table and order. */
void sel_zone_pending_link(sel_zone_t *zone, sel_pending_chunk_t *pending);

/* Ends a record: its tag first. */
void sel_zone_pending_end(sel_zone_t *zone, sel_pending_chunk_t *pending);

/* Ends the oldest one, counted; there must be one. */
void sel_zone_pending_drop(sel_zone_t *zone, sel_counter_t counter);


#endif /* SEL_PENDING_IMPL_H */
