/*
 * Verification of a zone: the chunks of bookings, pending selections,
 * sessions and edges.
 */

#include "state/sel_zone_check_impl.h"


static const char *sel_check_life(sel_zone_t *zone,
    const sel_booking_chunk_t *booking);
static bool sel_check_packed(const sel_zone_t *zone, uint32_t number);


const char *
sel_zone_check_booking(sel_zone_t *zone, const sel_booking_chunk_t *booking,
    uint32_t *used)
{
    uint32_t  len;

    (*used)++;

    len = booking->id_len <= SEL_BOOKING_ID ? 0 : booking->id_len;

    if (booking->head.next != SEL_CHUNK_NONE
        || booking->id_len > SEL_BOOK_MAX_ID
        || !sel_check_chain(zone, booking->id_chain, len, used))
    {
        return "a booking's id is not whole";
    }

    if (!sel_check_keys(zone, booking->path, booking->n_blocks, used)
        || !sel_check_packed(zone, booking->path))
    {
        return "a booking's path is not whole";
    }

    if (booking->attempt == 0
        || booking->attempt > zone->header->attempts
        || booking->kind > SEL_BOOKING_MIRROR)
    {
        return "a booking has an impossible number or kind";
    }

    if (booking->life == SEL_CHUNK_NONE) {
        return NULL;
    }

    if (!sel_check_see(zone, booking->life, SEL_CHUNK_LIFE)) {
        return "a booking's life is something else, or another's";
    }

    (*used)++;

    return sel_check_life(zone, booking);
}


static const char *
sel_check_life(sel_zone_t *zone, const sel_booking_chunk_t *booking)
{
    uint32_t                 i, end;
    const sel_life_chunk_t  *life;

    end = 0;
    life = sel_zone_life(zone, booking->life);

    if (life->head.count > SEL_LIFE_RUNS
        || life->head.next != SEL_CHUNK_NONE
        || !(life->weight >= 0 && life->weight <= 1))
    {
        return "a life is not whole";
    }

    for (i = 0; i < life->head.count; i++) {

        if (life->ends[i] <= end
            || !(life->weights[i] >= 0 && life->weights[i] <= 1))
        {
            return "a life has an impossible run";
        }

        end = life->ends[i];
    }

    return end == booking->n_blocks ? NULL
                                    : "a life's runs are not all blocks";
}


/* Whether only the last chunk of a chain has room. */

static bool
sel_check_packed(const sel_zone_t *zone, uint32_t number)
{
    const sel_chunk_t  *chunk;

    for ( /* void */ ; number != SEL_CHUNK_NONE; number = chunk->next) {
        chunk = sel_zone_chunk(zone, number);

        if (chunk->next != SEL_CHUNK_NONE && chunk->count != SEL_KEYS_A_CHUNK)
        {
            return false;
        }
    }

    return true;
}


const char *
sel_zone_check_pending(sel_zone_t *zone, const sel_pending_chunk_t *pending,
    uint32_t *used)
{
    uint32_t  len, before;

    before = *used;
    (*used)++;

    len = pending->id_len <= SEL_PENDING_ID ? 0 : pending->id_len;

    if (pending->head.next != SEL_CHUNK_NONE
        || !sel_check_chain(zone, pending->id_chain, len, used)
        || !sel_check_keys(zone, pending->sequence, pending->n_blocks, used)
        || !sel_check_packed(zone, pending->sequence)
        || !sel_check_keys(zone, pending->hashes, pending->n_hashes, used)
        || !sel_check_packed(zone, pending->hashes)
        || !sel_check_chain(zone, pending->texts,
                            (uint64_t) pending->lora_len
                            + pending->session_len, used))
    {
        return "a pending selection is not whole";
    }

    return *used - before == pending->chunks
           ? NULL : "a pending selection has another number of chunks";
}


const char *
sel_zone_check_session(sel_zone_t *zone, const sel_session_chunk_t *session,
    uint32_t *used)
{
    uint32_t  len;

    (*used)++;

    len = session->id_len <= SEL_SESSION_ID ? 0 : session->id_len;

    return session->head.next == SEL_CHUNK_NONE
           && sel_check_chain(zone, session->id_chain, len, used)
           ? NULL : "a session's id is not whole";
}


const char *
sel_zone_check_edge(sel_zone_t *zone, const sel_edge_chunk_t *edge,
    uint32_t *used)
{
    uint32_t            n, number, last;
    const sel_chunk_t  *chunk;

    (*used)++;

    if (edge->length == 0
        || !sel_check_keys(zone, edge->keys, edge->length, used)
        || !sel_check_packed(zone, edge->keys))
    {
        return "an edge's keys are not whole";
    }

    last = SEL_CHUNK_NONE;

    for (number = edge->keys; number != SEL_CHUNK_NONE;
         number = sel_zone_chunk(zone, number)->next)
    {
        last = number;
    }

    if (edge->keys_last != last
        || edge->first != sel_zone_keys(zone, edge->keys)->keys[0]
        || edge->last != sel_zone_keys(zone, last)
                             ->keys[sel_zone_chunk(zone, last)->count - 1])
    {
        return "an edge's first or last keys are not those of its chain";
    }

    if (!sel_check_list(zone, edge->cells, SEL_CHUNK_CELLS,
                        sel_cells_need(edge), used))
    {
        return "an edge's cells are not whole";
    }

    n = sel_cells_need(edge) != 0
        ? edge->n_cells - SEL_CELLS_AN_EDGE
          - (sel_cells_need(edge) - 1) * SEL_CELLS_A_CHUNK : 0;

    for (number = edge->cells; number != SEL_CHUNK_NONE; number = chunk->next)
    {
        chunk = sel_zone_chunk(zone, number);

        if (chunk->count != n) {
            return "a chunk of cells has another number of them";
        }

        n = SEL_CELLS_A_CHUNK;
    }

    return NULL;
}


bool
sel_check_keys(sel_zone_t *zone, uint32_t number, uint32_t n, uint32_t *used)
{
    const sel_chunk_t  *chunk;

    for ( /* void */ ; number != SEL_CHUNK_NONE; number = chunk->next) {

        if (!sel_check_see(zone, number, SEL_CHUNK_KEYS)) {
            return false;
        }

        (*used)++;
        chunk = sel_zone_chunk(zone, number);

        if (chunk->count == 0 || chunk->count > SEL_KEYS_A_CHUNK
            || chunk->count > n)
        {
            return false;
        }

        n -= chunk->count;
    }

    return n == 0;
}


bool
sel_check_list(sel_zone_t *zone, uint32_t number, sel_chunk_tag_t tag,
    uint32_t n, uint32_t *used)
{
    for ( /* void */ ; number != SEL_CHUNK_NONE;
         number = sel_zone_chunk(zone, number)->next)
    {
        if (n-- == 0 || !sel_check_see(zone, number, tag)) {
            return false;
        }

        (*used)++;
    }

    return n == 0;
}
