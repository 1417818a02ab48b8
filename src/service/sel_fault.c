#include <stdarg.h>
#include <stdio.h>
#include "service/sel_fault.h"


static char *sel_arena_vprintf(sel_arena_t *arena, const char *format,
    va_list args);


bool
sel_fault(sel_fault_t *fault, sel_arena_t *arena, sel_fault_class_t class,
    const char *format, ...)
{
    va_list  args;

    va_start(args, format);
    fault->text = sel_arena_vprintf(arena, format, args);
    va_end(args);

    if (fault->text == NULL) {
        return sel_fault_memory(fault);
    }

    fault->class = class;

    return false;
}


bool
sel_fault_memory(sel_fault_t *fault)
{
    fault->class = SEL_FAULT_INTERNAL;
    fault->text = "out of memory";

    return false;
}


char *
sel_arena_printf(sel_arena_t *arena, const char *format, ...)
{
    char     *text;
    va_list   args;

    va_start(args, format);
    text = sel_arena_vprintf(arena, format, args);
    va_end(args);

    return text;
}


static char *
sel_arena_vprintf(sel_arena_t *arena, const char *format, va_list args)
{
    int      n;
    char    *text;
    va_list  again;

    va_copy(again, args);
    n = vsnprintf(NULL, 0, format, again);
    va_end(again);

    if (n < 0) {
        return NULL;
    }

    text = sel_arena_alloc(arena, (size_t) n + 1);

    if (text != NULL) {
        (void) vsnprintf(text, (size_t) n + 1, format, args);
    }

    return text;
}
