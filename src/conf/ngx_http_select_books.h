/*
 * Directives of the http level that are times, and those of the books:
 * expiry, pending selections, the index that learns from bookings.
 */

#ifndef NGX_HTTP_SELECT_BOOKS_H
#define NGX_HTTP_SELECT_BOOKS_H

#include "conf/ngx_http_select_conf.h"


/* The range of a time; off: "off" is 0. */
typedef struct {
    ngx_msec_t   min;
    ngx_msec_t   max;
    ngx_flag_t   off;
    const char  *wrong;         /* what a time out of range is told */
} ngx_http_select_time_t;

extern ngx_http_select_time_t  ngx_http_select_silence_bounds;
extern ngx_http_select_time_t  ngx_http_select_expire_bounds;
extern ngx_http_select_time_t  ngx_http_select_session_bounds;
extern ngx_http_select_time_t  ngx_http_select_approximate_bounds;
extern ngx_http_select_time_t  ngx_http_select_predicted_bounds;
extern ngx_conf_enum_t         ngx_http_select_policies[];


/* Sets a time of the main configuration; post: its bounds. */
char *ngx_http_select_set_time(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

char *ngx_http_select_set_pending(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* The settings of the books: unset, and with their defaults, checked. */
void ngx_http_select_books_create(ngx_http_select_main_conf_t *mcf);
char *ngx_http_select_books_init(ngx_conf_t *cf,
    ngx_http_select_main_conf_t *mcf);


#endif /* NGX_HTTP_SELECT_BOOKS_H */
