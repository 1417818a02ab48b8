/*
 * Look-ups of host names, in threads of their own: getaddrinfo() knows what
 * the host knows (hosts file, search domains), but it may wait for long, and
 * inside libzmq it would stop every other socket meanwhile.
 */

#ifndef NGX_HTTP_SELECT_NAMES_H
#define NGX_HTTP_SELECT_NAMES_H

#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_HTTP_SELECT_ADDRESS  64


typedef struct ngx_http_select_name_s  ngx_http_select_name_t;

/*
 * Called in the event loop: address is numeric IPv4 text, or NULL and reason
 * tells why.
 */
typedef void (*ngx_http_select_name_pt)(void *data, const char *address,
    const char *reason);


/*
 * Looks a host up and calls handler later.  NULL when memory, a thread or a
 * place in the event loop is missing.
 */
ngx_http_select_name_t *ngx_http_select_name_look_up(const char *host,
    size_t len, ngx_http_select_name_pt handler, void *data, ngx_log_t *log);

/* Nothing will be called for it any more. */
void ngx_http_select_name_cancel(ngx_http_select_name_t *name);

/* At the end of the process; does not wait for look-ups that hang. */
void ngx_http_select_names_stop(void);


#endif /* NGX_HTTP_SELECT_NAMES_H */
