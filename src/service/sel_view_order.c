/*
 * Partitions, in an array sorted by name, and what is made when it is asked
 * for: the workers by partition, and each partition's ranks in one piece.
 */

#include <stdlib.h>
#include "service/sel_view_impl.h"


static uint32_t sel_view_partition_place(const sel_view_t *view,
    sel_str_t model_name, sel_str_t routing_group, bool *found);
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


sel_view_partition_t *
sel_view_partition_need(sel_view_t *view, uint32_t number,
    const sel_worker_t *worker)
{
    bool                    found;
    uint32_t                i, cap;
    sel_view_partition_t   *partition, **partitions;

    i = sel_view_partition_place(view, worker->model_name,
                                 worker->routing_group, &found);
    if (found) {
        return view->partitions[i];
    }

    if (view->n_partitions == view->cap_partitions) {
        cap = view->cap_partitions * 2 + 16;
        partitions = realloc(view->partitions, cap * sizeof(partition));

        if (partitions == NULL) {
            return NULL;
        }

        view->partitions = partitions;
        view->cap_partitions = cap;
    }

    partition = calloc(1, sizeof(*partition));

    if (partition == NULL) {
        return NULL;
    }

    sel_arena_init(&partition->arena, 0);

    if (sel_catalog_partition(view->zone, number, &partition->arena,
                              &partition->key)
        != 1)
    {
        sel_arena_free(&partition->arena);
        free(partition);
        return NULL;
    }

    memmove(&view->partitions[i + 1], &view->partitions[i],
            (view->n_partitions++ - i) * sizeof(partition));
    view->partitions[i] = partition;

    return partition;
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
