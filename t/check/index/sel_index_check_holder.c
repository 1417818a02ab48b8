/*
 * The half of the check that looks at who holds what: every external hash
 * must lead to a block whose set names the holder, and the other way round.
 */

#include <stdlib.h>

#include "index/sel_index_check_impl.h"


static const char *sel_check_holder(sel_check_t *check, uint32_t number);
static const char *sel_check_externals(sel_check_t *check, uint32_t number,
    uint32_t *distinct);
static bool sel_check_member(const sel_index_t *index, uint32_t number,
    uint32_t node);
static bool sel_check_extra(sel_check_t *check, uint32_t number,
    uint32_t node, uint32_t n);
static const char *sel_check_ghosts(const sel_check_t *check);
static const char *sel_check_owner(const sel_index_t *index, uint32_t number);
static int sel_check_compare(const void *a, const void *b);


const char *
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

    return sel_check_ghosts(check);
}


static const char *
sel_check_holder(sel_check_t *check, uint32_t number)
{
    uint32_t             distinct;
    const char          *wrong;
    const sel_holder_t  *holder;

    holder = &check->index->holders[number];
    check->bytes += holder->externals.bytes;

    distinct = 0;
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


/* Adds the blocks that the external hashes of a holder make it hold. */

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


const char *
sel_check_owners(const sel_check_t *check)
{
    uint32_t            i, limit, live, retired;
    const char         *wrong;
    const sel_index_t  *index;

    limit = 0;
    live = 0;
    retired = 0;
    index = check->index;

    for (i = 0; i < index->owners_n && i < SEL_INDEX_NO_OWNER; i++) {

        if ((index->owners[i].state != SEL_OWNER_FREE)
            != sel_check_bit(index->owners_used, i))
        {
            return "an owner's number is free and in use";
        }

        if (index->owners[i].state == SEL_OWNER_FREE) {
            continue;
        }

        wrong = sel_check_owner(index, i);

        if (wrong != NULL) {
            return wrong;
        }

        limit = i + 1;
        live += index->owners[i].state == SEL_OWNER_LIVE;
        retired += index->owners[i].state == SEL_OWNER_RETIRED;
    }

    if (limit != index->owner_limit || live != index->live_n
        || retired != index->retired_n)
    {
        return "owners are counted wrongly";
    }

    return NULL;
}


static const char *
sel_check_owner(const sel_index_t *index, uint32_t number)
{
    bool                 live;
    const sel_owner_t   *owner;
    const sel_holder_t  *holder;

    owner = &index->owners[number];
    holder = &index->holders[owner->holder];
    live = owner->state == SEL_OWNER_LIVE;

    if (holder->owner != number
        || !sel_check_bit(index->holders_used, owner->holder)
        || sel_check_bit(index->holders_live, owner->holder) != live
        || holder->root != sel_index_root(index, owner->partition))
    {
        return "an owner and its holder do not belong together";
    }

    if (live && sel_index_find_owner(index, owner->partition,
                                     owner->worker_id, owner->dp_rank)
                != number)
    {
        return "an owner is not found";
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
