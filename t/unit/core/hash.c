/*
 * Block and sequence hashes against the vectors.  Without it a prompt's
 * hashes would not be the ones that engines' blocks get, and nothing would
 * ever match.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>

#include "core/sel_hash.h"
#include "sel_vectors.h"


static json_t  *root;


static int
load(void **state)
{
    root = sel_vectors_load("hashing");

    return 0;
}


static int
unload(void **state)
{
    json_decref(root);

    return 0;
}


/* The value of the raw vector called name. */
static uint64_t
raw(const char *name)
{
    size_t   i;
    json_t  *rows, *row;

    rows = sel_vectors_get(root, "raw");

    json_array_foreach(rows, i, row) {

        if (strcmp(sel_vectors_text(row, "name"), name) == 0) {
            return sel_vectors_u64(sel_vectors_get(row, "value"));
        }
    }

    fail_msg("no raw vector %s", name);

    return 0;
}


static void
test_raw(void **state)
{
    size_t     i;
    uint64_t   hash, out[4];
    sel_str_t  none;
    char       digest[65];

    static const uint64_t  blocks[] = { 11, 12, 13, 14 };

    none = (sel_str_t) { 0, NULL };

    assert_int_equal(SEL_HASH_SEED, 1337);
    assert_true(sel_hash_bytes("test data", 9, 1337) == raw("xxh3-test-data"));
    assert_true(sel_hash_bytes("", 0, 1337) == raw("xxh3-empty-1337"));
    assert_true(sel_hash_bytes("adapter-a", 9, 0) == raw("lora-term"));
    assert_true(sel_hash_bytes("tenant-a", 8, 1) == raw("namespace-term"));

    assert_true(sel_hash_block_seed(none, none) == SEL_HASH_SEED);
    assert_true(sel_hash_block_seed(sel_str(""), sel_str(""))
                == SEL_HASH_SEED);
    assert_true(sel_hash_block_seed(sel_str("adapter-a"), none)
                == raw("salt-lora"));
    assert_true(sel_hash_block_seed(none, sel_str("tenant-a"))
                == raw("salt-ns"));
    assert_true(sel_hash_block_seed(sel_str("adapter-a"), sel_str("tenant-a"))
                == raw("salt-both"));

    for (i = 0; i < 64; i++) {
        digest[i] = "0123456789abcdef"[i % 16];
    }

    digest[64] = '\0';
    assert_true(sel_hash_mm_text(sel_cstr(digest), &hash));
    assert_true(hash == raw("mm-canonical"));
    assert_true(sel_hash_mm_text(sel_str("opaque-renderer-image-0"), &hash));
    assert_true(hash == raw("mm-opaque"));

    assert_true(sel_hash_chain_next(11, 22, 1337) == raw("chain-22"));
    assert_true(sel_hash_chain_next(raw("chain-22"), 33, 1337)
                == raw("chain-33"));

    sel_hash_chain(blocks, 4, 1337, out);
    assert_true(out[0] == 11);
    assert_true(out[1] == raw("chain-11-12"));
    assert_true(out[2] == raw("chain-11-12-13"));
    assert_true(out[3] == raw("chain-11-12-13-14"));
}


/* Array of numbers, in memory of its exact size. */
static uint64_t *
numbers(json_t *array)
{
    size_t     i, n;
    uint64_t  *list;

    n = json_array_size(array);
    list = malloc(n != 0 ? n * sizeof(uint64_t) : 1);
    assert_non_null(list);

    for (i = 0; i < n; i++) {
        list[i] = sel_vectors_u64(json_array_get(array, i));
    }

    return list;
}


static sel_mm_block_t *
mm_blocks(json_t *array)
{
    size_t           i, n;
    json_t          *item;
    sel_mm_block_t  *mm;

    n = json_array_size(array);

    if (n == 0) {
        return NULL;
    }

    mm = calloc(n, sizeof(sel_mm_block_t));
    assert_non_null(mm);

    for (i = 0; i < n; i++) {
        item = json_array_get(array, i);
        mm[i].n = (uint32_t) json_array_size(item);
        mm[i].hashes = numbers(item);
    }

    return mm;
}


/* The hashes of n tokens, and their chain, against the vector's. */
static void
check_hashes(json_t *vector, const uint32_t *tokens, uint32_t n,
    const sel_mm_block_t *mm, uint32_t mm_n)
{
    bool         eagle;
    size_t       i;
    uint32_t     size, count;
    uint64_t     seed, *blocks, *sequence, *out, *chain;
    const char  *name;

    name = sel_vectors_text(vector, "name");
    size = (uint32_t) sel_vectors_u64(sel_vectors_get(vector, "block_size"));
    eagle = json_is_true(sel_vectors_get(vector, "is_eagle"));
    seed = sel_vectors_u64(sel_vectors_get(vector, "block_seed"));
    blocks = numbers(sel_vectors_get(vector, "block_hashes"));
    sequence = numbers(sel_vectors_get(vector, "sequence_hashes"));
    count = (uint32_t) json_array_size(json_object_get(vector,
                                                       "block_hashes"));
    out = malloc(count * sizeof(uint64_t) + 1);
    chain = malloc(count * sizeof(uint64_t) + 1);
    assert_true(out != NULL && chain != NULL);

    assert_int_equal(sel_hash_block_count(n, size, eagle), count);
    assert_int_equal(sel_hash_blocks(tokens, n, size, eagle, seed, mm, mm_n,
                                     out), count);
    sel_hash_chain(out, count, SEL_HASH_SEED, chain);

    for (i = 0; i < count; i++) {

        if (out[i] != blocks[i] || chain[i] != sequence[i]) {
            fail_msg("%s: block %zu hashes to %" PRIu64 ", chain %" PRIu64,
                     name, i, out[i], chain[i]);
        }
    }

    free(blocks);
    free(sequence);
    free(out);
    free(chain);
}


/* Block seed, block hashes and sequence hashes of one public vector. */
static void
check_vector(json_t *vector)
{
    size_t           i, n, mm_n;
    json_t          *list;
    uint32_t        *tokens;
    uint64_t        *wide, seed;
    sel_mm_block_t  *mm;

    seed = sel_hash_block_seed(sel_vectors_str(vector, "lora_name"),
                               sel_vectors_str(vector, "cache_namespace"));

    if (seed != sel_vectors_u64(sel_vectors_get(vector, "block_seed"))) {
        fail_msg("%s: block seed %" PRIu64, sel_vectors_text(vector, "name"),
                 seed);
    }

    list = sel_vectors_get(vector, "token_ids");
    n = json_array_size(list);
    wide = numbers(list);
    tokens = malloc(n * sizeof(uint32_t));
    assert_non_null(tokens);

    for (i = 0; i < n; i++) {
        tokens[i] = (uint32_t) wide[i];
    }

    mm_n = json_array_size(json_object_get(vector, "block_mm_hashes"));
    mm = mm_blocks(json_object_get(vector, "block_mm_hashes"));
    check_hashes(vector, tokens, (uint32_t) n, mm, (uint32_t) mm_n);

    for (i = 0; i < mm_n; i++) {
        free((void *) mm[i].hashes);
    }

    free(mm);
    free(wide);
    free(tokens);
}


static void
test_vectors(void **state)
{
    size_t       i, checked;
    json_t      *vectors, *vector;
    const char  *mode;

    checked = 0;
    vectors = sel_vectors_get(root, "vectors");

    json_array_foreach(vectors, i, vector) {
        mode = sel_vectors_text(vector, "mode");

        if (strcmp(mode, "keyed-xxh3-v1") == 0) {
            continue;                   /* not a public hash */
        }

        assert_string_equal(mode, "public-xxh3-v1");
        check_vector(vector);
        checked++;
    }

    assert_int_equal(checked, 23);
}


static const struct CMUnitTest  tests[] = {
    cmocka_unit_test(test_raw),
    cmocka_unit_test(test_vectors)
};


int
main(void)
{
    return cmocka_run_group_tests(tests, load, unload);
}
