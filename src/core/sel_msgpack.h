/*
 * A bounded cursor over msgpack bytes.  Every read checks the end; lengths
 * from the wire are never believed beyond the bytes that are left: an array
 * or map whose count exceeds the remaining bytes (one a value at least) is
 * an error before anything is walked.
 */

#ifndef SEL_MSGPACK_H
#define SEL_MSGPACK_H

#include "core/sel_base.h"


#define SEL_MSGPACK_MAX_DEPTH  16


typedef struct {
    const uint8_t  *pos;
    const uint8_t  *end;
} sel_msgpack_t;


typedef enum {
    SEL_MSGPACK_NIL,
    SEL_MSGPACK_BOOL,           /* .u: 0 or 1 */
    SEL_MSGPACK_UINT,           /* .u; also non-negative signed integers */
    SEL_MSGPACK_INT,            /* .i, negative */
    SEL_MSGPACK_FLOAT,          /* .f, from float 32 or 64 */
    SEL_MSGPACK_STR,            /* .str, a view of the input; not checked to
                                   be UTF-8 */
    SEL_MSGPACK_BIN,            /* .str */
    SEL_MSGPACK_ARRAY,          /* .n elements follow */
    SEL_MSGPACK_MAP,            /* .n pairs follow */
    SEL_MSGPACK_EXT             /* .str, the payload; .ext its type */
} sel_msgpack_type_t;


typedef struct {
    sel_msgpack_type_t  type;
    int8_t              ext;
    uint32_t            n;
    union {
        uint64_t        u;
        int64_t         i;
        double          f;
    };
    sel_str_t           str;
} sel_msgpack_token_t;


static inline sel_msgpack_t
sel_msgpack(const void *data, size_t len)
{
    return (sel_msgpack_t) { (const uint8_t *) data,
                             (const uint8_t *) data + len };
}


/*
 * Reads one token (for containers only the header).  False at the end of the
 * input, on a truncated or impossible value; the cursor is then unusable.
 */
bool sel_msgpack_next(sel_msgpack_t *mp, sel_msgpack_token_t *token);

/* Skips one whole value of at most SEL_MSGPACK_MAX_DEPTH nested containers. */
bool sel_msgpack_skip(sel_msgpack_t *mp);

/*
 * Reads an array of n unsigned integers up to 2^32-1 (n from an ARRAY token)
 * into out.  False when one is missing or of another type or too large.
 */
bool sel_msgpack_u32_array(sel_msgpack_t *mp, uint32_t n, uint32_t *out);


#endif /* SEL_MSGPACK_H */
