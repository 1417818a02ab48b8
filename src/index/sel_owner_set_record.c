/*
 * Records of sets.  What a record is to hold is first written as a bitmap
 * into sets->words; sets are compared, made and rewritten from there.
 *
 * A record holds its set in the smallest of these forms: up to four members
 * or a bitmap of one word inside the record, a sorted list, or a bitmap
 * without its empty ends.  A rewritten bitmap stays one as long as it does
 * not fit into the record.
 *
 * Sets of the same hash form a list.
 */

#include "index/sel_owner_set_impl.h"


static bool sel_owner_set_equal(const sel_owner_sets_t *sets, uint32_t set);
static bool sel_owner_set_allocate(sel_owner_sets_t *sets,
    sel_owner_set_t *s);
static void sel_owner_set_fill(const sel_owner_sets_t *sets,
    sel_owner_set_t *s);
static void sel_owner_set_link(sel_owner_sets_t *sets, uint32_t set);
static void sel_owner_set_unlink(sel_owner_sets_t *sets, uint32_t set);


void
sel_owner_set_load(sel_owner_sets_t *sets, uint32_t set, uint16_t holder)
{
    sel_set_walk_t  walk;

    sets->n = set == 0 ? 0 : sel_owner_set_at(sets, set)->n;
    sets->low = holder / 64;
    sets->high = sets->low + 1;
    sets->words[sets->low] = 0;

    sel_owner_set_walk(sets, set, &walk);

    while (sel_owner_set_next(&walk)) {

        while (sets->low > walk.word) {
            sets->words[--sets->low] = 0;
        }

        while (sets->high <= walk.word) {
            sets->words[sets->high++] = 0;
        }

        sets->words[walk.word] = walk.value;
    }
}


uint32_t
sel_owner_set_find(const sel_owner_sets_t *sets, uint64_t hash)
{
    uint32_t           set;
    const sel_slot_t  *slot;

    slot = sel_table_find(&sets->by_hash, hash, SEL_TABLE_NARROW);
    set = slot == NULL ? 0 : slot->value;

    while (set != 0 && !sel_owner_set_equal(sets, set)) {
        set = sel_owner_set_at(sets, set)->next;
    }

    return set;
}


static bool
sel_owner_set_equal(const sel_owner_sets_t *sets, uint32_t set)
{
    sel_set_walk_t  walk;

    if (sel_owner_set_at(sets, set)->n != sets->n) {
        return false;
    }

    sel_owner_set_walk(sets, set, &walk);

    while (sel_owner_set_next(&walk)) {
        if (walk.word < sets->low || walk.word >= sets->high
            || walk.value != sets->words[walk.word])
        {
            return false;
        }
    }

    return true;
}


uint32_t
sel_owner_set_create(sel_owner_sets_t *sets, uint64_t hash)
{
    uint32_t          set;
    sel_owner_set_t   made, *s;

    memset(&made, 0, sizeof(sel_owner_set_t));

    made.hash = hash;
    made.n = sets->n;

    if (!sel_table_reserve(&sets->by_hash, sets->memory)
        || !sel_pool_reserve(&sets->records, sets->memory, 1)
        || !sel_owner_set_allocate(sets, &made))
    {
        return 0;
    }

    set = sel_pool_get(&sets->records);
    s = sel_owner_set_at(sets, set);
    *s = made;

    sel_owner_set_fill(sets, s);
    sel_owner_set_link(sets, set);

    return set;
}


/* Chooses the form and takes its memory. */

static bool
sel_owner_set_allocate(sel_owner_sets_t *sets, sel_owner_set_t *s)
{
    void      *data;
    size_t     bitmap, list;
    uint32_t   first, last;

    if (s->n <= SEL_SET_FEW) {
        return true;
    }

    first = sets->low;
    last = sets->high - 1;

    while (sets->words[first] == 0) {
        first++;
    }

    while (sets->words[last] == 0) {
        last--;
    }

    bitmap = (last - first + 1) * sizeof(uint64_t);
    list = s->n * sizeof(uint16_t);

    if (bitmap <= list) {
        s->words = (uint16_t) (last - first + 1);
        s->base = (uint16_t) first;

    } else {
        s->base = (uint16_t) s->n;
    }

    if (s->words == 1) {
        return true;
    }

    data = sel_memory_resize(sets->memory, NULL, 0,
                             bitmap <= list ? bitmap : list);

    if (bitmap <= list) {
        s->u.bits = data;

    } else {
        s->u.members = data;
    }

    return data != NULL;
}


bool
sel_owner_set_rewrite(sel_owner_sets_t *sets, uint32_t set, uint64_t hash)
{
    sel_owner_set_t  *s;

    if (!sel_table_room(&sets->by_hash, 1)
        && !sel_table_reserve(&sets->by_hash, sets->memory))
    {
        return false;
    }

    sel_owner_set_unlink(sets, set);

    s = sel_owner_set_at(sets, set);

    if (sets->n == SEL_SET_FEW) {
        sel_owner_set_drop(sets, s);
        s->words = 0;
    }

    s->n = sets->n;
    s->hash = hash;

    sel_owner_set_fill(sets, s);
    sel_owner_set_link(sets, set);

    return true;
}


static void
sel_owner_set_fill(const sel_owner_sets_t *sets, sel_owner_set_t *s)
{
    uint16_t  *members;
    uint32_t   i, pos;
    uint64_t  *bits, word;

    if (s->words != 0) {

        bits = s->words == 1 ? &s->u.word : s->u.bits;

        for (i = 0; i < s->words; i++) {
            pos = s->base + i;
            bits[i] = pos >= sets->low && pos < sets->high
                      ? sets->words[pos] : 0;
        }

        return;
    }

    members = s->n <= SEL_SET_FEW ? s->u.few : s->u.members;

    for (i = sets->low; i < sets->high; i++) {
        for (word = sets->words[i]; word != 0; word &= word - 1) {
            *members++ = (uint16_t) (i * 64
                                     + (uint32_t) __builtin_ctzll(word));
        }
    }
}


void
sel_owner_set_delete(sel_owner_sets_t *sets, uint32_t set)
{
    sel_owner_set_unlink(sets, set);
    sel_owner_set_drop(sets, sel_owner_set_at(sets, set));
    sel_pool_put(&sets->records, set);
}


size_t
sel_owner_set_bytes(const sel_owner_set_t *s)
{
    if (s->n <= SEL_SET_FEW && s->words == 0) {
        return 0;
    }

    if (s->words == 0) {
        return s->base * sizeof(uint16_t);
    }

    return s->words == 1 ? 0 : s->words * sizeof(uint64_t);
}


void
sel_owner_set_drop(sel_owner_sets_t *sets, sel_owner_set_t *s)
{
    sel_memory_free(sets->memory,
                    s->words == 0 ? (void *) s->u.members : s->u.bits,
                    sel_owner_set_bytes(s));
}


static void
sel_owner_set_link(sel_owner_sets_t *sets, uint32_t set)
{
    sel_slot_t       *slot;
    sel_owner_set_t  *s;

    s = sel_owner_set_at(sets, set);
    slot = sel_table_find(&sets->by_hash, s->hash, SEL_TABLE_NARROW);

    if (slot == NULL) {
        slot = sel_table_insert(&sets->by_hash, s->hash);
    }

    s->next = slot->value;
    slot->value = set;
}


static void
sel_owner_set_unlink(sel_owner_sets_t *sets, uint32_t set)
{
    uint32_t          next;
    sel_slot_t       *slot;
    sel_owner_set_t  *s;

    s = sel_owner_set_at(sets, set);
    next = s->next;
    slot = sel_table_find(&sets->by_hash, s->hash, SEL_TABLE_NARROW);

    if (slot->value == set) {

        if (next == 0) {
            sel_table_delete(&sets->by_hash, slot);

        } else {
            slot->value = next;
        }

        return;
    }

    s = sel_owner_set_at(sets, slot->value);

    while (s->next != set) {
        s = sel_owner_set_at(sets, s->next);
    }

    s->next = next;
}
