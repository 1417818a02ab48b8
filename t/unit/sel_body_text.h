/*
 * A body of a selection route as text: the defaults, then every member that
 * was given, in the order of the API's table.
 */

#ifndef SEL_BODY_TEXT_H
#define SEL_BODY_TEXT_H

#include <inttypes.h>
#include <stdio.h>

#include "service/sel_request.h"


/* of a body that gives nothing: what is not given has its default */
#define SEL_BODY_NONE  "default/default 0 0 0 0 0"


static inline void
sel_body_text(FILE *out, const char *name, sel_str_t text)
{
    size_t  i;

    fprintf(out, " %s=\"", name);

    for (i = 0; i < text.len; i++) {
        if (text.data[i] == 0) {
            fputs("\\0", out);

        } else {
            fputc(text.data[i], out);
        }
    }

    fputc('"', out);
}


static inline void
sel_body_u64s(FILE *out, const char *name, sel_u64_list_t list)
{
    uint32_t  i;

    fprintf(out, " %s=[", name);

    for (i = 0; i < list.n; i++) {
        fprintf(out, "%s%" PRIu64, i != 0 ? "," : "", list.data[i]);
    }

    fputc(']', out);
}


static inline void
sel_body_u32s(FILE *out, const char *name, sel_u32_list_t list)
{
    uint32_t  i;

    fprintf(out, " %s=[", name);

    for (i = 0; i < list.n; i++) {
        fprintf(out, "%s%" PRIu32, i != 0 ? "," : "", list.data[i]);
    }

    fputc(']', out);
}


/* each block's hashes in braces */
static inline void
sel_body_mm(FILE *out, const char *name, sel_mm_list_t list)
{
    uint32_t  i, k;

    fprintf(out, " %s=[", name);

    for (i = 0; i < list.n; i++) {
        fputc('{', out);

        for (k = 0; k < list.blocks[i].n; k++) {
            fprintf(out, "%s%" PRIu64, k != 0 ? "," : "",
                    list.blocks[i].hashes[k]);
        }

        fputc('}', out);
    }

    fputc(']', out);
}


static inline void
sel_body_prompt(const sel_select_body_t *body, FILE *out)
{
    const sel_prompt_body_t  *prompt;

    prompt = &body->prompt;

    if (sel_body_has(body, SEL_PROMPT_TOKEN_IDS)) {
        sel_body_u32s(out, "token_ids", prompt->token_ids);
    }

    if (sel_body_has(body, SEL_PROMPT_MM_ROUTING)) {
        sel_body_u32s(out, "routing_token_ids", prompt->routing_token_ids);
        sel_body_mm(out, "routing_mm_infos", prompt->routing_mm_infos);
    }

    if (sel_body_has(body, SEL_PROMPT_MM_BLOCKS)) {
        sel_body_mm(out, "block_mm_infos", prompt->block_mm_infos);
    }

    if (sel_body_has(body, SEL_PROMPT_BLOCK_HASHES)) {
        sel_body_u64s(out, "block_hashes", prompt->block_hashes);
    }

    if (sel_body_has(body, SEL_PROMPT_SEQUENCE_HASHES)) {
        sel_body_u64s(out, "sequence_hashes", prompt->sequence_hashes);
    }

    if (sel_body_has(body, SEL_PROMPT_ISL_TOKENS)) {
        fprintf(out, " isl_tokens=%" PRIu64, prompt->isl_tokens);
    }

    if (sel_body_has(body, SEL_PROMPT_LORA_NAME)) {
        sel_body_text(out, "lora_name", prompt->lora_name);
    }

    if (sel_body_has(body, SEL_PROMPT_CACHE_SALT)) {
        sel_body_text(out, "cache_salt", prompt->cache_salt);
    }

    if (sel_body_has(body, SEL_PROMPT_IS_EAGLE)) {
        fprintf(out, " is_eagle=%d", prompt->is_eagle);
    }
}


static inline void
sel_body_override(const sel_override_t *o, FILE *out)
{
    unsigned  i;

    static const char *const  names[] = {
        "overlap_score_credit", "prefill_load_scale", "router_temperature",
        "assume_kv_reuse", "track_prefill_tokens", "shared_cache_multiplier",
        "overlap_score_weight"
    };

    const double  values[] = {
        o->overlap_score_credit, o->prefill_load_scale, o->router_temperature,
        o->assume_kv_reuse, o->track_prefill_tokens,
        o->shared_cache_multiplier, o->overlap_score_weight
    };

    fputs(" override={", out);

    for (i = 0; i < sel_countof(names); i++) {
        if ((o->given >> i & 1) != 0) {
            fprintf(out, " %s=%.17g", names[i], values[i]);
        }
    }

    fputs(" }", out);
}


static inline void
sel_body_target(FILE *out, const char *name, const sel_target_t *target)
{
    fprintf(out, " %s={%" PRIu64, name, target->worker_id);

    if (SEL_TARGET_HAS_RANK(target)) {
        fprintf(out, ",%" PRIu32, target->dp_rank);
    }

    fputc('}', out);
}


static inline void
sel_body_session(const sel_session_t *session, FILE *out)
{
    sel_body_text(out, "session.id", session->session_id);

    if ((session->given >> 1 & 1) != 0) {
        sel_body_text(out, "session.parent", session->parent_session_id);
    }

    if ((session->given >> 2 & 1) != 0) {
        fprintf(out, " session.final=%d", session->session_final);
    }

    if ((session->given >> 3 & 1) != 0) {
        fprintf(out, " session.trigger=%" PRIu32, session->input_trigger);
    }
}


static inline void
sel_body_constraints(const sel_constraints_t *constraints, FILE *out)
{
    uint32_t             i;
    struct sel_taint_s  *taint;

    fputs(" constraints={", out);

    for (i = 0; i < constraints->required_taints.n; i++) {
        sel_body_text(out, "required", constraints->required_taints.data[i]);
    }

    for (i = 0; i < constraints->preferred_taints.n; i++) {
        taint = &constraints->preferred_taints.data[i];
        sel_body_text(out, "preferred", taint->name);
        fprintf(out, ":%.9g", (double) taint->weight);
    }

    fputs(" }", out);
}


static inline void
sel_body_scalars(const sel_select_body_t *body, FILE *out)
{
    if (sel_body_has(body, SEL_SELECT_ID)) {
        sel_body_text(out, "selection_id", body->selection_id);
    }

    if (sel_body_has(body, SEL_SELECT_OUTPUT_TOKENS)) {
        fprintf(out, " expected_output_tokens=%" PRIu32,
                body->expected_output_tokens);
    }

    if (sel_body_has(body, SEL_SELECT_PRIORITY_JUMP)) {
        fprintf(out, " priority_jump=%.17g", body->priority_jump);
    }

    if (sel_body_has(body, SEL_SELECT_STRICT_PRIORITY)) {
        fprintf(out, " strict_priority=%" PRIu32, body->strict_priority);
    }

    if (sel_body_has(body, SEL_SELECT_SESSION_ID)) {
        sel_body_text(out, "session_id", body->session_id);
    }
}


/* The members with a default; those that were given count as 0. */
static inline void
sel_body_defaults(const sel_select_body_t *body, FILE *out)
{
    sel_str_t  model, group;

    model = sel_body_has(body, SEL_SELECT_MODEL) ? sel_str("default")
                                                 : body->model_name;
    group = sel_body_has(body, SEL_SELECT_GROUP) ? sel_str("default")
                                                 : body->routing_group;

    fprintf(out, "%.*s/%.*s %g %" PRIu32 " %d %" PRIu32 " %" PRIu32,
            (int) model.len, (const char *) model.data, (int) group.len,
            (const char *) group.data,
            sel_body_has(body, SEL_SELECT_PRIORITY_JUMP)
            ? 0 : body->priority_jump,
            sel_body_has(body, SEL_SELECT_STRICT_PRIORITY)
            ? 0 : body->strict_priority,
            sel_body_has(body, SEL_SELECT_ADVISORY) ? 0 : body->advisory,
            sel_body_has(body, SEL_SELECT_CONSTRAINTS)
            ? 0 : body->constraints.required_taints.n,
            sel_body_has(body, SEL_SELECT_CONSTRAINTS)
            ? 0 : body->constraints.preferred_taints.n);
}


static inline void
sel_body_print(const sel_select_body_t *body, FILE *out)
{
    sel_body_defaults(body, out);
    sel_body_prompt(body, out);

    if (sel_body_has(body, SEL_SELECT_MODEL)) {
        sel_body_text(out, "model_name", body->model_name);
    }

    if (sel_body_has(body, SEL_SELECT_GROUP)) {
        sel_body_text(out, "routing_group", body->routing_group);
    }

    if (sel_body_has(body, SEL_SELECT_OVERRIDE)) {
        sel_body_override(&body->override, out);
    }

    sel_body_scalars(body, out);

    if (sel_body_has(body, SEL_SELECT_SESSION)) {
        sel_body_session(&body->session, out);
    }

    if (sel_body_has(body, SEL_SELECT_AFFINITY)) {
        sel_body_target(out, "affinity_target", &body->affinity_target);
    }

    if (sel_body_has(body, SEL_SELECT_PINNED)) {
        sel_body_target(out, "pinned_worker", &body->pinned_worker);
    }

    if (sel_body_has(body, SEL_SELECT_ALLOWED)) {
        sel_body_u64s(out, "allowed_worker_ids", body->allowed_worker_ids);
    }

    if (sel_body_has(body, SEL_SELECT_CONSTRAINTS)) {
        sel_body_constraints(&body->constraints, out);
    }

    if (sel_body_has(body, SEL_SELECT_ADVISORY)) {
        fprintf(out, " advisory=%d", body->advisory);
    }
}


#endif /* SEL_BODY_TEXT_H */
