/*
 * What can happen to KV events, each counted.  The one list behind the
 * counters, the status page and its documentation.
 *
 * SEL_KV_COUNTS(row): row(NAME, kind label, help)
 */

#ifndef SEL_KV_COUNTS_H
#define SEL_KV_COUNTS_H

#include "core/sel_base.h"


/* events that did their work */
#define SEL_KV_APPLIED(row)                                                   \
    row(STORED, "stored", "blocks of a stored event entered the index")       \
    row(REMOVED, "removed", "a removed event was applied")                    \
    row(CLEARED, "cleared", "all blocks of a rank were cleared")              \
    row(IGNORED, "ignored", "an event of the kind Ignored")

/* events that were refused, alone */
#define SEL_KV_REFUSED(row)                                                   \
    row(MALFORMED, "malformed", "a member is missing or of a wrong type")     \
    row(UNKNOWN_TAG, "unknown_tag", "the event's type is not known")          \
    row(OWNERSHIP, "ownership", "the block is not owned by the engine")       \
    row(LOCALITY, "locality", "the block is not local")                       \
    row(MEDIUM, "medium", "the storage medium is not known")                  \
    row(CONFLICT, "conflict", "the tier has another hash in this place")      \
    row(GROUP, "group", "a cache group other than full attention")            \
    row(AMBIGUOUS, "ambiguous_namespace",                                     \
        "the parent block was seen under two cache salts")                    \
    row(REPEATED, "repeated_hash", "a block hash occurs twice in the event")  \
    row(BLOCK_SIZE, "block_size", "the block size is not the worker's")       \
    row(TOKENS, "tokens", "fewer tokens than the blocks need")                \
    row(PARENT, "unknown_parent", "the parent block is not held by the rank") \
    row(UNKNOWN_BLOCK, "unknown_block", "a removed block was not held")       \
    row(FULL, "index_full", "the index has no room")                          \
    row(RANK, "rank", "the rank cannot be indexed")                           \
    row(MEMORY, "memory", "memory or a limit of the stream is exhausted")

/* whole messages */
#define SEL_KV_MESSAGES(row)                                                  \
    row(FRAMES, "frames", "not three frames with an 8-byte sequence")         \
    row(BATCH, "batch", "the payload is not a batch of events")               \
    row(OLD, "old", "the sequence number was seen already")                   \
    row(GAP, "gap", "sequence numbers are missing before the message")        \
    row(MISSED, "missed", "messages that a gap left out")                     \
    row(BATCHES, "batches", "batches whose events were read")


#define SEL_KV_ROW(name, label, help)  SEL_KV_##name,
typedef enum {
    SEL_KV_APPLIED(SEL_KV_ROW)
    SEL_KV_REFUSED(SEL_KV_ROW)
    SEL_KV_MESSAGES(SEL_KV_ROW)
    SEL_KV_COUNTS
} sel_kv_count_t;
#undef SEL_KV_ROW


#endif /* SEL_KV_COUNTS_H */
