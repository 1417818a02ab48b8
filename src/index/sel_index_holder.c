/*
 * Holders and ghosts.  A holder is taken with the first block of an owner in
 * a tier and given back with the last, so to clear an owner takes nothing.
 * Numbers are given out lowest first, which keeps the bitmaps of sets short.
 */

#include "index/sel_index_impl.h"


#define SEL_INDEX_FORCED  4096      /* memberships swept to get a number */


static bool sel_index_holders_grow(sel_index_t *index);
static void sel_index_haunt(sel_index_t *index, uint32_t holder);
static void sel_index_holder_reset(sel_index_t *index, uint32_t number);


uint32_t
sel_index_holder_take(sel_index_t *index, uint16_t owner, sel_tier_t tier)
{
    uint32_t       budget, number;
    sel_owner_t   *o;
    sel_holder_t  *holder;

    number = sel_index_lowest(index->holders_used, index->holders_n);

    if (number == index->holders_n) {

        budget = SEL_INDEX_FORCED;

        if (!sel_index_holders_grow(index)
            && (index->oldest == SEL_INDEX_NO_HOLDER
                || !sel_index_sweep_ghost(index, &budget)))
        {
            return SEL_INDEX_NO_HOLDER;
        }

        number = sel_index_lowest(index->holders_used, index->holders_n);
    }

    o = &index->owners[owner];
    o->holder[tier] = number;

    holder = &index->holders[number];

    sel_table_init(&holder->externals, SEL_TABLE_SLIM);

    holder->root = sel_index_root(index, o->partition, tier);
    holder->blocks = 0;
    holder->swept = 0;
    holder->next = SEL_INDEX_NO_HOLDER;
    holder->owner = owner;
    holder->tier = (uint16_t) tier;

    index->holders_used[number / 64] |= (uint64_t) 1 << (number % 64);
    index->holders_live[number / 64] |= (uint64_t) 1 << (number % 64);
    index->alive_n++;

    return number;
}


static bool
sel_index_holders_grow(sel_index_t *index)
{
    void      *holders;
    uint32_t   n;

    n = index->holders_n == 0 ? SEL_INDEX_LEAST : index->holders_n * 2;

    if (n > SEL_SET_HOLDERS) {
        return false;
    }

    holders = sel_memory_resize(&index->memory, index->holders,
                                index->holders_n * sizeof(sel_holder_t),
                                n * sizeof(sel_holder_t));
    if (holders == NULL) {
        return false;
    }

    index->holders = holders;
    index->holders_n = n;

    return true;
}


void
sel_index_holder_free(sel_index_t *index, uint32_t number)
{
    sel_holder_t  *holder;

    holder = &index->holders[number];

    index->owners[holder->owner].holder[holder->tier] = SEL_INDEX_NO_HOLDER;
    index->holders_live[number / 64] &= ~((uint64_t) 1 << (number % 64));
    index->alive_n--;

    sel_index_holder_reset(index, number);
}


uint32_t
sel_index_clear(sel_index_t *index, uint16_t owner)
{
    uint32_t      ghost, holder, tier;
    sel_owner_t  *o;

    ghost = SEL_INDEX_NO_HOLDER;
    o = &index->owners[owner];

    for (tier = 0; tier < SEL_TIERS; tier++) {

        holder = o->holder[tier];

        if (holder == SEL_INDEX_NO_HOLDER) {
            continue;
        }

        if (index->holders[holder].externals.count == 0) {
            sel_index_holder_free(index, holder);
            continue;
        }

        sel_index_haunt(index, holder);

        o->holder[tier] = SEL_INDEX_NO_HOLDER;
        ghost = holder;
    }

    return ghost;
}


static void
sel_index_haunt(sel_index_t *index, uint32_t number)
{
    sel_holder_t  *holder;

    holder = &index->holders[number];
    holder->owner = SEL_INDEX_NO_OWNER;

    index->holders_live[number / 64] &= ~((uint64_t) 1 << (number % 64));
    index->blocks[holder->tier] -= holder->blocks;
    index->alive_n--;
    index->ghosts_n++;

    if (index->oldest == SEL_INDEX_NO_HOLDER) {
        index->oldest = number;

    } else {
        index->holders[index->youngest].next = number;
    }

    index->youngest = number;
}


void
sel_index_bury(sel_index_t *index)
{
    uint32_t       number;
    sel_holder_t  *ghost;

    number = index->oldest;
    ghost = &index->holders[number];

    index->oldest = ghost->next;
    index->ghosts_n--;

    sel_index_holder_reset(index, number);

    if (ghost->owner != SEL_INDEX_NO_OWNER) {
        sel_index_owner_free(index, ghost->owner);
    }
}


static void
sel_index_holder_reset(sel_index_t *index, uint32_t number)
{
    sel_table_reset(&index->holders[number].externals, &index->memory);

    index->holders_used[number / 64] &= ~((uint64_t) 1 << (number % 64));
}


/* The highest holders must be free, and there are to be places to spare. */

void
sel_index_settle_holders(sel_index_t *index)
{
    void      *holders;
    uint32_t   n, used, words;

    n = index->holders_n;
    used = index->alive_n + index->ghosts_n;

    if (n <= SEL_INDEX_LEAST || used > n / 4) {
        return;
    }

    words = (n + 63) / 64;

    while (words != 0 && index->holders_used[words - 1] == 0) {
        words--;
    }

    while (n > SEL_INDEX_LEAST && words * 64 <= n / 2 && used <= n / 4) {
        n /= 2;
    }

    if (n == index->holders_n) {
        return;
    }

    holders = sel_memory_resize(&index->memory, index->holders,
                                index->holders_n * sizeof(sel_holder_t),
                                n * sizeof(sel_holder_t));
    if (holders != NULL) {
        index->holders = holders;
        index->holders_n = n;
    }
}
