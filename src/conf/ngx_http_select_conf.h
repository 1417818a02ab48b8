/*
 * The configuration: what the directives of docs/directives.md set.
 */

#ifndef NGX_HTTP_SELECT_CONF_H
#define NGX_HTTP_SELECT_CONF_H

#include "ngx/ngx_http_select.h"
#include "service/sel_settings.h"


/* a body of the API has at most this many bytes */
#define NGX_HTTP_SELECT_BODY   (8 * 1024 * 1024)

/* marks a floating-point setting that no directive has set */
#define NGX_HTTP_SELECT_UNSET  (-1.0)

/* "off" of a threshold */
#define NGX_HTTP_SELECT_OFF    (-2.0)

/* floating-point settings, see ngx_http_select_number.h */
#define NGX_HTTP_SELECT_NUMBERS  9


typedef struct {
    ngx_shm_zone_t  *zone;              /* NULL: the module has no work */
    ngx_str_t        zone_name;
    ngx_flag_t       kv_events;
    ngx_int_t        indexer_threads;   /* accepted, without effect */
    ngx_int_t        block_size;        /* of all workers */
    size_t           index_memory;
    ngx_msec_t       silence;           /* of KV events; 0: off */
    ngx_msec_t       expire;            /* age of a booking */
    ngx_msec_t       session_ttl;       /* 0: off */
    ngx_msec_t       approximate_ttl;
    ngx_msec_t       predicted_ttl;     /* 0: off */
    ngx_uint_t       lru;               /* approximate policy */
    ngx_uint_t       routes;            /* some upstream block is routed */
    ngx_uint_t       pending_set;
    ngx_msec_t       pending_ttl;
    ngx_uint_t       pending_max;
    size_t           pending_size;

    /* where settings of the http level come from, for the log */
    const char      *kv_events_from;
    const char      *index_memory_from;
    const char      *silence_from;
    const char      *expire_from;
    const char      *session_ttl_from;
    const char      *approximate_ttl_from;
    const char      *predicted_ttl_from;
    const char      *lru_from;
    const char      *pending_from;
    const char      *assume_kv_reuse_from;
    const char      *track_prefill_tokens_from;
    const char      *numbers_from[NGX_HTTP_SELECT_NUMBERS];
} ngx_http_select_main_conf_t;


/* of an upstream block */
typedef struct {
    ngx_uint_t       route;             /* select_route stands in it */
    ngx_uint_t       servers;           /* own servers */
    ngx_uint_t       in_force;          /* no other method has replaced it */
    ngx_uint_t       max_fails;
    ngx_msec_t       fail_timeout;
} ngx_http_select_srv_conf_t;


/* select_route_fallback */
typedef enum {
    NGX_HTTP_SELECT_FALLBACK_OFF = 0,
    NGX_HTTP_SELECT_FALLBACK_LOAD,
    NGX_HTTP_SELECT_FALLBACK_OPEN
} ngx_http_select_fallback_t;


typedef struct {
    off_t                      body_size;   /* client_max_body_size before
                                               we changed it */
    ngx_http_handler_pt    handler;     /* of this very location */
    ngx_flag_t             track_prefill_tokens;
    ngx_flag_t             assume_kv_reuse;
    ngx_flag_t             track_blocks;
    ngx_flag_t             load_aware;
    sel_route_settings_t   settings;    /* numbers are set in here */
    ngx_uint_t             fallback;
    ngx_http_complex_value_t
                          *group;       /* NULL: default */
    ngx_http_complex_value_t
                          *session;
    ngx_str_t              rank_header; /* len 0: off */
    unsigned               no_prefix:1; /* the whole URI is the route */
} ngx_http_select_loc_conf_t;


/* handlers that select_service and select_status put into locations */
typedef struct {
    ngx_http_handler_pt    service;
    ngx_http_handler_pt    status;
    ngx_http_handler_pt    router;

    /* makes select_route the method of an upstream block */
    ngx_int_t            (*route)(ngx_conf_t *cf,
                             ngx_http_upstream_srv_conf_t *us);
} ngx_http_select_handlers_t;


void *ngx_http_select_create_main_conf(ngx_conf_t *cf);
char *ngx_http_select_init_main_conf(ngx_conf_t *cf, void *conf);
void *ngx_http_select_create_srv_conf(ngx_conf_t *cf);
void *ngx_http_select_create_loc_conf(ngx_conf_t *cf);
char *ngx_http_select_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child);

/* Logs the effective settings of the http level, one line. */
void ngx_http_select_log_settings(ngx_cycle_t *cycle,
    ngx_http_select_main_conf_t *mcf);

extern ngx_command_t  ngx_http_select_commands[];

/* set by the module before the configuration is read */
extern ngx_http_select_handlers_t  ngx_http_select_handlers;

#endif /* NGX_HTTP_SELECT_CONF_H */
