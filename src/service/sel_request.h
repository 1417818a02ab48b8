/*
 * The bodies of the selection routes, read from JSON: which members there
 * are, of what type, and what is refused as HTTP 422.
 */

#ifndef SEL_REQUEST_H
#define SEL_REQUEST_H

#include "core/sel_hash.h"
#include "core/sel_json_read.h"


/*
 * The prompt members, top level in every body that has a prompt.  Their rows
 * stand first in each member table, so bit SEL_PROMPT_x of `given` always
 * means the same member.
 */
typedef enum {
    SEL_PROMPT_TOKEN_IDS = 0,
    SEL_PROMPT_MM_ROUTING,
    SEL_PROMPT_MM_BLOCKS,
    SEL_PROMPT_BLOCK_HASHES,
    SEL_PROMPT_SEQUENCE_HASHES,
    SEL_PROMPT_ISL_TOKENS,
    SEL_PROMPT_LORA_NAME,
    SEL_PROMPT_CACHE_SALT,
    SEL_PROMPT_IS_EAGLE,
    SEL_PROMPT_MEMBERS
} sel_prompt_member_t;


/* required and preferred taints of a request, each */
#define SEL_MAX_TAINTS  1024


/* Multimodal hashes of each block; n 0 where a block has none. */
typedef struct {
    uint32_t         n;
    sel_mm_block_t  *blocks;
} sel_mm_list_t;


typedef struct {
    sel_u32_list_t  token_ids;
    sel_mm_list_t   block_mm_infos;
    sel_u32_list_t  routing_token_ids;
    sel_mm_list_t   routing_mm_infos;
    sel_u64_list_t  block_hashes;
    sel_u64_list_t  sequence_hashes;
    uint64_t        isl_tokens;
    sel_str_t       lora_name;
    sel_str_t       cache_salt;
    bool            is_eagle;
} sel_prompt_body_t;


/* router_config_override; bit i of given: row i of its table */
typedef enum {
    SEL_OVERRIDE_SCORE_CREDIT = 0,
    SEL_OVERRIDE_LOAD_SCALE,
    SEL_OVERRIDE_TEMPERATURE,
    SEL_OVERRIDE_KV_REUSE,
    SEL_OVERRIDE_TRACK_PREFILL,
    SEL_OVERRIDE_SHARED_CACHE,
    SEL_OVERRIDE_SCORE_WEIGHT
} sel_override_member_t;

typedef struct {
    uint64_t  given;
    double    overlap_score_credit;
    double    prefill_load_scale;
    double    router_temperature;
    bool      assume_kv_reuse;
    bool      track_prefill_tokens;
    double    shared_cache_multiplier;
    double    overlap_score_weight;
} sel_override_t;


/* A worker, and a rank where has_rank. */
typedef struct {
    uint64_t  given;
    uint64_t  worker_id;
    uint32_t  dp_rank;
} sel_target_t;

/* `given` of a target with a rank */
#define SEL_TARGET_RANK              2

#define SEL_TARGET_HAS_RANK(target)  (((target)->given & SEL_TARGET_RANK) != 0)


typedef struct {
    uint32_t  n;
    struct sel_taint_s {
        sel_str_t  name;
        float      weight;
    }        *data;
} sel_taint_list_t;

typedef struct {
    uint64_t          given;
    sel_str_list_t    required_taints;
    sel_taint_list_t  preferred_taints;
} sel_constraints_t;


typedef struct {
    uint64_t   given;
    sel_str_t  session_id;
    sel_str_t  parent_session_id;
    bool       session_final;
    uint32_t   input_trigger;
} sel_session_t;


/*
 * POST /select and its kin: bits behind the prompt's.  The first ones are
 * those of /overlap_scores and /potential_loads, too.
 */
typedef enum {
    SEL_SELECT_MODEL = SEL_PROMPT_MEMBERS,
    SEL_SELECT_GROUP,
    SEL_SELECT_OVERRIDE,
    SEL_SELECT_ID,
    SEL_SELECT_OUTPUT_TOKENS,
    SEL_SELECT_PRIORITY_JUMP,
    SEL_SELECT_STRICT_PRIORITY,
    SEL_SELECT_SESSION_ID,
    SEL_SELECT_SESSION,
    SEL_SELECT_AFFINITY,
    SEL_SELECT_PINNED,
    SEL_SELECT_ALLOWED,
    SEL_SELECT_CONSTRAINTS,
    SEL_SELECT_ADVISORY,
    SEL_SELECT_MEMBERS
} sel_select_member_t;


/* POST /reservations: those up to the id are a select's */
typedef enum {
    SEL_RESERVE_OUTPUT_TOKENS = SEL_SELECT_ID + 1,
    SEL_RESERVE_WORKER,
    SEL_RESERVE_RANK,
    SEL_RESERVE_EFFECTIVE,
    SEL_RESERVE_TRACK,
    SEL_RESERVE_MEMBERS
} sel_reserve_member_t;


typedef struct {
    uint64_t           given;
    sel_prompt_body_t  prompt;
    sel_str_t          model_name;
    sel_str_t          routing_group;
    sel_override_t     override;
    sel_str_t          selection_id;
    uint32_t           expected_output_tokens;
    double             priority_jump;
    uint32_t           strict_priority;
    sel_str_t          session_id;
    sel_session_t      session;
    sel_target_t       affinity_target;
    sel_target_t       pinned_worker;
    sel_u64_list_t     allowed_worker_ids;
    sel_constraints_t  constraints;
    bool               advisory;

    /* of a reservation */
    uint64_t           worker_id;
    uint32_t           dp_rank;
    uint64_t           effective_prefill_tokens;
    bool               track_prefill_tokens;
} sel_select_body_t;


/* POST /reservations/{id}/output_block */
typedef struct {
    uint64_t  given;            /* 1: decay_fraction */
    double    decay_fraction;
} sel_output_body_t;


static inline bool
sel_body_has(const sel_select_body_t *body, unsigned member)
{
    return (body->given >> member) & 1;
}


/* Read one body; everything they hand out is in the reader's arena. */
bool sel_read_select(sel_json_t *json, sel_select_body_t *body);
bool sel_read_prompt(sel_json_t *json, sel_select_body_t *body);
bool sel_read_select_and_reserve(sel_json_t *json, sel_select_body_t *body);
bool sel_read_reservation(sel_json_t *json, sel_select_body_t *body);
bool sel_read_output_block(sel_json_t *json, sel_output_body_t *body);


#endif /* SEL_REQUEST_H */
