/*
 * Ids that clients give: in the record if it has room for them, else in a
 * chain of their own.
 */

#include "state/sel_zone_impl.h"


uint32_t
sel_zone_id_need(size_t len, size_t room)
{
    return len > room ? sel_zone_chain_need(len) : 0;
}


uint32_t
sel_zone_id_write(sel_zone_t *zone, sel_str_t id, uint8_t *place, size_t room)
{
    if (id.len > room) {
        return sel_zone_chain_write(zone, id.data, id.len);
    }

    if (id.len != 0) {
        memcpy(place, id.data, id.len);
    }

    return SEL_CHUNK_NONE;
}


bool
sel_zone_id_equal(const sel_zone_t *zone, sel_str_t id, uint32_t len,
    const uint8_t *place, uint32_t chain)
{
    if (id.len != len) {
        return false;
    }

    return chain == SEL_CHUNK_NONE
           ? sel_str_eq(id, (sel_str_t) { len, place })
           : sel_zone_chain_equal(zone, chain, id, sel_str(""));
}
