/*
 * The body is read where nginx has put it, in memory or in a file, without a
 * copy of it as a whole.
 */

#include "core/sel_json_read.h"
#include "route/ngx_http_select_prompt.h"


/* bytes of a file read at once */
#define NGX_HTTP_SELECT_PROMPT_READ  65536

/* a body is looked into up to this size, as in the API */
#define NGX_HTTP_SELECT_PROMPT_BODY  (8 * 1024 * 1024)


typedef struct {
    ngx_chain_t  *next;
    ngx_buf_t    *file;         /* being read */
    off_t         pos;
    u_char       *buf;          /* NULL: none yet */
    sel_arena_t  *arena;
} ngx_http_select_prompt_t;


static size_t ngx_http_select_prompt_more(void *source,
    const uint8_t **data);
static size_t ngx_http_select_prompt_file(ngx_http_select_prompt_t *p,
    const uint8_t **data);
static bool ngx_http_select_prompt_try(ngx_http_request_t *r,
    sel_arena_t *arena, sel_select_body_t *body, bool ids);
static bool ngx_http_select_prompt_member(sel_json_t *json, sel_str_t name,
    sel_select_body_t *body, bool ids);


off_t
ngx_http_select_prompt_size(const ngx_http_request_t *r)
{
    off_t         size;
    ngx_chain_t  *cl;

    size = 0;

    for (cl = r->request_body != NULL ? r->request_body->bufs : NULL;
         cl != NULL;
         cl = cl->next)
    {
        size += ngx_buf_size(cl->buf);
    }

    return size;
}


bool
ngx_http_select_prompt_read(ngx_http_request_t *r, sel_arena_t *arena,
    sel_select_body_t *body)
{
    *body = (sel_select_body_t) { 0 };

    return ngx_http_select_prompt_size(r) <= NGX_HTTP_SELECT_PROMPT_BODY
           && (ngx_http_select_prompt_try(r, arena, body, true)
               || ngx_http_select_prompt_try(r, arena, body, false));
}


/* ids: arrays that may be a prompt are read, and must be token ids. */

static bool
ngx_http_select_prompt_try(ngx_http_request_t *r, sel_arena_t *arena,
    sel_select_body_t *body, bool ids)
{
    int                       rc;
    sel_str_t                 name;
    sel_json_t                json;
    ngx_http_select_prompt_t  p;

    *body = (sel_select_body_t) { 0 };

    p = (ngx_http_select_prompt_t) {
        .next = r->request_body->bufs, .arena = arena
    };

    sel_json_init(&json, arena, ngx_http_select_prompt_more, &p);

    rc = -1;

    if (sel_json_peek(&json) == SEL_JSON_OBJECT
        && sel_json_object_begin(&json))
    {
        while ((rc = sel_json_object_next(&json, &name)) == 1) {
            if (!ngx_http_select_prompt_member(&json, name, body, ids)) {
                return false;
            }
        }
    }

    if (rc != 0 || !sel_json_end(&json)) {
        body->prompt.token_ids.n = 0;
    }

    return body->prompt.token_ids.n != 0;
}


/* What is of another type than it should be counts as absent. */

static bool
ngx_http_select_prompt_member(sel_json_t *json, sel_str_t name,
    sel_select_body_t *body, bool ids)
{
    sel_json_type_t  type;

    type = sel_json_peek(json);

    if (type == SEL_JSON_ARRAY && ids
        && (sel_str_eq(name, sel_str("token_ids"))
            || sel_str_eq(name, sel_str("prompt"))))
    {
        body->given |= 1u << SEL_PROMPT_TOKEN_IDS;
        return sel_json_u32_list(json, &body->prompt.token_ids);
    }

    if (type == SEL_JSON_STRING) {

        if (sel_str_eq(name, sel_str("model"))) {
            return sel_json_string(json, &body->model_name);
        }

        if (sel_str_eq(name, sel_str("lora_name"))) {
            return sel_json_string(json, &body->prompt.lora_name);
        }

        if (sel_str_eq(name, sel_str("cache_salt"))) {
            return sel_json_string(json, &body->prompt.cache_salt);
        }
    }

    return sel_json_skip(json);
}


static size_t
ngx_http_select_prompt_more(void *source, const uint8_t **data)
{
    size_t                     len;
    ngx_buf_t                 *b;
    ngx_http_select_prompt_t  *p = source;

    if (p->file != NULL) {
        len = ngx_http_select_prompt_file(p, data);

        if (len != 0) {
            return len;
        }

        p->file = NULL;
    }

    while (p->next != NULL) {
        b = p->next->buf;
        p->next = p->next->next;

        if (ngx_buf_in_memory(b)) {

            if (b->last > b->pos) {
                *data = b->pos;
                return b->last - b->pos;
            }

        } else if (b->in_file && b->file_last > b->file_pos) {
            p->file = b;
            p->pos = b->file_pos;

            return ngx_http_select_prompt_file(p, data);
        }
    }

    return 0;
}


/* What cannot be read ends the text there, and so the prompt. */

static size_t
ngx_http_select_prompt_file(ngx_http_select_prompt_t *p, const uint8_t **data)
{
    off_t    left;
    ssize_t  n;

    left = p->file->file_last - p->pos;

    if (left <= 0) {
        return 0;
    }

    if (p->buf == NULL) {
        p->buf = sel_arena_alloc(p->arena, NGX_HTTP_SELECT_PROMPT_READ);

        if (p->buf == NULL) {
            return 0;
        }
    }

    n = ngx_read_file(p->file->file, p->buf,
                      ngx_min(left, NGX_HTTP_SELECT_PROMPT_READ), p->pos);

    if (n <= 0) {
        return 0;
    }

    p->pos += n;
    *data = p->buf;

    return n;
}
