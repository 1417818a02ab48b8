/*
 * What the tests of reservations share: two processes on one zone, workers,
 * and what is expected of both.  Include after cmocka.h.
 */

#ifndef RESERVE_TEST_H
#define RESERVE_TEST_H

#include "index/sel_index_check.h"
#include "state/sel_decisions.h"
#include "state_test.h"
#include "service_expect.h"


#define EAST    "\"model_name\":\"llama\",\"routing_group\":\"east\""
#define IN_EAST "model=llama routing_group=east"
#define IN_WEST "model=llama routing_group=west"
#define SEVEN                                                                 \
    "{\"worker_id\":7," EAST ",\"endpoint\":\"http://10.0.0.7:8000\","        \
    "\"block_size\":16,\"data_parallel_size\":2}"
#define EIGHT                                                                 \
    "{\"worker_id\":8," EAST ",\"endpoint\":\"http://10.0.0.8:8000\","        \
    "\"block_size\":16,\"data_parallel_start_rank\":3}"
#define HASHES  "\"block_hashes\":[101,102],\"sequence_hashes\":[201,202],"   \
                "\"isl_tokens\":33"


#define ID(id)    "\"selection_id\":\"" id "\""
#define TO(w, r)  "\"worker_id\":" w ",\"dp_rank\":" r
#define TAKEN(id) "selection " id " is already reserved or being reserved"
#define NO_PENDING(id, partition)                                             \
    "no pending selection " id " for " partition                              \
    " (expired, already used, or never selected)"


static sel_zone_t  zone;
static world_t     a, b;


static inline void
worlds_begin(size_t size, bool kv_events)
{
    state_private(&zone, size);
    world_init(&a, &zone, 0, kv_events);
    world_init(&b, &zone, 1, kv_events);
}


static inline int
worlds_end(void **state)
{
    state_check(&zone);
    assert_null(sel_index_check(a.service.index));
    assert_null(sel_index_check(b.service.index));
    world_free(&a);
    world_free(&b);
    state_private_free(&zone);

    return 0;
}


/* An operation that must not fail. */
static inline void
must(world_t *world, bool done)
{
    if (!done) {
        fail_msg("fault %d \"%s\"", world->fault.class, world->fault.text);
    }
}


static inline void
refused(world_t *world, bool done, sel_fault_class_t class, const char *text)
{
    if (done) {
        fail_msg("done, expected \"%s\"", text);
    }

    world_expect_fault(world, class, text);
}


static inline void
expect_text(const char *got, const char *expected)
{
    if (strcmp(got, expected) != 0) {
        fail_msg("%s, expected %s", got, expected);
    }
}


/* The loads of all ranks, as both processes tell them: "7/0 1 40 2" for
   worker, rank, requests, tokens, blocks, joined by commas. */
static inline void
expect_loads(const char *expected)
{
    size_t     i, k, n;
    json_t    *root, *partition, *row;
    world_t   *worlds[] = { &a, &b };
    sel_buf_t  text;

    for (n = 0; n < 2; n++) {
        world_loads(worlds[n], NULL, NULL);
        root = world_json(worlds[n]);
        sel_buf_init(&text);

        json_array_foreach(root, i, partition) {
            json_array_foreach(json_object_get(partition, "loads"), k, row) {
                sel_buf_printf(&text, "%s%d/%d %d %d %d",
                    text.len != 0 ? ", " : "",
                    (int) json_integer_value(json_object_get(row,
                                                 "worker_id")),
                    (int) json_integer_value(json_object_get(row, "dp_rank")),
                    (int) json_integer_value(json_object_get(row,
                                                 "active_requests")),
                    (int) json_integer_value(json_object_get(row,
                                                 "potential_prefill_tokens")),
                    (int) json_integer_value(json_object_get(row,
                                                 "potential_decode_blocks")));
            }
        }

        sel_buf_byte(&text, 0);
        expect_text((char *) text.data, expected);
        sel_buf_free(&text);
        json_decref(root);
    }
}


#endif /* RESERVE_TEST_H */
