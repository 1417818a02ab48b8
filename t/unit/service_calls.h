/*
 * The operations of a process of the service, on JSON texts: each leaves an
 * answer or a fault.  Include after cmocka.h and state_test.h.
 */

#ifndef SERVICE_CALLS_H
#define SERVICE_CALLS_H

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
    .assume_kv_reuse = true
};


static inline bool
world_ask(world_t *world, bool select, const sel_route_settings_t *settings,
    const char *text)
{
    bool               done;
    sel_json_t         json;
    sel_select_body_t  body;

    world_begin(world);
    sel_json_init_text(&json, &world->arena, sel_cstr(text));

    if (!(select ? sel_read_select(&json, &body)
                 : sel_read_prompt(&json, &body))
        || !sel_json_end(&json))
    {
        fail_msg("%s: %s", text, json.message);
    }

    world_inside(world, true);
    done = (select ? sel_select : sel_overlap_scores)(
               &world->service, &world->arena, settings, &body,
               &world->answer, &world->fault);
    world_inside(world, false);

    return world_end(world, done);
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


#endif /* SERVICE_CALLS_H */
