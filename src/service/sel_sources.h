/*
 * The registered ranks of this process by their KV event endpoint: finds
 * those that share one.
 */

#ifndef SEL_SOURCES_H
#define SEL_SOURCES_H

#include "service/sel_view.h"


typedef struct {
    sel_view_rank_t  **buckets;     /* a power of two, or none */
    uint32_t           n_buckets;
    uint32_t           n;
} sel_sources_t;


/*
 * A rank comes or goes; keeps stats.shared of all ranks up to date.  Without
 * memory ranks go untold.
 */
void sel_sources_add(sel_sources_t *sources, sel_view_rank_t *rank);
void sel_sources_remove(sel_sources_t *sources, sel_view_rank_t *rank);

void sel_sources_free(sel_sources_t *sources);


#endif /* SEL_SOURCES_H */
