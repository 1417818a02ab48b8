/*
 * The API families: each call of the route table, parsed, run and answered.
 */

#ifndef NGX_HTTP_SELECT_API_H
#define NGX_HTTP_SELECT_API_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "conf/ngx_http_select_conf.h"
#include "ngx/ngx_http_select_answer.h"
#include "service/sel_request.h"
#include "service/sel_service.h"


typedef struct ngx_http_select_call_s  ngx_http_select_call_t;

typedef ngx_int_t (*ngx_http_select_call_pt)(ngx_http_select_call_t *call);


/* One call.  arena, and everything in it, lives as long as the request. */
struct ngx_http_select_call_s {
    ngx_http_request_t          *r;
    ngx_http_select_loc_conf_t  *conf;
    sel_service_t               *service;
    sel_arena_t                  arena;
    ngx_str_t                    param;     /* the path's {...}, decoded */
    ngx_uint_t                   json;      /* the media type is */
    ngx_uint_t                   books;     /* a booking is answered */
    sel_str_t                    body;      /* of routes that read one */
    ngx_http_select_call_pt      run;       /* when it is there */
};


/* content handlers of select_service, select_router and select_status */
ngx_int_t ngx_http_select_service_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_select_router_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_select_status_handler(ngx_http_request_t *r);

/* workers */
ngx_int_t ngx_http_select_post_workers(ngx_http_select_call_t *call);
ngx_int_t ngx_http_select_get_workers(ngx_http_select_call_t *call);
ngx_int_t ngx_http_select_patch_worker(ngx_http_select_call_t *call);
ngx_int_t ngx_http_select_delete_worker(ngx_http_select_call_t *call);

/* Checks the path's worker id before the body is looked at. */
ngx_int_t ngx_http_select_check_worker_id(ngx_http_select_call_t *call);

/* health */
ngx_int_t ngx_http_select_get_health(ngx_http_select_call_t *call);
ngx_int_t ngx_http_select_get_ready(ngx_http_select_call_t *call);

/* selection */
ngx_int_t ngx_http_select_post_select(ngx_http_select_call_t *call);
ngx_int_t ngx_http_select_post_overlap_scores(ngx_http_select_call_t *call);
ngx_int_t ngx_http_select_post_potential_loads(ngx_http_select_call_t *call);
ngx_int_t ngx_http_select_post_best_worker(ngx_http_select_call_t *call);
ngx_int_t ngx_http_select_get_loads(ngx_http_select_call_t *call);

/* reservations */
ngx_int_t ngx_http_select_post_select_and_reserve(
    ngx_http_select_call_t *call);
ngx_int_t ngx_http_select_post_reservations(ngx_http_select_call_t *call);
ngx_int_t ngx_http_select_post_prefill_complete(ngx_http_select_call_t *call);
ngx_int_t ngx_http_select_post_output_block(ngx_http_select_call_t *call);
ngx_int_t ngx_http_select_delete_reservation(ngx_http_select_call_t *call);

/* Checks the path's reservation id before the body is looked at. */
ngx_int_t ngx_http_select_check_reservation_id(ngx_http_select_call_t *call);


/* What the families share. */

typedef bool (*ngx_http_select_read_pt)(sel_json_t *json,
    sel_select_body_t *body);

typedef bool (*ngx_http_select_run_pt)(sel_service_t *service,
    sel_arena_t *arena, const sel_route_settings_t *settings,
    const sel_select_body_t *body, sel_buf_t *buf, sel_fault_t *fault);

/* Reads a body with a prompt, runs an operation on it, answers. */
ngx_int_t ngx_http_select_prompt(ngx_http_select_call_t *call,
    ngx_http_select_read_pt read, ngx_http_select_run_pt run,
    ngx_uint_t status);

/* Answers a fault. */
ngx_int_t ngx_http_select_fault(ngx_http_select_call_t *call,
    const sel_fault_t *fault);

/* Answers what the JSON reader refused: 400 or 422. */
ngx_int_t ngx_http_select_refuse(ngx_http_select_call_t *call,
    const sel_json_t *json);

/* Answers a record that lies in the arena. */
ngx_int_t ngx_http_select_send_record(ngx_http_select_call_t *call,
    ngx_uint_t status, sel_str_t record);

/*
 * The query parameters model_name and routing_group, data NULL where absent:
 * NGX_OK, or what the handler must return after an answer was sent.
 */
ngx_int_t ngx_http_select_filters(ngx_http_select_call_t *call,
    sel_str_t *model_name, sel_str_t *routing_group);


#endif /* NGX_HTTP_SELECT_API_H */
