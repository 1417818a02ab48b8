/*
 * How holders leave blocks: one by one when blocks are removed, and all of a
 * ghost's in sweeps.
 *
 * A sweep follows the ghost's table of external hashes and does not delete
 * from it; `swept` says how far it has come.  A ghost may have left a block
 * before its slot is reached, together with all other blocks of the same
 * set (sel_owner_set_remove()).  The block can even be gone and its node
 * used by another.  Either way the ghost is not in the set that is found, as
 * nobody enters a dead holder into a set.
 */

#include "index/sel_index_impl.h"


#define SEL_INDEX_SCAN  8       /* slots that cost as much as leaving one */


static bool sel_index_sweep_slots(sel_index_t *index, uint32_t *budget);


bool
sel_index_sweep(sel_index_t *index, uint32_t budget)
{
    bool      done;
    uint16_t  owner;

    while (budget != 0 && index->empty != 0) {
        owner = (uint16_t) (index->empty - 1);
        index->empty = index->owners[owner].next;

        sel_index_owner_free(index, owner);
        budget--;
    }

    while (budget != 0 && index->oldest != SEL_INDEX_NO_HOLDER) {
        if (!sel_index_sweep_ghost(index, &budget)) {
            break;
        }
    }

    done = sel_index_settle(index, budget > UINT32_MAX / SEL_INDEX_SCAN
                                   ? UINT32_MAX : budget * SEL_INDEX_SCAN);

    sel_index_settle_owners(index);
    sel_index_settle_holders(index);
    sel_index_settle_walkers(index);

    return done && index->oldest == SEL_INDEX_NO_HOLDER && index->empty == 0;
}


bool
sel_index_sweep_ghost(sel_index_t *index, uint32_t *budget)
{
    const sel_holder_t  *ghost;

    ghost = &index->holders[index->oldest];

    while (ghost->swept < ghost->externals.total) {
        if (*budget == 0 || !sel_index_sweep_slots(index, budget)) {
            return false;
        }
    }

    sel_index_bury(index);

    return true;
}


static bool
sel_index_sweep_slots(sel_index_t *index, uint32_t *budget)
{
    bool                    left;
    uint32_t                empty, i, n, number, pos;
    uint32_t                at[SEL_INDEX_BATCH], nodes[SEL_INDEX_BATCH];
    sel_holder_t           *ghost;
    const sel_slim_slot_t  *slot;

    n = 0;
    empty = 0;
    number = index->oldest;
    ghost = &index->holders[number];

    for (pos = ghost->swept; pos < ghost->externals.total; pos++) {

        if (n == SEL_INDEX_BATCH || n + empty / SEL_INDEX_SCAN >= *budget) {
            break;
        }

        slot = sel_table_at(&ghost->externals, pos, SEL_TABLE_SLIM);

        if (slot->value == 0) {
            empty++;
            continue;
        }

        at[n] = pos;
        nodes[n++] = slot->value;
        sel_index_prefetch_node(index, slot->value);
    }

    for (i = 0; i < n; i++) {
        sel_index_prefetch_path(index, nodes[i]);
    }

    left = true;
    index->memory.urgent = true;

    for (i = 0; i < n && left; i++) {
        left = sel_index_leave(index, number, nodes[i], true);
    }

    index->memory.urgent = false;

    ghost->swept = left ? pos : at[i - 1];
    *budget -= left ? n + empty / SEL_INDEX_SCAN : i - 1;

    return left;
}


bool
sel_index_leave(sel_index_t *index, uint32_t holder, uint32_t value,
    bool dead)
{
    uint32_t           node;
    const sel_name_t  *name;

    if ((value & SEL_INDEX_NAMED) == 0) {
        return sel_index_quit(index, holder, value, dead);
    }

    name = sel_index_name(index, value);
    node = name->node;

    if (name->next == (value & ~SEL_INDEX_NAMED)
        && !sel_index_quit(index, holder, node, dead))
    {
        return false;
    }

    sel_index_name_drop(index, holder, value);

    return true;
}


bool
sel_index_quit(sel_index_t *index, uint32_t holder, uint32_t node, bool dead)
{
    uint32_t          set;
    sel_holder_t     *h;
    sel_wide_slot_t  *wide;

    if (dead && node > index->nodes.top) {
        return true;
    }

    wide = sel_table_find(&index->paths, sel_node_path(&index->nodes, node),
                          SEL_TABLE_WIDE);

    if (dead && (wide == NULL
                 || !sel_owner_set_has(&index->sets, wide->set,
                                       (uint16_t) holder)))
    {
        return true;
    }

    set = wide->set;

    if (!sel_owner_set_remove(&index->sets, &set, (uint16_t) holder, dead)) {
        return false;
    }

    wide->set = set;

    if (set == 0) {
        sel_pool_put(&index->nodes, wide->value);
        sel_table_delete(&index->paths, wide);
    }

    if (!dead) {
        h = &index->holders[holder];
        h->blocks--;
        index->blocks[h->tier]--;
    }

    return true;
}
