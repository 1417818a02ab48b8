#include <sys/eventfd.h>
#include "ngx/ngx_http_select_bells.h"


static int         ngx_http_select_bell_fds[NGX_HTTP_SELECT_BELLS];
static ngx_uint_t  ngx_http_select_bells_n;


void
ngx_http_select_bells_make(ngx_uint_t n, ngx_log_t *log)
{
    int  fd;

    n = ngx_min(n, NGX_HTTP_SELECT_BELLS);

    while (ngx_http_select_bells_n < n) {
        fd = eventfd(0, EFD_NONBLOCK|EFD_CLOEXEC);

        if (fd == -1) {
            ngx_log_error(NGX_LOG_WARN, log, ngx_errno, "eventfd() failed");
            return;
        }

        ngx_http_select_bell_fds[ngx_http_select_bells_n++] = fd;
    }
}


int
ngx_http_select_bell(ngx_uint_t number)
{
    return number < ngx_http_select_bells_n ? ngx_http_select_bell_fds[number]
                                            : -1;
}


/*
 * A full counter refuses the write, but then it has been readable for long:
 * its process has the wake-up already.
 */

void
ngx_http_select_bells_ring(void)
{
    uint64_t    one;
    ngx_uint_t  i;

    one = 1;

    for (i = 0; i < ngx_http_select_bells_n; i++) {
        if (write(ngx_http_select_bell_fds[i], &one, sizeof(one)) == -1) {
            continue;
        }
    }
}
