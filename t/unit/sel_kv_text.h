/*
 * Decoded KV events in words: a batch becomes one line an event, in an order
 * that does not depend on the encoding.  Include after cmocka.h.
 */

#ifndef SEL_KV_TEXT_H
#define SEL_KV_TEXT_H

#include <inttypes.h>
#include <stdio.h>

#include "kv_events/sel_kv_decode.h"
#include "sel_kv_sink.h"
#include "sel_pack.h"


static inline void
sel_kv_text_str(FILE *out, const char *name, sel_str_t str)
{
    if (str.len != 0) {
        fprintf(out, " %s=%.*s", name, (int) str.len,
                (const char *) str.data);
    }
}


/* Per block its hashes in ascending order; blocks without any at the end
 * are not shown. */
static inline void
sel_kv_text_mm(FILE *out, const sel_kv_event_t *event)
{
    uint32_t  i, k, n;
    uint64_t  last, next;

    for (n = event->mm_n; n != 0 && event->mm[n - 1].n == 0; n--) {
        /* void */
    }

    if (n == 0) {
        return;
    }

    fprintf(out, " mm");

    for (i = 0; i < n; i++) {
        fprintf(out, "|");
        last = 0;

        do {
            next = UINT64_MAX;

            for (k = 0; k < event->mm[i].n; k++) {

                if (event->mm[i].hashes[k] > last
                    && event->mm[i].hashes[k] < next)
                {
                    next = event->mm[i].hashes[k];
                }
            }

            if (next != UINT64_MAX) {
                fprintf(out, "%" PRIx64 ",", next);
                last = next;
            }

        } while (next != UINT64_MAX);
    }
}


static inline void
sel_kv_text_event(FILE *out, const sel_kv_event_t *event)
{
    static const char *const  kinds[] = {
        "stored", "removed", "cleared", "ignored"
    };

    uint32_t  i;

    fprintf(out, "%s", kinds[event->kind]);

    for (i = 0; i < event->hashes.n; i++) {
        fprintf(out, "%s%" PRIu64, i == 0 ? " h=" : ",",
                event->hashes.data[i]);
    }

    if (event->kind == SEL_KV_EVENT_STORED) {

        if (event->has_parent) {
            fprintf(out, " p=%" PRIu64, event->parent);
        }

        for (i = 0; i < event->tokens.n; i++) {
            fprintf(out, "%s%" PRIu32, i == 0 ? " t=" : ",",
                    event->tokens.data[i]);
        }

        fprintf(out, " b=%" PRIu64 "%s", event->block_size,
                event->eagle ? " eagle" : "");
        sel_kv_text_str(out, "lora", event->lora_name);
        sel_kv_text_str(out, "ns", event->cache_namespace);
        sel_kv_text_mm(out, event);
    }

    if (event->has_group) {
        fprintf(out, " g=%" PRIu32, event->group);
    }

    sel_kv_text_str(out, "medium", event->medium);
    sel_kv_text_str(out, "kind", event->spec_kind);
    sel_kv_text_str(out, "loc", event->locality);
    sel_kv_text_str(out, "own", event->ownership);
}


/*
 * The events of a batch, one a line, in memory from malloc(); "no batch"
 * when it does not open.
 */
static inline char *
sel_kv_text(const void *payload, size_t len)
{
    int              rc;
    char            *text;
    FILE            *out;
    size_t           size;
    uint8_t         *copy;
    sel_arena_t      arena;
    sel_kv_batch_t   batch;
    sel_kv_event_t   event;
    sel_kv_count_t   why;

    out = open_memstream(&text, &size);
    assert_non_null(out);
    copy = sel_kv_copy(payload, len);
    sel_arena_init(&arena, 0);

    if (!sel_kv_batch_open(&batch, (sel_str_t) { len, copy }, &arena)) {
        fprintf(out, "no batch");

    } else {
        if (batch.has_dp_rank) {
            fprintf(out, "rank %" PRIu32 "\n", batch.dp_rank);
        }

        while ((rc = sel_kv_batch_next(&batch, &event, &why)) != 0) {

            if (rc == 1) {
                sel_kv_text_event(out, &event);

            } else {
                assert_int_equal(rc, -1);
                fprintf(out, why == SEL_KV_MALFORMED ? "malformed"
                             : why == SEL_KV_UNKNOWN_TAG ? "unknown tag"
                             : "refused for another reason");
            }

            fprintf(out, "\n");
        }

        assert_int_equal(sel_kv_batch_next(&batch, &event, &why), 0);
    }

    sel_arena_free(&arena);
    free(copy);
    assert_int_equal(fclose(out), 0);

    return text;
}


static inline void
sel_kv_expect(const sel_pack_t *pack, const char *expected)
{
    char  *text;

    text = sel_kv_text(pack->data, pack->len);

    if (strcmp(text, expected) != 0) {
        fail_msg("decoded as\n%sexpected\n%s", text, expected);
    }

    free(text);
}


#endif /* SEL_KV_TEXT_H */
