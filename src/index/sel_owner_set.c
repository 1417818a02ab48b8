/*
 * A set's hash is the xor of one random-like number per member, so the hash
 * of the set with one member more or less is known at once, and whether that
 * set exists is one look-up.  A hit is compared member by member; sets that
 * share a hash form a list.
 *
 * The set that is wanted is first written as a bitmap into sets->words; it is
 * compared, built and rewritten from there.  A record holds it in the
 * smallest of three forms: up to four members inside the record, a sorted
 * array, or a bitmap without its empty ends.
 *
 * Nodes of one chain mostly go through the same change, so the last step in
 * each direction is remembered.
 *
 * sel_owner_set_remove() rewrites a record instead of making another one when
 * nobody else refers to it, or when the holder is dead: a dead holder has no
 * credit, so it may leave all nodes of the set at once.  Thus sweeping never
 * needs memory.
 */

#include "index/sel_owner_set.h"


#define SEL_SET_SALT  0x9fb21c651e98df25    /* tells holders from hashes */


static uint64_t sel_owner_set_hash(const sel_owner_sets_t *sets, uint32_t set,
    uint16_t holder);
static bool sel_owner_set_repeat(sel_owner_sets_t *sets,
    const sel_set_step_t *step, uint32_t *set, uint16_t holder);
static void sel_owner_set_step(sel_owner_sets_t *sets, sel_set_step_t *step,
    uint32_t *set, uint16_t holder, uint32_t to);
static void sel_owner_set_load(sel_owner_sets_t *sets, uint32_t set,
    uint16_t holder);
static uint32_t sel_owner_set_find(const sel_owner_sets_t *sets,
    uint64_t hash);
static bool sel_owner_set_equal(const sel_owner_sets_t *sets, uint32_t set);
static uint32_t sel_owner_set_create(sel_owner_sets_t *sets, uint64_t hash);
static bool sel_owner_set_allocate(sel_owner_sets_t *sets,
    sel_owner_set_t *s);
static bool sel_owner_set_rewrite(sel_owner_sets_t *sets, uint32_t set,
    uint64_t hash);
static void sel_owner_set_fill(const sel_owner_sets_t *sets,
    sel_owner_set_t *s);
static void sel_owner_set_drop(sel_owner_sets_t *sets, sel_owner_set_t *s);
static void sel_owner_set_link(sel_owner_sets_t *sets, uint32_t set);
static void sel_owner_set_unlink(sel_owner_sets_t *sets, uint32_t set);
static void sel_owner_set_forget(sel_owner_sets_t *sets, uint32_t set);


static inline sel_owner_set_t *
sel_owner_set_record(const sel_owner_sets_t *sets, uint32_t set)
{
    return sel_pool_at(&sets->records, set);
}


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


void
sel_owner_sets_free(sel_owner_sets_t *sets)
{
    uint32_t          set;
    sel_owner_set_t  *s;

    for (set = 1; set <= sets->records.top; set++) {
        s = sel_owner_set_record(sets, set);

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


void
sel_owner_set_release(sel_owner_sets_t *sets, uint32_t set)
{
    sel_owner_set_t  *s;

    if (set == 0) {
        return;
    }

    s = sel_owner_set_record(sets, set);

    if (--s->refs == 0) {
        sel_owner_set_forget(sets, set);
        sel_owner_set_unlink(sets, set);
        sel_owner_set_drop(sets, s);
        sel_pool_put(&sets->records, set);
    }
}


bool
sel_owner_set_has(const sel_owner_sets_t *sets, uint32_t set, uint16_t holder)
{
    uint32_t                low, high, middle, word;
    const uint16_t         *members;
    const sel_owner_set_t  *s;

    s = sel_owner_set_at(sets, set);

    if (s->words != 0) {
        word = (uint32_t) holder / 64 - s->base;

        return word < s->words && (s->u.bits[word] >> (holder % 64) & 1);
    }

    members = s->n <= SEL_SET_FEW ? s->u.few : s->u.members;
    low = 0;
    high = s->n;

    while (low < high) {
        middle = (low + high) / 2;

        if (members[middle] < holder) {
            low = middle + 1;

        } else {
            high = middle;
        }
    }

    return low < s->n && members[low] == holder;
}


void
sel_owner_set_walk(const sel_owner_sets_t *sets, uint32_t set,
    sel_set_walk_t *walk)
{
    const sel_owner_set_t  *s;

    memset(walk, 0, sizeof(sel_set_walk_t));

    if (set == 0) {
        return;
    }

    s = sel_owner_set_at(sets, set);

    if (s->words != 0) {
        walk->bits = s->u.bits;
        walk->n = s->words;
        walk->first = s->base;

    } else {
        walk->members = s->n <= SEL_SET_FEW ? s->u.few : s->u.members;
        walk->n = s->n;
    }
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

    sel_owner_set_record(sets, *set)->refs++;
    sel_owner_set_release(sets, from);

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


/* Writes a set into sets->words, which then cover holder too. */

static void
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


/* The set that equals sets->words, 0 if there is none. */

static uint32_t
sel_owner_set_find(const sel_owner_sets_t *sets, uint64_t hash)
{
    uint32_t           set;
    const sel_slot_t  *slot;

    slot = sel_table_find(&sets->by_hash, hash, SEL_TABLE_NARROW);

    for (set = slot == NULL ? 0 : slot->value;
         set != 0 && !sel_owner_set_equal(sets, set);
         set = sel_owner_set_at(sets, set)->next) { /* void */ }

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


static uint32_t
sel_owner_set_create(sel_owner_sets_t *sets, uint64_t hash)
{
    uint32_t          set;
    sel_owner_set_t  *s, made;

    memset(&made, 0, sizeof(sel_owner_set_t));

    made.hash = hash;
    made.n = sets->n;

    if (!sel_table_reserve(&sets->by_hash, sets->memory)
        || !sel_pool_reserve(&sets->records, sets->memory)
        || !sel_owner_set_allocate(sets, &made))
    {
        return 0;
    }

    set = sel_pool_get(&sets->records);
    s = sel_owner_set_record(sets, set);
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
    size_t     array, bitmap;
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

    array = s->n * sizeof(uint16_t);
    bitmap = (last - first + 1) * sizeof(uint64_t);

    data = sel_memory_resize(sets->memory, NULL, 0,
                           bitmap <= array ? bitmap : array);

    if (data == NULL) {
        return false;
    }

    if (bitmap <= array) {
        s->words = (uint16_t) (last - first + 1);
        s->base = (uint16_t) first;
        s->u.bits = data;

    } else {
        s->base = (uint16_t) s->n;
        s->u.members = data;
    }

    return true;
}


/* Makes a set that has one member less now what sets->words say. */

static bool
sel_owner_set_rewrite(sel_owner_sets_t *sets, uint32_t set, uint64_t hash)
{
    sel_owner_set_t  *s;

    if (!sel_table_room(&sets->by_hash)
        && !sel_table_reserve(&sets->by_hash, sets->memory))
    {
        return false;
    }

    sel_owner_set_forget(sets, set);
    sel_owner_set_unlink(sets, set);

    s = sel_owner_set_record(sets, set);

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
    uint64_t   word;

    if (s->words != 0) {
        for (i = 0; i < s->words; i++) {
            pos = s->base + i;
            s->u.bits[i] = pos >= sets->low && pos < sets->high
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


static void
sel_owner_set_drop(sel_owner_sets_t *sets, sel_owner_set_t *s)
{
    if (s->words != 0) {
        sel_memory_free(sets->memory, s->u.bits,
                        s->words * sizeof(uint64_t));

    } else if (s->n > SEL_SET_FEW) {
        sel_memory_free(sets->memory, s->u.members,
                        s->base * sizeof(uint16_t));
    }
}


static void
sel_owner_set_link(sel_owner_sets_t *sets, uint32_t set)
{
    sel_slot_t       *slot;
    sel_owner_set_t  *s;

    s = sel_owner_set_record(sets, set);
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

    s = sel_owner_set_record(sets, set);
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

    s = sel_owner_set_record(sets, slot->value);

    while (s->next != set) {
        s = sel_owner_set_record(sets, s->next);
    }

    s->next = next;
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


const char *
sel_owner_sets_check(sel_owner_sets_t *sets, const uint32_t *refs,
    uint8_t *seen, size_t *bytes)
{
    uint32_t                i, set;
    uint64_t                hash;
    const char             *wrong;
    sel_set_walk_t          walk;
    const sel_owner_set_t  *s;

    *bytes += sel_pool_bytes(&sets->records) + sets->by_hash.bytes;

    for (set = 1; set <= sets->records.top; set++) {

        if (refs[set] == 0) {
            continue;
        }

        seen[set] = 1;
        hash = 0;
        s = sel_owner_set_at(sets, set);

        if (s->words != 0) {
            *bytes += s->words * sizeof(uint64_t);

        } else if (s->n > SEL_SET_FEW) {
            *bytes += s->base * sizeof(uint16_t);
        }

        if (s->refs != refs[set]) {
            return "a set has a wrong number of references";
        }

        sel_owner_set_walk(sets, set, &walk);

        for (i = 0; sel_owner_set_next(&walk); /* void */) {
            for ( ; walk.value != 0; walk.value &= walk.value - 1, i++) {
                hash ^= sel_mix(sets->mix, (walk.word * 64
                                 + (uint32_t) __builtin_ctzll(walk.value))
                                ^ SEL_SET_SALT);
            }
        }

        if (i == 0 || i != s->n || hash != s->hash) {
            return "a set has a wrong hash or count";
        }

        sel_owner_set_load(sets, set, 0);

        if (sel_owner_set_find(sets, hash) != set) {
            return "a set is not found, or there are two equal ones";
        }
    }

    wrong = sel_pool_check(&sets->records, seen);

    return wrong != NULL ? wrong : sel_table_check(&sets->by_hash);
}
