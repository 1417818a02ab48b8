/*
 * Several processes that book at the same time.  Without it a choice could be
 * made from a load that another process is just changing, scratch memory
 * could be shared by mistake, and a reader of the decision log could see what
 * is not whole yet.
 *
 * SEL_SEED repeats the children's choices, not their order.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "sel_rand.h"
#include "state/sel_books.h"
#include "state/sel_decisions.h"
#include "state_test.h"


#define CHILDREN  3
#define RANKS     8
#define LIVE      40
#define ROUNDS    50000
#define BATCH     64


typedef struct {
    sel_zone_t        zone;
    sel_rank_slot_t   ranks[RANKS];
    uint32_t          partition;
    uint64_t          seed;
    uint32_t          number;           /* of the child */
    sel_rand_t        rand;
} shared_t;


/* The idlest rank. */
static uint32_t
choose(void *data, sel_booking_t *booking, const sel_rank_load_t *ranks,
    uint32_t n)
{
    uint32_t  i, best;

    best = 0;

    for (i = 1; i < n; i++) {
        if (ranks[i].requests < ranks[best].requests) {
            best = i;
        }
    }

    booking->prefill_tokens = 10;

    return best;
}


static sel_str_t
id_of(uint32_t child, uint32_t number, char *room)
{
    return (sel_str_t) { (size_t) sprintf(room, "child %u request %u", child,
                                          number), (uint8_t *) room };
}


static void
loads_of(const shared_t *shared, sel_rank_load_t *loads)
{
    uint32_t  i;

    memset(loads, 0, RANKS * sizeof(sel_rank_load_t));

    for (i = 0; i < RANKS; i++) {
        loads[i].slot = shared->ranks[i].slot;
        loads[i].epoch = shared->ranks[i].epoch;
    }
}


/* A prompt of one of a few chains, left at any depth. */
static uint32_t
prompt(shared_t *shared, uint64_t *path)
{
    uint32_t  i, n, part;

    n = (uint32_t) sel_rand_below(&shared->rand, 60);
    part = (uint32_t) sel_rand_below(&shared->rand, 60);

    for (i = 0; i < n; i++) {
        path[i] = i < part ? 1 : 2;
    }

    sel_path_keys(shared->partition, path, n, path);

    return n;
}


/* Books and frees; 0 when every call had the result that it must have. */
static int
child(void *data)
{
    bool               live[LIVE] = { false };
    char               room[64];
    shared_t          *shared;
    uint32_t           i, k, chosen;
    uint64_t           path[60], hashes[2];
    sel_booking_t      booking;
    sel_rank_load_t    loads[RANKS];
    sel_book_result_t  result;

    shared = data;
    shared->rand.state = shared->seed + shared->number;

    for (i = 1; i <= ROUNDS; i++) {
        k = (uint32_t) sel_rand_below(&shared->rand, LIVE);
        hashes[0] = shared->number;
        hashes[1] = i;
        booking = (sel_booking_t) {
            .id = id_of(shared->number, k, room), .path = path,
            .partition = shared->partition, .now = 1 + i, .n_hashes = 2,
            .hashes = hashes
        };
        booking.n_blocks = prompt(shared, path);
        loads_of(shared, loads);
        result = sel_book(&shared->zone, &booking, loads, RANKS, choose,
                          NULL, &chosen);

        if (result != (live[k] ? SEL_BOOK_TAKEN : SEL_BOOK_OK)) {
            return 1;
        }

        live[k] = true;
        result = sel_book_output(&shared->zone, booking.id,
                                 (int) (i % 5) / 4.0 - 0.25);

        if (result != SEL_BOOK_OK) {
            return 2;
        }

        k = (uint32_t) sel_rand_below(&shared->rand, LIVE);
        result = sel_book_free(&shared->zone,
                               id_of(shared->number, k, room));

        if (result != (live[k] ? SEL_BOOK_OK : SEL_BOOK_NONE)) {
            return 3;
        }

        live[k] = false;
    }

    for (k = 0; k < LIVE; k++) {
        result = sel_book_free(&shared->zone,
                               id_of(shared->number, k, room));

        if (result != (live[k] ? SEL_BOOK_OK : SEL_BOOK_NONE)) {
            return 4;
        }
    }

    return 0;
}


/* Only books. */
static int
filler(void *data)
{
    char               room[64];
    shared_t          *shared;
    uint32_t           k, chosen;
    uint64_t           path[60];
    sel_booking_t      booking;
    sel_rank_load_t    loads[RANKS];

    shared = data;
    shared->rand.state = shared->seed + shared->number;

    for (k = 0; k < LIVE; k++) {
        booking = (sel_booking_t) {
            .id = id_of(shared->number, k, room), .path = path,
            .partition = shared->partition, .now = 1
        };
        booking.n_blocks = prompt(shared, path);
        loads_of(shared, loads);

        if (sel_book(&shared->zone, &booking, loads, RANKS, choose, NULL,
                     &chosen) != SEL_BOOK_OK)
        {
            return 1;
        }
    }

    return 0;
}


/* What the log tells of each child, in the order in which it booked. */
static uint32_t
follow(shared_t *shared, uint64_t *at, uint64_t *lost, uint64_t *seen)
{
    static uint64_t  buffer[1 << 16];

    uint32_t        i, n, who;
    sel_decision_t  got[BATCH];

    n = sel_decisions_read(&shared->zone, at, buffer, sizeof(buffer), got,
                           BATCH, lost);

    for (i = 0; i < n; i++) {
        assert_int_equal(got[i].n_hashes, 2);
        who = (uint32_t) got[i].hashes[0];
        assert_true(who < CHILDREN);
        assert_true(got[i].hashes[1] > seen[who]);
        assert_int_equal(got[i].made, 1 + got[i].hashes[1]);
        seen[who] = got[i].hashes[1];
    }

    return n;
}


/* Whatever is read is a state between two calls. */
static void
watch(shared_t *shared)
{
    uint32_t         i, n, sum;
    uint64_t         path[60];
    sel_rank_load_t  loads[RANKS];

    n = prompt(shared, path);
    loads_of(shared, loads);
    sel_books_read(&shared->zone, path, n, loads, RANKS);
    sum = 0;

    for (i = 0; i < RANKS; i++) {
        assert_false(loads[i].gone);
        assert_int_equal(loads[i].prefill_tokens, 10 * loads[i].requests);
        assert_true(loads[i].depth <= n);
        assert_true(loads[i].requests > 0 || loads[i].blocks == 0.0);
        assert_true(loads[i].blocks >= -1e-9);
        sum += loads[i].requests;
    }

    assert_in_range(sum, 0, CHILDREN * LIVE);
}


static void
make_worker(shared_t *shared)
{
    uint32_t             i;
    uint64_t             version;
    sel_partition_t      named, existing;
    sel_worker_commit_t  commit;

    for (i = 0; i < RANKS; i++) {
        shared->ranks[i] = (sel_rank_slot_t) { .dp_rank = i,
                                               .slot = SEL_SLOT_NONE };
    }

    named = (sel_partition_t) { .block_size = 16,
                                .model_name = sel_str("model"),
                                .routing_group = sel_str("group") };
    commit = (sel_worker_commit_t) {
        .worker_id = 1, .state = SEL_WORKER_SCHEDULABLE, .n_ranks = RANKS,
        .ranks = shared->ranks, .partition = &named
    };
    assert_int_equal(sel_catalog_commit(&shared->zone, &commit, &version,
                                        &shared->partition, &existing),
                     SEL_COMMIT_OK);
}


/*
 * Nobody books between a choice and its booking: ranks that are always filled
 * from the idlest end up equal.
 */
static void
test_choices(void **state)
{
    pid_t            pids[CHILDREN];
    uint32_t         i, round;
    shared_t         shared;
    sel_rank_load_t  loads[RANKS];

    memset(&shared, 0, sizeof(shared));
    state_shared(&shared.zone, STATE_SIZE);
    make_worker(&shared);
    loads_of(&shared, loads);

    for (round = 0; round < 100; round++) {
        shared.seed = CHILDREN * round;

        for (i = 0; i < CHILDREN; i++) {
            shared.number = i;
            pids[i] = state_fork(filler, &shared);
        }

        for (i = 0; i < CHILDREN; i++) {
            assert_int_equal(state_wait(pids[i]), 0);
        }

        sel_books_read(&shared.zone, NULL, 0, loads, RANKS);

        for (i = 0; i < RANKS; i++) {
            assert_int_equal(loads[i].requests, CHILDREN * LIVE / RANKS);
        }

        assert_int_equal(sel_books_expire(&shared.zone, 2, UINT32_MAX),
                         CHILDREN * LIVE);
    }

    state_check(&shared.zone);
    state_shared_free(&shared.zone);
}


static void
test_children(void **state)
{
    int        code[CHILDREN], status;
    pid_t      pids[CHILDREN];
    uint32_t   i, running;
    uint64_t   at, lost, chunks, seen[CHILDREN] = { 0 };
    shared_t   shared;

    memset(&shared, 0, sizeof(shared));
    shared.seed = sel_rand_seed("books processes");
    shared.rand.state = shared.seed;
    state_shared(&shared.zone, 4 * STATE_SIZE);
    make_worker(&shared);
    chunks = state_stats(&shared.zone).chunks_free;
    at = lost = 0;

    for (i = 0; i < CHILDREN; i++) {
        shared.number = i;
        pids[i] = state_fork(child, &shared);
    }

    running = CHILDREN;

    while (running > 0) {
        watch(&shared);
        (void) follow(&shared, &at, &lost, seen);

        for (i = 0; i < CHILDREN; i++) {
            if (pids[i] != 0 && waitpid(pids[i], &status, WNOHANG) == pids[i])
            {
                code[i] = WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
                pids[i] = 0;
                running--;
            }
        }
    }

    while (follow(&shared, &at, &lost, seen) > 0) {
        /* void */
    }

    for (i = 0; i < CHILDREN; i++) {
        assert_int_equal(code[i], 0);
        assert_true(seen[i] > ROUNDS / 2);
    }

    watch(&shared);
    state_check(&shared.zone);
    assert_int_equal(state_stats(&shared.zone).bookings, 0);
    assert_int_equal(state_stats(&shared.zone).chunks_free, chunks);
    state_shared_free(&shared.zone);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_children),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
