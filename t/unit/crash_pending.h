/*
 * Pending selections in the crash test.  Whether one is there is open (they
 * are dropped for room and age); what it says follows from its id.
 */

#ifndef CRASH_PENDING_H
#define CRASH_PENDING_H

#include "crash_books.h"
#include "state/sel_pending.h"


/* A pending selection whose content follows from its id. */
static inline void
crash_pending(sel_rand_t *rand, uint32_t i, uint64_t *keys, char *text,
    sel_pending_t *pending)
{
    uint32_t  len;

    len = i % 5 ? 24 : 300;
    memset(pending, 0, sizeof(sel_pending_t));
    crash_prompt(i, CRASH_BLOCKS, keys);

    pending->id = crash_id(0, i, len, text);
    pending->partition = 1 + i % 3;
    pending->worker_id = i;
    pending->n_blocks = i % CRASH_BLOCKS;
    pending->sequence = keys;
    pending->n_hashes = i % 7 ? 0 : i % CRASH_BLOCKS;
    pending->hashes = keys;
    pending->lora_name = (sel_str_t) { i % 9, (const uint8_t *) text };
    pending->session_id = i % 2 ? sel_str("session") : (sel_str_t) { 0, NULL };
    pending->size = 100 + i;
    pending->made = 1000 + sel_rand_below(rand, 100);
}


static inline bool
crash_pending_same(const sel_pending_t *a, const sel_pending_t *b)
{
    return sel_str_eq(a->id, b->id) && a->partition == b->partition
           && a->worker_id == b->worker_id && a->n_blocks == b->n_blocks
           && a->n_hashes == b->n_hashes
           && sel_str_eq(a->lora_name, b->lora_name)
           && sel_str_eq(a->session_id, b->session_id)
           && (a->session_id.data == NULL) == (b->session_id.data == NULL)
           && memcmp(a->sequence, b->sequence, a->n_blocks * 8) == 0
           && memcmp(a->hashes, b->hashes, a->n_hashes * 8) == 0;
}


/* Puts, reads or drops a pending selection; false when it reads wrong. */
static inline bool
crash_pending_any(sel_zone_t *zone, sel_rand_t *rand)
{
    static const sel_pending_limits_t  limits = { 60, 40, 8000 };

    int            rc;
    bool           same;
    char           text[400];
    uint32_t       i;
    uint64_t       keys[CRASH_BLOCKS];
    sel_arena_t    arena;
    sel_pending_t  pending, read;

    i = (uint32_t) sel_rand_below(rand, 100);
    crash_pending(rand, i, keys, text, &pending);

    switch (sel_rand_below(rand, 6)) {

    case 0:
        sel_pending_drop(zone, pending.partition, pending.id, 0);
        return true;

    case 1:
        sel_arena_init(&arena, 0);
        rc = sel_pending_get(zone, pending.partition, pending.id, 0, 0, &arena,
                             &read);
        same = rc == 0 || (rc == 1 && crash_pending_same(&pending, &read));
        sel_arena_free(&arena);
        return same;

    default:
        (void) sel_pending_put(zone, &pending, &limits);
        return true;
    }
}


#endif /* CRASH_PENDING_H */
