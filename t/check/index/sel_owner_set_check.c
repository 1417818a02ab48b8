/*
 * Sets are right when each has the members that its hash says, is found by
 * it, has no equal, and is referred to as often as it counts.
 */

#include "index/sel_owner_set_impl.h"
#include "index/sel_owner_set_check.h"
#include "index/sel_pool_check.h"
#include "index/sel_table_check.h"


static const char *sel_owner_set_check(sel_owner_sets_t *sets, uint32_t set);


const char *
sel_owner_sets_check(sel_owner_sets_t *sets, const uint32_t *refs,
    uint8_t *seen, size_t *bytes)
{
    uint32_t     set;
    const char  *wrong;

    *bytes += sel_pool_bytes(&sets->records) + sets->by_hash.bytes;

    for (set = 1; set <= sets->records.top; set++) {

        if (refs[set] == 0) {
            continue;
        }

        if (sel_owner_set_at(sets, set)->refs != refs[set]) {
            return "a set has a wrong number of references";
        }

        wrong = sel_owner_set_check(sets, set);

        if (wrong != NULL) {
            return wrong;
        }

        seen[set] = 1;
        *bytes += sel_owner_set_bytes(sel_owner_set_at(sets, set));
    }

    wrong = sel_pool_check(&sets->records, seen);

    return wrong != NULL ? wrong : sel_table_check(&sets->by_hash);
}


static const char *
sel_owner_set_check(sel_owner_sets_t *sets, uint32_t set)
{
    uint32_t                member, n;
    uint64_t                hash;
    sel_set_walk_t          walk;
    const sel_owner_set_t  *s;

    n = 0;
    hash = 0;
    s = sel_owner_set_at(sets, set);

    sel_owner_set_walk(sets, set, &walk);

    while (sel_owner_set_next(&walk)) {
        for ( ; walk.value != 0; walk.value &= walk.value - 1) {
            member = walk.word * 64 + (uint32_t) __builtin_ctzll(walk.value);
            hash ^= sel_mix(sets->mix, member ^ SEL_SET_SALT);
            n++;
        }
    }

    if (n == 0 || n != s->n || hash != s->hash) {
        return "a set has a wrong hash or count";
    }

    if (s->next != 0
        && (s->next > sets->records.top
            || sel_owner_set_at(sets, s->next)->hash != hash))
    {
        return "a list of sets goes astray";
    }

    sel_owner_set_load(sets, set, 0);

    if (sel_owner_set_find(sets, hash) != set) {
        return "a set is not found, or there are two equal ones";
    }

    return NULL;
}
