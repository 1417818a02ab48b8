/*
 * Pending selections in numbers, for their tests: what is in one follows from
 * a seed, so it can be compared when it is found again.  Include after
 * cmocka.h.
 */

#ifndef PENDING_TEST_H
#define PENDING_TEST_H

#include "sel_rand.h"
#include "state/sel_pending.h"
#include "state_test.h"


#define PENDING_BLOCKS  20000
#define PENDING_TEXT    70000


/*
 * What is to be kept: bits of the seed choose what is there.  The memory is
 * that of the last call.
 */
static inline sel_pending_t
pending_make(uint32_t partition, sel_str_t id, uint64_t seed,
    uint32_t n_blocks, uint64_t made)
{
    static uint8_t   text[PENDING_TEXT];
    static uint64_t  hashes[2][PENDING_BLOCKS];

    uint32_t       i;
    sel_rand_t     rand;
    sel_pending_t  pending;

    rand.state = seed;

    for (i = 0; i < n_blocks; i++) {
        hashes[0][i] = sel_rand(&rand);
        hashes[1][i] = sel_rand(&rand);
    }

    for (i = 0; i < 400; i++) {
        text[i] = (uint8_t) sel_rand(&rand);
    }

    pending = (sel_pending_t) {
        .id = id, .partition = partition,
        .dp_rank = (uint32_t) sel_rand(&rand), .worker_id = sel_rand(&rand),
        .isl_tokens = sel_rand(&rand), .prefill_tokens = sel_rand(&rand),
        .tracked = sel_rand(&rand) % 2,
        .expected_output_tokens = (uint32_t) sel_rand(&rand),
        .n_blocks = n_blocks, .sequence = hashes[0],
        .n_hashes = sel_rand(&rand) % 2 ? n_blocks : 0, .hashes = hashes[1],
        .lora_name = { sel_rand(&rand) % 2 ? sel_rand(&rand) % 200 : 0, text },
        .made = made
    };

    if (sel_rand(&rand) % 2) {
        pending.session_id = (sel_str_t) { sel_rand(&rand) % 257, text };
    }

    pending.size = 8 * n_blocks + 8 * pending.n_hashes + id.len
                   + pending.lora_name.len + pending.session_id.len + 12;

    return pending;
}


/* NULL, or what is different in the one that was found. */
static inline const char *
pending_differs(const sel_pending_t *a, const sel_pending_t *b)
{
    if (!sel_str_eq(a->id, b->id) || a->partition != b->partition) {
        return "key";
    }

    if (a->dp_rank != b->dp_rank || a->worker_id != b->worker_id
        || a->isl_tokens != b->isl_tokens
        || a->prefill_tokens != b->prefill_tokens || a->tracked != b->tracked
        || a->expected_output_tokens != b->expected_output_tokens
        || a->made != b->made)
    {
        return "numbers";
    }

    if (a->n_blocks != b->n_blocks
        || (a->n_blocks > 0
            && memcmp(a->sequence, b->sequence, 8 * a->n_blocks) != 0))
    {
        return "sequence hashes";
    }

    if (a->n_hashes != b->n_hashes
        || (a->n_hashes > 0
            && memcmp(a->hashes, b->hashes, 8 * a->n_hashes) != 0))
    {
        return "block hashes";
    }

    if (!sel_str_eq(a->lora_name, b->lora_name)) {
        return "lora name";
    }

    if (!sel_str_eq(a->session_id, b->session_id)
        || (a->session_id.data == NULL) != (b->session_id.data == NULL))
    {
        return "session id";
    }

    return NULL;
}


#endif /* PENDING_TEST_H */
