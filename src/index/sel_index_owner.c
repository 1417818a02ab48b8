/*
 * Owners: who is who.  Live ones are found through buckets, lists by a hash
 * of partition, worker and rank.  Numbers are given out lowest first.
 */

#include "index/sel_index_impl.h"


static bool sel_index_owner_reserve(sel_index_t *index, uint32_t *free);
static bool sel_index_buckets_resize(sel_index_t *index);
static uint16_t *sel_index_bucket(const sel_index_t *index,
    uint32_t partition, uint64_t worker_id, uint32_t dp_rank);
static void sel_index_link(sel_index_t *index, uint16_t owner);
static void sel_index_unlink(sel_index_t *index, uint16_t owner);
static bool sel_index_live(const sel_index_t *index, uint16_t owner);


uint16_t
sel_index_find_owner(const sel_index_t *index, uint32_t partition,
    uint64_t worker_id, uint32_t dp_rank)
{
    uint16_t            number;
    const sel_owner_t  *owner;

    if (index->live_n == 0) {
        return SEL_INDEX_NO_OWNER;
    }

    number = *sel_index_bucket(index, partition, worker_id, dp_rank);

    while (number != 0) {
        owner = &index->owners[number - 1];

        if (owner->worker_id == worker_id && owner->partition == partition
            && owner->dp_rank == dp_rank)
        {
            return (uint16_t) (number - 1);
        }

        number = owner->next;
    }

    return SEL_INDEX_NO_OWNER;
}


uint16_t
sel_index_owner(sel_index_t *index, uint32_t partition, uint64_t worker_id,
    uint32_t dp_rank)
{
    uint16_t      number;
    uint32_t      free, tier;
    sel_owner_t  *owner;

    number = sel_index_find_owner(index, partition, worker_id, dp_rank);

    if (number != SEL_INDEX_NO_OWNER) {
        return number;
    }

    if (!sel_index_owner_reserve(index, &free)) {
        return SEL_INDEX_NO_OWNER;
    }

    number = (uint16_t) free;

    owner = &index->owners[number];
    owner->worker_id = worker_id;
    owner->partition = partition;
    owner->dp_rank = dp_rank;
    owner->life = ++index->lives;
    owner->state = SEL_OWNER_LIVE;

    for (tier = 0; tier < SEL_TIERS; tier++) {
        owner->holder[tier] = SEL_INDEX_NO_HOLDER;
    }

    index->owners_used[number / 64] |= (uint64_t) 1 << (number % 64);
    index->live_n++;

    if (number >= index->owner_limit) {
        index->owner_limit = (uint32_t) number + 1;
    }

    sel_index_link(index, number);

    return number;
}


static bool
sel_index_owner_reserve(sel_index_t *index, uint32_t *free)
{
    void      *owners;
    uint32_t   n;

    *free = sel_index_lowest(index->owners_used, index->owners_n);

    if (*free == index->owners_n) {

        n = index->owners_n == 0 ? SEL_INDEX_LEAST : index->owners_n * 2;

        if (n > SEL_SET_HOLDERS) {
            return false;
        }

        owners = sel_memory_resize(&index->memory, index->owners,
                                   index->owners_n * sizeof(sel_owner_t),
                                   n * sizeof(sel_owner_t));
        if (owners == NULL) {
            return false;
        }

        index->owners = owners;
        index->owners_n = n;
    }

    return index->buckets_n >= index->owners_n
           || sel_index_buckets_resize(index);
}


/* As many buckets as there are places for owners. */

static bool
sel_index_buckets_resize(sel_index_t *index)
{
    void      *buckets;
    uint32_t   i;

    buckets = sel_memory_resize(&index->memory, index->buckets,
                                index->buckets_n * sizeof(uint16_t),
                                index->owners_n * sizeof(uint16_t));
    if (buckets == NULL) {
        return false;
    }

    index->buckets = buckets;
    index->buckets_n = index->owners_n;

    memset(buckets, 0, index->buckets_n * sizeof(uint16_t));

    for (i = 0; i < index->owner_limit; i++) {
        if (index->owners[i].state == SEL_OWNER_LIVE) {
            sel_index_link(index, (uint16_t) i);
        }
    }

    return true;
}


void
sel_index_retire(sel_index_t *index, uint16_t owner)
{
    uint32_t  ghost;

    if (!sel_index_live(index, owner)) {
        return;
    }

    sel_index_unlink(index, owner);
    ghost = sel_index_clear(index, owner);

    index->owners[owner].state = SEL_OWNER_RETIRED;
    index->live_n--;
    index->retired_n++;

    if (ghost == SEL_INDEX_NO_HOLDER) {
        index->owners[owner].next = index->empty;
        index->empty = (uint16_t) (owner + 1);

    } else {
        index->holders[ghost].owner = owner;
    }
}


void
sel_index_retire_worker(sel_index_t *index, uint32_t partition,
    uint64_t worker_id)
{
    uint32_t            i;
    const sel_owner_t  *owner;

    for (i = 0; i < index->owner_limit; i++) {
        owner = &index->owners[i];

        if (owner->worker_id == worker_id && owner->partition == partition) {
            sel_index_retire(index, (uint16_t) i);
        }
    }
}


void
sel_index_owner_free(sel_index_t *index, uint16_t owner)
{
    index->owners[owner].state = SEL_OWNER_FREE;
    index->owners_used[owner / 64] &= ~((uint64_t) 1 << (owner % 64));
    index->retired_n--;

    while (index->owner_limit != 0
           && index->owners[index->owner_limit - 1].state == SEL_OWNER_FREE)
    {
        index->owner_limit--;
    }
}


void
sel_index_settle_owners(sel_index_t *index)
{
    void      *owners;
    uint32_t   n;

    n = index->owners_n;

    while (n > SEL_INDEX_LEAST && index->owner_limit <= n / 4) {
        n /= 2;
    }

    if (n == index->owners_n) {
        return;
    }

    owners = sel_memory_resize(&index->memory, index->owners,
                               index->owners_n * sizeof(sel_owner_t),
                               n * sizeof(sel_owner_t));
    if (owners != NULL) {
        index->owners = owners;
        index->owners_n = n;

        (void) sel_index_buckets_resize(index);
    }
}


bool
sel_index_owner_key(const sel_index_t *index, uint16_t owner,
    uint32_t *partition, uint64_t *worker_id, uint32_t *dp_rank)
{
    if (!sel_index_live(index, owner)) {
        return false;
    }

    *partition = index->owners[owner].partition;
    *worker_id = index->owners[owner].worker_id;
    *dp_rank = index->owners[owner].dp_rank;

    return true;
}


uint32_t
sel_index_owner_life(const sel_index_t *index, uint16_t owner)
{
    return sel_index_live(index, owner) ? index->owners[owner].life : 0;
}


uint64_t
sel_index_owner_blocks(const sel_index_t *index, uint16_t owner,
    sel_tier_t tier)
{
    uint32_t  holder;

    if (!sel_index_live(index, owner)) {
        return 0;
    }

    holder = index->owners[owner].holder[tier];

    return holder == SEL_INDEX_NO_HOLDER ? 0 : index->holders[holder].blocks;
}


uint32_t
sel_index_owner_limit(const sel_index_t *index)
{
    return index->owner_limit;
}


static uint16_t *
sel_index_bucket(const sel_index_t *index, uint32_t partition,
    uint64_t worker_id, uint32_t dp_rank)
{
    uint64_t  hash;

    hash = sel_mix(&index->mix, (uint64_t) partition << 32 | dp_rank);
    hash = sel_mix(&index->mix, hash ^ worker_id);

    return &index->buckets[hash & (index->buckets_n - 1)];
}


static void
sel_index_link(sel_index_t *index, uint16_t owner)
{
    uint16_t     *bucket;
    sel_owner_t  *o;

    o = &index->owners[owner];
    bucket = sel_index_bucket(index, o->partition, o->worker_id, o->dp_rank);

    o->next = *bucket;
    *bucket = (uint16_t) (owner + 1);
}


static void
sel_index_unlink(sel_index_t *index, uint16_t owner)
{
    uint16_t     *link;
    sel_owner_t  *o;

    o = &index->owners[owner];
    link = sel_index_bucket(index, o->partition, o->worker_id, o->dp_rank);

    while (*link != owner + 1) {
        link = &index->owners[*link - 1].next;
    }

    *link = o->next;
}


uint32_t
sel_index_lowest(const uint64_t *used, uint32_t n)
{
    uint32_t  i, number;

    for (i = 0; i * 64 < n; i++) {
        if (used[i] != UINT64_MAX) {
            number = i * 64 + (uint32_t) __builtin_ctzll(~used[i]);

            return number < n ? number : n;
        }
    }

    return n;
}


static bool
sel_index_live(const sel_index_t *index, uint16_t owner)
{
    return owner < index->owner_limit
           && index->owners[owner].state == SEL_OWNER_LIVE;
}
