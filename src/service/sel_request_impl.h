/*
 * Between the files that read request bodies.
 */

#ifndef SEL_REQUEST_IMPL_H
#define SEL_REQUEST_IMPL_H

#include "service/sel_request.h"


/* name, kind, flags, offset; the rest of the row by hand */
#define SEL_ROW(type, field, kind, flags)                                     \
    #field, SEL_JSON_M_##kind, flags, offsetof(type, field)

#define SEL_PLAIN  NULL, NULL, NULL


/*
 * Members of a prompt: mm_routing_info (into a sel_prompt_body_t) and
 * block_mm_infos (into a sel_mm_list_t).
 */
bool sel_read_mm_routing(sel_json_t *json, void *field);
bool sel_read_mm_list(sel_json_t *json, void *field);

/*
 * Room for one more element in an arena array of n elements, which grows in
 * powers of two; NULL when memory is exhausted (the reader has failed then).
 */
void *sel_read_push(sel_json_t *json, void *data, uint32_t n, size_t size);


#endif /* SEL_REQUEST_IMPL_H */
