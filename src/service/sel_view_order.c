/*
 * Partitions, in an array sorted by name, and what is made when it is asked
 * for: the workers by partition, and each partition's ranks in one piece.
 */

#include <stdlib.h>
#include "service/sel_view_impl.h"


static uint32_t sel_view_partition_place(const sel_view_t *view,
    sel_str_t model_name, sel_str_t routing_group, bool *found);
static bool sel_view_partition_read(const sel_view_t *view, uint32_t number,
    const sel_worker_t *worker, sel_arena_t *arena, sel_partition_t *key);
static sel_view_partition_t *sel_view_partition_add(sel_view_t *view,
    const sel_worker_t *worker);
static bool sel_view_partition_room(sel_view_t *view);
static bool sel_view_sort(sel_view_t *view);
static int sel_view_compare(const void *one, const void *two);


static uint32_t
sel_view_partition_place(const sel_view_t *view, sel_str_t model_name,
    sel_str_t routing_group, bool *found)
{
    int                    rc;
    uint32_t               low, high, middle;
    const sel_partition_t *key;

    low = 0;
    high = view->n_partitions;
    *found = false;

    while (low < high) {
        middle = low + (high - low) / 2;
        key = &view->partitions[middle]->key;

        rc = sel_str_cmp(key->model_name, model_name);

        if (rc == 0) {
            rc = sel_str_cmp(key->routing_group, routing_group);
        }

        if (rc < 0) {
            low = middle + 1;

        } else {
            high = middle;
            *found |= (rc == 0);
        }
    }

    return low;
}


/*
 * A partition that nobody needs may go, and its name come back under another
 * number.
 */

sel_view_partition_t *
sel_view_partition_need(sel_view_t *view, uint32_t number,
    const sel_worker_t *worker)
{
    bool                   found;
    uint32_t               i;
    sel_arena_t            arena;
    sel_partition_t        key;
    sel_view_partition_t  *partition;

    i = sel_view_partition_place(view, worker->model_name,
                                 worker->routing_group, &found);
    if (found && view->partitions[i]->key.number == number) {
        return view->partitions[i];
    }

    sel_arena_init(&arena, 0);

    if (!sel_view_partition_read(view, number, worker, &arena, &key)) {
        sel_arena_free(&arena);
        return NULL;
    }

    partition = found ? view->partitions[i]
                      : sel_view_partition_add(view, worker);

    if (partition == NULL) {
        sel_arena_free(&arena);
        return NULL;
    }

    sel_arena_free(&partition->arena);
    partition->arena = arena;
    partition->key = key;

    return partition;
}


/*
 * Reads a partition.  It may have gone already, when its worker has left it
 * since we read of it; that news is still to come.
 */

static bool
sel_view_partition_read(const sel_view_t *view, uint32_t number,
    const sel_worker_t *worker, sel_arena_t *arena, sel_partition_t *key)
{
    int  rc;

    rc = sel_catalog_partition(view->zone, number, arena, key);

    if (rc != 0) {
        return rc == 1;
    }

    *key = (sel_partition_t) {
        number, worker->block_size, worker->is_eagle,
        sel_arena_str(arena, worker->model_name),
        sel_arena_str(arena, worker->routing_group)
    };

    return key->model_name.data != NULL && key->routing_group.data != NULL;
}


/* Adds an empty partition in the place of a worker's names. */

static sel_view_partition_t *
sel_view_partition_add(sel_view_t *view, const sel_worker_t *worker)
{
    bool                   found;
    uint32_t               i;
    sel_view_partition_t  *partition;

    if (!sel_view_partition_room(view)) {
        return NULL;
    }

    partition = calloc(1, sizeof(*partition));

    if (partition == NULL) {
        return NULL;
    }

    sel_arena_init(&partition->arena, 0);

    i = sel_view_partition_place(view, worker->model_name,
                                 worker->routing_group, &found);

    memmove(&view->partitions[i + 1], &view->partitions[i],
            (view->n_partitions++ - i) * sizeof(partition));
    view->partitions[i] = partition;

    return partition;
}


/* Room for one more: where nobody is at home, or more memory. */

static bool
sel_view_partition_room(sel_view_t *view)
{
    uint32_t                i, n, cap;
    sel_view_partition_t   *partition, **partitions;

    if (view->n_partitions < view->cap_partitions) {
        return true;
    }

    for (i = 0; i < view->n_workers; i++) {
        if (view->workers[i]->home != NULL) {
            view->workers[i]->home->needed = true;
        }
    }

    for (i = 0, n = 0; i < view->n_partitions; i++) {
        partition = view->partitions[i];

        if (partition->needed) {
            partition->needed = false;
            view->partitions[n++] = partition;
            continue;
        }

        sel_arena_free(&partition->arena);
        free(partition);
    }

    view->n_partitions = n;

    if (n <= view->cap_partitions / 2 && view->cap_partitions != 0) {
        return true;
    }

    cap = view->cap_partitions * 2 + 16;
    partitions = realloc(view->partitions, cap * sizeof(partition));

    if (partitions == NULL) {
        return n < view->cap_partitions;
    }

    view->partitions = partitions;
    view->cap_partitions = cap;

    return true;
}


sel_view_partition_t *
sel_view_find(sel_view_t *view, sel_str_t model_name, sel_str_t routing_group,
    bool *failed)
{
    bool      found;
    uint32_t  i;

    *failed = !sel_view_sort(view);

    if (*failed) {
        return NULL;
    }

    i = sel_view_partition_place(view, model_name, routing_group, &found);

    return found ? view->partitions[i] : NULL;
}


sel_view_worker_t **
sel_view_sorted(sel_view_t *view)
{
    return sel_view_sort(view) ? view->sorted : NULL;
}


/*
 * Orders the workers by partition and lays the partitions' ranks out in that
 * order.
 */

static bool
sel_view_sort(sel_view_t *view)
{
    uint32_t               i, j, n;
    sel_view_rank_t      **ranks;
    sel_view_worker_t    **sorted, *worker;
    sel_view_partition_t  *partition;

    if (!view->stale) {
        return true;
    }

    for (i = 0, n = 0; i < view->n_workers; i++) {
        n += view->workers[i]->n_ranks;
    }

    sorted = realloc(view->sorted, (view->n_workers + 1) * sizeof(worker));

    if (sorted == NULL) {
        return false;
    }

    view->sorted = sorted;
    ranks = realloc(view->ranks, (n + 1) * sizeof(*ranks));

    if (ranks == NULL) {
        return false;
    }

    view->ranks = ranks;

    if (view->n_workers != 0) {
        memcpy(sorted, view->workers, view->n_workers * sizeof(worker));
        qsort(sorted, view->n_workers, sizeof(worker), sel_view_compare);
    }

    for (i = 0; i < view->n_partitions; i++) {
        view->partitions[i]->n_workers = 0;
        view->partitions[i]->n_ranks = 0;
    }

    /* workers and partitions are in the same order now */

    for (i = 0, j = 0; i < view->n_workers; i++) {
        worker = sorted[i];

        if (worker->state != SEL_WORKER_SCHEDULABLE) {
            continue;
        }

        while (j < view->n_partitions
               && view->partitions[j]->key.number != worker->partition)
        {
            j++;
        }

        if (j == view->n_partitions) {
            break;
        }

        partition = view->partitions[j];

        if (partition->n_workers++ == 0) {
            partition->ranks = ranks;
        }

        memcpy(ranks, worker->ranks, worker->n_ranks * sizeof(*ranks));
        partition->n_ranks += worker->n_ranks;
        ranks += worker->n_ranks;
    }

    view->stale = false;

    return true;
}


static int
sel_view_compare(const void *one, const void *two)
{
    int                       rc;
    const sel_view_worker_t  *a, *b;

    a = *(sel_view_worker_t *const *) one;
    b = *(sel_view_worker_t *const *) two;

    rc = sel_str_cmp(a->record.model_name, b->record.model_name);

    if (rc == 0) {
        rc = sel_str_cmp(a->record.routing_group, b->record.routing_group);
    }

    if (rc != 0) {
        return rc;
    }

    return (a->record.worker_id > b->record.worker_id)
           - (a->record.worker_id < b->record.worker_id);
}
