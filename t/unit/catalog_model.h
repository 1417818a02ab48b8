/*
 * A slow model of the worker catalog, for the random test and the crash test.
 *
 * An intent is a commit in numbers: the blob follows from a seed and a length,
 * the partition is an index into a fixed list of names.  A worker is what the
 * model believes of one id.  The slot book remembers for ever who a slot's
 * epoch stood for, and the number book which partition has a number.
 *
 * Functions give NULL when all is well, else a sentence.
 */

#ifndef CATALOG_MODEL_H
#define CATALOG_MODEL_H

#include "sel_rand.h"
#include "state_test.h"


#define CAT_RANKS       12
#define CAT_PARTITIONS  12
#define CAT_BLOB_MAX    (64 << 10)
#define CAT_NUMBERS     65536


typedef struct {
    uint64_t            worker_id;
    uint64_t            expected;
    uint64_t            blob_seed;
    uint32_t            blob_len;
    uint32_t            partition;      /* in the list of names */
    uint32_t            block_size;     /* 0: the list's */
    sel_worker_state_t  state;
    bool                flip_eagle;
    bool                makes;          /* INCOMPLETE, with a partition */
    uint32_t            n_ranks;
    sel_rank_slot_t     ranks[CAT_RANKS];
} cat_intent_t;


typedef struct {
    uint64_t            version;        /* 0: there is none (or a tomb) */
    uint32_t            number;         /* of the partition */
    cat_intent_t        now;            /* ranks as read */
} cat_worker_t;


typedef struct {
    bool                seen;
    uint32_t            epoch;
    uint32_t            feed;
    uint32_t            number;
    uint32_t            dp_rank;
    uint64_t            worker_id;
} cat_slot_t;


typedef struct {
    cat_slot_t          slots[SEL_ZONE_MAX_SLOTS + 1];
    uint8_t             numbers[CAT_NUMBERS];   /* partition + 1; 0: unseen */
    char                text[256];
} cat_book_t;


#define cat_say(book, ...)                                                    \
    ((void) snprintf((book)->text, sizeof((book)->text), __VA_ARGS__),        \
     (book)->text)


static inline uint32_t
cat_block_size(uint32_t partition)
{
    return 16 << partition % 3;
}


static inline bool
cat_is_eagle(uint32_t partition)
{
    return partition % 4 == 1;
}


/* The names of a partition; some differ only in where they are divided. */
static inline void
cat_names(uint32_t partition, char text[2][64], sel_partition_t *p)
{
    (void) snprintf(text[0], 64, "%s", partition % 2 ? "mo" : "mod");
    (void) snprintf(text[1], 64, "%sgroup-%u", partition % 2 ? "d" : "",
                    partition / 2);

    memset(p, 0, sizeof(sel_partition_t));
    p->block_size = cat_block_size(partition);
    p->is_eagle = cat_is_eagle(partition);
    p->model_name = sel_cstr(text[0]);
    p->routing_group = sel_cstr(text[1]);
}


static inline void
cat_blob(uint64_t seed, uint32_t len, uint8_t *out)
{
    uint32_t    i;
    uint64_t    word;
    sel_rand_t  rand;

    rand.state = seed;

    for (i = 0; i < len; i += 8) {
        word = sel_rand(&rand);
        memcpy(out + i, &word, len - i < 8 ? len - i : 8);
    }
}


/* Carries an intent out; the ranks are filled in as the catalog does it. */
static inline sel_commit_t
cat_commit(sel_zone_t *zone, cat_intent_t *intent, uint64_t *version,
    uint32_t *number, sel_partition_t *existing)
{
    static uint8_t  blob[CAT_BLOB_MAX];

    char                 text[2][64];
    sel_partition_t      partition;
    sel_worker_commit_t  commit;

    cat_names(intent->partition, text, &partition);
    cat_blob(intent->blob_seed, intent->blob_len, blob);

    if (intent->block_size != 0) {
        partition.block_size = intent->block_size;
    }

    partition.is_eagle ^= intent->flip_eagle;

    memset(&commit, 0, sizeof(commit));
    commit.worker_id = intent->worker_id;
    commit.expected = intent->expected;
    commit.state = intent->state;

    if (intent->state == SEL_WORKER_SCHEDULABLE || intent->makes) {
        commit.partition = &partition;
    }

    if (intent->state == SEL_WORKER_SCHEDULABLE) {
        commit.n_ranks = intent->n_ranks;
        commit.ranks = intent->ranks;
    }

    if (intent->state != SEL_WORKER_GONE) {
        commit.blob = (sel_str_t) { intent->blob_len, blob };
    }

    return sel_catalog_commit(zone, &commit, version, number, existing);
}


/* A next state for a worker, computed from what is known of it. */
static inline void
cat_intend(sel_rand_t *rand, const cat_worker_t *old, uint64_t worker_id,
    cat_intent_t *intent)
{
    bool      moves;
    uint32_t  i, k, dice, first;

    memset(intent, 0, sizeof(cat_intent_t));
    intent->worker_id = worker_id;
    intent->expected = old->version;
    intent->blob_seed = sel_rand(rand);
    intent->blob_len = sel_rand_below(rand, 10)
                       ? (uint32_t) sel_rand_below(rand, 600)
                       : (uint32_t) sel_rand_below(rand, 6000);

    dice = (uint32_t) sel_rand_below(rand, 100);

    if (dice < 20 && old->version != 0) {
        intent->state = SEL_WORKER_GONE;
        intent->blob_len = 0;
        return;
    }

    if (dice < 32) {
        intent->state = SEL_WORKER_INCOMPLETE;
        intent->makes = sel_rand_below(rand, 3) == 0;

        if (intent->makes) {
            intent->partition = (uint32_t) sel_rand_below(rand,
                                                          CAT_PARTITIONS);
        }

        return;
    }

    intent->state = SEL_WORKER_SCHEDULABLE;
    intent->partition = (uint32_t) sel_rand_below(rand, CAT_PARTITIONS);
    intent->n_ranks = 1 + (uint32_t) sel_rand_below(rand, CAT_RANKS);

    if (old->version != 0 && sel_rand_below(rand, 100) < 75) {
        intent->partition = old->now.partition;
    }

    moves = old->now.state != SEL_WORKER_SCHEDULABLE
            || old->now.partition != intent->partition;
    first = (uint32_t) sel_rand_below(rand, 4);

    for (i = 0; i < intent->n_ranks; i++) {
        intent->ranks[i].dp_rank = first + i;
        intent->ranks[i].slot = SEL_SLOT_NONE;

        for (k = 0; !moves && k < old->now.n_ranks; k++) {
            if (old->now.ranks[k].dp_rank == first + i
                && sel_rand_below(rand, 10))
            {
                intent->ranks[i].slot = old->now.ranks[k].slot;
                intent->ranks[i].new_feed = sel_rand_below(rand, 4) == 0;
            }
        }
    }
}


/* A rank's slot as it is seen now, against all that was seen before. */
static inline const char *
cat_book_slot(cat_book_t *book, uint32_t number, uint64_t worker_id,
    const sel_rank_slot_t *rank)
{
    cat_slot_t  *slot;

    slot = &book->slots[rank->slot];

    if (slot->seen && rank->epoch < slot->epoch) {
        return cat_say(book, "slot %u: epoch %u after %u", rank->slot,
                       rank->epoch, slot->epoch);
    }

    if (slot->seen && rank->feed < slot->feed) {
        return cat_say(book, "slot %u: feed %u after %u", rank->slot,
                       rank->feed, slot->feed);
    }

    if (slot->seen && rank->epoch == slot->epoch
        && (slot->number != number || slot->worker_id != worker_id
            || slot->dp_rank != rank->dp_rank))
    {
        return cat_say(book, "slot %u epoch %u stands for two ranks",
                       rank->slot, rank->epoch);
    }

    slot->seen = true;
    slot->epoch = rank->epoch;
    slot->feed = rank->feed;
    slot->number = number;
    slot->worker_id = worker_id;
    slot->dp_rank = rank->dp_rank;

    return NULL;
}


/* A partition's number, the same for ever and for no other partition. */
static inline const char *
cat_book_number(cat_book_t *book, uint32_t number, uint32_t partition)
{
    if (number == 0 || number >= CAT_NUMBERS) {
        return cat_say(book, "partition number %u", number);
    }

    if (book->numbers[number] != 0
        && book->numbers[number] != partition + 1)
    {
        return cat_say(book, "partition number %u used twice", number);
    }

    book->numbers[number] = (uint8_t) (partition + 1);

    return NULL;
}


/*
 * What a commit gave back, against the intent that it was called with (asked)
 * and the state that it was computed from (old).
 */
static inline const char *
cat_check_ranks(cat_book_t *book, const sel_zone_t *zone,
    const cat_intent_t *asked, const cat_intent_t *old,
    const sel_rank_slot_t *ranks)
{
    uint32_t                i, k;
    const char             *error;
    const sel_rank_slot_t  *kept;

    error = NULL;

    for (i = 0; i < asked->n_ranks && error == NULL; i++) {
        if (ranks[i].dp_rank != asked->ranks[i].dp_rank
            || ranks[i].slot >= zone->n_slots)
        {
            return cat_say(book, "rank %u became rank %u in slot %u",
                           asked->ranks[i].dp_rank, ranks[i].dp_rank,
                           ranks[i].slot);
        }

        for (k = 0; k < i; k++) {
            if (ranks[k].slot == ranks[i].slot) {
                return cat_say(book, "slot %u for two ranks", ranks[i].slot);
            }
        }

        if (asked->ranks[i].slot == SEL_SLOT_NONE) {
            continue;
        }

        for (k = 0; old->ranks[k].slot != asked->ranks[i].slot; k++) {
            /* void: intents keep only slots of the old state */
        }

        kept = &old->ranks[k];

        if (ranks[i].slot != kept->slot || ranks[i].epoch != kept->epoch
            || (ranks[i].feed > kept->feed) != asked->ranks[i].new_feed)
        {
            error = cat_say(book, "kept slot %u epoch %u feed %u%s became "
                            "slot %u epoch %u feed %u", kept->slot,
                            kept->epoch, kept->feed,
                            asked->ranks[i].new_feed ? " (new feed)" : "",
                            ranks[i].slot, ranks[i].epoch, ranks[i].feed);
        }
    }

    return error;
}


/* A record as read, against a worker of the model that is not gone. */
static inline const char *
cat_check_record(cat_book_t *book, const sel_worker_record_t *record,
    const cat_worker_t *worker)
{
    static uint8_t  blob[CAT_BLOB_MAX];

    uint32_t             i;
    const cat_intent_t  *now;

    now = &worker->now;

    if (record->worker_id != now->worker_id
        || record->version != worker->version || record->state != now->state
        || record->partition != worker->number
        || record->n_ranks != now->n_ranks)
    {
        return cat_say(book, "worker %" PRIu64 ": version %" PRIu64 " state "
                       "%d partition %u with %u ranks, expected version %"
                       PRIu64 " state %d partition %u with %u ranks",
                       record->worker_id, record->version, record->state,
                       record->partition, record->n_ranks, worker->version,
                       now->state, worker->number, now->n_ranks);
    }

    for (i = 0; i < now->n_ranks; i++) {
        if (record->ranks[i].dp_rank != now->ranks[i].dp_rank
            || record->ranks[i].slot != now->ranks[i].slot
            || record->ranks[i].epoch != now->ranks[i].epoch
            || record->ranks[i].feed != now->ranks[i].feed)
        {
            return cat_say(book, "worker %" PRIu64 " rank %u: slot %u epoch "
                           "%u feed %u, expected slot %u epoch %u feed %u",
                           record->worker_id, now->ranks[i].dp_rank,
                           record->ranks[i].slot, record->ranks[i].epoch,
                           record->ranks[i].feed, now->ranks[i].slot,
                           now->ranks[i].epoch, now->ranks[i].feed);
        }
    }

    cat_blob(now->blob_seed, now->blob_len, blob);

    if (!sel_str_eq(record->blob, (sel_str_t) { now->blob_len, blob })) {
        return cat_say(book, "worker %" PRIu64 ": another blob of %zu bytes",
                       record->worker_id, record->blob.len);
    }

    return NULL;
}


#endif /* CATALOG_MODEL_H */
