/*
 * What the lists of the JSON reader share with their fast path.
 */

#ifndef SEL_JSON_LIST_IMPL_H
#define SEL_JSON_LIST_IMPL_H

#include "core/sel_json_impl.h"


_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the first digit is the lowest byte of a word");


/* one byte value in all eight bytes of a word */
#define SEL_JSON_ALL(byte)  (UINT64_C(0x0101010101010101) * (byte))

/* for what is compiled once for each value of an argument */
#define sel_json_inline     static inline __attribute__((always_inline))


typedef enum {
    SEL_JSON_LIST_U32,
    SEL_JSON_LIST_U64,
    SEL_JSON_LIST_HASH,
    SEL_JSON_LIST_STRING
} sel_json_list_kind_t;


/* A list while it is read. */
typedef struct {
    sel_json_list_kind_t   kind;
    bool                   windows; /* are worth a try, see there */
    size_t                 size;    /* of an element */
    uint32_t               n;
    uint32_t               cap;
    void                  *data;
} sel_json_list_t;


/*
 * Takes elements, of which the first begins at the next byte, while they are
 * numbers that are right, lie in the segment and find room in the list.
 * Leaves the stream behind the last one taken and returns how many they were;
 * 0, and nothing has moved, when the first one needs the ordinary reader.
 */
uint32_t sel_json_run(sel_json_t *json, sel_json_list_t *list);

/* The same by windows, for U32 alone; 0 also when that is not worth a try. */
uint32_t sel_json_run_windows(sel_json_t *json, sel_json_list_t *list);


/*
 * The number that eight digits make, bytes of 0 to 9 of which the first is the
 * lowest: neighbours are joined to pairs, pairs to fours, fours to the number.
 */
sel_json_inline uint64_t
sel_json_join(uint64_t word)
{
    word = (word * 10 + (word >> 8)) & 0x00ff00ff00ff00ff;
    word = (word * 100 + (word >> 16)) & 0x0000ffff0000ffff;

    return (word * 10000 + (word >> 32)) & 0xffffffff;
}


#endif /* SEL_JSON_LIST_IMPL_H */
