#include "ngx/ngx_http_select_process.h"
#include "route/ngx_http_select_failures.h"


typedef struct {
    uint32_t    epoch;
    uint32_t    fails;
    ngx_msec_t  since;          /* the first of them */
    ngx_msec_t  last;
} ngx_http_select_failure_t;


static ngx_http_select_failure_t *ngx_http_select_failure(uint16_t slot,
    uint32_t epoch);


/* by slot; NULL: nobody failed yet */
static ngx_http_select_failure_t  *ngx_http_select_failures;


ngx_uint_t
ngx_http_select_failing(const ngx_http_select_srv_conf_t *conf, uint16_t slot,
    uint32_t epoch)
{
    ngx_http_select_failure_t  *failure;

    failure = ngx_http_select_failure(slot, epoch);

    return failure != NULL && conf->max_fails != 0
           && failure->fails >= conf->max_fails
           && ngx_current_msec - failure->last < conf->fail_timeout;
}


void
ngx_http_select_failed(const ngx_http_select_srv_conf_t *conf, uint16_t slot,
    uint32_t epoch, ngx_log_t *log)
{
    sel_service_t              *service;
    ngx_http_select_failure_t  *failure;

    service = ngx_http_select_service();

    if (ngx_http_select_failures == NULL && service != NULL) {
        ngx_http_select_failures = ngx_calloc(service->zone->n_slots
                                      * sizeof(ngx_http_select_failure_t),
                                      log);
    }

    if (ngx_http_select_failures == NULL || service == NULL
        || slot >= service->zone->n_slots)
    {
        return;
    }

    failure = &ngx_http_select_failures[slot];

    if (failure->epoch != epoch
        || ngx_current_msec - failure->since >= conf->fail_timeout)
    {
        failure->epoch = epoch;
        failure->fails = 0;
        failure->since = ngx_current_msec;
    }

    failure->fails++;
    failure->last = ngx_current_msec;
}


void
ngx_http_select_worked(uint16_t slot, uint32_t epoch)
{
    ngx_http_select_failure_t  *failure;

    failure = ngx_http_select_failure(slot, epoch);

    if (failure != NULL) {
        failure->fails = 0;
    }
}


static ngx_http_select_failure_t *
ngx_http_select_failure(uint16_t slot, uint32_t epoch)
{
    ngx_http_select_failure_t  *failure;

    if (ngx_http_select_failures == NULL) {
        return NULL;
    }

    failure = &ngx_http_select_failures[slot];

    return failure->epoch == epoch ? failure : NULL;
}
