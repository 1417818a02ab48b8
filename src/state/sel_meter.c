/*
 * Meters: the counters of a worker process number.  The values lie in whole
 * chunks behind the head in one piece, so the process that counts has plain
 * addresses; those chunks have no heads of their own.  A meter stays for
 * ever: a process that follows, also of a later configuration, goes on.
 */

#include "state/sel_zone_impl.h"


static sel_meter_chunk_t *sel_meter_make(sel_zone_t *zone, uint32_t number);
static uint32_t sel_meter_room(sel_zone_t *zone);
static _Atomic uint64_t *sel_meter_values(const sel_zone_t *zone,
    uint32_t number);


_Atomic uint64_t *
sel_meter_attach(sel_zone_t *zone, uint32_t number)
{
    sel_meter_chunk_t  *meter;

    if (number >= SEL_ZONE_PROCS) {
        return NULL;
    }

    sel_zone_lock(zone);

    if (sel_meter_values(zone, number) == NULL) {
        meter = sel_meter_make(zone, number);

        if (meter != NULL) {
            sel_zone_meter_link(zone, meter);
        }
    }

    sel_zone_unlock(zone);

    return sel_meter_values(zone, number);
}


static sel_meter_chunk_t *
sel_meter_make(sel_zone_t *zone, uint32_t number)
{
    uint32_t            first;
    sel_meter_chunk_t  *meter;

    first = sel_meter_room(zone);

    if (first == SEL_CHUNK_NONE) {
        return NULL;
    }

    SEL_ZONE_STEP();

    meter = (sel_meter_chunk_t *) sel_zone_chunk(zone, first);

    memset((uint8_t *) meter + SEL_CHUNK_SIZE, 0,
           SEL_METER_VALUES * sizeof(uint64_t));
    SEL_ZONE_STEP();

    meter->head.next = SEL_CHUNK_NONE;
    meter->head.aux = 0;
    meter->head.count = 0;
    meter->number = number;
    SEL_ZONE_STEP();

    sel_chunk_set_tag(&meter->head, SEL_CHUNK_METER);
    SEL_ZONE_STEP();

    return meter;
}


/* A piece of chunks may need much more room than they have. */

static uint32_t
sel_meter_room(sel_zone_t *zone)
{
    uint64_t  room, most;
    uint32_t  first;

    most = sel_zone_room_most(zone);
    room = sel_zone_chunks_free(zone);

    while ((first = sel_zone_run_take(zone, SEL_METER_CHUNKS))
           == SEL_CHUNK_NONE && room < most)
    {
        room = 2 * room + SEL_METER_CHUNKS;
        room = room < most ? room : most;
        sel_zone_room_make(zone, room);
    }

    return first;
}


void
sel_zone_meter_link(sel_zone_t *zone, sel_meter_chunk_t *meter)
{
    atomic_store_explicit(&zone->header->meters[meter->number],
                          sel_zone_chunk_number(zone, meter),
                          memory_order_release);
    SEL_ZONE_STEP();
}


bool
sel_zone_meter_right(const sel_zone_t *zone, uint32_t number)
{
    uint32_t            head;
    sel_meter_chunk_t  *meter;

    head = atomic_load_explicit(&zone->header->meters[number],
                                memory_order_acquire);

    if (head == SEL_CHUNK_NONE) {
        return true;
    }

    if (!sel_zone_chunk_known(zone, head)) {
        return false;
    }

    meter = (sel_meter_chunk_t *) sel_zone_chunk(zone, head);

    return sel_chunk_tag(&meter->head) == SEL_CHUNK_METER
           && meter->number == number;
}


bool
sel_meter_read(sel_zone_t *zone, uint32_t number,
    uint64_t values[SEL_METER_VALUES])
{
    uint32_t           i;
    _Atomic uint64_t  *stored;

    stored = number < SEL_ZONE_PROCS ? sel_meter_values(zone, number) : NULL;

    if (stored == NULL) {
        return false;
    }

    for (i = 0; i < SEL_METER_VALUES; i++) {
        values[i] = atomic_load_explicit(&stored[i], memory_order_relaxed);
    }

    return true;
}


static _Atomic uint64_t *
sel_meter_values(const sel_zone_t *zone, uint32_t number)
{
    uint32_t  head;

    head = atomic_load_explicit(&zone->header->meters[number],
                                memory_order_acquire);

    if (head == SEL_CHUNK_NONE) {
        return NULL;
    }

    return (_Atomic uint64_t *) sel_zone_chunk(zone, head + 1);
}
