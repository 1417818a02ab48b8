/*
 * Ranks that go while candidates are collected: what is booked is what was
 * chosen.  Without it the numbers of one rank could be taken for another's as
 * soon as one in front of it goes.
 *
 * The caller may look at every candidate; the other process makes its changes
 * at the first one.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "reserve_test.h"


typedef void (*change_pt)(void);

static uint64_t     asked;
static change_pt    change;
static const char  *victim;


#define WORKER(id)                                                            \
    "{\"worker_id\":" id "," EAST ",\"endpoint\":\"e" id "\","                \
    "\"block_size\":16,\"data_parallel_size\":2}"


static const char *const  workers[] = { WORKER("7"), WORKER("8"),
                                        WORKER("9") };


static int
begin(void **state)
{
    size_t  i;

    worlds_begin(STATE_SIZE, false);

    for (i = 0; i < sel_countof(workers); i++) {
        must(&b, world_post(&b, workers[i]));
    }

    world_refresh(&a);

    return 0;
}


static void
delete_seven(void)
{
    (void) world_delete(&b, 7);
}


/* Under the same ids they are other ranks. */
static void
anew(void)
{
    size_t  i;

    for (i = 0; i < sel_countof(workers); i++) {
        (void) world_delete(&b, 7 + i);
        must(&b, world_post(&b, workers[i]));
    }
}


static bool
allow(void *data, const sel_view_rank_t *rank)
{
    if (asked++ == 0) {
        change();
    }

    return rank->worker_id != 9 || data != NULL;
}


static bool
best(sel_select_body_t *body, void *data, sel_selection_t *s)
{
    sel_json_t       json;
    sel_allow_t      allowed;
    sel_reserving_t  r;

    world_begin(&a);
    sel_json_init_text(&json, &a.arena, sel_cstr("{" EAST "," HASHES "}"));
    assert_true(sel_read_select(&json, body));

    asked = 0;
    allowed = (sel_allow_t) { allow, data };
    r = (sel_reserving_t) {
        .select = { &world_settings, body, SEL_PROMPT_FOR_SELECT, &allowed,
                    true },
        .kind = SEL_BOOKING_API, .id = sel_str("best")
    };

    return sel_reserve_best(&a.service, &a.arena, &r, s, &a.fault);
}


static void
delete_victim(void)
{
    must(&b, world_delete(&b, strtoull(victim, NULL, 10)));
}


/*
 * Whoever of three goes while candidates are collected: what is chosen is
 * what is booked, by its place among those that are left.
 */

static void
test_chosen_is_booked(void **state)
{
    int                 n;
    char                loads[256], row[64];
    uint32_t            i, k;
    sel_selection_t     s;
    sel_select_body_t   body;

    static const char *const  ids[] = { "7", "8", "9" };

    change = delete_victim;

    for (n = 0; n < 60; n++) {
        victim = ids[n % 3];
        assert_true(best(&body, &n, &s));
        assert_true(s.rank->worker_id != (uint64_t) (7 + n % 3));
        loads[0] = '\0';

        for (i = 0; i < 3; i++) {
            for (k = 0; k < 2 && i != (uint32_t) n % 3; k++) {
                (void) snprintf(row, sizeof(row), "%s%u/%u %s",
                                loads[0] != '\0' ? ", " : "", 7 + i, k,
                                s.rank->worker_id == 7 + i
                                && s.rank->dp_rank == k ? "1 33 2" : "0 0 0");
                (void) strcat(loads, row);
            }
        }

        expect_loads(loads);
        must(&b, world_release(&b, "best"));
        must(&b, world_post(&b, workers[n % 3]));
    }
}


/* Who is not allowed is none even when the others go. */
static void
test_allowed_go(void **state)
{
    sel_selection_t    s;
    sel_select_body_t  body;

    change = anew;
    assert_true(best(&body, NULL, &s));
    assert_true(asked > 6);
    assert_true(s.rank->worker_id != 9);
    must(&b, world_release(&b, "best"));

    must(&b, world_delete(&b, 8));
    change = delete_seven;
    assert_false(best(&body, NULL, &s));
    world_expect_fault(&a, SEL_FAULT_NOT_READY,
                       "no endpoints available to route work");
    refused(&b, world_release(&b, "best"), SEL_FAULT_NOT_FOUND,
            "reservation best not found");
}


/* Costs stay with their ranks, too: the blocks of the one that is left. */
static void
test_costs(void **state)
{
    char               body[512];
    uint32_t           n;
    sel_selection_t    s;
    sel_select_body_t  select;

    world_learn(&a, UINT64_C(1) << 50);
    change = delete_victim;

    /* worker 8 has one block, 9 has both; 7 has none */
    for (n = 0; n < 2; n++) {
        (void) snprintf(body, sizeof(body), "{" ID("x") "," EAST ","
                        "\"worker_id\":%u,\"block_hashes\":[101%s],"
                        "\"sequence_hashes\":[1%s],\"isl_tokens\":32}",
                        8 + n, n ? ",102" : "", n ? ",2" : "");
        must(&a, world_reserve(&a, body));
        must(&a, world_release(&a, "x"));
    }

    victim = "7";
    assert_true(best(&select, &n, &s));
    assert_true(s.rank->worker_id == 9 && s.rank->dp_rank == 0);
    assert_int_equal(s.candidate.device, 2);
    assert_int_equal(s.prefill_tokens, 1);
    expect_loads("8/0 0 0 0, 8/1 0 0 0, 9/0 1 1 2, 9/1 0 0 0");
    must(&b, world_release(&b, "best"));

    victim = "9";
    assert_true(best(&select, &n, &s));
    assert_true(s.rank->worker_id == 8 && s.rank->dp_rank == 0);
    assert_int_equal(s.candidate.device, 1);
    assert_int_equal(s.prefill_tokens, 17);
    expect_loads("8/0 1 17 2, 8/1 0 0 0");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_chosen_is_booked, begin,
                                        worlds_end),
        cmocka_unit_test_setup_teardown(test_allowed_go, begin, worlds_end),
        cmocka_unit_test_setup_teardown(test_costs, begin, worlds_end),
    };

    return cmocka_run_group_tests_name("reserve_chosen", tests, NULL, NULL);
}
