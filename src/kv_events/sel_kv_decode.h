/*
 * Decoder of KV-event batches: msgpack bytes to events, for vLLM (array and
 * map form, old and current tails), SGLang and TensorRT-LLM.  Wire format:
 * docs/kv-events.md.
 *
 * The decoder knows syntax only.  What an event means for the index (tiers,
 * groups, salts, block sizes) is the feed's work.
 */

#ifndef SEL_KV_DECODE_H
#define SEL_KV_DECODE_H

#include "core/sel_arena.h"
#include "core/sel_hash.h"
#include "core/sel_msgpack.h"
#include "kv_events/sel_kv_counts.h"


#define SEL_KV_MAX_PAYLOAD  (64u << 20)


typedef enum {
    SEL_KV_EVENT_STORED,
    SEL_KV_EVENT_REMOVED,
    SEL_KV_EVENT_CLEARED,
    SEL_KV_EVENT_IGNORED
} sel_kv_event_kind_t;


/*
 * One event as sent.  Strings are views of the payload, lists live in the
 * arena.  An absent or nil string has data NULL.
 */
typedef struct {
    sel_kv_event_kind_t  kind;
    bool                 has_parent;
    bool                 eagle;         /* token_ids came as pairs */
    bool                 has_group;
    uint64_t             parent;
    sel_u64_list_t       hashes;        /* external */
    sel_u32_list_t       tokens;        /* flat */
    uint64_t             block_size;    /* 0 when absent or nil */
    uint32_t             group;
    uint32_t             mm_n;          /* entries of mm */
    sel_mm_block_t      *mm;
    sel_str_t            medium;
    sel_str_t            lora_name;
    sel_str_t            cache_namespace;
    sel_str_t            spec_kind;
    sel_str_t            locality;
    sel_str_t            ownership;
} sel_kv_event_t;


typedef struct {
    sel_msgpack_t  mp;
    sel_arena_t   *arena;
    uint32_t       left;            /* events not read yet */
    bool           has_dp_rank;     /* the batch names a rank >= 0 */
    uint32_t       dp_rank;
} sel_kv_batch_t;


/*
 * Opens a batch.  The whole payload is checked to be one well-formed value,
 * so that a fault in one event can never hide the next.  False when it is not
 * a batch at all ([ts, events, rank?, ...]).
 */
bool sel_kv_batch_open(sel_kv_batch_t *batch, sel_str_t payload,
    sel_arena_t *arena);

/*
 * Reads the next event: 1 an event, 0 no more, -1 this one is refused (*why
 * is SEL_KV_MALFORMED, SEL_KV_UNKNOWN_TAG or SEL_KV_MEMORY) and reading goes
 * on behind it.
 */
int sel_kv_batch_next(sel_kv_batch_t *batch, sel_kv_event_t *event,
    sel_kv_count_t *why);


#endif /* SEL_KV_DECODE_H */
