#include "ngx/ngx_http_select_text.h"


u_char *
ngx_http_select_printable(ngx_http_select_text_t *out, const void *data,
    size_t len)
{
    size_t         i;
    const u_char  *p;

    p = data;
    len = ngx_min(len, NGX_HTTP_SELECT_TEXT);

    for (i = 0; i < len; i++) {
        out->text[i] = p[i] < ' ' || p[i] == 0x7f ? '.' : p[i];
    }

    out->text[i] = '\0';

    return out->text;
}
