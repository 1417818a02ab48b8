/*
 * Verifies an index: every table by itself, then that all of them tell the
 * same story.  This half walks the paths and counts; sel_index_check_holder.c
 * compares the counts with the holders.  The memory for it is not part of the
 * index's.
 */

#include <stdlib.h>

#include "index/sel_index_check_impl.h"
#include "index/sel_owner_set_check.h"
#include "index/sel_pool_check.h"


static const char *sel_check_all(sel_check_t *check);
static const char *sel_check_paths(sel_check_t *check);
static const char *sel_check_members(sel_check_t *check,
    const sel_wide_slot_t *slot);


const char *
sel_index_check(sel_index_t *index)
{
    uint32_t      i, most;
    const char   *wrong;
    sel_check_t   check;

    memset(&check, 0, sizeof(sel_check_t));

    most = 1;

    for (i = 0; i < index->holders_n; i++) {
        if (sel_check_bit(index->holders_used, i)
            && index->holders[i].externals.count > most)
        {
            most = index->holders[i].externals.count;
        }
    }

    check.index = index;
    check.seen = calloc((size_t) index->nodes.top + 1, 1);
    check.seen_names = calloc((size_t) index->names.top + 1, 1);
    check.seen_sets = calloc((size_t) index->sets.records.top + 1, 1);
    check.refs = calloc((size_t) index->sets.records.top + 1,
                        sizeof(uint32_t));
    check.members = calloc(SEL_SET_HOLDERS, sizeof(uint32_t));
    check.values = calloc(most, sizeof(uint64_t));
    check.holders = calloc(SEL_INDEX_NO_OWNER, 1);
    check.ghosts = calloc(SEL_INDEX_NO_OWNER, 1);

    wrong = "there is no memory to check with";

    if (check.seen != NULL && check.seen_names != NULL
        && check.seen_sets != NULL && check.refs != NULL
        && check.members != NULL && check.values != NULL
        && check.holders != NULL && check.ghosts != NULL)
    {
        wrong = sel_check_all(&check);

        if (wrong == NULL) {
            wrong = sel_owner_sets_check(&index->sets, check.refs,
                                         check.seen_sets, &check.bytes);
        }

        if (wrong == NULL && check.bytes != index->memory.used) {
            wrong = "the bytes do not add up";
        }
    }

    free(check.seen);
    free(check.seen_names);
    free(check.seen_sets);
    free(check.refs);
    free(check.members);
    free(check.values);
    free(check.holders);
    free(check.ghosts);

    return wrong;
}


static const char *
sel_check_all(sel_check_t *check)
{
    const char         *wrong;
    const sel_index_t  *index;

    index = check->index;
    check->bytes = sizeof(sel_index_t) + index->paths.bytes
                   + index->extras.bytes + sel_pool_bytes(&index->nodes)
                   + sel_pool_bytes(&index->names)
                   + index->walkers_n * sizeof(sel_walker_t)
                   + index->walkers_n * sizeof(sel_walk_group_t)
                   + index->owners_n * sizeof(sel_owner_t)
                   + index->buckets_n * sizeof(uint16_t)
                   + index->holders_n * sizeof(sel_holder_t);

    wrong = sel_table_check(&index->paths);

    if (wrong == NULL) {
        wrong = sel_table_check(&index->extras);
    }

    if (wrong == NULL) {
        wrong = sel_check_paths(check);
    }

    if (wrong == NULL) {
        wrong = sel_pool_check(&index->nodes, check->seen);
    }

    if (wrong == NULL) {
        wrong = sel_check_holders(check);
    }

    if (wrong == NULL) {
        wrong = sel_pool_check(&index->names, check->seen_names);
    }

    if (wrong == NULL) {
        wrong = sel_check_owners(check);
    }

    return wrong;
}


static const char *
sel_check_paths(sel_check_t *check)
{
    uint32_t                pos, number;
    const char             *wrong;
    const sel_index_t      *index;
    const sel_wide_slot_t  *slot;

    index = check->index;

    for (pos = 0; pos < index->paths.total; pos++) {
        slot = sel_table_at(&index->paths, pos, SEL_TABLE_WIDE);

        if (slot->value == 0) {
            continue;
        }

        number = slot->value;

        if (number > index->nodes.top || check->seen[number] != 0) {
            return "a path has no node, or two have the same";
        }

        if (slot->set == 0 || slot->set > index->sets.records.top
            || sel_owner_set_at(&index->sets, slot->set)->refs == 0)
        {
            return "a path has no set";
        }

        check->seen[number] = 1;
        check->refs[slot->set]++;

        wrong = sel_check_members(check, slot);

        if (wrong != NULL) {
            return wrong;
        }
    }

    return NULL;
}


static const char *
sel_check_members(sel_check_t *check, const sel_wide_slot_t *slot)
{
    uint32_t            number;
    uint64_t            root;
    sel_set_walk_t      walk;
    const sel_index_t  *index;

    root = 0;
    index = check->index;

    if (sel_node_path(&index->nodes, slot->value) != slot->key) {
        return "a path does not fit its node";
    }

    sel_owner_set_walk(&index->sets, slot->set, &walk);

    while (sel_owner_set_next(&walk)) {
        for ( ; walk.value != 0; walk.value &= walk.value - 1) {

            number = walk.word * 64 + (uint32_t) __builtin_ctzll(walk.value);

            if (number >= index->holders_n
                || !sel_check_bit(index->holders_used, number))
            {
                return "a set names a holder that is not in use";
            }

            if (root != 0 && root != index->holders[number].root) {
                return "holders of two partitions or tiers share a block";
            }

            root = index->holders[number].root;
            check->members[number]++;
        }
    }

    return NULL;
}
