/*
 * Reservations: bookings as clients make and end them.
 */

#ifndef SEL_RESERVE_H
#define SEL_RESERVE_H

#include "core/sel_buf.h"
#include "service/sel_request.h"
#include "service/sel_service.h"


/* how often an operation begins again because the ranks it had chosen from
   went meanwhile */
#define SEL_RESERVE_TRIES  8


/*
 * POST /select_and_reserve: chooses the cheapest rank and books it, in one
 * step.  Prints the answer; on a fault buf holds nothing of use and nothing
 * is booked.
 */
bool sel_select_and_reserve(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_buf_t *buf, sel_fault_t *fault);

/*
 * POST /reservations: books the rank that the request names, or what a
 * pending selection says.
 */
bool sel_reserve(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_buf_t *buf, sel_fault_t *fault);


/* What happens to a reservation.  A fault when there is none of this id. */

bool sel_reservation_prefilled(sel_service_t *service, sel_arena_t *arena,
    sel_str_t id, sel_fault_t *fault);

bool sel_reservation_output(sel_service_t *service, sel_arena_t *arena,
    sel_str_t id, const sel_output_body_t *body, sel_fault_t *fault);

bool sel_reservation_free(sel_service_t *service, sel_arena_t *arena,
    sel_str_t id, sel_fault_t *fault);


/* Between the files of reservations. */

/* A booking has been made. */
void sel_reserve_done(sel_service_t *service);

/* Faults.  Each returns false. */

bool sel_reserve_taken(sel_arena_t *arena, sel_str_t id, sel_fault_t *fault);
bool sel_reserve_full(sel_service_t *service, sel_arena_t *arena,
    sel_str_t id, sel_fault_t *fault);
bool sel_reserve_unsteady(sel_arena_t *arena, sel_fault_t *fault);

/* Ids and prompts that the books can hold; else a fault. */
bool sel_reserve_check_id(sel_arena_t *arena, sel_str_t id,
    sel_fault_t *fault);
bool sel_reserve_check_blocks(sel_arena_t *arena, uint32_t n,
    sel_fault_t *fault);


#endif /* SEL_RESERVE_H */
