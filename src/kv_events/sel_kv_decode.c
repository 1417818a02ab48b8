/*
 * Batches and their events.
 *
 * A batch is validated once, as a whole, by skipping over it; after that the
 * end of every value is certain.  So an event is simply read, and when it is
 * refused halfway, reading goes back to its start and skips it.
 */

#include "kv_events/sel_kv_members.h"
#include "kv_events/sel_kv_scan.h"


/* inside the batch, which is a container too */
#define SEL_KV_BATCH_DEPTH  (SEL_MSGPACK_MAX_DEPTH - 1)


static bool sel_kv_batch_is_number(const sel_msgpack_token_t *token);
static bool sel_kv_batch_rest(sel_msgpack_t *mp, uint32_t n,
    sel_kv_batch_t *batch);
static sel_kv_outcome_t sel_kv_batch_event(sel_kv_reader_t *r,
    sel_kv_event_t *event);


bool
sel_kv_batch_open(sel_kv_batch_t *batch, sel_str_t payload,
    sel_arena_t *arena)
{
    uint32_t             n;
    sel_msgpack_t        mp;
    sel_msgpack_token_t  token;

    if (payload.len > SEL_KV_MAX_PAYLOAD) {
        return false;
    }

    mp = sel_msgpack(payload.data, payload.len);

    if (!sel_msgpack_next(&mp, &token) || token.type != SEL_MSGPACK_ARRAY
        || token.n < 2)
    {
        return false;
    }

    n = token.n;

    if (!sel_msgpack_next(&mp, &token) || !sel_kv_batch_is_number(&token)) {
        return false;
    }

    *batch = (sel_kv_batch_t) { .mp = mp, .arena = arena };

    if (!sel_kv_scan(&mp, SEL_KV_BATCH_DEPTH)
        || !sel_kv_batch_rest(&mp, n - 2, batch))
    {
        return false;
    }

    if (!sel_msgpack_next(&batch->mp, &token)
        || token.type != SEL_MSGPACK_ARRAY)
    {
        return false;
    }

    batch->left = token.n;

    return true;
}


static bool
sel_kv_batch_is_number(const sel_msgpack_token_t *token)
{
    return token->type == SEL_MSGPACK_FLOAT || token->type == SEL_MSGPACK_UINT
           || token->type == SEL_MSGPACK_INT;
}


/*
 * What follows the events: the rank, of which a negative one counts as none,
 * and things that nobody knows yet.
 */
static bool
sel_kv_batch_rest(sel_msgpack_t *mp, uint32_t n, sel_kv_batch_t *batch)
{
    sel_msgpack_token_t  token;

    if (n == 0) {
        return true;
    }

    if (!sel_msgpack_next(mp, &token)) {
        return false;
    }

    if (token.type == SEL_MSGPACK_UINT && token.u <= INT32_MAX) {
        batch->has_dp_rank = true;
        batch->dp_rank = (uint32_t) token.u;

    } else if (token.type != SEL_MSGPACK_NIL
               && token.type != SEL_MSGPACK_INT)
    {
        return false;
    }

    while (--n != 0) {
        if (!sel_kv_scan(mp, SEL_KV_BATCH_DEPTH)) {
            return false;
        }
    }

    return true;
}


int
sel_kv_batch_next(sel_kv_batch_t *batch, sel_kv_event_t *event,
    sel_kv_count_t *why)
{
    sel_kv_outcome_t  outcome;
    sel_kv_reader_t   r;

    if (batch->left == 0) {
        return 0;
    }

    batch->left--;

    r = (sel_kv_reader_t) { .mp = batch->mp, .arena = batch->arena };
    memset(event, 0, sizeof(sel_kv_event_t));

    outcome = sel_kv_batch_event(&r, event);

    if (outcome == SEL_KV_READ) {
        batch->mp = r.mp;
        return 1;
    }

    *why = r.no_memory ? SEL_KV_MEMORY
           : outcome == SEL_KV_UNKNOWN ? SEL_KV_UNKNOWN_TAG : SEL_KV_MALFORMED;

    if (!sel_msgpack_skip(&batch->mp)) {
        batch->left = 0;
    }

    return -1;
}


static sel_kv_outcome_t
sel_kv_batch_event(sel_kv_reader_t *r, sel_kv_event_t *event)
{
    sel_msgpack_token_t  token;

    if (!sel_msgpack_next(&r->mp, &token)) {
        return SEL_KV_REFUSED;
    }

    switch (token.type) {

    case SEL_MSGPACK_ARRAY:
        return sel_kv_read_array(r, token.n, event);

    case SEL_MSGPACK_MAP:
        return sel_kv_read_map(r, token.n, event);

    default:
        return SEL_KV_REFUSED;
    }
}
