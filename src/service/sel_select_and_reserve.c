#include "core/sel_clock.h"
#include "service/sel_reserve.h"
#include "service/sel_selection.h"


#define SEL_UUID_LEN  36


static bool sel_select_and_reserve_id(sel_service_t *service,
    sel_arena_t *arena, const sel_select_body_t *body, sel_str_t *id,
    sel_fault_t *fault);


/*
 * The id is looked at before anything else of the request, so a repeated one
 * is told even if the prompt is bad, too.
 */

bool
sel_select_and_reserve(sel_service_t *service, sel_arena_t *arena,
    const sel_route_settings_t *settings, const sel_select_body_t *body,
    sel_buf_t *buf, sel_fault_t *fault)
{
    sel_selection_t  s;
    sel_reserving_t  r;

    r = (sel_reserving_t) {
        .select = { settings, body, SEL_PROMPT_FOR_SELECT, NULL, true },
        .kind = SEL_BOOKING_API
    };

    if (sel_service_partition(service, arena, body->model_name,
                              body->routing_group, fault)
        == NULL
        || !sel_select_and_reserve_id(service, arena, body, &r.id, fault)
        || !sel_reserve_best(service, arena, &r, &s, fault))
    {
        return false;
    }

    sel_selection_print(&s, r.id, true, buf);

    return sel_reserve_told(service, r.id, buf, fault);
}


static bool
sel_select_and_reserve_id(sel_service_t *service, sel_arena_t *arena,
    const sel_select_body_t *body, sel_str_t *id, sel_fault_t *fault)
{
    if (!sel_body_has(body, SEL_SELECT_ID)) {
        return sel_reserve_id(service, arena, id, fault);
    }

    *id = body->selection_id;

    if (!sel_reserve_check_id(arena, *id, fault)) {
        return false;
    }

    return sel_booked(service->zone, *id)
           ? sel_reserve_taken(arena, *id, fault) : true;
}


bool
sel_reserve_id(sel_service_t *service, sel_arena_t *arena, sel_str_t *id,
    sel_fault_t *fault)
{
    char      *text;
    uint64_t   a, b;

    a = sel_random_u64(&service->random);
    b = sel_random_u64(&service->random);

    text = sel_arena_printf(arena, "%08x-%04x-4%03x-%04x-%012llx",
                            (unsigned) (a >> 32),
                            (unsigned) (a >> 16) & 0xffff,
                            (unsigned) a & 0xfff,
                            (unsigned) (b >> 48 & 0x3fff) | 0x8000,
                            (unsigned long long) b & 0xffffffffffff);
    if (text == NULL) {
        return sel_fault_memory(fault);
    }

    *id = (sel_str_t) { SEL_UUID_LEN, (const uint8_t *) text };

    return true;
}


bool
sel_reserve_best(sel_service_t *service, sel_arena_t *arena,
    const sel_reserving_t *r, sel_selection_t *s, sel_fault_t *fault)
{
    uint32_t             tries, chosen;
    sel_booking_t        booking;
    const sel_prompt_t  *prompt;

    for (tries = 0; tries < SEL_RESERVE_TRIES; tries++) {

        if (!sel_selection_begin(s, service, arena, &r->select, fault)
            || !sel_reserve_check_blocks(arena, s->lookup.prompt.n_sequence,
                                         fault))
        {
            return false;
        }

        prompt = &s->lookup.prompt;

        booking = (sel_booking_t) {
            .id = r->id,
            .kind = r->kind,
            .proc = service->proc,
            .partition = s->lookup.partition->key.number,
            .n_blocks = prompt->n_sequence,
            .path = s->lookup.path,
            .expected_output_tokens =
                                      r->select.body->expected_output_tokens,
            .now = sel_clock_ns(),
            .session = {
                .id = s->session,
                .revision = s->binding.revision,
                .follows = r->kind == SEL_BOOKING_ROUTER
            },
            .n_hashes = sel_service_records(service) ? prompt->n_blocks : 0,
            .hashes = prompt->blocks
        };

        switch (sel_book(service->zone, &booking, service->scratch.loads,
                         s->n, sel_selection_choose, s, &chosen))
        {
        case SEL_BOOK_OK:
            sel_reserve_done(service);

            if (sel_selection_done(s, arena, r->id)) {
                return true;
            }

            (void) (r->kind == SEL_BOOKING_ROUTER
                    ? sel_served_free : sel_book_free)(service->zone, r->id);
            return sel_fault_memory(fault);

        case SEL_BOOK_TAKEN:
            return sel_reserve_taken(arena, r->id, fault);

        case SEL_BOOK_FULL:
            return sel_reserve_full(service, arena, r->id, fault);

        case SEL_BOOK_BOUND:
            return sel_session_bound(arena, s->session, &s->binding, s->rank,
                                     fault);

        default:

            /* all candidates went since the view was read, or the session
               was bound */
            break;
        }
    }

    return sel_reserve_unsteady(arena, fault);
}
