/*
 * The path of a request below its location, and what is escaped in it.
 */

#ifndef NGX_HTTP_SELECT_PATH_H
#define NGX_HTTP_SELECT_PATH_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/*
 * The path behind the location's prefix, from its slash on, without the
 * query: raw as the client sent it, or, after a rewrite and in subrequests,
 * nginx's own URI (*raw is 0 then: there is nothing left to decode).
 * Locations that are exact, regular expressions or named have no prefix.
 * NGX_DECLINED when the path does not begin with a slash.
 */
ngx_int_t ngx_http_select_path(ngx_http_request_t *r, ngx_str_t *path,
    ngx_uint_t *raw);

/*
 * Whether a raw path is pattern, in which "*" stands for one segment that is
 * not empty; it is returned raw in param.
 */
ngx_uint_t ngx_http_select_path_match(const ngx_str_t *pattern,
    const ngx_str_t *path, ngx_str_t *param);

/*
 * Percent-decodes raw into the pool; form: "+" is a space too.  What is no
 * escape stays as it is.
 */
ngx_int_t ngx_http_select_decode(ngx_pool_t *pool, const ngx_str_t *raw,
    ngx_uint_t form, ngx_str_t *out);

/*
 * Finds a query parameter by name: NGX_OK found and decoded, NGX_DECLINED
 * absent, NGX_ABORT given twice, NGX_ERROR no memory.
 */
ngx_int_t ngx_http_select_query(ngx_http_request_t *r, const char *name,
    ngx_str_t *value);


#endif /* NGX_HTTP_SELECT_PATH_H */
