/*
 * Any bytes as a JSON text.  In one piece and in segments every reader comes
 * to the same end; documents are judged and read as jansson does; what was
 * read can be written and read again.
 */

#include "core/sel_json_write.h"
#include "fuzz.h"
#include "sel_tree.h"
#include "sel_ways.h"


typedef struct {
    uint64_t        given;
    bool            flag;
    uint32_t        number;
    uint32_t        mode;
    double          real;
    float           narrow;
    uint64_t        wide;
    sel_str_t       text;
    sel_u32_list_t  tokens;
    sel_u64_list_t  hashes;
    sel_str_list_t  names;
} record_t;


static const char *const  modes[] = { "a", "bb", NULL };

#define MEMBER(key, kind, flags, field)                                       \
    { key, SEL_JSON_M_##kind, flags, offsetof(record_t, field),               \
      SEL_JSON_M_##kind == SEL_JSON_M_ENUM ? modes : NULL, NULL, NULL }

static const sel_json_member_t  members[] = {
    MEMBER("b", BOOL, SEL_JSON_NOT_NULL, flag),
    MEMBER("n", U32, 0, number),
    MEMBER("e", ENUM, 0, mode),
    MEMBER("r", F64, 0, real),
    MEMBER("f", F32, 0, narrow),
    MEMBER("u", U64, SEL_JSON_REQUIRED, wide),
    MEMBER("s", STRING, SEL_JSON_NOT_NULL, text),
    MEMBER("t", U32_LIST, 0, tokens),
    MEMBER("h", HASH_LIST, 0, hashes),
    MEMBER("l", STRING_LIST, 0, names)
};

static const sel_json_struct_t  type = {
    "struct Record", members, sel_countof(members),
    offsetof(record_t, given), NULL
};


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


static void
print_str(FILE *out, sel_str_t text)
{
    fprintf(out, " %zu:", text.len);

    if (text.len != 0) {
        fwrite(text.data, 1, text.len, out);
    }
}


static void
read_struct(sel_json_t *json, FILE *out)
{
    uint32_t  i;
    record_t  record;

    memset(&record, 0, sizeof(record));

    if (!sel_json_read_struct(json, &type, &record) || !sel_json_end(json)) {
        return;
    }

    fprintf(out, "%" PRIx64 " %d %" PRIu32 " %" PRIu32 " %a %a %" PRIu64,
            record.given, record.flag, record.number, record.mode,
            record.real, (double) record.narrow, record.wide);
    print_str(out, record.text);

    for (i = 0; i < record.tokens.n; i++) {
        fprintf(out, " %" PRIu32, record.tokens.data[i]);
    }

    for (i = 0; i < record.hashes.n; i++) {
        fprintf(out, " %" PRIu64, record.hashes.data[i]);
    }

    for (i = 0; i < record.names.n; i++) {
        print_str(out, record.names.data[i]);
    }
}


/* Lists, of which the second is read only behind the first. */
static void
read_list(sel_json_t *json, FILE *out)
{
    uint32_t        i;
    sel_u32_list_t  tokens;
    sel_u64_list_t  hashes;

    if (sel_json_u32_list(json, &tokens)) {

        for (i = 0; i < tokens.n; i++) {
            fprintf(out, "%" PRIu32 " ", tokens.data[i]);
        }
    }

    if (sel_json_hash_list(json, &hashes)) {

        for (i = 0; i < hashes.n; i++) {
            fprintf(out, "%" PRIu64 " ", hashes.data[i]);
        }
    }

    fprintf(out, "%d", sel_json_end(json));
}


static void
read_scalars(sel_json_t *json, FILE *out)
{
    int64_t    i64;
    uint64_t   u64;
    sel_str_t  text;

    if (sel_json_u64(json, &u64)) {
        fprintf(out, "%" PRIu64 " ", u64);
    }

    if (sel_json_i64(json, &i64)) {
        fprintf(out, "%" PRId64 " ", i64);
    }

    if (sel_json_string(json, &text)) {
        print_str(out, text);
    }

    fprintf(out, "%d", sel_json_mismatch(json, "nothing"));
}


static void
write_value(sel_json_out_t *out, json_t *value)
{
    void        *it;
    size_t       i;

    switch (json_typeof(value)) {

    case JSON_NULL:
        sel_json_out_null(out);
        break;

    case JSON_TRUE:
    case JSON_FALSE:
        sel_json_out_bool(out, json_is_true(value));
        break;

    case JSON_INTEGER:
    case JSON_REAL:
        sel_json_out_f64(out, json_number_value(value));
        break;

    case JSON_STRING:
        sel_json_out_str(out, (sel_str_t) { json_string_length(value),
                         (const uint8_t *) json_string_value(value) });
        break;

    case JSON_ARRAY:
        sel_json_out_array(out);

        for (i = 0; i < json_array_size(value); i++) {
            write_value(out, json_array_get(value, i));
        }

        sel_json_out_array_end(out);
        break;

    case JSON_OBJECT:
        sel_json_out_object(out);

        for (it = json_object_iter(value);
             it != NULL;
             it = json_object_iter_next(value, it))
        {
            sel_json_out_key_str(out, (sel_str_t) {
                                 json_object_iter_key_len(it),
                                 (const uint8_t *) json_object_iter_key(it)
                                 });
            write_value(out, json_object_iter_value(it));
        }

        sel_json_out_object_end(out);
    }
}


static void
check_writer(json_t *root)
{
    json_t          *again;
    sel_buf_t        buf;
    sel_json_t       json;
    sel_arena_t      arena;
    sel_json_out_t   out;

    sel_buf_init(&buf);
    sel_json_out_init(&out, &buf);
    write_value(&out, root);
    FUZZ_CHECK(!buf.failed, "the writer failed");

    sel_arena_init(&arena, 0);
    sel_json_init_text(&json, &arena, sel_buf_view(&buf));
    again = sel_tree_document(&json);
    FUZZ_CHECK(again != NULL && json_equal(root, again),
               "written as %.*s: %s", (int) buf.len, (char *) buf.data,
               json.message);

    json_decref(again);
    sel_arena_free(&arena);
    sel_buf_free(&buf);
}


static void
check_against_jansson(const uint8_t *data, size_t size,
    const sel_ways_t *ways)
{
    char          *text;
    json_t        *root;
    json_error_t   error;

    root = sel_tree_jansson(data, size, &error);

    if (root == NULL) {
        FUZZ_CHECK(ways->status == SEL_JSON_SYNTAX
                   || json_error_code(&error) == json_error_null_byte_in_key,
                   "status %d, but jansson says: %s", ways->status,
                   error.text);
        return;
    }

    if (sel_tree_depth(root) > SEL_JSON_MAX_DEPTH) {
        FUZZ_CHECK(ways->status == SEL_JSON_SYNTAX, "nested too deep");
        json_decref(root);
        return;
    }

    text = json_dumps(root, JSON_ENCODE_ANY | JSON_SORT_KEYS
                            | JSON_REAL_PRECISION(17));
    FUZZ_CHECK(ways->status == SEL_JSON_OK && strcmp(text, ways->out) == 0,
               "status %d (%s), %s is read as %s", ways->status,
               ways->message, text, ways->out);
    check_writer(root);
    free(text);
    json_decref(root);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t               i;
    uint64_t             seed;
    sel_ways_t           ways, tree;
    const char          *difference;

    static const sel_ways_read_pt  readers[] = {
        read_skip, read_struct, read_list, read_scalars
    };

    seed = fuzz_seed(data, size);
    difference = sel_ways_run(data, size, seed, read_tree, &tree);
    FUZZ_CHECK(difference == NULL, "%s", difference);
    check_against_jansson(data, size, &tree);

    for (i = 0; i < sel_countof(readers); i++) {
        difference = sel_ways_run(data, size, seed, readers[i], &ways);
        FUZZ_CHECK(difference == NULL, "%s", difference);
        FUZZ_CHECK(readers[i] != read_skip || tree.status != SEL_JSON_OK
                   || ways.status == SEL_JSON_OK, "%s", ways.message);
        sel_ways_free(&ways);
    }

    sel_ways_free(&tree);

    return 0;
}
