/*
 * Any bytes as a body of the selection routes and of those of reservations,
 * as a registration, as a PATCH and as an endpoint.  Whole and in segments
 * they read alike; a worker that reads prints to a text that reads and prints
 * the same; a body that reads keeps its promises and gets an answer that is
 * JSON; what is booked is there under its id, can be freed and leaves no load
 * behind; a worker that reads can be registered, listed and deleted, and
 * leaves nothing behind.
 */

#include <math.h>

#include "request.h"
#include "service/sel_endpoint.h"
#include "service/sel_reserve.h"
#include "service/sel_select.h"
#include "service/sel_selection.h"


static void
check_body(const sel_select_body_t *body, size_t size)
{
    uint32_t                  i, k;
    const sel_override_t     *o;
    sel_cost_settings_t       cost;
    const sel_taint_list_t   *taints;

    FUZZ_CHECK((uint64_t) body->prompt.token_ids.n
               + body->prompt.block_hashes.n
               + body->prompt.sequence_hashes.n
               + body->prompt.block_mm_infos.n
               + body->prompt.routing_token_ids.n
               + body->prompt.routing_mm_infos.n
               + body->allowed_worker_ids.n
               + body->constraints.required_taints.n <= size,
               "more elements than bytes");

    o = &body->override;
    sel_select_settings(&settings.cost, body, &cost);
    FUZZ_CHECK(isfinite(cost.overlap_score_credit)
               && cost.overlap_score_credit >= 0
               && isfinite(cost.prefill_load_scale)
               && cost.prefill_load_scale >= 0
               && isfinite(cost.temperature) && cost.temperature >= 0
               && (!sel_body_has(body, SEL_SELECT_OVERRIDE)
                   || (o->given >> SEL_OVERRIDE_SHARED_CACHE & 1) == 0
                   || (o->shared_cache_multiplier >= 0
                       && o->shared_cache_multiplier <= 1)),
               "settings out of range");

    taints = &body->constraints.preferred_taints;
    FUZZ_CHECK(taints->n <= SEL_MAX_TAINTS, "%u taints", taints->n);

    for (i = 0; i < taints->n; i++) {
        FUZZ_CHECK(isfinite(taints->data[i].weight), "a weight");

        for (k = 0; k < i; k++) {
            FUZZ_CHECK(!sel_str_eq(taints->data[i].name,
                                   taints->data[k].name), "a taint twice");
        }
    }
}


/* A whole body is answered; true: not with a fault. */
static bool
ask(ask_pt how, const sel_select_body_t *body, sel_arena_t *arena)
{
    bool         done;
    sel_buf_t    buf;
    sel_fault_t  fault;

    sel_buf_init(&buf);
    fault = (sel_fault_t) { SEL_FAULT_NONE, NULL };
    done = how(&served.service, arena, &settings, body, &buf, &fault);

    if (done) {
        check_json(sel_buf_view(&buf));

    } else {
        FUZZ_CHECK((fault.class == SEL_FAULT_BAD_REQUEST
                    || fault.class == SEL_FAULT_NOT_READY
                    || (fault.class == SEL_FAULT_NOT_FOUND
                        && how == sel_reserve))
                   && fault.text != NULL && fault.text[0] != '\0',
                   "fault %d", fault.class);
    }

    sel_buf_free(&buf);

    return done;
}


/* Nothing is left of what was booked. */
static void
check_idle(void)
{
    char        *now;
    const char  *error;

    now = loads();
    FUZZ_CHECK(strcmp(now, idle) == 0, "loads are left: %s", now);
    free(now);

    sel_zone_lock(&served.zone);
    error = sel_zone_check(&served.zone);
    sel_zone_unlock(&served.zone);
    FUZZ_CHECK(error == NULL, "%s", error);
}


/* What was booked under an id is there, once, until it is freed. */
static void
check_booked(sel_str_t id, sel_arena_t *arena)
{
    char         *now;
    sel_fault_t   fault;

    FUZZ_CHECK(sel_booked(&served.zone, id), "nothing is booked");
    now = loads();
    check_json(sel_cstr(now));
    FUZZ_CHECK(strcmp(now, idle) != 0, "no load is booked");
    free(now);

    FUZZ_CHECK(sel_reservation_prefilled(&served.service, arena, id, &fault)
               && sel_reservation_free(&served.service, arena, id, &fault)
               && !sel_reservation_free(&served.service, arena, id, &fault)
               && fault.class == SEL_FAULT_NOT_FOUND,
               "the booking cannot be freed once");
    check_idle();
}


static bool
read_select(sel_json_t *json, void *out)
{
    return sel_read_select(json, out) && sel_json_end(json);
}


static bool
read_scores(sel_json_t *json, void *out)
{
    return sel_read_prompt(json, out) && sel_json_end(json);
}


static bool
read_select_and_reserve(sel_json_t *json, void *out)
{
    return sel_read_select_and_reserve(json, out) && sel_json_end(json);
}


static bool
read_reservation(sel_json_t *json, void *out)
{
    return sel_read_reservation(json, out) && sel_json_end(json);
}


static bool
read_output(sel_json_t *json, void *out)
{
    return sel_read_output_block(json, out) && sel_json_end(json);
}


static bool
read_worker(sel_json_t *json, void *out)
{
    return sel_worker_read(json, out) && sel_json_end(json);
}


static bool
read_patch(sel_json_t *json, void *out)
{
    return sel_worker_read_patch(json, out) && sel_json_end(json);
}


/*
 * A select that has an id is kept, so the same bytes may be a reservation that
 * replays it.
 */
static void
try_body(const uint8_t *data, size_t size, read_pt read, ask_pt how)
{
    sel_str_t          id;
    sel_arena_t        arena;
    sel_select_body_t  body;

    sel_arena_init(&arena, 0);

    if (read_twice(data, size, read, &body, sizeof(body), &arena)) {
        check_body(&body, size);

        if (!ask(how, &body, &arena)) {
            FUZZ_CHECK(!sel_booked(&served.zone, body.selection_id),
                       "booked in spite of a fault");

        } else if (how == sel_select_and_reserve || how == sel_reserve) {
            id = how == sel_reserve ? body.selection_id
                                    : served.service.choice.id;
            FUZZ_CHECK(!sel_body_has(&body, SEL_SELECT_ID)
                       || sel_str_eq(id, body.selection_id), "another id");
            check_booked(id, &arena);
        }
    }

    sel_arena_free(&arena);
}


static void
try_output(const uint8_t *data, size_t size)
{
    bool                done;
    sel_json_t          json;
    sel_arena_t         arena;
    sel_fault_t         fault;
    sel_select_body_t   body;
    sel_output_body_t   output;

    sel_arena_init(&arena, 0);

    if (read_twice(data, size, read_output, &output, sizeof(output), &arena)) {
        sel_json_init_text(&json, &arena, sel_str("{\"selection_id\":\"o\","
            "\"worker_id\":1,\"sequence_hashes\":[1,2],\"isl_tokens\":8}"));
        FUZZ_CHECK(sel_read_reservation(&json, &body)
                   && ask(sel_reserve, &body, &arena), "no booking");

        done = sel_reservation_output(&served.service, &arena, sel_str("o"),
                                      &output, &fault);
        FUZZ_CHECK(done == (output.given == 0
                            || (output.decay_fraction >= 0
                                && output.decay_fraction <= 1)),
                   "%d for %g", done, output.decay_fraction);
        FUZZ_CHECK(done || fault.class == SEL_FAULT_BAD_REQUEST, "fault %d",
                   fault.class);
        FUZZ_CHECK(sel_reservation_free(&served.service, &arena,
                                        sel_str("o"), &fault),
                   "the booking is lost");
        check_idle();
    }

    sel_arena_free(&arena);
}


/* Prints; what was printed reads, and prints the same. */
static void
check_print(const sel_worker_t *worker)
{
    sel_buf_t     first, second;
    sel_json_t    json;
    sel_arena_t   arena;
    sel_worker_t  again;

    sel_buf_init(&first);
    sel_buf_init(&second);
    sel_worker_print(&first, worker, "schedulable", NULL);
    check_json(sel_buf_view(&first));

    sel_arena_init(&arena, 0);
    sel_json_init_text(&json, &arena, sel_buf_view(&first));
    FUZZ_CHECK(read_worker(&json, &again), "%s", json.message);
    sel_worker_print(&second, &again, "schedulable", NULL);
    FUZZ_CHECK(sel_str_eq(sel_buf_view(&first), sel_buf_view(&second)),
               "%.*s prints as %.*s", (int) first.len, (char *) first.data,
               (int) second.len, (char *) second.data);

    sel_arena_free(&arena);
    sel_buf_free(&first);
    sel_buf_free(&second);
}


static void
try_register(const sel_worker_t *worker, bool kv_events, sel_arena_t *arena)
{
    sel_str_t             record;
    sel_buf_t             list;
    sel_fault_t           fault;
    const char           *error;
    sel_zone_stats_t      stats;
    sel_worker_filter_t   filter;

    filter = (sel_worker_filter_t) {
        worker->model_name, worker->routing_group, false
    };

    place_open(&fresh, kv_events);
    sel_buf_init(&list);

    if (sel_worker_register(&fresh.service, arena, worker, &record, &fault)) {
        check_json(record);
        FUZZ_CHECK(sel_worker_list(&fresh.service, &filter, &list, &fault)
                   && list.len == record.len + 2
                   && memcmp(&list.data[1], record.data, record.len) == 0,
                   "another worker is listed");
        FUZZ_CHECK(sel_worker_delete(&fresh.service, arena,
                                     worker->worker_id, &record, &fault),
                   "not deleted: %s", fault.text);
        check_json(record);

    } else {
        FUZZ_CHECK(fault.class == SEL_FAULT_FULL, "%s", fault.text);
    }

    sel_zone_stats(&fresh.zone, &stats);
    FUZZ_CHECK(stats.slots_used == 0 && stats.workers == 0, "left behind");
    sel_zone_lock(&fresh.zone);
    error = sel_zone_check(&fresh.zone);
    sel_zone_unlock(&fresh.zone);
    FUZZ_CHECK(error == NULL, "%s", error);

    sel_buf_free(&list);
    place_close(&fresh);
}


static void
try_worker(const uint8_t *data, size_t size)
{
    sel_json_t    json;
    sel_arena_t   arena;
    sel_worker_t  worker, patch;

    sel_arena_init(&arena, 0);

    if (read_twice(data, size, read_worker, &worker, sizeof(worker),
                   &arena))
    {
        check_print(&worker);
        try_register(&worker, size % 2, &arena);
    }

    if (read_twice(data, size, read_patch, &patch, sizeof(patch), &arena)) {
        sel_json_init_text(&json, &arena, sel_str("{\"worker_id\":7,"
            "\"endpoint\":\"e\",\"block_size\":16,\"taints\":[\"a\"],"
            "\"kv_events_endpoints\":{\"1\":\"tcp://h:1\"}}"));
        FUZZ_CHECK(sel_worker_read(&json, &worker), "%s", json.message);
        sel_worker_patch(&worker, &patch);
        check_print(&worker);
    }

    sel_arena_free(&arena);
}


static void
try_endpoint(const uint8_t *data, size_t size)
{
    sel_arena_t   arena;
    const char   *fault;

    sel_arena_init(&arena, 0);
    fault = sel_endpoint_fault((sel_str_t) { size, data }, &arena);
    FUZZ_CHECK(fault == NULL
               || strncmp(fault, "invalid ZMQ endpoint `", 22) == 0,
               "%s", fault);
    sel_arena_free(&arena);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t  *copy;

    if (served.base == NULL) {
        serve();
    }

    copy = malloc(size != 0 ? size : 1);

    if (copy == NULL) {
        abort();
    }

    memcpy(copy, data, size);
    try_body(copy, size, read_select, sel_select);
    try_body(copy, size, read_scores, sel_overlap_scores);
    try_body(copy, size, read_scores, sel_potential_loads);
    try_body(copy, size, read_reservation, sel_reserve);
    try_body(copy, size, read_select_and_reserve, sel_select_and_reserve);
    try_output(copy, size);
    try_worker(copy, size);
    try_endpoint(copy, size);
    free(copy);

    return 0;
}
