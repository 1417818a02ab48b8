/*
 * Sets of holders (sel_index_impl.h), known by number: equal sets have one
 * number.  Number 0 is the empty set.  A set lives as long as there are
 * references to its number.
 */

#ifndef SEL_OWNER_SET_H
#define SEL_OWNER_SET_H

#include "index/sel_mix.h"
#include "index/sel_pool.h"
#include "index/sel_table.h"


#define SEL_SET_HOLDERS  65536              /* 0 .. 65535 */
#define SEL_SET_WORDS    (SEL_SET_HOLDERS / 64)
#define SEL_SET_FEW      4


typedef struct {
    uint64_t            hash;
    uint32_t            refs;
    uint32_t            next;       /* another set of the same hash */
    uint32_t            n;          /* members */
    uint16_t            words;      /* of a bitmap; 0: a list of members */
    uint16_t            base;       /* of a bitmap: index of its first word;
                                       of a list: members it has room for */
    union {
        uint16_t        few[SEL_SET_FEW];   /* a list, n <= SEL_SET_FEW */
        uint16_t       *members;            /* a longer list, sorted */
        uint64_t        word;               /* a bitmap, words == 1 */
        uint64_t       *bits;               /* a longer bitmap */
    } u;
} sel_owner_set_t;


/* A change of a set, to be repeated quickly; to is 0: nothing remembered. */
typedef struct {
    uint32_t            from;
    uint32_t            to;
    uint16_t            holder;
} sel_set_step_t;


typedef struct {
    sel_pool_t          records;
    sel_table_t         by_hash;
    sel_memory_t       *memory;
    const sel_mix_t    *mix;
    sel_set_step_t      added;      /* the last steps */
    sel_set_step_t      removed;

    uint32_t            n;          /* members of the set in words */
    uint32_t            low;        /* words in use: low .. high - 1 */
    uint32_t            high;
    uint64_t            words[SEL_SET_WORDS];
} sel_owner_sets_t;


/* A walk over a set in words of 64 holders. */
typedef struct {
    const uint16_t     *members;
    const uint64_t     *bits;
    uint32_t            pos;
    uint32_t            n;
    uint32_t            first;
    uint32_t            word;       /* holders word * 64 .. word * 64 + 63 */
    uint64_t            value;
} sel_set_walk_t;


void sel_owner_sets_init(sel_owner_sets_t *sets, sel_memory_t *memory,
    const sel_mix_t *mix);

/* Frees the memory, whatever references there are. */
void sel_owner_sets_free(sel_owner_sets_t *sets);

/* As sel_table_settle(). */
bool sel_owner_sets_settle(sel_owner_sets_t *sets, uint32_t budget);

/*
 * Turns one reference to *set into one to the set with holder, which is not
 * a member.  False when memory is exhausted; nothing is changed then.
 */
bool sel_owner_set_add(sel_owner_sets_t *sets, uint32_t *set,
    uint16_t holder);

/*
 * The same without holder, which is a member.  everywhere: it may leave the
 * whole set, whoever else refers to it; that needs no memory.
 */
bool sel_owner_set_remove(sel_owner_sets_t *sets, uint32_t *set,
    uint16_t holder, bool everywhere);

bool sel_owner_set_has(const sel_owner_sets_t *sets, uint32_t set,
    uint16_t holder);

void sel_owner_set_walk(const sel_owner_sets_t *sets, uint32_t set,
    sel_set_walk_t *walk);


static inline sel_owner_set_t *
sel_owner_set_at(const sel_owner_sets_t *sets, uint32_t set)
{
    return sel_pool_at(&sets->records, set);
}


/* The next word that has members; false at the end. */
static inline bool
sel_owner_set_next(sel_set_walk_t *walk)
{
    uint32_t  member;

    if (walk->bits != NULL) {

        while (walk->pos < walk->n && walk->bits[walk->pos] == 0) {
            walk->pos++;
        }

        if (walk->pos == walk->n) {
            return false;
        }

        walk->word = walk->first + walk->pos;
        walk->value = walk->bits[walk->pos++];

        return true;
    }

    if (walk->pos == walk->n) {
        return false;
    }

    member = walk->members[walk->pos];
    walk->word = member / 64;
    walk->value = 0;

    do {
        walk->value |= (uint64_t) 1 << (member % 64);

        if (++walk->pos == walk->n) {
            break;
        }

        member = walk->members[walk->pos];

    } while (member / 64 == walk->word);

    return true;
}


#endif /* SEL_OWNER_SET_H */
