/*
 * The worker record: what a registration says, how it is read from JSON and
 * printed.  The printed form is also how the zone keeps it.
 */

#ifndef SEL_WORKER_H
#define SEL_WORKER_H

#include "core/sel_json_read.h"
#include "core/sel_json_write.h"


/* A JSON object of strings; sorted by key, keys distinct. */
typedef struct {
    sel_str_t   key;
    sel_str_t   value;
    uint32_t    rank;           /* the key as a number, in maps by rank */
    uint32_t    order;          /* as read */
} sel_map_entry_t;

typedef struct {
    uint32_t          n;
    sel_map_entry_t  *data;
} sel_map_t;


/* bits of sel_worker_t.given, in the order of the member table */
typedef enum {
    SEL_WORKER_ENDPOINT = 0,
    SEL_WORKER_EVENTS_ENDPOINT,
    SEL_WORKER_EVENTS_ENDPOINTS,
    SEL_WORKER_REPLAY_ENDPOINT,
    SEL_WORKER_BLOCK_SIZE,
    SEL_WORKER_START_RANK,
    SEL_WORKER_DP_SIZE,
    SEL_WORKER_MAX_BATCHED_TOKENS,
    SEL_WORKER_KV_BLOCKS,
    SEL_WORKER_STABLE_ID,
    SEL_WORKER_IS_EAGLE,
    SEL_WORKER_TAINTS,
    SEL_WORKER_TOPOLOGY,
    SEL_WORKER_TRANSFER_DOMAIN,
    SEL_WORKER_TRANSFER_ENFORCEMENT,
    SEL_WORKER_TRANSFER_WEIGHT,
    SEL_WORKER_HINT_TYPE,
    SEL_WORKER_HINT_ENDPOINTS,
    SEL_WORKER_EVENT_MODE,
    SEL_WORKER_PATCHED,         /* number of members a PATCH may give */

    SEL_WORKER_ID = SEL_WORKER_PATCHED,
    SEL_WORKER_MODEL,
    SEL_WORKER_GROUP,
    SEL_WORKER_MEMBERS
} sel_worker_member_t;


typedef struct {
    uint64_t        given;      /* bit m: member m is known */
    uint64_t        worker_id;
    sel_str_t       model_name;
    sel_str_t       routing_group;
    sel_str_t       endpoint;
    sel_str_t       kv_events_endpoint;
    sel_map_t       kv_events_endpoints;     /* by rank */
    sel_str_t       replay_endpoint;
    uint32_t        block_size;
    uint32_t        start_rank;         /* 0 unless given */
    uint32_t        dp_size;            /* 1 unless given */
    uint64_t        max_num_batched_tokens;
    uint64_t        total_kv_blocks;
    sel_str_t       stable_routing_id;
    bool            is_eagle;
    sel_str_list_t  taints;             /* sorted, distinct */
    sel_map_t       topology_domains;
    sel_str_t       kv_transfer_domain;
    uint32_t        kv_transfer_enforcement;
    float           kv_transfer_preferred_weight;
    sel_str_t       router_hint_worker_type;
    sel_map_t       router_hint_source_control_endpoints;    /* by rank */
    sel_str_t       kv_event_source_mode;
} sel_worker_t;


/* Whether the record knows a member. */
static inline bool
sel_worker_has(const sel_worker_t *worker, sel_worker_member_t member)
{
    return (worker->given >> member) & 1;
}


/*
 * Reads a registration (every member), the body of a PATCH (no identity
 * members), or a record that sel_worker_print() wrote (as a registration;
 * members that are none of its own are skipped).  *worker is filled with the
 * defaults first.  Strings are in the reader's arena.
 */
bool sel_worker_read(sel_json_t *json, sel_worker_t *worker);
bool sel_worker_read_patch(sel_json_t *json, sel_worker_t *worker);

/* A member's name in JSON. */
const char *sel_worker_member_name(sel_worker_member_t member);

/* the words of kv_transfer_enforcement, NULL-ended */
extern const char *const  sel_worker_enforcements[];

/* Replaces in *worker what *patch gives. */
void sel_worker_patch(sel_worker_t *worker, const sel_worker_t *patch);

/*
 * Prints the record.  lifecycle is one of the four words of the API; reasons
 * is NULL-ended or NULL.
 */
void sel_worker_print(sel_buf_t *buf, const sel_worker_t *worker,
    const char *lifecycle, char *const *reasons);

/* One past the last rank, saturating at 2^32-1. */
uint32_t sel_worker_end_rank(const sel_worker_t *worker);

/*
 * The KV-event endpoint of a rank: from the map when it has entries, else the
 * single endpoint of a worker with one rank.  Empty: there is none.
 */
sel_str_t sel_worker_events_endpoint(const sel_worker_t *worker,
    uint32_t dp_rank);


#endif /* SEL_WORKER_H */
