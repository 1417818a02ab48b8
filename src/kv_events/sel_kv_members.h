/*
 * The members of events, whatever encoding they came in.
 */

#ifndef SEL_KV_MEMBERS_H
#define SEL_KV_MEMBERS_H

#include "kv_events/sel_kv_fields.h"


typedef enum {
    SEL_KV_M_HASHES,
    SEL_KV_M_PARENT,
    SEL_KV_M_TOKENS,
    SEL_KV_M_BLOCK_SIZE,
    SEL_KV_M_MEDIUM,
    SEL_KV_M_LORA_NAME,
    SEL_KV_M_LORA_OR_METADATA,      /* array form only */
    SEL_KV_M_EXTRA_KEYS,
    SEL_KV_M_MM_INFOS,
    SEL_KV_M_SALT,
    SEL_KV_M_GROUP,
    SEL_KV_M_SPEC_KIND,
    SEL_KV_M_WINDOW,
    SEL_KV_M_LOCALITY,
    SEL_KV_M_OWNERSHIP,
    SEL_KV_M_SKIPPED                /* any value, of no interest */
} sel_kv_member_t;


typedef enum {
    SEL_KV_READ,
    SEL_KV_REFUSED,                 /* malformed, or no memory */
    SEL_KV_UNKNOWN                  /* of a tag that is not known */
} sel_kv_outcome_t;


/* False when the tag is not known. */
bool sel_kv_find_kind(sel_str_t tag, sel_kv_event_kind_t *kind);

/* Reads one value into the event, which knows its kind. */
bool sel_kv_read_member(sel_kv_reader_t *r, sel_kv_member_t member,
    sel_kv_event_t *event);

/*
 * After the last member: checks that the mandatory ones came and reads those
 * that were set aside.
 */
bool sel_kv_finish(sel_kv_reader_t *r, sel_kv_event_t *event);

/*
 * The two encodings: read an event behind the header of its array or map of
 * n elements or pairs.  The event must be zeroed.
 */
sel_kv_outcome_t sel_kv_read_array(sel_kv_reader_t *r, uint32_t n,
    sel_kv_event_t *event);
sel_kv_outcome_t sel_kv_read_map(sel_kv_reader_t *r, uint32_t n,
    sel_kv_event_t *event);


#endif /* SEL_KV_MEMBERS_H */
