/*
 * The index beside a slow model.  Without it a block could be credited to a
 * rank that gave it away, a removal could hit another rank or another path, a
 * number given to a second owner could inherit blocks, and a full table could
 * leave half a block behind; none of these shows in a short scenario.
 *
 * SEL_SEED repeats a run.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "core/sel_hash.h"
#include "index/sel_memory.h"
#include "index_walk.h"


#define OPERATIONS  100000


static void
test_unlimited(void **state)
{
    run_t  run;

    run_init(&run, sel_rand_seed("index model"), 0);
    assert_non_null(run.compare.index);
    run_operations(&run, OPERATIONS);
    assert_true(run.credited > OPERATIONS / 10);
    run_free(&run);
}


/*
 * Block hashes that are the sequence hash of another path, as a client can
 * choose them: the paths stay different.
 */
static void
test_chosen_hashes(void **state)
{
    run_t     run;
    uint64_t  chain[4];

    run_init(&run, sel_rand_seed("chosen hashes"), 0);
    assert_non_null(run.compare.index);

    sel_hash_chain(run.blocks, 4, SEL_HASH_SEED, chain);
    run.blocks[4] = chain[1];
    run.blocks[5] = chain[2];
    run.blocks[6] = sel_hash_chain_next(run.blocks[0], run.blocks[0],
                                        SEL_HASH_SEED);
    run_operations(&run, OPERATIONS / 4);
    run_free(&run);
}


/*
 * With little memory, from as little as an index can be made with to more
 * than is used.  FULL is an ordinary result here.
 */
static void
test_limited(void **state)
{
    run_t     run;
    size_t    max_bytes;
    uint64_t  seed, full, credited;

    full = 0;
    credited = 0;
    seed = sel_rand_seed("limited index model");

    for (max_bytes = 4096; max_bytes <= 300000; max_bytes += max_bytes / 5) {
        run_init(&run, seed + max_bytes, max_bytes);

        if (run.compare.index != NULL) {
            run_operations(&run, OPERATIONS / 8);
            full += run.full;
            credited += run.credited;
        }

        run_free(&run);
    }

    assert_true(full > 0);
    assert_true(credited > OPERATIONS / 20);
}


/* Sets of hundreds of ranks, with a few blocks each. */
static void
test_many_ranks(void **state)
{
    run_t     run;
    uint32_t  i;

    run_init(&run, sel_rand_seed("many ranks"), 0);
    assert_non_null(run.compare.index);

    run.n_partitions = 1;
    run.n_workers = 250;
    run.many_pairs = 20;

    for (i = 0; i < 2000; i++) {
        assert_null(run_owner(&run));
    }

    assert_true(run.model.n_ranks > 500);
    run_operations(&run, OPERATIONS / 4);
    assert_true(run.credited > OPERATIONS);
    run_free(&run);
}


static sel_rand_t  failures;


static bool
sometimes(size_t size)
{
    return sel_rand_below(&failures, 3) != 0;
}


/* With memory that fails now and then. */
static void
test_failing_memory(void **state)
{
    run_t  run;

    run_init(&run, sel_rand_seed("failing memory"), 0);
    assert_non_null(run.compare.index);

    run.limited = true;
    failures.state = sel_rand(&run.rand);

    sel_memory_hook = sometimes;
    run_operations(&run, OPERATIONS / 4);
    sel_memory_hook = NULL;

    assert_true(run.full > 0);
    assert_true(run.credited > OPERATIONS / 100);
    run_free(&run);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_unlimited),
        cmocka_unit_test(test_many_ranks),
        cmocka_unit_test(test_limited),
        cmocka_unit_test(test_failing_memory),
        cmocka_unit_test(test_chosen_hashes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
