/*
 * Verifies an index: every table by itself, then that all of them tell the
 * same story.  Its own memory is not part of the index's.
 */

#include <stdlib.h>

#include "index/sel_index_impl.h"


typedef struct {
    const sel_index_t  *index;
    uint8_t            *seen;       /* by node: in paths */
    uint8_t            *seen_sets;
    uint32_t           *refs;       /* by set */
    uint32_t           *members;    /* by holder: nodes that name it */
    uint32_t           *nodes;      /* of one holder */
    size_t              bytes;
    uint64_t            blocks;
    uint32_t            extras;
} sel_check_t;


static const char *sel_check_all(sel_check_t *check);
static const char *sel_check_paths(sel_check_t *check);
static const char *sel_check_members(sel_check_t *check,
    const sel_wide_slot_t *slot);
static const char *sel_check_holders(sel_check_t *check);
static const char *sel_check_holder(sel_check_t *check, uint32_t number);
static const char *sel_check_externals(sel_check_t *check, uint32_t number,
    uint32_t *distinct);
static bool sel_check_member(const sel_index_t *index, uint32_t number,
    uint32_t node);
static bool sel_check_extra(sel_check_t *check, uint32_t number,
    uint32_t node, uint32_t n);
static const char *sel_check_ghosts(const sel_check_t *check);
static const char *sel_check_owners(const sel_check_t *check);
static int sel_check_compare(const void *a, const void *b);


static inline bool
sel_check_bit(const uint64_t *words, uint32_t i)
{
    return words[i / 64] >> (i % 64) & 1;
}


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
    check.seen_sets = calloc((size_t) index->sets.records.top + 1, 1);
    check.refs = calloc((size_t) index->sets.records.top + 1,
                        sizeof(uint32_t));
    check.members = calloc(SEL_SET_HOLDERS, sizeof(uint32_t));
    check.nodes = calloc(most, sizeof(uint32_t));

    wrong = "there is no memory to check with";

    if (check.seen != NULL && check.seen_sets != NULL && check.refs != NULL
        && check.members != NULL && check.nodes != NULL)
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
    free(check.seen_sets);
    free(check.refs);
    free(check.members);
    free(check.nodes);

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
        wrong = sel_check_ghosts(check);
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

        if (number == 0 || number > index->nodes.top
            || check->seen[number] != 0)
        {
            return "a path has no node, or two have the same";
        }

        if (slot->set == 0 || slot->set > index->sets.records.top) {
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
                return "holders of two partitions share a block";
            }

            root = index->holders[number].root;
            check->members[number]++;
        }
    }

    return NULL;
}


static const char *
sel_check_holders(sel_check_t *check)
{
    uint32_t             number;
    const char          *wrong;
    const sel_index_t   *index;

    index = check->index;

    for (number = 0; number < index->holders_n; number++) {

        if (!sel_check_bit(index->holders_used, number)) {

            if (sel_check_bit(index->holders_live, number)) {
                return "a holder is live and not in use";
            }

            continue;
        }

        wrong = sel_check_holder(check, number);

        if (wrong != NULL) {
            return wrong;
        }
    }

    if (check->extras != index->extras.count) {
        return "an extra external hash has no holder";
    }

    if (check->blocks != index->blocks) {
        return "the blocks do not add up";
    }

    return NULL;
}


static const char *
sel_check_holder(sel_check_t *check, uint32_t number)
{
    uint32_t             distinct;
    const char          *wrong;
    const sel_holder_t  *holder;

    holder = &check->index->holders[number];
    check->bytes += holder->externals.bytes;

    wrong = sel_table_check(&holder->externals);

    if (wrong == NULL) {
        wrong = sel_check_externals(check, number, &distinct);
    }

    if (wrong != NULL) {
        return wrong;
    }

    if (distinct != check->members[number]) {
        return "a holder and the sets disagree on its blocks";
    }

    if (sel_check_bit(check->index->holders_live, number)) {

        if (holder->swept != 0 || distinct != holder->blocks) {
            return "a holder has a wrong number of blocks";
        }

        check->blocks += distinct;
    }

    return NULL;
}


/* Counts the blocks that the external hashes of a holder make it hold. */

static const char *
sel_check_externals(sel_check_t *check, uint32_t number, uint32_t *distinct)
{
    bool                 member;
    uint32_t             from, i, n, pos;
    const sel_slot_t    *slot;
    const sel_index_t   *index;
    const sel_holder_t  *holder;

    n = 0;
    index = check->index;
    holder = &index->holders[number];

    for (pos = holder->swept; pos < holder->externals.total; pos++) {
        slot = sel_table_at(&holder->externals, pos, SEL_TABLE_NARROW);

        if (slot->value != 0) {
            check->nodes[n++] = slot->value;
        }
    }

    qsort(check->nodes, n, sizeof(uint32_t), sel_check_compare);

    *distinct = 0;

    for (from = 0; from < n; from = i) {

        for (i = from + 1; i < n; i++) {
            if (check->nodes[i] != check->nodes[from]) {
                break;
            }
        }

        if (!sel_check_extra(check, number, check->nodes[from], i - from)) {
            return "external hashes on one block are counted wrongly";
        }

        member = sel_check_member(index, number, check->nodes[from]);

        if (!member && sel_check_bit(index->holders_live, number)) {
            return "an external hash leads to a block that is not held";
        }

        *distinct += member;
    }

    return NULL;
}


static bool
sel_check_member(const sel_index_t *index, uint32_t number, uint32_t node)
{
    const sel_wide_slot_t  *wide;

    if (node > index->nodes.top) {
        return false;
    }

    wide = sel_table_find(&index->paths, sel_node_path(&index->nodes, node),
                          SEL_TABLE_WIDE);

    return wide != NULL && wide->value == node
           && sel_owner_set_has(&index->sets, wide->set, (uint16_t) number);
}


static bool
sel_check_extra(sel_check_t *check, uint32_t number, uint32_t node,
    uint32_t n)
{
    const sel_slot_t   *slot;
    const sel_index_t  *index;

    index = check->index;
    slot = sel_table_find(&index->extras,
                          sel_index_extra_key(index, number, node),
                          SEL_TABLE_NARROW);
    if (slot == NULL) {
        return n == 1;
    }

    check->extras++;

    return slot->value == n - 1;
}


static const char *
sel_check_ghosts(const sel_check_t *check)
{
    uint32_t             i, n, number;
    const sel_index_t   *index;

    n = 0;
    index = check->index;

    for (i = 0; i < SEL_SET_WORDS; i++) {
        n += (uint32_t) __builtin_popcountll(index->holders_used[i]
                                             & ~index->holders_live[i]);
    }

    if (n != index->ghosts_n) {
        return "ghosts are counted wrongly";
    }

    number = index->oldest;

    while (number != SEL_INDEX_NO_HOLDER && n != 0) {

        if (!sel_check_bit(index->holders_used, number)
            || sel_check_bit(index->holders_live, number))
        {
            return "a ghost is not one";
        }

        if (index->holders[number].next == SEL_INDEX_NO_HOLDER
            && index->youngest != number)
        {
            return "the youngest ghost is not the last one";
        }

        number = index->holders[number].next;
        n--;
    }

    return n == 0 && number == SEL_INDEX_NO_HOLDER ? NULL
                                                   : "a ghost is lost";
}


static const char *
sel_check_owners(const sel_check_t *check)
{
    uint32_t             i, limit, live, retired;
    const sel_index_t   *index;
    const sel_owner_t   *owner;
    const sel_holder_t  *holder;

    limit = 0;
    live = 0;
    retired = 0;
    index = check->index;

    for (i = 0; i < index->owners_n; i++) {
        owner = &index->owners[i];

        if ((owner->state != SEL_OWNER_FREE)
            != sel_check_bit(index->owners_used, i)
            && i != SEL_INDEX_NO_OWNER)
        {
            return "an owner's number is free and in use";
        }

        if (owner->state == SEL_OWNER_FREE) {
            continue;
        }

        limit = i + 1;
        live += owner->state == SEL_OWNER_LIVE;
        retired += owner->state == SEL_OWNER_RETIRED;
        holder = &index->holders[owner->holder];

        if (holder->owner != i
            || !sel_check_bit(index->holders_used, owner->holder)
            || sel_check_bit(index->holders_live, owner->holder)
               != (owner->state == SEL_OWNER_LIVE)
            || holder->root != sel_index_root(index, owner->partition))
        {
            return "an owner and its holder do not belong together";
        }

        if (owner->state == SEL_OWNER_LIVE
            && sel_index_find_owner(index, owner->partition,
                                    owner->worker_id, owner->dp_rank) != i)
        {
            return "an owner is not found";
        }
    }

    if (limit != index->owner_limit || live != index->live_n
        || retired != index->retired_n)
    {
        return "owners are counted wrongly";
    }

    return NULL;
}


static int
sel_check_compare(const void *a, const void *b)
{
    uint32_t  x, y;

    x = *(const uint32_t *) a;
    y = *(const uint32_t *) b;

    return (x > y) - (x < y);
}
