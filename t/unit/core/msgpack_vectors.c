/*
 * The msgpack cursor against messages of another implementation, and on any
 * bytes.  Without it a form that engines send could be misread, or a cut
 * message be read behind its end.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sel_msgpack_text.h"
#include "sel_rand.h"


static sel_rand_t  rnd;


/* Each vector, whole, and cut at each byte in memory of that size. */
static void
test_vectors(void **state)
{
    char        *text;
    size_t       i, len;
    json_t      *root, *rows, *row;
    uint8_t     *copy;
    sel_str_t    bytes;
    const char  *hex;

    root = sel_vectors_load("msgpack");
    rows = sel_vectors_get(root, "messages");
    assert_true(json_array_size(rows) > 100);

    json_array_foreach(rows, i, row) {
        hex = sel_vectors_text(row, "hex");
        text = sel_msgpack_text(hex);

        if (text == NULL || strcmp(text, sel_vectors_text(row, "value"))) {
            fail_msg("%s reads as %s", hex, text == NULL ? "nothing" : text);
        }

        free(text);
        bytes = sel_vectors_hex(hex);

        for (len = 0; len < bytes.len; len++) {
            sel_msgpack_t  mp;

            copy = malloc(len != 0 ? len : 1);
            assert_non_null(copy);
            memcpy(copy, bytes.data, len);
            mp = sel_msgpack(copy, len);

            if (sel_msgpack_skip(&mp)) {
                fail_msg("%s, cut at byte %zu, was accepted", hex, len);
            }

            free(copy);
        }

        free((void *) bytes.data);
    }

    json_decref(root);
}


/* Any bytes: the cursor stays inside and skipping agrees with walking. */
static void
test_random(void **state)
{
    int            i;
    bool           ok;
    char          *text;
    FILE          *out;
    size_t         k, n, len;
    uint8_t       *bytes;
    sel_msgpack_t  mp, walk;

    for (i = 0; i < 20000; i++) {
        n = sel_rand_below(&rnd, 40);
        bytes = malloc(n != 0 ? n : 1);
        assert_non_null(bytes);

        for (k = 0; k < n; k++) {
            bytes[k] = (uint8_t) (sel_rand(&rnd) & 3 ? sel_rand_below(&rnd, 5)
                                  + 0x90 : sel_rand(&rnd));
        }

        mp = sel_msgpack(bytes, n);
        walk = mp;
        ok = sel_msgpack_skip(&mp);
        assert_true(!ok || (mp.pos > bytes && mp.pos <= bytes + n));

        if (ok) {
            out = open_memstream(&text, &len);
            assert_non_null(out);
            assert_true(sel_msgpack_print(&walk, out));
            assert_ptr_equal(walk.pos, mp.pos);
            assert_int_equal(fclose(out), 0);
            free(text);
        }

        free(bytes);
    }
}


static const struct CMUnitTest  tests[] = {
    cmocka_unit_test(test_vectors),
    cmocka_unit_test(test_random)
};


int
main(void)
{
    rnd.state = sel_rand_seed("msgpack_vectors");

    return cmocka_run_group_tests(tests, NULL, NULL);
}
