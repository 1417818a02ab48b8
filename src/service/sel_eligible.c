/*
 * Checks that concern a worker are made once for all its ranks, which stand
 * together in the partition's list.  A pin is a check like the others; a
 * target narrows the result only when something is left by it.
 */

#include <stdlib.h>
#include "service/sel_eligible.h"


typedef struct {
    const sel_select_body_t  *body;
    const sel_allow_t        *allow;
    sel_u64_list_t            allowed;      /* sorted */
    bool                      any;          /* no list given */
} sel_eligible_t;


static bool sel_eligible_allowed(sel_arena_t *arena, sel_eligible_t *e);
static bool sel_eligible_worker(const sel_eligible_t *e,
    const sel_worker_t *worker);
static uint32_t sel_eligible_collect(sel_service_t *service,
    const sel_view_partition_t *partition, const sel_eligible_t *e,
    const sel_target_t *pin);
static double sel_eligible_preferred(const sel_select_body_t *body,
    const sel_worker_t *worker);
static bool sel_eligible_has(const sel_u64_list_t *list, uint64_t id);
static bool sel_eligible_tainted(const sel_worker_t *worker, sel_str_t taint);
static int sel_eligible_compare(const void *one, const void *two);


bool
sel_eligible(sel_service_t *service, sel_arena_t *arena,
    const sel_view_partition_t *partition, const sel_select_body_t *body,
    const sel_allow_t *allow, uint32_t *n, sel_fault_t *fault)
{
    bool                 pinned;
    sel_eligible_t       e;

    e.body = body;
    e.allow = allow;
    e.any = !sel_body_has(body, SEL_SELECT_ALLOWED);
    pinned = sel_body_has(body, SEL_SELECT_PINNED);

    if (!sel_eligible_allowed(arena, &e)
        || !sel_lookup_candidates(service, partition->n_ranks))
    {
        return sel_fault_memory(fault);
    }

    if (pinned && !e.any
        && !sel_eligible_has(&e.allowed, body->pinned_worker.worker_id))
    {
        return sel_fault(fault, arena, SEL_FAULT_BAD_REQUEST,
                         "pinned worker %llu is not in allowed worker set",
                         (unsigned long long) body->pinned_worker.worker_id);
    }

    *n = sel_eligible_collect(service, partition, &e,
                              pinned ? &body->pinned_worker : NULL);

    if (*n == 0) {
        return sel_fault(fault, arena, SEL_FAULT_NOT_READY,
                         "no endpoints available to route work");
    }

    return true;
}


static bool
sel_eligible_allowed(sel_arena_t *arena, sel_eligible_t *e)
{
    uint32_t  n;

    n = e->body->allowed_worker_ids.n;
    e->allowed.n = n;
    e->allowed.data = sel_arena_alloc(arena, n * sizeof(uint64_t));

    if (e->allowed.data == NULL) {
        return false;
    }

    if (n != 0) {
        memcpy(e->allowed.data, e->body->allowed_worker_ids.data,
               n * sizeof(uint64_t));
        qsort(e->allowed.data, n, sizeof(uint64_t), sel_eligible_compare);
    }

    return true;
}


static uint32_t
sel_eligible_collect(sel_service_t *service,
    const sel_view_partition_t *partition, const sel_eligible_t *e,
    const sel_target_t *pin)
{
    bool                      eligible;
    double                    preferred;
    uint32_t                  i, n;
    sel_view_rank_t          *rank;
    const sel_view_worker_t  *worker;

    worker = NULL;
    eligible = false;
    preferred = 0;
    n = 0;

    for (i = 0; i < partition->n_ranks; i++) {
        rank = partition->ranks[i];

        if (rank->worker != worker) {
            worker = rank->worker;
            eligible = (pin == NULL || pin->worker_id == rank->worker_id)
                       && sel_eligible_worker(e, &worker->record);
            preferred = eligible ? sel_eligible_preferred(e->body,
                                                          &worker->record)
                                 : 0;
        }

        if (!eligible
            || (pin != NULL && SEL_TARGET_HAS_RANK(pin)
                && pin->dp_rank != rank->dp_rank)
            || (e->allow != NULL && !e->allow->allows(e->allow->data, rank)))
        {
            continue;
        }

        sel_lookup_candidate(service, n, rank);
        service->scratch.candidates[n].preferred_taints = preferred;
        n++;
    }

    return n;
}


uint32_t
sel_eligible_narrow(sel_service_t *service, const sel_target_t *target,
    uint32_t n)
{
    uint32_t                i, left;
    sel_scratch_t          *s;
    const sel_view_rank_t  *rank;

    s = &service->scratch;

    for (i = 0, left = 0; i < n; i++) {
        rank = s->ranks[i];

        if (rank->worker_id != target->worker_id
            || (SEL_TARGET_HAS_RANK(target)
                && rank->dp_rank != target->dp_rank))
        {
            continue;
        }

        s->ranks[left] = s->ranks[i];
        s->candidates[left] = s->candidates[i];
        s->loads[left] = s->loads[i];
        left++;
    }

    return left != 0 ? left : n;
}


static bool
sel_eligible_worker(const sel_eligible_t *e, const sel_worker_t *worker)
{
    uint32_t               i;
    const sel_str_list_t  *required;

    if (!e->any && !sel_eligible_has(&e->allowed, worker->worker_id)) {
        return false;
    }

    required = &e->body->constraints.required_taints;

    for (i = 0; i < required->n; i++) {
        if (!sel_eligible_tainted(worker, required->data[i])) {
            return false;
        }
    }

    return true;
}


static double
sel_eligible_preferred(const sel_select_body_t *body,
    const sel_worker_t *worker)
{
    double                   sum;
    uint32_t                 i;
    const sel_taint_list_t  *preferred;

    sum = 0;
    preferred = &body->constraints.preferred_taints;

    for (i = 0; i < preferred->n; i++) {
        if (sel_eligible_tainted(worker, preferred->data[i].name)) {
            sum += preferred->data[i].weight;
        }
    }

    return sum;
}


static bool
sel_eligible_has(const sel_u64_list_t *list, uint64_t id)
{
    return list->n != 0
           && bsearch(&id, list->data, list->n, sizeof(uint64_t),
                      sel_eligible_compare) != NULL;
}


static bool
sel_eligible_tainted(const sel_worker_t *worker, sel_str_t taint)
{
    int       rc;
    uint32_t  low, high, middle;

    low = 0;
    high = worker->taints.n;

    while (low < high) {
        middle = low + (high - low) / 2;
        rc = sel_str_cmp(worker->taints.data[middle], taint);

        if (rc == 0) {
            return true;
        }

        if (rc < 0) {
            low = middle + 1;

        } else {
            high = middle;
        }
    }

    return false;
}


static int
sel_eligible_compare(const void *one, const void *two)
{
    uint64_t  a, b;

    a = *(const uint64_t *) one;
    b = *(const uint64_t *) two;

    return (a > b) - (a < b);
}
