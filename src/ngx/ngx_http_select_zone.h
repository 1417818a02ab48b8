/*
 * nginx's shared memory zone and ours inside it.
 */

#ifndef NGX_HTTP_SELECT_ZONE_H
#define NGX_HTTP_SELECT_ZONE_H

#include <ngx_config.h>
#include <ngx_core.h>
#include "state/sel_zone.h"


/* Declares the zone; NULL after logging what is wrong. */
ngx_shm_zone_t *ngx_http_select_zone_add(ngx_conf_t *cf, ngx_str_t *name,
    ssize_t size, void *tag);

/* Our handle of an initialised zone. */
sel_zone_t *ngx_http_select_zone_handle(ngx_shm_zone_t *shm_zone);


#endif /* NGX_HTTP_SELECT_ZONE_H */
