/*
 * Changes.  An event's blocks are handled in batches: all keys first, with
 * the memory of their home slots on its way, then block by block.
 *
 * A stored block takes what memory it may need before anything is changed,
 * so a failure leaves no half of it behind.  A removal may fail too, when the
 * set without the holder does not exist yet and there is no memory for it.
 * Then the owner loses everything, which needs no memory: too little credit
 * is right, credit for a block that is gone would not be.
 */

#include "index/sel_index_impl.h"


typedef struct {
    uint64_t   parent;          /* path hash */
    uint64_t   block;
    uint64_t   path;
    uint64_t   external;        /* mixed */
} sel_index_place_t;


static sel_index_result_t sel_index_stored(sel_index_t *index,
    const sel_index_change_t *change);
static void sel_index_plan(const sel_index_t *index, uint32_t holder,
    const sel_index_change_t *change, uint32_t from, uint64_t path,
    sel_index_place_t *places, uint32_t n);
static bool sel_index_store(sel_index_t *index, uint32_t holder,
    const sel_index_place_t *place);
static bool sel_index_move(sel_index_t *index, uint32_t holder,
    sel_slot_t *slot, uint32_t node);
static bool sel_index_make(sel_index_t *index, uint32_t holder,
    const sel_index_place_t *place, uint32_t *node);
static bool sel_index_join(sel_index_t *index, uint32_t holder,
    sel_wide_slot_t *wide);
static bool sel_index_repeat(sel_index_t *index, uint32_t holder,
    uint32_t node);
static sel_index_result_t sel_index_removed(sel_index_t *index,
    const sel_index_change_t *change);
static bool sel_index_remove(sel_index_t *index, uint32_t holder,
    const uint64_t *external, uint32_t n, uint32_t *unknown);


sel_index_result_t
sel_index_apply(sel_index_t *index, const sel_index_change_t *change)
{
    sel_index_result_t  rc;

    if (change->owner >= index->owner_limit
        || index->owners[change->owner].state != SEL_OWNER_LIVE)
    {
        return SEL_INDEX_NO_SUCH_OWNER;
    }

    if (change->kind == SEL_INDEX_CLEARED) {
        return sel_index_clear(index, change->owner) ? SEL_INDEX_OK
                                                     : SEL_INDEX_FULL;
    }

    if (change->tier != SEL_TIER_DEVICE) {
        return SEL_INDEX_CONFLICT;
    }

    if (change->kind == SEL_INDEX_STORED) {
        return sel_index_stored(index, change);
    }

    index->memory.urgent = true;

    rc = sel_index_removed(index, change);

    index->memory.urgent = false;

    return rc;
}


static sel_index_result_t
sel_index_stored(sel_index_t *index, const sel_index_change_t *change)
{
    uint32_t            base, holder, i, n;
    uint64_t            path;
    sel_index_place_t   places[SEL_INDEX_BATCH];
    const sel_slot_t   *slot;

    holder = index->owners[change->owner].holder;
    path = index->holders[holder].root;

    if (change->has_parent) {

        slot = sel_table_find(&index->holders[holder].externals,
                              sel_mix(&index->mix, change->parent),
                              SEL_TABLE_NARROW);
        if (slot == NULL) {
            return SEL_INDEX_UNKNOWN_PARENT;
        }

        path = sel_node_path(&index->nodes, slot->value);
    }

    for (base = 0; base < change->n; base += n) {

        n = change->n - base;
        n = n < SEL_INDEX_BATCH ? n : SEL_INDEX_BATCH;

        sel_index_plan(index, holder, change, base, path, places, n);

        for (i = 0; i < n; i++) {
            if (!sel_index_store(index, holder, &places[i])) {
                return SEL_INDEX_FULL;
            }
        }

        path = places[n - 1].path;
    }

    return SEL_INDEX_OK;
}


/* Works a batch out behind a path. */

static void
sel_index_plan(const sel_index_t *index, uint32_t holder,
    const sel_index_change_t *change, uint32_t from, uint64_t path,
    sel_index_place_t *places, uint32_t n)
{
    uint32_t             i;
    const sel_table_t   *externals;
    sel_index_place_t   *place;

    externals = &index->holders[holder].externals;

    for (i = 0; i < n; i++) {
        place = &places[i];

        place->parent = path;
        place->block = change->block[from + i];
        place->path = sel_node_chain(path, place->block);
        place->external = sel_mix(&index->mix, change->external[from + i]);

        sel_table_prefetch(externals, place->external, SEL_TABLE_NARROW, 3);
        sel_table_prefetch(&index->paths, place->path, SEL_TABLE_WIDE, 3);

        path = place->path;
    }
}


static bool
sel_index_store(sel_index_t *index, uint32_t holder,
    const sel_index_place_t *place)
{
    uint32_t          node;
    sel_slot_t       *slot;
    sel_table_t      *externals;
    sel_wide_slot_t  *wide;

    externals = &index->holders[holder].externals;
    slot = sel_table_find(externals, place->external, SEL_TABLE_NARROW);

    if (slot != NULL) {
        if (sel_node_path(&index->nodes, slot->value) == place->path) {
            return true;
        }

    } else if (!sel_table_reserve(externals, &index->memory)) {
        return false;
    }

    wide = sel_table_find(&index->paths, place->path, SEL_TABLE_WIDE);

    if (wide == NULL) {
        if (!sel_index_make(index, holder, place, &node)) {
            return false;
        }

    } else {
        node = wide->value;

        if (!sel_index_join(index, holder, wide)) {
            return false;
        }
    }

    if (slot != NULL) {
        return sel_index_move(index, holder, slot, node);
    }

    slot = sel_table_insert(externals, place->external);
    slot->value = node;

    return true;
}


/* The external hash of the slot leaves its block for a node it has joined. */

static bool
sel_index_move(sel_index_t *index, uint32_t holder, sel_slot_t *slot,
    uint32_t node)
{
    bool  dead, left;

    index->memory.urgent = true;

    left = sel_index_leave(index, holder, slot->value, false);

    if (left) {
        slot->value = node;

    } else {
        dead = sel_index_clear(index, index->holders[holder].owner);
        (void) sel_index_leave(index, holder, node, dead);
    }

    index->memory.urgent = false;

    return left;
}


/* A block that nobody holds. */

static bool
sel_index_make(sel_index_t *index, uint32_t holder,
    const sel_index_place_t *place, uint32_t *node)
{
    uint32_t          set;
    sel_node_t       *made;
    sel_wide_slot_t  *wide;

    set = 0;

    if (!sel_pool_reserve(&index->nodes, &index->memory)
        || !sel_table_reserve(&index->paths, &index->memory)
        || !sel_owner_set_add(&index->sets, &set, (uint16_t) holder))
    {
        return false;
    }

    *node = sel_pool_get(&index->nodes);

    made = sel_node_at(&index->nodes, *node);
    made->parent = place->parent;
    made->block = place->block;

    wide = sel_table_insert(&index->paths, place->path);
    wide->value = *node;
    wide->set = set;

    index->holders[holder].blocks++;
    index->blocks++;

    return true;
}


/* A block that somebody holds, maybe the same holder. */

static bool
sel_index_join(sel_index_t *index, uint32_t holder, sel_wide_slot_t *wide)
{
    uint32_t  set;

    set = wide->set;

    if (sel_owner_set_has(&index->sets, set, (uint16_t) holder)) {
        return sel_index_repeat(index, holder, wide->value);
    }

    if (!sel_owner_set_add(&index->sets, &set, (uint16_t) holder)) {
        return false;
    }

    wide->set = set;

    index->holders[holder].blocks++;
    index->blocks++;

    return true;
}


static bool
sel_index_repeat(sel_index_t *index, uint32_t holder, uint32_t node)
{
    uint64_t     key;
    sel_slot_t  *slot;

    key = sel_index_extra_key(index, holder, node);
    slot = sel_table_find(&index->extras, key, SEL_TABLE_NARROW);

    if (slot == NULL) {

        if (!sel_table_reserve(&index->extras, &index->memory)) {
            return false;
        }

        slot = sel_table_insert(&index->extras, key);
    }

    slot->value++;

    return true;
}


static sel_index_result_t
sel_index_removed(sel_index_t *index, const sel_index_change_t *change)
{
    uint32_t  base, holder, n, unknown;

    unknown = 0;
    holder = index->owners[change->owner].holder;

    for (base = 0; base < change->n; base += n) {

        n = change->n - base;
        n = n < SEL_INDEX_BATCH ? n : SEL_INDEX_BATCH;

        if (!sel_index_remove(index, holder, change->external + base, n,
                              &unknown))
        {
            (void) sel_index_clear(index, change->owner);
            return SEL_INDEX_FULL;
        }

        (void) sel_table_settle(&index->holders[holder].externals,
                                &index->memory, n * SEL_TABLE_STEP);
        (void) sel_index_settle(index, n * SEL_TABLE_STEP);
    }

    return unknown == 0 ? SEL_INDEX_OK : SEL_INDEX_UNKNOWN_BLOCK;
}


static bool
sel_index_remove(sel_index_t *index, uint32_t holder,
    const uint64_t *external, uint32_t n, uint32_t *unknown)
{
    uint32_t      i, nodes[SEL_INDEX_BATCH];
    uint64_t      keys[SEL_INDEX_BATCH];
    sel_slot_t   *slot;
    sel_table_t  *externals;

    externals = &index->holders[holder].externals;

    for (i = 0; i < n; i++) {
        keys[i] = sel_mix(&index->mix, external[i]);
        sel_table_prefetch(externals, keys[i], SEL_TABLE_NARROW, 2);
    }

    for (i = 0; i < n; i++) {
        slot = sel_table_find(externals, keys[i], SEL_TABLE_NARROW);
        nodes[i] = slot == NULL ? 0 : slot->value;
        sel_index_prefetch_node(index, nodes[i]);
    }

    for (i = 0; i < n; i++) {
        sel_index_prefetch_path(index, nodes[i]);
    }

    for (i = 0; i < n; i++) {
        slot = sel_table_find(externals, keys[i], SEL_TABLE_NARROW);

        if (slot == NULL) {
            (*unknown)++;
            continue;
        }

        if (!sel_index_leave(index, holder, slot->value, false)) {
            return false;
        }

        sel_table_delete(externals, slot);
    }

    return true;
}
