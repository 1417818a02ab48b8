/*
 * The ranks of a stream: few, mostly one, so they are a list.
 */

#include <stdlib.h>
#include "kv_events/sel_kv_ranks.h"


static bool sel_kv_group_is_full(sel_str_t kind);
static sel_kv_group_t *sel_kv_group_find(const sel_kv_rank_t *rank,
    uint32_t group);
static bool sel_kv_group_learn(sel_kv_rank_t *rank, uint32_t group,
    bool full_attention);


void
sel_kv_ranks_free(sel_kv_ranks_t *ranks)
{
    uint32_t  i;

    for (i = 0; i < ranks->n; i++) {
        free(ranks->data[i].groups);
    }

    free(ranks->data);
}


sel_kv_rank_t *
sel_kv_ranks_get(sel_kv_ranks_t *ranks, uint32_t dp_rank)
{
    uint32_t        i;
    sel_kv_rank_t  *data;

    if (ranks->n != 0 && ranks->data[ranks->last].dp_rank == dp_rank) {
        return &ranks->data[ranks->last];
    }

    for (i = 0; i < ranks->n; i++) {
        if (ranks->data[i].dp_rank == dp_rank) {
            ranks->last = i;
            return &ranks->data[i];
        }
    }

    if (i == SEL_KV_MAX_RANKS) {
        return NULL;
    }

    data = realloc(ranks->data, (i + 1) * sizeof(sel_kv_rank_t));

    if (data == NULL) {
        return NULL;
    }

    /* the salt memory tells the rank by the remainder of its life */

    data[i] = (sel_kv_rank_t) {
        .dp_rank = dp_rank, .life = SEL_KV_MAX_RANKS + i
    };

    ranks->data = data;
    ranks->last = i;
    ranks->n++;

    return &data[i];
}


sel_kv_group_result_t
sel_kv_group(sel_kv_rank_t *rank, const sel_kv_event_t *event)
{
    bool             full_attention;
    sel_kv_group_t  *known;

    if (event->spec_kind.data != NULL) {
        full_attention = sel_kv_group_is_full(event->spec_kind);

        if (event->kind == SEL_KV_EVENT_STORED && event->has_group
            && !sel_kv_group_learn(rank, event->group, full_attention))
        {
            return SEL_KV_GROUP_NO_MEMORY;
        }

    } else if (event->has_group) {
        known = sel_kv_group_find(rank, event->group);
        full_attention = known != NULL ? known->full_attention
                                       : event->group == 0;
    } else {
        full_attention = true;
    }

    return full_attention ? SEL_KV_GROUP_KEPT : SEL_KV_GROUP_OTHER;
}


static bool
sel_kv_group_is_full(sel_str_t kind)
{
    return sel_str_eq(kind, sel_str("full_attention"))
           || sel_str_eq(kind, sel_str("mla_attention"))
           || sel_str_eq(kind, sel_str("sink_full_attention"));
}


static sel_kv_group_t *
sel_kv_group_find(const sel_kv_rank_t *rank, uint32_t group)
{
    uint32_t  i;

    for (i = 0; i < rank->groups_n; i++) {
        if (rank->groups[i].group == group) {
            return &rank->groups[i];
        }
    }

    return NULL;
}


static bool
sel_kv_group_learn(sel_kv_rank_t *rank, uint32_t group, bool full_attention)
{
    uint32_t         n;
    sel_kv_group_t  *known, *groups;

    known = sel_kv_group_find(rank, group);

    if (known != NULL) {
        known->full_attention = full_attention;
        return true;
    }

    n = rank->groups_n;

    if (n == SEL_KV_MAX_GROUPS) {
        return false;
    }

    groups = realloc(rank->groups, (n + 1) * sizeof(sel_kv_group_t));

    if (groups == NULL) {
        return false;
    }

    groups[n].group = group;
    groups[n].full_attention = full_attention;

    rank->groups = groups;
    rank->groups_n = n + 1;

    return true;
}
