/*
 * The worker operations.  A change is computed from the record as it was read
 * and committed only if the record is still the same; when another process
 * was faster, it is computed again.
 */

#include "service/sel_register.h"


/*
 * Tries before a change is given up; each failed one means that another
 * change of the same worker went through meanwhile.
 */
#define SEL_WORKERS_TRIES  1000


typedef enum {
    SEL_WORKERS_REPLACE,
    SEL_WORKERS_PATCH,
    SEL_WORKERS_DELETE
} sel_workers_change_t;


typedef struct {
    sel_worker_record_t   record;
    sel_worker_t          worker;
    bool                  exists;
} sel_workers_old_t;


static bool sel_workers_change(sel_service_t *service, sel_arena_t *arena,
    sel_workers_change_t change, uint64_t worker_id, const sel_worker_t *body,
    sel_str_t *json, sel_fault_t *fault);
static bool sel_workers_old(sel_service_t *service, sel_arena_t *arena,
    uint64_t worker_id, sel_workers_old_t *old, sel_fault_t *fault);
static bool sel_workers_remove(sel_service_t *service, sel_arena_t *arena,
    const sel_workers_old_t *old, sel_str_t *json, sel_commit_t *result);
static bool sel_workers_commit(sel_service_t *service, sel_arena_t *arena,
    const sel_worker_t *worker, const sel_workers_old_t *old,
    sel_str_t *json, sel_commit_t *result);
static sel_rank_slot_t *sel_workers_ranks(const sel_service_t *service,
    sel_arena_t *arena, const sel_worker_t *worker,
    const sel_workers_old_t *old, uint32_t *n);
static bool sel_workers_same_source(const sel_service_t *service,
    const sel_worker_t *one, const sel_worker_t *two, uint32_t dp_rank);
static bool sel_workers_print(sel_arena_t *arena, const sel_worker_t *worker,
    const char *lifecycle, char *const *reasons, sel_str_t *json);
static bool sel_workers_full(sel_service_t *service, sel_arena_t *arena,
    const sel_worker_t *worker, sel_commit_t result, sel_fault_t *fault);
static void sel_workers_changed(sel_service_t *service);


bool
sel_worker_register(sel_service_t *service, sel_arena_t *arena,
    const sel_worker_t *worker, sel_str_t *json, sel_fault_t *fault)
{
    return sel_workers_change(service, arena, SEL_WORKERS_REPLACE,
                              worker->worker_id, worker, json, fault);
}


bool
sel_worker_update(sel_service_t *service, sel_arena_t *arena,
    uint64_t worker_id, const sel_worker_t *patch, sel_str_t *json,
    sel_fault_t *fault)
{
    return sel_workers_change(service, arena, SEL_WORKERS_PATCH, worker_id,
                              patch, json, fault);
}


bool
sel_worker_delete(sel_service_t *service, sel_arena_t *arena,
    uint64_t worker_id, sel_str_t *json, sel_fault_t *fault)
{
    return sel_workers_change(service, arena, SEL_WORKERS_DELETE, worker_id,
                              NULL, json, fault);
}


static bool
sel_workers_change(sel_service_t *service, sel_arena_t *arena,
    sel_workers_change_t change, uint64_t worker_id, const sel_worker_t *body,
    sel_str_t *json, sel_fault_t *fault)
{
    uint32_t           tries;
    sel_commit_t       result;
    sel_worker_t       worker;
    sel_workers_old_t  old;

    for (tries = 0; tries < SEL_WORKERS_TRIES; tries++) {

        if (!sel_workers_old(service, arena, worker_id, &old, fault)) {
            return false;
        }

        if (!old.exists && change != SEL_WORKERS_REPLACE) {
            return sel_fault(fault, arena, SEL_FAULT_NOT_FOUND,
                             "worker %llu not found",
                             (unsigned long long) worker_id);
        }

        if (change == SEL_WORKERS_DELETE) {
            worker = old.worker;

            if (!sel_workers_remove(service, arena, &old, json, &result)) {
                return sel_fault_memory(fault);
            }

        } else {
            worker = change == SEL_WORKERS_PATCH ? old.worker : *body;

            if (change == SEL_WORKERS_PATCH) {
                sel_worker_patch(&worker, body);
            }

            if (!sel_workers_commit(service, arena, &worker, &old, json,
                                    &result))
            {
                return sel_fault_memory(fault);
            }
        }

        if (result == SEL_COMMIT_OK) {
            sel_workers_changed(service);
            return true;
        }

        if (result == SEL_COMMIT_NO_SLOTS || result == SEL_COMMIT_FULL) {
            return sel_workers_full(service, arena, &worker, result, fault);
        }
    }

    return sel_fault(fault, arena, SEL_FAULT_INTERNAL,
                     "worker %llu is changing too fast",
                     (unsigned long long) worker_id);
}


static bool
sel_workers_remove(sel_service_t *service, sel_arena_t *arena,
    const sel_workers_old_t *old, sel_str_t *json, sel_commit_t *result)
{
    uint32_t             partition;
    uint64_t             version;
    sel_partition_t      existing;
    sel_worker_commit_t  commit;

    if (!sel_workers_print(arena, &old->worker, "unschedulable", NULL, json)) {
        return false;
    }

    commit = (sel_worker_commit_t) { 0 };
    commit.worker_id = old->worker.worker_id;
    commit.expected = old->record.version;
    commit.state = SEL_WORKER_GONE;

    *result = sel_catalog_commit(service->zone, &commit, &version, &partition,
                                 &existing);
    return true;
}


static bool
sel_workers_old(sel_service_t *service, sel_arena_t *arena,
    uint64_t worker_id, sel_workers_old_t *old, sel_fault_t *fault)
{
    int         rc;
    sel_json_t  json;

    *old = (sel_workers_old_t) { 0 };

    rc = sel_catalog_worker(service->zone, worker_id, arena, &old->record);

    if (rc < 0) {
        return sel_fault_memory(fault);
    }

    old->exists = (rc == 1);

    if (!old->exists) {
        old->record.version = 0;
        return true;
    }

    sel_json_init_text(&json, arena, old->record.blob);

    return sel_worker_read(&json, &old->worker) || sel_fault_memory(fault);
}


static bool
sel_workers_commit(sel_service_t *service, sel_arena_t *arena,
    const sel_worker_t *worker, const sel_workers_old_t *old,
    sel_str_t *json, sel_commit_t *result)
{
    bool                 consistent, schedulable;
    uint32_t             number;
    uint64_t             version;
    sel_reasons_t        reasons;
    sel_partition_t      partition, existing;
    sel_worker_commit_t  commit;

    if (!sel_register_reasons(service, arena, worker, &reasons, &consistent)) {
        return false;
    }

    schedulable = (reasons.n == 0);

    if (!sel_workers_print(arena, worker,
                           schedulable ? "schedulable" : "incomplete",
                           reasons.text, json))
    {
        return false;
    }

    partition = (sel_partition_t) {
        0, worker->block_size, worker->is_eagle, worker->model_name,
        worker->routing_group
    };

    commit = (sel_worker_commit_t) { 0 };
    commit.worker_id = worker->worker_id;
    commit.expected = old->record.version;
    commit.state = schedulable ? SEL_WORKER_SCHEDULABLE
                               : SEL_WORKER_INCOMPLETE;
    commit.partition = consistent ? &partition : NULL;
    commit.blob = *json;

    if (schedulable) {
        commit.ranks = sel_workers_ranks(service, arena, worker, old,
                                         &commit.n_ranks);
        if (commit.ranks == NULL) {
            return false;
        }
    }

    *result = sel_catalog_commit(service->zone, &commit, &version, &number,
                                 &existing);
    return true;
}


/*
 * The ranks of a worker: those that its record in force has already keep
 * their slot; the feed of a slot is new when the rank's event source is.
 */

static sel_rank_slot_t *
sel_workers_ranks(const sel_service_t *service, sel_arena_t *arena,
    const sel_worker_t *worker, const sel_workers_old_t *old, uint32_t *n)
{
    bool              same_partition;
    uint32_t          i, j, end;
    sel_rank_slot_t  *ranks;

    end = sel_worker_end_rank(worker);
    *n = end - worker->start_rank;

    ranks = sel_arena_zalloc(arena, (*n + 1) * sizeof(*ranks));

    if (ranks == NULL) {
        return NULL;
    }

    same_partition = old->exists
                     && sel_str_eq(old->worker.model_name, worker->model_name)
                     && sel_str_eq(old->worker.routing_group,
                                   worker->routing_group);

    for (i = 0, j = 0; i < *n; i++) {
        ranks[i].dp_rank = worker->start_rank + i;
        ranks[i].slot = SEL_SLOT_NONE;

        if (!same_partition) {
            continue;
        }

        while (j < old->record.n_ranks
               && old->record.ranks[j].dp_rank < ranks[i].dp_rank)
        {
            j++;
        }

        if (j < old->record.n_ranks
            && old->record.ranks[j].dp_rank == ranks[i].dp_rank)
        {
            ranks[i].slot = old->record.ranks[j].slot;
            ranks[i].new_feed = !sel_workers_same_source(service, worker,
                                                         &old->worker,
                                                         ranks[i].dp_rank);
        }
    }

    return ranks;
}


static bool
sel_workers_same_source(const sel_service_t *service, const sel_worker_t *one,
    const sel_worker_t *two, uint32_t dp_rank)
{
    return !service->settings.kv_events
           || (sel_str_eq(sel_worker_events_endpoint(one, dp_rank),
                          sel_worker_events_endpoint(two, dp_rank))
               && sel_worker_has(one, SEL_WORKER_REPLAY_ENDPOINT)
                  == sel_worker_has(two, SEL_WORKER_REPLAY_ENDPOINT)
               && sel_str_eq(one->replay_endpoint, two->replay_endpoint));
}


static bool
sel_workers_print(sel_arena_t *arena, const sel_worker_t *worker,
    const char *lifecycle, char *const *reasons, sel_str_t *json)
{
    sel_buf_t  buf;

    sel_buf_init(&buf);
    sel_worker_print(&buf, worker, lifecycle, reasons);

    *json = buf.failed ? (sel_str_t) { 0, NULL }
                       : sel_arena_str(arena, sel_buf_view(&buf));
    sel_buf_free(&buf);

    return json->data != NULL;
}


static bool
sel_workers_full(sel_service_t *service, sel_arena_t *arena,
    const sel_worker_t *worker, sel_commit_t result, sel_fault_t *fault)
{
    sel_count(service->zone, SEL_COUNT_ZONE_FULL, 1);

    if (result == SEL_COMMIT_NO_SLOTS) {
        return sel_fault(fault, arena, SEL_FAULT_FULL,
                         "select_zone is full: no rank slots for the %u ranks "
                         "of worker %llu", sel_worker_end_rank(worker)
                                           - worker->start_rank,
                         (unsigned long long) worker->worker_id);
    }

    return sel_fault(fault, arena, SEL_FAULT_FULL,
                     "select_zone is full: no room for the record of worker "
                     "%llu", (unsigned long long) worker->worker_id);
}


/* Other processes see it at their next operation, or when their bell rings. */

static void
sel_workers_changed(sel_service_t *service)
{
    sel_proc_notify(service->zone, service->proc, SEL_LOOK_CATALOG);
    (void) sel_view_refresh(&service->view);

    service->changed(service->data);
}
