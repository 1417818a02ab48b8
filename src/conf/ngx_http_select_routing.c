#include "conf/ngx_http_select_routing.h"


static ngx_int_t ngx_http_select_route_parameter(ngx_conf_t *cf,
    ngx_http_select_srv_conf_t *conf, ngx_str_t *arg);
static ngx_int_t ngx_http_select_placeholder(ngx_conf_t *cf,
    ngx_http_upstream_srv_conf_t *us);
static ngx_int_t ngx_http_select_init_upstream(ngx_conf_t *cf,
    ngx_http_upstream_srv_conf_t *us);


ngx_conf_enum_t  ngx_http_select_fallbacks[] = {
    { ngx_string("off"), NGX_HTTP_SELECT_FALLBACK_OFF },
    { ngx_string("load"), NGX_HTTP_SELECT_FALLBACK_LOAD },
    { ngx_string("open"), NGX_HTTP_SELECT_FALLBACK_OPEN },
    { ngx_null_string, 0 }
};


ngx_int_t
ngx_http_select_check_zone(ngx_conf_t *cf,
    const ngx_http_select_main_conf_t *mcf, ngx_str_t *args)
{
    if (mcf->zone != NULL && mcf->zone_name.len == args[1].len
        && ngx_strncmp(mcf->zone_name.data, args[1].data, args[1].len) == 0)
    {
        return NGX_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "\"%V\" names the unknown zone \"%V\": a "
                       "\"select_zone\" of that name must stand before",
                       &args[0], &args[1]);

    return NGX_ERROR;
}


char *
ngx_http_select_set_route(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t                     *args;
    ngx_uint_t                     i;
    ngx_http_select_srv_conf_t    *scf;
    ngx_http_select_main_conf_t   *mcf;
    ngx_http_upstream_srv_conf_t  *us;

    args = cf->args->elts;
    mcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_select_module);
    scf = conf;
    us = ngx_http_conf_get_module_srv_conf(cf, ngx_http_upstream_module);

    if (scf->route) {
        return "is duplicate";
    }

    if (ngx_http_select_check_zone(cf, mcf, args) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    scf->route = 1;
    scf->max_fails = 1;
    scf->fail_timeout = 10000;
    mcf->routes = 1;

    for (i = 2; i < cf->args->nelts; i++) {
        if (ngx_http_select_route_parameter(cf, scf, &args[i]) != NGX_OK) {
            return NGX_CONF_ERROR;
        }
    }

    if (us->peer.init_upstream != NULL) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "load balancing method redefined");
    }

    us->peer.init_upstream = ngx_http_select_init_upstream;

    us->flags = NGX_HTTP_UPSTREAM_CREATE
                |NGX_HTTP_UPSTREAM_WEIGHT
                |NGX_HTTP_UPSTREAM_MAX_CONNS
                |NGX_HTTP_UPSTREAM_MAX_FAILS
                |NGX_HTTP_UPSTREAM_FAIL_TIMEOUT
                |NGX_HTTP_UPSTREAM_DOWN
                |NGX_HTTP_UPSTREAM_BACKUP;

    return ngx_http_select_placeholder(cf, us) == NGX_OK ? NGX_CONF_OK
                                                         : NGX_CONF_ERROR;
}


static ngx_int_t
ngx_http_select_route_parameter(ngx_conf_t *cf,
    ngx_http_select_srv_conf_t *conf, ngx_str_t *arg)
{
    ngx_int_t  value;
    ngx_str_t  text;

    if (ngx_strncmp(arg->data, "max_fails=", 10) == 0) {
        value = ngx_atoi(arg->data + 10, arg->len - 10);

        if (value != NGX_ERROR && value <= INT32_MAX) {
            conf->max_fails = (ngx_uint_t) value;
            return NGX_OK;
        }

    } else if (ngx_strncmp(arg->data, "fail_timeout=", 13) == 0) {
        text.data = arg->data + 13;
        text.len = arg->len - 13;
        value = ngx_parse_time(&text, 0);

        if (value != NGX_ERROR && value <= INT32_MAX) {
            conf->fail_timeout = (ngx_msec_t) value;
            return NGX_OK;
        }
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\" of \"select_route\"", arg);

    return NGX_ERROR;
}


/* The core refuses a block without a server; this one is never asked. */

static ngx_int_t
ngx_http_select_placeholder(ngx_conf_t *cf, ngx_http_upstream_srv_conf_t *us)
{
    ngx_addr_t                  *addr;
    ngx_http_upstream_server_t  *server;

    if (us->servers == NULL) {
        us->servers = ngx_array_create(cf->pool, 4,
                                       sizeof(ngx_http_upstream_server_t));
        if (us->servers == NULL) {
            return NGX_ERROR;
        }
    }

    server = ngx_array_push(us->servers);
    addr = ngx_pcalloc(cf->pool, sizeof(ngx_addr_t));

    if (server == NULL || addr == NULL) {
        return NGX_ERROR;
    }

    if (ngx_parse_addr(cf->pool, addr, (u_char *) "127.0.0.1", 9) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_inet_set_port(addr->sockaddr, 9);
    ngx_str_set(&addr->name, "select_route");

    ngx_memzero(server, sizeof(ngx_http_upstream_server_t));

    ngx_str_set(&server->name, "select_route");
    server->addrs = addr;
    server->naddrs = 1;
    server->weight = 1;
    server->max_fails = 1;
    server->fail_timeout = 10;
    server->down = 1;

    return NGX_OK;
}


ngx_int_t
ngx_http_select_check_routes(ngx_conf_t *cf)
{
    ngx_uint_t                       i;
    ngx_http_select_srv_conf_t      *scf;
    ngx_http_upstream_srv_conf_t   **us;
    ngx_http_upstream_main_conf_t   *umcf;

    umcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_upstream_module);
    us = umcf->upstreams.elts;

    for (i = 0; i < umcf->upstreams.nelts; i++) {

        if (us[i]->srv_conf == NULL) {
            continue;
        }

        scf = us[i]->srv_conf[ngx_http_select_module.ctx_index];

        if (scf->route && !scf->in_force) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "select_route in upstream \"%V\" is replaced by "
                          "another load balancing method in %s:%ui",
                          &us[i]->host, us[i]->file_name, us[i]->line);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_select_init_upstream(ngx_conf_t *cf, ngx_http_upstream_srv_conf_t *us)
{
    ngx_http_select_srv_conf_t  *scf;

    if (ngx_http_upstream_init_round_robin(cf, us) != NGX_OK) {
        return NGX_ERROR;
    }

    scf = us->srv_conf[ngx_http_select_module.ctx_index];
    scf->servers = us->servers->nelts - 1;
    scf->in_force = 1;

    return ngx_http_select_handlers.route(cf, us);
}


char *
ngx_http_select_set_rank_header(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    size_t                       i;
    ngx_str_t                   *args;
    ngx_http_select_loc_conf_t  *lcf = conf;

    if (lcf->rank_header.data != NULL) {
        return "is duplicate";
    }

    args = cf->args->elts;
    lcf->rank_header = args[1];

    if (ngx_strcmp(args[1].data, "off") == 0) {
        lcf->rank_header.len = 0;
        return NGX_CONF_OK;
    }

    for (i = 0; i < args[1].len; i++) {
        if (!((args[1].data[i] | 0x20) >= 'a'
              && (args[1].data[i] | 0x20) <= 'z')
            && !(args[1].data[i] >= '0' && args[1].data[i] <= '9')
            && args[1].data[i] != '-' && args[1].data[i] != '_')
        {
            return "is no header name";
        }
    }

    return args[1].len != 0 ? NGX_CONF_OK : "is no header name";
}
