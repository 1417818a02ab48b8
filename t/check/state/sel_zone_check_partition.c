/*
 * Verification of a zone, the partitions' part.
 *
 * A table is right when no bucket has too much (all entries are records, at
 * their place, not more than there are) and every record is found.
 */

#include "state/sel_zone_check_impl.h"


static const char *sel_check_names(const sel_zone_t *zone, uint32_t records);
static const char *sel_check_numbers(const sel_zone_t *zone,
    uint32_t records);
static bool sel_check_name_twice(const sel_zone_t *zone,
    const sel_partition_chunk_t *record);
static bool sel_check_same(const sel_zone_t *zone, uint32_t a, uint32_t b);
static const char *sel_check_idle(const sel_zone_t *zone, uint32_t records);
static const char *sel_check_users(const sel_zone_t *zone);
static uint32_t sel_check_users_of(const sel_zone_t *zone, uint32_t number);


const char *
sel_zone_check_partitions(sel_zone_t *zone)
{
    uint32_t     records;
    const char  *wrong;

    records = sel_check_count(zone, SEL_CHUNK_PARTITION);

    if (records != zone->header->partitions) {
        return "the count of partitions is wrong";
    }

    if ((wrong = sel_check_names(zone, records)) != NULL
        || (wrong = sel_check_numbers(zone, records)) != NULL
        || (wrong = sel_check_users(zone)) != NULL)
    {
        return wrong;
    }

    return sel_check_idle(zone, records);
}


static const char *
sel_check_names(const sel_zone_t *zone, uint32_t records)
{
    uint32_t                i, n, number;
    sel_partition_chunk_t  *record;

    n = 0;

    for (i = 0; i < zone->n_partition_buckets; i++) {

        for (number = zone->partition_buckets[i]; number != SEL_CHUNK_NONE;
             number = record->name_next)
        {
            record = sel_zone_partition(zone, number);

            if (n++ == records
                || !sel_check_is(zone, number, SEL_CHUNK_PARTITION)
                || sel_zone_name_bucket(zone, record->hash)
                   != &zone->partition_buckets[i])
            {
                return "the table of partition names holds something else";
            }
        }
    }

    if (n != records) {
        return "a partition is not in the table of names";
    }

    for (i = 0; i < zone->n_partition_buckets; i++) {

        for (number = zone->partition_buckets[i]; number != SEL_CHUNK_NONE;
             number = record->name_next)
        {
            record = sel_zone_partition(zone, number);

            if (sel_check_name_twice(zone, record)) {
                return "two partitions have the same names";
            }
        }
    }

    return NULL;
}


static bool
sel_check_name_twice(const sel_zone_t *zone,
    const sel_partition_chunk_t *record)
{
    uint32_t                      number;
    const sel_partition_chunk_t  *other;

    for (number = record->name_next; number != SEL_CHUNK_NONE;
         number = other->name_next)
    {
        other = sel_zone_partition(zone, number);

        if (other->model_len == record->model_len
            && other->group_len == record->group_len
            && sel_check_same(zone, other->names, record->names))
        {
            return true;
        }
    }

    return false;
}


/* Whether two chains of one length hold the same bytes. */

static bool
sel_check_same(const sel_zone_t *zone, uint32_t a, uint32_t b)
{
    sel_chunk_t  *one, *two;

    while (a != SEL_CHUNK_NONE && b != SEL_CHUNK_NONE) {
        one = sel_zone_chunk(zone, a);
        two = sel_zone_chunk(zone, b);

        if (memcmp(sel_chunk_data(one), sel_chunk_data(two), one->count)
            != 0)
        {
            return false;
        }

        a = one->next;
        b = two->next;
    }

    return true;
}


static const char *
sel_check_numbers(const sel_zone_t *zone, uint32_t records)
{
    uint32_t                i, n, number, *buckets;
    sel_partition_chunk_t  *record;

    n = 0;
    buckets = zone->partition_buckets + zone->n_partition_buckets;

    for (i = 0; i < zone->n_partition_buckets; i++) {

        for (number = buckets[i]; number != SEL_CHUNK_NONE;
             number = record->number_next)
        {
            record = sel_zone_partition(zone, number);

            if (n++ == records
                || !sel_check_is(zone, number, SEL_CHUNK_PARTITION)
                || sel_zone_number_bucket(zone, record->number) != &buckets[i])
            {
                return "the table of partition numbers holds something else";
            }

            if (record->number == 0
                || record->number > zone->header->partition_last
                || sel_zone_partition_number(zone, record->number) != record)
            {
                return "a partition number was not given out, or twice";
            }
        }
    }

    return n == records ? NULL : "a partition is not in the table of numbers";
}


static const char *
sel_check_users(const sel_zone_t *zone)
{
    uint32_t                i, number;
    sel_partition_chunk_t  *record;

    for (i = 0; i < zone->n_partition_buckets; i++) {

        for (number = zone->partition_buckets[i]; number != SEL_CHUNK_NONE;
             number = record->name_next)
        {
            record = sel_zone_partition(zone, number);

            if (record->users != sel_check_users_of(zone, record->number)) {
                return "the count of what is in a partition is wrong";
            }
        }
    }

    return NULL;
}


static uint32_t
sel_check_users_of(const sel_zone_t *zone, uint32_t number)
{
    uint32_t                    n, i;
    sel_chunk_t                *chunk;
    const sel_worker_chunk_t   *worker;
    const sel_pending_chunk_t  *pending;

    n = 0;

    for (i = 1; i <= zone->header->chunk_high; i += sel_chunk_span(chunk)) {
        chunk = sel_zone_chunk(zone, i);
        worker = (const sel_worker_chunk_t *) chunk;
        pending = (const sel_pending_chunk_t *) chunk;

        n += sel_chunk_tag(chunk) == SEL_CHUNK_WORKER && worker->gone == 0
             && worker->partition == number;
        n += sel_chunk_tag(chunk) == SEL_CHUNK_PENDING
             && pending->counted != 0 && pending->partition == number;
    }

    return n;
}


static const char *
sel_check_idle(const sel_zone_t *zone, uint32_t records)
{
    uint64_t                chunks;
    uint32_t                i, n, number, older, idle;
    sel_partition_chunk_t  *record;

    n = 0;
    chunks = 0;
    older = SEL_CHUNK_NONE;

    for (number = zone->header->idle.oldest; number != SEL_CHUNK_NONE;
         number = record->idle.newer)
    {
        record = sel_zone_partition(zone, number);

        if (n++ == records
            || !sel_check_is(zone, number, SEL_CHUNK_PARTITION)
            || record->users != 0 || record->idle.older != older)
        {
            return "the list of idle partitions leads to something else";
        }

        chunks += 1 + sel_zone_chain_need(record->model_len
                                          + record->group_len);
        older = number;
    }

    idle = 0;

    for (i = 0; i < zone->n_partition_buckets; i++) {

        for (number = zone->partition_buckets[i]; number != SEL_CHUNK_NONE;
             number = record->name_next)
        {
            record = sel_zone_partition(zone, number);
            idle += record->users == 0;
        }
    }

    return n == idle && zone->header->idle.newest == older
           && zone->header->idle_chunks == chunks
           ? NULL : "an idle partition is not in the list, or the counts are "
                    "wrong";
}
