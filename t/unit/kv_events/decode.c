/*
 * The decoder of KV-event batches.  Without it an event could be read in
 * another meaning than the engine's, or one bad event hide the next one.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sel_kv_text.h"


static sel_pack_t  pk;


/* The head of an array event: ["BlockStored", [7], parent 5, 4 tokens, 4]. */
static void
stored_head(uint32_t elements)
{
    sel_pack_array(&pk, elements);
    sel_pack_text(&pk, "BlockStored");
    sel_pack_range(&pk, 1, 7);
    sel_pack_uint(&pk, 5);
    sel_pack_range(&pk, 4, 100);
    sel_pack_uint(&pk, 4);
}


static void
removed_head(uint32_t elements)
{
    sel_pack_array(&pk, elements);
    sel_pack_text(&pk, "BlockRemoved");
    sel_pack_range(&pk, 2, 7);
}


static void
finish(const char *expected)
{
    sel_pack_no_rank(&pk);
    sel_kv_expect(&pk, expected);
}


static void
test_both_forms(void **state)
{
    static const char  expected[] =
        "stored h=7 p=5 t=100,101,102,103 b=4 lora=ad g=3 medium=CPU "
        "kind=full_attention loc=LOCAL own=x\n"
        "removed h=7,8 g=3 medium=CPU kind=mamba loc=LOCAL own=x\n"
        "cleared own=x\n"
        "ignored\n";

    sel_pack_batch(&pk, 4);
    stored_head(14);
    sel_pack_uint(&pk, 55);                 /* lora_id */
    sel_pack_text(&pk, "CPU");
    sel_pack_text(&pk, "ad");
    sel_pack_nil(&pk);                      /* extra_keys */
    sel_pack_uint(&pk, 3);
    sel_pack_text(&pk, "full_attention");
    sel_pack_uint(&pk, 128);
    sel_pack_text(&pk, "LOCAL");
    sel_pack_text(&pk, "x");
    removed_head(8);
    sel_pack_text(&pk, "CPU");
    sel_pack_uint(&pk, 3);
    sel_pack_text(&pk, "mamba");
    sel_pack_nil(&pk);
    sel_pack_text(&pk, "LOCAL");
    sel_pack_text(&pk, "x");
    sel_pack_array(&pk, 2);
    sel_pack_text(&pk, "AllBlocksCleared");
    sel_pack_text(&pk, "x");
    sel_pack_array(&pk, 1);
    sel_pack_text(&pk, "Ignored");
    finish(expected);

    sel_pack_batch(&pk, 4);
    sel_pack_stored(&pk, 1, 7, 5, 100, 8);
    sel_pack_member_uint(&pk, "lora_id", 55);
    sel_pack_member(&pk, "medium", "CPU");
    sel_pack_member(&pk, "lora_name", "ad");
    sel_pack_member_uint(&pk, "group_idx", 3);
    sel_pack_member(&pk, "kv_cache_spec_kind", "full_attention");
    sel_pack_member_uint(&pk, "kv_cache_spec_sliding_window", 128);
    sel_pack_member(&pk, "locality", "LOCAL");
    sel_pack_member(&pk, "ownership", "x");
    sel_pack_removed(&pk, 2, 7, 5);
    sel_pack_member(&pk, "ownership", "x");
    sel_pack_member(&pk, "locality", "LOCAL");
    sel_pack_member(&pk, "kv_cache_spec_kind", "mamba");
    sel_pack_member_uint(&pk, "group_idx", 3);
    sel_pack_member(&pk, "medium", "CPU");
    sel_pack_map(&pk, 2);
    sel_pack_member(&pk, "ownership", "x");
    sel_pack_member(&pk, "type", "AllBlocksCleared");
    sel_pack_map(&pk, 1);
    sel_pack_member(&pk, "type", "Ignored");
    finish(expected);
}


static void
test_short_forms(void **state)
{
    static const char  expected[] =
        "stored h=7 p=5 t=100,101,102,103 b=4\n"
        "removed h=7,8\n"
        "cleared\n";

    int  i;

    sel_pack_batch(&pk, 3);
    stored_head(5);
    removed_head(2);
    sel_pack_array(&pk, 1);
    sel_pack_text(&pk, "AllBlocksCleared");
    finish(expected);

    /* nil and empty text are absence */
    sel_pack_batch(&pk, 3);
    stored_head(14);

    for (i = 0; i < 9; i++) {

        if (i == 1) {
            sel_pack_text(&pk, "");         /* medium */

        } else {
            sel_pack_nil(&pk);
        }
    }

    removed_head(3);
    sel_pack_text(&pk, "");
    sel_pack_array(&pk, 2);
    sel_pack_text(&pk, "AllBlocksCleared");
    sel_pack_nil(&pk);
    finish(expected);

    /* elements behind the known ones are skipped */
    sel_pack_batch(&pk, 2);
    stored_head(17);

    for (i = 0; i < 9; i++) {
        sel_pack_nil(&pk);
    }

    sel_pack_map(&pk, 1);
    sel_pack_member(&pk, "medium", "DISK");
    sel_pack_range(&pk, 20, 1);
    sel_pack_f64(&pk, 1.5);
    removed_head(2);
    finish("stored h=7 p=5 t=100,101,102,103 b=4\n"
           "removed h=7,8\n");
}


static void
test_map_members(void **state)
{
    /* unknown keys of any value, the last of a repeated one wins */
    sel_pack_batch(&pk, 1);
    sel_pack_stored(&pk, 1, 7, 0, 100, 7);
    sel_pack_text(&pk, "future");
    sel_pack_map(&pk, 1);
    sel_pack_member(&pk, "medium", "DISK");
    sel_pack_text(&pk, "more");
    sel_pack_range(&pk, 17, 1);
    sel_pack_text(&pk, "lora_id");
    sel_pack_nil(&pk);
    sel_pack_member(&pk, "medium", "CPU");
    sel_pack_member(&pk, "medium", "GPU");
    sel_pack_text(&pk, "lora_name");
    sel_pack_nil(&pk);
    sel_pack_member(&pk, "cache_salt", "te");
    finish("stored h=7 t=100,101,102,103 b=4 ns=te medium=GPU\n");

    /* so it is with the tag, wherever it stands */
    sel_pack_batch(&pk, 2);
    sel_pack_stored(&pk, 1, 7, 5, 100, 1);
    sel_pack_member(&pk, "type", "BlockRemoved");
    sel_pack_map(&pk, 3);
    sel_pack_text(&pk, "block_hashes");
    sel_pack_range(&pk, 2, 7);
    sel_pack_member(&pk, "medium", "CPU");
    sel_pack_member(&pk, "type", "BlockRemoved");
    finish("removed h=7\nremoved h=7,8 medium=CPU\n");

    /* bin that holds text is text, for keys and for values */
    sel_pack_batch(&pk, 1);
    sel_pack_removed(&pk, 1, 7, 1);
    sel_pack_bin(&pk, "medium", 6);
    sel_pack_bin(&pk, "DISK", 4);
    finish("removed h=7 medium=DISK\n");
}


static void
pack_tail(const char *form)
{
    stored_head(9 + (uint32_t) strlen(form));
    sel_pack_nil(&pk);
    sel_pack_nil(&pk);
    sel_pack_nil(&pk);
    sel_pack_nil(&pk);

    for ( /* void */ ; *form != '\0'; form++) {

        switch (*form) {
        case '-':
            sel_pack_nil(&pk);
            break;
        case 'm':
            sel_pack_array(&pk, 1);
            sel_pack_map(&pk, 1);
            sel_pack_text(&pk, "mm_objects");
            sel_pack_array(&pk, 1);
            sel_pack_map(&pk, 1);
            sel_pack_member_uint(&pk, "mm_hash", 0x77);
            break;
        case 'k':
            sel_pack_text(&pk, "mamba");
            break;
        case 'l':
            sel_pack_text(&pk, "REMOTE");
            break;
        case 'o':
            sel_pack_text(&pk, "kvcr");
            break;
        case 'f':
            sel_pack_f64(&pk, 1.5);
            break;
        case 'n':
            sel_pack_int(&pk, -1);
            break;
        case '{':
            sel_pack_map(&pk, 0);
            break;
        default:
            sel_pack_uint(&pk, (uint64_t) (*form - '0'));
        }
    }
}


static void
test_tails(void **state)
{
    static const char *const  tails[][2] = {
        /* five fixed places, from four elements on */
        { "3k9lo", " g=3 kind=mamba loc=REMOTE own=kvcr" },
        { "3k-l-", " g=3 kind=mamba loc=REMOTE" },
        { "3k9l", " g=3 kind=mamba loc=REMOTE" },
        { "---l", " loc=REMOTE" },
        { "----o", " own=kvcr" },
        { "-----", "" },
        { "0---", " g=0" },
        { "3k9lo5", " g=3 kind=mamba loc=REMOTE own=kvcr" },
        { "---l-o", " loc=REMOTE" },

        /* fewer, or types that do not fit: read by type */
        { "3", " g=3" },
        { "3k", " g=3 kind=mamba" },
        { "3k9", " g=3 kind=mamba" },
        { "k3", " g=3 kind=mamba" },
        { "39k", " g=3 kind=mamba" },
        { "-3", " g=3" },
        { "m", " mm|77," },
        { "m3k9", " mm|77, g=3 kind=mamba" },
        { "3km", " mm|77, g=3 kind=mamba" },
        { "3k9-m", " mm|77, g=3 kind=mamba" },
        { "k3--", " g=3 kind=mamba" },
        { "39k-", " g=3 kind=mamba" },

        /* the last text is the kind; what has no use is passed over */
        { "3lk", " g=3 kind=mamba" },
        { "39klk", " g=3 kind=mamba" },
        { "f3k", " g=3 kind=mamba" },
        { "n3{k", " g=3 kind=mamba" },
        { "399k{", " g=3 kind=mamba" }
    };

    char    expected[256];
    size_t  i;

    for (i = 0; i < sel_countof(tails); i++) {
        sel_pack_batch(&pk, 1);
        pack_tail(tails[i][0]);
        snprintf(expected, sizeof(expected),
                 "stored h=7 p=5 t=100,101,102,103 b=4%s\n", tails[i][1]);
        finish(expected);
    }
}


/* Position 7 of the array form: a LoRA name or a map of metadata. */
static void
test_metadata(void **state)
{
    sel_pack_batch(&pk, 4);

    stored_head(8);
    sel_pack_nil(&pk);
    sel_pack_text(&pk, "GPU");
    sel_pack_text(&pk, "ad");

    stored_head(8);
    sel_pack_nil(&pk);
    sel_pack_text(&pk, "GPU");
    sel_pack_map(&pk, 3);
    sel_pack_member(&pk, "session_id", "s1");
    sel_pack_member(&pk, "cache_salt", "te");
    sel_pack_text(&pk, "other");
    sel_pack_range(&pk, 2, 1);

    stored_head(8);
    sel_pack_nil(&pk);
    sel_pack_nil(&pk);
    sel_pack_map(&pk, 1);
    sel_pack_text(&pk, "cache_salt");
    sel_pack_nil(&pk);

    /* the map and the fixed tail in one event */
    stored_head(14);
    sel_pack_nil(&pk);
    sel_pack_nil(&pk);
    sel_pack_map(&pk, 1);
    sel_pack_member(&pk, "cache_salt", "te");
    sel_pack_nil(&pk);
    sel_pack_uint(&pk, 0);
    sel_pack_text(&pk, "full_attention");
    sel_pack_nil(&pk);
    sel_pack_text(&pk, "LOCAL");
    sel_pack_nil(&pk);

    finish("stored h=7 p=5 t=100,101,102,103 b=4 lora=ad medium=GPU\n"
           "stored h=7 p=5 t=100,101,102,103 b=4 ns=te medium=GPU\n"
           "stored h=7 p=5 t=100,101,102,103 b=4\n"
           "stored h=7 p=5 t=100,101,102,103 b=4 ns=te g=0 "
           "kind=full_attention loc=LOCAL\n");
}


static void
test_hashes(void **state)
{
    static const uint8_t  digest[32] = {
        9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9,
        9, 9, 9, 9, 9, 9, 9, 9, 0x80, 0, 0, 0, 0, 0, 0, 5
    };

    sel_pack_batch(&pk, 3);
    sel_pack_array(&pk, 2);
    sel_pack_text(&pk, "BlockRemoved");
    sel_pack_array(&pk, 6);
    sel_pack_int(&pk, -1);
    sel_pack_int(&pk, INT64_MIN);
    sel_pack_uint(&pk, UINT64_MAX);
    sel_pack_int(&pk, 5);
    sel_pack_bin(&pk, digest, 32);
    sel_pack_bin(&pk, &digest[24], 8);

    sel_pack_array(&pk, 5);
    sel_pack_text(&pk, "BlockStored");
    sel_pack_array(&pk, 1);
    sel_pack_bin(&pk, digest, 32);
    sel_pack_bin(&pk, digest, 32);
    sel_pack_range(&pk, 1, 1);
    sel_pack_uint(&pk, 1);

    sel_pack_array(&pk, 5);
    sel_pack_text(&pk, "BlockStored");
    sel_pack_range(&pk, 1, 1);
    sel_pack_int(&pk, -2);
    sel_pack_range(&pk, 1, 1);
    sel_pack_uint(&pk, 1);

    finish("removed h=18446744073709551615,9223372036854775808,"
           "18446744073709551615,5,9223372036854775813,"
           "9223372036854775813\n"
           "stored h=9223372036854775813 p=9223372036854775813 t=1 b=1\n"
           "stored h=1 p=18446744073709551614 t=1 b=1\n");
}


static void
test_eagle(void **state)
{
    uint32_t  i;

    sel_pack_batch(&pk, 2);
    sel_pack_array(&pk, 5);
    sel_pack_text(&pk, "BlockStored");
    sel_pack_range(&pk, 1, 7);
    sel_pack_nil(&pk);
    sel_pack_array(&pk, 3);

    for (i = 0; i < 3; i++) {
        sel_pack_range(&pk, 2, 4294967292u + i);
    }

    sel_pack_uint(&pk, 2);

    sel_pack_array(&pk, 5);
    sel_pack_text(&pk, "BlockStored");
    sel_pack_array(&pk, 0);
    sel_pack_nil(&pk);
    sel_pack_array(&pk, 0);
    sel_pack_uint(&pk, 2);

    finish("stored h=7 t=4294967292,4294967293,4294967294,4294967295 b=2 "
           "eagle\n"
           "stored b=2\n");
}


static const struct CMUnitTest  tests[] = {
    cmocka_unit_test(test_both_forms),
    cmocka_unit_test(test_short_forms),
    cmocka_unit_test(test_map_members),
    cmocka_unit_test(test_tails),
    cmocka_unit_test(test_metadata),
    cmocka_unit_test(test_hashes),
    cmocka_unit_test(test_eagle)
};


int
main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
