/*
 * Workers are kept in an array of pointers sorted by id: it is small and
 * changes rarely, so inserting moves the tail.
 */

#include <stdlib.h>
#include "service/sel_view_impl.h"


#define SEL_VIEW_BATCH  64

/* readings of the catalog before the next refresh goes on */
#define SEL_VIEW_TRIES  4


static bool sel_view_read(sel_view_t *view);
static void sel_view_unsee(sel_view_t *view);
static void sel_view_drop_unseen(sel_view_t *view);
static bool sel_view_apply(sel_view_t *view,
    const sel_worker_record_t *record);
static bool sel_view_room(sel_view_t *view);
static uint32_t sel_view_place(const sel_view_t *view, uint64_t worker_id,
    bool *found);


void
sel_view_init(sel_view_t *view, sel_zone_t *zone, sel_index_t *index,
    const sel_view_host_t *host)
{
    *view = (sel_view_t) { 0 };

    view->zone = zone;
    view->index = index;
    view->host = *host;
    view->stale = true;
    view->by_slot = calloc(zone->n_slots, sizeof(*view->by_slot));
}


void
sel_view_free(sel_view_t *view)
{
    uint32_t  i;

    for (i = 0; i < view->n_workers; i++) {
        sel_view_worker_free(view, view->workers[i]);
    }

    for (i = 0; i < view->n_partitions; i++) {
        sel_arena_free(&view->partitions[i]->arena);
        free(view->partitions[i]);
    }

    free(view->workers);
    free(view->partitions);
    free(view->sorted);
    free(view->ranks);
    free(view->by_slot);
}


/*
 * A deletion that no tomb tells of any more can only be found by reading
 * everything and dropping what is not there.  The same when it happens while
 * we read.
 */

bool
sel_view_refresh(sel_view_t *view)
{
    bool      all;
    uint32_t  tries;
    uint64_t  version, forgotten;

    for (tries = 0; tries < SEL_VIEW_TRIES; tries++) {

        version = sel_catalog_version(view->zone);

        if (version == view->version) {
            break;
        }

        forgotten = sel_catalog_forgotten(view->zone);
        all = forgotten > view->version;

        if (all) {
            sel_view_unsee(view);
        }

        if (!sel_view_read(view)) {
            view->version = all ? 0 : view->version;
            return false;
        }

        if (all) {
            sel_view_drop_unseen(view);
        }

        if (sel_catalog_forgotten(view->zone) == forgotten) {
            view->version = version > view->version ? version : view->version;
            break;
        }

        view->version = 0;
    }

    return true;
}


/* Applies what came after view->version. */

static bool
sel_view_read(sel_view_t *view)
{
    int                   i, n;
    sel_arena_t           arena;
    sel_worker_record_t   records[SEL_VIEW_BATCH];

    do {
        sel_arena_init(&arena, 0);

        n = sel_catalog_changes(view->zone, view->version, SEL_VIEW_BATCH,
                                &arena, records);

        for (i = 0; i < n; i++) {
            if (!sel_view_apply(view, &records[i])) {
                n = -1;
                break;
            }

            view->version = records[i].version;
        }

        sel_arena_free(&arena);

    } while (n > 0);

    return n == 0;
}


static void
sel_view_unsee(sel_view_t *view)
{
    uint32_t  i;

    for (i = 0; i < view->n_workers; i++) {
        view->workers[i]->seen = false;
    }

    view->version = 0;
}


static void
sel_view_drop_unseen(sel_view_t *view)
{
    uint32_t            i, n;
    sel_view_worker_t  *worker;

    for (i = 0, n = 0; i < view->n_workers; i++) {
        worker = view->workers[i];

        if (worker->seen) {
            view->workers[n++] = worker;
            continue;
        }

        view->n_schedulable -= (worker->state == SEL_WORKER_SCHEDULABLE);
        sel_view_worker_replace(view, worker, NULL);
    }

    view->n_workers = n;
    view->stale = true;
}


static bool
sel_view_apply(sel_view_t *view, const sel_worker_record_t *record)
{
    bool                found;
    uint32_t            i;
    sel_view_worker_t  *old, *worker;

    i = sel_view_place(view, record->worker_id, &found);
    old = found ? view->workers[i] : NULL;
    worker = NULL;

    if (found && old->version == record->version) {
        old->seen = true;
        return true;
    }

    if (record->state == SEL_WORKER_GONE && !found) {
        return true;
    }

    if (record->state != SEL_WORKER_GONE) {
        if (!found && !sel_view_room(view)) {
            return false;
        }

        worker = sel_view_worker_make(record, old);

        if (worker == NULL) {
            return false;
        }

        if (record->partition != 0) {
            worker->home = sel_view_partition_need(view, record->partition,
                                                   &worker->record);
            if (worker->home == NULL) {
                sel_view_worker_discard(worker);
                return false;
            }
        }

        view->n_schedulable += (worker->state == SEL_WORKER_SCHEDULABLE);
    }

    if (found) {
        view->n_schedulable -= (old->state == SEL_WORKER_SCHEDULABLE);
    }

    if (worker == NULL) {
        memmove(&view->workers[i], &view->workers[i + 1],
                (--view->n_workers - i) * sizeof(worker));

    } else {
        if (!found) {
            memmove(&view->workers[i + 1], &view->workers[i],
                    (view->n_workers++ - i) * sizeof(worker));
        }

        view->workers[i] = worker;
    }

    view->stale = true;
    sel_view_worker_replace(view, old, worker);

    return true;
}


static bool
sel_view_room(sel_view_t *view)
{
    uint32_t             cap;
    sel_view_worker_t  **workers;

    if (view->n_workers < view->cap_workers) {
        return true;
    }

    cap = view->cap_workers * 2 + 16;
    workers = realloc(view->workers, cap * sizeof(*workers));

    if (workers == NULL) {
        return false;
    }

    view->workers = workers;
    view->cap_workers = cap;

    return true;
}


static uint32_t
sel_view_place(const sel_view_t *view, uint64_t worker_id, bool *found)
{
    uint32_t  low, high, middle;

    low = 0;
    high = view->n_workers;

    while (low < high) {
        middle = low + (high - low) / 2;

        if (view->workers[middle]->record.worker_id < worker_id) {
            low = middle + 1;

        } else {
            high = middle;
        }
    }

    *found = low < view->n_workers
             && view->workers[low]->record.worker_id == worker_id;

    return low;
}
