/*
 * Extra keys and multimodal data of stored blocks.  Without it the blocks of
 * two tenants, or of two images, would get the same hash.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/sel_hash.h"
#include "sel_kv_text.h"


#define SALT    "dynamo-cache-salt:"
#define DIGEST  "0011223344556677ffffffffffffffff"                            \
                "ffffffffffffffffffffffffffffffff"


static sel_pack_t  pk;


static void
pack_pair(const char *text, int64_t number)
{
    sel_pack_array(&pk, 2);
    sel_pack_text(&pk, text);
    sel_pack_int(&pk, number);
}


static void
finish(const char *expected)
{
    sel_pack_no_rank(&pk);
    sel_kv_expect(&pk, expected);
}


/* One block whose extra_keys hold one entry of texts; lora may be NULL. */
static void
one_entry(const char *lora, const char *const *texts, uint32_t n,
    const char *words)
{
    char      expected[256];
    uint32_t  i;

    sel_pack_batch(&pk, 1);
    sel_pack_stored(&pk, 1, 7, 0, 1, 2);

    /* members come in any order: the keys are read before the name */
    sel_pack_text(&pk, "extra_keys");
    sel_pack_array(&pk, 1);
    sel_pack_array(&pk, n);

    for (i = 0; i < n; i++) {
        sel_pack_text(&pk, texts[i]);
    }

    sel_pack_text(&pk, "lora_name");

    if (lora != NULL) {
        sel_pack_text(&pk, lora);

    } else {
        sel_pack_nil(&pk);
    }

    snprintf(expected, sizeof(expected), "stored h=7 t=1,2,3,4 b=4%s%s%s\n",
             lora != NULL ? " lora=" : "", lora != NULL ? lora : "", words);
    finish(expected);
}


static void
test_texts(void **state)
{
    one_entry(NULL, NULL, 0, "");
    one_entry(NULL, (const char *[]) { "plain" }, 1, "");
    one_entry(NULL, (const char *[]) { SALT "te" }, 1, " ns=te");
    one_entry(NULL, (const char *[]) { "x", SALT "te", SALT "b" }, 3,
              " ns=te");
    one_entry(NULL, (const char *[]) { SALT }, 1, "");
    one_entry(NULL, (const char *[]) { "Dynamo-cache-salt:te" }, 1, "");
    one_entry(NULL, (const char *[]) { DIGEST }, 1, " mm|11223344556677,");
    one_entry(NULL, (const char *[]) { "0" DIGEST }, 1, "");
    one_entry(NULL, (const char *[]) { SALT "te", DIGEST }, 2,
              " ns=te mm|11223344556677,");

    one_entry("ad", (const char *[]) { "ad", SALT "te" }, 2, " ns=te");
    one_entry("ad", (const char *[]) { "ad", DIGEST }, 2,
              " mm|11223344556677,");

    /* the LoRA name is none of both, however it looks */
    one_entry(SALT "te", (const char *[]) { SALT "te" }, 1, "");
    one_entry(DIGEST, (const char *[]) { DIGEST }, 1, "");
}


static void
test_items(void **state)
{
    char      expected[256];
    uint64_t  opaque;

    assert_true(sel_hash_mm_text(sel_str("opaque"), &opaque));

    sel_pack_batch(&pk, 1);
    sel_pack_stored(&pk, 5, 1, 0, 1, 1);
    sel_pack_text(&pk, "extra_keys");
    sel_pack_array(&pk, 5);

    sel_pack_array(&pk, 2);
    sel_pack_text(&pk, SALT "te");
    pack_pair(DIGEST, 0);

    sel_pack_nil(&pk);

    sel_pack_array(&pk, 2);
    pack_pair("opaque", -3);
    sel_pack_text(&pk, SALT "other");       /* not the first entry */

    /* what is no multimodal item, now or in future */
    sel_pack_array(&pk, 8);
    sel_pack_bin(&pk, "\xff\xfe", 2);
    sel_pack_uint(&pk, 5);
    sel_pack_int(&pk, -5);
    sel_pack_f64(&pk, 1.5);
    sel_pack_head(&pk, 0xc3, 0, 0);
    sel_pack_map(&pk, 2);
    sel_pack_member(&pk, "type", "mm");
    sel_pack_member(&pk, "identifier", DIGEST);
    sel_pack_nil(&pk);
    pack_pair("", 4);

    sel_pack_array(&pk, 2);
    pack_pair(DIGEST, 9);
    sel_pack_text(&pk, "late");

    snprintf(expected, sizeof(expected),
             "stored h=1,2,3,4,5 t=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,"
             "18,19,20 b=4 ns=te mm|11223344556677,||%" PRIx64
             ",||11223344556677,\n", opaque);
    finish(expected);
}


static void
test_precedence(void **state)
{
    sel_pack_batch(&pk, 1);
    sel_pack_stored(&pk, 2, 1, 0, 1, 3);
    sel_pack_member(&pk, "cache_salt", "own");
    sel_pack_text(&pk, "block_mm_infos");
    sel_pack_array(&pk, 2);
    sel_pack_nil(&pk);
    sel_pack_map(&pk, 1);
    sel_pack_text(&pk, "mm_objects");
    sel_pack_array(&pk, 2);
    sel_pack_map(&pk, 2);
    sel_pack_text(&pk, "offsets");
    sel_pack_array(&pk, 1);
    sel_pack_range(&pk, 2, 0);
    sel_pack_member_uint(&pk, "mm_hash", 0xfedcba9876543210);
    sel_pack_map(&pk, 2);
    sel_pack_member_uint(&pk, "mm_hash", 3);
    sel_pack_text(&pk, "offsets");
    sel_pack_array(&pk, 0);
    sel_pack_text(&pk, "extra_keys");
    sel_pack_array(&pk, 2);
    sel_pack_array(&pk, 2);
    sel_pack_text(&pk, SALT "te");
    sel_pack_text(&pk, DIGEST);
    sel_pack_nil(&pk);

    finish("stored h=1,2 t=1,2,3,4,5,6,7,8 b=4 ns=own "
           "mm||3,fedcba9876543210,\n");

    /* an empty salt is given, too */
    sel_pack_batch(&pk, 1);
    sel_pack_stored(&pk, 1, 7, 0, 1, 2);
    sel_pack_member(&pk, "cache_salt", "");
    sel_pack_text(&pk, "extra_keys");
    sel_pack_array(&pk, 1);
    sel_pack_array(&pk, 1);
    sel_pack_text(&pk, SALT "te");
    finish("stored h=7 t=1,2,3,4 b=4\n");
}


/* The array form has its keys at position 8. */
static void
test_array_form(void **state)
{
    sel_pack_batch(&pk, 1);
    sel_pack_array(&pk, 9);
    sel_pack_text(&pk, "BlockStored");
    sel_pack_range(&pk, 1, 7);
    sel_pack_nil(&pk);
    sel_pack_range(&pk, 4, 1);
    sel_pack_uint(&pk, 4);
    sel_pack_nil(&pk);
    sel_pack_nil(&pk);
    sel_pack_map(&pk, 1);
    sel_pack_member(&pk, "cache_salt", "meta");
    sel_pack_array(&pk, 1);
    sel_pack_array(&pk, 2);
    sel_pack_text(&pk, SALT "te");
    pack_pair(DIGEST, 1);

    finish("stored h=7 t=1,2,3,4 b=4 ns=meta mm|11223344556677,\n");
}


static const struct CMUnitTest  tests[] = {
    cmocka_unit_test(test_texts),
    cmocka_unit_test(test_items),
    cmocka_unit_test(test_precedence),
    cmocka_unit_test(test_array_form)
};


int
main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
