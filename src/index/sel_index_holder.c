/*
 * Holders and ghosts.
 *
 * There is always one more place for holders than there are live owners.  So
 * to clear an owner there is a free holder or else a ghost, and sweeping that
 * ghost frees one; neither needs memory.  Numbers are given out lowest first,
 * which keeps the bitmaps of sets short.
 */

#include "index/sel_index_impl.h"


static bool sel_index_holders_grow(sel_index_t *index);


bool
sel_index_holder_reserve(sel_index_t *index)
{
    return index->live_n + 2 <= index->holders_n
           || sel_index_holders_grow(index);
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


uint32_t
sel_index_holder_take(sel_index_t *index, uint16_t owner, uint64_t root)
{
    uint32_t       budget, number;
    sel_holder_t  *holder;

    number = sel_index_lowest(index->holders_used, index->holders_n);

    if (number == index->holders_n) {

        budget = UINT32_MAX;

        if (!sel_index_holders_grow(index)
            && !sel_index_sweep_ghost(index, &budget))
        {
            return SEL_INDEX_NO_HOLDER;
        }

        number = sel_index_lowest(index->holders_used, index->holders_n);
    }

    holder = &index->holders[number];

    sel_table_init(&holder->externals, SEL_TABLE_NARROW);

    holder->root = root;
    holder->blocks = 0;
    holder->swept = 0;
    holder->next = SEL_INDEX_NO_HOLDER;
    holder->owner = owner;

    index->holders_used[number / 64] |= (uint64_t) 1 << (number % 64);
    index->holders_live[number / 64] |= (uint64_t) 1 << (number % 64);

    return number;
}


bool
sel_index_clear(sel_index_t *index, uint16_t owner)
{
    uint32_t  fresh, old;

    old = index->owners[owner].holder;

    if (index->holders[old].externals.count == 0) {
        return true;
    }

    fresh = sel_index_holder_take(index, owner, index->holders[old].root);

    if (fresh == SEL_INDEX_NO_HOLDER) {
        return false;
    }

    index->owners[owner].holder = (uint16_t) fresh;
    index->holders[old].owner = SEL_INDEX_NO_OWNER;

    sel_index_haunt(index, old);

    return true;
}


void
sel_index_haunt(sel_index_t *index, uint32_t holder)
{
    index->holders_live[holder / 64] &= ~((uint64_t) 1 << (holder % 64));
    index->blocks -= index->holders[holder].blocks;
    index->ghosts_n++;

    if (index->oldest == SEL_INDEX_NO_HOLDER) {
        index->oldest = holder;

    } else {
        index->holders[index->youngest].next = holder;
    }

    index->youngest = holder;
}


void
sel_index_bury(sel_index_t *index)
{
    uint32_t       number;
    sel_holder_t  *ghost;

    number = index->oldest;
    ghost = &index->holders[number];

    sel_table_reset(&ghost->externals, &index->memory);

    index->oldest = ghost->next;
    index->ghosts_n--;
    index->holders_used[number / 64] &= ~((uint64_t) 1 << (number % 64));

    if (ghost->owner != SEL_INDEX_NO_OWNER) {
        sel_index_owner_free(index, ghost->owner);
    }
}


/* The highest holders must be free, and there are to be places to spare. */

void
sel_index_settle_holders(sel_index_t *index)
{
    void      *holders;
    uint32_t   n, words;

    n = index->holders_n;

    if (n <= SEL_INDEX_LEAST || index->live_n + index->ghosts_n > n / 4) {
        return;
    }

    words = (n + 63) / 64;

    while (words != 0 && index->holders_used[words - 1] == 0) {
        words--;
    }

    while (n > SEL_INDEX_LEAST && words * 64 <= n / 2
           && index->live_n + index->ghosts_n <= n / 4)
    {
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
