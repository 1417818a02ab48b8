/*
 * The syntax of ZMQ endpoints as the API checks it, before libzmq sees them.
 */

#ifndef SEL_ENDPOINT_H
#define SEL_ENDPOINT_H

#include "core/sel_arena.h"


/*
 * NULL when the endpoint is well formed, else a sentence in the arena that
 * names it and says what is wrong (also NULL-safe: "out of memory").
 */
const char *sel_endpoint_fault(sel_str_t endpoint, sel_arena_t *arena);


#endif /* SEL_ENDPOINT_H */
