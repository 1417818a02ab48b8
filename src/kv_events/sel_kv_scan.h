/*
 * Skipping over msgpack values at the speed that token lists need: every
 * token of every batch passes here once before anything is read.
 */

#ifndef SEL_KV_SCAN_H
#define SEL_KV_SCAN_H

#include "core/sel_msgpack.h"


/*
 * Skips one value of at most depth nested containers, depth being at most
 * SEL_MSGPACK_MAX_DEPTH.  False when there is no such well-formed value; the
 * cursor is then of no use.
 */
bool sel_kv_scan(sel_msgpack_t *mp, uint32_t depth);


#endif /* SEL_KV_SCAN_H */
