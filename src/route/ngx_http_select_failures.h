/*
 * Ranks that failed: each process counts by itself.
 */

#ifndef NGX_HTTP_SELECT_FAILURES_H
#define NGX_HTTP_SELECT_FAILURES_H

#include "conf/ngx_http_select_conf.h"


/* Is a rank to be left out now? */
ngx_uint_t ngx_http_select_failing(const ngx_http_select_srv_conf_t *conf,
    uint16_t slot, uint32_t epoch);

/* It has failed, or not. */
void ngx_http_select_failed(const ngx_http_select_srv_conf_t *conf,
    uint16_t slot, uint32_t epoch, ngx_log_t *log);
void ngx_http_select_worked(uint16_t slot, uint32_t epoch);


#endif /* NGX_HTTP_SELECT_FAILURES_H */
