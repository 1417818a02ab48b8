/*
 * Why a worker cannot be scheduled: which sentences, in which order.  Without
 * it an operator would be told another reason than the first, or of a fault
 * where there is none.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "state_test.h"
#include "service_expect.h"


static sel_zone_t  zone;
static world_t     a;           /* a process that follows events */
static world_t     quiet;       /* one that does not */


static int
begin(void **state)
{
    state_private(&zone, STATE_SIZE);
    world_init(&a, &zone, 0, true);
    world_init(&quiet, &zone, 1, false);

    return 0;
}


static int
end(void **state)
{
    state_check(&zone);
    world_free(&a);
    world_free(&quiet);
    state_private_free(&zone);

    return 0;
}


static void
post(world_t *world, const char *text, const char *reasons)
{
    if (!world_post(world, text)) {
        fail_msg("%s: %s", text, world->fault.text);
    }

    world_expect_reasons(world, reasons);
}


static void
patch(world_t *world, uint64_t worker_id, const char *text,
    const char *reasons)
{
    if (!world_patch(world, worker_id, text)) {
        fail_msg("%s: %s", text, world->fault.text);
    }

    world_expect_reasons(world, reasons);
}


#define KV(rank)   "kv_events endpoint is required for dp_rank " rank
#define FAILED     "reconciliation failed: "
#define EP         "\"endpoint\":\"http://e\""
#define REPLAY     "replay_endpoint is supported only for data_parallel_size 1"


static void
test_own_reasons(void **state)
{
    post(&a, "{\"worker_id\":7}", "endpoint is required | block_size must be "
         "greater than 0 | " KV("0"));
    post(&a, "{\"worker_id\":7,\"endpoint\":\"\",\"block_size\":0,"
         "\"data_parallel_size\":0,\"replay_endpoint\":\"tcp://h:1\"}",
         "endpoint is required | block_size must be greater than 0 | "
         "data_parallel_size must be greater than 0");
    post(&a, "{\"worker_id\":7," EP ",\"block_size\":16,"
         "\"data_parallel_start_rank\":3,\"data_parallel_size\":3,"
         "\"kv_events_endpoint\":\"tcp://h:1\","
         "\"kv_events_endpoints\":{\"4\":\"tcp://h:2\",\"0\":\"tcp://h:3\","
         "\"5\":\"\"},\"replay_endpoint\":\"tcp://h:4\"}",
         KV("3") " | " KV("5") " | " REPLAY);
    post(&a, "{\"worker_id\":7," EP ",\"block_size\":16,"
         "\"data_parallel_size\":2,\"kv_events_endpoint\":\"tcp://h:1\"}",
         KV("0") " | " KV("1"));
    post(&a, "{\"worker_id\":7," EP ",\"block_size\":16,"
         "\"kv_events_endpoint\":\"\"}", KV("0"));
    post(&a, "{\"worker_id\":7,\"block_size\":16,"
         "\"kv_events_endpoint\":\"tcp://h:1\"}", "endpoint is required");
    post(&a, "{\"worker_id\":7," EP ",\"block_size\":16,"
         "\"kv_events_endpoint\":\"tcp://h:1\"}", "");

    /* one rank at the end of all ranks */
    post(&a, "{\"worker_id\":8," EP ",\"block_size\":16,"
         "\"data_parallel_start_rank\":4294967294}", KV("4294967294"));
}


static void
test_without_events(void **state)
{
    post(&quiet, "{\"worker_id\":7}",
         "endpoint is required | block_size must be greater than 0");
    post(&quiet, "{\"worker_id\":7," EP ",\"block_size\":16,"
         "\"data_parallel_size\":2,\"replay_endpoint\":\"nonsense\","
         "\"kv_events_endpoints\":{\"0\":\"nonsense\"}}", "");
    post(&quiet, "{\"worker_id\":7," EP ",\"block_size\":16,"
         "\"data_parallel_size\":0}",
         "data_parallel_size must be greater than 0");
}


/* One sentence a rank, but no more than a reader will look at. */
static void
test_many_missing_ranks(void **state)
{
    post(&a, "{\"worker_id\":7," EP ",\"block_size\":16,"
         "\"data_parallel_size\":12}",
         KV("0") " | " KV("1") " | " KV("2") " | " KV("3") " | " KV("4") " | "
         KV("5") " | " KV("6") " | " KV("7") " | " KV("8") " | " KV("9") " | "
         KV("10") " | " KV("11"));

    assert_true(world_post(&a, "{\"worker_id\":7," EP ",\"block_size\":16,"
                           "\"data_parallel_size\":16}"));
    world_expect(&a, "\"" KV("15") "\"]}");

    assert_true(world_post(&a, "{\"worker_id\":7," EP ",\"block_size\":16,"
                           "\"data_parallel_size\":65535}"));
    world_expect(&a, "\"not_schedulable_reasons\":[\"" KV("0") "\",\""
                 KV("1") "\"");
    world_expect(&a, " more ranks\"]}");
    assert_true(a.answer.len < 40000);

    post(&a, "{\"worker_id\":7,\"block_size\":16,"
         "\"data_parallel_size\":4294967295}", "endpoint is required | "
         "data_parallel_size must not be greater than 65535");
    post(&quiet, "{\"worker_id\":7," EP ",\"block_size\":16,"
         "\"data_parallel_size\":65536}",
         "data_parallel_size must not be greater than 65535");
}


static void
test_endpoint_reasons(void **state)
{
    post(&a, "{\"worker_id\":7," EP ",\"block_size\":16,"
         "\"kv_events_endpoint\":\"not-a-zmq-endpoint\"}",
         FAILED "invalid kv_events endpoint for worker 7 dp_rank 0: "
         "invalid ZMQ endpoint `not-a-zmq-endpoint`: missing scheme");
    post(&a, "{\"worker_id\":9223372036854775807," EP ",\"block_size\":16,"
         "\"data_parallel_start_rank\":5,"
         "\"kv_events_endpoint\":\"tcp://h\"}",
         FAILED "invalid kv_events endpoint for worker 9223372036854775807 "
         "dp_rank 5: invalid ZMQ endpoint `tcp://h`: missing TCP port");
    post(&a, "{\"worker_id\":7," EP ",\"block_size\":16,"
         "\"data_parallel_size\":2,\"kv_events_endpoints\":{"
         "\"0\":\"tcp://h:1\",\"1\":\"tcp://h:x\"}}",
         FAILED "invalid kv_events endpoint for worker 7 dp_rank 1: invalid "
         "ZMQ endpoint `tcp://h:x`: invalid TCP port: invalid digit found in "
         "string");

    /* also of ranks that the worker does not have */
    post(&a, "{\"worker_id\":7," EP ",\"block_size\":16,"
         "\"kv_events_endpoints\":{\"0\":\"tcp://h:1\","
         "\"9\":\"udp://h:1\"}}",
         FAILED "invalid kv_events endpoint for worker 7 dp_rank 9: invalid "
         "ZMQ endpoint `udp://h:1`: unsupported scheme `udp`");

    post(&a, "{\"worker_id\":7," EP ",\"block_size\":16,"
         "\"kv_events_endpoint\":\"tcp://h:1\","
         "\"replay_endpoint\":\"tcp://:1\"}",
         FAILED "invalid replay endpoint for worker 7: invalid ZMQ endpoint "
         "`tcp://:1`: missing TCP host");

    /* the single endpoint is ignored when there is a map */
    post(&a, "{\"worker_id\":7," EP ",\"block_size\":16,"
         "\"kv_events_endpoint\":\"nonsense\","
         "\"kv_events_endpoints\":{\"0\":\"tcp://h:1\"}}", "");

    /* not looked at before the members are in order */
    post(&a, "{\"worker_id\":7,\"block_size\":16,"
         "\"kv_events_endpoint\":\"nonsense\"}", "endpoint is required");
}


/* The first complete worker fixes a partition, for ever. */
static void
test_partition_reasons(void **state)
{
    /* incomplete ones fix nothing */
    post(&quiet, "{\"worker_id\":1,\"block_size\":64,\"is_eagle\":true}",
         "endpoint is required");
    post(&quiet, "{\"worker_id\":2," EP ",\"block_size\":16}", "");

    post(&quiet, "{\"worker_id\":3," EP ",\"block_size\":32}",
         FAILED "block_size mismatch for model=default "
         "routing_group=default: existing=16 requested=32");
    post(&quiet, "{\"worker_id\":3," EP ",\"block_size\":16,"
         "\"is_eagle\":true}",
         FAILED "is_eagle mismatch for model=default routing_group=default: "
         "existing=false requested=true");
    post(&quiet, "{\"worker_id\":3," EP ",\"block_size\":16,"
         "\"is_eagle\":false}", "");

    assert_true(world_delete(&quiet, 2));
    assert_true(world_delete(&quiet, 3));
    post(&quiet, "{\"worker_id\":4," EP ",\"block_size\":32}",
         FAILED "block_size mismatch for model=default "
         "routing_group=default: existing=16 requested=32");

    /* other names, other partitions */
    post(&quiet, "{\"worker_id\":5," EP ",\"block_size\":32,"
         "\"is_eagle\":true,\"routing_group\":\"e\"}", "");
    post(&quiet, "{\"worker_id\":6," EP ",\"block_size\":32,"
         "\"routing_group\":\"e\"}",
         FAILED "is_eagle mismatch for model=default routing_group=e: "
         "existing=true requested=false");

    /* a PATCH is judged alike */
    patch(&quiet, 5, "{\"block_size\":16}",
          FAILED "block_size mismatch for model=default routing_group=e: "
          "existing=32 requested=16");
    patch(&quiet, 5, "{\"block_size\":32}", "");

    /* the members alone decide whether it exists: a bad endpoint does not */
    post(&a, "{\"worker_id\":9,\"model_name\":\"m\"," EP ",\"block_size\":8,"
         "\"kv_events_endpoint\":\"x\"}",
         FAILED "invalid kv_events endpoint for worker 9 dp_rank 0: invalid "
         "ZMQ endpoint `x`: missing scheme");
    post(&a, "{\"worker_id\":9,\"model_name\":\"m\"," EP ",\"block_size\":4,"
         "\"kv_events_endpoint\":\"tcp://h:1\"}",
         FAILED "block_size mismatch for model=m routing_group=default: "
         "existing=8 requested=4");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_own_reasons, begin, end),
        cmocka_unit_test_setup_teardown(test_without_events, begin, end),
        cmocka_unit_test_setup_teardown(test_many_missing_ranks, begin, end),
        cmocka_unit_test_setup_teardown(test_endpoint_reasons, begin, end),
        cmocka_unit_test_setup_teardown(test_partition_reasons, begin, end)
    };

    return cmocka_run_group_tests_name("worker_reasons", tests, NULL, NULL);
}
