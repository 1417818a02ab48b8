/*
 * Multimodal hashes of a stored event's blocks.
 */

#ifndef SEL_KV_MM_H
#define SEL_KV_MM_H

#include "kv_events/sel_kv_fields.h"


/* the hashes of one block; begins zeroed, lives in the arena */
typedef struct {
    uint32_t   n;
    uint32_t   cap;
    uint64_t  *hashes;
} sel_kv_mm_list_t;


/* Reads block_mm_infos into an event whose hashes are known. */
bool sel_kv_read_mm_infos(sel_kv_reader_t *r, sel_kv_event_t *event);

bool sel_kv_mm_add(sel_kv_reader_t *r, sel_kv_mm_list_t *list, uint64_t hash);

/* Gives the list to block i; one that the event does not have is dropped. */
bool sel_kv_mm_keep(sel_kv_reader_t *r, sel_kv_event_t *event, uint32_t i,
    const sel_kv_mm_list_t *list);


#endif /* SEL_KV_MM_H */
