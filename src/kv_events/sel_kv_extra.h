/*
 * What an event says about its blocks beside their tokens: cache namespace
 * and multimodal objects.
 */

#ifndef SEL_KV_EXTRA_H
#define SEL_KV_EXTRA_H

#include "kv_events/sel_kv_fields.h"


/*
 * Array position 7: the LoRA name, or the metadata map that gives the cache
 * namespace.
 */
bool sel_kv_read_lora_or_metadata(sel_kv_reader_t *r, sel_kv_event_t *event);

/*
 * Reads the two values that were set aside (extra_keys, block_mm_infos),
 * when the event's hashes, LoRA name and own namespace are known.  False as
 * in sel_kv_fields.h.
 */
bool sel_kv_read_extra(sel_kv_reader_t *r, sel_kv_event_t *event);


#endif /* SEL_KV_EXTRA_H */
