/*
 * The engine's answer on its way to the client.
 */

#ifndef NGX_HTTP_SELECT_FILTER_H
#define NGX_HTTP_SELECT_FILTER_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/* Puts the filters and the handler before the content phase in force. */
ngx_int_t ngx_http_select_filter_init(ngx_conf_t *cf);


#endif /* NGX_HTTP_SELECT_FILTER_H */
