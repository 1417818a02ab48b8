#include <stdlib.h>
#include "service/sel_worker.h"


static bool sel_worker_rank_map(sel_json_t *json, void *field);
static bool sel_worker_text_map(sel_json_t *json, void *field);
static bool sel_worker_map(sel_json_t *json, sel_map_t *map, bool by_rank);
static bool sel_worker_rank(sel_json_t *json, sel_str_t key, uint32_t *rank);
static int sel_worker_compare_entries(const void *one, const void *two);
static bool sel_worker_taints(sel_json_t *json, void *field);
static int sel_worker_compare_texts(const void *one, const void *two);


const char *const  sel_worker_enforcements[] = {
    "required", "preferred", NULL
};


#define SEL_WORKER_ROW(kind, flags, field)                                    \
    #field, kind, flags, offsetof(sel_worker_t, field)

/* in the order of sel_worker_member_t */

static const sel_json_member_t  sel_worker_members[] = {

    { SEL_WORKER_ROW(SEL_JSON_M_STRING, 0, endpoint), NULL, NULL, NULL },

    { SEL_WORKER_ROW(SEL_JSON_M_STRING, 0, kv_events_endpoint),
      NULL, NULL, NULL },

    { SEL_WORKER_ROW(SEL_JSON_M_CALL, SEL_JSON_NOT_NULL, kv_events_endpoints),
      NULL, NULL, sel_worker_rank_map },

    { SEL_WORKER_ROW(SEL_JSON_M_STRING, 0, replay_endpoint),
      NULL, NULL, NULL },

    { SEL_WORKER_ROW(SEL_JSON_M_U32, 0, block_size), NULL, NULL, NULL },

    { "data_parallel_start_rank", SEL_JSON_M_U32, 0,
      offsetof(sel_worker_t, start_rank), NULL, NULL, NULL },

    { "data_parallel_size", SEL_JSON_M_U32, 0,
      offsetof(sel_worker_t, dp_size), NULL, NULL, NULL },

    { SEL_WORKER_ROW(SEL_JSON_M_U64, 0, max_num_batched_tokens),
      NULL, NULL, NULL },

    { SEL_WORKER_ROW(SEL_JSON_M_U64, 0, total_kv_blocks), NULL, NULL, NULL },

    { SEL_WORKER_ROW(SEL_JSON_M_STRING, 0, stable_routing_id),
      NULL, NULL, NULL },

    { SEL_WORKER_ROW(SEL_JSON_M_BOOL, 0, is_eagle), NULL, NULL, NULL },

    { SEL_WORKER_ROW(SEL_JSON_M_CALL, SEL_JSON_NOT_NULL, taints),
      NULL, NULL, sel_worker_taints },

    { SEL_WORKER_ROW(SEL_JSON_M_CALL, SEL_JSON_NOT_NULL, topology_domains),
      NULL, NULL, sel_worker_text_map },

    { SEL_WORKER_ROW(SEL_JSON_M_STRING, 0, kv_transfer_domain),
      NULL, NULL, NULL },

    { SEL_WORKER_ROW(SEL_JSON_M_ENUM, 0, kv_transfer_enforcement),
      sel_worker_enforcements, NULL, NULL },

    { SEL_WORKER_ROW(SEL_JSON_M_F32, 0, kv_transfer_preferred_weight),
      NULL, NULL, NULL },

    { SEL_WORKER_ROW(SEL_JSON_M_STRING, 0, router_hint_worker_type),
      NULL, NULL, NULL },

    { SEL_WORKER_ROW(SEL_JSON_M_CALL, SEL_JSON_NOT_NULL,
                     router_hint_source_control_endpoints),
      NULL, NULL, sel_worker_rank_map },

    { SEL_WORKER_ROW(SEL_JSON_M_STRING, 0, kv_event_source_mode),
      NULL, NULL, NULL },

    { SEL_WORKER_ROW(SEL_JSON_M_U64, SEL_JSON_REQUIRED|SEL_JSON_NOT_NULL,
                     worker_id),
      NULL, NULL, NULL },

    { SEL_WORKER_ROW(SEL_JSON_M_STRING, SEL_JSON_NOT_NULL, model_name),
      NULL, NULL, NULL },

    { SEL_WORKER_ROW(SEL_JSON_M_STRING, SEL_JSON_NOT_NULL, routing_group),
      NULL, NULL, NULL }
};

_Static_assert(sel_countof(sel_worker_members) == SEL_WORKER_MEMBERS,
               "a row for each member of a worker record");


static const sel_json_struct_t  sel_worker_struct = {
    "struct WorkerRegistration", sel_worker_members, SEL_WORKER_MEMBERS,
    offsetof(sel_worker_t, given), NULL
};


const char *
sel_worker_member_name(sel_worker_member_t member)
{
    return sel_worker_members[member].name;
}


bool
sel_worker_read(sel_json_t *json, sel_worker_t *worker)
{
    *worker = (sel_worker_t) { 0 };

    worker->model_name = sel_str("default");
    worker->routing_group = sel_str("default");
    worker->dp_size = 1;

    return sel_json_read_struct(json, &sel_worker_struct, worker);
}


/*
 * In a PATCH the maps may be null as well, and null leaves a member as it is.
 */

bool
sel_worker_read_patch(sel_json_t *json, sel_worker_t *worker)
{
    uint32_t           i;
    sel_json_member_t  members[SEL_WORKER_PATCHED];
    sel_json_struct_t  patch;

    *worker = (sel_worker_t) { 0 };

    for (i = 0; i < SEL_WORKER_PATCHED; i++) {
        members[i] = sel_worker_members[i];
        members[i].flags = 0;
    }

    patch = sel_worker_struct;
    patch.expected = "struct WorkerPatch";
    patch.members = members;
    patch.n = SEL_WORKER_PATCHED;

    return sel_json_read_struct(json, &patch, worker);
}


static bool
sel_worker_rank_map(sel_json_t *json, void *field)
{
    return sel_worker_map(json, field, true);
}


static bool
sel_worker_text_map(sel_json_t *json, void *field)
{
    return sel_worker_map(json, field, false);
}


static bool
sel_worker_map(sel_json_t *json, sel_map_t *map, bool by_rank)
{
    int               rc;
    uint32_t          i, n, cap;
    sel_map_entry_t   entry, *data;

    n = cap = 0;
    data = NULL;
    entry.rank = 0;

    if (!sel_json_object_begin(json)) {
        return false;
    }

    while ((rc = sel_json_object_next(json, &entry.key)) == 1) {

        if ((by_rank && !sel_worker_rank(json, entry.key, &entry.rank))
            || !sel_json_string(json, &entry.value))
        {
            return false;
        }

        if (n == cap) {
            data = sel_arena_grow(json->arena, data, cap * sizeof(entry),
                                  (cap * 2 + 4) * sizeof(entry));
            if (data == NULL) {
                json->status = SEL_JSON_NO_MEMORY;
                return false;
            }

            cap = cap * 2 + 4;
        }

        entry.order = n;
        data[n++] = entry;
    }

    if (n > 1) {
        qsort(data, n, sizeof(entry), sel_worker_compare_entries);
    }

    /* of equal keys the last one stays, as in any map */

    map->n = 0;
    map->data = data;

    for (i = 0; i < n; i++) {
        if (i + 1 == n || !sel_str_eq(data[i].key, data[i + 1].key)) {
            data[map->n++] = data[i];
        }
    }

    return rc == 0;
}


static bool
sel_worker_rank(sel_json_t *json, sel_str_t key, uint32_t *rank)
{
    size_t    i;
    uint64_t  value;

    value = 0;

    for (i = 0; i < key.len && value <= UINT32_MAX; i++) {
        if (key.data[i] < '0' || key.data[i] > '9') {
            break;
        }

        value = value * 10 + (key.data[i] - '0');
    }

    if (i == 0 || i < key.len || value > UINT32_MAX
        || (key.len > 1 && key.data[0] == '0'))
    {
        return sel_json_fail(json, "invalid value: string \"%.*s\", "
                             "expected u32 as a map key",
                             (int) (key.len < 64 ? key.len : 64),
                             (const char *) key.data);
    }

    *rank = (uint32_t) value;

    return true;
}


static int
sel_worker_compare_entries(const void *one, const void *two)
{
    int                     rc;
    const sel_map_entry_t  *a, *b;

    a = one;
    b = two;

    if (a->rank != b->rank) {
        return a->rank < b->rank ? -1 : 1;
    }

    rc = sel_str_cmp(a->key, b->key);

    return rc ? rc : (a->order > b->order) - (a->order < b->order);
}


static bool
sel_worker_taints(sel_json_t *json, void *field)
{
    uint32_t         i, n;
    sel_str_list_t  *list;

    list = field;

    if (!sel_json_string_list(json, list)) {
        return false;
    }

    if (list->n > 1) {
        qsort(list->data, list->n, sizeof(sel_str_t),
              sel_worker_compare_texts);
    }

    for (i = 0, n = 0; i < list->n; i++) {
        if (n == 0 || !sel_str_eq(list->data[n - 1], list->data[i])) {
            list->data[n++] = list->data[i];
        }
    }

    list->n = n;

    return true;
}


static int
sel_worker_compare_texts(const void *one, const void *two)
{
    return sel_str_cmp(*(const sel_str_t *) one, *(const sel_str_t *) two);
}


void
sel_worker_patch(sel_worker_t *worker, const sel_worker_t *patch)
{
    sel_worker_t  old;

    old = *worker;
    *worker = *patch;

    worker->worker_id = old.worker_id;
    worker->model_name = old.model_name;
    worker->routing_group = old.routing_group;

#define keep(member, field)                                                   \
    if (!sel_worker_has(patch, member)) {                                     \
        worker->field = old.field;                                            \
    }

    keep(SEL_WORKER_ENDPOINT, endpoint)
    keep(SEL_WORKER_EVENTS_ENDPOINT, kv_events_endpoint)
    keep(SEL_WORKER_EVENTS_ENDPOINTS, kv_events_endpoints)
    keep(SEL_WORKER_REPLAY_ENDPOINT, replay_endpoint)
    keep(SEL_WORKER_BLOCK_SIZE, block_size)
    keep(SEL_WORKER_START_RANK, start_rank)
    keep(SEL_WORKER_DP_SIZE, dp_size)
    keep(SEL_WORKER_MAX_BATCHED_TOKENS, max_num_batched_tokens)
    keep(SEL_WORKER_KV_BLOCKS, total_kv_blocks)
    keep(SEL_WORKER_STABLE_ID, stable_routing_id)
    keep(SEL_WORKER_IS_EAGLE, is_eagle)
    keep(SEL_WORKER_TAINTS, taints)
    keep(SEL_WORKER_TOPOLOGY, topology_domains)
    keep(SEL_WORKER_TRANSFER_DOMAIN, kv_transfer_domain)
    keep(SEL_WORKER_TRANSFER_ENFORCEMENT, kv_transfer_enforcement)
    keep(SEL_WORKER_TRANSFER_WEIGHT, kv_transfer_preferred_weight)
    keep(SEL_WORKER_HINT_TYPE, router_hint_worker_type)
    keep(SEL_WORKER_HINT_ENDPOINTS, router_hint_source_control_endpoints)
    keep(SEL_WORKER_EVENT_MODE, kv_event_source_mode)

#undef keep

    worker->given |= old.given;
}


uint32_t
sel_worker_end_rank(const sel_worker_t *worker)
{
    uint64_t  end;

    end = (uint64_t) worker->start_rank + worker->dp_size;

    return end > UINT32_MAX ? UINT32_MAX : (uint32_t) end;
}


sel_str_t
sel_worker_events_endpoint(const sel_worker_t *worker, uint32_t dp_rank)
{
    uint32_t          low, high, middle;
    const sel_map_t  *map;

    map = &worker->kv_events_endpoints;

    if (map->n == 0) {
        return worker->dp_size == 1 ? worker->kv_events_endpoint
                                    : (sel_str_t) { 0, NULL };
    }

    low = 0;
    high = map->n;

    while (low < high) {
        middle = low + (high - low) / 2;

        if (map->data[middle].rank < dp_rank) {
            low = middle + 1;

        } else {
            high = middle;
        }
    }

    if (low < map->n && map->data[low].rank == dp_rank) {
        return map->data[low].value;
    }

    return (sel_str_t) { 0, NULL };
}
