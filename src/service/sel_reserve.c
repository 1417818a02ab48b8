/*
 * POST /reservations.  With a worker the request says what to book; without,
 * a pending selection does, and is used up by it.
 */

#include "core/sel_clock.h"
#include "core/sel_json_write.h"
#include "service/sel_lookup.h"
#include "service/sel_reserve.h"
#include "service/sel_selection.h"


/* One reservation on its way. */
typedef struct {
    sel_service_t               *service;
    sel_arena_t                 *arena;
    const sel_route_settings_t  *settings;
    const sel_select_body_t     *body;
    sel_view_partition_t        *partition;
    sel_view_rank_t             *rank;
    sel_booking_t                booking;
    sel_pending_t                pending;   /* generation 0: none */
} sel_reserve_t;


static bool sel_reserve_explicit(sel_reserve_t *r, sel_fault_t *fault);
static bool sel_reserve_prompt(sel_reserve_t *r, sel_fault_t *fault);
static bool sel_reserve_worker(sel_reserve_t *r, sel_fault_t *fault);
static bool sel_reserve_recorded(sel_reserve_t *r, sel_fault_t *fault);
static bool sel_reserve_tracked(const sel_reserve_t *r);
static bool sel_reserve_replay(sel_reserve_t *r, sel_fault_t *fault);
static bool sel_reserve_pending(sel_reserve_t *r, sel_pending_t *pending,
    sel_fault_t *fault);
static bool sel_reserve_session(sel_reserve_t *r, sel_binding_t *binding,
    sel_fault_t *fault);
static bool sel_reserve_ready(sel_reserve_t *r, sel_fault_t *fault);
static sel_view_rank_t *sel_reserve_rank(const sel_view_partition_t *partition,
    uint64_t worker_id, uint32_t dp_rank, bool *worker);
static bool sel_reserve_book(sel_reserve_t *r, sel_book_result_t *result,
    sel_fault_t *fault);
static void sel_reserve_print(const sel_reserve_t *r, sel_buf_t *buf);


bool
sel_reserve(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_buf_t *buf, sel_fault_t *fault)
{
    bool           ok;
    sel_reserve_t  r;

    r = (sel_reserve_t) {
        .service = service, .arena = arena, .settings = settings,
        .body = body
    };

    r.booking = (sel_booking_t) {
        .id = body->selection_id,
        .kind = SEL_BOOKING_API,
        .proc = service->proc
    };

    if (!sel_reserve_check_id(arena, body->selection_id, fault)) {
        return false;
    }

    ok = sel_body_has(body, SEL_RESERVE_WORKER)
         ? sel_reserve_explicit(&r, fault) : sel_reserve_replay(&r, fault);

    if (!ok) {
        return false;
    }

    service->choice = (sel_choice_t) {
        .worker_id = r.rank->worker_id, .dp_rank = r.rank->dp_rank,
        .epoch = r.rank->epoch, .slot = r.rank->slot,
        .block_size = r.partition->key.block_size, .ranks = 1,
        .prefill_tokens = r.booking.prefill_tokens, .id = r.booking.id,
        .endpoint = r.rank->worker->record.endpoint
    };

    sel_reserve_print(&r, buf);

    if (!sel_reserve_told(service, r.booking.id, buf, fault)) {
        return false;
    }

    if (r.pending.generation != 0) {
        sel_pending_drop(service->zone, r.pending.partition, r.pending.id,
                         r.pending.generation);
    }

    return true;
}


/* The pending selection of this id goes first, whatever comes of the rest. */

static bool
sel_reserve_explicit(sel_reserve_t *r, sel_fault_t *fault)
{
    uint32_t                  tries;
    sel_partition_t           partition;
    sel_book_result_t         result;
    const sel_select_body_t  *body;

    body = r->body;

    switch (sel_catalog_find_partition(r->service->zone, body->model_name,
                                       body->routing_group, r->arena,
                                       &partition))
    {
    case -1:
        return sel_fault_memory(fault);

    case 1:
        sel_pending_drop(r->service->zone, partition.number,
                         body->selection_id, 0);
        break;

    default:
        break;
    }

    for (tries = 0; tries < SEL_RESERVE_TRIES; tries++) {

        if (!sel_reserve_ready(r, fault)
            || !sel_reserve_prompt(r, fault)
            || !sel_reserve_worker(r, fault)
            || !sel_reserve_book(r, &result, fault))
        {
            return false;
        }

        if (result == SEL_BOOK_OK) {
            return true;
        }
    }

    return sel_reserve_unsteady(r->arena, fault);
}


static bool
sel_reserve_prompt(sel_reserve_t *r, sel_fault_t *fault)
{
    sel_lookup_t              lookup;
    const sel_prompt_t       *prompt;
    const sel_select_body_t  *body;

    body = r->body;
    prompt = &lookup.prompt;
    lookup.partition = r->partition;

    if (!sel_lookup_prompt(r->service, r->arena, r->settings, body,
                           SEL_PROMPT_FOR_BOOKING, &lookup, fault)
        || !sel_reserve_check_blocks(r->arena, prompt->n_sequence, fault))
    {
        return false;
    }

    if (sel_body_has(body, SEL_RESERVE_EFFECTIVE)
        && body->effective_prefill_tokens > prompt->isl_tokens)
    {
        return sel_fault(fault, r->arena, SEL_FAULT_BAD_REQUEST,
                         "effective_prefill_tokens (%llu) must not exceed "
                         "isl_tokens (%llu)",
                         (unsigned long long) body->effective_prefill_tokens,
                         (unsigned long long) prompt->isl_tokens);
    }

    r->booking.n_blocks = prompt->n_sequence;
    r->booking.path = lookup.path;
    r->booking.prefill_tokens = sel_reserve_tracked(r)
                                ? body->effective_prefill_tokens : 0;
    r->booking.expected_output_tokens = body->expected_output_tokens;

    if (sel_service_records(r->service)) {
        r->booking.n_hashes = prompt->n_blocks;
        r->booking.hashes = prompt->blocks;
    }

    return true;
}


/* Block hashes that are to be recorded are checked as for a look-up. */

static bool
sel_reserve_recorded(sel_reserve_t *r, sel_fault_t *fault)
{
    sel_prompt_t  prompt;

    return !sel_service_records(r->service)
           || sel_prompt_has_tokens(r->body)
           || !sel_body_has(r->body, SEL_PROMPT_BLOCK_HASHES)
           || sel_prompt_read(r->partition, r->arena, r->body,
                              SEL_PROMPT_FOR_LOOKUP, NULL, &prompt, fault);
}


/* Whether a value for prefill counts; without a value nothing does. */

static bool
sel_reserve_tracked(const sel_reserve_t *r)
{
    return !sel_body_has(r->body, SEL_RESERVE_TRACK)
           || r->body->track_prefill_tokens;
}


static bool
sel_reserve_worker(sel_reserve_t *r, sel_fault_t *fault)
{
    bool                      worker;
    const sel_select_body_t  *body;

    body = r->body;
    r->rank = sel_reserve_rank(r->partition, body->worker_id, body->dp_rank,
                               &worker);
    if (!worker) {
        return sel_fault(fault, r->arena, SEL_FAULT_NOT_FOUND,
                         "schedulable worker %llu not found for "
                         SEL_PARTITION_FORMAT,
                         (unsigned long long) body->worker_id,
                         sel_partition_arg(&r->partition->key));
    }

    if (!sel_reserve_recorded(r, fault)) {
        return false;
    }

    if (sel_booked(r->service->zone, body->selection_id)) {
        return sel_reserve_taken(r->arena, body->selection_id, fault);
    }

    if (r->rank == NULL) {
        return sel_fault(fault, r->arena, SEL_FAULT_NOT_FOUND,
                         "Worker WorkerWithDpRank { worker_id: %llu, "
                         "dp_rank: %u } not found",
                         (unsigned long long) body->worker_id, body->dp_rank);
    }

    return true;
}


static bool
sel_reserve_replay(sel_reserve_t *r, sel_fault_t *fault)
{
    bool               worker;
    uint32_t           tries;
    uint64_t          *path;
    sel_binding_t      binding;
    sel_pending_t     *pending;
    sel_book_result_t  result;

    pending = &r->pending;
    binding = (sel_binding_t) { 0, 0, 0 };

    if (!sel_reserve_pending(r, pending, fault)) {
        return false;
    }

    path = sel_arena_alloc(r->arena, pending->n_blocks * sizeof(uint64_t));

    if (path == NULL) {
        return sel_fault_memory(fault);
    }

    sel_path_keys(pending->partition, pending->sequence, pending->n_blocks,
                  path);

    r->booking.n_blocks = pending->n_blocks;
    r->booking.path = path;
    r->booking.prefill_tokens = pending->tracked ? pending->prefill_tokens : 0;
    r->booking.expected_output_tokens = pending->expected_output_tokens;
    r->booking.n_hashes = pending->n_hashes;
    r->booking.hashes = pending->hashes;

    for (tries = 0; tries < SEL_RESERVE_TRIES; tries++) {

        if (!sel_reserve_ready(r, fault)) {
            return false;
        }

        r->rank = sel_reserve_rank(r->partition, pending->worker_id,
                                   pending->dp_rank, &worker);
        if (r->rank == NULL) {
            return sel_fault(fault, r->arena, SEL_FAULT_NOT_FOUND,
                             "schedulable worker %llu (dp_rank %u) not found "
                             "for " SEL_PARTITION_FORMAT,
                             (unsigned long long) pending->worker_id,
                             pending->dp_rank,
                             sel_partition_arg(&r->partition->key));
        }

        if (!sel_reserve_session(r, &binding, fault)
            || !sel_reserve_book(r, &result, fault))
        {
            return false;
        }

        if (result == SEL_BOOK_OK) {
            return true;
        }

        if (result == SEL_BOOK_BOUND) {

            /* its rank can never be the session's again */

            sel_pending_drop(r->service->zone, pending->partition,
                             pending->id, pending->generation);

            return sel_session_bound(r->arena, pending->session_id, &binding,
                                     r->rank, fault);
        }
    }

    return sel_reserve_unsteady(r->arena, fault);
}


/* The session that was selected with, as it is now; an id that is taken leaves
   it alone. */

static bool
sel_reserve_session(sel_reserve_t *r, sel_binding_t *binding,
    sel_fault_t *fault)
{
    if (r->service->settings.session_ttl == 0
        || r->pending.session_id.data == NULL)
    {
        return true;
    }

    if (sel_booked(r->service->zone, r->booking.id)) {
        return sel_reserve_taken(r->arena, r->booking.id, fault);
    }

    *binding = sel_session_use(r->service->zone, r->pending.partition,
                               r->pending.session_id, sel_clock_ns());

    r->booking.session = (sel_booking_session_t) {
        .id = r->pending.session_id, .revision = binding->revision
    };

    return true;
}


static bool
sel_reserve_pending(sel_reserve_t *r, sel_pending_t *pending,
    sel_fault_t *fault)
{
    int                       rc;
    sel_partition_t           partition;
    const sel_select_body_t  *body;

    body = r->body;

    rc = sel_catalog_find_partition(r->service->zone, body->model_name,
                                    body->routing_group, r->arena,
                                    &partition);
    if (rc == 1) {
        rc = sel_pending_get(r->service->zone, partition.number,
                             body->selection_id, sel_clock_ns(),
                             r->service->settings.pending.ttl, r->arena,
                             pending);
    }

    if (rc == 1) {
        return true;
    }

    if (rc == -1) {
        return sel_fault_memory(fault);
    }

    return sel_fault(fault, r->arena, SEL_FAULT_NOT_FOUND,
                     "no pending selection %.*s for model=%.*s "
                     "routing_group=%.*s (expired, already used, or never "
                     "selected)", sel_str_arg(body->selection_id),
                     sel_str_arg(body->model_name),
                     sel_str_arg(body->routing_group));
}


static bool
sel_reserve_ready(sel_reserve_t *r, sel_fault_t *fault)
{
    r->partition = sel_service_partition(r->service, r->arena,
                                         r->body->model_name,
                                         r->body->routing_group, fault);
    if (r->partition == NULL) {
        return false;
    }

    r->booking.partition = r->partition->key.number;

    return true;
}


/* The rank, NULL if there is none; *worker tells whether its worker is. */

static sel_view_rank_t *
sel_reserve_rank(const sel_view_partition_t *partition, uint64_t worker_id,
    uint32_t dp_rank, bool *worker)
{
    uint32_t          low, high, middle;
    sel_view_rank_t  *rank;

    low = 0;
    high = partition->n_ranks;

    while (low < high) {
        middle = low + (high - low) / 2;
        rank = partition->ranks[middle];

        if (rank->worker_id < worker_id
            || (rank->worker_id == worker_id && rank->dp_rank < dp_rank))
        {
            low = middle + 1;

        } else {
            high = middle;
        }
    }

    /* ranks of one worker stand together */

    *worker = (low < partition->n_ranks
               && partition->ranks[low]->worker_id == worker_id)
              || (low > 0 && partition->ranks[low - 1]->worker_id
                             == worker_id);

    return low < partition->n_ranks
           && partition->ranks[low]->worker_id == worker_id
           && partition->ranks[low]->dp_rank == dp_rank
           ? partition->ranks[low] : NULL;
}


/* True: *result is OK; GONE: the view is older than the catalog; MOVED; or
   BOUND. */

static bool
sel_reserve_book(sel_reserve_t *r, sel_book_result_t *result,
    sel_fault_t *fault)
{
    uint32_t         chosen;
    sel_rank_load_t  load;

    load = (sel_rank_load_t) {
        .slot = r->rank->slot, .epoch = r->rank->epoch
    };

    r->booking.now = sel_clock_ns();

    *result = sel_book(r->service->zone, &r->booking, &load, 1, NULL, NULL,
                       &chosen);

    switch (*result) {

    case SEL_BOOK_TAKEN:
        return sel_reserve_taken(r->arena, r->booking.id, fault);

    case SEL_BOOK_FULL:
        return sel_reserve_full(r->service, r->arena, r->booking.id, fault);

    case SEL_BOOK_OK:
        sel_reserve_done(r->service);
        return true;

    default:
        return true;
    }
}


static void
sel_reserve_print(const sel_reserve_t *r, sel_buf_t *buf)
{
    sel_json_out_t  out;

    sel_json_out_init(&out, buf);
    sel_json_out_object(&out);
    sel_json_out_key(&out, "selection_id");
    sel_json_out_str(&out, r->booking.id);
    sel_json_out_key(&out, "model_name");
    sel_json_out_str(&out, r->partition->key.model_name);
    sel_json_out_key(&out, "routing_group");
    sel_json_out_str(&out, r->partition->key.routing_group);
    sel_json_out_key(&out, "worker_id");
    sel_json_out_u64(&out, r->rank->worker_id);
    sel_json_out_key(&out, "dp_rank");
    sel_json_out_u64(&out, r->rank->dp_rank);
    sel_json_out_key(&out, "endpoint");
    sel_json_out_str(&out, r->rank->worker->record.endpoint);
    sel_json_out_object_end(&out);
}
