/*
 * The half of the check that looks at who holds what: every external hash
 * must lead to a block whose set names the holder, and the other way round.
 */

#include <stdlib.h>

#include "index/sel_index_check_impl.h"


static const char *sel_check_holder(sel_check_t *check, uint32_t number);
static const char *sel_check_externals(sel_check_t *check, uint32_t number,
    uint32_t *distinct);
static const char *sel_check_slot(sel_check_t *check, uint32_t number,
    sel_slim_slot_t *slot);
static bool sel_check_member(const sel_index_t *index, uint32_t number,
    uint32_t node);
static bool sel_check_names(sel_check_t *check, uint32_t number,
    const uint64_t *values, uint32_t n);
static const char *sel_check_ghosts(const sel_check_t *check);
static bool sel_check_owned(sel_check_t *check, uint32_t number);
static const char *sel_check_owner(const sel_check_t *check,
    uint32_t number);
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

    if (memcmp(check->blocks, index->blocks, sizeof(check->blocks)) != 0) {
        return "the blocks do not add up";
    }

    if (check->alive != index->alive_n) {
        return "holders are counted wrongly";
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

    if (!sel_check_bit(check->index->holders_live, number)) {

        if (holder->owner != SEL_INDEX_NO_OWNER) {
            check->ghosts[holder->owner]++;
        }

    } else {

        if (!sel_check_owned(check, number)) {
            return "an owner and its holder do not belong together";
        }

        if (holder->swept != 0 || distinct != holder->blocks) {
            return "a holder has a wrong number of blocks";
        }

        if (distinct == 0) {
            return "a holder has no blocks";
        }

        check->blocks[holder->tier] += distinct;
        check->alive++;
    }

    return NULL;
}


/* A live holder is the one of its owner in its tier. */

static bool
sel_check_owned(sel_check_t *check, uint32_t number)
{
    const sel_index_t   *index;
    const sel_owner_t   *owner;
    const sel_holder_t  *holder;

    index = check->index;
    holder = &index->holders[number];

    if (holder->owner >= index->owner_limit) {
        return false;
    }

    owner = &index->owners[holder->owner];
    check->holders[holder->owner]++;

    return owner->state == SEL_OWNER_LIVE
           && owner->holder[holder->tier] == number
           && holder->root == sel_index_root(index, owner->partition,
                                             (sel_tier_t) holder->tier);
}


/* Adds the blocks that the external hashes of a holder make it hold. */

static const char *
sel_check_externals(sel_check_t *check, uint32_t number, uint32_t *distinct)
{
    bool                    member;
    uint32_t                from, i, n, node, pos;
    const char             *wrong;
    sel_slim_slot_t        *slot;
    const sel_index_t      *index;
    const sel_holder_t     *holder;

    n = 0;
    index = check->index;
    holder = &index->holders[number];

    for (pos = holder->swept; pos < holder->externals.total; pos++) {
        slot = sel_table_at(&holder->externals, pos, SEL_TABLE_SLIM);

        if (slot->value == 0) {
            continue;
        }

        wrong = sel_check_slot(check, number, slot);

        if (wrong != NULL) {
            return wrong;
        }

        node = sel_index_value_node(index, slot->value);
        check->values[n++] = (uint64_t) node << 32 | slot->value;
    }

    qsort(check->values, n, sizeof(uint64_t), sel_check_compare);

    for (from = 0; from < n; from = i) {

        node = (uint32_t) (check->values[from] >> 32);

        for (i = from + 1; i < n; i++) {
            if (check->values[i] >> 32 != node) {
                break;
            }
        }

        if (!sel_check_names(check, number, &check->values[from], i - from)) {
            return "the names of a block are not those of its slots";
        }

        member = sel_check_member(index, number, node);

        if (!member && sel_check_bit(index->holders_live, number)) {
            return "an external hash leads to a block that is not held";
        }

        *distinct += member;
    }

    return NULL;
}


static const char *
sel_check_slot(sel_check_t *check, uint32_t number, sel_slim_slot_t *slot)
{
    uint32_t             name;
    uint64_t             external;
    const sel_index_t   *index;
    const sel_holder_t  *holder;

    index = check->index;
    holder = &index->holders[number];

    if ((slot->value & SEL_INDEX_NAMED) != 0) {

        name = slot->value & ~SEL_INDEX_NAMED;

        if (name == 0 || name > index->names.top
            || check->seen_names[name] != 0)
        {
            return "a slot has no name, or two have the same";
        }

        if (holder->tier != SEL_TIER_DEVICE) {
            return "there is a name in a lower tier";
        }

        check->seen_names[name] = 1;
    }

    if (!sel_check_bit(index->holders_live, number)) {
        return NULL;
    }

    if (sel_index_value_node(index, slot->value) > index->nodes.top) {
        return "an external hash leads to no node";
    }

    external = sel_index_value_external(index, slot->value);

    if (sel_index_known(index, &holder->externals, external,
                        sel_mix(&index->mix, external))
        != slot)
    {
        return "an external hash is not found, or there are two equal ones";
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


/*
 * Either there is one slot, which leads to the node itself, or all lead to
 * names, and these are a ring.
 */

static bool
sel_check_names(sel_check_t *check, uint32_t number, const uint64_t *values,
    uint32_t n)
{
    uint32_t            i, name, next, node, oldest;
    const sel_index_t  *index;

    index = check->index;
    node = (uint32_t) (values[0] >> 32);
    oldest = sel_index_name_of(index, number, node);

    if (oldest == 0) {
        return n == 1 && ((uint32_t) values[0] & SEL_INDEX_NAMED) == 0;
    }

    check->extras++;
    name = oldest;

    for (i = 0; i < n; i++) {

        if (((uint32_t) values[i] & SEL_INDEX_NAMED) == 0 || name == 0
            || name > index->names.top || check->seen_names[name] == 0
            || sel_index_name(index, name)->node != node)
        {
            return false;
        }

        next = sel_index_name(index, name)->next;

        if (next > index->names.top
            || sel_index_name(index, next)->prev != name
            || (next == oldest) != (i == n - 1))
        {
            return false;
        }

        name = next;
    }

    return true;
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

        wrong = sel_check_owner(check, i);

        if (wrong != NULL) {
            return wrong;
        }

        limit = i + 1;
        retired += check->ghosts[i];
        live += index->owners[i].state == SEL_OWNER_LIVE;
    }

    for (i = index->empty; i != 0 && retired <= index->retired_n;
         i = index->owners[i - 1].next)
    {
        if (i > index->owner_limit
            || index->owners[i - 1].state != SEL_OWNER_RETIRED)
        {
            return "an owner waits for a sweep and is not retired";
        }

        retired++;
    }

    if (limit != index->owner_limit || live != index->live_n
        || retired != index->retired_n)
    {
        return "owners are counted wrongly";
    }

    return NULL;
}


static const char *
sel_check_owner(const sel_check_t *check, uint32_t number)
{
    uint32_t            tier;
    const sel_owner_t  *owner;
    const sel_index_t  *index;

    index = check->index;
    owner = &index->owners[number];

    for (tier = 0; tier < SEL_TIERS; tier++) {
        check->holders[number] -= owner->holder[tier] != SEL_INDEX_NO_HOLDER;
    }

    if (check->holders[number] != 0
        || check->ghosts[number] > (owner->state == SEL_OWNER_RETIRED))
    {
        return "an owner has a holder too many or too few";
    }

    if (owner->state == SEL_OWNER_LIVE
        && sel_index_find_owner(index, owner->partition, owner->worker_id,
                                owner->dp_rank)
           != number)
    {
        return "an owner is not found";
    }

    return NULL;
}


static int
sel_check_compare(const void *a, const void *b)
{
    uint64_t  x, y;

    x = *(const uint64_t *) a;
    y = *(const uint64_t *) b;

    return (x > y) - (x < y);
}
