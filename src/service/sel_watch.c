/*
 * The bits of a slot's warnings: one for each kind of count that is told,
 * and the conditions behind them.
 */

#include "service/sel_lookup.h"
#include "service/sel_watch.h"


#define SEL_WATCH_BIT(name, label, help)  | (1u << SEL_KV_##name)

/* an event that did not do its work; not what is quite usual */
#define SEL_WATCH_REFUSED                                                     \
    ((0 SEL_KV_REFUSED(SEL_WATCH_BIT)                                         \
      | (1u << SEL_KV_FRAMES) | (1u << SEL_KV_BATCH))                         \
     & ~(1u << SEL_KV_GROUP) & ~(1u << SEL_KV_UNKNOWN_BLOCK))

#define SEL_WATCH_TOLD     (SEL_WATCH_REFUSED | (1u << SEL_KV_GAP))

#define SEL_WATCH_SILENT   (1u << SEL_KV_COUNTS)
#define SEL_WATCH_SHARED   (1u << (SEL_KV_COUNTS + 1))
#define SEL_WATCH_NEVER    (1u << (SEL_KV_COUNTS + 2))

/* no warning: a look-up has found a block of the rank, in some process */
#define SEL_WATCH_MATCHED  (1u << (SEL_KV_COUNTS + 3))

_Static_assert(SEL_KV_COUNTS + 4 <= 32, "bits of a slot's warnings");

_Static_assert(SEL_COUNT_WARN_NEVER_MATCHED - SEL_COUNT_WARN_SILENT
               == SEL_WARNING_NEVER_MATCHED, "a counter for each warning");


static void sel_watch_look_matched(sel_service_t *service,
    sel_view_rank_t *rank, uint64_t queries, uint64_t matched);
static void sel_watch_begin(sel_service_t *service, sel_view_rank_t *rank,
    uint32_t bit);
static void sel_watch_end(sel_service_t *service, sel_view_rank_t *rank,
    uint32_t bit);
static void sel_watch_warn(sel_service_t *service, sel_view_rank_t *rank,
    uint32_t bits);
static uint32_t sel_watch_causes(uint32_t bits);
static const char *sel_watch_text(uint32_t bit);
static sel_rank_slot_t sel_watch_slot(const sel_view_rank_t *rank);


#define SEL_WATCH_HELP(name, label, help)  help,

static const char *const  sel_watch_helps[] = {
    SEL_KV_APPLIED(SEL_WATCH_HELP)
    SEL_KV_REFUSED(SEL_WATCH_HELP)
    SEL_KV_MESSAGES(SEL_WATCH_HELP)
};


void
sel_watch_message(sel_service_t *service, sel_view_rank_t *rank, uint64_t now,
    const uint64_t *counts)
{
    uint32_t           i, bits;
    sel_rank_stats_t  *stats;

    stats = &rank->stats;
    stats->messages++;
    stats->last_message = now;
    bits = 0;

    for (i = 0; i < SEL_KV_COUNTS; i++) {
        stats->counts[i] += counts[i];
        bits |= (uint32_t) (counts[i] != 0) << i;
    }

    bits &= SEL_WATCH_TOLD & ~stats->told;

    if (bits != 0) {
        sel_watch_warn(service, rank, bits);
    }
}


/*
 * A process tells of what it has noticed once, until it ends.  What ends a
 * warning is seen, too, in whatever process: a message, a match, nobody else
 * with the endpoint.  Not to notice it is no end of it.
 */

void
sel_watch_look(sel_service_t *service, sel_view_rank_t *rank, uint64_t now)
{
    uint64_t                 silence, queries, matched;
    const sel_rank_stats_t  *stats;

    stats = &rank->stats;
    silence = service->settings.silence;
    sel_watch_use(service, rank, &queries, &matched);

    if (silence != 0 && stats->listener == SEL_LISTENER_ACTIVE
        && now - sel_max(stats->last_message, stats->active) >= silence)
    {
        sel_watch_begin(service, rank, SEL_WATCH_SILENT);

    } else if (stats->last_message != 0
               && (silence == 0 || now - stats->last_message < silence))
    {
        sel_watch_end(service, rank, SEL_WATCH_SILENT);
    }

    if (stats->shared) {
        sel_watch_begin(service, rank, SEL_WATCH_SHARED);

    } else {
        sel_watch_end(service, rank, SEL_WATCH_SHARED);
    }

    sel_watch_look_matched(service, rank, queries, matched);
}


static void
sel_watch_look_matched(sel_service_t *service, sel_view_rank_t *rank,
    uint64_t queries, uint64_t matched)
{
    sel_rank_slot_t  slot;

    slot = sel_watch_slot(rank);

    if (matched != 0) {
        (void) sel_slot_warn(service->zone, &slot, SEL_WATCH_MATCHED);
        sel_watch_end(service, rank, SEL_WATCH_NEVER);

    } else if (queries >= SEL_WATCH_QUERIES
               && (sel_slot_warnings(service->zone, &slot)
                   & SEL_WATCH_MATCHED)
                  == 0)
    {
        sel_watch_begin(service, rank, SEL_WATCH_NEVER);
    }
}


static void
sel_watch_begin(sel_service_t *service, sel_view_rank_t *rank, uint32_t bit)
{
    if ((rank->stats.told & bit) == 0) {
        sel_watch_warn(service, rank, bit);
    }
}


static void
sel_watch_end(sel_service_t *service, sel_view_rank_t *rank, uint32_t bit)
{
    sel_rank_slot_t  slot;

    slot = sel_watch_slot(rank);
    sel_slot_calm(service->zone, &slot, bit);
    rank->stats.told &= ~bit;
}


static void
sel_watch_warn(sel_service_t *service, sel_view_rank_t *rank, uint32_t bits)
{
    uint32_t         i, before, causes;
    sel_rank_slot_t  slot;

    slot = sel_watch_slot(rank);
    before = sel_slot_warn(service->zone, &slot, bits);

    rank->stats.told |= bits;
    bits &= ~before;
    causes = sel_watch_causes(before | bits) & ~sel_watch_causes(before);

    for (i = 0; i < SEL_WARNING_NAMES; i++) {
        if ((causes >> i & 1) != 0) {
            sel_count(service->zone, SEL_COUNT_WARN_SILENT + i, 1);
        }
    }

    for ( /* void */ ; bits != 0; bits &= bits - 1) {
        service->warned(service->data, rank, sel_watch_text(bits & -bits));
    }
}


uint32_t
sel_watch_warnings(const sel_service_t *service, const sel_view_rank_t *rank)
{
    sel_rank_slot_t  slot;

    slot = sel_watch_slot(rank);

    return sel_watch_causes(sel_slot_warnings(service->zone, &slot));
}


void
sel_watch_stored(const sel_service_t *service, sel_view_rank_t *rank)
{
    rank->stats.stored = true;
    rank->stats.queries = rank->worker->home->queries;
    rank->stats.matched = sel_lookup_matched(service, rank);
}


void
sel_watch_use(const sel_service_t *service, const sel_view_rank_t *rank,
    uint64_t *queries, uint64_t *matched)
{
    const sel_rank_stats_t  *stats;

    stats = &rank->stats;
    *queries = 0;
    *matched = 0;

    if (stats->stored) {
        *queries = rank->worker->home->queries - stats->queries;
        *matched = sel_lookup_matched(service, rank) - stats->matched;
    }
}


/* Names for the bits that are on. */

static uint32_t
sel_watch_causes(uint32_t bits)
{
    return (uint32_t) ((bits & SEL_WATCH_SILENT) != 0) << SEL_WARNING_SILENT
           | (bits >> SEL_KV_BLOCK_SIZE & 1) << SEL_WARNING_BLOCK_SIZE
           | (uint32_t) ((bits & SEL_WATCH_SHARED) != 0)
             << SEL_WARNING_SHARED_ENDPOINT
           | (uint32_t) ((bits & SEL_WATCH_REFUSED) != 0)
             << SEL_WARNING_REFUSED
           | (uint32_t) ((bits & SEL_WATCH_NEVER) != 0)
             << SEL_WARNING_NEVER_MATCHED;
}


static const char *
sel_watch_text(uint32_t bit)
{
    switch (bit) {

    case SEL_WATCH_SILENT:
        return "no message for a long time";

    case SEL_WATCH_SHARED:
        return "another rank has the same endpoint";

    case SEL_WATCH_NEVER:
        return "no look-up ever found one of its blocks";

    default:
        return sel_watch_helps[__builtin_ctz(bit)];
    }
}


static sel_rank_slot_t
sel_watch_slot(const sel_view_rank_t *rank)
{
    return (sel_rank_slot_t) {
        .dp_rank = rank->dp_rank, .epoch = rank->epoch, .feed = rank->feed,
        .slot = rank->slot
    };
}
