#include "core/sel_clock.h"
#include "service/sel_diagnostics.h"
#include "service/sel_watch.h"


static void sel_diagnostics_rank(const sel_service_t *service,
    const sel_view_rank_t *rank, sel_json_out_t *out);
static void sel_diagnostics_events(const sel_rank_stats_t *stats,
    sel_json_out_t *out);
static void sel_diagnostics_blocks(const sel_service_t *service,
    const sel_view_rank_t *rank, sel_json_out_t *out);
static void sel_diagnostics_warnings(uint32_t warnings, sel_json_out_t *out);


static const char *const  sel_diagnostics_listeners[SEL_LISTENER_STATES] = {
    "none", "pending", "active", "failed"
};


static const char *const  sel_diagnostics_tiers[SEL_TIERS] = {
    "device", "host_pinned", "disk", "external"
};


#define SEL_DIAGNOSTICS_NAME(name, label)  label,

static const char *const  sel_diagnostics_names[] = {
    SEL_WARNINGS(SEL_DIAGNOSTICS_NAME)
};


#define SEL_DIAGNOSTICS_REASON(name, label, help)  { SEL_KV_##name, label },

static const struct {
    sel_kv_count_t  count;
    const char     *name;
} sel_diagnostics_reasons[] = {
    SEL_KV_REFUSED(SEL_DIAGNOSTICS_REASON)
    { SEL_KV_FRAMES, "frames" },
    { SEL_KV_BATCH, "batch" }
};


void
sel_diagnostics_print(const sel_service_t *service,
    const sel_view_worker_t *worker, sel_json_out_t *out)
{
    uint32_t  i;

    sel_json_out_array(out);

    for (i = 0; i < worker->n_ranks; i++) {
        sel_diagnostics_rank(service, worker->ranks[i], out);
    }

    sel_json_out_array_end(out);
}


static void
sel_diagnostics_rank(const sel_service_t *service, const sel_view_rank_t *rank,
    sel_json_out_t *out)
{
    uint64_t                 queries, matched;
    const sel_rank_stats_t  *stats;

    stats = &rank->stats;

    sel_json_out_object(out);
    sel_json_out_key(out, "dp_rank");
    sel_json_out_u64(out, rank->dp_rank);
    sel_json_out_key(out, "listener");
    sel_json_out_str(out,
                     sel_cstr(sel_diagnostics_listeners[stats->listener]));
    sel_json_out_key(out, "reason");

    if (stats->listener == SEL_LISTENER_FAILED) {
        sel_json_out_str(out, sel_cstr(stats->reason));

    } else {
        sel_json_out_null(out);
    }

    sel_diagnostics_events(stats, out);
    sel_diagnostics_blocks(service, rank, out);

    sel_watch_use(service, rank, &queries, &matched);

    sel_json_out_key(out, "queries");
    sel_json_out_u64(out, queries);
    sel_json_out_key(out, "matched");
    sel_json_out_u64(out, matched);

    sel_diagnostics_warnings(sel_watch_warnings(service, rank), out);
    sel_json_out_object_end(out);
}


static void
sel_diagnostics_events(const sel_rank_stats_t *stats, sel_json_out_t *out)
{
    uint32_t  i;
    uint64_t  refused;

    sel_json_out_key(out, "last_event_seconds");

    if (stats->last_message != 0) {
        sel_json_out_f64(out, (double) ((sel_clock_ns() - stats->last_message)
                                        / 1000000)
                              / 1000);
    } else {
        sel_json_out_null(out);
    }

    sel_json_out_key(out, "messages");
    sel_json_out_u64(out, stats->messages);
    sel_json_out_key(out, "events");
    sel_json_out_u64(out, stats->counts[SEL_KV_STORED]
                          + stats->counts[SEL_KV_REMOVED]
                          + stats->counts[SEL_KV_CLEARED]
                          + stats->counts[SEL_KV_IGNORED]);
    sel_json_out_key(out, "refused");
    sel_json_out_object(out);

    for (i = 0; i < sel_countof(sel_diagnostics_reasons); i++) {
        refused = stats->counts[sel_diagnostics_reasons[i].count];

        if (refused != 0) {
            sel_json_out_key(out, sel_diagnostics_reasons[i].name);
            sel_json_out_u64(out, refused);
        }
    }

    sel_json_out_object_end(out);
}


static void
sel_diagnostics_blocks(const sel_service_t *service,
    const sel_view_rank_t *rank, sel_json_out_t *out)
{
    uint32_t  i;

    sel_json_out_key(out, "blocks");
    sel_json_out_object(out);

    for (i = 0; i < SEL_TIERS; i++) {
        sel_json_out_key(out, sel_diagnostics_tiers[i]);
        sel_json_out_u64(out, rank->owner == SEL_INDEX_NO_OWNER ? 0
                              : sel_index_owner_blocks(service->index,
                                                       rank->owner, i));
    }

    sel_json_out_object_end(out);
}


static void
sel_diagnostics_warnings(uint32_t warnings, sel_json_out_t *out)
{
    uint32_t  i;

    sel_json_out_key(out, "warnings");
    sel_json_out_array(out);

    for (i = 0; i < SEL_WARNING_NAMES; i++) {
        if ((warnings >> i & 1) != 0) {
            sel_json_out_str(out, sel_cstr(sel_diagnostics_names[i]));
        }
    }

    sel_json_out_array_end(out);
}
