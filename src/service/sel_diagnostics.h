/*
 * Why a worker's cache is not hit: what GET /workers?diagnostics=1 adds to
 * each record.
 */

#ifndef SEL_DIAGNOSTICS_H
#define SEL_DIAGNOSTICS_H

#include "service/sel_service.h"


/* Prints an array with an object for each of the worker's ranks. */
void sel_diagnostics_print(const sel_service_t *service,
    const sel_view_worker_t *worker, sel_json_out_t *out);


#endif /* SEL_DIAGNOSTICS_H */
