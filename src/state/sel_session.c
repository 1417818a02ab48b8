#include "state/sel_session_impl.h"


static sel_binding_t sel_session_binding(const sel_session_chunk_t *session);


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
    uint64_t       hash;
    sel_binding_t  binding;

    hash = sel_session_hash(zone, partition, id);

    sel_zone_lock(zone);
    binding = sel_session_binding(sel_zone_session_live(zone, hash, partition,
                                                        id, now));
    sel_zone_unlock(zone);

    return binding;
}


sel_binding_t
sel_session_use(sel_zone_t *zone, uint32_t partition, sel_str_t id,
    uint64_t now)
{
    uint64_t              hash;
    sel_binding_t         binding;
    sel_session_chunk_t  *session;

    hash = sel_session_hash(zone, partition, id);

    sel_zone_lock(zone);

    session = sel_zone_session_live(zone, hash, partition, id, now);

    if (session != NULL && !sel_session_there(zone, session)) {
        sel_zone_session_end(zone, session);
        sel_count(zone, SEL_COUNT_SESSION_RANK_GONE, 1);
        session = NULL;
    }

    if (session != NULL) {
        sel_zone_session_renew(zone, session);
    }

    binding = sel_session_binding(session);

    sel_zone_unlock(zone);

    return binding;
}


static sel_binding_t
sel_session_binding(const sel_session_chunk_t *session)
{
    if (session == NULL) {
        return (sel_binding_t) { 0, 0, 0 };
    }

    return (sel_binding_t) {
        session->revision, session->worker_id, session->dp_rank
    };
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
