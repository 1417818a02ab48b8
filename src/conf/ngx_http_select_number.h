/*
 * Floating-point settings: nginx has no setter for them.  One table describes
 * each: directive, variable, default and range.
 */

#ifndef NGX_HTTP_SELECT_NUMBER_H
#define NGX_HTTP_SELECT_NUMBER_H

#include "conf/ngx_http_select_conf.h"


typedef struct {
    ngx_str_t    directive;
    const char  *variable;      /* of the environment: its default */
    const char  *name;          /* the reference's, for messages */
    double       value;         /* built-in default */
    double       max;           /* the minimum is 0 */
    size_t       offset;        /* in ngx_http_select_loc_conf_t */
    ngx_flag_t   off;           /* may be "off" */
} ngx_http_select_number_t;


extern const ngx_http_select_number_t
    ngx_http_select_numbers[NGX_HTTP_SELECT_NUMBERS];


/* A directive's handler; its row is found by the directive's name. */
char *ngx_http_select_set_number(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/*
 * Reads a finite number from text; NGX_ERROR when it is none.
 */
ngx_int_t ngx_http_select_parse_number(ngx_str_t *text, double *value);

/* The field of a row. */
#define ngx_http_select_number(conf, row)                                     \
    (*(double *) ((char *) (conf) + (row)->offset))


#endif /* NGX_HTTP_SELECT_NUMBER_H */
