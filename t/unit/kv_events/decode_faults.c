/*
 * What the decoder refuses: events alone, batches whole.  Without it one bad
 * event would take its neighbours along, or bytes that are no batch would be
 * taken for one.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sel_kv_text.h"
#include "sel_vectors.h"


static sel_pack_t  pk;


/* Each event, in hexadecimal, between two good ones. */
static void
between(const char *hex, const char *what)
{
    char        expected[128];
    sel_str_t   bytes;

    sel_pack_batch(&pk, 3);
    sel_pack_removed(&pk, 1, 1, 0);
    bytes = sel_vectors_hex(hex);
    sel_pack_bytes(&pk, bytes.data, bytes.len);
    free((void *) bytes.data);
    sel_pack_removed(&pk, 1, 2, 0);
    sel_pack_rank(&pk, 9);

    snprintf(expected, sizeof(expected),
             "rank 9\nremoved h=1\n%s\nremoved h=2\n", what);
    sel_kv_expect(&pk, expected);
}


/* "BlockStored" and "BlockRemoved" as array elements */
#define STORED   "ab" "426c6f636b53746f726564"
#define REMOVED  "ac" "426c6f636b52656d6f766564"


static void
test_malformed(void **state)
{
    static const char *const  events[] = {
        "91" STORED,                            /* no hashes */
        "92" STORED "9107",                     /* no parent, tokens, size */
        "93" STORED "9107" "c0",                /* no tokens */
        "95" STORED "c0" "c0" "9101" "01",      /* hashes nil */
        "95" STORED "07" "c0" "9101" "01",      /* hashes no array */
        "95" STORED "91a137" "c0" "9101" "01",  /* a hash of text */
        "95" STORED "91cb3ff0000000000000" "c0" "9101" "01",
        "95" STORED "91c0" "c0" "9101" "01",    /* a hash that is nil */
        "95" STORED "9107" "a137" "9101" "01",  /* parent text */
        "95" STORED "9107" "cb3ff0000000000000" "9101" "01",
        "95" STORED "9107" "c0" "c0" "01",      /* tokens nil */
        "95" STORED "9107" "c0" "07" "01",      /* tokens no array */
        "95" STORED "9107" "c0" "91ff" "01",    /* a token of -1 */
        "95" STORED "9107" "c0" "91cf0000000100000000" "01",
        "95" STORED "9107" "c0" "91cb3ff0000000000000" "01",
        "95" STORED "9107" "c0" "91a131" "01",
        "95" STORED "9107" "c0" "91c0" "01",
        "95" STORED "9107" "c0" "92019201" "02" "01",  /* token, then pair */
        "95" STORED "9107" "c0" "9292010203" "01",     /* pair, then token */
        "95" STORED "9107" "c0" "9193010203" "01",     /* three of a pair */
        "95" STORED "9107" "c0" "919101" "01",         /* one of a pair */
        "95" STORED "9107" "c0" "919201ff" "01",
        "95" STORED "9107" "c0" "9101" "a131",  /* block size text */
        "95" STORED "9107" "c0" "9101" "ff",    /* block size -1 */
        "97" STORED "9107" "c0" "9101" "01" "c0" "05",    /* medium 5 */
        "98" STORED "9107" "c0" "9101" "01" "c0" "c0" "05",
        "91" REMOVED, "92" REMOVED "c0", "92" REMOVED "07",
        "92" REMOVED "91a137", "93" REMOVED "9107" "05",
        /* the same as maps */
        "81a474797065" STORED,
        "82a474797065" STORED "ac626c6f636b5f686173686573" "9107",
        "81a474797065" REMOVED,
        "82a474797065" REMOVED "ac626c6f636b5f686173686573" "c0",
        "83a474797065" REMOVED "ac626c6f636b5f686173686573" "9107"
            "a66d656469756d" "05"
    };

    size_t         i;
    sel_str_t      bytes;
    sel_msgpack_t  mp;

    for (i = 0; i < sel_countof(events); i++) {

        /* a row that is no value would be refused for that */
        bytes = sel_vectors_hex(events[i]);
        mp = sel_msgpack(bytes.data, bytes.len);
        assert_true(sel_msgpack_skip(&mp));
        assert_ptr_equal(mp.pos, mp.end);
        free((void *) bytes.data);

        between(events[i], "malformed");
    }
}


static void
test_unknown(void **state)
{
    between("91a3416263", "unknown tag");
    between("92aa426c6f636b4d6f766564" "9101", "unknown tag");
    between("91ab626c6f636b73746f726564", "unknown tag");   /* lower case */
    between("91a0", "unknown tag");
    between("82a474797065a3416263a178dc0011"
            "00000000000000000000000000000000" "00", "unknown tag");
}


/* What has no tag at all is refused under either name. */
static void
test_no_tag(void **state)
{
    static const char *const  events[] = {
        "c0", "05", "a3416263", "90", "80", "9105", "91c0", "9190",
        "81a474797065c0", "81a47479706505", "81a178a179", "c403616263",
        "d40100"
    };

    char       *text;
    size_t      i;
    sel_str_t   bytes;

    for (i = 0; i < sel_countof(events); i++) {
        sel_pack_batch(&pk, 2);
        bytes = sel_vectors_hex(events[i]);
        sel_pack_bytes(&pk, bytes.data, bytes.len);
        free((void *) bytes.data);
        sel_pack_cleared(&pk);
        sel_pack_no_rank(&pk);

        text = sel_kv_text(pk.data, pk.len);

        if (strcmp(text, "malformed\ncleared\n") != 0
            && strcmp(text, "unknown tag\ncleared\n") != 0)
        {
            fail_msg("%s: %s", events[i], text);
        }

        free(text);
    }
}


static void
batch(const char *hex, const char *expected)
{
    char       *text;
    sel_str_t   bytes;

    bytes = sel_vectors_hex(hex);
    text = sel_kv_text(bytes.data, bytes.len);

    if (strcmp(text, expected) != 0) {
        fail_msg("%s: %s, expected %s", hex, text, expected);
    }

    free(text);
    free((void *) bytes.data);
}


static void
test_batches(void **state)
{
    /* cleared: ["AllBlocksCleared"] */
    static const char  cleared[] = "91b0416c6c426c6f636b73436c6561726564";

    char  hex[256];

    static const char *const  wrong[] = {
        "", "c0", "05", "90", "9105", "9205c0", "920505", "920580",
        "9205a0", "82059005c0", "80", "a3616263", "c1", "9305c190",
        "ddffffffff", "df7fffffff", "dfffffffff",
        "93cb0000000000000000" "dd0000ffff" "c0"
    };

    size_t  i;

    for (i = 0; i < sel_countof(wrong); i++) {
        batch(wrong[i], "no batch");
    }

    batch("920590", "");
    batch("93cb41da39de0010000090" "c0", "");
    batch("93059005", "rank 5\n");
    batch("930590ff", "");
    batch("930590d38000000000000000", "");
    batch("930590ce7fffffff", "rank 2147483647\n");
    batch("dc0003" "05" "dc0000" "cc05", "rank 5\n");
    batch("dd00000002" "05" "dd00000000", "");
    batch("96059003" "c0a161" "9101", "rank 3\n");

    /* what follows the batch's value is not read */
    batch("93059003" "c0", "rank 3\n");
    batch("93059003" "c1", "rank 3\n");

    sprintf(hex, "920591%s", cleared);
    batch(hex, "cleared\n");
    sprintf(hex, "940592%s%s" "01" "80", cleared, cleared);
    batch(hex, "rank 1\ncleared\ncleared\n");
}


/* Cut at any byte it is no batch, so no event of a cut one is applied. */
static void
test_truncated(void **state)
{
    char    *text;
    size_t   len;

    sel_pack_batch(&pk, 3);
    sel_pack_stored(&pk, 2, 5, 4, 1, 1);
    sel_pack_member(&pk, "medium", "GPU");
    sel_pack_removed(&pk, 1, 5, 0);
    sel_pack_cleared(&pk);
    sel_pack_rank(&pk, 1000);

    for (len = 0; len < pk.len; len++) {
        text = sel_kv_text(pk.data, len);
        assert_string_equal(text, "no batch");
        free(text);
    }
}


static void
test_depth(void **state)
{
    int   i, depth;
    char *text;

    /* the batch, its events, the event, and what is inside it */
    for (depth = 1; depth < 20; depth++) {
        sel_pack_batch(&pk, 2);
        sel_pack_removed(&pk, 1, 5, 1);
        sel_pack_text(&pk, "future");

        for (i = 0; i < depth - 1; i++) {
            sel_pack_array(&pk, 1);
        }

        sel_pack_array(&pk, 0);
        sel_pack_cleared(&pk);
        sel_pack_no_rank(&pk);

        text = sel_kv_text(pk.data, pk.len);
        assert_string_equal(text, depth + 3 <= SEL_MSGPACK_MAX_DEPTH
                                  ? "removed h=5\ncleared\n" : "no batch");
        free(text);
    }
}


static void
test_too_long(void **state)
{
    uint8_t         *payload;
    sel_arena_t      arena;
    sel_kv_batch_t   open;

    /* [5, [], nil, bytes that fill 64 MiB, and then one more] */
    static const uint8_t  head[] = {
        0x94, 0x05, 0x90, 0xc0, 0xc6, 0x03, 0xff, 0xff, 0xf7
    };

    payload = calloc(1, SEL_KV_MAX_PAYLOAD + 1);
    assert_non_null(payload);
    memcpy(payload, head, sizeof(head));
    sel_arena_init(&arena, 0);

    assert_true(sel_kv_batch_open(&open, (sel_str_t) {
                                  SEL_KV_MAX_PAYLOAD, payload }, &arena));
    payload[8]++;
    assert_false(sel_kv_batch_open(&open, (sel_str_t) {
                                   SEL_KV_MAX_PAYLOAD + 1, payload },
                                   &arena));

    sel_arena_free(&arena);
    free(payload);
}


static const struct CMUnitTest  tests[] = {
    cmocka_unit_test(test_malformed),
    cmocka_unit_test(test_unknown),
    cmocka_unit_test(test_no_tag),
    cmocka_unit_test(test_batches),
    cmocka_unit_test(test_truncated),
    cmocka_unit_test(test_depth),
    cmocka_unit_test(test_too_long)
};


int
main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
