/*
 * Where the bodies of fuzz_request.c go: a service with a few workers, and the
 * way of a text through a reader.
 */

#ifndef REQUEST_H
#define REQUEST_H

#include "fuzz.h"
#include "sel_segments.h"
#include "service/sel_loads.h"
#include "service/sel_register.h"
#include "state/sel_zone_check.h"


#define ZONE  SEL_ZONE_MIN_SIZE


typedef struct {
    sel_zone_t     zone;
    void          *base;
    sel_service_t  service;
} place_t;


typedef bool (*ask_pt)(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_buf_t *buf, sel_fault_t *fault);


static place_t  served;         /* with a few workers, kept */
static char    *idle;           /* their loads when nothing is booked */
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
    .decode_busy = 0.5,
    .assume_kv_reuse = true,
    .track_blocks = true,
    .look_up = true
};


static inline void
ignore_rank(void *data, sel_view_rank_t *rank)
{
}


static inline void
ignore_change(void *data)
{
}


static inline void
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
    service->settings.pending = (sel_pending_limits_t) {
        UINT64_MAX, 64, 1 << 16
    };
    service->changed = ignore_change;
    service->index = sel_index_create(1 << 20, 7);
    FUZZ_CHECK(service->index != NULL, "no index");
    sel_random_seed_with(&service->random, 7);
    host = (sel_view_host_t) { ignore_rank, ignore_rank, NULL };
    sel_view_init(&service->view, &place->zone, service->index, &host);
}


static inline void
place_close(place_t *place)
{
    sel_service_free(&place->service);
    sel_view_free(&place->service.view);
    sel_index_destroy(place->service.index);
}


/* The loads of all ranks, as text; free it. */
static inline char *
loads(void)
{
    char         *text;
    sel_buf_t     buf;
    sel_arena_t   arena;
    sel_fault_t   fault;

    sel_buf_init(&buf);
    sel_arena_init(&arena, 0);
    FUZZ_CHECK(sel_loads(&served.service, &arena, (sel_str_t) { 0, NULL },
                         (sel_str_t) { 0, NULL }, &buf, &fault),
               "no loads");
    sel_buf_byte(&buf, 0);
    FUZZ_CHECK(!buf.failed, "no memory");
    sel_arena_free(&arena);
    text = strdup((char *) buf.data);
    FUZZ_CHECK(text != NULL, "no memory");
    sel_buf_free(&buf);

    return text;
}


static inline void
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

    idle = loads();
}


/* What sel_json_end() and a skip say of a text: it is one JSON value. */
static inline void
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


typedef bool (*read_pt)(sel_json_t *json, void *out);


/*
 * Reads the text whole, into out and the arena, and once more in segments of
 * random sizes; both say the same.
 */
static inline bool
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


#endif /* REQUEST_H */
