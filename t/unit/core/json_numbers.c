/*
 * Every number reader of the JSON reader against the C library, near every
 * power of two.  Without it a hash or an id could lose bits, or one out of
 * range could be taken as another.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>

#include "core/sel_json_read.h"
#include "sel_documents.h"


static sel_rand_t  rnd;


/* Every integer reader against strtoull() and the sign, near every edge. */
static void
test_integers(void **state)
{
    int          i;
    bool         minus, over;
    char         text[32];
    int64_t      i64;
    uint32_t     u32;
    uint64_t     value, u64, hash;
    sel_str_t    str;
    sel_json_t   json;
    sel_arena_t  arena;

    sel_arena_init(&arena, 0);

    for (i = 0; i < 20000; i++) {
        value = sel_rand_wide(&rnd);
        minus = value != 0 && sel_rand_below(&rnd, 2) == 0;
        over = value != 0 && sel_rand_below(&rnd, 8) == 0;
        sprintf(text, "%s%" PRIu64 "%s", minus ? "-" : "", value,
                over ? "0" : "");

        if (over) {
            errno = 0;
            value = strtoull(minus ? text + 1 : text, NULL, 10);
            over = errno == ERANGE;
        }

        str = sel_cstr(text);

        sel_json_init_text(&json, &arena, str);
        assert_int_equal(sel_json_u32(&json, &u32),
                         !over && !minus && value <= UINT32_MAX);
        assert_true(json.status != SEL_JSON_OK || u32 == value);

        sel_json_init_text(&json, &arena, str);
        assert_int_equal(sel_json_u64(&json, &u64), !over && !minus);
        assert_true(json.status != SEL_JSON_OK || u64 == value);

        sel_json_init_text(&json, &arena, str);
        assert_int_equal(sel_json_i64(&json, &i64), !over
                         && value <= (uint64_t) INT64_MAX + minus);
        assert_true(json.status != SEL_JSON_OK
                    || (uint64_t) i64 == (minus ? 0 - value : value));

        sel_json_init_text(&json, &arena, str);
        assert_int_equal(sel_json_hash(&json, &hash), !over
                         && (!minus || value <= (uint64_t) INT64_MAX + 1));
        assert_true(json.status != SEL_JSON_OK
                    || hash == (minus ? 0 - value : value));

        assert_true(json.status == SEL_JSON_OK
                    || json.status == SEL_JSON_DATA);
    }

    sel_arena_free(&arena);
}


static void
test_reals(void **state)
{
    int          i;
    char        *text;
    FILE        *doc;
    float        narrow;
    size_t       len;
    double       value, wide;
    sel_json_t   json;
    sel_arena_t  arena;

    sel_arena_init(&arena, 0);

    for (i = 0; i < 20000; i++) {
        doc = open_memstream(&text, &len);
        assert_non_null(doc);
        sel_document_number(&rnd, doc);
        assert_int_equal(fclose(doc), 0);
        wide = strtod(text, NULL);

        if (isinf(wide)) {              /* rounded up when it was printed */
            free(text);
            continue;
        }

        sel_json_init_text(&json, &arena, sel_cstr(text));

        if (!sel_json_f64(&json, &value)
            || memcmp(&value, &wide, sizeof(double)) != 0)
        {
            fail_msg("%s: %s, read as %.17g", text, json.message, value);
        }

        sel_json_init_text(&json, &arena, sel_cstr(text));

        if (fabs(wide) < 1e38 && (!sel_json_f32(&json, &narrow)
            || (narrow != strtof(text, NULL) && narrow != (float) wide)))
        {
            fail_msg("%s: %s, read as %.9g", text, json.message,
                     (double) narrow);
        }

        free(text);
    }

    sel_arena_free(&arena);
}


static const struct CMUnitTest  tests[] = {
    cmocka_unit_test(test_integers),
    cmocka_unit_test(test_reals)
};


int
main(void)
{
    rnd.state = sel_rand_seed("json_numbers");

    return cmocka_run_group_tests(tests, NULL, NULL);
}
