/*
 * What is expected of a process of the service: answers, faults, what its
 * host was told, the blocks that it knows of.  Include after cmocka.h and
 * state_test.h.
 */

#ifndef SERVICE_EXPECT_H
#define SERVICE_EXPECT_H

#include <jansson.h>

#include "service_calls.h"


/* The answer as JSON; free it.  Numbers must fit jansson's 63 bits. */
static inline json_t *
world_json(const world_t *world)
{
    json_t        *root;
    json_error_t   error;

    root = json_loads(world_text(world), JSON_REJECT_DUPLICATES, &error);

    if (root == NULL) {
        fail_msg("%s: %s", error.text, world_text(world));
    }

    return root;
}


static inline void
world_expect_fault(const world_t *world, sel_fault_class_t class,
    const char *text)
{
    if (world->fault.class != class
        || (text != NULL && strcmp(world->fault.text, text) != 0))
    {
        fail_msg("fault %d \"%s\", expected %d \"%s\"", world->fault.class,
                 world->fault.text, class, text != NULL ? text : "*");
    }
}


/* The answer holds these words, or does not. */
static inline void
world_expect(const world_t *world, const char *words)
{
    if (strstr(world_text(world), words) == NULL) {
        fail_msg("%s is not in %s", words, world_text(world));
    }
}


static inline void
world_expect_not(const world_t *world, const char *words)
{
    if (strstr(world_text(world), words) != NULL) {
        fail_msg("%s is in %s", words, world_text(world));
    }
}


/* What the host was told since world_forget(), as "+7/0 -7/1". */
static inline void
world_expect_events(world_t *world, const char *expected)
{
    char      text[WORLD_EVENTS * 32];
    size_t    len;
    uint32_t  i;

    len = 0;
    text[0] = '\0';

    for (i = 0; i < world->n_events && i < WORLD_EVENTS; i++) {
        len += (size_t) snprintf(&text[len], sizeof(text) - len,
                                 "%s%c%" PRIu64 "/%" PRIu32,
                                 i != 0 ? " " : "",
                                 world->events[i].added ? '+' : '-',
                                 world->events[i].worker_id,
                                 world->events[i].dp_rank);
    }

    if (strcmp(text, expected) != 0) {
        fail_msg("the host was told \"%s\", expected \"%s\"", text,
                 expected);
    }

    world_forget(world);
}


/*
 * The device blocks that a rank has of the prompt first, first + 1, ... of n
 * blocks; -1: the rank has no row.
 */
static inline int
world_blocks(world_t *world, const char *model_name, const char *group,
    uint64_t worker_id, uint32_t dp_rank, uint64_t first, uint32_t n)
{
    int        blocks;
    json_t    *root, *row;
    size_t     i;
    uint32_t   k;
    sel_buf_t  text;

    sel_buf_init(&text);
    sel_buf_printf(&text, "{\"model_name\":\"%s\",\"routing_group\":\"%s\","
                   "\"isl_tokens\":%u,\"block_hashes\":[", model_name, group,
                   n * 16);

    for (k = 0; k < n; k++) {
        sel_buf_printf(&text, "%s%" PRIu64, k != 0 ? "," : "", first + k);
    }

    sel_buf_text(&text, "],\"sequence_hashes\":[");

    for (k = 0; k < n; k++) {
        sel_buf_printf(&text, "%s%u", k != 0 ? "," : "", k);
    }

    sel_buf_text(&text, "]}");
    sel_buf_byte(&text, 0);

    if (!world_scores(world, (const char *) text.data)) {
        fail_msg("%s", world->fault.text);
    }

    sel_buf_free(&text);
    root = world_json(world);
    blocks = -1;

    json_array_foreach(json_object_get(root, "workers"), i, row) {
        if ((uint64_t) json_integer_value(json_object_get(row, "worker_id"))
            == worker_id
            && json_integer_value(json_object_get(row, "dp_rank")) == dp_rank)
        {
            blocks = (int) json_integer_value(json_object_get(row,
                                                  "device_blocks"));
        }
    }

    json_decref(root);

    return blocks;
}


/* Both list the same workers. */
static inline void
world_same(world_t *a, world_t *b)
{
    if (strcmp(world_list(a, NULL, NULL), world_list(b, NULL, NULL)) != 0) {
        fail_msg("one lists %s, the other %s", world_text(a), world_text(b));
    }
}


/* The reasons in the answer, separated by " | ", "" when there are none. */
static inline void
world_expect_reasons(const world_t *world, const char *expected)
{
    size_t       i;
    json_t      *root, *reasons, *reason;
    sel_buf_t    text;
    const char  *lifecycle;

    root = world_json(world);
    reasons = json_object_get(root, "not_schedulable_reasons");
    lifecycle = json_string_value(json_object_get(root, "lifecycle"));
    sel_buf_init(&text);

    json_array_foreach(reasons, i, reason) {
        sel_buf_text(&text, i != 0 ? " | " : "");
        sel_buf_text(&text, json_string_value(reason));
    }

    sel_buf_byte(&text, 0);

    if (strcmp((char *) text.data, expected) != 0) {
        fail_msg("reasons: %s\nexpected: %s", (char *) text.data, expected);
    }

    assert_true((reasons == NULL) == (expected[0] == '\0'));
    assert_string_equal(lifecycle, expected[0] == '\0' ? "schedulable"
                                                       : "incomplete");
    sel_buf_free(&text);
    json_decref(root);
}


#endif /* SERVICE_EXPECT_H */
