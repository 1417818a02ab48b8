/*
 * What happens to a reservation after it was made, and the faults that all
 * operations on reservations share.
 */

#include "service/sel_learn.h"
#include "service/sel_reserve.h"


static bool sel_reservation_result(sel_service_t *service, sel_arena_t *arena,
    sel_str_t id, sel_book_result_t result, sel_fault_t *fault);


bool
sel_reservation_prefilled(sel_service_t *service, sel_arena_t *arena,
    sel_str_t id, sel_fault_t *fault)
{
    return sel_reservation_result(service, arena, id,
                                  sel_book_prefilled(service->zone, id),
                                  fault);
}


bool
sel_reservation_output(sel_service_t *service, sel_arena_t *arena,
    sel_str_t id, const sel_output_body_t *body, sel_fault_t *fault)
{
    double  fraction;

    fraction = body->given != 0 ? body->decay_fraction : -1;

    if (body->given != 0 && !(fraction >= 0 && fraction <= 1)) {
        return sel_fault(fault, arena, SEL_FAULT_BAD_REQUEST,
                         "decay_fraction must be between 0.0 and 1.0");
    }

    return sel_reservation_result(service, arena, id,
                                  sel_book_output(service->zone, id,
                                                  fraction),
                                  fault);
}


bool
sel_reservation_free(sel_service_t *service, sel_arena_t *arena, sel_str_t id,
    sel_fault_t *fault)
{
    return sel_reservation_result(service, arena, id,
                                  sel_book_free(service->zone, id), fault);
}


static bool
sel_reservation_result(sel_service_t *service, sel_arena_t *arena,
    sel_str_t id, sel_book_result_t result, sel_fault_t *fault)
{
    if (result == SEL_BOOK_OK) {
        return true;
    }

    if (result == SEL_BOOK_FULL) {
        return sel_reserve_full(service, arena, id, fault);
    }

    return sel_fault(fault, arena, SEL_FAULT_NOT_FOUND,
                     "reservation %.*s not found", sel_str_arg(id));
}


void
sel_reserve_done(sel_service_t *service)
{
    if (sel_learn_due(service)) {
        service->changed(service->data);
    }
}


bool
sel_reserve_told(sel_service_t *service, sel_str_t id, const sel_buf_t *buf,
    sel_fault_t *fault)
{
    if (!buf->failed) {
        return true;
    }

    (void) sel_book_free(service->zone, id);
    service->choice.endpoint.data = NULL;

    return sel_fault_memory(fault);
}


bool
sel_reserve_taken(sel_arena_t *arena, sel_str_t id, sel_fault_t *fault)
{
    return sel_fault(fault, arena, SEL_FAULT_CONFLICT,
                     "selection %.*s is already reserved or being reserved",
                     sel_str_arg(id));
}


bool
sel_reserve_full(sel_service_t *service, sel_arena_t *arena, sel_str_t id,
    sel_fault_t *fault)
{
    sel_count(service->zone, SEL_COUNT_ZONE_FULL, 1);

    return sel_fault(fault, arena, SEL_FAULT_FULL,
                     "select_zone is full: no room for reservation %.*s",
                     sel_str_arg(id));
}


bool
sel_reserve_unsteady(sel_arena_t *arena, sel_fault_t *fault)
{
    return sel_fault(fault, arena, SEL_FAULT_INTERNAL,
                     "workers are changing too fast");
}


bool
sel_reserve_check_id(sel_arena_t *arena, sel_str_t id, sel_fault_t *fault)
{
    if (id.len <= SEL_BOOK_MAX_ID) {
        return true;
    }

    return sel_fault(fault, arena, SEL_FAULT_BAD_REQUEST,
                     "selection_id must not exceed %u bytes",
                     SEL_BOOK_MAX_ID);
}


bool
sel_reserve_check_blocks(sel_arena_t *arena, uint32_t n, sel_fault_t *fault)
{
    if (n <= SEL_BOOK_MAX_BLOCKS) {
        return true;
    }

    return sel_fault(fault, arena, SEL_FAULT_BAD_REQUEST,
                     "sequence_hashes must not have more than %u elements",
                     SEL_BOOK_MAX_BLOCKS);
}
