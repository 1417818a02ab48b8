#include "conf/ngx_http_select_conf.h"
#include "http/ngx_http_select_path.h"


static void ngx_http_select_prefix(ngx_http_request_t *r, ngx_str_t *prefix);
static u_char *ngx_http_select_unescape(u_char *p, u_char *last, u_char *out);


ngx_int_t
ngx_http_select_path(ngx_http_request_t *r, ngx_str_t *path, ngx_uint_t *raw)
{
    u_char     *p, *last, ch;
    size_t      i;
    ngx_str_t   prefix;

    *raw = (r == r->main && r->valid_unparsed_uri);

    if (*raw) {
        p = r->unparsed_uri.data;
        last = p + r->unparsed_uri.len;

        path->data = ngx_strlchr(p, last, '?');
        last = path->data != NULL ? path->data : last;

    } else {
        p = r->uri.data;
        last = p + r->uri.len;
    }

    ngx_http_select_prefix(r, &prefix);

    for (i = 0; i < prefix.len && p < last; i++) {

        if (*raw) {
            p = ngx_http_select_unescape(p, last, &ch);

        } else {
            ch = *p++;
        }

        if (ch != prefix.data[i]) {
            return NGX_DECLINED;
        }
    }

    if (i < prefix.len || p == last || *p != '/') {
        return NGX_DECLINED;
    }

    path->data = p;
    path->len = last - p;

    return NGX_OK;
}


/* The slash that a location ends with belongs to the path. */

static void
ngx_http_select_prefix(ngx_http_request_t *r, ngx_str_t *prefix)
{
    ngx_http_core_loc_conf_t    *clcf;
    ngx_http_select_loc_conf_t  *conf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
    conf = ngx_http_get_module_loc_conf(r, ngx_http_select_module);

    *prefix = clcf->name;

    if (conf->no_prefix || prefix->len == 0) {
        prefix->len = 0;

    } else if (prefix->data[prefix->len - 1] == '/') {
        prefix->len--;
    }
}


/* One character, from one byte or from an escape; returns what is behind. */

static u_char *
ngx_http_select_unescape(u_char *p, u_char *last, u_char *out)
{
    ngx_int_t  value;

    if (*p == '%' && last - p >= 3) {
        value = ngx_hextoi(p + 1, 2);

        if (value != NGX_ERROR) {
            *out = (u_char) value;
            return p + 3;
        }
    }

    *out = *p;

    return p + 1;
}


ngx_uint_t
ngx_http_select_path_match(const ngx_str_t *pattern, const ngx_str_t *path,
    ngx_str_t *param)
{
    u_char  *p, *q, *last, *end;

    ngx_str_null(param);

    p = pattern->data;
    last = p + pattern->len;
    q = path->data;
    end = q + path->len;

    while (p < last && q < end) {

        if (*p == '*') {
            param->data = q;

            while (q < end && *q != '/') {
                q++;
            }

            param->len = q - param->data;

            if (param->len == 0) {
                return 0;
            }

            p++;
            continue;
        }

        if (*p++ != *q++) {
            return 0;
        }
    }

    return p == last && q == end;
}


ngx_int_t
ngx_http_select_decode(ngx_pool_t *pool, const ngx_str_t *raw, ngx_uint_t form,
    ngx_str_t *out)
{
    u_char  *p, *last, *q;

    q = ngx_pnalloc(pool, raw->len + 1);

    if (q == NULL) {
        return NGX_ERROR;
    }

    out->data = q;
    p = raw->data;
    last = p + raw->len;

    while (p < last) {
        if (form && *p == '+') {
            *q++ = ' ';
            p++;
            continue;
        }

        p = ngx_http_select_unescape(p, last, q++);
    }

    *q = '\0';
    out->len = q - out->data;

    return NGX_OK;
}


ngx_int_t
ngx_http_select_query(ngx_http_request_t *r, const char *name,
    ngx_str_t *value)
{
    u_char      *p, *last, *end, *equal;
    ngx_int_t    found;
    ngx_str_t    raw, key;

    found = NGX_DECLINED;
    p = r->args.data;
    last = p + r->args.len;

    while (p < last) {
        end = ngx_strlchr(p, last, '&');
        end = end != NULL ? end : last;

        equal = ngx_strlchr(p, end, '=');
        equal = equal != NULL ? equal : end;

        raw.data = p;
        raw.len = equal - p;

        if (ngx_http_select_decode(r->pool, &raw, 1, &key) != NGX_OK) {
            return NGX_ERROR;
        }

        if (key.len == ngx_strlen(name)
            && ngx_strncmp(key.data, name, key.len) == 0)
        {
            if (found == NGX_OK) {
                return NGX_ABORT;
            }

            raw.data = equal < end ? equal + 1 : end;
            raw.len = end - raw.data;
            found = NGX_OK;

            if (ngx_http_select_decode(r->pool, &raw, 1, value) != NGX_OK) {
                return NGX_ERROR;
            }
        }

        p = end + 1;
    }

    return found;
}
