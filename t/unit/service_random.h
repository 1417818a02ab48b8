/*
 * Random changes of the catalog by one of two processes, carried out and told
 * to the model.  Include after cmocka.h and state_test.h.
 */

#ifndef SERVICE_RANDOM_H
#define SERVICE_RANDOM_H

#include "service_model.h"


static sel_zone_t  zone;
static sel_rand_t  rnd;
static world_t     worlds[MODEL_WORLDS];
static model_t     model;
static sel_buf_t   text;
static unsigned    batch;


static inline uint32_t
below(uint32_t bound)
{
    return (uint32_t) sel_rand_below(&rnd, bound);
}


static inline const char *
ended(void)
{
    sel_buf_byte(&text, 0);
    assert_false(text.failed);

    return (const char *) text.data;
}


/* Some members of a worker change; which ones is told in bits. */
static inline uint32_t
change_worker(model_worker_t *worker, bool all)
{
    uint32_t  bits, r;

    bits = all ? 0xff : (uint32_t) sel_rand(&rnd) & sel_rand(&rnd) & 0xff;

    if (bits & 0x01) {
        worker->endpoint = below(8) != 0;
    }

    if (bits & 0x02) {
        worker->block_size = below(12) ? 16 : 32;
    }

    if (bits & 0x04) {
        worker->start = below(3);
    }

    if (bits & 0x08) {
        worker->size = below(12) ? 1 + below(4) : 0;
    }

    if (bits & 0x10) {
        for (r = 0; r < MODEL_RANKS; r++) {
            worker->sources[r] = below(all ? 20 : 8) == 0;
        }
    }

    if (bits & 0x20) {
        worker->taints = below(4);
    }

    if ((bits & 0x40) && all) {
        worker->replay = below(6) == 0 ? 1 : 0;

    } else if (bits & 0x40) {
        worker->replay = 1 + below(2);
    }

    return bits;
}


static inline void
print_worker(const model_worker_t *worker, uint32_t bits)
{
    uint32_t  r;

    sel_buf_printf(&text, "\"stable_routing_id\":\"%u\"", below(3));

    if (bits & 0x01) {
        sel_buf_printf(&text, ",\"endpoint\":\"%s\"",
                       worker->endpoint ? "http://e" : "");
    }

    if (bits & 0x02) {
        sel_buf_printf(&text, ",\"block_size\":%u", worker->block_size);
    }

    if (bits & 0x04) {
        sel_buf_printf(&text, ",\"data_parallel_start_rank\":%u",
                       worker->start);
    }

    if (bits & 0x08) {
        sel_buf_printf(&text, ",\"data_parallel_size\":%u", worker->size);
    }

    if (bits & 0x10) {
        sel_buf_text(&text, ",\"kv_events_endpoints\":{");

        for (r = 0; r < MODEL_RANKS; r++) {
            sel_buf_printf(&text, "%s\"%u\":\"tcp://h:%u\"",
                           r != 0 ? "," : "", r,
                           100 * (r + 1) + worker->sources[r]);
        }

        sel_buf_byte(&text, '}');
    }

    if (bits & 0x20) {
        sel_buf_printf(&text, ",\"taints\":[%s%s%s]",
                       worker->taints & 1 ? "\"t0\"" : "",
                       worker->taints == 3 ? "," : "",
                       worker->taints & 2 ? "\"t1\"" : "");
    }

    if ((bits & 0x40) && worker->replay != 0) {
        sel_buf_printf(&text, ",\"replay_endpoint\":\"tcp://h:%u\"",
                       worker->replay);
    }

    sel_buf_byte(&text, '}');
}


static inline void
expect_lifecycle(world_t *world, uint32_t id)
{
    world_expect(world, model.workers[id].schedulable
                        ? "\"lifecycle\":\"schedulable\""
                        : "\"lifecycle\":\"incomplete\"");
}


static inline void
step_post(uint32_t w)
{
    uint32_t        id;
    model_worker_t  next;

    id = below(MODEL_WORKERS);
    memset(&next, 0, sizeof(next));
    (void) change_worker(&next, true);
    next.partition = model.workers[id].exists && below(5)
                     ? model.workers[id].partition : below(MODEL_PARTITIONS);

    text.len = 0;
    sel_buf_printf(&text, "{\"worker_id\":%u,\"model_name\":\"%s\","
                   "\"routing_group\":\"%s\",", id,
                   model_names[next.partition][0],
                   model_names[next.partition][1]);
    print_worker(&next, 0xff);

    if (!world_post(&worlds[w], ended())) {
        fail_msg("%s: %s", (char *) text.data, worlds[w].fault.text);
    }

    model_commit(&model, id, &next);
    expect_lifecycle(&worlds[w], id);
    model_look(&model, w);
}


static inline void
step_patch(uint32_t w)
{
    bool            done;
    uint32_t        id, bits;
    model_worker_t  next;

    id = below(MODEL_WORKERS);
    next = model.workers[id];
    bits = change_worker(&next, false);

    text.len = 0;
    sel_buf_byte(&text, '{');
    print_worker(&next, bits);
    done = world_patch(&worlds[w], id, ended());
    assert_true(done == model.workers[id].exists);

    if (done) {
        model_commit(&model, id, &next);
        expect_lifecycle(&worlds[w], id);
        model_look(&model, w);

    } else {
        world_expect_fault(&worlds[w], SEL_FAULT_NOT_FOUND, NULL);
    }
}


static inline void
step_delete(uint32_t w)
{
    uint32_t  id;

    id = below(MODEL_WORKERS);
    assert_true(world_delete(&worlds[w], id) == model.workers[id].exists);

    if (model.workers[id].exists) {
        model_delete(&model, id);
        model_look(&model, w);
    }
}


/* Too many ranks for the zone: refused, and nothing has happened. */
static inline void
step_full(uint32_t w)
{
    text.len = 0;
    sel_buf_printf(&text, "{\"worker_id\":%u,\"model_name\":\"m\","
                   "\"endpoint\":\"e\",\"block_size\":16,"
                   "\"data_parallel_size\":1000}", below(MODEL_WORKERS));
    worlds[w].service.settings.kv_events = false;
    assert_false(world_post(&worlds[w], ended()));
    worlds[w].service.settings.kv_events = true;
    world_expect_fault(&worlds[w], SEL_FAULT_FULL, NULL);
}


#endif /* SERVICE_RANDOM_H */
