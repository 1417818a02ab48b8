/*
 * Changes.  An event's blocks are handled in batches: all keys first, with
 * the memory of their home slots on its way, then block by block.
 *
 * A removal may fail, when the set without the holder does not exist yet and
 * there is no memory for it.  Then the owner loses everything, which needs no
 * memory: too little credit is right, credit for a block that is gone would
 * not be.
 */

#include "index/sel_index_impl.h"


static bool sel_index_behind_parent(const sel_index_t *index, uint32_t holder,
    const sel_index_change_t *change, uint64_t *path);
static sel_index_result_t sel_index_stored(sel_index_t *index,
    const sel_index_change_t *change);
static sel_index_result_t sel_index_stored_to(sel_index_t *index,
    uint32_t holder, const sel_index_change_t *change, uint64_t path);
static uint64_t sel_index_plan(const sel_index_t *index, uint32_t holder,
    const sel_index_change_t *change, uint32_t from, uint64_t path,
    sel_index_place_t *places, uint32_t n);
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
        (void) sel_index_clear(index, change->owner);
        return SEL_INDEX_OK;
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
    uint32_t             holder;
    uint64_t             path;
    sel_owner_t         *owner;
    sel_index_result_t   rc;

    owner = &index->owners[change->owner];
    holder = owner->holder[change->tier];
    path = sel_index_root(index, owner->partition, change->tier);

    if (change->has_parent
        && !sel_index_behind_parent(index, holder, change, &path))
    {
        return SEL_INDEX_UNKNOWN_PARENT;
    }

    if (change->n == 0) {
        return SEL_INDEX_OK;
    }

    if (holder == SEL_INDEX_NO_HOLDER) {
        holder = sel_index_holder_take(index, change->owner, change->tier);

        if (holder == SEL_INDEX_NO_HOLDER) {
            return SEL_INDEX_FULL;
        }
    }

    rc = sel_index_stored_to(index, holder, change, path);

    if (owner->holder[change->tier] == holder
        && index->holders[holder].externals.count == 0)
    {
        sel_index_holder_free(index, holder);
    }

    return rc;
}


/* On the device the parent must be known, elsewhere it is not looked up. */

static bool
sel_index_behind_parent(const sel_index_t *index, uint32_t holder,
    const sel_index_change_t *change, uint64_t *path)
{
    uint32_t                node;
    const sel_slim_slot_t  *slot;

    if (change->tier != SEL_TIER_DEVICE) {
        *path = sel_index_behind(index, *path, change->parent);
        return true;
    }

    if (holder == SEL_INDEX_NO_HOLDER) {
        return false;
    }

    slot = sel_index_known(index, &index->holders[holder].externals,
                           change->parent,
                           sel_mix(&index->mix, change->parent));
    if (slot == NULL) {
        return false;
    }

    node = sel_index_value_node(index, slot->value);
    *path = sel_node_path(&index->nodes, node);

    return true;
}


static sel_index_result_t
sel_index_stored_to(sel_index_t *index, uint32_t holder,
    const sel_index_change_t *change, uint64_t path)
{
    uint32_t             base, i, n;
    sel_index_place_t    places[SEL_INDEX_BATCH];
    sel_index_result_t   rc;

    for (base = 0; base < change->n; base += n) {

        n = change->n - base;
        n = n < SEL_INDEX_BATCH ? n : SEL_INDEX_BATCH;

        path = sel_index_plan(index, holder, change, base, path, places, n);

        for (i = 0; i < n; i++) {
            rc = sel_index_store(index, holder, &places[i]);

            if (rc != SEL_INDEX_OK) {
                return rc;
            }
        }
    }

    return SEL_INDEX_OK;
}


/* Works a batch out behind a path; the path behind the batch. */

static uint64_t
sel_index_plan(const sel_index_t *index, uint32_t holder,
    const sel_index_change_t *change, uint32_t from, uint64_t path,
    sel_index_place_t *places, uint32_t n)
{
    uint32_t             i;
    const sel_table_t   *externals;
    const sel_holder_t  *h;
    sel_index_place_t   *place;

    h = &index->holders[holder];
    externals = &h->externals;

    for (i = 0; i < n; i++) {
        place = &places[i];

        place->parent = path;
        place->block = change->block[from + i];
        place->path = sel_node_chain(path, place->block);
        place->external = change->external[from + i];
        place->key = sel_mix(&index->mix, place->external);

        sel_table_prefetch(externals, place->key, SEL_TABLE_SLIM, 2);
        sel_table_prefetch(&index->paths, place->path, SEL_TABLE_WIDE, 3);

        path = h->tier == SEL_TIER_DEVICE
               ? place->path
               : sel_index_behind(index, h->root, place->external);
    }

    return path;
}


static sel_index_result_t
sel_index_removed(sel_index_t *index, const sel_index_change_t *change)
{
    uint32_t  base, holder, n, unknown;

    unknown = 0;
    holder = index->owners[change->owner].holder[change->tier];

    if (holder == SEL_INDEX_NO_HOLDER) {
        return change->n == 0 ? SEL_INDEX_OK : SEL_INDEX_UNKNOWN_BLOCK;
    }

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

    if (index->holders[holder].externals.count == 0) {
        sel_index_holder_free(index, holder);
    }

    return unknown == 0 ? SEL_INDEX_OK : SEL_INDEX_UNKNOWN_BLOCK;
}


static bool
sel_index_remove(sel_index_t *index, uint32_t holder,
    const uint64_t *external, uint32_t n, uint32_t *unknown)
{
    uint32_t          i, nodes[SEL_INDEX_BATCH];
    uint64_t          keys[SEL_INDEX_BATCH];
    sel_table_t      *externals;
    sel_slim_slot_t  *slot;

    externals = &index->holders[holder].externals;

    for (i = 0; i < n; i++) {
        keys[i] = sel_mix(&index->mix, external[i]);
        sel_table_prefetch(externals, keys[i], SEL_TABLE_SLIM, 2);
    }

    for (i = 0; i < n; i++) {
        slot = sel_table_find(externals, keys[i], SEL_TABLE_SLIM);
        nodes[i] = slot == NULL ? 0 : slot->value;
        sel_index_prefetch_node(index, nodes[i]);
    }

    for (i = 0; i < n; i++) {
        sel_index_prefetch_path(index, nodes[i]);
    }

    for (i = 0; i < n; i++) {
        slot = sel_index_known(index, externals, external[i], keys[i]);

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
