/*
 * Ranks are objects of their own and outlive the record that named them: a
 * new record takes over the ranks whose slot, epoch and feed are the same,
 * with their owner in the index and their listener.
 */

#include <stdlib.h>
#include "service/sel_view_impl.h"


static bool sel_view_worker_ranks(sel_view_worker_t *worker,
    const sel_view_worker_t *old, const sel_worker_record_t *record);
static sel_view_rank_t *sel_view_worker_same_rank(
    const sel_view_worker_t *old, uint32_t partition,
    const sel_rank_slot_t *slot);
static void sel_view_worker_drop(sel_view_t *view, sel_view_worker_t *old,
    bool whole);
static void sel_view_worker_retire(sel_view_t *view,
    const sel_view_rank_t *rank);
static void sel_view_worker_end(sel_view_worker_t *worker);


sel_view_worker_t *
sel_view_worker_make(const sel_worker_record_t *record,
    const sel_view_worker_t *old)
{
    sel_json_t          json;
    sel_view_worker_t  *worker;

    worker = calloc(1, sizeof(*worker));

    if (worker == NULL) {
        return NULL;
    }

    sel_arena_init(&worker->arena, 0);

    worker->version = record->version;
    worker->state = record->state;
    worker->partition = record->partition;
    worker->address = record->address;
    worker->seen = true;

    worker->json = sel_arena_str(&worker->arena, record->blob);

    if (worker->json.data == NULL) {
        sel_view_worker_end(worker);
        return NULL;
    }

    sel_json_init_text(&json, &worker->arena, worker->json);

    if (!sel_worker_read(&json, &worker->record)
        || !sel_view_worker_ranks(worker, old, record))
    {
        sel_view_worker_discard(worker);
        return NULL;
    }

    return worker;
}


static bool
sel_view_worker_ranks(sel_view_worker_t *worker, const sel_view_worker_t *old,
    const sel_worker_record_t *record)
{
    uint32_t          i;
    sel_view_rank_t  *rank;

    worker->ranks = sel_arena_alloc(&worker->arena,
                                    record->n_ranks * sizeof(rank));
    if (worker->ranks == NULL) {
        return false;
    }

    for (i = 0; i < record->n_ranks; i++) {
        rank = sel_view_worker_same_rank(old, record->partition,
                                         &record->ranks[i]);
        if (rank == NULL) {
            rank = calloc(1, sizeof(*rank));

            if (rank == NULL) {
                return false;
            }

            rank->partition = record->partition;
            rank->worker_id = record->worker_id;
            rank->dp_rank = record->ranks[i].dp_rank;
            rank->epoch = record->ranks[i].epoch;
            rank->feed = record->ranks[i].feed;
            rank->slot = record->ranks[i].slot;
            rank->owner = SEL_INDEX_NO_OWNER;
        }

        worker->ranks[worker->n_ranks++] = rank;
    }

    return true;
}


static sel_view_rank_t *
sel_view_worker_same_rank(const sel_view_worker_t *old, uint32_t partition,
    const sel_rank_slot_t *slot)
{
    uint32_t          low, high, middle;
    sel_view_rank_t  *rank;

    if (old == NULL || old->partition != partition) {
        return NULL;
    }

    low = 0;
    high = old->n_ranks;

    while (low < high) {
        middle = low + (high - low) / 2;

        if (old->ranks[middle]->dp_rank < slot->dp_rank) {
            low = middle + 1;

        } else {
            high = middle;
        }
    }

    if (low == old->n_ranks) {
        return NULL;
    }

    rank = old->ranks[low];

    return rank->dp_rank == slot->dp_rank && rank->slot == slot->slot
           && rank->epoch == slot->epoch && rank->feed == slot->feed
           ? rank : NULL;
}


void
sel_view_worker_discard(sel_view_worker_t *worker)
{
    uint32_t  i;

    for (i = 0; i < worker->n_ranks; i++) {
        if (worker->ranks[i]->worker == NULL) {
            free(worker->ranks[i]);
        }
    }

    sel_view_worker_end(worker);
}


void
sel_view_worker_replace(sel_view_t *view, sel_view_worker_t *old,
    sel_view_worker_t *worker)
{
    bool              kept;
    uint32_t          i, n;
    sel_view_rank_t  *rank;

    n = worker != NULL ? worker->n_ranks : 0;
    kept = false;

    for (i = 0; i < n; i++) {
        if (worker->ranks[i]->worker != NULL) {
            worker->ranks[i]->worker = worker;
            kept = true;
        }
    }

    if (old != NULL) {
        if (kept) {
            worker->foreign = old->foreign;
        }

        sel_view_worker_drop(view, old, !kept);
        sel_view_worker_end(old);
    }

    for (i = 0; i < n; i++) {
        rank = worker->ranks[i];

        if (rank->owner == SEL_INDEX_NO_OWNER) {
            rank->owner = sel_index_owner(view->index, rank->partition,
                                          rank->worker_id, rank->dp_rank);
        }

        if (rank->worker == NULL) {
            rank->worker = worker;

            if (view->by_slot != NULL) {
                view->by_slot[rank->slot] = rank;
            }

            view->host.added(view->host.data, rank);
        }
    }
}


void
sel_view_worker_free(sel_view_t *view, sel_view_worker_t *worker)
{
    uint32_t  i;

    for (i = 0; i < worker->n_ranks; i++) {
        view->host.removed(view->host.data, worker->ranks[i]);
        free(worker->ranks[i]);
    }

    sel_view_worker_end(worker);
}


/* whole: no rank of the worker goes on, so neither do those unregistered. */

static void
sel_view_worker_drop(sel_view_t *view, sel_view_worker_t *old, bool whole)
{
    uint32_t          i;
    sel_view_rank_t  *rank;

    for (i = 0; i < old->n_ranks; i++) {
        rank = old->ranks[i];

        if (rank->worker != old) {
            continue;
        }

        sel_view_worker_retire(view, rank);

        view->host.removed(view->host.data, rank);
        free(rank);
    }

    if (whole && old->partition != 0) {
        sel_index_retire_worker(view->index, old->partition,
                                old->record.worker_id);
    }
}


static void
sel_view_worker_retire(sel_view_t *view, const sel_view_rank_t *rank)
{
    uint16_t  side;

    if (view->by_slot != NULL && view->by_slot[rank->slot] == rank) {
        view->by_slot[rank->slot] = NULL;
    }

    if (rank->owner != SEL_INDEX_NO_OWNER) {
        sel_index_retire(view->index, rank->owner);
    }

    side = sel_index_find_owner(view->index, rank->partition | SEL_VIEW_SIDE,
                                rank->worker_id, rank->dp_rank);

    if (side != SEL_INDEX_NO_OWNER) {
        sel_index_retire(view->index, side);
    }
}


static void
sel_view_worker_end(sel_view_worker_t *worker)
{
    sel_arena_free(&worker->arena);
    free(worker);
}
