#include <math.h>
#include "service/sel_request_impl.h"


static bool sel_read_required(sel_json_t *json, void *field);
static bool sel_read_preferred(sel_json_t *json, void *field);
static bool sel_read_agent_headers(sel_json_t *json, void *field);
static bool sel_read_strings(sel_json_t *json);
static bool sel_check_override(sel_json_t *json, void *record);
static bool sel_read_body(sel_json_t *json, sel_select_body_t *body,
    const char *name, const sel_json_member_t *members, uint32_t n);


static const sel_json_member_t  sel_override_members[] = {
    { SEL_ROW(sel_override_t, overlap_score_credit, F64, 0), SEL_PLAIN },
    { SEL_ROW(sel_override_t, prefill_load_scale, F64, 0), SEL_PLAIN },
    { SEL_ROW(sel_override_t, router_temperature, F64, 0), SEL_PLAIN },
    { SEL_ROW(sel_override_t, assume_kv_reuse, BOOL, 0), SEL_PLAIN },
    { SEL_ROW(sel_override_t, track_prefill_tokens, BOOL, 0), SEL_PLAIN },
    { SEL_ROW(sel_override_t, shared_cache_multiplier, F64, 0), SEL_PLAIN },
    { SEL_ROW(sel_override_t, overlap_score_weight, F64, 0), SEL_PLAIN }
};

static const sel_json_struct_t  sel_override_struct = {
    "struct RouterConfigOverride", sel_override_members,
    sel_countof(sel_override_members), offsetof(sel_override_t, given),
    sel_check_override
};


static const sel_json_member_t  sel_pin_members[] = {
    { SEL_ROW(sel_target_t, worker_id, U64,
              SEL_JSON_REQUIRED|SEL_JSON_NOT_NULL), SEL_PLAIN },
    { SEL_ROW(sel_target_t, dp_rank, U32,
              SEL_JSON_REQUIRED|SEL_JSON_NOT_NULL), SEL_PLAIN }
};

static const sel_json_struct_t  sel_pin_struct = {
    "struct WorkerWithDpRank", sel_pin_members,
    sel_countof(sel_pin_members), offsetof(sel_target_t, given), NULL
};


static const sel_json_member_t  sel_target_members[] = {
    { SEL_ROW(sel_target_t, worker_id, U64,
              SEL_JSON_REQUIRED|SEL_JSON_NOT_NULL), SEL_PLAIN },
    { SEL_ROW(sel_target_t, dp_rank, U32, 0), SEL_PLAIN }
};

static const sel_json_struct_t  sel_target_struct = {
    "struct WorkerAffinityTarget", sel_target_members,
    sel_countof(sel_target_members), offsetof(sel_target_t, given), NULL
};


static const sel_json_member_t  sel_constraints_members[] = {
    { SEL_ROW(sel_constraints_t, required_taints, CALL, SEL_JSON_NOT_NULL),
      NULL, NULL, sel_read_required },
    { SEL_ROW(sel_constraints_t, preferred_taints, CALL, SEL_JSON_NOT_NULL),
      NULL, NULL, sel_read_preferred }
};

static const sel_json_struct_t  sel_constraints_struct = {
    "struct RoutingConstraints", sel_constraints_members,
    sel_countof(sel_constraints_members), offsetof(sel_constraints_t, given),
    NULL
};


static const char *const  sel_input_triggers[] = {
    "user_message", "tool_result", "other", NULL
};

static const sel_json_member_t  sel_session_members[] = {
    { SEL_ROW(sel_session_t, session_id, STRING,
              SEL_JSON_REQUIRED|SEL_JSON_NOT_NULL), SEL_PLAIN },
    { SEL_ROW(sel_session_t, parent_session_id, STRING, 0), SEL_PLAIN },
    { SEL_ROW(sel_session_t, session_final, BOOL, 0), SEL_PLAIN },
    { SEL_ROW(sel_session_t, input_trigger, ENUM, 0), sel_input_triggers,
      NULL, NULL },
    { "agent_headers", SEL_JSON_M_CALL, 0, 0, NULL, NULL,
      sel_read_agent_headers }
};

static const sel_json_struct_t  sel_session_struct = {
    "struct SelectionSessionContext", sel_session_members,
    sel_countof(sel_session_members), offsetof(sel_session_t, given), NULL
};


#define SEL_PROMPT_ROW(field, kind)                                           \
    #field, SEL_JSON_M_##kind, 0, offsetof(sel_select_body_t, prompt.field)

/* in the order of sel_prompt_member_t, then of sel_select_member_t */

#define SEL_COMMON_ROWS                                                       \
    { SEL_PROMPT_ROW(token_ids, U32_LIST), SEL_PLAIN },                       \
    { "mm_routing_info", SEL_JSON_M_CALL, 0,                                  \
      offsetof(sel_select_body_t, prompt), NULL, NULL, sel_read_mm_routing }, \
    { SEL_PROMPT_ROW(block_mm_infos, CALL), NULL, NULL, sel_read_mm_list },   \
    { SEL_PROMPT_ROW(block_hashes, HASH_LIST), SEL_PLAIN },                   \
    { SEL_PROMPT_ROW(sequence_hashes, HASH_LIST), SEL_PLAIN },                \
    { SEL_PROMPT_ROW(isl_tokens, U64), SEL_PLAIN },                           \
    { SEL_PROMPT_ROW(lora_name, STRING), SEL_PLAIN },                         \
    { SEL_PROMPT_ROW(cache_salt, STRING), SEL_PLAIN },                        \
    { SEL_PROMPT_ROW(is_eagle, BOOL), SEL_PLAIN },                            \
    { SEL_ROW(sel_select_body_t, model_name, STRING, SEL_JSON_NOT_NULL),      \
      SEL_PLAIN },                                                            \
    { SEL_ROW(sel_select_body_t, routing_group, STRING, SEL_JSON_NOT_NULL),   \
      SEL_PLAIN },                                                            \
    { "router_config_override", SEL_JSON_M_OBJECT, 0,                         \
      offsetof(sel_select_body_t, override), NULL, &sel_override_struct,      \
      NULL }

static const sel_json_member_t  sel_select_members[] = {
    SEL_COMMON_ROWS,
    { SEL_ROW(sel_select_body_t, selection_id, STRING, 0), SEL_PLAIN },
    { SEL_ROW(sel_select_body_t, expected_output_tokens, U32, 0), SEL_PLAIN },
    { SEL_ROW(sel_select_body_t, priority_jump, F64, 0), SEL_PLAIN },
    { SEL_ROW(sel_select_body_t, strict_priority, U32, 0), SEL_PLAIN },
    { SEL_ROW(sel_select_body_t, session_id, STRING, 0), SEL_PLAIN },
    { "session_context", SEL_JSON_M_OBJECT, 0,
      offsetof(sel_select_body_t, session), NULL, &sel_session_struct, NULL },
    { SEL_ROW(sel_select_body_t, affinity_target, OBJECT, 0), NULL,
      &sel_target_struct, NULL },
    { SEL_ROW(sel_select_body_t, pinned_worker, OBJECT, 0), NULL,
      &sel_pin_struct, NULL },
    { SEL_ROW(sel_select_body_t, allowed_worker_ids, U64_LIST, 0),
      SEL_PLAIN },
    { "routing_constraints", SEL_JSON_M_OBJECT, SEL_JSON_NOT_NULL,
      offsetof(sel_select_body_t, constraints), NULL,
      &sel_constraints_struct, NULL },
    { SEL_ROW(sel_select_body_t, advisory, BOOL, SEL_JSON_NOT_NULL),
      SEL_PLAIN }
};

_Static_assert(sel_countof(sel_select_members) == SEL_SELECT_MEMBERS,
               "a row for each member of a select body");


static const sel_json_member_t  sel_reserve_members[] = {
    SEL_COMMON_ROWS,
    { SEL_ROW(sel_select_body_t, selection_id, STRING,
              SEL_JSON_REQUIRED|SEL_JSON_NOT_NULL), SEL_PLAIN },
    { SEL_ROW(sel_select_body_t, expected_output_tokens, U32, 0), SEL_PLAIN },
    { SEL_ROW(sel_select_body_t, worker_id, U64, 0), SEL_PLAIN },
    { SEL_ROW(sel_select_body_t, dp_rank, U32, 0), SEL_PLAIN },
    { SEL_ROW(sel_select_body_t, effective_prefill_tokens, U64, 0),
      SEL_PLAIN },
    { SEL_ROW(sel_select_body_t, track_prefill_tokens, BOOL, 0), SEL_PLAIN }
};

_Static_assert(sel_countof(sel_reserve_members) == SEL_RESERVE_MEMBERS,
               "a row for each member of a reservation");


static const sel_json_member_t  sel_output_members[] = {
    { SEL_ROW(sel_output_body_t, decay_fraction, F64, 0), SEL_PLAIN }
};

static const sel_json_struct_t  sel_output_struct = {
    "struct OutputBlockRequest", sel_output_members,
    sel_countof(sel_output_members), offsetof(sel_output_body_t, given), NULL
};


bool
sel_read_select(sel_json_t *json, sel_select_body_t *body)
{
    return sel_read_body(json, body, "struct SelectRequest",
                         sel_select_members, SEL_SELECT_MEMBERS);
}


/* advisory stands last in a select; here nobody knows it. */

bool
sel_read_select_and_reserve(sel_json_t *json, sel_select_body_t *body)
{
    return sel_read_body(json, body, "struct SelectAndReserveRequest",
                         sel_select_members, SEL_SELECT_ADVISORY);
}


bool
sel_read_prompt(sel_json_t *json, sel_select_body_t *body)
{
    return sel_read_body(json, body, "struct PromptRequest",
                         sel_select_members, SEL_SELECT_OVERRIDE + 1);
}


bool
sel_read_reservation(sel_json_t *json, sel_select_body_t *body)
{
    return sel_read_body(json, body, "struct ReservationRequest",
                         sel_reserve_members, SEL_RESERVE_MEMBERS);
}


static bool
sel_read_body(sel_json_t *json, sel_select_body_t *body, const char *name,
    const sel_json_member_t *members, uint32_t n)
{
    sel_json_struct_t  type;

    *body = (sel_select_body_t) { 0 };

    body->model_name = sel_str("default");
    body->routing_group = sel_str("default");

    type = (sel_json_struct_t) {
        name, members, n, offsetof(sel_select_body_t, given), NULL
    };

    return sel_json_read_struct(json, &type, body) && sel_json_end(json);
}


bool
sel_read_output_block(sel_json_t *json, sel_output_body_t *body)
{
    *body = (sel_output_body_t) { 0 };

    return sel_json_read_struct(json, &sel_output_struct, body)
           && sel_json_end(json);
}


/* Every worker is held against every one of them. */

static bool
sel_read_required(sel_json_t *json, void *field)
{
    sel_str_list_t  *list;

    list = field;

    if (!sel_json_string_list(json, list)) {
        return false;
    }

    if (list->n > SEL_MAX_TAINTS) {
        return sel_json_fail(json, "invalid length %u, expected at most %u "
                             "required taints", list->n, SEL_MAX_TAINTS);
    }

    return true;
}


/* Of equal names the last weight counts, as in any map. */

static bool
sel_read_preferred(sel_json_t *json, void *field)
{
    int                  rc;
    uint32_t             i, read;
    float                weight;
    sel_str_t            name;
    sel_taint_list_t    *list;
    struct sel_taint_s  *data;

    list = field;
    read = 0;

    if (!sel_json_object_begin(json)) {
        return false;
    }

    while ((rc = sel_json_object_next(json, &name)) == 1) {

        if (!sel_json_f32(json, &weight)) {
            return false;
        }

        if (++read > SEL_MAX_TAINTS) {
            return sel_json_fail(json, "invalid length: more than %u "
                                 "preferred taints", SEL_MAX_TAINTS);
        }

        for (i = 0; i < list->n; i++) {
            if (sel_str_eq(list->data[i].name, name)) {
                break;
            }
        }

        if (i == list->n) {
            data = sel_read_push(json, list->data, list->n, sizeof(*data));

            if (data == NULL) {
                return false;
            }

            list->data = data;
            list->n++;
        }

        list->data[i] = (struct sel_taint_s) { name, weight };
    }

    return rc == 0;
}


static bool
sel_read_agent_headers(sel_json_t *json, void *field)
{
    int        rc;
    sel_str_t  name;

    if (!sel_json_object_begin(json)) {
        return false;
    }

    while ((rc = sel_json_object_next(json, &name)) == 1) {
        if (!sel_read_strings(json)) {
            return false;
        }
    }

    return rc == 0;
}


/* An array of strings that nobody wants. */

static bool
sel_read_strings(sel_json_t *json)
{
    int  rc;

    if (!sel_json_array_begin(json)) {
        return false;
    }

    while ((rc = sel_json_array_next(json)) == 1) {

        if (sel_json_peek(json) != SEL_JSON_STRING) {
            return sel_json_mismatch(json, "a string");
        }

        if (!sel_json_skip(json)) {
            return false;
        }
    }

    return rc == 0;
}


static bool
sel_check_override(sel_json_t *json, void *record)
{
    sel_override_t  *o;

#define given(member)  ((o->given >> (member)) & 1)

    o = record;

    if (given(SEL_OVERRIDE_SCORE_WEIGHT)) {
        o->given |= 1u << SEL_OVERRIDE_LOAD_SCALE;
        o->prefill_load_scale = o->overlap_score_weight;

        if (o->overlap_score_weight == 0) {
            o->given |= 1u << SEL_OVERRIDE_SCORE_CREDIT;
            o->overlap_score_credit = 0;
        }
    }

    if (given(SEL_OVERRIDE_SCORE_CREDIT)
        && !(o->overlap_score_credit >= 0
             && isfinite(o->overlap_score_credit)))
    {
        return sel_json_fail(json, "overlap_score_credit must be a finite, "
                             "non-negative number");
    }

    if (given(SEL_OVERRIDE_LOAD_SCALE) && !(o->prefill_load_scale >= 0)) {
        return sel_json_fail(json, "prefill_load_scale must be greater than "
                             "or equal to 0");
    }

    if (given(SEL_OVERRIDE_TEMPERATURE) && !(o->router_temperature >= 0)) {
        return sel_json_fail(json, "router_temperature must be greater than "
                             "or equal to 0");
    }

    if (given(SEL_OVERRIDE_SHARED_CACHE)
        && !(o->shared_cache_multiplier >= 0
             && o->shared_cache_multiplier <= 1))
    {
        return sel_json_fail(json, "shared_cache_multiplier must be between "
                             "0 and 1");
    }

#undef given

    return true;
}
