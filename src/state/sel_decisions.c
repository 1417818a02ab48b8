/*
 * The decision log: a ring of bytes.  Places in it are counted from the
 * beginning of time and only grow; where one lies is its remainder by the
 * size of the ring.  A record may go on at the ring's beginning.
 *
 * Tail and head are primary.  Before anything is written over, the tail moves
 * behind it; the head moves when the record is whole.  So a death leaves
 * whole records between the two, and there is nothing to rebuild.
 */

#include "state/sel_books_impl.h"
#include "state/sel_decisions.h"


/* bytes that are copied in one go, so that the lock is held for short */
#define SEL_DECISIONS_BATCH  32768


/* One record; its hashes follow. */
typedef struct {
    uint64_t  made;
    uint32_t  n_hashes;
    uint32_t  partition;
    uint32_t  epoch;
    uint16_t  slot;
    uint16_t  zero;
} sel_decision_record_t;

_Static_assert(sizeof(sel_decision_record_t) % 8 == 0, "decision");


/* A reader's buffer. */
typedef struct {
    uint8_t  *pos;
    uint8_t  *end;
} sel_decision_buffer_t;


static uint64_t sel_decision_size(uint32_t n_hashes);
static void sel_ring_write(sel_zone_t *zone, uint64_t at, const void *data,
    size_t size);
static void sel_ring_read(const sel_zone_t *zone, uint64_t at, void *data,
    size_t size);
static uint32_t sel_decisions_batch(sel_zone_t *zone, uint64_t *at,
    sel_decision_buffer_t *buffer, sel_decision_t *decisions, uint32_t max,
    uint64_t *lost);
static bool sel_decision_copy(const sel_zone_t *zone, uint64_t *at,
    sel_decision_buffer_t *buffer, sel_decision_t *decision);


uint64_t
sel_decisions_head(const sel_zone_t *zone)
{
    return atomic_load_explicit(&zone->header->ring_head,
                                memory_order_acquire);
}


uint64_t
sel_decisions_tail(sel_zone_t *zone)
{
    uint64_t  tail;

    sel_zone_lock(zone);
    tail = zone->header->ring_tail;
    sel_zone_unlock(zone);

    return tail;
}


uint64_t
sel_decisions_size(const sel_zone_t *zone)
{
    return zone->ring_size;
}


static uint64_t
sel_decision_size(uint32_t n_hashes)
{
    return sizeof(sel_decision_record_t) + n_hashes * sizeof(uint64_t);
}


void
sel_decisions_append(sel_zone_t *zone, const sel_booking_t *booking,
    uint16_t slot, uint32_t epoch)
{
    uint64_t               head, tail, size;
    sel_decision_record_t  record, old;

    size = sel_decision_size(booking->n_hashes);

    if (booking->n_hashes == 0 || size > zone->ring_size) {
        return;
    }

    head = sel_decisions_head(zone);
    tail = zone->header->ring_tail;

    while (head + size - tail > zone->ring_size) {
        sel_ring_read(zone, tail, &old, sizeof(old));
        tail += sel_decision_size(old.n_hashes);
    }

    __atomic_store_n(&zone->header->ring_tail, tail, __ATOMIC_RELEASE);
    SEL_ZONE_STEP();

    record = (sel_decision_record_t) { booking->now, booking->n_hashes,
                                       booking->partition, epoch, slot, 0 };

    sel_ring_write(zone, head, &record, sizeof(record));
    SEL_ZONE_STEP();
    sel_ring_write(zone, head + sizeof(record), booking->hashes,
                   booking->n_hashes * sizeof(uint64_t));
    SEL_ZONE_STEP();

    atomic_store_explicit(&zone->header->ring_head, head + size,
                          memory_order_release);
    SEL_ZONE_STEP();
}


static void
sel_ring_write(sel_zone_t *zone, uint64_t at, const void *data, size_t size)
{
    size_t  pos, part;

    pos = (size_t) (at % zone->ring_size);
    part = zone->ring_size - pos;
    part = part < size ? part : size;

    memcpy(zone->ring + pos, data, part);
    memcpy(zone->ring, (const uint8_t *) data + part, size - part);
}


static void
sel_ring_read(const sel_zone_t *zone, uint64_t at, void *data, size_t size)
{
    size_t  pos, part;

    pos = (size_t) (at % zone->ring_size);
    part = zone->ring_size - pos;
    part = part < size ? part : size;

    memcpy(data, zone->ring + pos, part);
    memcpy((uint8_t *) data + part, zone->ring, size - part);
}


uint32_t
sel_decisions_read(sel_zone_t *zone, uint64_t *at, void *data, size_t size,
    sel_decision_t *decisions, uint32_t max, uint64_t *lost)
{
    size_t                 skip;
    uint32_t               n, more;
    sel_decision_buffer_t  buffer;

    skip = (8 - (uintptr_t) data % 8) % 8;
    skip = skip < size ? skip : size;

    buffer.pos = (uint8_t *) data + skip;
    buffer.end = (uint8_t *) data + size;

    n = 0;

    do {
        if (*at == sel_decisions_head(zone)) {
            break;
        }

        sel_zone_lock(zone);
        more = sel_decisions_batch(zone, at, &buffer, decisions + n, max - n,
                                   lost);
        sel_zone_unlock(zone);

        n += more;

    } while (more != 0 && n < max);

    return n;
}


static uint32_t
sel_decisions_batch(sel_zone_t *zone, uint64_t *at,
    sel_decision_buffer_t *buffer, sel_decision_t *decisions, uint32_t max,
    uint64_t *lost)
{
    uint32_t  n;
    uint64_t  head, tail;
    uint8_t  *begin;

    head = sel_decisions_head(zone);
    tail = zone->header->ring_tail;
    begin = buffer->pos;

    if (*at < tail) {
        *lost += tail - *at;
        *at = tail;

    } else if (*at > head) {
        *at = head;
    }

    for (n = 0; n < max && *at != head; n++) {

        if (buffer->pos - begin >= SEL_DECISIONS_BATCH
            || !sel_decision_copy(zone, at, buffer, &decisions[n]))
        {
            break;
        }
    }

    return n;
}


static bool
sel_decision_copy(const sel_zone_t *zone, uint64_t *at,
    sel_decision_buffer_t *buffer, sel_decision_t *decision)
{
    size_t                 size;
    sel_decision_record_t  record;

    sel_ring_read(zone, *at, &record, sizeof(record));

    size = record.n_hashes * sizeof(uint64_t);

    if (size > (size_t) (buffer->end - buffer->pos)) {
        return false;
    }

    decision->slot = record.slot;
    decision->epoch = record.epoch;
    decision->partition = record.partition;
    decision->made = record.made;
    decision->n_hashes = record.n_hashes;
    decision->hashes = (uint64_t *) (void *) buffer->pos;

    sel_ring_read(zone, *at + sizeof(record), buffer->pos, size);

    buffer->pos += size;
    *at += sizeof(record) + size;

    return true;
}
