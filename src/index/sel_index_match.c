/*
 * Looking a prompt up.  The hashes of the paths run some blocks ahead of the
 * probes, so that the slots are in the cache when they are needed; behind
 * the first block that nobody has, nothing is computed.
 *
 * The active holders are a bitmap.  Neighbouring blocks mostly have the same
 * set, and then nobody can drop out; so only a change of the set's number is
 * looked at.  Ghosts are left out at the first block.
 *
 * If there are blocks in lower tiers, a rank that may have some leaves a
 * walker where its blocks on the device end (sel_index_follow.c).
 */

#include "index/sel_index_impl.h"


#define SEL_MATCH_AHEAD  16         /* blocks, a power of two */


typedef struct {
    const sel_index_t  *index;
    sel_walker_t       *walkers;    /* or NULL */
    sel_index_match_t  *out;
    uint32_t            n;
    uint32_t            cap;
    uint32_t            walkers_n;
    uint32_t            node;       /* of the block before */
    uint32_t            low;        /* words in use: low .. high - 1 */
    uint32_t            high;
    uint64_t            active[SEL_SET_WORDS];
} sel_match_t;


static void sel_match_start(sel_match_t *match, uint32_t set);
static bool sel_match_narrow(sel_match_t *match, uint32_t set,
    uint32_t blocks);
static void sel_match_emit(sel_match_t *match, uint32_t word, uint64_t bits,
    uint32_t blocks);
static void sel_match_walker(sel_match_t *match, uint32_t holder,
    uint32_t blocks);


uint32_t
sel_index_match(sel_index_t *index, uint32_t partition,
    const uint64_t *blocks, uint32_t n, sel_index_match_t *out, uint32_t cap)
{
    uint32_t                ahead, i, set;
    uint64_t                path, paths[SEL_MATCH_AHEAD];
    sel_match_t             match;
    const sel_wide_slot_t  *slot;

    path = sel_index_root(index, partition, SEL_TIER_DEVICE);
    ahead = 0;
    set = 0;

    match.index = index;
    match.walkers = NULL;
    match.walkers_n = 0;
    match.node = 0;
    match.out = out;
    match.n = 0;
    match.cap = cap;
    match.low = 0;
    match.high = 0;

    if (sel_index_has_lower(index) && sel_index_follow_reserve(index)) {
        match.walkers = index->walkers;
    }

    for (i = 0; i < n; i++) {

        while (ahead < n && ahead - i < SEL_MATCH_AHEAD) {
            path = sel_node_chain(path, blocks[ahead]);
            sel_table_prefetch(&index->paths, path, SEL_TABLE_WIDE, 2);
            paths[ahead++ % SEL_MATCH_AHEAD] = path;
        }

        slot = sel_table_find(&index->paths, paths[i % SEL_MATCH_AHEAD],
                              SEL_TABLE_WIDE);
        if (slot == NULL) {
            break;
        }

        if (slot->set != set) {
            set = slot->set;

            if (i == 0) {
                sel_match_start(&match, set);
            }

            if (!sel_match_narrow(&match, set, i)) {
                break;
            }
        }

        match.node = slot->value;
    }

    (void) sel_match_narrow(&match, 0, i);

    if (match.walkers == NULL) {
        return match.n;
    }

    return sel_index_follow(index, partition, blocks, n, match.walkers_n, out,
                            match.n, cap);
}


/* All live members are active. */

static void
sel_match_start(sel_match_t *match, uint32_t set)
{
    uint32_t        next;
    sel_set_walk_t  walk;

    sel_owner_set_walk(&match->index->sets, set, &walk);

    if (!sel_owner_set_next(&walk)) {
        return;
    }

    next = walk.word;
    match->low = next;

    do {
        while (next < walk.word) {
            match->active[next++] = 0;
        }

        match->active[next++] = walk.value
                                & match->index->holders_live[walk.word];

    } while (sel_owner_set_next(&walk));

    match->high = next;
}


/* Who is not in the set drops out; false when nobody is left. */

static bool
sel_match_narrow(sel_match_t *match, uint32_t set, uint32_t blocks)
{
    bool            more;
    uint32_t        word;
    uint64_t        left, stay;
    sel_set_walk_t  walk;

    left = 0;

    sel_owner_set_walk(&match->index->sets, set, &walk);
    more = sel_owner_set_next(&walk);

    for (word = match->low; word < match->high; word++) {

        if (match->active[word] == 0) {
            continue;
        }

        while (more && walk.word < word) {
            more = sel_owner_set_next(&walk);
        }

        stay = more && walk.word == word ? walk.value : 0;

        sel_match_emit(match, word, match->active[word] & ~stay, blocks);

        match->active[word] &= stay;
        left |= match->active[word];
    }

    return left != 0;
}


static void
sel_match_emit(sel_match_t *match, uint32_t word, uint64_t bits,
    uint32_t blocks)
{
    uint32_t            holder;
    sel_index_match_t  *out;

    for ( /* void */ ; bits != 0 && match->n < match->cap; bits &= bits - 1) {

        holder = word * 64 + (uint32_t) __builtin_ctzll(bits);

        out = &match->out[match->n++];
        out->owner = match->index->holders[holder].owner;
        memset(out->hits, 0, sizeof(out->hits));
        out->hits[SEL_TIER_DEVICE] = blocks;

        if (match->walkers != NULL) {
            sel_match_walker(match, holder, blocks);
        }
    }
}


/* For the result made last, if its owner has a lower tier. */

static void
sel_match_walker(sel_match_t *match, uint32_t holder, uint32_t blocks)
{
    uint32_t            name, tier;
    sel_walker_t       *walker;
    const sel_index_t  *index;
    const sel_owner_t  *owner;

    index = match->index;
    owner = &index->owners[index->holders[holder].owner];
    tier = SEL_TIER_HOST_PINNED;

    while (owner->holder[tier] == SEL_INDEX_NO_HOLDER) {
        if (++tier == SEL_TIERS) {
            return;
        }
    }

    name = sel_index_name_of(index, holder, match->node);

    walker = &match->walkers[match->walkers_n++];
    walker->anchor = name != 0
                     ? sel_index_name(index, name)->external
                     : sel_node_at(&index->nodes, match->node)->external;
    walker->pos = blocks;
    walker->match = match->n - 1;
}
