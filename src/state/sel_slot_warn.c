/*
 * A slot's warnings are one word: the upper half says which epoch and feed of
 * the slot they are of, the lower half has the bits.  So there is nothing to
 * clear when the slot goes on to another rank, and nothing to repair after a
 * death.
 */

#include "state/sel_zone_impl.h"


static uint64_t sel_slot_era(const sel_rank_slot_t *rank);
static uint32_t sel_slot_bits(uint64_t word, uint64_t era);


uint32_t
sel_slot_warn(const sel_zone_t *zone, const sel_rank_slot_t *rank,
    uint32_t bits)
{
    uint32_t           before;
    uint64_t           word, era;
    _Atomic uint64_t  *warnings;

    era = sel_slot_era(rank);
    warnings = &zone->slots[rank->slot].warnings;
    word = atomic_load(warnings);

    do {
        before = sel_slot_bits(word, era);

        if ((before | bits) == before) {
            break;
        }

    } while (!atomic_compare_exchange_weak(warnings, &word,
                                           era | before | bits));
    return before;
}


void
sel_slot_calm(const sel_zone_t *zone, const sel_rank_slot_t *rank,
    uint32_t bits)
{
    uint64_t           word, era;
    _Atomic uint64_t  *warnings;

    era = sel_slot_era(rank);
    warnings = &zone->slots[rank->slot].warnings;
    word = atomic_load(warnings);

    while ((sel_slot_bits(word, era) & bits) != 0
           && !atomic_compare_exchange_weak(warnings, &word,
                                            word & ~(uint64_t) bits))
    {
        /* void */
    }
}


uint32_t
sel_slot_warnings(const sel_zone_t *zone, const sel_rank_slot_t *rank)
{
    return sel_slot_bits(atomic_load(&zone->slots[rank->slot].warnings),
                         sel_slot_era(rank));
}


/* Both only grow, one a step; neither will grow by 65536 unnoticed. */

static uint64_t
sel_slot_era(const sel_rank_slot_t *rank)
{
    return (uint64_t) (rank->epoch << 16 | (rank->feed & 0xffff)) << 32;
}


static uint32_t
sel_slot_bits(uint64_t word, uint64_t era)
{
    return (word ^ era) >> 32 == 0 ? (uint32_t) word : 0;
}
