/*
 * The multimodal members of selection bodies.  Without it a multimodal prompt
 * would be hashed without its objects, or with those of another block.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sel_body_text.h"
#include "sel_expect.h"


static uint64_t  seed;


static void
read_select(sel_json_t *json, FILE *out)
{
    sel_select_body_t  body;

    memset(&body, 0xa5, sizeof(body));

    if (sel_read_select(json, &body) && sel_json_end(json)) {
        sel_body_print(&body, out);
    }
}


typedef struct {
    const char  *value;
    const char  *out;           /* NULL: refused */
    const char  *words;         /* of the refusal */
} row_t;


static void
expect_rows(const char *member, const row_t *rows, size_t n)
{
    char    text[1024], out[1024];
    size_t  i;

    for (i = 0; i < n; i++) {
        (void) snprintf(text, sizeof(text), "{\"%s\":%s}", member,
                        rows[i].value);

        if (rows[i].out == NULL) {
            sel_expect(text, read_select, SEL_JSON_DATA, "", member, seed);
            sel_expect(text, read_select, SEL_JSON_DATA, "", rows[i].words,
                       seed);

        } else {
            (void) snprintf(out, sizeof(out), "%s%s", SEL_BODY_NONE,
                            rows[i].out);
            sel_expect(text, read_select, SEL_JSON_OK, out, NULL, seed);
        }
    }
}


static void
test_mm_infos(void **state)
{
    static const row_t  rows[] = {
        { "null", "", NULL },
        { "[]", " block_mm_infos=[]", NULL },
        { "[null,{\"mm_objects\":[]},null]", " block_mm_infos=[{}{}{}]",
          NULL },
        { "[{\"mm_objects\":[{\"mm_hash\":18446744073709551615,"
          "\"offsets\":[[0,5],[7,9]]},{\"mm_hash\":0,\"offsets\":[]}]},"
          "null,{\"x\":1,\"mm_objects\":[{\"offsets\":[[1,2]],"
          "\"mm_hash\":7,\"y\":[]}]}]",
          " block_mm_infos=[{18446744073709551615,0}{}{7}]", NULL },
        { "[{\"mm_objects\":[{\"mm_hash\":5,\"offsets\":[[9,1]]},"
          "{\"mm_hash\":5,\"offsets\":"
          "[[18446744073709551615,18446744073709551615]]}]}]",
          " block_mm_infos=[{5,5}]", NULL },
        { "{}", NULL, NULL },
        { "\"x\"", NULL, NULL },
        { "[1]", NULL, NULL },
        { "[\"x\"]", NULL, NULL },
        { "[{}]", NULL, "mm_objects" },
        { "[{\"mm_objects\":null}]", NULL, "mm_objects" },
        { "[{\"mm_objects\":{}}]", NULL, "mm_objects" },
        { "[{\"mm_objects\":[null]}]", NULL, "mm_objects" },
        { "[{\"mm_objects\":[7]}]", NULL, "mm_objects" },
        { "[{\"mm_objects\":[{\"offsets\":[]}]}]", NULL, "mm_hash" },
        { "[{\"mm_objects\":[{\"mm_hash\":null,\"offsets\":[]}]}]", NULL,
          "mm_hash" },
        { "[{\"mm_objects\":[{\"mm_hash\":-1,\"offsets\":[]}]}]", NULL,
          "mm_hash" },
        { "[{\"mm_objects\":[{\"mm_hash\":1.5,\"offsets\":[]}]}]", NULL,
          "mm_hash" },
        { "[{\"mm_objects\":[{\"mm_hash\":18446744073709551616,"
          "\"offsets\":[]}]}]", NULL, "mm_hash" },
        { "[{\"mm_objects\":[{\"mm_hash\":\"7\",\"offsets\":[]}]}]", NULL,
          "mm_hash" },
        { "[{\"mm_objects\":[{\"mm_hash\":7,\"offsets\":null}]}]", NULL,
          "offsets" },
        { "[{\"mm_objects\":[{\"mm_hash\":7,\"offsets\":[1]}]}]", NULL,
          "offsets" },
        { "[{\"mm_objects\":[{\"mm_hash\":7,\"offsets\":[[1]]}]}]", NULL,
          "offsets" },
        { "[{\"mm_objects\":[{\"mm_hash\":7,\"offsets\":[[]]}]}]", NULL,
          "offsets" },
        { "[{\"mm_objects\":[{\"mm_hash\":7,\"offsets\":[[1,2,3]]}]}]", NULL,
          "offsets" },
        { "[{\"mm_objects\":[{\"mm_hash\":7,\"offsets\":[[-1,2]]}]}]", NULL,
          "offsets" },
        { "[{\"mm_objects\":[{\"mm_hash\":7,\"offsets\":[[1,\"2\"]]}]}]",
          NULL, "offsets" }
    };

    expect_rows("block_mm_infos", rows, sel_countof(rows));
}


static void
test_mm_routing(void **state)
{
    static const row_t  rows[] = {
        { "null", "", NULL },
        { "{\"routing_token_ids\":[]}",
          " routing_token_ids=[] routing_mm_infos=[]", NULL },
        { "{\"routing_token_ids\":[1,4294967295],\"x\":null,"
          "\"block_mm_infos\":[null,{\"mm_objects\":[{\"mm_hash\":7,"
          "\"offsets\":[[0,1]]}]}]}",
          " routing_token_ids=[1,4294967295] routing_mm_infos=[{}{7}]",
          NULL },
        { "{}", NULL, "missing field `routing_token_ids`" },
        { "{\"block_mm_infos\":[]}", NULL,
          "missing field `routing_token_ids`" },
        { "{\"routing_token_ids\":null}", NULL, "routing_token_ids" },
        { "{\"routing_token_ids\":[-1]}", NULL, "routing_token_ids" },
        { "{\"routing_token_ids\":\"x\"}", NULL, "routing_token_ids" },
        { "{\"routing_token_ids\":[1],\"block_mm_infos\":null}", NULL,
          "block_mm_infos" },
        { "{\"routing_token_ids\":[1],\"block_mm_infos\":{}}", NULL,
          "block_mm_infos" },
        { "{\"routing_token_ids\":[1],\"block_mm_infos\":[7]}", NULL,
          "block_mm_infos" },
        { "{\"routing_token_ids\":[1],\"routing_token_ids\":[1]}", NULL,
          "duplicate field `routing_token_ids`" },
        { "7", NULL, NULL },
        { "\"x\"", NULL, NULL }
    };

    expect_rows("mm_routing_info", rows, sel_countof(rows));
}


static int
setup(void **state)
{
    seed = sel_rand_seed("request_mm");

    return 0;
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_mm_infos),
        cmocka_unit_test(test_mm_routing)
    };

    return cmocka_run_group_tests_name("request_mm", tests, setup, NULL);
}
