/*
 * Verification of a zone, the chunks' part: every chunk that was ever used is
 * free, or a record's head, or in the chain of exactly one record, or behind
 * a meter's head.
 *
 * Chunks of lists and chains are marked when they are met (SEEN in aux), so
 * that meeting one twice is noticed and no loop can be endless.  Chunks
 * behind a meter's head have no place for a mark: they are counted, and the
 * sum tells when a list has strayed into one.
 */

#include "state/sel_zone_check_impl.h"


static const char *sel_check_all(sel_zone_t *zone);
static const char *sel_check_free(sel_zone_t *zone, uint32_t *used);
static const char *sel_check_records(sel_zone_t *zone, uint32_t *used);
static const char *sel_check_worker(sel_zone_t *zone,
    const sel_worker_chunk_t *worker, uint32_t *used);
static const char *sel_check_meter(sel_zone_t *zone, uint32_t number,
    uint32_t *used);
static const char *sel_check_meters(sel_zone_t *zone);
static const char *sel_check_seen(sel_zone_t *zone);
static void sel_check_clear(sel_zone_t *zone);


const char *
sel_zone_check(sel_zone_t *zone)
{
    const char  *wrong;

    if (zone->header->chunk_high > zone->n_chunks) {
        return "more chunks were used than there are";
    }

    if (zone->header->slot_high > zone->n_slots) {
        return "more slots were used than there are";
    }

    wrong = sel_check_all(zone);

    sel_check_clear(zone);

    return wrong;
}


static const char *
sel_check_all(sel_zone_t *zone)
{
    uint32_t     used;
    const char  *wrong;

    used = 0;

    if ((wrong = sel_check_free(zone, &used)) != NULL
        || (wrong = sel_check_records(zone, &used)) != NULL
        || (wrong = sel_check_meters(zone)) != NULL
        || (wrong = sel_check_seen(zone)) != NULL)
    {
        return wrong;
    }

    if (used != zone->header->chunk_high) {
        return "a list has strayed into the values of a meter";
    }

    if ((wrong = sel_zone_check_partitions(zone)) != NULL
        || (wrong = sel_zone_check_workers(zone)) != NULL
        || (wrong = sel_zone_check_changes(zone)) != NULL)
    {
        return wrong;
    }

    if ((wrong = sel_zone_check_slots(zone)) != NULL
        || (wrong = sel_zone_check_books(zone)) != NULL
        || (wrong = sel_zone_check_tree(zone)) != NULL)
    {
        return wrong;
    }

    if ((wrong = sel_zone_check_pendings(zone)) != NULL) {
        return wrong;
    }

    return sel_zone_check_sessions(zone);
}


static const char *
sel_check_free(sel_zone_t *zone, uint32_t *used)
{
    uint32_t  number;

    for (number = zone->header->chunk_free; number != SEL_CHUNK_NONE;
         number = sel_zone_chunk(zone, number)->next)
    {
        if (!sel_check_see(zone, number, SEL_CHUNK_FREE)) {
            return "the free list leads to a chunk that is not free, or twice "
                   "to the same";
        }

        (*used)++;
    }

    if (*used != zone->header->chunks_returned) {
        return "the count of free chunks is wrong";
    }

    return NULL;
}


static const char *
sel_check_records(sel_zone_t *zone, uint32_t *used)
{
    uint32_t                      number;
    sel_chunk_t                  *chunk;
    const char                   *wrong;
    const sel_partition_chunk_t  *partition;

    wrong = NULL;

    for (number = 1; number <= zone->header->chunk_high && wrong == NULL;
         number += sel_chunk_span(chunk))
    {
        chunk = sel_zone_chunk(zone, number);

        switch (sel_chunk_tag(chunk)) {

        case SEL_CHUNK_FREE:
        case SEL_CHUNK_BYTES:
        case SEL_CHUNK_KEYS:
        case SEL_CHUNK_LIFE:
        case SEL_CHUNK_CELLS:
            break;

        case SEL_CHUNK_BOOKING:
            wrong = sel_zone_check_booking(zone, (sel_booking_chunk_t *) chunk,
                                           used);
            break;

        case SEL_CHUNK_PENDING:
            wrong = sel_zone_check_pending(zone, (sel_pending_chunk_t *) chunk,
                                           used);
            break;

        case SEL_CHUNK_SESSION:
        case SEL_CHUNK_SESSION_ENDED:
            wrong = sel_zone_check_session(zone, (sel_session_chunk_t *) chunk,
                                           used);
            break;

        case SEL_CHUNK_EDGE:
            wrong = sel_zone_check_edge(zone, (sel_edge_chunk_t *) chunk,
                                        used);
            break;

        case SEL_CHUNK_WORKER:
            wrong = sel_check_worker(zone, (sel_worker_chunk_t *) chunk, used);
            break;

        case SEL_CHUNK_PARTITION:
            (*used)++;
            partition = (sel_partition_chunk_t *) chunk;

            if (!sel_check_chain(zone, partition->names,
                                 partition->model_len + partition->group_len,
                                 used))
            {
                wrong = "a partition's names are not whole";
            }

            break;

        case SEL_CHUNK_METER:
            wrong = sel_check_meter(zone, number, used);
            break;

        default:
            wrong = "a chunk has an unknown tag";
        }
    }

    return wrong;
}


static const char *
sel_check_worker(sel_zone_t *zone, const sel_worker_chunk_t *worker,
    uint32_t *used)
{
    (*used)++;

    if (worker->written == 0
        || (worker->gone != 0 && worker->gone < worker->written))
    {
        return "a worker's versions are impossible";
    }

    if (worker->gone == 0
        && worker->state != SEL_WORKER_INCOMPLETE
        && worker->state != SEL_WORKER_SCHEDULABLE)
    {
        return "a worker has an unknown state";
    }

    if ((worker->gone != 0 || worker->state != SEL_WORKER_SCHEDULABLE)
        && (worker->n_ranks != 0 || worker->partition != 0))
    {
        return "a worker that is not schedulable has ranks or a partition";
    }

    if (worker->gone != 0 && worker->blob_len != 0) {
        return "a tomb has a blob";
    }

    if (!sel_check_chain(zone, worker->ranks,
                         worker->n_ranks * sizeof(sel_rank_entry_t), used))
    {
        return "a worker's ranks are not whole";
    }

    if (!sel_check_chain(zone, worker->blob, worker->blob_len, used)) {
        return "a worker's blob is not whole";
    }

    return NULL;
}


static const char *
sel_check_meter(sel_zone_t *zone, uint32_t number, uint32_t *used)
{
    const sel_meter_chunk_t  *meter;

    *used += SEL_METER_CHUNKS;
    meter = (const sel_meter_chunk_t *) sel_zone_chunk(zone, number);

    if (number + SEL_METER_CHUNKS - 1 > zone->header->chunk_high) {
        return "a meter reaches beyond the chunks in use";
    }

    if (meter->number >= SEL_ZONE_PROCS
        || atomic_load_explicit(&zone->header->meters[meter->number],
                                memory_order_relaxed)
           != number)
    {
        return "a meter is not found by its number";
    }

    return NULL;
}


static const char *
sel_check_meters(sel_zone_t *zone)
{
    uint32_t  i;

    for (i = 0; i < SEL_ZONE_PROCS; i++) {

        if (!sel_zone_meter_right(zone, i)) {
            return "a process number leads to no meter, or to another's";
        }
    }

    return NULL;
}


/* Whether a chain is in no other list and holds exactly len bytes. */

bool
sel_check_chain(sel_zone_t *zone, uint32_t number, uint64_t len,
    uint32_t *used)
{
    sel_chunk_t  *chunk;

    for ( /* void */ ; number != SEL_CHUNK_NONE; number = chunk->next) {

        if (!sel_check_see(zone, number, SEL_CHUNK_BYTES)) {
            return false;
        }

        (*used)++;
        chunk = sel_zone_chunk(zone, number);

        if (chunk->count == 0
            || chunk->count > SEL_CHUNK_DATA
            || chunk->count > len)
        {
            return false;
        }

        len -= chunk->count;
    }

    return len == 0;
}


bool
sel_check_see(sel_zone_t *zone, uint32_t number, sel_chunk_tag_t tag)
{
    sel_chunk_t  *chunk;

    if (!sel_zone_chunk_known(zone, number)) {
        return false;
    }

    chunk = sel_zone_chunk(zone, number);

    if (sel_chunk_tag(chunk) != tag || (chunk->aux & SEL_CHUNK_SEEN) != 0) {
        return false;
    }

    chunk->aux |= SEL_CHUNK_SEEN;

    return true;
}


static const char *
sel_check_seen(sel_zone_t *zone)
{
    uint8_t       tag;
    uint32_t      number;
    sel_chunk_t  *chunk;

    for (number = 1; number <= zone->header->chunk_high;
         number += sel_chunk_span(chunk))
    {
        chunk = sel_zone_chunk(zone, number);
        tag = sel_chunk_tag(chunk);

        if ((tag == SEL_CHUNK_FREE || tag == SEL_CHUNK_BYTES
             || tag == SEL_CHUNK_KEYS || tag == SEL_CHUNK_LIFE
             || tag == SEL_CHUNK_CELLS)
            && (chunk->aux & SEL_CHUNK_SEEN) == 0)
        {
            return "a chunk is neither free nor in a record";
        }
    }

    return NULL;
}


static void
sel_check_clear(sel_zone_t *zone)
{
    uint32_t      number;
    sel_chunk_t  *chunk;

    for (number = 1; number <= zone->header->chunk_high;
         number += sel_chunk_span(chunk))
    {
        chunk = sel_zone_chunk(zone, number);
        chunk->aux &= (uint8_t) ~SEL_CHUNK_SEEN;
    }
}


bool
sel_check_is(const sel_zone_t *zone, uint32_t number, sel_chunk_tag_t tag)
{
    return sel_zone_chunk_known(zone, number)
           && sel_chunk_tag(sel_zone_chunk(zone, number)) == tag;
}


uint32_t
sel_check_count(const sel_zone_t *zone, sel_chunk_tag_t tag)
{
    uint32_t      n, number;
    sel_chunk_t  *chunk;

    n = 0;

    for (number = 1; number <= zone->header->chunk_high;
         number += sel_chunk_span(chunk))
    {
        chunk = sel_zone_chunk(zone, number);
        n += sel_chunk_tag(chunk) == tag;
    }

    return n;
}
