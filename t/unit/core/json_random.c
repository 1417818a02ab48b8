/*
 * The JSON reader against jansson: random documents, broken ones, every kind
 * of broken UTF-8.  Without it a document that all other software takes could
 * be refused here, or the reverse.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sel_documents.h"
#include "sel_tree.h"
#include "sel_ways.h"


static sel_rand_t  rnd;


/* The document as jansson prints it: one form for equal documents. */
static void
read_tree(sel_json_t *json, FILE *out)
{
    json_t  *root;

    root = sel_tree_document(json);

    if (root != NULL) {
        json_dumpf(root, out, JSON_ENCODE_ANY | JSON_SORT_KEYS
                              | JSON_REAL_PRECISION(17));
        json_decref(root);
    }
}


static void
read_skip(sel_json_t *json, FILE *out)
{
    if (sel_json_skip(json) && sel_json_end(json)) {
        fprintf(out, "skipped");
    }
}


static bool
same_as_jansson(const sel_ways_t *ways, json_t *root)
{
    bool   same;
    char  *text;

    text = json_dumps(root, JSON_ENCODE_ANY | JSON_SORT_KEYS
                            | JSON_REAL_PRECISION(17));
    same = text != NULL && strcmp(text, ways->out) == 0;
    free(text);

    return same;
}


/*
 * True when both agree on the text.  jansson knows no NUL in a key, and
 * nests deeper.
 */
static void
compare(const char *text, size_t len)
{
    json_t        *root;
    uint64_t       seed;
    sel_ways_t     ways, skip;
    const char    *difference;
    json_error_t   error;

    seed = sel_rand(&rnd);
    root = sel_tree_jansson(text, len, &error);

    if (root == NULL
        && json_error_code(&error) == json_error_null_byte_in_key)
    {
        return;
    }

    difference = sel_ways_run(text, len, seed, read_tree, &ways);

    if (difference != NULL) {
        fail_msg("%s", difference);
    }

    if (root != NULL && sel_tree_depth(root) > SEL_JSON_MAX_DEPTH) {
        assert_int_equal(ways.status, SEL_JSON_SYNTAX);

    } else if (root != NULL) {

        if (ways.status != SEL_JSON_OK || !same_as_jansson(&ways, root)) {
            fail_msg("%.*s: status %d (%s), read as %s", (int) len, text,
                     ways.status, ways.message, ways.out);
        }

    } else if (ways.status != SEL_JSON_SYNTAX) {
        fail_msg("%.*s: status %d, jansson says %s", (int) len, text,
                 ways.status, error.text);
    }

    difference = sel_ways_run(text, len, seed, read_skip, &skip);

    if (difference != NULL) {
        fail_msg("%s", difference);
    }

    if (skip.status != ways.status) {
        fail_msg("%.*s: skipping gives %d (%s), reading %d (%s)", (int) len,
                 text, skip.status, skip.message, ways.status, ways.message);
    }

    sel_ways_free(&ways);
    sel_ways_free(&skip);
    json_decref(root);
}


/* one byte changed, taken out, doubled or cut off behind */
static size_t
mutate(char *text, size_t len)
{
    static const char  likely[] = "{}[]\",:\\u0eE.-+tfn \x80\xc3\xed\xf4\x01";

    size_t  at;

    at = sel_rand_below(&rnd, len);

    switch (sel_rand_below(&rnd, 5)) {
    case 0:
        text[at] = (char) sel_rand(&rnd);
        return len;
    case 1:
        memmove(&text[at], &text[at + 1], len - at - 1);
        return len - 1;
    case 2:
        memmove(&text[at + 1], &text[at], len - at);
        return len + 1;
    case 3:
        return at;
    default:
        text[at] = likely[sel_rand_below(&rnd, sizeof(likely) - 1)];
        return len;
    }
}


static void
test_documents(void **state)
{
    int      i, k;
    char    *text, *broken;
    FILE    *doc;
    size_t   len, n;

    for (i = 0; i < 1500; i++) {
        doc = open_memstream(&text, &len);
        assert_non_null(doc);
        sel_document(&rnd, doc, 0);
        assert_int_equal(fclose(doc), 0);
        compare(text, len);

        broken = malloc(len + 8);
        assert_non_null(broken);

        for (k = 0; k < 3; k++) {
            memcpy(broken, text, len);

            for (n = len; n != 0 && n < len + 8; /* void */ ) {
                n = mutate(broken, n);

                if (sel_rand_below(&rnd, 2) == 0) {
                    break;
                }
            }

            compare(broken, n);
        }

        free(broken);
        free(text);
    }
}


/* As a value, as a key and inside something that is skipped. */
static void
compare_bytes(const uint8_t *bytes, size_t n)
{
    char    text[64];
    size_t  len;

    text[0] = '"';
    memcpy(&text[1], bytes, n);
    text[n + 1] = '"';
    compare(text, n + 2);

    len = (size_t) sprintf(text, "{\"a\":\"b");
    memcpy(&text[len], bytes, n);
    len += n;
    memcpy(&text[len], "\"}", 2);
    compare(text, len + 2);

    text[0] = '{';
    text[1] = '"';
    memcpy(&text[2], bytes, n);
    memcpy(&text[n + 2], "\":0}", 4);
    compare(text, n + 6);
}


static void
test_utf8(void **state)
{
    static const uint8_t  leads[] = {
        0x7f, 0x80, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed,
        0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xf8, 0xfc, 0xfe, 0xff
    };

    static const uint8_t  next[] = {
        'a', 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff
    };

    size_t    i, k, m;
    uint8_t   bytes[4];

    for (i = 0; i < 256; i++) {
        bytes[0] = (uint8_t) i;
        compare_bytes(bytes, 1);
    }

    for (i = 0; i < sizeof(leads); i++) {
        bytes[0] = leads[i];

        for (k = 0; k < sizeof(next); k++) {
            bytes[1] = next[k];
            compare_bytes(bytes, 2);

            for (m = 0; m < sizeof(next); m++) {
                bytes[2] = next[m];
                compare_bytes(bytes, 3);
                bytes[3] = next[sel_rand_below(&rnd, sizeof(next))];
                compare_bytes(bytes, 4);
            }
        }
    }
}


static void
test_escapes(void **state)
{
    static const char *const  texts[] = {
        "\\ud800", "\\udbff", "\\udc00", "\\udfff", "\\ud800\\ud800",
        "\\ud800\\udc00", "\\udbff\\udfff", "\\ud800\\u0041", "\\ud800a",
        "\\ud800\\n", "\\ud800\\", "\\ud800\\u", "\\ud800\\udc0",
        "\\udc00\\ud800", "\\ud800\\udbff", "\\ud83d\\ude00\\ude00",
        "\\ud7ff\\ue000", "\\uD83D \\uDE00", "\\u0000", "\\u001f", "\\u007f",
        "\\u00G0", "\\uFFFE", "\\a", "\\v", "\\0", "\\'", "\\u{41}"
    };

    char    text[64];
    size_t  i;

    for (i = 0; i < sel_countof(texts); i++) {
        sprintf(text, "\"%s\"", texts[i]);
        compare(text, strlen(text));
        sprintf(text, "[\"x%s\xc3\xa9\"]", texts[i]);
        compare(text, strlen(text));
        sprintf(text, "{\"%s\":0}", texts[i]);
        compare(text, strlen(text));
    }
}


static const struct CMUnitTest  tests[] = {
    cmocka_unit_test(test_documents),
    cmocka_unit_test(test_utf8),
    cmocka_unit_test(test_escapes)
};


int
main(void)
{
    rnd.state = sel_rand_seed("json_random");

    return cmocka_run_group_tests(tests, NULL, NULL);
}
