/*
 * The JSON reader: a pull reader over a stream of byte segments, exact for
 * u64, i64 and f64.  Nothing is built that was not asked for: the caller
 * pulls values, skips the rest, and number arrays go straight into lists.
 *
 * Statuses follow the reference's framework: SYNTAX is what its JSON parser
 * refuses (HTTP 400), DATA a well-formed value that does not fit the member
 * (422).  The first fault in document order decides.  After a failure every
 * call returns false; status and message tell why.  Reasons are worded as
 * serde words them, preceded by the member's path and followed by
 * " at line L column C".
 *
 * Accepted: RFC 8259, any white space around values, at most
 * SEL_JSON_MAX_DEPTH nested arrays and objects (also in skipped values).
 * Refused as SYNTAX: text that is not UTF-8 (keys and skipped values too),
 * lone surrogates, control characters in strings, numbers beyond the range
 * of a double, trailing characters, NaN and the like.
 */

#ifndef SEL_JSON_READ_H
#define SEL_JSON_READ_H

#include "core/sel_arena.h"


#define SEL_JSON_MAX_DEPTH  128


typedef enum {
    SEL_JSON_OK = 0,
    SEL_JSON_SYNTAX,
    SEL_JSON_DATA,
    SEL_JSON_NO_MEMORY
} sel_json_status_t;


typedef enum {
    SEL_JSON_END = 0,           /* the input ends here, or reading failed */
    SEL_JSON_NULL,
    SEL_JSON_BOOL,
    SEL_JSON_NUMBER,
    SEL_JSON_STRING,
    SEL_JSON_ARRAY,
    SEL_JSON_OBJECT
} sel_json_type_t;


/*
 * Gives the next segment of the input: its length and, in *data, its start;
 * 0 at the end.  The segment stays valid until the next call.
 */
typedef size_t (*sel_json_more_pt)(void *source, const uint8_t **data);


typedef struct sel_json_path_s  sel_json_path_t;

typedef struct {
    const uint8_t     *pos;
    const uint8_t     *end;
    const uint8_t     *segment;     /* start of the current segment */
    sel_json_more_pt   more;
    void              *source;
    sel_arena_t       *arena;       /* strings and lists that are handed out */
    sel_json_path_t   *path;        /* where we are, for messages */
    uint8_t           *scratch;     /* a string that crosses segments or has
                                       escapes; from the arena */
    size_t             scratch_cap;
    uint64_t           lines;       /* line feeds in finished segments */
    uint64_t           column;      /* bytes after the last of them */
    uint32_t           depth;
    bool               fresh;       /* in a container, before its first
                                       element */
    sel_json_status_t  status;
    char               message[512];
} sel_json_t;


/* Reads from a callback.  Messages and strings need the arena. */
void sel_json_init(sel_json_t *json, sel_arena_t *arena,
    sel_json_more_pt more, void *source);

/* Reads from one piece of memory, which must outlive the reader. */
void sel_json_init_text(sel_json_t *json, sel_arena_t *arena, sel_str_t text);


/* The type of the next value; does not consume it. */
sel_json_type_t sel_json_peek(sel_json_t *json);

/*
 * Scalars.  Each consumes one value or fails.  Integers refuse fractions,
 * exponents, numeric strings and values out of range, as DATA.
 * sel_json_hash() takes -2^63 .. 2^64-1 and returns the 64-bit pattern.
 * sel_json_f32() rounds once, from the text, and refuses what would become
 * infinite, as DATA.  Strings live in the arena, are valid UTF-8 and may hold
 * NUL characters.
 */
bool sel_json_null(sel_json_t *json);
bool sel_json_bool(sel_json_t *json, bool *value);
bool sel_json_u32(sel_json_t *json, uint32_t *value);
bool sel_json_u64(sel_json_t *json, uint64_t *value);
bool sel_json_i64(sel_json_t *json, int64_t *value);
bool sel_json_hash(sel_json_t *json, uint64_t *value);
bool sel_json_f32(sel_json_t *json, float *value);
bool sel_json_f64(sel_json_t *json, double *value);
bool sel_json_string(sel_json_t *json, sel_str_t *value);

/* Whole arrays into arena memory; the hot path of token ids and hashes. */
bool sel_json_u32_list(sel_json_t *json, sel_u32_list_t *list);
bool sel_json_u64_list(sel_json_t *json, sel_u64_list_t *list);
bool sel_json_hash_list(sel_json_t *json, sel_u64_list_t *list);
bool sel_json_string_list(sel_json_t *json, sel_str_list_t *list);

/* Consumes any value, checking its syntax. */
bool sel_json_skip(sel_json_t *json);

/*
 * Containers.  After _begin, _next moves to the next element: 1 there is
 * one, 0 the container is closed, -1 failed.  The key is in arena memory.
 *
 *     if (!sel_json_object_begin(json)) return false;
 *     while ((rc = sel_json_object_next(json, &key)) == 1) { ... }
 */
bool sel_json_object_begin(sel_json_t *json);
int sel_json_object_next(sel_json_t *json, sel_str_t *key);
bool sel_json_array_begin(sel_json_t *json);
int sel_json_array_next(sel_json_t *json);

/* True when only white space is left; else SYNTAX, "trailing characters". */
bool sel_json_end(sel_json_t *json);

/*
 * Fails with DATA and a reason of the caller's (printf format), decorated
 * with path, line and column.  Always returns false.
 */
bool sel_json_fail(sel_json_t *json, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Fails with DATA: "invalid type: <what comes next>, expected <expected>".
 * Consumes the value (a syntax fault inside it wins).
 */
bool sel_json_mismatch(sel_json_t *json, const char *expected);

/*
 * Puts a name on the path for the time of a nested read; a name without data
 * is an array index, its len:
 *
 *     here = (sel_json_path_t) { json->path, key };
 *     json->path = &here;
 *     ... read ...
 *     json->path = here.up;
 */
struct sel_json_path_s {
    sel_json_path_t  *up;
    sel_str_t         name;
};


/*
 * Struct reading.  One table a JSON object, a row a member: unknown members
 * are skipped, a repeated one is "duplicate field `x`", a missing required
 * one "missing field `x`", null is absence unless NOT_NULL is set.
 */
typedef enum {
    SEL_JSON_M_BOOL,            /* bool */
    SEL_JSON_M_U32,             /* uint32_t */
    SEL_JSON_M_U64,             /* uint64_t */
    SEL_JSON_M_F32,             /* float */
    SEL_JSON_M_F64,             /* double */
    SEL_JSON_M_STRING,          /* sel_str_t */
    SEL_JSON_M_U32_LIST,        /* sel_u32_list_t */
    SEL_JSON_M_U64_LIST,        /* sel_u64_list_t */
    SEL_JSON_M_HASH_LIST,       /* sel_u64_list_t, signed or unsigned */
    SEL_JSON_M_STRING_LIST,     /* sel_str_list_t */
    SEL_JSON_M_ENUM,            /* uint32_t: index into names, NULL-ended */
    SEL_JSON_M_OBJECT,          /* nested struct by value, .object */
    SEL_JSON_M_CALL             /* .call reads the value into the field */
} sel_json_kind_t;


#define SEL_JSON_REQUIRED  0x1
#define SEL_JSON_NOT_NULL  0x2      /* null is a type mismatch */


typedef struct sel_json_struct_s  sel_json_struct_t;

typedef struct {
    const char                *name;
    sel_json_kind_t            kind;
    unsigned                   flags;
    size_t                     offset;      /* of the field in the struct */
    const char *const         *names;       /* ENUM */
    const sel_json_struct_t   *object;      /* OBJECT */
    bool                     (*call)(sel_json_t *json, void *field);
} sel_json_member_t;


struct sel_json_struct_s {
    const char                *expected;    /* "struct SelectRequest" */
    const sel_json_member_t   *members;
    uint32_t                   n;           /* <= 64 */
    size_t                     given;       /* offset of a uint64_t: bit i is
                                               set when member i was given
                                               and was not null */
    bool                     (*check)(sel_json_t *json, void *record);
                                            /* after the last member, or
                                               NULL; fails by sel_json_fail */
};


/*
 * Reads one object into *record, which the caller has filled with defaults
 * (fields of absent members stay untouched).
 */
bool sel_json_read_struct(sel_json_t *json, const sel_json_struct_t *type,
    void *record);


#endif /* SEL_JSON_READ_H */
