/*
 * The directives of the router: docs/router.md describes each.
 */

#ifndef NGX_HTTP_SELECT_ROUTING_H
#define NGX_HTTP_SELECT_ROUTING_H

#include "conf/ngx_http_select_conf.h"


extern ngx_conf_enum_t  ngx_http_select_fallbacks[];


char *ngx_http_select_set_route(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_select_set_rank_header(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* When all is read: that no other method has replaced select_route. */
ngx_int_t ngx_http_select_check_routes(ngx_conf_t *cf);

/* Whether a directive's first argument names the zone; logs if not. */
ngx_int_t ngx_http_select_check_zone(ngx_conf_t *cf,
    const ngx_http_select_main_conf_t *mcf, ngx_str_t *args);


#endif /* NGX_HTTP_SELECT_ROUTING_H */
