/*
 * Partition records.  A partition is made by the first commit that names it
 * and stays: its number is in slots, keys and counters of all processes, and
 * no number is ever given out twice.
 */

#include "core/sel_hash.h"
#include "state/sel_zone_impl.h"


static int sel_partition_read(sel_zone_t *zone, sel_arena_t *arena,
    const sel_partition_chunk_t *record, sel_partition_t *partition);


uint64_t
sel_partition_hash(sel_str_t model_name, sel_str_t routing_group)
{
    uint64_t  hash;

    hash = sel_hash_bytes(model_name.data, model_name.len, 0);

    return sel_hash_bytes(routing_group.data, routing_group.len, hash);
}


sel_partition_chunk_t *
sel_zone_partition_find(const sel_zone_t *zone, uint64_t hash,
    sel_str_t model_name, sel_str_t routing_group)
{
    uint32_t                number;
    sel_partition_chunk_t  *record;

    number = *sel_zone_name_bucket(zone, hash);

    while (number != SEL_CHUNK_NONE) {
        record = sel_zone_partition(zone, number);

        if (record->hash == hash
            && record->model_len == model_name.len
            && record->group_len == routing_group.len
            && sel_zone_chain_equal(zone, record->names, model_name,
                                    routing_group))
        {
            return record;
        }

        number = record->name_next;
    }

    return NULL;
}


sel_partition_chunk_t *
sel_zone_partition_number(const sel_zone_t *zone, uint32_t number)
{
    uint32_t                chunk;
    sel_partition_chunk_t  *record;

    chunk = *sel_zone_number_bucket(zone, number);

    while (chunk != SEL_CHUNK_NONE) {
        record = sel_zone_partition(zone, chunk);

        if (record->number == number) {
            return record;
        }

        chunk = record->number_next;
    }

    return NULL;
}


uint64_t
sel_zone_partition_need(const sel_partition_t *partition)
{
    return 1 + (uint64_t) sel_zone_chain_need(partition->model_name.len
                                              + partition->routing_group.len);
}


uint32_t
sel_zone_partition_make(sel_zone_t *zone, const sel_partition_t *partition,
    uint64_t hash)
{
    uint32_t                names, number;
    sel_partition_chunk_t  *record;

    number = sel_zone_chunk_take(zone);
    record = sel_zone_partition(zone, number);

    names = sel_zone_chain_join(zone, partition->model_name,
                                partition->routing_group);

    number = zone->header->partition_last + 1;
    sel_zone_set(&zone->header->partition_last, number);
    SEL_ZONE_STEP();

    record->hash = hash;
    record->model_len = partition->model_name.len;
    record->group_len = partition->routing_group.len;
    record->number = number;
    record->block_size = partition->block_size;
    record->is_eagle = partition->is_eagle;
    record->names = names;
    SEL_ZONE_STEP();

    sel_chunk_set_tag(&record->head, SEL_CHUNK_PARTITION);
    SEL_ZONE_STEP();

    sel_zone_partition_link(zone, record);

    return record->number;
}


void
sel_zone_partition_link(sel_zone_t *zone, sel_partition_chunk_t *record)
{
    uint32_t  number, *bucket;

    number = sel_zone_chunk_number(zone, record);

    bucket = sel_zone_name_bucket(zone, record->hash);
    record->name_next = *bucket;
    SEL_ZONE_STEP();
    *bucket = number;
    SEL_ZONE_STEP();

    bucket = sel_zone_number_bucket(zone, record->number);
    record->number_next = *bucket;
    SEL_ZONE_STEP();
    *bucket = number;
    SEL_ZONE_STEP();

    zone->header->partitions++;
    SEL_ZONE_STEP();
}


int
sel_catalog_partition(sel_zone_t *zone, uint32_t number, sel_arena_t *arena,
    sel_partition_t *partition)
{
    const sel_partition_chunk_t  *record;

    sel_zone_lock(zone);
    record = sel_zone_partition_number(zone, number);
    sel_zone_unlock(zone);

    return sel_partition_read(zone, arena, record, partition);
}


int
sel_catalog_find_partition(sel_zone_t *zone, sel_str_t model_name,
    sel_str_t routing_group, sel_arena_t *arena, sel_partition_t *partition)
{
    uint64_t                      hash;
    const sel_partition_chunk_t  *record;

    hash = sel_partition_hash(model_name, routing_group);

    sel_zone_lock(zone);
    record = sel_zone_partition_find(zone, hash, model_name, routing_group);
    sel_zone_unlock(zone);

    return sel_partition_read(zone, arena, record, partition);
}


/* A record stays where and what it is, so the lock was not needed to keep
   it; the copy needs it, since a rebuild goes over the tags of chains. */

static int
sel_partition_read(sel_zone_t *zone, sel_arena_t *arena,
    const sel_partition_chunk_t *record, sel_partition_t *partition)
{
    bool      ok;
    size_t    len;
    uint8_t  *names;

    if (record == NULL) {
        return 0;
    }

    len = record->model_len + record->group_len;
    names = sel_arena_alloc(arena, len);

    if (names == NULL) {
        return -1;
    }

    sel_zone_lock(zone);
    ok = sel_zone_chain_read(zone, record->names, names, len);
    sel_zone_unlock(zone);

    partition->number = record->number;
    partition->block_size = record->block_size;
    partition->is_eagle = record->is_eagle != 0;
    partition->model_name = (sel_str_t) { record->model_len, names };
    partition->routing_group = (sel_str_t) { record->group_len,
                                             names + record->model_len };

    return ok ? 1 : -1;
}
