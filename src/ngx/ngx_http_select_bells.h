/*
 * Bells: one eventfd a worker process number, made by the master before it
 * forks, so every process can wake every other.  Two generations share them
 * during a reload; that is why they are never read.
 */

#ifndef NGX_HTTP_SELECT_BELLS_H
#define NGX_HTTP_SELECT_BELLS_H

#include "ngx/ngx_http_select_watch.h"


#define NGX_HTTP_SELECT_BELLS  256


/*
 * In the master: makes sure that there are n bells, at most
 * NGX_HTTP_SELECT_BELLS; they never get fewer.  Those that cannot be made are
 * missed, not needed: a timer looks as well.
 */
void ngx_http_select_bells_make(ngx_uint_t n, ngx_log_t *log);

/* The bell of a worker process number, -1 when there is none. */
int ngx_http_select_bell(ngx_uint_t number);

/* Rings all of them. */
void ngx_http_select_bells_ring(void);


#endif /* NGX_HTTP_SELECT_BELLS_H */
