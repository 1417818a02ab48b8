/*
 * Records of pending selections: the table by partition and id, and the order
 * of generations.
 */

#include "core/sel_hash.h"
#include "state/sel_partition_impl.h"
#include "state/sel_pending_impl.h"


uint64_t
sel_pending_hash(uint32_t partition, sel_str_t id)
{
    return sel_hash_bytes(id.data, id.len, partition);
}


sel_pending_chunk_t *
sel_zone_pending_find(const sel_zone_t *zone, uint64_t hash,
    uint32_t partition, sel_str_t id)
{
    uint32_t              number;
    sel_pending_chunk_t  *pending;

    number = *sel_zone_pending_bucket(zone, hash);

    while (number != SEL_CHUNK_NONE) {
        pending = sel_zone_pending(zone, number);
        number = pending->bucket_next;

        if (pending->hash == hash && pending->partition == partition
            && sel_zone_id_equal(zone, id, pending->id_len, pending->id,
                                 pending->id_chain))
        {
            return pending;
        }
    }

    return NULL;
}


void
sel_zone_pending_link(sel_zone_t *zone, sel_pending_chunk_t *pending)
{
    sel_zone_header_t  *header;

    header = zone->header;

    sel_bucket_insert(zone, sel_zone_pending_bucket(zone, pending->hash),
                      &pending->bucket_next);
    sel_list_insert(zone, &header->pending_list, header->pending_list.newest,
                    &pending->order);

    header->pending++;
    header->pending_chunks += pending->chunks;
    header->pending_size += pending->size;
    SEL_ZONE_STEP();

    pending->counted = sel_zone_partition_use(zone, pending->partition);
}


void
sel_zone_pending_end(sel_zone_t *zone, sel_pending_chunk_t *pending)
{
    sel_zone_header_t  *header;

    sel_chunk_set_tag(&pending->head, SEL_CHUNK_FREE);
    SEL_ZONE_STEP();

    header = zone->header;

    sel_bucket_remove(zone, sel_zone_pending_bucket(zone, pending->hash),
                      &pending->bucket_next);
    sel_list_remove(zone, &header->pending_list, &pending->order);

    header->pending--;
    header->pending_chunks -= pending->chunks;
    header->pending_size -= pending->size;
    SEL_ZONE_STEP();

    if (pending->counted != 0) {
        sel_zone_partition_unuse(zone, pending->partition);
    }

    sel_zone_chain_give(zone, pending->id_chain);
    sel_zone_chain_give(zone, pending->sequence);
    sel_zone_chain_give(zone, pending->hashes);
    sel_zone_chain_give(zone, pending->texts);
    sel_zone_chain_give(zone, sel_zone_chunk_number(zone, pending));
}


void
sel_zone_pending_drop(sel_zone_t *zone, sel_counter_t counter)
{
    uint32_t  oldest;

    oldest = zone->header->pending_list.oldest;
    sel_zone_pending_end(zone, sel_zone_pending(zone, oldest));
    sel_count(zone, counter, 1);
}
