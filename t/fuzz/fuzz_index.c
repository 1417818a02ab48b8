/*
 * Fuzzes the block index: the input is a list of operations, which go to the
 * index and to the slow model of its unit test; both must agree at each step,
 * and the tables must be sound at the end.
 *
 * The first byte chooses the memory limit.  Then an operation is one byte and
 * its arguments, a byte each; a list has its length in front.  An input that
 * ends early is continued with zeros.
 */

#include "fuzz.h"
#include "index/sel_index_check.h"
#include "../unit/index_compare.h"


#define FUZZ_KEYS    12
#define FUZZ_LIST    16
#define FUZZ_DEPTH   1000
#define FUZZ_PROMPT  64


typedef struct {
    const uint8_t  *pos;
    const uint8_t  *end;
    compare_t       compare;
    model_t         model;
    bool            limited;
    uint64_t        external[FUZZ_LIST];
    uint64_t        block[FUZZ_LIST];
} fuzz_t;


static const char *fuzz_store(fuzz_t *fuzz);
static const char *fuzz_remove(fuzz_t *fuzz);
static const char *fuzz_query(fuzz_t *fuzz);
static const char *fuzz_clear(fuzz_t *fuzz);
static const char *fuzz_owner(fuzz_t *fuzz);
static const char *fuzz_retire(fuzz_t *fuzz);
static const char *fuzz_retire_worker(fuzz_t *fuzz);
static const char *fuzz_sweep(fuzz_t *fuzz);
static const char *fuzz_look(fuzz_t *fuzz);


static const char *(*const operations[])(fuzz_t *fuzz) = {
    fuzz_store,
    fuzz_store,
    fuzz_remove,
    fuzz_query,
    fuzz_clear,
    fuzz_owner,
    fuzz_retire,
    fuzz_retire_worker,
    fuzz_sweep,
    fuzz_look,
};


static uint8_t
take(fuzz_t *fuzz)
{
    return fuzz->pos == fuzz->end ? 0 : *fuzz->pos++;
}


static uint64_t
take_block(fuzz_t *fuzz)
{
    static const uint64_t  blocks[] = {
        11, 12, 0, UINT64_MAX,

        /* the sequence hashes of 11, 12 and of 11, 12, 13 */
        UINT64_C(10497221074644697006), UINT64_C(8340346278797266542),
        13, 14
    };

    return blocks[take(fuzz) % sel_countof(blocks)];
}


static uint64_t
take_external(fuzz_t *fuzz)
{
    uint8_t  byte;

    byte = take(fuzz);

    return byte == 1 ? UINT64_MAX : byte;
}


static model_rank_t *
take_rank(fuzz_t *fuzz)
{
    uint8_t  byte;

    byte = take(fuzz);

    if (fuzz->model.n_ranks == 0) {
        return NULL;
    }

    return &fuzz->model.ranks[byte % fuzz->model.n_ranks];
}


/* A rank of FUZZ_KEYS: two partitions, two workers, three ranks each. */
static void
take_key(fuzz_t *fuzz, uint32_t *partition, uint64_t *worker, uint32_t *rank)
{
    uint8_t  byte;

    byte = take(fuzz) % FUZZ_KEYS;
    *partition = 1 + byte % 2;
    *worker = byte / 2 % 2 ? UINT64_MAX : 0;
    *rank = byte / 4;
}


static const char *
fuzz_store(fuzz_t *fuzz)
{
    uint32_t             i, path;
    model_rank_t        *r;
    sel_index_change_t   change;

    r = take_rank(fuzz);

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_STORED;
    change.owner = r == NULL ? SEL_INDEX_NO_OWNER : r->owner;
    change.has_parent = take(fuzz) % 2;
    change.parent = change.has_parent ? take_external(fuzz) : 0;
    change.n = take(fuzz) % FUZZ_LIST;
    change.external = fuzz->external;
    change.block = fuzz->block;

    for (i = 0; i < change.n; i++) {
        fuzz->block[i] = take_block(fuzz);
        fuzz->external[i] = take_external(fuzz);
    }

    if (r != NULL && change.has_parent) {
        path = model_known(r, change.parent);

        if (path != MODEL_NONE && fuzz->model.paths[path].depth > FUZZ_DEPTH) {
            return NULL;
        }
    }

    return compare_apply(&fuzz->compare, &change, fuzz->limited);
}


static const char *
fuzz_remove(fuzz_t *fuzz)
{
    uint32_t             i;
    model_rank_t        *r;
    sel_index_change_t   change;

    r = take_rank(fuzz);

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_REMOVED;
    change.owner = r == NULL ? 0 : r->owner;
    change.n = take(fuzz) % FUZZ_LIST;
    change.external = fuzz->external;

    for (i = 0; i < change.n; i++) {
        fuzz->external[i] = take_external(fuzz);
    }

    return compare_apply(&fuzz->compare, &change, fuzz->limited);
}


static const char *
fuzz_query(fuzz_t *fuzz)
{
    uint32_t  i, n, cap, partition;
    uint64_t  blocks[FUZZ_PROMPT];

    partition = take(fuzz) % 4;
    cap = take(fuzz) % (FUZZ_KEYS + 1);
    n = take(fuzz) % FUZZ_PROMPT;

    for (i = 0; i < n; i++) {
        blocks[i] = take_block(fuzz);
    }

    return compare_match(&fuzz->compare, partition, blocks, n, cap);
}


static const char *
fuzz_clear(fuzz_t *fuzz)
{
    model_rank_t        *r;
    sel_index_change_t   change;

    r = take_rank(fuzz);

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_CLEARED;
    change.owner = r == NULL ? 1 : r->owner;

    return compare_apply(&fuzz->compare, &change, false);
}


static const char *
fuzz_owner(fuzz_t *fuzz)
{
    uint16_t       owner;
    uint32_t       partition, rank;
    uint64_t       worker;
    model_rank_t  *r;

    take_key(fuzz, &partition, &worker, &rank);

    r = model_rank_of(&fuzz->model, partition, worker, rank);
    owner = sel_index_owner(fuzz->compare.index, partition, worker, rank);

    if (r != NULL) {
        return owner == r->owner ? NULL : "a known owner got another number";
    }

    if (owner == SEL_INDEX_NO_OWNER) {
        return fuzz->limited ? NULL : "no owner could be made";
    }

    if (model_rank(&fuzz->model, owner) != NULL) {
        return "a number was given to two owners";
    }

    (void) model_rank_add(&fuzz->model, owner, partition, worker, rank);

    return NULL;
}


static const char *
fuzz_retire(fuzz_t *fuzz)
{
    model_rank_t  *r;

    r = take_rank(fuzz);

    if (r == NULL) {
        sel_index_retire(fuzz->compare.index, take(fuzz));
        return NULL;
    }

    sel_index_retire(fuzz->compare.index, r->owner);
    model_rank_drop(&fuzz->model, r);
    fuzz->compare.retired++;

    return NULL;
}


static const char *
fuzz_retire_worker(fuzz_t *fuzz)
{
    uint32_t       partition, rank;
    uint64_t       worker;
    model_rank_t  *r;

    take_key(fuzz, &partition, &worker, &rank);
    sel_index_retire_worker(fuzz->compare.index, partition, worker);

    for (rank = 0; rank < 3; rank++) {
        r = model_rank_of(&fuzz->model, partition, worker, rank);

        if (r != NULL) {
            model_rank_drop(&fuzz->model, r);
            fuzz->compare.retired++;
        }
    }

    return NULL;
}


static const char *
fuzz_sweep(fuzz_t *fuzz)
{
    if (sel_index_sweep(fuzz->compare.index, 1 + take(fuzz))) {
        fuzz->compare.retired = 0;
        fuzz->compare.cleared = 0;
    }

    return compare_stats(&fuzz->compare);
}


static const char *
fuzz_look(fuzz_t *fuzz)
{
    const char    *error;
    model_rank_t  *r;

    r = take_rank(fuzz);
    error = r == NULL ? NULL : compare_rank(&fuzz->compare, r);

    if (error == NULL) {
        error = compare_stats(&fuzz->compare);
    }

    return error != NULL ? error : sel_index_check(fuzz->compare.index);
}


static void
must_be_null(const char *error)
{
    FUZZ_CHECK(error == NULL, "%s", error);
}


/* The limit of memory; the lowest ones are too little for an index. */
static size_t
take_limit(fuzz_t *fuzz)
{
    uint8_t  byte;

    byte = take(fuzz);
    fuzz->limited = byte != 0;

    return byte == 0 ? 0 : (64 << 10) + ((size_t) byte << 9);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_t    fuzz;
    uint32_t  turns;

    memset(&fuzz, 0, sizeof(fuzz));
    fuzz.pos = data;
    fuzz.end = data + size;

    fuzz.compare.index = sel_index_create(take_limit(&fuzz), 7);
    if (fuzz.compare.index == NULL) {
        return 0;
    }

    fuzz.compare.model = &fuzz.model;
    model_init(&fuzz.model);

    while (fuzz.pos < fuzz.end) {
        must_be_null(operations[take(&fuzz) % sel_countof(operations)](&fuzz));
    }

    must_be_null(sel_index_check(fuzz.compare.index));

    for (turns = 0; !sel_index_sweep(fuzz.compare.index, 3); turns++) {
        FUZZ_CHECK(turns < 100000, "the sweep does not end");
    }

    fuzz.compare.retired = 0;
    fuzz.compare.cleared = 0;
    must_be_null(compare_stats(&fuzz.compare));
    must_be_null(sel_index_check(fuzz.compare.index));

    sel_index_destroy(fuzz.compare.index);
    model_free(&fuzz.model);

    return 0;
}
