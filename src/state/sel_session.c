#include "state/sel_session_impl.h"


void
sel_sessions_ttl(sel_zone_t *zone, uint64_t ttl)
{
    sel_zone_lock(zone);
    zone->header->session_ttl = ttl;
    sel_zone_unlock(zone);
}


sel_binding_t
sel_session_find(sel_zone_t *zone, uint32_t partition, sel_str_t id,
    uint64_t now)
{
    uint64_t                    hash;
    sel_binding_t               binding;
    const sel_session_chunk_t  *session;

    hash = sel_session_hash(partition, id);
    binding = (sel_binding_t) { 0, 0, 0 };

    sel_zone_lock(zone);

    session = sel_zone_session_live(zone, hash, partition, id, now);

    if (session != NULL) {
        binding.revision = session->revision;
        binding.worker_id = session->worker_id;
        binding.dp_rank = session->dp_rank;
    }

    sel_zone_unlock(zone);

    return binding;
}


uint32_t
sel_sessions_reap(sel_zone_t *zone, uint64_t now, uint32_t max)
{
    uint32_t  n;

    sel_zone_lock(zone);
    n = sel_zone_sessions_reap(zone, now, max);
    sel_zone_unlock(zone);

    return n;
}
