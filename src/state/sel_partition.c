/*
 * Partition records.  A partition is made by the first commit that names it.
 * Its number is in slots, keys and counters of all processes, so no number is
 * ever given out twice; a name whose partition was dropped while it was idle
 * comes back under another one.
 */

#include "core/sel_hash.h"
#include "state/sel_partition_impl.h"


/* partition numbers looked at in one turn of the lock */
#define SEL_PARTITION_NUMBERS  1024


static uint32_t sel_partition_numbers(sel_zone_t *zone, uint32_t *after,
    uint32_t max, sel_partition_t *partitions, uint32_t *last);
static void sel_partition_list(const sel_partition_chunk_t *record,
    sel_partition_t *partition);
static int sel_partition_read(sel_zone_t *zone, sel_arena_t *arena,
    sel_partition_t *partition);


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
    sel_bucket_insert(zone, sel_zone_name_bucket(zone, record->hash),
                      &record->name_next);
    sel_bucket_insert(zone, sel_zone_number_bucket(zone, record->number),
                      &record->number_next);

    zone->header->partitions++;
    SEL_ZONE_STEP();

    record->users = 0;
    record->sessions = 0;
    sel_zone_partition_rest(zone, record);
}


int
sel_catalog_partition(sel_zone_t *zone, uint32_t number, sel_arena_t *arena,
    sel_partition_t *partition)
{
    const sel_partition_chunk_t  *record;

    sel_zone_lock(zone);

    record = sel_zone_partition_number(zone, number);

    if (record != NULL) {
        sel_partition_list(record, partition);
    }

    sel_zone_unlock(zone);

    return record != NULL ? sel_partition_read(zone, arena, partition) : 0;
}


int
sel_catalog_find_partition(sel_zone_t *zone, sel_str_t model_name,
    sel_str_t routing_group, sel_arena_t *arena, sel_partition_t *partition)
{
    int                           rc;
    uint64_t                      hash;
    const sel_partition_chunk_t  *record;

    hash = sel_partition_hash(model_name, routing_group);

    do {
        sel_zone_lock(zone);

        record = sel_zone_partition_find(zone, hash, model_name,
                                         routing_group);
        if (record != NULL) {
            sel_partition_list(record, partition);
        }

        sel_zone_unlock(zone);

        if (record == NULL) {
            return 0;
        }

        /* 0: dropped meanwhile; the name may have come back */

        rc = sel_partition_read(zone, arena, partition);

    } while (rc == 0);

    return rc;
}


int
sel_catalog_partitions(sel_zone_t *zone, uint32_t *after, uint32_t max,
    sel_arena_t *arena, sel_partition_t *partitions)
{
    int       rc;
    uint32_t  i, n, listed, last;

    do {
        listed = sel_partition_numbers(zone, after, max, partitions, &last);

        for (i = 0, n = 0; i < listed; i++) {
            rc = sel_partition_read(zone, arena, &partitions[i]);

            if (rc == -1) {
                return -1;
            }

            if (rc == 1) {
                partitions[n++] = partitions[i];
            }
        }

    } while (n == 0 && *after < last);

    return (int) n;
}


/*
 * Lists the next partitions.  Numbers may have large holes, so there is a
 * limit to those looked at while the lock is held.
 */

static uint32_t
sel_partition_numbers(sel_zone_t *zone, uint32_t *after, uint32_t max,
    sel_partition_t *partitions, uint32_t *last)
{
    uint32_t                      n, end;
    const sel_partition_chunk_t  *record;

    n = 0;

    sel_zone_lock(zone);

    *last = zone->header->partition_last;
    end = *last - *after > SEL_PARTITION_NUMBERS
          ? *after + SEL_PARTITION_NUMBERS : *last;

    while (n < max && *after < end) {
        record = sel_zone_partition_number(zone, ++*after);

        if (record != NULL) {
            sel_partition_list(record, &partitions[n++]);
        }
    }

    sel_zone_unlock(zone);

    return n;
}


/* What a record says; its names are not there yet. */

static void
sel_partition_list(const sel_partition_chunk_t *record,
    sel_partition_t *partition)
{
    partition->number = record->number;
    partition->block_size = record->block_size;
    partition->is_eagle = record->is_eagle != 0;
    partition->model_name = (sel_str_t) { record->model_len, NULL };
    partition->routing_group = (sel_str_t) { record->group_len, NULL };
}


/* Copies the names, if the record is still there: as long as it is, it does
   not change. */

static int
sel_partition_read(sel_zone_t *zone, sel_arena_t *arena,
    sel_partition_t *partition)
{
    int                           rc;
    size_t                        len;
    uint8_t                      *names;
    const sel_partition_chunk_t  *record;

    len = partition->model_name.len + partition->routing_group.len;
    names = sel_arena_alloc(arena, len);

    if (names == NULL) {
        return -1;
    }

    rc = 0;

    sel_zone_lock(zone);

    record = sel_zone_partition_number(zone, partition->number);

    if (record != NULL) {
        rc = sel_zone_chain_read(zone, record->names, names, len) ? 1 : -1;
    }

    sel_zone_unlock(zone);

    partition->model_name.data = names;
    partition->routing_group.data = names + partition->model_name.len;

    return rc;
}
