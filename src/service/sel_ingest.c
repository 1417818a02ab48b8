#include "service/sel_ingest.h"
#include "service/sel_watch.h"


static sel_index_result_t sel_ingest_apply(void *data, uint32_t dp_rank,
    sel_index_change_t *change);
static uint16_t sel_ingest_owner(sel_ingest_t *ingest, uint32_t dp_rank,
    bool make);
static bool sel_ingest_registered(const sel_view_worker_t *worker,
    uint32_t dp_rank);


sel_kv_sink_t
sel_ingest_sink(sel_ingest_t *ingest)
{
    return (sel_kv_sink_t) { sel_ingest_apply, ingest };
}


static sel_index_result_t
sel_ingest_apply(void *data, uint32_t dp_rank, sel_index_change_t *change)
{
    sel_ingest_t  *ingest;

    ingest = data;
    change->owner = sel_ingest_owner(ingest, dp_rank,
                                     change->kind == SEL_INDEX_STORED);

    if (change->owner == SEL_INDEX_NO_OWNER) {
        switch (change->kind) {

        case SEL_INDEX_CLEARED:
            return SEL_INDEX_OK;

        case SEL_INDEX_REMOVED:
            return SEL_INDEX_UNKNOWN_BLOCK;

        default:
            return SEL_INDEX_NO_SUCH_OWNER;
        }
    }

    if (change->kind == SEL_INDEX_STORED && !ingest->rank->stats.stored
        && change->owner == ingest->rank->owner)
    {
        sel_watch_stored(ingest->service, ingest->rank);
    }

    return sel_index_apply(ingest->service->index, change);
}


/*
 * A batch may name another rank than the one its endpoint was registered for;
 * one that nobody registered gets an owner too, with its first block.
 */

static uint16_t
sel_ingest_owner(sel_ingest_t *ingest, uint32_t dp_rank, bool make)
{
    uint16_t          owner;
    bool              foreign;
    sel_index_t      *index;
    sel_view_rank_t  *rank;

    index = ingest->service->index;
    rank = ingest->rank;

    if (dp_rank == rank->dp_rank && rank->owner != SEL_INDEX_NO_OWNER) {
        return rank->owner;
    }

    owner = sel_index_find_owner(index, rank->partition, rank->worker_id,
                                 dp_rank);

    if (owner != SEL_INDEX_NO_OWNER || !make) {
        return owner;
    }

    foreign = !sel_ingest_registered(rank->worker, dp_rank);

    if (foreign && rank->worker->foreign == SEL_MAX_FOREIGN_RANKS) {
        return SEL_INDEX_NO_OWNER;
    }

    owner = sel_index_owner(index, rank->partition, rank->worker_id, dp_rank);

    if (owner != SEL_INDEX_NO_OWNER) {
        rank->worker->foreign += foreign;

        if (dp_rank == rank->dp_rank) {
            rank->owner = owner;
        }
    }

    return owner;
}


static bool
sel_ingest_registered(const sel_view_worker_t *worker, uint32_t dp_rank)
{
    return worker->n_ranks != 0 && dp_rank >= worker->ranks[0]->dp_rank
           && dp_rank <= worker->ranks[worker->n_ranks - 1]->dp_rank;
}
