/*
 * Texts from outside, for the log.
 */

#ifndef NGX_HTTP_SELECT_TEXT_H
#define NGX_HTTP_SELECT_TEXT_H

#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_HTTP_SELECT_TEXT  256


/* A text that fits in a line of the log: control characters, which could
   begin another, are dots, and what is too long is cut. */
typedef struct {
    u_char  text[NGX_HTTP_SELECT_TEXT + 1];
} ngx_http_select_text_t;


u_char *ngx_http_select_printable(ngx_http_select_text_t *out,
    const void *data, size_t len);


#endif /* NGX_HTTP_SELECT_TEXT_H */
