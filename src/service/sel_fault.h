/*
 * Why an operation was refused.  The class decides the HTTP status, the text
 * goes into {"error": text}.
 */

#ifndef SEL_FAULT_H
#define SEL_FAULT_H

#include "core/sel_arena.h"


typedef enum {
    SEL_FAULT_NONE = 0,
    SEL_FAULT_BAD_REQUEST,
    SEL_FAULT_NOT_FOUND,
    SEL_FAULT_CONFLICT,
    SEL_FAULT_NOT_READY,
    SEL_FAULT_FULL,             /* the zone has no room */
    SEL_FAULT_INTERNAL
} sel_fault_class_t;


typedef struct {
    sel_fault_class_t  class;
    char              *text;    /* in the arena of the request, or static */
} sel_fault_t;


/* Words a fault (printf format); always returns false. */
bool sel_fault(sel_fault_t *fault, sel_arena_t *arena,
    sel_fault_class_t class, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Memory is exhausted; always returns false. */
bool sel_fault_memory(sel_fault_t *fault);

/* printf() into the arena; NULL when memory is exhausted. */
char *sel_arena_printf(sel_arena_t *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));


/* for printing a sel_str_t with %.*s */
#define sel_str_arg(str)  (int) (str).len, (const char *) (str).data


#endif /* SEL_FAULT_H */
