/*
 * Multimodal members of a prompt.  Only the objects' hashes matter; their
 * offsets are checked and dropped.
 */

#include "service/sel_request_impl.h"


static bool sel_read_mm_block(sel_json_t *json, sel_mm_block_t *block);
static bool sel_read_mm_objects(sel_json_t *json, void *field);
static bool sel_read_offsets(sel_json_t *json, void *field);
static bool sel_read_offset(sel_json_t *json);


typedef struct {
    uint64_t  given;
    uint64_t  mm_hash;
} sel_mm_object_t;

static const sel_json_member_t  sel_mm_object_members[] = {
    { SEL_ROW(sel_mm_object_t, mm_hash, U64,
              SEL_JSON_REQUIRED|SEL_JSON_NOT_NULL), SEL_PLAIN },
    { "offsets", SEL_JSON_M_CALL, SEL_JSON_REQUIRED|SEL_JSON_NOT_NULL, 0,
      NULL, NULL, sel_read_offsets }
};

static const sel_json_struct_t  sel_mm_object_struct = {
    "struct BlockMmObjectInfo", sel_mm_object_members,
    sel_countof(sel_mm_object_members), offsetof(sel_mm_object_t, given),
    NULL
};


typedef struct {
    uint64_t        given;
    sel_mm_block_t  mm_objects;
} sel_mm_block_body_t;

static const sel_json_member_t  sel_mm_block_members[] = {
    { SEL_ROW(sel_mm_block_body_t, mm_objects, CALL,
              SEL_JSON_REQUIRED|SEL_JSON_NOT_NULL),
      NULL, NULL, sel_read_mm_objects }
};

static const sel_json_struct_t  sel_mm_block_struct = {
    "struct BlockExtraInfo", sel_mm_block_members,
    sel_countof(sel_mm_block_members), offsetof(sel_mm_block_body_t, given),
    NULL
};


typedef struct {
    uint64_t        given;
    sel_u32_list_t  routing_token_ids;
    sel_mm_list_t   block_mm_infos;
} sel_mm_routing_t;

static const sel_json_member_t  sel_mm_routing_members[] = {
    { SEL_ROW(sel_mm_routing_t, routing_token_ids, U32_LIST,
              SEL_JSON_REQUIRED|SEL_JSON_NOT_NULL), SEL_PLAIN },
    { SEL_ROW(sel_mm_routing_t, block_mm_infos, CALL, SEL_JSON_NOT_NULL),
      NULL, NULL, sel_read_mm_list }
};

static const sel_json_struct_t  sel_mm_routing_struct = {
    "struct MmRoutingInfo", sel_mm_routing_members,
    sel_countof(sel_mm_routing_members), offsetof(sel_mm_routing_t, given),
    NULL
};


bool
sel_read_mm_routing(sel_json_t *json, void *field)
{
    sel_mm_routing_t    info;
    sel_prompt_body_t  *prompt;

    prompt = field;
    info = (sel_mm_routing_t) { 0 };

    if (!sel_json_read_struct(json, &sel_mm_routing_struct, &info)) {
        return false;
    }

    prompt->routing_token_ids = info.routing_token_ids;
    prompt->routing_mm_infos = info.block_mm_infos;

    return true;
}


bool
sel_read_mm_list(sel_json_t *json, void *field)
{
    int              rc;
    sel_mm_list_t   *list;
    sel_mm_block_t  *blocks;

    list = field;

    if (!sel_json_array_begin(json)) {
        return false;
    }

    while ((rc = sel_json_array_next(json)) == 1) {
        blocks = sel_read_push(json, list->blocks, list->n, sizeof(*blocks));

        if (blocks == NULL) {
            return false;
        }

        list->blocks = blocks;

        if (!sel_read_mm_block(json, &blocks[list->n++])) {
            return false;
        }
    }

    return rc == 0;
}


static bool
sel_read_mm_block(sel_json_t *json, sel_mm_block_t *block)
{
    sel_mm_block_body_t  body;

    *block = (sel_mm_block_t) { 0, NULL };

    if (sel_json_peek(json) == SEL_JSON_NULL) {
        return sel_json_null(json);
    }

    body = (sel_mm_block_body_t) { 0 };

    if (!sel_json_read_struct(json, &sel_mm_block_struct, &body)) {
        return false;
    }

    *block = body.mm_objects;

    return true;
}


static bool
sel_read_mm_objects(sel_json_t *json, void *field)
{
    int               rc;
    uint64_t         *hashes;
    sel_mm_block_t   *list;
    sel_mm_object_t   object;

    list = field;

    if (!sel_json_array_begin(json)) {
        return false;
    }

    while ((rc = sel_json_array_next(json)) == 1) {
        object = (sel_mm_object_t) { 0 };

        if (!sel_json_read_struct(json, &sel_mm_object_struct, &object)) {
            return false;
        }

        hashes = sel_read_push(json, (void *) list->hashes, list->n,
                               sizeof(uint64_t));

        if (hashes == NULL) {
            return false;
        }

        hashes[list->n++] = object.mm_hash;
        list->hashes = hashes;
    }

    return rc == 0;
}


/* pairs of unsigned numbers */

static bool
sel_read_offsets(sel_json_t *json, void *field)
{
    int  rc;

    if (!sel_json_array_begin(json)) {
        return false;
    }

    while ((rc = sel_json_array_next(json)) == 1) {
        if (!sel_read_offset(json)) {
            return false;
        }
    }

    return rc == 0;
}


static bool
sel_read_offset(sel_json_t *json)
{
    int       rc;
    uint32_t  n;
    uint64_t  value;

    if (!sel_json_array_begin(json)) {
        return false;
    }

    for (n = 0; (rc = sel_json_array_next(json)) == 1; n++) {
        if (!sel_json_u64(json, &value)) {
            return false;
        }
    }

    if (rc == 0 && n != 2) {
        return sel_json_fail(json, "invalid length %u, expected a tuple of "
                             "size 2", n);
    }

    return rc == 0;
}


void *
sel_read_push(sel_json_t *json, void *data, uint32_t n, size_t size)
{
    if (n != 0 && (n & (n - 1)) != 0) {
        return data;
    }

    data = sel_arena_grow(json->arena, data, n * size,
                          n == 0 ? size : 2 * n * size);
    if (data == NULL) {
        json->status = SEL_JSON_NO_MEMORY;
    }

    return data;
}
