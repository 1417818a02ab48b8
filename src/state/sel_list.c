/*
 * Lists of records, from the oldest to the newest.
 */

#include "state/sel_zone_impl.h"


static uint32_t *sel_list_newer(const sel_zone_t *zone, sel_list_t *list,
    const sel_links_t *links, uint32_t number);
static uint32_t *sel_list_older(const sel_zone_t *zone, sel_list_t *list,
    const sel_links_t *links, uint32_t number);


void
sel_list_insert(sel_zone_t *zone, sel_list_t *list, uint32_t older,
    sel_links_t *links)
{
    uint32_t  number, *newer;

    number = sel_zone_chunk_number(zone, links);
    newer = sel_list_newer(zone, list, links, older);

    links->older = older;
    links->newer = *newer;
    SEL_ZONE_STEP();

    *newer = number;
    SEL_ZONE_STEP();

    *sel_list_older(zone, list, links, links->newer) = number;
    SEL_ZONE_STEP();
}


void
sel_list_remove(sel_zone_t *zone, sel_list_t *list, const sel_links_t *links)
{
    *sel_list_newer(zone, list, links, links->older) = links->newer;
    SEL_ZONE_STEP();

    *sel_list_older(zone, list, links, links->newer) = links->older;
    SEL_ZONE_STEP();
}


/* Where the number of the record behind another one is kept. */

static uint32_t *
sel_list_newer(const sel_zone_t *zone, sel_list_t *list,
    const sel_links_t *links, uint32_t number)
{
    return number == SEL_CHUNK_NONE
           ? &list->oldest : sel_zone_same(zone, &links->newer, number);
}


static uint32_t *
sel_list_older(const sel_zone_t *zone, sel_list_t *list,
    const sel_links_t *links, uint32_t number)
{
    return number == SEL_CHUNK_NONE
           ? &list->newest : sel_zone_same(zone, &links->older, number);
}
