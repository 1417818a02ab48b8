/*
 * Random worker records: what is read is what was written, and printing,
 * reading and printing again changes nothing.  The zone keeps records in
 * their printed form, so without it a process could see another record than
 * the one that was registered.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "sel_rand.h"
#include "service/sel_worker.h"


#define ROUNDS  4000
#define MAX     12


typedef struct {
    enum { TEXT, MAP, U32, U64, BOOL, TAINTS, WORD, F32 }  kind;
    size_t                                                 offset;
} row_t;

#define ROW(member, kind, field)                                              \
    [SEL_WORKER_##member] = { kind, offsetof(sel_worker_t, field) }

static const row_t  rows[SEL_WORKER_MEMBERS] = {
    ROW(ID, U64, worker_id),
    ROW(MODEL, TEXT, model_name),
    ROW(GROUP, TEXT, routing_group),
    ROW(ENDPOINT, TEXT, endpoint),
    ROW(EVENTS_ENDPOINT, TEXT, kv_events_endpoint),
    ROW(EVENTS_ENDPOINTS, MAP, kv_events_endpoints),
    ROW(REPLAY_ENDPOINT, TEXT, replay_endpoint),
    ROW(BLOCK_SIZE, U32, block_size),
    ROW(START_RANK, U32, start_rank),
    ROW(DP_SIZE, U32, dp_size),
    ROW(MAX_BATCHED_TOKENS, U64, max_num_batched_tokens),
    ROW(KV_BLOCKS, U64, total_kv_blocks),
    ROW(STABLE_ID, TEXT, stable_routing_id),
    ROW(IS_EAGLE, BOOL, is_eagle),
    ROW(TAINTS, TAINTS, taints),
    ROW(TOPOLOGY, MAP, topology_domains),
    ROW(TRANSFER_DOMAIN, TEXT, kv_transfer_domain),
    ROW(TRANSFER_ENFORCEMENT, WORD, kv_transfer_enforcement),
    ROW(TRANSFER_WEIGHT, F32, kv_transfer_preferred_weight),
    ROW(HINT_TYPE, TEXT, router_hint_worker_type),
    ROW(HINT_ENDPOINTS, MAP, router_hint_source_control_endpoints),
    ROW(EVENT_MODE, TEXT, kv_event_source_mode)
};


/* maps that are left out when they are empty */
#define UNPRINTED                                                             \
    (UINT64_C(1) << SEL_WORKER_EVENTS_ENDPOINTS                               \
     | UINT64_C(1) << SEL_WORKER_HINT_ENDPOINTS)


static sel_rand_t    rnd;
static sel_arena_t   arena;
static sel_buf_t     text;
static sel_worker_t  made;      /* what is expected; lists as written */
static uint32_t      order[SEL_WORKER_MEMBERS];


static int
setup(void **state)
{
    rnd.state = sel_rand_seed("worker_random");

    return 0;
}


static sel_str_t
some_text(void)
{
    size_t      n;
    sel_str_t   str;
    uint8_t    *data, *p;

    static const char *const  chars[] = {
        "a", "b", "\"", "\\", "/", "\n", "\x01", "\x7f", "\xc3\xa9",
        "\xe2\x82\xac", "\xed\x9f\xbf", "\xf0\x9f\x98\x80",
        "\xf4\x8f\xbf\xbf", " ", "0"
    };

    n = sel_rand_below(&rnd, 4) ? sel_rand_below(&rnd, 6)
                                : sel_rand_below(&rnd, 300);
    data = p = sel_arena_alloc(&arena, 4 * n + 1);
    assert_non_null(data);

    while (n-- != 0) {
        if (sel_rand_below(&rnd, 40) == 0) {
            *p++ = 0;
            continue;
        }

        str = sel_cstr(chars[sel_rand_below(&rnd, sel_countof(chars))]);
        memcpy(p, str.data, str.len);
        p += str.len;
    }

    return (sel_str_t) { (size_t) (p - data), data };
}


static float
some_float(void)
{
    float     value;
    uint32_t  bits;

    do {
        bits = (uint32_t) sel_rand(&rnd);
        memcpy(&value, &bits, sizeof(value));
    } while (!isfinite(value));

    return value;
}


/* Entries as they are written: keys may repeat. */
static void
some_map(sel_map_t *map, bool ranks)
{
    char      digits[16];
    uint32_t  i;

    map->n = (uint32_t) sel_rand_below(&rnd, MAX);
    map->data = sel_arena_zalloc(&arena, (map->n + 1) * sizeof(*map->data));
    assert_non_null(map->data);

    for (i = 0; i < map->n; i++) {
        map->data[i].rank = sel_rand(&rnd) & 1
                            ? (uint32_t) sel_rand_below(&rnd, 8)
                            : (uint32_t) sel_rand_wide(&rnd);
        (void) snprintf(digits, sizeof(digits), "%" PRIu32,
                        map->data[i].rank);
        map->data[i].key = ranks ? sel_arena_str(&arena, sel_cstr(digits))
                                 : some_text();
        map->data[i].value = some_text();
    }
}


static void
some_worker(void)
{
    uint32_t  i;

    memset(&made, 0, sizeof(made));
    made.given = sel_rand(&rnd) & ((UINT64_C(1) << SEL_WORKER_MEMBERS) - 1);
    made.given |= UINT64_C(1) << SEL_WORKER_ID;

    made.worker_id = sel_rand_wide(&rnd);
    made.model_name = some_text();
    made.routing_group = some_text();
    made.endpoint = some_text();
    made.kv_events_endpoint = some_text();
    some_map(&made.kv_events_endpoints, true);
    made.replay_endpoint = some_text();
    made.block_size = (uint32_t) sel_rand_wide(&rnd);
    made.start_rank = (uint32_t) sel_rand_wide(&rnd);
    made.dp_size = (uint32_t) sel_rand_wide(&rnd);
    made.max_num_batched_tokens = sel_rand_wide(&rnd);
    made.total_kv_blocks = sel_rand_wide(&rnd);
    made.stable_routing_id = some_text();
    made.is_eagle = sel_rand(&rnd) & 1;
    made.kv_transfer_domain = some_text();
    made.kv_transfer_enforcement = sel_rand(&rnd) & 1;
    made.kv_transfer_preferred_weight = some_float();
    made.router_hint_worker_type = some_text();
    some_map(&made.router_hint_source_control_endpoints, true);
    some_map(&made.topology_domains, false);
    made.kv_event_source_mode = some_text();

    made.taints.n = (uint32_t) sel_rand_below(&rnd, MAX);
    made.taints.data = sel_arena_alloc(&arena, MAX * sizeof(sel_str_t));
    assert_non_null(made.taints.data);

    for (i = 0; i < made.taints.n; i++) {
        made.taints.data[i] = i != 0 && sel_rand(&rnd) & 1
                              ? made.taints.data[sel_rand_below(&rnd, i)]
                              : some_text();
    }

}


static void
shuffle(void)
{
    uint32_t  i, k, swap;

    for (i = 0; i < SEL_WORKER_MEMBERS; i++) {
        order[i] = i;
    }

    for (i = SEL_WORKER_MEMBERS; i > 1; i--) {
        k = (uint32_t) sel_rand_below(&rnd, i);
        swap = order[k];
        order[k] = order[i - 1];
        order[i - 1] = swap;
    }
}


static void
write_map(sel_json_out_t *out, const sel_map_t *map)
{
    uint32_t  i;

    sel_json_out_object(out);

    for (i = 0; i < map->n; i++) {
        sel_json_out_key_str(out, map->data[i].key);
        sel_json_out_str(out, map->data[i].value);
    }

    sel_json_out_object_end(out);
}


static void
write_taints(sel_json_out_t *out)
{
    uint32_t  i;

    sel_json_out_array(out);

    for (i = 0; i < made.taints.n; i++) {
        sel_json_out_str(out, made.taints.data[i]);
    }

    sel_json_out_array_end(out);
}


static void
write_member(sel_json_out_t *out, sel_worker_member_t member)
{
    const void  *field;

    field = (const uint8_t *) &made + rows[member].offset;

    switch (rows[member].kind) {
    case TEXT:
        sel_json_out_str(out, *(const sel_str_t *) field);
        break;
    case MAP:
        write_map(out, field);
        break;
    case U32:
        sel_json_out_u64(out, *(const uint32_t *) field);
        break;
    case U64:
        sel_json_out_u64(out, *(const uint64_t *) field);
        break;
    case BOOL:
        sel_json_out_bool(out, *(const bool *) field);
        break;
    case TAINTS:
        write_taints(out);
        break;
    case WORD:
        sel_json_out_text(out, *(const uint32_t *) field ? "preferred"
                                                         : "required");
        break;
    case F32:
        sel_json_out_f32(out, *(const float *) field);
    }
}


static void
write_worker(void)
{
    uint32_t        i;
    sel_json_out_t  out;

    text.len = 0;
    shuffle();
    sel_json_out_init(&out, &text);
    sel_json_out_object(&out);

    for (i = 0; i < SEL_WORKER_MEMBERS; i++) {

        if (sel_rand_below(&rnd, 10) == 0) {
            sel_json_out_key(&out, "unknown");
            sel_json_out_array(&out);
            sel_json_out_array_end(&out);
        }

        if ((made.given >> order[i] & 1) != 0) {
            sel_json_out_key(&out, sel_worker_member_name(order[i]));
            write_member(&out, order[i]);
        }
    }

    sel_json_out_object_end(&out);
    assert_false(text.failed);
}


/* The entries of a map: the last of each key, every key once. */
static void
same_map(const sel_map_t *got, const sel_map_t *written, bool given,
    bool ranks)
{
    uint32_t  i, k, n;

    n = given ? written->n : 0;

    for (i = 1; i < got->n; i++) {
        if (ranks ? got->data[i - 1].rank >= got->data[i].rank
                  : sel_str_cmp(got->data[i - 1].key, got->data[i].key) >= 0)
        {
            fail_msg("keys out of order");
        }
    }

    for (i = 0; i < got->n; i++) {
        for (k = n; k != 0; k--) {
            if (sel_str_eq(written->data[k - 1].key, got->data[i].key)) {
                break;
            }
        }

        assert_true(k != 0);
        assert_true(sel_str_eq(written->data[k - 1].value,
                               got->data[i].value));
        assert_true(!ranks || got->data[i].rank == written->data[k - 1].rank);
    }

    for (k = 0; k < n; k++) {
        for (i = 0; i < got->n; i++) {
            if (sel_str_eq(written->data[k].key, got->data[i].key)) {
                break;
            }
        }

        assert_true(i < got->n);
    }
}


static void
same_taints(const sel_str_list_t *got)
{
    uint32_t  i, k, n;

    n = sel_worker_has(&made, SEL_WORKER_TAINTS) ? made.taints.n : 0;

    for (i = 1; i < got->n; i++) {
        assert_true(sel_str_cmp(got->data[i - 1], got->data[i]) < 0);
    }

    for (k = 0; k < n; k++) {
        for (i = 0; i < got->n; i++) {
            if (sel_str_eq(got->data[i], made.taints.data[k])) {
                break;
            }
        }

        assert_true(i < got->n);
    }

    assert_true(got->n <= n && (got->n != 0) == (n != 0));
}


#define SAME(member, field, absent)                                           \
    assert_true(got->field == (sel_worker_has(&made, SEL_WORKER_##member)     \
                               ? made.field : (absent)))

#define SAME_TEXT(member, field, absent)                                      \
    assert_true(sel_str_eq(got->field,                                        \
                           sel_worker_has(&made, SEL_WORKER_##member)         \
                           ? made.field : sel_cstr(absent)))

#define SAME_MAP(member, field, ranks)                                        \
    same_map(&got->field, &made.field,                                        \
             sel_worker_has(&made, SEL_WORKER_##member), ranks)


static void
same(const sel_worker_t *got)
{
    assert_true(got->worker_id == made.worker_id);
    SAME_TEXT(MODEL, model_name, "default");
    SAME_TEXT(GROUP, routing_group, "default");
    SAME_TEXT(ENDPOINT, endpoint, "");
    SAME_TEXT(EVENTS_ENDPOINT, kv_events_endpoint, "");
    SAME_MAP(EVENTS_ENDPOINTS, kv_events_endpoints, true);
    SAME_TEXT(REPLAY_ENDPOINT, replay_endpoint, "");
    SAME(BLOCK_SIZE, block_size, 0);
    SAME(START_RANK, start_rank, 0);
    SAME(DP_SIZE, dp_size, 1);
    SAME(MAX_BATCHED_TOKENS, max_num_batched_tokens, 0);
    SAME(KV_BLOCKS, total_kv_blocks, 0);
    SAME_TEXT(STABLE_ID, stable_routing_id, "");
    SAME(IS_EAGLE, is_eagle, false);
    same_taints(&got->taints);
    SAME_MAP(TOPOLOGY, topology_domains, false);
    SAME_TEXT(TRANSFER_DOMAIN, kv_transfer_domain, "");
    SAME(TRANSFER_WEIGHT, kv_transfer_preferred_weight, 0);
    SAME_TEXT(HINT_TYPE, router_hint_worker_type, "");
    SAME_MAP(HINT_ENDPOINTS, router_hint_source_control_endpoints, true);
    SAME_TEXT(EVENT_MODE, kv_event_source_mode, "");

    if (sel_worker_has(&made, SEL_WORKER_TRANSFER_ENFORCEMENT)) {
        assert_string_equal(
            sel_worker_enforcements[got->kv_transfer_enforcement],
            made.kv_transfer_enforcement ? "preferred" : "required");
    }
}


static void
read_text(sel_worker_t *worker)
{
    sel_json_t  json;

    sel_json_init_text(&json, &arena, sel_buf_view(&text));

    if (!sel_worker_read(&json, worker) || !sel_json_end(&json)) {
        fail_msg("%.*s: %s", (int) text.len, (char *) text.data,
                 json.message);
    }
}


static void
test_random(void **state)
{
    unsigned      round;
    uint64_t      given;
    sel_str_t     first;
    sel_worker_t  worker;

    for (round = 0; round < ROUNDS; round++) {
        sel_arena_init(&arena, 0);
        sel_buf_init(&text);

        some_worker();
        write_worker();
        read_text(&worker);
        assert_true(worker.given == made.given);
        same(&worker);

        text.len = 0;
        sel_worker_print(&text, &worker, "schedulable", NULL);
        first = sel_arena_str(&arena, sel_buf_view(&text));
        given = worker.given;

        memset(&worker, 0xa5, sizeof(worker));
        read_text(&worker);
        assert_true((given & ~worker.given & ~UNPRINTED) == 0);
        same(&worker);

        text.len = 0;
        sel_worker_print(&text, &worker, "schedulable", NULL);
        assert_true(sel_str_eq(first, sel_buf_view(&text)));

        sel_arena_free(&arena);
        sel_buf_free(&text);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_random)
    };

    return cmocka_run_group_tests_name("worker_random", tests, setup, NULL);
}
