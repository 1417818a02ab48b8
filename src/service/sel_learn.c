#include <stdlib.h>
#include "core/sel_clock.h"
#include "service/sel_learn.h"
#include "state/sel_decisions.h"


/* decisions applied at once */
#define SEL_LEARN_BATCH   64

/* blocks forgotten with each look-up, at most, beside twice those learned */
#define SEL_LEARN_FORGET  1024


static bool sel_learn_buffer(sel_service_t *service);
static void sel_learn_decision(sel_service_t *service,
    const sel_decision_t *decision);


/*
 * The view is read behind the decisions: a rank is in the catalog before
 * anything is decided for it.
 */

bool
sel_learn(sel_service_t *service)
{
    uint32_t         i, n, budget;
    uint64_t         lost;
    sel_learn_t     *learn;
    sel_decision_t   decisions[SEL_LEARN_BATCH];

    learn = &service->learn;
    lost = 0;
    budget = SEL_LEARN_FORGET;

    if (learn->recent == NULL) {
        return true;
    }

    if (sel_decisions_head(service->zone) != learn->at
        && sel_learn_buffer(service))
    {
        do {
            n = sel_decisions_read(service->zone, &learn->at, learn->buffer,
                                   learn->size, decisions, SEL_LEARN_BATCH,
                                   &lost);

            if (n != 0) {
                (void) sel_view_refresh(&service->view);
            }

            for (i = 0; i < n; i++) {
                sel_learn_decision(service, &decisions[i]);
                budget += 2 * decisions[i].n_hashes;
            }

        } while (n != 0);
    }

    if (lost != 0) {
        sel_count(service->zone, SEL_COUNT_DECISIONS_LOST, lost);
    }

    return sel_recent_expire(learn->recent, sel_clock_ns(), budget);
}


static bool
sel_learn_buffer(sel_service_t *service)
{
    sel_learn_t  *learn;

    learn = &service->learn;

    if (learn->buffer == NULL) {
        learn->size = sel_decisions_size(service->zone);
        learn->buffer = malloc(learn->size);
        learn->at = sel_decisions_tail(service->zone);
    }

    return learn->buffer != NULL;
}


/* What is about a rank that went meanwhile is nothing to learn. */

static void
sel_learn_decision(sel_service_t *service, const sel_decision_t *decision)
{
    uint16_t                owner;
    uint64_t                until;
    const sel_view_rank_t  *rank;

    rank = sel_view_slot(&service->view, decision->slot, decision->epoch);
    until = decision->made + service->settings.learn_ttl;

    if (rank == NULL || until <= sel_clock_ns()) {
        return;
    }

    owner = rank->owner;

    if (service->settings.kv_events) {
        owner = sel_index_owner(service->index,
                                rank->partition | SEL_VIEW_SIDE,
                                rank->worker_id, rank->dp_rank);
    }

    if (owner == SEL_INDEX_NO_OWNER
        || sel_recent_store(service->learn.recent, owner, decision->hashes,
                            decision->n_hashes, until)
           != SEL_INDEX_OK)
    {
        sel_count(service->zone, SEL_COUNT_DECISIONS_REFUSED, 1);
    }
}


bool
sel_learn_due(sel_service_t *service)
{
    uint64_t  part;

    if (!sel_service_records(service)) {
        return false;
    }

    part = sel_decisions_head(service->zone)
           / (sel_decisions_size(service->zone) / 4);

    if (part == service->learn.told) {
        return false;
    }

    service->learn.told = part;

    return true;
}
