/*
 * The wheel: blocks as they come to their end.
 */

#include "index/sel_recent_impl.h"


static bool sel_recent_tick(sel_recent_t *recent, uint32_t tick,
    uint32_t last, uint32_t *budget);
static uint32_t sel_recent_forget(sel_recent_t *recent,
    sel_recent_chunk_t *chunk, uint32_t last, uint32_t budget);


sel_recent_owner_t *
sel_recent_owner(sel_recent_t *recent, uint16_t owner)
{
    uint32_t             of;
    sel_recent_owner_t  *known;

    of = sel_index_owner_life(recent->index, owner);

    if (owner >= recent->n_owners || of == 0) {
        return NULL;
    }

    known = &recent->owners[owner];

    if (known->of != of) {
        known->of = of;
        known->life = ++recent->lives;
    }

    return known;
}


bool
sel_recent_put(sel_recent_t *recent, const sel_recent_block_t *block,
    uint32_t end)
{
    uint32_t             tick;
    uint64_t             key;
    sel_slot_t          *slot;
    sel_recent_chunk_t  *chunk, **place;

    tick = end > recent->now ? end : recent->now;

    if (tick - recent->now >= SEL_RECENT_TICKS) {
        tick = recent->now + SEL_RECENT_TICKS - 1;
    }

    place = &recent->wheel[tick & (SEL_RECENT_TICKS - 1)];
    chunk = *place;

    if (chunk == NULL || chunk->n == SEL_RECENT_CHUNK) {
        chunk = sel_memory_resize(&recent->memory, NULL, 0, sizeof(*chunk));

        if (chunk == NULL) {
            return false;
        }

        chunk->next = *place;
        *place = chunk;
    }

    key = sel_recent_key(recent, block);

    if (sel_table_find(&recent->ends, key, SEL_TABLE_NARROW) == NULL) {

        if (!sel_table_reserve(&recent->ends, &recent->memory)) {
            return false;
        }

        slot = sel_table_insert(&recent->ends, key);
        slot->value = end != 0 ? end : 1;
    }

    chunk->blocks[chunk->n++] = *block;

    return true;
}


bool
sel_recent_expire(sel_recent_t *recent, uint64_t now, uint32_t budget)
{
    uint32_t  tick, last;

    last = (uint32_t) (now / SEL_RECENT_GRAIN);
    tick = recent->now;

    if (last < tick) {
        return true;
    }

    /* once round is enough */

    if (last - tick >= SEL_RECENT_TICKS) {
        tick = last - SEL_RECENT_TICKS + 1;
    }

    for ( /* void */ ; tick <= last; tick++) {
        recent->now = tick;

        if (!sel_recent_tick(recent, tick, last, &budget)) {
            return false;
        }
    }

    (void) sel_table_settle(&recent->ends, &recent->memory, SEL_TABLE_STEP);

    return true;
}


/*
 * Goes through a tick of the wheel, which is taken out meanwhile: blocks that
 * end later may come back to it.  False when the budget is used up.
 */

static bool
sel_recent_tick(sel_recent_t *recent, uint32_t tick, uint32_t last,
    uint32_t *budget)
{
    sel_recent_chunk_t  *chunk, *due, **place;

    place = &recent->wheel[tick & (SEL_RECENT_TICKS - 1)];
    due = *place;
    *place = NULL;

    while (due != NULL && *budget != 0) {
        chunk = due;
        *budget -= sel_recent_forget(recent, chunk, last, *budget);

        if (chunk->n == 0) {
            due = chunk->next;
            sel_memory_free(&recent->memory, chunk, sizeof(*chunk));
        }
    }

    if (due == NULL) {
        return true;
    }

    for (chunk = due; chunk->next != NULL; chunk = chunk->next) { /* void */ }

    chunk->next = *place;
    *place = due;

    return false;
}


/*
 * From the end of a chunk on, where the end of a prompt is: what remains of
 * it is of use.
 */

static uint32_t
sel_recent_forget(sel_recent_t *recent, sel_recent_chunk_t *chunk,
    uint32_t last, uint32_t budget)
{
    uint32_t             i, n;
    uint64_t             gone[SEL_RECENT_CHUNK];
    sel_slot_t          *slot;
    sel_recent_block_t   block, run;

    n = 0;
    run = (sel_recent_block_t) { 0 };

    for (i = 0; i < budget && chunk->n != 0; i++) {
        block = chunk->blocks[--chunk->n];
        slot = sel_table_find(&recent->ends, sel_recent_key(recent, &block),
                              SEL_TABLE_NARROW);

        if (slot->value > last && sel_recent_put(recent, &block, slot->value))
        {
            continue;
        }

        sel_table_delete(&recent->ends, slot);

        if (n != 0 && (block.owner != run.owner || block.life != run.life)) {
            sel_recent_remove(recent, &run, gone, n);
            n = 0;
        }

        run = block;
        gone[n++] = block.external;
    }

    sel_recent_remove(recent, &run, gone, n);

    return i;
}


void
sel_recent_remove(sel_recent_t *recent, const sel_recent_block_t *of,
    const uint64_t *external, uint32_t n)
{
    sel_index_change_t   change;
    sel_recent_owner_t  *known;

    known = n != 0 ? sel_recent_owner(recent, of->owner) : NULL;

    if (known == NULL || known->life != of->life) {
        return;
    }

    change = (sel_index_change_t) {
        .kind = SEL_INDEX_REMOVED, .tier = SEL_TIER_DEVICE,
        .owner = of->owner, .n = n, .external = external
    };

    if (sel_index_apply(recent->index, &change) == SEL_INDEX_FULL) {
        known->life = ++recent->lives;
    }
}
