/*
 * The walkers' way through one tier, side by side along the prompt.  Those
 * that ask for the same block are a group, and it is looked up once for all
 * of them.  Who falls behind in it has its mark in the result and waits for
 * the next tier; who has waited further ahead is taken in when the others
 * come to its place.  Thus the walkers leave a tier in the order of their
 * positions, in which the next one needs them, and ranks that walk the same
 * blocks from different places on cost one walk.
 *
 * The block to ask for next follows from the one that is found, so its memory
 * could only be had near one block ahead.  But blocks that were stored in a
 * row mostly have nodes in a row.  So the nodes behind the one that is found
 * are taken for those of the next blocks, and the slots of their paths are
 * brought near; if that is wrong, it was for nothing.
 */

#include "index/sel_index_follow.h"


#define SEL_FOLLOW_NEAR   4         /* groups compared to join them */
#define SEL_FOLLOW_AHEAD  16        /* blocks */


static void sel_follow_call(sel_follow_t *follow, uint32_t pos);
static void sel_follow_ask(sel_follow_t *follow, sel_walk_group_t *group,
    uint32_t pos);
static void sel_follow_find(sel_follow_t *follow, uint32_t pos);
static bool sel_follow_filter(sel_follow_t *follow, sel_walk_group_t *group,
    const sel_wide_slot_t *slot, uint32_t pos);
static bool sel_follow_merge(sel_follow_t *follow, uint32_t groups_n,
    const sel_walk_group_t *group);
static void sel_follow_guess(sel_follow_t *follow, sel_walk_group_t *group,
    uint32_t pos);
static void sel_follow_advance(sel_follow_t *follow, uint32_t pos);
static void sel_follow_stop(sel_follow_t *follow, sel_walk_group_t *group,
    uint32_t pos);
static void sel_follow_pass(sel_follow_t *follow, uint32_t number);


void
sel_follow_walk(sel_follow_t *follow)
{
    uint32_t  pos;

    pos = 0;

    follow->groups_n = 0;
    follow->first = SEL_INDEX_NO_WALKER;

    for ( ;; ) {

        if (follow->groups_n == 0) {

            if (follow->waiting == SEL_INDEX_NO_WALKER) {
                break;
            }

            pos = follow->index->walkers[follow->waiting].pos;
        }

        sel_follow_call(follow, pos);
        sel_follow_find(follow, pos);
        sel_follow_advance(follow, ++pos);
    }

    follow->waiting = follow->first;
}


/* Takes in who waits at a position. */

static void
sel_follow_call(sel_follow_t *follow, uint32_t pos)
{
    uint32_t             made, number, holder;
    sel_index_t         *index;
    sel_walker_t        *walker;
    sel_index_match_t   *out;
    sel_walk_group_t    *group;

    index = follow->index;
    made = follow->groups_n;

    while (follow->waiting != SEL_INDEX_NO_WALKER) {

        number = follow->waiting;
        walker = &index->walkers[number];

        if (walker->pos != pos) {
            return;
        }

        follow->waiting = walker->next;

        out = &follow->out[walker->match];
        out->hits[follow->tier] = pos;      /* until it passes */

        holder = index->owners[out->owner].holder[follow->tier];

        if (holder == SEL_INDEX_NO_HOLDER || pos == follow->n) {
            sel_follow_pass(follow, number);
            continue;
        }

        walker->holder = (uint16_t) holder;
        walker->next = SEL_INDEX_NO_WALKER;

        group = &index->groups[follow->groups_n];

        if (follow->groups_n != made && group[-1].anchor == walker->anchor) {
            index->walkers[group[-1].last].next = number;
            group[-1].last = number;
            continue;
        }

        group->anchor = walker->anchor;
        group->set = 0;
        group->ahead = 0;
        group->first = number;
        group->last = number;

        sel_follow_ask(follow, group, pos);
        follow->groups_n++;
    }
}


static void
sel_follow_ask(sel_follow_t *follow, sel_walk_group_t *group, uint32_t pos)
{
    uint64_t      behind;
    sel_index_t  *index;

    index = follow->index;
    behind = pos == 0 ? follow->root
                      : sel_index_behind(index, follow->root, group->anchor);

    group->path = sel_node_chain(behind, follow->blocks[pos]);

    sel_table_prefetch(&index->paths, group->path, SEL_TABLE_WIDE, 2);
}


/* Only groups that have the block at a position stay. */

static void
sel_follow_find(sel_follow_t *follow, uint32_t pos)
{
    uint32_t                i, n;
    sel_index_t            *index;
    sel_walk_group_t       *group;
    const sel_wide_slot_t  *slot;

    n = 0;
    index = follow->index;

    for (i = 0; i < follow->groups_n; i++) {
        group = &index->groups[i];
        slot = sel_table_find(&index->paths, group->path, SEL_TABLE_WIDE);

        if (slot == NULL) {
            sel_follow_stop(follow, group, pos);
            continue;
        }

        if (slot->set != group->set
            && !sel_follow_filter(follow, group, slot, pos))
        {
            continue;
        }

        group->set = slot->set;
        group->node = slot->value;

        __builtin_prefetch(sel_node_at(&index->nodes, group->node));

        if (!sel_follow_merge(follow, n, group)) {
            index->groups[n++] = *group;
        }
    }

    follow->groups_n = n;
}


/* Only walkers that are in the block's set stay; false: none does. */

static bool
sel_follow_filter(sel_follow_t *follow, sel_walk_group_t *group,
    const sel_wide_slot_t *slot, uint32_t pos)
{
    uint32_t       next, number;
    sel_index_t   *index;
    sel_walker_t  *walker;

    index = follow->index;
    number = group->first;

    group->first = SEL_INDEX_NO_WALKER;

    for ( ; number != SEL_INDEX_NO_WALKER; number = next) {

        walker = &index->walkers[number];
        next = walker->next;

        if (!sel_owner_set_has(&index->sets, slot->set, walker->holder)) {
            walker->anchor = group->anchor;
            walker->pos = pos;
            sel_follow_pass(follow, number);
            continue;
        }

        walker->next = SEL_INDEX_NO_WALKER;

        if (group->first == SEL_INDEX_NO_WALKER) {
            group->first = number;

        } else {
            index->walkers[group->last].next = number;
        }

        group->last = number;
    }

    return group->first != SEL_INDEX_NO_WALKER;
}


/* Joins a group with one of the last before it that has come to its block. */

static bool
sel_follow_merge(sel_follow_t *follow, uint32_t groups_n,
    const sel_walk_group_t *group)
{
    uint32_t           i;
    sel_walk_group_t  *other;

    for (i = 1; i <= groups_n && i <= SEL_FOLLOW_NEAR; i++) {
        other = &follow->index->groups[groups_n - i];

        if (other->node == group->node) {
            follow->index->walkers[other->last].next = group->first;
            other->last = group->last;
            return true;
        }
    }

    return false;
}


/* All groups go on to a position. */

static void
sel_follow_advance(sel_follow_t *follow, uint32_t pos)
{
    uint32_t           i;
    sel_index_t       *index;
    sel_walk_group_t  *group;

    index = follow->index;

    for (i = 0; i < follow->groups_n; i++) {
        group = &index->groups[i];
        group->anchor = sel_node_at(&index->nodes, group->node)->external;

        if (pos < follow->n) {
            sel_follow_ask(follow, group, pos);
            sel_follow_guess(follow, group, pos);

        } else {
            sel_follow_stop(follow, group, pos);
        }
    }

    if (pos == follow->n) {
        follow->groups_n = 0;
    }
}


static void
sel_follow_guess(sel_follow_t *follow, sel_walk_group_t *group, uint32_t pos)
{
    uint32_t             end, node;
    const sel_pool_t    *nodes;
    const sel_table_t   *paths;

    nodes = &follow->index->nodes;
    paths = &follow->index->paths;

    if (group->ahead <= pos) {
        group->guess = group->node;
        group->ahead = pos;
    }

    end = follow->n - pos < SEL_FOLLOW_AHEAD ? follow->n
                                             : pos + SEL_FOLLOW_AHEAD;

    while (group->ahead < end) {

        node = group->guess + 1;

        if (node > nodes->top
            || sel_node_at(nodes, node)->block != follow->blocks[group->ahead])
        {
            return;
        }

        __builtin_prefetch(sel_node_at(nodes, node) + SEL_FOLLOW_AHEAD);
        sel_table_prefetch(paths, sel_node_path(nodes, node), SEL_TABLE_WIDE,
                           2);
        group->guess = node;
        group->ahead++;
    }
}


static void
sel_follow_stop(sel_follow_t *follow, sel_walk_group_t *group, uint32_t pos)
{
    uint32_t       next, number;
    sel_walker_t  *walker;

    for (number = group->first; number != SEL_INDEX_NO_WALKER; number = next) {
        walker = &follow->index->walkers[number];
        next = walker->next;

        walker->anchor = group->anchor;
        walker->pos = pos;

        sel_follow_pass(follow, number);
    }
}


/* A walker is done with the tier. */

static void
sel_follow_pass(sel_follow_t *follow, uint32_t number)
{
    uint32_t       tier;
    sel_walker_t  *walkers;
    uint32_t      *hits;

    tier = follow->tier;
    walkers = follow->index->walkers;
    hits = follow->out[walkers[number].match].hits;

    hits[tier] = walkers[number].pos - hits[tier];
    walkers[number].next = SEL_INDEX_NO_WALKER;

    if (follow->first == SEL_INDEX_NO_WALKER) {
        follow->first = number;

    } else {
        walkers[follow->last].next = number;
    }

    follow->last = number;
}
