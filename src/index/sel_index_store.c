/*
 * Storing one block.  It takes what memory it may need before anything is
 * changed, so a failure leaves no half of it behind.
 *
 * A node keeps the external hash of its first holder.  On the device a holder
 * with another hash has a name for it.  In a lower tier that is a conflict:
 * the hash of a block there is what the blocks behind it hang on.  Where
 * ghosts alone hold a node, it takes the new hash; theirs are of no use.
 */

#include "index/sel_index_impl.h"


static bool sel_index_is_at(const sel_index_t *index,
    const sel_slim_slot_t *slot, const sel_index_place_t *place);
static sel_index_result_t sel_index_enter(sel_index_t *index,
    uint32_t holder, const sel_index_place_t *place, sel_slim_slot_t *slot);
static sel_index_result_t sel_index_make(sel_index_t *index,
    uint32_t holder, const sel_index_place_t *place, uint32_t *node);
static sel_index_result_t sel_index_join(sel_index_t *index,
    uint32_t holder, const sel_index_place_t *place, sel_wide_slot_t *wide,
    bool member);
static void sel_index_count(sel_index_t *index, uint32_t holder);
static bool sel_index_alive(const sel_index_t *index, uint32_t set);
static bool sel_index_move(sel_index_t *index, uint32_t holder,
    uint32_t value, uint32_t node, bool member);
static uint32_t sel_index_value(sel_index_t *index, uint32_t holder,
    const sel_index_place_t *place, uint32_t node, bool member);


sel_index_result_t
sel_index_store(sel_index_t *index, uint32_t holder,
    const sel_index_place_t *place)
{
    sel_table_t      *externals;
    sel_slim_slot_t  *slot;

    externals = &index->holders[holder].externals;
    slot = sel_index_known(index, externals, place->external, place->key);

    if (slot == NULL) {

        if (!sel_table_reserve(externals, &index->memory)) {
            return SEL_INDEX_FULL;
        }

        return sel_index_enter(index, holder, place, NULL);
    }

    if (sel_index_is_at(index, slot, place)) {
        return SEL_INDEX_OK;
    }

    if (index->holders[holder].tier != SEL_TIER_DEVICE) {
        return SEL_INDEX_CONFLICT;
    }

    return sel_index_enter(index, holder, place, slot);
}


/* Does the slot lead to the place?  Mostly that is seen without hashing. */

static bool
sel_index_is_at(const sel_index_t *index, const sel_slim_slot_t *slot,
    const sel_index_place_t *place)
{
    const sel_node_t  *node;

    node = sel_node_at(&index->nodes,
                       sel_index_value_node(index, slot->value));

    if (node->parent == place->parent && node->block == place->block) {
        return true;
    }

    return sel_node_chain(node->parent, node->block) == place->path;
}


/* slot: of the external hash at another block, or NULL. */

static sel_index_result_t
sel_index_enter(sel_index_t *index, uint32_t holder,
    const sel_index_place_t *place, sel_slim_slot_t *slot)
{
    bool                 member;
    uint32_t             node, value;
    sel_wide_slot_t     *wide;
    sel_index_result_t   rc;

    wide = sel_table_find(&index->paths, place->path, SEL_TABLE_WIDE);

    if (wide == NULL) {
        member = false;
        rc = sel_index_make(index, holder, place, &node);

    } else {
        node = wide->value;
        member = sel_owner_set_has(&index->sets, wide->set,
                                   (uint16_t) holder);
        rc = sel_index_join(index, holder, place, wide, member);
    }

    if (rc != SEL_INDEX_OK) {
        return rc;
    }

    if (slot != NULL
        && !sel_index_move(index, holder, slot->value, node, member))
    {
        return SEL_INDEX_FULL;
    }

    value = sel_index_value(index, holder, place, node, member);

    if (slot == NULL) {
        slot = sel_table_insert(&index->holders[holder].externals,
                                place->key);
    }

    slot->value = value;

    return SEL_INDEX_OK;
}


/* A block that nobody holds. */

static sel_index_result_t
sel_index_make(sel_index_t *index, uint32_t holder,
    const sel_index_place_t *place, uint32_t *node)
{
    uint32_t          set;
    sel_node_t       *made;
    sel_wide_slot_t  *wide;

    set = 0;

    if (!sel_pool_reserve(&index->nodes, &index->memory, 1)
        || !sel_table_reserve(&index->paths, &index->memory)
        || !sel_owner_set_add(&index->sets, &set, (uint16_t) holder))
    {
        return SEL_INDEX_FULL;
    }

    *node = sel_pool_get(&index->nodes);

    made = sel_node_at(&index->nodes, *node);
    made->parent = place->parent;
    made->block = place->block;
    made->external = place->external;

    wide = sel_table_insert(&index->paths, place->path);
    wide->value = *node;
    wide->set = set;

    sel_index_count(index, holder);

    return SEL_INDEX_OK;
}


/* A block that somebody holds, maybe the same holder: a member. */

static sel_index_result_t
sel_index_join(sel_index_t *index, uint32_t holder,
    const sel_index_place_t *place, sel_wide_slot_t *wide, bool member)
{
    bool         same;
    uint32_t     set;
    sel_node_t  *node;

    set = wide->set;
    node = sel_node_at(&index->nodes, wide->value);
    same = node->external == place->external;

    if (!same && !sel_index_alive(index, set)) {
        node->external = place->external;
        same = true;
    }

    if (!same && index->holders[holder].tier != SEL_TIER_DEVICE) {
        return SEL_INDEX_CONFLICT;
    }

    if ((!same || member) && !sel_index_name_reserve(index, 2)) {
        return SEL_INDEX_FULL;
    }

    if (member) {
        return SEL_INDEX_OK;
    }

    if (!sel_owner_set_add(&index->sets, &set, (uint16_t) holder)) {
        return SEL_INDEX_FULL;
    }

    wide->set = set;

    sel_index_count(index, holder);

    return SEL_INDEX_OK;
}


static void
sel_index_count(sel_index_t *index, uint32_t holder)
{
    sel_holder_t  *h;

    h = &index->holders[holder];
    h->blocks++;

    index->blocks[h->tier]++;
}


/* Is a member no ghost? */

static bool
sel_index_alive(const sel_index_t *index, uint32_t set)
{
    sel_set_walk_t  walk;

    sel_owner_set_walk(&index->sets, set, &walk);

    while (sel_owner_set_next(&walk)) {
        if ((walk.value & index->holders_live[walk.word]) != 0) {
            return true;
        }
    }

    return false;
}


/*
 * An external hash leaves its block, which its slot's value says, for a node
 * of which its holder was a member before or has just become one.  If there
 * is no memory for that, the owner is cleared.
 */

static bool
sel_index_move(sel_index_t *index, uint32_t holder, uint32_t value,
    uint32_t node, bool member)
{
    bool      left;
    uint16_t  owner;

    index->memory.urgent = true;

    left = sel_index_leave(index, holder, value, false);

    if (!left) {
        owner = index->holders[holder].owner;

        (void) sel_index_clear(index, owner);

        if (!member) {
            (void) sel_index_quit(index, holder, node, true);
        }
    }

    index->memory.urgent = false;

    return left;
}


/* The value of the slot of an external hash that comes to a node. */

static uint32_t
sel_index_value(sel_index_t *index, uint32_t holder,
    const sel_index_place_t *place, uint32_t node, bool member)
{
    uint64_t          external;
    sel_slim_slot_t  *slot;

    external = sel_node_at(&index->nodes, node)->external;

    if (!member && external == place->external) {
        return node;
    }

    if (member && sel_index_name_of(index, holder, node) == 0) {

        slot = sel_index_known(index, &index->holders[holder].externals,
                               external, sel_mix(&index->mix, external));
        slot->value = sel_index_name_add(index, holder, node, external);
    }

    return sel_index_name_add(index, holder, node, place->external);
}
