/*
 * Reservations: bookings as clients make and end them.
 */

#ifndef SEL_RESERVE_H
#define SEL_RESERVE_H

#include "core/sel_buf.h"
#include "service/sel_selection.h"


/* how often an operation begins again because the ranks it had chosen from
   went meanwhile, or its session was bound */
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


/* A booking to be made on the cheapest rank. */
typedef struct {
    sel_selecting_t     select;
    sel_booking_kind_t  kind;
    sel_str_t           id;
} sel_reserving_t;

/* Chooses and books; *s is the selection. */
bool sel_reserve_best(sel_service_t *service, sel_arena_t *arena,
    const sel_reserving_t *r, sel_selection_t *s, sel_fault_t *fault);

/* Makes an id: a random UUID (version 4, variant 1) in the arena. */
bool sel_reserve_id(sel_service_t *service, sel_arena_t *arena,
    sel_str_t *id, sel_fault_t *fault);


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

/*
 * Its answer has been printed, as far as memory went; else it is ended, with
 * a fault.
 */
bool sel_reserve_told(sel_service_t *service, sel_str_t id,
    const sel_buf_t *buf, sel_fault_t *fault);

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
