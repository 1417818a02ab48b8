/*
 * DYN_* variables of the environment: defaults of directives.  They are read
 * in the master while it reads the configuration.
 */

#ifndef NGX_HTTP_SELECT_ENV_H
#define NGX_HTTP_SELECT_ENV_H

#include "conf/ngx_http_select_number.h"


/*
 * Appends the names of all variables to nginx's `env` list, so that a binary
 * upgrade keeps them, and warns of those that have no effect here.
 */
char *ngx_http_select_env_init(ngx_conf_t *cf);

/* A variable's text; NULL when it is unset, which an empty one is, too. */
const char *ngx_http_select_env_get(const char *name);

/*
 * A variable's number; NGX_DECLINED when it is unset, or no number, which is
 * logged.
 */
ngx_int_t ngx_http_select_env_value(ngx_conf_t *cf, const char *name,
    double *value);

/*
 * The default of a flag that is on unless a variable says otherwise.  older,
 * the older name, may be NULL.  *from tells where it comes from.
 */
ngx_flag_t ngx_http_select_env_flag(ngx_conf_t *cf, const char *name,
    const char *older, const char **from);

/*
 * The default of a number: its variable's value or the built-in one.  NULL,
 * or NGX_CONF_ERROR after logging that a variable is out of range.
 */
char *ngx_http_select_env_number(ngx_conf_t *cf,
    const ngx_http_select_number_t *row, double *value, const char **from);


#endif /* NGX_HTTP_SELECT_ENV_H */
