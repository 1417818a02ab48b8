/*
 * Any bytes as a body of the selection routes, as a registration, as a PATCH
 * and as an endpoint.  Whole and in segments they read alike; a worker that
 * reads prints to a text that reads and prints the same; a body that reads
 * keeps its promises and gets an answer that is JSON; a worker that reads can
 * be registered, listed and deleted, and leaves nothing behind.
 */

#include <math.h>

#include "fuzz.h"
#include "sel_segments.h"
#include "service/sel_endpoint.h"
#include "service/sel_register.h"
#include "service/sel_select.h"
#include "service/sel_selection.h"
#include "state/sel_zone_check.h"


#define ZONE  SEL_ZONE_MIN_SIZE


typedef struct {
    sel_zone_t     zone;
    void          *base;
    sel_service_t  service;
} place_t;


static place_t  served;         /* with a few workers, kept */
static place_t  fresh;          /* for one registration */

static const sel_route_settings_t  settings = {
    .cost = {
        .overlap_score_credit = 1,
        .prefill_load_scale = 1,
        .host_weight = 0.75,
        .disk_weight = 0.25,
        .track_prefill_tokens = true
    },
    .prefill_busy = 0.5,
    .decode_busy = 0.5
};


static void
ignore_rank(void *data, sel_view_rank_t *rank)
{
}


static void
ignore_change(void *data)
{
}


static void
place_open(place_t *place, bool kv_events)
{
    sel_service_t    *service;
    sel_view_host_t   host;

    if (place->base == NULL
        && posix_memalign(&place->base, 64, ZONE) != 0)
    {
        abort();
    }

    memset(place->base, 0, ZONE);
    FUZZ_CHECK(sel_zone_format(&place->zone, place->base, ZONE), "no zone");

    service = &place->service;
    memset(service, 0, sizeof(*service));
    service->zone = &place->zone;
    service->proc = SEL_PROC_NONE;
    service->settings.kv_events = kv_events;
    service->changed = ignore_change;
    service->index = sel_index_create(1 << 20, 7);
    FUZZ_CHECK(service->index != NULL, "no index");
    sel_random_seed_with(&service->random, 7);
    host = (sel_view_host_t) { ignore_rank, ignore_rank, NULL };
    sel_view_init(&service->view, &place->zone, service->index, &host);
}


static void
place_close(place_t *place)
{
    sel_service_free(&place->service);
    sel_view_free(&place->service.view);
    sel_index_destroy(place->service.index);
}


static void
serve(void)
{
    size_t        i;
    sel_str_t     record;
    sel_json_t    json;
    sel_arena_t   arena;
    sel_fault_t   fault;
    sel_worker_t  worker;

    static const char *const  workers[] = {
        "{\"worker_id\":1,\"endpoint\":\"e\",\"block_size\":4,"
        "\"data_parallel_size\":2,\"taints\":[\"a\",\"b\"],"
        "\"total_kv_blocks\":10}",
        "{\"worker_id\":2,\"endpoint\":\"e\",\"block_size\":4,"
        "\"data_parallel_start_rank\":7,\"max_num_batched_tokens\":5}",
        "{\"worker_id\":3,\"endpoint\":\"e\",\"block_size\":1,"
        "\"routing_group\":\"g\",\"is_eagle\":true}"
    };

    place_open(&served, false);

    for (i = 0; i < sel_countof(workers); i++) {
        sel_arena_init(&arena, 0);
        sel_json_init_text(&json, &arena, sel_cstr(workers[i]));
        FUZZ_CHECK(sel_worker_read(&json, &worker)
                   && sel_worker_register(&served.service, &arena, &worker,
                                          &record, &fault),
                   "worker %zu", i);
        sel_arena_free(&arena);
    }
}


/* What sel_json_end() and a skip say of a text: it is one JSON value. */
static void
check_json(sel_str_t text)
{
    sel_json_t   json;
    sel_arena_t  arena;

    sel_arena_init(&arena, 0);
    sel_json_init_text(&json, &arena, text);
    FUZZ_CHECK(sel_json_skip(&json) && sel_json_end(&json), "%s: %.*s",
               json.message, (int) text.len, (const char *) text.data);
    sel_arena_free(&arena);
}


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


/* A whole body, which was read as `select` or not, is answered. */
static void
ask(bool select, const sel_select_body_t *body, sel_arena_t *arena)
{
    bool         done;
    sel_buf_t    buf;
    sel_fault_t  fault;

    sel_buf_init(&buf);
    fault = (sel_fault_t) { SEL_FAULT_NONE, NULL };
    done = (select ? sel_select : sel_overlap_scores)(
               &served.service, arena, &settings, body, &buf, &fault);

    if (done) {
        check_json(sel_buf_view(&buf));

    } else {
        FUZZ_CHECK((fault.class == SEL_FAULT_BAD_REQUEST
                    || fault.class == SEL_FAULT_NOT_READY)
                   && fault.text != NULL && fault.text[0] != '\0',
                   "fault %d", fault.class);
    }

    sel_buf_free(&buf);
}


typedef bool (*read_pt)(sel_json_t *json, void *out);

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
 * Reads the text whole, into out and the arena, and once more in segments of
 * random sizes; both say the same.
 */
static bool
read_twice(const uint8_t *data, size_t size, read_pt read, void *out,
    size_t out_size, sel_arena_t *arena)
{
    bool                done;
    sel_json_t          whole, parts;
    sel_arena_t         other;
    sel_segments_t      seg;
    static uint8_t      again[sizeof(sel_select_body_t)
                              + sizeof(sel_worker_t)]
                            __attribute__((aligned(16)));

    sel_json_init_text(&whole, arena, (sel_str_t) { size, data });
    memset(out, 0xa5, out_size);
    done = read(&whole, out);

    sel_arena_init(&other, 0);
    sel_segments_init(&seg, data, size, 0, fuzz_seed(data, size));
    sel_json_init(&parts, &other, sel_segments_more, &seg);
    FUZZ_CHECK(read(&parts, again) == done, "in parts: %s; whole: %s",
               done ? parts.message : "", done ? "" : whole.message);
    FUZZ_CHECK(done || (whole.status == parts.status
                        && strcmp(whole.message, parts.message) == 0),
               "in parts: %s; whole: %s", parts.message, whole.message);
    sel_segments_drop(&seg);
    sel_arena_free(&other);

    return done;
}


static void
try_body(const uint8_t *data, size_t size, bool select)
{
    sel_arena_t        arena;
    sel_select_body_t  body;

    sel_arena_init(&arena, 0);

    if (read_twice(data, size, select ? read_select : read_scores, &body,
                   sizeof(body), &arena))
    {
        check_body(&body, size);
        ask(select, &body, &arena);
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
    try_body(copy, size, true);
    try_body(copy, size, false);
    try_worker(copy, size);
    try_endpoint(copy, size);
    free(copy);

    return 0;
}
