/*
 * Names: the external hashes by which a holder knows a node, where the node's
 * own does not do.  They are rare, as most engines hash alike.
 *
 * A holder knows a node either by the node's own external hash alone, then
 * the slot of that hash names the node; or all of its hashes for the node are
 * names, and their slots name these.  The names of a holder and a node are a
 * ring in the order in which they came, and `extras` leads to the oldest.
 */

#include "index/sel_index_impl.h"


bool
sel_index_name_reserve(sel_index_t *index, uint32_t n)
{
    return sel_pool_reserve(&index->names, &index->memory, n)
           && sel_table_reserve(&index->extras, &index->memory);
}


uint32_t
sel_index_name_add(sel_index_t *index, uint32_t holder, uint32_t node,
    uint64_t external)
{
    uint32_t     number, oldest;
    sel_name_t  *first, *name;
    sel_slot_t  *slot;

    number = sel_pool_get(&index->names);
    oldest = sel_index_name_of(index, holder, node);

    name = sel_index_name(index, number);
    name->external = external;
    name->node = node;

    if (oldest == 0) {
        name->next = number;
        name->prev = number;

        slot = sel_table_insert(&index->extras,
                                sel_index_extra_key(index, holder, node));
        slot->value = number;

    } else {
        first = sel_index_name(index, oldest);

        name->next = oldest;
        name->prev = first->prev;

        sel_index_name(index, first->prev)->next = number;
        first->prev = number;
    }

    return number | SEL_INDEX_NAMED;
}


void
sel_index_name_drop(sel_index_t *index, uint32_t holder, uint32_t value)
{
    uint32_t     number;
    sel_name_t  *name;
    sel_slot_t  *slot;

    number = value & ~SEL_INDEX_NAMED;
    name = sel_index_name(index, number);

    slot = sel_table_find(&index->extras,
                          sel_index_extra_key(index, holder, name->node),
                          SEL_TABLE_NARROW);

    if (name->next == number) {
        sel_table_delete(&index->extras, slot);

    } else {

        if (slot->value == number) {
            slot->value = name->next;
        }

        sel_index_name(index, name->prev)->next = name->next;
        sel_index_name(index, name->next)->prev = name->prev;
    }

    sel_pool_put(&index->names, number);
}


uint32_t
sel_index_name_of(const sel_index_t *index, uint32_t holder, uint32_t node)
{
    const sel_slot_t  *slot;

    if (index->extras.count == 0) {
        return 0;
    }

    slot = sel_table_find(&index->extras,
                          sel_index_extra_key(index, holder, node),
                          SEL_TABLE_NARROW);

    return slot == NULL ? 0 : slot->value;
}
