/*
 * Pending selections, as calls make, read and drop them.
 *
 * A selection that comes in place of an older one ends that first: a death in
 * between leaves neither, which to clients is a selection that was dropped.
 * Reads allocate between two locked parts, as those of the catalog do.
 */

#include "state/sel_pending_impl.h"


static uint64_t sel_pending_need(const sel_pending_t *in);
static bool sel_pending_room(sel_zone_t *zone, const sel_pending_t *in,
    const sel_pending_limits_t *limits, uint64_t need);
static bool sel_pending_expired(const sel_pending_chunk_t *pending,
    uint64_t now, uint64_t ttl);
static void sel_pending_make(sel_zone_t *zone, const sel_pending_t *in,
    uint64_t hash, uint32_t chunks);
static void sel_pending_fill(sel_zone_t *zone, const sel_pending_t *in,
    sel_pending_chunk_t *pending);
static sel_pending_chunk_t *sel_pending_valid(sel_zone_t *zone, uint64_t hash,
    uint32_t partition, sel_str_t id, uint64_t now, uint64_t ttl);
static size_t sel_pending_list(const sel_pending_chunk_t *pending,
    sel_pending_t *out);
static bool sel_pending_copy(const sel_zone_t *zone,
    const sel_pending_chunk_t *pending, uint8_t *data, sel_pending_t *out);
static uint64_t *sel_pending_keys(const sel_zone_t *zone, uint32_t number,
    uint32_t n, uint8_t **data);


bool
sel_pending_put(sel_zone_t *zone, const sel_pending_t *in,
    const sel_pending_limits_t *limits)
{
    bool                  kept;
    uint64_t              hash, need;
    sel_pending_chunk_t  *old;

    hash = sel_pending_hash(in->partition, in->id);
    need = sel_pending_need(in);

    sel_zone_lock(zone);

    while (zone->header->pending != 0) {
        old = sel_zone_pending(zone, zone->header->pending_list.oldest);

        if (!sel_pending_expired(old, in->made, limits->ttl)) {
            break;
        }

        sel_zone_pending_drop(zone, SEL_COUNT_PENDING_AGED);
    }

    old = sel_zone_pending_find(zone, hash, in->partition, in->id);

    if (old != NULL) {
        sel_zone_pending_end(zone, old);
    }

    kept = sel_pending_room(zone, in, limits, need);

    if (kept) {
        sel_pending_make(zone, in, hash, (uint32_t) need);
        sel_count(zone, SEL_COUNT_PENDING_KEPT, 1);
    }

    sel_zone_unlock(zone);

    return kept;
}


static uint64_t
sel_pending_need(const sel_pending_t *in)
{
    uint64_t  need;

    if (in->lora_name.len > UINT32_MAX || in->session_id.len > UINT32_MAX
        || in->id.len > UINT32_MAX)
    {
        return UINT64_MAX;
    }

    need = 1 + (uint64_t) sel_keys_need(in->n_blocks)
           + sel_keys_need(in->n_hashes)
           + sel_zone_chain_need(in->lora_name.len + in->session_id.len)
           + sel_zone_id_need(in->id.len, SEL_PENDING_ID);

    return need;
}


/*
 * The new one is the youngest: what is over a limit would be dropped after
 * all others, so it is not made at all.
 */

static bool
sel_pending_room(sel_zone_t *zone, const sel_pending_t *in,
    const sel_pending_limits_t *limits, uint64_t need)
{
    uint64_t            half;
    sel_zone_header_t  *header;

    header = zone->header;
    half = zone->n_chunks / 2;

    if (need > half || need > sel_zone_room_most(zone)) {
        return false;
    }

    while (header->pending != 0
           && (header->pending >= limits->max
               || in->size > limits->size
               || header->pending_size > limits->size - in->size))
    {
        sel_zone_pending_drop(zone, SEL_COUNT_PENDING_LIMITED);
    }

    if (limits->max == 0 || in->size > limits->size) {
        sel_count(zone, SEL_COUNT_PENDING_LIMITED, 1);
        return false;
    }

    while (header->pending_chunks + need > half) {
        sel_zone_pending_drop(zone, SEL_COUNT_PENDING_NO_ROOM);
    }

    return sel_zone_room(zone, need);
}


static bool
sel_pending_expired(const sel_pending_chunk_t *pending, uint64_t now,
    uint64_t ttl)
{
    return now > pending->made && now - pending->made > ttl;
}


static void
sel_pending_make(sel_zone_t *zone, const sel_pending_t *in, uint64_t hash,
    uint32_t chunks)
{
    sel_pending_chunk_t  *pending;

    pending = sel_zone_pending(zone, sel_zone_chunk_take(zone));

    pending->hash = hash;
    pending->generation = ++zone->header->generations;
    pending->chunks = chunks;
    SEL_ZONE_STEP();

    sel_pending_fill(zone, in, pending);
    SEL_ZONE_STEP();

    sel_chunk_set_tag(&pending->head, SEL_CHUNK_PENDING);
    SEL_ZONE_STEP();

    sel_zone_pending_link(zone, pending);
}


static void
sel_pending_fill(sel_zone_t *zone, const sel_pending_t *in,
    sel_pending_chunk_t *pending)
{
    uint32_t    last;
    sel_path_t  path;

    pending->worker_id = in->worker_id;
    pending->isl_tokens = in->isl_tokens;
    pending->prefill_tokens = in->prefill_tokens;
    pending->size = in->size;
    pending->made = in->made;
    pending->id_len = (uint32_t) in->id.len;
    pending->partition = in->partition;
    pending->dp_rank = in->dp_rank;
    pending->expected = in->expected_output_tokens;
    pending->n_blocks = in->n_blocks;
    pending->n_hashes = in->n_hashes;
    pending->lora_len = (uint32_t) in->lora_name.len;
    pending->session_len = (uint32_t) in->session_id.len;
    pending->tracked = in->tracked;
    pending->session = in->session_id.data != NULL;
    pending->zero = 0;

    pending->id_chain = sel_zone_id_write(zone, in->id, pending->id,
                                          SEL_PENDING_ID);

    path = (sel_path_t) { in->sequence, SEL_CHUNK_NONE, 0 };
    pending->sequence = sel_keys_write(zone, path, 0, in->n_blocks, &last);

    path = (sel_path_t) { in->hashes, SEL_CHUNK_NONE, 0 };
    pending->hashes = sel_keys_write(zone, path, 0, in->n_hashes, &last);

    pending->texts = sel_zone_chain_join(zone, in->lora_name, in->session_id);
}


int
sel_pending_get(sel_zone_t *zone, uint32_t partition, sel_str_t id,
    uint64_t now, uint64_t ttl, sel_arena_t *arena, sel_pending_t *out)
{
    int                   rc;
    size_t                size;
    uint8_t              *data;
    uint64_t              hash;
    sel_pending_chunk_t  *pending;

    hash = sel_pending_hash(partition, id);

    do {
        size = 0;

        sel_zone_lock(zone);

        pending = sel_pending_valid(zone, hash, partition, id, now, ttl);

        if (pending != NULL) {
            size = sel_pending_list(pending, out);
        }

        sel_zone_unlock(zone);

        if (pending == NULL) {
            return 0;
        }

        data = sel_arena_alloc(arena, size);

        if (data == NULL) {
            return -1;
        }

        sel_zone_lock(zone);

        rc = 0;
        pending = sel_zone_pending_find(zone, hash, partition, id);

        if (pending != NULL && pending->generation == out->generation) {
            rc = sel_pending_copy(zone, pending, data, out) ? 1 : -1;
        }

        sel_zone_unlock(zone);

    } while (rc == 0);

    return rc;
}


static sel_pending_chunk_t *
sel_pending_valid(sel_zone_t *zone, uint64_t hash, uint32_t partition,
    sel_str_t id, uint64_t now, uint64_t ttl)
{
    sel_pending_chunk_t  *pending;

    pending = sel_zone_pending_find(zone, hash, partition, id);

    return pending != NULL && !sel_pending_expired(pending, now, ttl)
           ? pending : NULL;
}


/* What a record says, but for lists and texts; bytes that these take. */

static size_t
sel_pending_list(const sel_pending_chunk_t *pending, sel_pending_t *out)
{
    memset(out, 0, sizeof(sel_pending_t));

    out->id.len = pending->id_len;
    out->partition = pending->partition;
    out->dp_rank = pending->dp_rank;
    out->worker_id = pending->worker_id;
    out->isl_tokens = pending->isl_tokens;
    out->prefill_tokens = pending->prefill_tokens;
    out->tracked = pending->tracked != 0;
    out->expected_output_tokens = pending->expected;
    out->n_blocks = pending->n_blocks;
    out->n_hashes = pending->n_hashes;
    out->lora_name.len = pending->lora_len;
    out->session_id.len = pending->session_len;
    out->size = pending->size;
    out->made = pending->made;
    out->generation = pending->generation;

    return ((size_t) pending->n_blocks + pending->n_hashes) * sizeof(uint64_t)
           + pending->id_len + pending->lora_len + pending->session_len;
}


static bool
sel_pending_copy(const sel_zone_t *zone, const sel_pending_chunk_t *pending,
    uint8_t *data, sel_pending_t *out)
{
    size_t  len;

    out->sequence = sel_pending_keys(zone, pending->sequence,
                                     pending->n_blocks, &data);
    out->hashes = sel_pending_keys(zone, pending->hashes, pending->n_hashes,
                                   &data);

    out->id.data = data;

    if (pending->id_chain == SEL_CHUNK_NONE) {
        memcpy(data, pending->id, pending->id_len);

    } else if (!sel_zone_chain_read(zone, pending->id_chain, data,
                                    pending->id_len))
    {
        return false;
    }

    data += pending->id_len;
    len = (size_t) pending->lora_len + pending->session_len;

    out->lora_name.data = data;
    out->session_id.data = pending->session != 0 ? data + pending->lora_len
                                                 : NULL;

    return sel_zone_chain_read(zone, pending->texts, data, len);
}


static uint64_t *
sel_pending_keys(const sel_zone_t *zone, uint32_t number, uint32_t n,
    uint8_t **data)
{
    uint64_t                *copy;
    uint32_t                 part;
    const sel_keys_chunk_t  *keys;

    copy = (uint64_t *) (void *) *data;

    for ( /* void */ ; n != 0; n -= part) {
        keys = sel_zone_keys(zone, number);
        part = keys->head.count;

        memcpy(*data, keys->keys, part * sizeof(uint64_t));

        *data += part * sizeof(uint64_t);
        number = keys->head.next;
    }

    return copy;
}


void
sel_pending_drop(sel_zone_t *zone, uint32_t partition, sel_str_t id,
    uint64_t generation)
{
    uint64_t              hash;
    sel_pending_chunk_t  *pending;

    hash = sel_pending_hash(partition, id);

    sel_zone_lock(zone);

    pending = sel_zone_pending_find(zone, hash, partition, id);

    if (pending != NULL
        && (generation == 0 || pending->generation == generation))
    {
        sel_zone_pending_end(zone, pending);
    }

    sel_zone_unlock(zone);
}
