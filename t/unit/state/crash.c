/*
 * Processes that are killed while they change the zone: at random moments, at
 * every crash point, and inside the rebuild that follows another's death.
 * Without it a death between two stores could leave half a worker, a slot
 * with two owners, lost chunks, or a lock that nobody gets any more; and
 * nobody would see it before the day it happens.
 *
 * SEL_SEED repeats the choices (not the moments of the random kills),
 * SEL_KILLS sets how many processes are killed.
 */

#define STATE_TEST_CRASH_POINT

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "crash_kill.h"


#define KILLS           1500
#define KILLS_A_ZONE    100
#define SEARCHES        5000    /* turns for sites where nobody has died yet */
#define PATIENCE        60      /* seconds for one death and what follows */


static char  where[128];


static void
too_late(int signo)
{
    (void) !write(STDERR_FILENO, where, strlen(where));
    _exit(1);
}


static void
one_turn(run_t *run, uint32_t (*kill)(run_t *run), const char *name)
{
    uint32_t     lives;
    const char  *error;

    run->turns++;
    (void) snprintf(where, sizeof(where), "# stuck: SEL_SEED=%" PRIu64
                    " turn %u, %s\n", run->seed, run->turns, name);
    (void) alarm(PATIENCE);

    error = crash_sessions_begin(&run->truth.sessions, below(run, 2),
                                 below(run, 10) == 0);
    if (error != NULL) {
        fail_msg("turn %u: %s", run->turns, error);
    }

    lives = kill(run);
    error = truth_settle(&run->truth, lives, 1 + below(run, CAT_BATCH_MAX),
                         below(run, 2));
    (void) alarm(0);

    if (error != NULL) {
        fail_msg("turn %u, %s: %s", run->turns, name, error);
    }
}


static void
any_turn(run_t *run)
{
    uint32_t  dice;

    dice = crash_sites() > 0 ? below(run, 100) : 0;

    if (dice < 30) {
        one_turn(run, kill_at_random, "killed at random");

    } else if (dice < 75) {
        one_turn(run, kill_at_site, "killed at a site");

    } else {
        one_turn(run, kill_in_rebuild, "killed in a rebuild");
    }
}


/* One more try for a site where nobody has died yet. */
static uint32_t
search_site(run_t *run)
{
    uint32_t  first;

    arm(run, run->wanted, 1);
    (void) ended(run, start(run, 0, SITE_OPS));
    arm(run, 0, 0);

    /* it may be a site of the rebuild after a death at some other site */
    first = below(run, 4) ? run->helper[run->wanted]
                          : below(run, crash_sites());
    arm(run, first, 1);
    (void) ended(run, start(run, 1, SITE_OPS));
    (void) kill_rebuilder(run, first, run->wanted, 1);

    return 2;
}


static void
search_sites(run_t *run)
{
    uint32_t  i, n, turns;

    n = crash_sites();

    for (turns = 0; n > 0 && turns < SEARCHES; turns++) {
        i = run->wanted;

        do {
            i = (i + 1) % n;
        } while (run->shared->died[i] > 0 && i != run->wanted);

        if (run->shared->died[i] > 0) {
            break;
        }

        run->wanted = i;
        one_turn(run, search_site, "searching a site");

        if (below(run, 8) == 0) {
            zone_end(run);
            zone_begin(run);
        }
    }
}


/* Prints the sites at which nobody died; their number. */
static uint32_t
sites_left(run_t *run)
{
    uint32_t  i, n;

    n = 0;

    for (i = 0; i < crash_sites(); i++) {
        if (run->shared->died[i] == 0) {
            n++;
            print_message("# nobody died at site %u (line %u), passed %u "
                          "and %u times\n", i, crash_line(i),
                          run->shared->passed[i],
                          run->shared->passed_rebuilding[i]);
        }
    }

    return n;
}


static void
test_kills(void **state)
{
    run_t       *run;
    uint32_t     kills, next, left;
    const char  *text;

    text = getenv("SEL_KILLS");
    kills = text == NULL ? KILLS : (uint32_t) strtoul(text, NULL, 0);

    run = calloc(1, sizeof(run_t));
    run->seed = sel_rand_seed("crash");
    run->rand.state = run->seed;
    run->shared = state_memory(sizeof(crash_shared_t));
    assert_in_range(crash_sites(), 0, CRASH_SITES);
    (void) signal(SIGALRM, too_late);

    zone_begin(run);
    next = KILLS_A_ZONE;

    while (run->kills < kills) {
        assert_true(run->turns < 1000 + 10 * kills);
        any_turn(run);

        if (run->kills > next) {
            next += KILLS_A_ZONE;
            zone_end(run);
            zone_begin(run);
        }
    }

    search_sites(run);
    zone_end(run);
    left = sites_left(run);

    print_message("# %u killed in %u turns, %u of them in a rebuild; %u "
                  "rebuilds, %u survivors; the lock came after %.1f ms at "
                  "most; %u sites\n", run->kills, run->turns,
                  run->kills_in_rebuild, run->rebuilds, run->survivors,
                  run->slowest / 1e6, crash_sites());

    print_message("# %" PRIu64 " sessions bound, %" PRIu64 " moved, %" PRIu64
                  " refused, %" PRIu64 " failed, %" PRIu64 " were idle; %"
                  PRIu64 " bound by a booking that a death prevented\n",
                  run->bound, run->moved, run->refused, run->failed,
                  run->idle, run->halves);

    assert_true(run->rebuilds > kills / 20);
    assert_true(run->bound > kills && run->moved > 0 && run->refused > 0
                && run->failed > 0 && run->idle > 0);
    assert_int_equal(left, 0);

    assert_int_equal(munmap(run->shared, sizeof(crash_shared_t)), 0);
    free(run);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_kills),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
