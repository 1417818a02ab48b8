/*
 * Making, measuring, settling and freeing an index.
 */

#include <stdlib.h>

#include "core/sel_random.h"
#include "index/sel_index_impl.h"


#define SEL_INDEX_ROOM  65536       /* bytes below which a limit is useless */


sel_index_t *
sel_index_create(size_t max_bytes, uint64_t seed)
{
    sel_index_t   *index;
    sel_random_t   random;

    if (max_bytes != 0 && max_bytes < sizeof(sel_index_t) + SEL_INDEX_ROOM) {
        return NULL;
    }

    if (sel_memory_hook != NULL && !sel_memory_hook(sizeof(sel_index_t))) {
        return NULL;
    }

    index = calloc(1, sizeof(sel_index_t));

    if (index == NULL) {
        return NULL;
    }

    sel_random_seed_with(&random, seed);

    index->mix.flip[0] = sel_random_u64(&random);
    index->mix.flip[1] = sel_random_u64(&random);
    index->mix.times[0] = sel_random_u64(&random) | 1;
    index->mix.times[1] = sel_random_u64(&random) | 1;

    index->memory.used = sizeof(sel_index_t);
    index->memory.max = max_bytes == 0 ? SIZE_MAX : max_bytes;

    sel_table_init(&index->paths, SEL_TABLE_WIDE);
    sel_table_init(&index->extras, SEL_TABLE_NARROW);
    sel_pool_init(&index->nodes, sizeof(sel_node_t));
    sel_pool_init(&index->names, sizeof(sel_name_t));
    sel_owner_sets_init(&index->sets, &index->memory, &index->mix);

    index->oldest = SEL_INDEX_NO_HOLDER;

    /* SEL_INDEX_NO_OWNER is never given out */
    index->owners_used[SEL_SET_WORDS - 1] = (uint64_t) 1 << 63;

    return index;
}


void
sel_index_destroy(sel_index_t *index)
{
    uint32_t       i;
    sel_memory_t  *memory;

    if (index == NULL) {
        return;
    }

    memory = &index->memory;

    for (i = 0; i < index->holders_n; i++) {
        if (index->holders_used[i / 64] >> (i % 64) & 1) {
            sel_table_reset(&index->holders[i].externals, memory);
        }
    }

    sel_owner_sets_free(&index->sets);
    sel_pool_reset(&index->nodes, memory);
    sel_pool_reset(&index->names, memory);
    sel_table_reset(&index->paths, memory);
    sel_table_reset(&index->extras, memory);

    sel_memory_free(memory, index->owners,
                    index->owners_n * sizeof(sel_owner_t));
    sel_memory_free(memory, index->buckets,
                    index->buckets_n * sizeof(uint16_t));
    sel_memory_free(memory, index->holders,
                    index->holders_n * sizeof(sel_holder_t));
    sel_memory_free(memory, index->walkers,
                    index->walkers_n * sizeof(sel_walker_t));
    sel_memory_free(memory, index->groups,
                    index->walkers_n * sizeof(sel_walk_group_t));

    free(index);
}


bool
sel_index_settle(sel_index_t *index, uint32_t budget)
{
    bool  done;

    done = sel_table_settle(&index->paths, &index->memory, budget);
    done &= sel_table_settle(&index->extras, &index->memory, budget);
    done &= sel_owner_sets_settle(&index->sets, budget);

    sel_pool_settle(&index->nodes, &index->memory);
    sel_pool_settle(&index->names, &index->memory);

    return done;
}


void
sel_index_stats(const sel_index_t *index, sel_index_stats_t *stats)
{
    memcpy(stats->blocks, index->blocks, sizeof(stats->blocks));

    stats->nodes = index->nodes.used;
    stats->owners = index->live_n + index->retired_n;
    stats->retired = index->retired_n;
    stats->bytes = index->memory.used;
}
