/*
 * What the index knows of a prompt and what the answers make of it: hashes of
 * tokens, the overlap summary, the rows of /overlap_scores, partitions.
 * Without it a prompt could be hashed otherwise than the engines' events, or
 * be credited with blocks of another model.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/sel_hash.h"
#include "index/sel_index_check.h"
#include "state_test.h"
#include "service_expect.h"


static sel_zone_t  zone;
static world_t     a;


static int
begin(void **state)
{
    state_private(&zone, STATE_SIZE);
    world_init(&a, &zone, 0, false);

    return 0;
}


static int
end(void **state)
{
    assert_null(sel_index_check(a.service.index));
    world_free(&a);
    state_private_free(&zone);

    return 0;
}


static void
post(const char *text)
{
    if (!world_post(&a, text)) {
        fail_msg("%s: %s", text, a.fault.text);
    }

    world_expect(&a, "\"lifecycle\":\"schedulable\"");
    world_refresh(&a);
}


static void
expect(const char *ask, const char *words)
{
    if (!world_select(&a, ask)) {
        fail_msg("%s: %s", ask, a.fault.text);
    }

    world_expect(&a, words);
}


static void
expect_scores(const char *ask, const char *answer)
{
    if (!world_scores(&a, ask)) {
        fail_msg("%s: %s", ask, a.fault.text);
    }

    if (strcmp(world_text(&a), answer) != 0) {
        fail_msg("%s: %s, expected %s", ask, world_text(&a), answer);
    }
}


#define BLOCKS(list, isl)                                                     \
    "\"block_hashes\":[" list "],\"sequence_hashes\":[" list "],"             \
    "\"isl_tokens\":" isl


static void
test_best_prefix(void **state)
{
    post("{\"worker_id\":7,\"endpoint\":\"e7\",\"block_size\":16,"
         "\"data_parallel_start_rank\":2,\"data_parallel_size\":2}");
    post("{\"worker_id\":9,\"endpoint\":\"e9\",\"block_size\":16}");
    assert_int_equal(world_store(&a, 7, 2, 2, 1, 3), SEL_INDEX_OK);
    assert_int_equal(world_store(&a, 7, 3, 3, 1, 1), SEL_INDEX_OK);
    assert_int_equal(world_store(&a, 9, 0, 0, 1, 2), SEL_INDEX_OK);

    expect("{" BLOCKS("1,2,3,4", "70") "}",
           "\"worker_id\":7,\"dp_rank\":2,\"endpoint\":\"e7\","
           "\"block_size\":16,\"overlap\":{\"longest_matched\":48,\"gpu\":48,"
           "\"dp\":{\"2\":48,\"3\":16},\"cpu\":48,\"disk\":48},"
           "\"effective_prefill_tokens\":22,\"potential_decode_blocks\":5}");

    /* the best rank of the worker, also when another one is chosen */
    expect("{" BLOCKS("1,2,3,4", "70") ",\"pinned_worker\":{\"worker_id\":7,"
           "\"dp_rank\":3}}",
           "\"dp_rank\":3,\"endpoint\":\"e7\","
           "\"block_size\":16,\"overlap\":{\"longest_matched\":48,\"gpu\":48,"
           "\"dp\":{\"2\":48,\"3\":16},\"cpu\":48,\"disk\":48},"
           "\"effective_prefill_tokens\":54,\"potential_decode_blocks\":5}");

    /* a prefix ends at the first block that is missing */
    expect("{" BLOCKS("1,2,99,3", "64") ",\"allowed_worker_ids\":[7]}",
           "\"dp\":{\"2\":32,\"3\":16}");
    expect("{" BLOCKS("2,3", "32") "}", "\"longest_matched\":0");

    /* more cached than the prompt is long */
    expect("{" BLOCKS("1,2,3", "5") ",\"pinned_worker\":{\"worker_id\":7,"
           "\"dp_rank\":2}}",
           "\"dp_rank\":2,\"endpoint\":\"e7\",\"block_size\":16,"
           "\"overlap\":{\"longest_matched\":48");
    world_expect(&a, "\"effective_prefill_tokens\":0,"
                 "\"potential_decode_blocks\":3}");

    /* without credit for them the blocks are still told */
    expect("{" BLOCKS("1,2,3,4", "70") ",\"allowed_worker_ids\":[7],"
           "\"affinity_target\":{\"worker_id\":7,\"dp_rank\":2},"
           "\"router_config_override\":{\"overlap_score_weight\":0}}",
           "\"gpu\":48,\"dp\":{\"2\":48,\"3\":16}");
    world_expect(&a, "\"effective_prefill_tokens\":22,");
}


/* Token counts of the summary stop at 2^32-1. */
static void
test_large_blocks(void **state)
{
    post("{\"worker_id\":7,\"endpoint\":\"e7\",\"block_size\":4294967295}");
    assert_int_equal(world_store(&a, 7, 0, 0, 1, 3), SEL_INDEX_OK);
    expect("{" BLOCKS("1", "18446744073709551615") "}",
           "\"overlap\":{\"longest_matched\":4294967295,\"gpu\":4294967295,"
           "\"dp\":{\"0\":4294967295},\"cpu\":4294967295,"
           "\"disk\":4294967295},"
           "\"effective_prefill_tokens\":18446744069414584320,"
           "\"potential_decode_blocks\":4294967297}");
    expect("{" BLOCKS("1,2,3", "18446744073709551615") "}",
           "\"overlap\":{\"longest_matched\":4294967295,\"gpu\":4294967295,"
           "\"dp\":{\"0\":4294967295},\"cpu\":4294967295,"
           "\"disk\":4294967295},"
           "\"effective_prefill_tokens\":18446744060824649730,"
           "\"potential_decode_blocks\":4294967297}");
}


/* Stores the blocks that these tokens make, as the events of an engine do. */
static void
store_tokens(uint64_t worker_id, const uint32_t *tokens, uint32_t n,
    uint32_t block_size, bool eagle, uint64_t seed,
    const sel_mm_block_t *mm, uint32_t mm_n)
{
    uint64_t             blocks[16];
    world_listener_t    *listener;
    sel_index_change_t   change;

    memset(&change, 0, sizeof(change));
    change.kind = SEL_INDEX_STORED;
    change.tier = SEL_TIER_DEVICE;
    change.n = sel_hash_blocks(tokens, n, block_size, eagle, seed, mm, mm_n,
                               blocks);
    change.block = blocks;
    change.external = blocks;
    listener = world_listener(&a, worker_id, 0);
    assert_int_equal(listener->sink.apply(listener->sink.data, 0, &change),
                     SEL_INDEX_OK);
}


static const uint32_t  tokens[13] = {
    0, 4294967295, 7, 7, 5, 6, 7, 8, 9, 10, 11, 12, 13
};

#define TOKENS    "0,4294967295,7,7,5,6,7,8,9,10,11,12,13"
#define GPU(n)    "\"gpu\":" n ","


static void
test_tokens(void **state)
{
    size_t     i;
    sel_str_t  none;

    static const struct {
        const char  *ask;
        const char  *words;
    } rows[] = {
        { "{\"token_ids\":[" TOKENS "]}", GPU("12") },
        { "{\"token_ids\":[0,4294967295,7,7,5,6,7]}", GPU("4") },
        { "{\"token_ids\":[0,4294967295,7]}", GPU("0") },
        { "{\"token_ids\":[0,4294967295,7,8,5,6,7,8]}", GPU("0") },
        { "{\"token_ids\":[" TOKENS "],\"lora_name\":\"\","
          "\"cache_salt\":\"\"}", GPU("12") },
        { "{\"token_ids\":[" TOKENS "],\"is_eagle\":false}", GPU("12") },
        { "{\"token_ids\":[" TOKENS "],\"is_eagle\":true}", GPU("0") },
        { "{\"token_ids\":[" TOKENS "],\"lora_name\":\"l\"}", GPU("0") },
        { "{\"token_ids\":[" TOKENS "],\"cache_salt\":\"s\"}", GPU("0") },
        { "{\"token_ids\":[1],\"mm_routing_info\":{\"routing_token_ids\":["
          TOKENS "]}}", GPU("12") },
        { "{\"token_ids\":[" TOKENS "],\"mm_routing_info\":"
          "{\"routing_token_ids\":[1]}}", GPU("0") },
        { "{\"token_ids\":[" TOKENS "],\"mm_routing_info\":"
          "{\"routing_token_ids\":[]}}", GPU("12") },
        { "{\"token_ids\":[" TOKENS "],\"block_mm_infos\":[]}", GPU("12") },
        { "{\"token_ids\":[" TOKENS "],\"block_mm_infos\":[null,"
          "{\"mm_objects\":[]}]}", GPU("12") },
        { "{\"token_ids\":[" TOKENS "],\"block_mm_infos\":[null,"
          "{\"mm_objects\":[{\"mm_hash\":7,\"offsets\":[[0,1]]}]}]}",
          GPU("4") },
        { "{\"token_ids\":[" TOKENS "],"
          "\"router_config_override\":{\"assume_kv_reuse\":false}}",
          GPU("12") }
    };

    none = sel_str("");
    post("{\"worker_id\":7,\"endpoint\":\"e\",\"block_size\":4}");
    store_tokens(7, tokens, 13, 4, false, sel_hash_block_seed(none, none),
                 NULL, 0);

    for (i = 0; i < sel_countof(rows); i++) {
        expect(rows[i].ask, rows[i].words);
    }
}


/* Salted, multimodal and eagle prompts meet what engines stored of them. */
static void
test_other_hashes(void **state)
{
    sel_str_t       none;
    sel_mm_block_t  mm[3];

    static const uint64_t  hashes[3] = { 9, UINT64_MAX, 9 };

    none = sel_str("");
    memset(mm, 0, sizeof(mm));
    mm[1] = (sel_mm_block_t) { 3, hashes };

    post("{\"worker_id\":1,\"endpoint\":\"e\",\"block_size\":4}");
    post("{\"worker_id\":2,\"endpoint\":\"e\",\"block_size\":4,"
         "\"is_eagle\":true,\"routing_group\":\"eagle\"}");
    store_tokens(1, tokens, 13, 4, false,
                 sel_hash_block_seed(sel_str("l"), none), NULL, 0);
    store_tokens(1, tokens, 9, 4, false,
                 sel_hash_block_seed(none, sel_str("s")), NULL, 0);
    store_tokens(1, tokens, 5, 4, false,
                 sel_hash_block_seed(sel_str("l"), sel_str("s")), NULL, 0);
    store_tokens(1, tokens, 13, 4, false, sel_hash_block_seed(none, none),
                 mm, 3);
    store_tokens(2, tokens, 13, 4, true, sel_hash_block_seed(none, none),
                 NULL, 0);

    expect("{\"token_ids\":[" TOKENS "],\"lora_name\":\"l\"}", GPU("12"));
    expect("{\"token_ids\":[" TOKENS "],\"cache_salt\":\"s\"}", GPU("8"));
    expect("{\"token_ids\":[" TOKENS "],\"cache_salt\":\"s\","
           "\"lora_name\":\"l\"}", GPU("4"));
    expect("{\"token_ids\":[" TOKENS "],\"cache_salt\":\"l\","
           "\"lora_name\":\"s\"}", GPU("0"));

    /* objects count in any order, as often as they stand there */
    expect("{\"token_ids\":[" TOKENS "],\"block_mm_infos\":[null,"
           "{\"mm_objects\":[{\"mm_hash\":18446744073709551615,"
           "\"offsets\":[]},{\"mm_hash\":9,\"offsets\":[[1,2],[3,4]]},"
           "{\"mm_hash\":9,\"offsets\":[]}]}]}", GPU("12"));
    expect("{\"token_ids\":[" TOKENS "],\"block_mm_infos\":[null,"
           "{\"mm_objects\":[{\"mm_hash\":9,\"offsets\":[]}]}]}", GPU("4"));
    expect("{\"mm_routing_info\":{\"routing_token_ids\":[" TOKENS "],"
           "\"block_mm_infos\":[null,{\"mm_objects\":["
           "{\"mm_hash\":9,\"offsets\":[]},{\"mm_hash\":9,\"offsets\":[]},"
           "{\"mm_hash\":18446744073709551615,\"offsets\":[]}]}]},"
           "\"block_mm_infos\":[{\"mm_objects\":[{\"mm_hash\":1,"
           "\"offsets\":[]}]}],\"token_ids\":[]}", GPU("12"));

    /* the partition's own kind, unless the request says otherwise */
    expect("{\"routing_group\":\"eagle\",\"token_ids\":[" TOKENS "]}",
           GPU("12"));
    expect("{\"routing_group\":\"eagle\",\"token_ids\":"
           "[0,4294967295,7,7,5,6,7,8]}", GPU("4"));
    expect("{\"routing_group\":\"eagle\",\"token_ids\":[" TOKENS "],"
           "\"is_eagle\":false}", GPU("0"));
}


/* A hash without a sign and its signed form are the same one. */
static void
test_signed_hashes(void **state)
{
    post("{\"worker_id\":7,\"endpoint\":\"e\",\"block_size\":16}");
    assert_int_equal(world_store(&a, 7, 0, 0, UINT64_MAX - 1, 2),
                     SEL_INDEX_OK);
    expect("{\"block_hashes\":[-2,-1],\"sequence_hashes\":[0,0],"
           "\"isl_tokens\":32}", GPU("32"));
    expect("{\"block_hashes\":[18446744073709551614,18446744073709551615],"
           "\"sequence_hashes\":[0,0],\"isl_tokens\":32}", GPU("32"));
    expect("{\"block_hashes\":[18446744073709551614,-1],"
           "\"sequence_hashes\":[0,0],\"isl_tokens\":32}", GPU("32"));
}


/* One worker of each of two partitions holds the same blocks. */
static void
test_partitions(void **state)
{
    unsigned  i;

    post("{\"worker_id\":1,\"endpoint\":\"e\",\"block_size\":16}");
    post("{\"worker_id\":2,\"endpoint\":\"e\",\"block_size\":32,"
         "\"model_name\":\"m\"}");
    post("{\"worker_id\":3,\"endpoint\":\"e\",\"block_size\":16,"
         "\"routing_group\":\"m\"}");
    assert_int_equal(world_store(&a, 1, 0, 0, 1, 3), SEL_INDEX_OK);
    assert_int_equal(world_store(&a, 2, 0, 0, 1, 2), SEL_INDEX_OK);

    for (i = 0; i < 20; i++) {
        expect("{" BLOCKS("1,2,3", "96") "}", "\"model_name\":\"default\","
               "\"routing_group\":\"default\",\"worker_id\":1,");
        world_expect(&a, GPU("48"));
        expect("{\"model_name\":\"m\"," BLOCKS("1,2,3", "96") "}",
               "\"model_name\":\"m\",\"routing_group\":\"default\","
               "\"worker_id\":2,");
        world_expect(&a, "\"block_size\":32");
        world_expect(&a, GPU("64"));
        expect("{\"routing_group\":\"m\"," BLOCKS("1,2,3", "96") "}",
               "\"worker_id\":3,");
        world_expect(&a, GPU("0"));
    }

    assert_int_equal(world_blocks(&a, "default", "default", 1, 0, 1, 9), 3);
    assert_int_equal(world_blocks(&a, "default", "default", 2, 0, 1, 9), -1);
    assert_int_equal(world_blocks(&a, "m", "default", 2, 0, 1, 9), 2);
    assert_int_equal(world_blocks(&a, "default", "m", 3, 0, 1, 9), 0);
}


#define ROW(id, rank, n, credit)                                              \
    "{\"worker_id\":" id ",\"dp_rank\":" rank ",\"device_blocks\":" n ","     \
    "\"host_pinned_blocks\":" n ",\"disk_blocks\":" n ","                     \
    "\"host_pinned_extension_blocks\":0,\"disk_extension_blocks\":0,"         \
    "\"shared_beyond_device_blocks\":null,\"router_credit_blocks\":" credit   \
    "}"

#define TAIL                                                                  \
    "],\"shared_cache\":{\"enabled\":false,\"total_hit_blocks\":0,"           \
    "\"ranges\":[],\"error\":null}}"


static void
test_scores(void **state)
{
    post("{\"worker_id\":7,\"endpoint\":\"e\",\"block_size\":16,"
         "\"data_parallel_start_rank\":9,\"data_parallel_size\":2}");
    post("{\"worker_id\":1,\"endpoint\":\"e\",\"block_size\":16}");
    assert_true(world_post(&a, "{\"worker_id\":3,\"block_size\":16}"));
    post("{\"worker_id\":4,\"endpoint\":\"e\",\"block_size\":16,"
         "\"routing_group\":\"g\"}");

    expect_scores("{" BLOCKS("1,2,3", "60") "}",
                  "{\"block_size\":16,\"num_blocks\":3,\"workers\":["
                  ROW("1", "0", "0", "0.0") "," ROW("7", "9", "0", "0.0") ","
                  ROW("7", "10", "0", "0.0") TAIL);

    /* ranks that only events name have rows, without being registered */
    assert_int_equal(world_store(&a, 7, 9, 9, 1, 1), SEL_INDEX_OK);
    assert_int_equal(world_store(&a, 7, 9, 10, 1, 2), SEL_INDEX_OK);
    assert_int_equal(world_store(&a, 7, 9, 3, 1, 3), SEL_INDEX_OK);
    assert_int_equal(world_store(&a, 1, 0, 5, 1, 2), SEL_INDEX_OK);

    expect_scores("{" BLOCKS("1,2,3", "60") "}",
                  "{\"block_size\":16,\"num_blocks\":3,\"workers\":["
                  ROW("1", "0", "0", "0.0") "," ROW("1", "5", "2", "2.0") ","
                  ROW("7", "3", "3", "3.0") "," ROW("7", "9", "1", "1.0") ","
                  ROW("7", "10", "2", "2.0") TAIL);

    /* the credit of the request */
    expect_scores("{" BLOCKS("1,2", "32") ",\"router_config_override\":"
                  "{\"overlap_score_credit\":0.5}}",
                  "{\"block_size\":16,\"num_blocks\":2,\"workers\":["
                  ROW("1", "0", "0", "0.0") "," ROW("1", "5", "2", "1.0") ","
                  ROW("7", "3", "2", "1.0") "," ROW("7", "9", "1", "0.5") ","
                  ROW("7", "10", "2", "1.0") TAIL);
    expect_scores("{" BLOCKS("1", "32") ",\"router_config_override\":"
                  "{\"overlap_score_weight\":0}}",
                  "{\"block_size\":16,\"num_blocks\":1,\"workers\":["
                  ROW("1", "0", "0", "0.0") "," ROW("1", "5", "1", "0.0") ","
                  ROW("7", "3", "1", "0.0") "," ROW("7", "9", "1", "0.0") ","
                  ROW("7", "10", "1", "0.0") TAIL);
}


/* The index knows a rank also when it holds nothing of this prompt. */
static void
test_scores_of_nothing(void **state)
{
    post("{\"worker_id\":1,\"endpoint\":\"e\",\"block_size\":16}");
    assert_int_equal(world_store(&a, 1, 0, 5, 1, 2), SEL_INDEX_OK);

    /* a rank that nobody registered has a row only for what it holds */

    expect_scores("{\"token_ids\":[1]}",
                  "{\"block_size\":16,\"num_blocks\":0,\"workers\":["
                  ROW("1", "0", "0", "0.0")
                  TAIL);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_best_prefix, begin, end),
        cmocka_unit_test_setup_teardown(test_large_blocks, begin, end),
        cmocka_unit_test_setup_teardown(test_tokens, begin, end),
        cmocka_unit_test_setup_teardown(test_other_hashes, begin, end),
        cmocka_unit_test_setup_teardown(test_signed_hashes, begin, end),
        cmocka_unit_test_setup_teardown(test_partitions, begin, end),
        cmocka_unit_test_setup_teardown(test_scores, begin, end),
        cmocka_unit_test_setup_teardown(test_scores_of_nothing, begin, end)
    };

    return cmocka_run_group_tests_name("select_overlap", tests, NULL, NULL);
}
