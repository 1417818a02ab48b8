/*
 * The module's own symbol, for request contexts.
 */

#ifndef NGX_HTTP_SELECT_H
#define NGX_HTTP_SELECT_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


extern ngx_module_t  ngx_http_select_module;


#endif /* NGX_HTTP_SELECT_H */
