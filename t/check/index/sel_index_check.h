/*
 * Verification of an index, for tests: slow, and no part of the module.
 */

#ifndef SEL_INDEX_CHECK_H
#define SEL_INDEX_CHECK_H

#include "index/sel_index.h"


/*
 * Verifies every invariant of the tables: NULL, or a sentence that says what
 * is wrong.
 */
const char *sel_index_check(sel_index_t *index);


#endif /* SEL_INDEX_CHECK_H */
