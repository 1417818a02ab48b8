/*
 * Inside of the zone: partition records.
 */

#ifndef SEL_PARTITION_IMPL_H
#define SEL_PARTITION_IMPL_H

#include "state/sel_zone_impl.h"


/* PARTITION: never changed; given back only while it is idle. */
typedef struct {
    sel_chunk_t  head;
    uint64_t     hash;                  /* of both names */
    uint64_t     model_len;
    uint64_t     group_len;
    uint32_t     number;
    uint32_t     block_size;
    uint32_t     is_eagle;
    uint32_t     names;                 /* chain: model name, routing group */

    /* derived */
    uint32_t     name_next;
    uint32_t     number_next;
    uint32_t     users;                 /* workers and pending selections;
                                           bookings need a worker's rank */
    sel_links_t  idle;                  /* while there are none */
    uint32_t     sessions;              /* bindings */
} sel_partition_chunk_t;

_Static_assert(sizeof(sel_partition_chunk_t) <= SEL_CHUNK_SIZE, "partition");


static inline sel_partition_chunk_t *
sel_zone_partition(const sel_zone_t *zone, uint32_t number)
{
    return (sel_partition_chunk_t *) sel_zone_chunk(zone, number);
}


/* Partitions have two tables of n_partition_buckets, one behind the other. */

static inline uint32_t *
sel_zone_name_bucket(const sel_zone_t *zone, uint64_t hash)
{
    return &zone->partition_buckets[hash & (zone->n_partition_buckets - 1)];
}


static inline uint32_t *
sel_zone_number_bucket(const sel_zone_t *zone, uint32_t number)
{
    return &zone->partition_buckets[zone->n_partition_buckets
                              + (number & (zone->n_partition_buckets - 1))];
}


/* sel_partition.c */

uint64_t sel_partition_hash(sel_str_t model_name, sel_str_t routing_group);

sel_partition_chunk_t *sel_zone_partition_find(const sel_zone_t *zone,
    uint64_t hash, sel_str_t model_name, sel_str_t routing_group);
sel_partition_chunk_t *sel_zone_partition_number(const sel_zone_t *zone,
    uint32_t number);

/* Chunks that sel_zone_partition_make() takes. */
uint64_t sel_zone_partition_need(const sel_partition_t *partition);

/* Makes a partition, for which there must be room; returns its number. */
uint32_t sel_zone_partition_make(sel_zone_t *zone,
    const sel_partition_t *partition, uint64_t hash);

/* Puts a published record in both tables; it is idle. */
void sel_zone_partition_link(sel_zone_t *zone, sel_partition_chunk_t *record);


/* sel_partition_idle.c */

/* Something comes into a partition or leaves it.  Numbers that there are no
   partitions of are passed over: _use() tells. */
bool sel_zone_partition_use(sel_zone_t *zone, uint32_t number);
void sel_zone_partition_unuse(sel_zone_t *zone, uint32_t number);

/* Puts a record that has no users to the end of the idle ones. */
void sel_zone_partition_rest(sel_zone_t *zone, sel_partition_chunk_t *record);

/* Drops the partition that has been idle longest; there must be one. */
void sel_zone_partition_drop(sel_zone_t *zone);


#endif /* SEL_PARTITION_IMPL_H */
