/*
 * A set's hash is the xor of one random-like number per member, so the hash
 * of the set with one member more or less is known at once, and whether that
 * set exists is one look-up.  A hit is compared member by member.
 *
 * Nodes of one chain mostly go through the same change, so the last step in
 * each direction is remembered.
 *
 * sel_owner_set_remove() rewrites a record instead of making another one when
 * nobody else refers to it, or when the holder is dead: a dead holder has no
 * credit, so it may leave all nodes of the set at once.  Thus sweeping never
 * needs memory.
 */

#include "index/sel_owner_set_impl.h"


static uint64_t sel_owner_set_hash(const sel_owner_sets_t *sets, uint32_t set,
    uint16_t holder);
static bool sel_owner_set_repeat(sel_owner_sets_t *sets,
    const sel_set_step_t *step, uint32_t *set, uint16_t holder);
static void sel_owner_set_step(sel_owner_sets_t *sets, sel_set_step_t *step,
    uint32_t *set, uint16_t holder, uint32_t to);
static void sel_owner_set_forget(sel_owner_sets_t *sets, uint32_t set);
static void sel_owner_set_release(sel_owner_sets_t *sets, uint32_t set);


void
sel_owner_sets_init(sel_owner_sets_t *sets, sel_memory_t *memory,
    const sel_mix_t *mix)
{
    memset(sets, 0, sizeof(sel_owner_sets_t));

    sel_pool_init(&sets->records, sizeof(sel_owner_set_t));
    sel_table_init(&sets->by_hash, SEL_TABLE_NARROW);

    sets->memory = memory;
    sets->mix = mix;
}


/* A free record still says that it has no references. */

void
sel_owner_sets_free(sel_owner_sets_t *sets)
{
    uint32_t          set;
    sel_owner_set_t  *s;

    for (set = 1; set <= sets->records.top; set++) {
        s = sel_owner_set_at(sets, set);

        if (s->refs != 0) {
            sel_owner_set_drop(sets, s);
        }
    }

    sel_pool_reset(&sets->records, sets->memory);
    sel_table_reset(&sets->by_hash, sets->memory);
}


bool
sel_owner_sets_settle(sel_owner_sets_t *sets, uint32_t budget)
{
    sel_pool_settle(&sets->records, sets->memory);

    return sel_table_settle(&sets->by_hash, sets->memory, budget);
}


bool
sel_owner_set_add(sel_owner_sets_t *sets, uint32_t *set, uint16_t holder)
{
    uint32_t  to;
    uint64_t  hash;

    if (sel_owner_set_repeat(sets, &sets->added, set, holder)) {
        return true;
    }

    sel_owner_set_load(sets, *set, holder);
    sets->words[holder / 64] |= (uint64_t) 1 << (holder % 64);
    sets->n++;

    hash = sel_owner_set_hash(sets, *set, holder);
    to = sel_owner_set_find(sets, hash);

    if (to == 0) {
        to = sel_owner_set_create(sets, hash);
    }

    if (to == 0) {
        return false;
    }

    sel_owner_set_step(sets, &sets->added, set, holder, to);

    return true;
}


bool
sel_owner_set_remove(sel_owner_sets_t *sets, uint32_t *set, uint16_t holder,
    bool everywhere)
{
    uint32_t  to;
    uint64_t  hash;

    if (sel_owner_set_repeat(sets, &sets->removed, set, holder)) {
        return true;
    }

    if (sel_owner_set_at(sets, *set)->n == 1) {
        sel_owner_set_release(sets, *set);
        *set = 0;

        return true;
    }

    sel_owner_set_load(sets, *set, holder);
    sets->words[holder / 64] &= ~((uint64_t) 1 << (holder % 64));
    sets->n--;

    hash = sel_owner_set_hash(sets, *set, holder);
    to = sel_owner_set_find(sets, hash);

    if (to == 0) {

        if (everywhere || sel_owner_set_at(sets, *set)->refs == 1) {
            sel_owner_set_forget(sets, *set);
            return sel_owner_set_rewrite(sets, *set, hash);
        }

        to = sel_owner_set_create(sets, hash);
    }

    if (to == 0) {
        return false;
    }

    sel_owner_set_step(sets, &sets->removed, set, holder, to);

    return true;
}


/* The hash of the set with holder more, or less. */

static uint64_t
sel_owner_set_hash(const sel_owner_sets_t *sets, uint32_t set,
    uint16_t holder)
{
    uint64_t  hash;

    hash = set == 0 ? 0 : sel_owner_set_at(sets, set)->hash;

    return hash ^ sel_mix(sets->mix, holder ^ SEL_SET_SALT);
}


static bool
sel_owner_set_repeat(sel_owner_sets_t *sets, const sel_set_step_t *step,
    uint32_t *set, uint16_t holder)
{
    uint32_t  from;

    if (step->to == 0 || step->from != *set || step->holder != holder) {
        return false;
    }

    from = *set;
    *set = step->to;

    sel_owner_set_at(sets, *set)->refs++;

    if (from != 0) {
        sel_owner_set_release(sets, from);
    }

    return true;
}


static void
sel_owner_set_step(sel_owner_sets_t *sets, sel_set_step_t *step,
    uint32_t *set, uint16_t holder, uint32_t to)
{
    step->from = *set;
    step->to = to;
    step->holder = holder;

    (void) sel_owner_set_repeat(sets, step, set, holder);
}


static void
sel_owner_set_forget(sel_owner_sets_t *sets, uint32_t set)
{
    if (sets->added.from == set || sets->added.to == set) {
        sets->added.to = 0;
    }

    if (sets->removed.from == set || sets->removed.to == set) {
        sets->removed.to = 0;
    }
}


static void
sel_owner_set_release(sel_owner_sets_t *sets, uint32_t set)
{
    if (--sel_owner_set_at(sets, set)->refs == 0) {
        sel_owner_set_forget(sets, set);
        sel_owner_set_delete(sets, set);
    }
}


bool
sel_owner_set_has(const sel_owner_sets_t *sets, uint32_t set, uint16_t holder)
{
    uint32_t         high, low, middle, word;
    sel_set_walk_t   walk;

    sel_owner_set_walk(sets, set, &walk);

    if (walk.bits != NULL) {
        word = holder / 64 - walk.first;

        return word < walk.n && (walk.bits[word] >> (holder % 64) & 1);
    }

    low = 0;
    high = walk.n;

    while (low < high) {
        middle = (low + high) / 2;

        if (walk.members[middle] < holder) {
            low = middle + 1;

        } else {
            high = middle;
        }
    }

    return low < walk.n && walk.members[low] == holder;
}


void
sel_owner_set_walk(const sel_owner_sets_t *sets, uint32_t set,
    sel_set_walk_t *walk)
{
    const sel_owner_set_t  *s;

    walk->members = NULL;
    walk->bits = NULL;
    walk->pos = 0;
    walk->n = 0;

    if (set == 0) {
        return;
    }

    s = sel_owner_set_at(sets, set);

    if (s->words != 0) {
        walk->bits = s->words == 1 ? &s->u.word : s->u.bits;
        walk->n = s->words;
        walk->first = s->base;

    } else {
        walk->members = s->n <= SEL_SET_FEW ? s->u.few : s->u.members;
        walk->n = s->n;
    }
}
