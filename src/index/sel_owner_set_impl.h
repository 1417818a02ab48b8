/*
 * Inside the sets: records, made from sets->words (sel_owner_set_record.c).
 */

#ifndef SEL_OWNER_SET_IMPL_H
#define SEL_OWNER_SET_IMPL_H

#include "index/sel_owner_set.h"


#define SEL_SET_SALT  0x9fb21c651e98df25    /* tells holders from hashes */


/* Writes a set into sets->words, which then cover holder too. */
void sel_owner_set_load(sel_owner_sets_t *sets, uint32_t set,
    uint16_t holder);

/* The set that equals sets->words, 0 if there is none. */
uint32_t sel_owner_set_find(const sel_owner_sets_t *sets, uint64_t hash);

/* Makes it, without references; 0 when memory is exhausted. */
uint32_t sel_owner_set_create(sel_owner_sets_t *sets, uint64_t hash);

/*
 * Makes it of a set that has one member more.  False when the table of hashes
 * has no room; nothing is changed then.
 */
bool sel_owner_set_rewrite(sel_owner_sets_t *sets, uint32_t set,
    uint64_t hash);

/* Deletes a set that nobody refers to. */
void sel_owner_set_delete(sel_owner_sets_t *sets, uint32_t set);

/* Memory that a record has besides itself, and giving it back. */
size_t sel_owner_set_bytes(const sel_owner_set_t *s);
void sel_owner_set_drop(sel_owner_sets_t *sets, sel_owner_set_t *s);


#endif /* SEL_OWNER_SET_IMPL_H */
