/*
 * All free pages of nginx's slab are taken at once, and the slab is never
 * called again: a process that is killed inside ngx_slab_alloc() leaves lists
 * that nothing repairs.
 */

#include "ngx/ngx_http_select_zone.h"


static ngx_int_t ngx_http_select_zone_init(ngx_shm_zone_t *shm_zone,
    void *data);


ngx_shm_zone_t *
ngx_http_select_zone_add(ngx_conf_t *cf, ngx_str_t *name, ssize_t size,
    void *tag)
{
    sel_zone_t      *zone;
    ngx_shm_zone_t  *shm_zone;

    shm_zone = ngx_shared_memory_add(cf, name, size, tag);

    if (shm_zone == NULL) {
        return NULL;
    }

    if (shm_zone->data != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "zone \"%V\" is already declared", name);
        return NULL;
    }

    zone = ngx_pcalloc(cf->pool, sizeof(sel_zone_t));

    if (zone == NULL) {
        return NULL;
    }

    shm_zone->init = ngx_http_select_zone_init;
    shm_zone->data = zone;

    return shm_zone;
}


/*
 * Runs in the master at each start and reload.  At a reload the old worker
 * processes use the zone, so nothing in it is changed.
 */

static ngx_int_t
ngx_http_select_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
    void             *base;
    size_t            size;
    sel_zone_t       *zone, *old;
    ngx_slab_pool_t  *slab;

    old = data;
    zone = shm_zone->data;

    if (old != NULL) {

        /* the handle was made by the module as it was loaded then */

        if (sel_zone_attach(zone, old->header)) {
            return NGX_OK;
        }

        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                      "select_zone \"%V\" was made by another version of the "
                      "module: nginx must be restarted", &shm_zone->shm.name);
        return NGX_ERROR;
    }

    slab = (ngx_slab_pool_t *) shm_zone->shm.addr;

    if (shm_zone->shm.exists) {
        return sel_zone_attach(zone, slab->data) ? NGX_OK : NGX_ERROR;
    }

    size = slab->pfree << ngx_pagesize_shift;
    base = ngx_slab_alloc(slab, size);

    if (base == NULL || !sel_zone_format(zone, base, size)) {
        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                      "select_zone \"%V\" of %uz bytes is too small",
                      &shm_zone->shm.name, shm_zone->shm.size);
        return NGX_ERROR;
    }

    slab->data = base;

    ngx_log_error(NGX_LOG_NOTICE, shm_zone->shm.log, 0,
                  "select_zone \"%V\": a new, empty zone of %uz bytes",
                  &shm_zone->shm.name, shm_zone->shm.size);

    return NGX_OK;
}


sel_zone_t *
ngx_http_select_zone_handle(ngx_shm_zone_t *shm_zone)
{
    return shm_zone->data;
}
