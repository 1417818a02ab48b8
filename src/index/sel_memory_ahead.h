/*
 * A thread that makes memory present before it is used.
 *
 * The first touch of a page of 2 MiB costs the kernel 0.1 ms to clear it, and
 * several on a virtual machine whose host has to find the memory first.  An
 * event loop cannot wait for that.  So whoever knows which pages come next
 * names them, and the thread touches them meanwhile.  It is started when it
 * is first needed; without it all works, with longer waits.
 */

#ifndef SEL_MEMORY_AHEAD_H
#define SEL_MEMORY_AHEAD_H

#include "core/sel_base.h"


#define SEL_MEMORY_HUGE  ((size_t) 2 * 1024 * 1024)


/*
 * Touches the range from p on, from its end downwards and in pages of 2 MiB;
 * the content stays.  All of it must be mapped, and stay so until
 * sel_memory_ahead_forget().  Returns at once.  Ranges that are too many are
 * passed over.
 */
void sel_memory_ahead(uint8_t *p, size_t size);

/*
 * Ends the work on all ranges that overlap this one, which is about to be
 * unmapped or moved: when a page of it is being touched at this moment, waits
 * for that.
 */
void sel_memory_ahead_forget(const uint8_t *p, size_t size);

/* Waits until nothing is left to be touched; for tests. */
void sel_memory_ahead_wait(void);


#endif /* SEL_MEMORY_AHEAD_H */
