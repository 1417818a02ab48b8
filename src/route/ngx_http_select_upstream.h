/*
 * select_route as the method of an upstream block.
 */

#ifndef NGX_HTTP_SELECT_UPSTREAM_H
#define NGX_HTTP_SELECT_UPSTREAM_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/* Behind round robin's, which serves the block's own servers. */
ngx_int_t ngx_http_select_upstream_init(ngx_conf_t *cf,
    ngx_http_upstream_srv_conf_t *us);


#endif /* NGX_HTTP_SELECT_UPSTREAM_H */
