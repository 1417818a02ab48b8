/*
 * One selection: a prompt, the ranks that may serve it, and the one that is
 * chosen.
 */

#ifndef SEL_SELECTION_H
#define SEL_SELECTION_H

#include "core/sel_buf.h"
#include "service/sel_lookup.h"
#include "service/sel_session_use.h"


/* Who may be chosen beyond what the request says; allows NULL: everybody. */
typedef struct {
    bool  (*allows)(void *data, const sel_view_rank_t *rank);
    void   *data;
} sel_allow_t;


/* What is asked for. */
typedef struct {
    const sel_route_settings_t  *settings;
    const sel_select_body_t     *body;
    sel_prompt_use_t             use;
    const sel_allow_t           *allow;         /* or NULL */
    bool                         books;         /* to be booked */
} sel_selecting_t;


typedef struct {
    sel_service_t               *service;
    sel_selecting_t              in;
    sel_lookup_t                 lookup;
    sel_cost_settings_t          cost;          /* the request's */
    sel_cost_prompt_t            prompt;
    sel_str_t                    session;       /* data NULL: none */
    sel_binding_t                binding;       /* that it has */
    uint32_t                     n;             /* candidates */

    /* the choice */
    const sel_view_rank_t       *rank;
    sel_candidate_t              candidate;
    uint64_t                     prefill_tokens;    /* effective */
} sel_selection_t;


/* The settings of a request: the route's, changed by its override. */
void sel_select_settings(const sel_cost_settings_t *settings,
    const sel_select_body_t *body, sel_cost_settings_t *out);

/* Looks the session and the prompt up and collects the candidates. */
bool sel_selection_begin(sel_selection_t *s, sel_service_t *service,
    sel_arena_t *arena, const sel_selecting_t *in, sel_fault_t *fault);

/*
 * Chooses, when the loads of the candidates have been read: a sel_choose_pt
 * for sel_book(), whose booking (or NULL) gets the prefill tokens to be
 * tracked.
 */
uint32_t sel_selection_choose(void *data, sel_booking_t *booking,
    const sel_rank_load_t *loads, uint32_t n);

/*
 * A choice that was made good: counts it and makes it the service's last one.
 * False when memory is exhausted.
 */
bool sel_selection_done(const sel_selection_t *s, sel_arena_t *arena,
    sel_str_t id);

/*
 * Prints the answer.  id: of the selection, data NULL: none; booked: with the
 * members of a reservation.
 */
void sel_selection_print(const sel_selection_t *s, sel_str_t id, bool booked,
    sel_buf_t *buf);


#endif /* SEL_SELECTION_H */
