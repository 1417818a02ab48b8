/*
 * The lower tiers of a look-up.  A tier's block is known by the external hash
 * of the block in front of it, so each rank goes on from its own.  A walker
 * says where a rank stands: how many blocks it has and which hash is its
 * anchor.
 *
 * Tier by tier, who has the tier's first block and nothing before enters, and
 * then all walkers go along the prompt (sel_index_walk.c).  They are a list
 * in the order of their positions.
 */

#include "index/sel_index_follow.h"


static void sel_follow_start(sel_follow_t *follow);
static void sel_follow_enter(sel_follow_t *follow);
static void sel_follow_newcomer(sel_follow_t *follow, uint16_t owner);


bool
sel_index_has_lower(const sel_index_t *index)
{
    return (index->blocks[SEL_TIER_HOST_PINNED] | index->blocks[SEL_TIER_DISK]
            | index->blocks[SEL_TIER_EXTERNAL]) != 0;
}


bool
sel_index_follow_reserve(sel_index_t *index)
{
    sel_memory_t      *memory;
    sel_walker_t      *walkers;
    sel_walk_group_t  *groups;

    if (index->walkers_n >= index->owner_limit) {
        return true;
    }

    memory = &index->memory;
    walkers = sel_memory_resize(memory, NULL, 0,
                                index->owners_n * sizeof(sel_walker_t));
    if (walkers == NULL) {
        return false;
    }

    groups = sel_memory_resize(memory, NULL, 0,
                               index->owners_n * sizeof(sel_walk_group_t));
    if (groups == NULL) {
        sel_memory_free(memory, walkers,
                        index->owners_n * sizeof(sel_walker_t));
        return false;
    }

    sel_memory_free(memory, index->walkers,
                    index->walkers_n * sizeof(sel_walker_t));
    sel_memory_free(memory, index->groups,
                    index->walkers_n * sizeof(sel_walk_group_t));

    index->walkers = walkers;
    index->groups = groups;
    index->walkers_n = index->owners_n;

    return true;
}


/* The next look-up that needs the memory takes it again. */

void
sel_index_settle_walkers(sel_index_t *index)
{
    if (index->walkers_n > index->owners_n || !sel_index_has_lower(index)) {

        sel_memory_free(&index->memory, index->walkers,
                        index->walkers_n * sizeof(sel_walker_t));
        sel_memory_free(&index->memory, index->groups,
                        index->walkers_n * sizeof(sel_walk_group_t));

        index->walkers = NULL;
        index->groups = NULL;
        index->walkers_n = 0;
    }
}


uint32_t
sel_index_follow(sel_index_t *index, uint32_t partition,
    const uint64_t *blocks, uint32_t n, uint32_t walkers_n,
    sel_index_match_t *out, uint32_t out_n, uint32_t cap)
{
    uint32_t      tier;
    sel_follow_t  follow;

    if (n == 0) {
        return out_n;
    }

    follow.index = index;
    follow.blocks = blocks;
    follow.n = n;
    follow.partition = partition;
    follow.walkers_n = walkers_n;
    follow.out = out;
    follow.out_n = out_n;
    follow.cap = cap;

    sel_follow_start(&follow);

    for (tier = SEL_TIER_HOST_PINNED; tier < SEL_TIERS; tier++) {

        if (index->blocks[tier] == 0) {
            continue;
        }

        follow.tier = (sel_tier_t) tier;
        follow.root = sel_index_root(index, partition, follow.tier);

        sel_follow_enter(&follow);
        sel_follow_walk(&follow);
    }

    return follow.out_n;
}


static void
sel_follow_start(sel_follow_t *follow)
{
    uint16_t       owner;
    uint32_t       i;
    sel_walker_t  *walkers;

    walkers = follow->index->walkers;

    for (i = 0; i < follow->walkers_n; i++) {
        walkers[i].next = i + 1 < follow->walkers_n ? i + 1
                                                    : SEL_INDEX_NO_WALKER;
    }

    follow->waiting = follow->walkers_n != 0 ? 0 : SEL_INDEX_NO_WALKER;

    memset(follow->listed, 0,
           (follow->index->owner_limit + 63) / 64 * sizeof(uint64_t));

    for (i = 0; i < follow->out_n; i++) {
        owner = follow->out[i].owner;
        follow->listed[owner / 64] |= (uint64_t) 1 << (owner % 64);
    }
}


/* Who has the tier's first block and is not in the result yet. */

static void
sel_follow_enter(sel_follow_t *follow)
{
    uint16_t                owner;
    uint32_t                holder;
    uint64_t                bits, path;
    sel_set_walk_t          walk;
    const sel_index_t      *index;
    const sel_wide_slot_t  *slot;

    index = follow->index;
    path = sel_node_chain(follow->root, follow->blocks[0]);
    slot = sel_table_find(&index->paths, path, SEL_TABLE_WIDE);

    if (slot == NULL) {
        return;
    }

    sel_owner_set_walk(&index->sets, slot->set, &walk);

    while (sel_owner_set_next(&walk)) {

        bits = walk.value & index->holders_live[walk.word];

        for ( ; bits != 0; bits &= bits - 1) {

            holder = walk.word * 64 + (uint32_t) __builtin_ctzll(bits);
            owner = index->holders[holder].owner;

            if ((follow->listed[owner / 64] >> (owner % 64) & 1) == 0) {
                sel_follow_newcomer(follow, owner);
            }
        }
    }
}


/* It is ahead of all others, that have a block. */

static void
sel_follow_newcomer(sel_follow_t *follow, uint16_t owner)
{
    sel_walker_t       *walker;
    sel_index_match_t  *out;

    if (follow->out_n == follow->cap) {
        return;
    }

    follow->listed[owner / 64] |= (uint64_t) 1 << (owner % 64);

    out = &follow->out[follow->out_n];
    out->owner = owner;
    memset(out->hits, 0, sizeof(out->hits));

    walker = &follow->index->walkers[follow->walkers_n];
    walker->anchor = 0;
    walker->pos = 0;
    walker->match = follow->out_n++;
    walker->next = follow->waiting;

    follow->waiting = follow->walkers_n++;
}
