/*
 * An nginx module that is what the selection is measured against: a location
 * that reads the whole request body into memory, the way nginx's modules do,
 * and answers a fixed text.
 *
 *     location = /fixed { bench_answer 'text'; }
 *
 * It brings the tables that nginx's configure would make, so it is built by
 * one compiler call.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


typedef struct {
    ngx_str_t  text;
} ngx_bench_conf_t;


static void *ngx_bench_create_conf(ngx_conf_t *cf);
static char *ngx_bench_answer(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
static ngx_int_t ngx_bench_handler(ngx_http_request_t *r);
static void ngx_bench_body(ngx_http_request_t *r);
static ngx_int_t ngx_bench_send(ngx_http_request_t *r, ngx_str_t *text);


static ngx_command_t  ngx_bench_commands[] = {

    { ngx_string("bench_answer"),
      NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_bench_answer,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_bench_conf_t, text),
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_bench_ctx = {
    NULL,                                  /* preconfiguration */
    NULL,                                  /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_bench_create_conf,                 /* create location configuration */
    NULL                                   /* merge location configuration */
};


ngx_module_t  ngx_bench_answer_module = {
    NGX_MODULE_V1,
    &ngx_bench_ctx,                        /* module context */
    ngx_bench_commands,                    /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


extern ngx_module_t  *ngx_modules[];
extern char          *ngx_module_names[];
extern char          *ngx_module_order[];

ngx_module_t  *ngx_modules[] = { &ngx_bench_answer_module, NULL };
char          *ngx_module_names[] = { "ngx_bench_answer_module", NULL };
char          *ngx_module_order[] = { NULL };


static void *
ngx_bench_create_conf(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(ngx_bench_conf_t));
}


static char *
ngx_bench_answer(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    clcf->handler = ngx_bench_handler;

    return ngx_conf_set_str_slot(cf, cmd, conf);
}


static ngx_int_t
ngx_bench_handler(ngx_http_request_t *r)
{
    ngx_int_t  rc;

    rc = ngx_http_read_client_request_body(r, ngx_bench_body);

    return rc >= NGX_HTTP_SPECIAL_RESPONSE ? rc : NGX_DONE;
}


static void
ngx_bench_body(ngx_http_request_t *r)
{
    ngx_bench_conf_t  *conf;

    conf = ngx_http_get_module_loc_conf(r, ngx_bench_answer_module);

    ngx_http_finalize_request(r, ngx_bench_send(r, &conf->text));
}


static ngx_int_t
ngx_bench_send(ngx_http_request_t *r, ngx_str_t *text)
{
    ngx_int_t     rc;
    ngx_buf_t    *b;
    ngx_chain_t   out;

    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = text->len;
    ngx_str_set(&r->headers_out.content_type, "application/json");
    r->headers_out.content_type_len = r->headers_out.content_type.len;

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    b = ngx_calloc_buf(r->pool);

    if (b == NULL) {
        return NGX_ERROR;
    }

    b->pos = text->data;
    b->last = text->data + text->len;
    b->memory = 1;
    b->last_buf = 1;
    b->last_in_chain = 1;

    out.buf = b;
    out.next = NULL;

    return ngx_http_output_filter(r, &out);
}
