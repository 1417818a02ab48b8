/*
 * The salt memory is one open-addressing table for all ranks of a stream,
 * probed linearly; a removal closes the gap by moving later entries back.
 *
 * An entry belongs to a life of its rank.  Clearing a rank just begins a new
 * life: entries of the old one match nothing any more and are left out when
 * the table is next rebuilt.
 */

#include <stdlib.h>
#include "kv_events/sel_kv_namespace.h"


#define SEL_KV_SALTS_CAP_MIN  64
#define SEL_KV_SALTS_CAP_MAX  (SEL_KV_MAX_SALTED / 3 * 4)


struct sel_kv_salt_s {
    uint64_t  hash;
    uint64_t  salt;
    uint64_t  life : 61;        /* 0: the slot is free */
    uint64_t  tiers : 2;        /* bit set */
    uint64_t  ambiguous : 1;
};


_Static_assert((SEL_KV_SALTS_CAP_MAX & (SEL_KV_SALTS_CAP_MAX - 1)) == 0,
               "slots are a power of two");
_Static_assert(SEL_TIER_DEVICE == 0 && SEL_TIER_HOST_PINNED == 1,
               "these are the tiers whose blocks have a salt");


static uint32_t sel_kv_salts_home(const sel_kv_salts_t *salts, uint64_t hash,
    uint64_t life);
static sel_kv_salt_t *sel_kv_salts_slot(const sel_kv_salts_t *salts,
    uint64_t life, uint64_t hash);
static bool sel_kv_salts_room(sel_kv_salts_t *salts, const sel_kv_rank_t *rank,
    const uint64_t *hashes, uint32_t n);
static uint32_t sel_kv_salts_usable(uint32_t cap);
static bool sel_kv_salts_rebuild(sel_kv_salts_t *salts, uint32_t cap);
static bool sel_kv_salts_alive(const sel_kv_salts_t *salts,
    const sel_kv_salt_t *slot);
static void sel_kv_salts_note(sel_kv_salts_t *salts, sel_kv_rank_t *rank,
    sel_tier_t tier, uint64_t hash, uint64_t salt);
static void sel_kv_salts_drop(sel_kv_salts_t *salts, sel_kv_salt_t *slot);


void
sel_kv_salts_init(sel_kv_salts_t *salts, sel_kv_ranks_t *ranks, uint64_t seed)
{
    *salts = (sel_kv_salts_t) { .ranks = ranks, .seed = seed };
}


void
sel_kv_salts_free(sel_kv_salts_t *salts)
{
    free(salts->slots);
}


sel_kv_salt_state_t
sel_kv_salts_find(const sel_kv_salts_t *salts, const sel_kv_rank_t *rank,
    uint64_t hash, uint64_t *salt)
{
    const sel_kv_salt_t  *slot;

    if (rank->salted == 0) {
        return SEL_KV_SALT_UNKNOWN;
    }

    slot = sel_kv_salts_slot(salts, rank->life, hash);

    if (slot->life == 0) {
        return SEL_KV_SALT_UNKNOWN;
    }

    *salt = slot->salt;

    return slot->ambiguous ? SEL_KV_SALT_AMBIGUOUS : SEL_KV_SALT_KNOWN;
}


bool
sel_kv_salts_store(sel_kv_salts_t *salts, sel_kv_rank_t *rank,
    sel_tier_t tier, const uint64_t *hashes, uint32_t n, uint64_t salt)
{
    uint32_t  i;

    if (salt == 0 && rank->salted == 0) {
        return true;
    }

    if (salt != 0 && !sel_kv_salts_room(salts, rank, hashes, n)) {
        return false;
    }

    for (i = 0; i < n; i++) {
        sel_kv_salts_note(salts, rank, tier, hashes[i], salt);
    }

    return true;
}


void
sel_kv_salts_remove(sel_kv_salts_t *salts, sel_kv_rank_t *rank,
    sel_tier_t tier, const uint64_t *hashes, uint32_t n)
{
    uint32_t        i;
    sel_kv_salt_t  *slot;

    for (i = 0; i < n && rank->salted != 0; i++) {
        slot = sel_kv_salts_slot(salts, rank->life, hashes[i]);

        if (slot->life == 0 || slot->ambiguous) {
            continue;
        }

        slot->tiers &= ~(1u << tier);

        if (slot->tiers == 0) {
            sel_kv_salts_drop(salts, slot);
            rank->salted--;
        }
    }
}


void
sel_kv_salts_clear(sel_kv_salts_t *salts, sel_kv_rank_t *rank)
{
    if (rank->salted != 0) {
        salts->alive -= rank->salted;
        rank->salted = 0;
        rank->life += SEL_KV_MAX_RANKS;
    }
}


static uint32_t
sel_kv_salts_home(const sel_kv_salts_t *salts, uint64_t hash, uint64_t life)
{
    return (uint32_t) sel_kv_mix(hash, salts->seed + life) & (salts->cap - 1);
}


/* The entry, or the free slot where it would be; the table is never full. */
static sel_kv_salt_t *
sel_kv_salts_slot(const sel_kv_salts_t *salts, uint64_t life, uint64_t hash)
{
    uint32_t        i;
    sel_kv_salt_t  *slot;

    i = sel_kv_salts_home(salts, hash, life);

    for ( ;; ) {
        slot = &salts->slots[i];

        if (slot->life == 0 || (slot->hash == hash && slot->life == life)) {
            return slot;
        }

        i = (i + 1) & (salts->cap - 1);
    }
}


/* Sees to it that n more entries fit. */
static bool
sel_kv_salts_room(sel_kv_salts_t *salts, const sel_kv_rank_t *rank,
    const uint64_t *hashes, uint32_t n)
{
    uint32_t              i, added, cap;
    const sel_kv_salt_t  *slot;

    added = n;

    if (rank->salted != 0 && n > SEL_KV_MAX_SALTED - salts->alive) {
        for (i = 0; i < n; i++) {
            slot = sel_kv_salts_slot(salts, rank->life, hashes[i]);
            added -= slot->life != 0;
        }
    }

    if (added > SEL_KV_MAX_SALTED - salts->alive) {
        return false;
    }

    if (added <= sel_kv_salts_usable(salts->cap) - salts->used) {
        return true;
    }

    cap = SEL_KV_SALTS_CAP_MIN;

    while (cap < SEL_KV_SALTS_CAP_MAX && cap / 2 < salts->alive + added) {
        cap *= 2;
    }

    return sel_kv_salts_rebuild(salts, cap);
}


/*
 * Slots that may be in use.  The largest table, which entries of old lives
 * can fill but not enlarge, takes more of them, so that it is not rebuilt
 * for every few.
 */
static uint32_t
sel_kv_salts_usable(uint32_t cap)
{
    return cap == SEL_KV_SALTS_CAP_MAX ? cap / 8 * 7 : cap / 4 * 3;
}


static bool
sel_kv_salts_rebuild(sel_kv_salts_t *salts, uint32_t cap)
{
    uint32_t        i;
    sel_kv_salts_t  old;

    old = *salts;
    salts->slots = calloc(cap, sizeof(sel_kv_salt_t));

    if (salts->slots == NULL) {
        salts->slots = old.slots;
        return false;
    }

    salts->cap = cap;
    salts->used = salts->alive;

    for (i = 0; i < old.cap; i++) {
        if (sel_kv_salts_alive(&old, &old.slots[i])) {
            *sel_kv_salts_slot(salts, old.slots[i].life, old.slots[i].hash)
                = old.slots[i];
        }
    }

    free(old.slots);

    return true;
}


static bool
sel_kv_salts_alive(const sel_kv_salts_t *salts, const sel_kv_salt_t *slot)
{
    return slot->life != 0
           && salts->ranks->data[slot->life % SEL_KV_MAX_RANKS].life
              == slot->life;
}


static void
sel_kv_salts_note(sel_kv_salts_t *salts, sel_kv_rank_t *rank,
    sel_tier_t tier, uint64_t hash, uint64_t salt)
{
    sel_kv_salt_t  *slot;

    slot = sel_kv_salts_slot(salts, rank->life, hash);

    if (slot->life == 0) {
        if (salt == 0) {
            return;
        }

        *slot = (sel_kv_salt_t) {
            .hash = hash, .salt = salt, .life = rank->life
        };

        salts->used++;
        salts->alive++;
        rank->salted++;
    }

    slot->ambiguous |= slot->salt != salt;
    slot->tiers |= 1u << tier;
}


static void
sel_kv_salts_drop(sel_kv_salts_t *salts, sel_kv_salt_t *slot)
{
    uint32_t        i, gap, home, mask;
    sel_kv_salt_t  *next;

    mask = salts->cap - 1;
    gap = (uint32_t) (slot - salts->slots);

    for (i = (gap + 1) & mask; salts->slots[i].life != 0; i = (i + 1) & mask) {
        next = &salts->slots[i];
        home = sel_kv_salts_home(salts, next->hash, next->life);

        /* an entry may move back to the gap, but not before its home */

        if (((i - home) & mask) >= ((i - gap) & mask)) {
            salts->slots[gap] = *next;
            gap = i;
        }
    }

    salts->slots[gap].life = 0;
    salts->used--;
    salts->alive--;
}
