/*
 * Idle partitions: those that no worker and no pending selection is in.  (A
 * booking needs a rank, so a worker.)  They are kept, since a partition fixes
 * its block size, until their room is wanted for new ones.
 *
 * A dropped number is never given out again: whoever still holds it finds
 * nothing.  After a rebuild idle partitions are in no particular order.
 */

#include "state/sel_partition_impl.h"


static uint64_t sel_partition_chunks(const sel_partition_chunk_t *record);
static void sel_partition_wake(sel_zone_t *zone,
    sel_partition_chunk_t *record);
static void sel_partition_unlink(sel_zone_t *zone,
    const sel_partition_chunk_t *record);


bool
sel_zone_partition_use(sel_zone_t *zone, uint32_t number)
{
    sel_partition_chunk_t  *record;

    record = sel_zone_partition_number(zone, number);

    if (record == NULL) {
        return false;
    }

    if (record->users == 0) {
        sel_partition_wake(zone, record);
    }

    record->users++;
    SEL_ZONE_STEP();

    return true;
}


void
sel_zone_partition_unuse(sel_zone_t *zone, uint32_t number)
{
    sel_partition_chunk_t  *record;

    record = sel_zone_partition_number(zone, number);

    if (record == NULL) {
        return;
    }

    record->users--;
    SEL_ZONE_STEP();

    if (record->users == 0) {
        sel_zone_partition_rest(zone, record);
    }
}


static uint64_t
sel_partition_chunks(const sel_partition_chunk_t *record)
{
    return 1 + (uint64_t) sel_zone_chain_need(record->model_len
                                              + record->group_len);
}


void
sel_zone_partition_rest(sel_zone_t *zone, sel_partition_chunk_t *record)
{
    sel_zone_header_t  *header;

    header = zone->header;

    sel_list_insert(zone, &header->idle, header->idle.newest, &record->idle);

    header->idle_chunks += sel_partition_chunks(record);
}


/* Takes a record out of the idle ones. */

static void
sel_partition_wake(sel_zone_t *zone, sel_partition_chunk_t *record)
{
    sel_zone_header_t  *header;

    header = zone->header;

    sel_list_remove(zone, &header->idle, &record->idle);

    header->idle_chunks -= sel_partition_chunks(record);
}


void
sel_zone_partition_drop(sel_zone_t *zone)
{
    uint32_t                number;
    sel_partition_chunk_t  *record;

    number = zone->header->idle.oldest;
    record = sel_zone_partition(zone, number);

    sel_chunk_set_tag(&record->head, SEL_CHUNK_FREE);
    SEL_ZONE_STEP();

    sel_partition_wake(zone, record);
    sel_partition_unlink(zone, record);

    sel_zone_chain_give(zone, record->names);
    sel_zone_chain_give(zone, number);
}


static void
sel_partition_unlink(sel_zone_t *zone, const sel_partition_chunk_t *record)
{
    sel_bucket_remove(zone, sel_zone_name_bucket(zone, record->hash),
                      &record->name_next);
    sel_bucket_remove(zone, sel_zone_number_bucket(zone, record->number),
                      &record->number_next);

    zone->header->partitions--;
    SEL_ZONE_STEP();
}
