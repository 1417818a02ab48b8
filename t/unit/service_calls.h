/*
 * The operations of a process of the service, on JSON texts: each leaves an
 * answer or a fault.  Include after cmocka.h and state_test.h.
 */

#ifndef SERVICE_CALLS_H
#define SERVICE_CALLS_H

#include "service/sel_loads.h"
#include "service/sel_reserve.h"
#include "service/sel_select.h"
#include "service_world.h"


/* Begins an operation. */
static inline void
world_begin(world_t *world)
{
    sel_arena_free(&world->arena);
    world->fault = (sel_fault_t) { SEL_FAULT_NONE, NULL };
    sel_buf_free(&world->answer);
    sel_buf_init(&world->answer);
}


/*
 * Ends it: an answer, or a fault with class and text; or an answer for which
 * memory did not suffice, of which its buffer knows.
 */
static inline bool
world_end(world_t *world, bool done)
{
    if (done && world->answer.failed) {
        assert_non_null(world->inside);
        return false;
    }

    if (done) {
        sel_buf_byte(&world->answer, 0);
        assert_false(world->answer.failed);
        return true;
    }

    assert_true(world->fault.class != SEL_FAULT_NONE);
    assert_non_null(world->fault.text);

    return false;
}


static inline const char *
world_text(const world_t *world)
{
    return (const char *) world->answer.data;
}


static inline bool
world_post(world_t *world, const char *text)
{
    bool          done;
    sel_str_t     record;
    sel_json_t    json;
    sel_worker_t  worker;

    world_begin(world);
    sel_json_init_text(&json, &world->arena, sel_cstr(text));

    if (!sel_worker_read(&json, &worker) || !sel_json_end(&json)) {
        fail_msg("%s: %s", text, json.message);
    }

    world_inside(world, true);
    done = sel_worker_register(&world->service, &world->arena, &worker,
                               &record, &world->fault);
    world_inside(world, false);

    if (done) {
        sel_buf_str(&world->answer, record);
    }

    return world_end(world, done);
}


static inline bool
world_patch(world_t *world, uint64_t worker_id, const char *text)
{
    bool          done;
    sel_str_t     record;
    sel_json_t    json;
    sel_worker_t  patch;

    world_begin(world);
    sel_json_init_text(&json, &world->arena, sel_cstr(text));

    if (!sel_worker_read_patch(&json, &patch) || !sel_json_end(&json)) {
        fail_msg("%s: %s", text, json.message);
    }

    world_inside(world, true);
    done = sel_worker_update(&world->service, &world->arena, worker_id,
                             &patch, &record, &world->fault);
    world_inside(world, false);

    if (done) {
        sel_buf_str(&world->answer, record);
    }

    return world_end(world, done);
}


static inline bool
world_delete(world_t *world, uint64_t worker_id)
{
    bool       done;
    sel_str_t  record;

    world_begin(world);
    world_inside(world, true);
    done = sel_worker_delete(&world->service, &world->arena, worker_id,
                             &record, &world->fault);
    world_inside(world, false);

    if (done) {
        sel_buf_str(&world->answer, record);
    }

    return world_end(world, done);
}


/* NULL: no filter */
static inline bool
world_try_list(world_t *world, const char *model_name, const char *group)
{
    bool                 done;
    sel_worker_filter_t  filter;

    filter = (sel_worker_filter_t) { .diagnostics = false };

    if (model_name != NULL) {
        filter.model_name = sel_cstr(model_name);
    }

    if (group != NULL) {
        filter.routing_group = sel_cstr(group);
    }

    world_begin(world);
    world_inside(world, true);
    done = sel_worker_list(&world->service, &filter, &world->answer,
                           &world->fault);
    world_inside(world, false);

    return world_end(world, done);
}


static inline const char *
world_list(world_t *world, const char *model_name, const char *group)
{
    if (!world_try_list(world, model_name, group)) {
        fail_msg("%s", world->fault.text);
    }

    return world_text(world);
}


static inline bool
world_try_ready(world_t *world, bool *ready)
{
    bool  done;

    world_begin(world);
    world_inside(world, true);
    done = sel_service_ready(&world->service, &world->answer, ready,
                             &world->fault);
    world_inside(world, false);

    return world_end(world, done);
}


static inline const char *
world_ready(world_t *world, bool *ready)
{
    if (!world_try_ready(world, ready)) {
        fail_msg("%s", world->fault.text);
    }

    return world_text(world);
}


/* the defaults of the configuration */
static const sel_route_settings_t  world_settings = {
    .cost = {
        .overlap_score_credit = 1,
        .prefill_load_scale = 1,
        .host_weight = 0.75,
        .disk_weight = 0.25,
        .track_prefill_tokens = true
    },
    .prefill_busy = -1,
    .decode_busy = -1,
    .assume_kv_reuse = true,
    .track_blocks = true,
    .look_up = true
};


/* A way to read a body, and what is asked with it. */
typedef struct {
    bool  (*read)(sel_json_t *json, sel_select_body_t *body);
    bool  (*ask)(sel_service_t *service, sel_arena_t *arena,
        const sel_route_settings_t *settings, const sel_select_body_t *body,
        sel_buf_t *buf, sel_fault_t *fault);
} world_route_t;


static const world_route_t  world_routes[] = {
    { sel_read_prompt, sel_overlap_scores },
    { sel_read_select, sel_select },
    { sel_read_prompt, sel_potential_loads },
    { sel_read_select_and_reserve, sel_select_and_reserve },
    { sel_read_reservation, sel_reserve }
};


static inline bool
world_call(world_t *world, const world_route_t *route,
    const sel_route_settings_t *settings, const char *text)
{
    bool               done;
    sel_json_t         json;
    sel_select_body_t  body;

    world_begin(world);
    sel_json_init_text(&json, &world->arena, sel_cstr(text));

    if (!route->read(&json, &body) || !sel_json_end(&json)) {
        fail_msg("%s: %s", text, json.message);
    }

    world_inside(world, true);
    done = route->ask(&world->service, &world->arena, settings, &body,
                      &world->answer, &world->fault);
    world_inside(world, false);

    return world_end(world, done);
}


static inline bool
world_ask(world_t *world, bool select, const sel_route_settings_t *settings,
    const char *text)
{
    return world_call(world, &world_routes[select], settings, text);
}


static inline bool
world_select(world_t *world, const char *text)
{
    return world_ask(world, true, &world_settings, text);
}


static inline bool
world_scores(world_t *world, const char *text)
{
    return world_ask(world, false, &world_settings, text);
}


static inline bool
world_potential(world_t *world, const char *text)
{
    return world_call(world, &world_routes[2], &world_settings, text);
}


static inline bool
world_select_and_reserve(world_t *world, const char *text)
{
    return world_call(world, &world_routes[3], &world_settings, text);
}


/* POST /reservations, in both its forms */
static inline bool
world_reserve(world_t *world, const char *text)
{
    return world_call(world, &world_routes[4], &world_settings, text);
}


/* What happens to a reservation; no answer but that it was done. */
static inline bool
world_happens(world_t *world, bool (*event)(sel_service_t *service,
    sel_arena_t *arena, sel_str_t id, sel_fault_t *fault), const char *id)
{
    bool  done;

    world_begin(world);
    world_inside(world, true);
    done = event(&world->service, &world->arena, sel_cstr(id),
                 &world->fault);
    world_inside(world, false);

    return world_end(world, done);
}


static inline bool
world_release(world_t *world, const char *id)
{
    return world_happens(world, sel_reservation_free, id);
}


static inline bool
world_prefilled(world_t *world, const char *id)
{
    return world_happens(world, sel_reservation_prefilled, id);
}


static inline bool
world_output(world_t *world, const char *id, const char *text)
{
    bool               done;
    sel_json_t         json;
    sel_output_body_t  body;

    world_begin(world);
    sel_json_init_text(&json, &world->arena, sel_cstr(text));

    if (!sel_read_output_block(&json, &body) || !sel_json_end(&json)) {
        fail_msg("%s: %s", text, json.message);
    }

    world_inside(world, true);
    done = sel_reservation_output(&world->service, &world->arena,
                                  sel_cstr(id), &body, &world->fault);
    world_inside(world, false);

    return world_end(world, done);
}


static inline bool
world_try_loads(world_t *world, const char *model_name, const char *group)
{
    bool       done;
    sel_str_t  model, routing_group;

    model = (sel_str_t) { 0, NULL };
    routing_group = model;

    if (model_name != NULL) {
        model = sel_cstr(model_name);
    }

    if (group != NULL) {
        routing_group = sel_cstr(group);
    }

    world_begin(world);
    world_inside(world, true);
    done = sel_loads(&world->service, &world->arena, model, routing_group,
                     &world->answer, &world->fault);
    world_inside(world, false);

    return world_end(world, done);
}


/* NULL: no filter */
static inline const char *
world_loads(world_t *world, const char *model_name, const char *group)
{
    if (!world_try_loads(world, model_name, group)) {
        fail_msg("%s", world->fault.text);
    }

    return world_text(world);
}


#endif /* SERVICE_CALLS_H */
