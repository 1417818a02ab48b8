/*
 * The variables: docs/router.md lists them.
 */

#ifndef NGX_HTTP_SELECT_VARIABLES_H
#define NGX_HTTP_SELECT_VARIABLES_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/* Before the configuration is read. */
ngx_int_t ngx_http_select_variables_add(ngx_conf_t *cf);


#endif /* NGX_HTTP_SELECT_VARIABLES_H */
