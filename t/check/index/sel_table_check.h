/*
 * Verification of a table, for tests.
 */

#ifndef SEL_TABLE_CHECK_H
#define SEL_TABLE_CHECK_H

#include "index/sel_table.h"


/* NULL, or what is wrong. */
const char *sel_table_check(const sel_table_t *table);


#endif /* SEL_TABLE_CHECK_H */
