/*
 * What an event means for the index: which events count at all, in which
 * tier, and the changes that removals and clearings are.
 *
 * The filters let pass only what is known to be a reusable block of the
 * engine in this place; whatever names something else is refused, so that
 * nobody is credited with a block that cannot be used.
 */

#include "kv_events/sel_kv_fields.h"
#include "kv_events/sel_kv_run.h"


typedef struct {
    sel_str_t   name;
    sel_tier_t  tier;
} sel_kv_medium_t;


static bool sel_kv_run_is_ours(sel_kv_run_t *run, const sel_kv_event_t *event);
static bool sel_kv_run_tier(sel_str_t medium, sel_tier_t *tier);
static bool sel_kv_run_same_name(sel_str_t a, sel_str_t b);
static bool sel_kv_run_group(sel_kv_run_t *run, const sel_kv_event_t *event);
static void sel_kv_run_clear(sel_kv_run_t *run);
static void sel_kv_run_remove(sel_kv_run_t *run, const sel_kv_event_t *event,
    sel_tier_t tier);


static const sel_kv_medium_t  sel_kv_media[] = {
    { SEL_KV_NAME("GPU"), SEL_TIER_DEVICE },
    { SEL_KV_NAME("DEVICE"), SEL_TIER_DEVICE },
    { SEL_KV_NAME("CPU"), SEL_TIER_HOST_PINNED },
    { SEL_KV_NAME("CPU_PINNED"), SEL_TIER_HOST_PINNED },
    { SEL_KV_NAME("CPU_TIER1"), SEL_TIER_HOST_PINNED },
    { SEL_KV_NAME("CPU_TIER2"), SEL_TIER_DISK },
    { SEL_KV_NAME("DISK"), SEL_TIER_DISK },
    { SEL_KV_NAME("NVME"), SEL_TIER_DISK },
    { SEL_KV_NAME("STORAGE"), SEL_TIER_DISK },
    { SEL_KV_NAME("EXTERNAL"), SEL_TIER_EXTERNAL },
    { SEL_KV_NAME("NETWORK"), SEL_TIER_EXTERNAL },
    { SEL_KV_NAME("REMOTE"), SEL_TIER_EXTERNAL },
    { SEL_KV_NAME("SHARED"), SEL_TIER_EXTERNAL },
};


void
sel_kv_run_event(sel_kv_run_t *run, const sel_kv_event_t *event)
{
    sel_tier_t  tier;

    if (event->kind == SEL_KV_EVENT_IGNORED) {
        run->counts[SEL_KV_IGNORED]++;
        return;
    }

    if (!sel_kv_run_is_ours(run, event)) {
        return;
    }

    if (event->kind == SEL_KV_EVENT_CLEARED) {
        sel_kv_run_clear(run);
        return;
    }

    if (!sel_kv_run_tier(event->medium, &tier)) {
        run->counts[SEL_KV_MEDIUM]++;
        return;
    }

    /* what lies on disk or elsewhere is named without group and salt */

    if (tier <= SEL_TIER_HOST_PINNED && !sel_kv_run_group(run, event)) {
        return;
    }

    if (event->kind == SEL_KV_EVENT_STORED) {
        sel_kv_run_store(run, event, tier);

    } else {
        sel_kv_run_remove(run, event, tier);
    }
}


/* Blocks that the engine does not own, or that are not here, are not ours. */
static bool
sel_kv_run_is_ours(sel_kv_run_t *run, const sel_kv_event_t *event)
{
    if (run->rank == NULL) {
        run->counts[SEL_KV_RANK]++;
        return false;
    }

    if (event->ownership.data != NULL) {
        run->counts[SEL_KV_OWNERSHIP]++;
        return false;
    }

    if (event->locality.data != NULL
        && !sel_str_eq(event->locality, sel_str("LOCAL")))
    {
        run->counts[SEL_KV_LOCALITY]++;
        return false;
    }

    return true;
}


static bool
sel_kv_run_tier(sel_str_t medium, sel_tier_t *tier)
{
    uint32_t  i;

    if (medium.len == 0) {
        *tier = SEL_TIER_DEVICE;
        return true;
    }

    for (i = 0; i < sel_countof(sel_kv_media); i++) {
        if (sel_kv_run_same_name(medium, sel_kv_media[i].name)) {
            *tier = sel_kv_media[i].tier;
            return true;
        }
    }

    return false;
}


/* b is in upper case */
static bool
sel_kv_run_same_name(sel_str_t a, sel_str_t b)
{
    size_t   i;
    uint8_t  c;

    if (a.len != b.len) {
        return false;
    }

    for (i = 0; i < a.len; i++) {
        c = a.data[i];
        c = c >= 'a' && c <= 'z' ? (uint8_t) (c & ~0x20) : c;

        if (c != b.data[i]) {
            return false;
        }
    }

    return true;
}


static bool
sel_kv_run_group(sel_kv_run_t *run, const sel_kv_event_t *event)
{
    switch (sel_kv_group(run->rank, event)) {

    case SEL_KV_GROUP_KEPT:
        return true;

    case SEL_KV_GROUP_OTHER:
        run->counts[SEL_KV_GROUP]++;
        return false;

    default:
        run->counts[SEL_KV_MEMORY]++;
        return false;
    }
}


static void
sel_kv_run_clear(sel_kv_run_t *run)
{
    sel_index_change_t  change;

    sel_kv_salts_clear(&run->feed->salts, run->rank);

    change = (sel_index_change_t) {
        .kind = SEL_INDEX_CLEARED,
        .owner = SEL_INDEX_NO_OWNER
    };

    sel_kv_run_apply(run, &change);
}


static void
sel_kv_run_remove(sel_kv_run_t *run, const sel_kv_event_t *event,
    sel_tier_t tier)
{
    sel_index_change_t  change;

    if (tier <= SEL_TIER_HOST_PINNED) {
        sel_kv_salts_remove(&run->feed->salts, run->rank, tier,
                            event->hashes.data, event->hashes.n);
    }

    change = (sel_index_change_t) {
        .kind = SEL_INDEX_REMOVED,
        .tier = tier,
        .owner = SEL_INDEX_NO_OWNER,
        .n = event->hashes.n,
        .external = event->hashes.data
    };

    sel_kv_run_apply(run, &change);
}


void
sel_kv_run_apply(sel_kv_run_t *run, sel_index_change_t *change)
{
    static const sel_kv_count_t  done[] = {
        [SEL_INDEX_STORED] = SEL_KV_STORED,
        [SEL_INDEX_REMOVED] = SEL_KV_REMOVED,
        [SEL_INDEX_CLEARED] = SEL_KV_CLEARED
    };

    switch (run->sink->apply(run->sink->data, run->rank->dp_rank, change)) {

    case SEL_INDEX_OK:
        run->counts[done[change->kind]]++;
        break;

    case SEL_INDEX_UNKNOWN_PARENT:
        run->counts[SEL_KV_PARENT]++;
        break;

    case SEL_INDEX_UNKNOWN_BLOCK:
        run->counts[SEL_KV_UNKNOWN_BLOCK]++;
        run->counts[SEL_KV_REMOVED]++;
        break;

    case SEL_INDEX_FULL:
        run->counts[SEL_KV_FULL]++;
        break;

    case SEL_INDEX_NO_SUCH_OWNER:
        run->counts[SEL_KV_RANK]++;
        break;

    case SEL_INDEX_CONFLICT:
        run->counts[SEL_KV_CONFLICT]++;
        break;
    }
}
