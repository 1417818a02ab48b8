/*
 * A reader that follows the catalog by its changes, as every process does:
 * it keeps which workers there are and at which version, and starts again
 * when the catalog says that it cannot know of all deletions.  Deletions
 * forgotten before its start do not concern it.
 */

#ifndef CATALOG_READER_H
#define CATALOG_READER_H

#include "catalog_model.h"


#define CAT_VIEW_MAX   4096
#define CAT_BATCH_MAX  64


typedef struct {
    uint64_t            since;
    uint64_t            restarts;
    uint64_t            forgotten;  /* when it began with since 0 */
    uint32_t            n;
    uint64_t            ids[CAT_VIEW_MAX];
    uint64_t            versions[CAT_VIEW_MAX];
} cat_reader_t;


/* What is looked at in each record that is read; may be NULL. */
typedef const char *(*cat_record_pt)(void *data,
    const sel_worker_record_t *record);


static inline uint32_t
cat_reader_find(const cat_reader_t *reader, uint64_t worker_id)
{
    uint32_t  i;

    for (i = 0; i < reader->n; i++) {
        if (reader->ids[i] == worker_id) {
            break;
        }
    }

    return i;
}


static inline const char *
cat_reader_take(cat_reader_t *reader, const sel_worker_record_t *record)
{
    uint32_t  i;

    if (record->version <= reader->since) {
        return "a change that was read before";
    }

    reader->since = record->version;
    i = cat_reader_find(reader, record->worker_id);

    if (record->state == SEL_WORKER_GONE) {
        if (record->n_ranks != 0 || record->partition != 0) {
            return "a tomb with ranks or a partition";
        }

        if (i < reader->n) {
            reader->n--;
            reader->ids[i] = reader->ids[reader->n];
            reader->versions[i] = reader->versions[reader->n];
        }

        return NULL;
    }

    if (i == CAT_VIEW_MAX) {
        return "too many workers for the reader";
    }

    if (i == reader->n) {
        reader->n++;
        reader->ids[i] = record->worker_id;
    }

    reader->versions[i] = record->version;

    return NULL;
}


/* One batch of at most max records; *more is false when nothing came. */
static inline const char *
cat_reader_batch(cat_reader_t *reader, sel_zone_t *zone, uint32_t max,
    cat_record_pt look, void *data, bool *more)
{
    int                  i, n;
    const char          *error;
    sel_arena_t          arena;
    sel_worker_record_t  records[CAT_BATCH_MAX];

    sel_arena_init(&arena, 0);

    if (reader->since == 0) {
        reader->forgotten = sel_catalog_forgotten(zone);
    }

    n = sel_catalog_changes(zone, reader->since, max, &arena, records);

    if (n < 0 || n > (int) max) {
        return "changes: not between 0 and max records";
    }

    error = NULL;
    *more = n > 0;

    if (reader->since != 0 && sel_catalog_forgotten(zone) > reader->since
        && sel_catalog_forgotten(zone) != reader->forgotten)
    {
        *more = true;
        reader->restarts++;
        reader->since = 0;
        reader->n = 0;
        n = 0;
    }

    for (i = 0; i < n && error == NULL; i++) {
        error = cat_reader_take(reader, &records[i]);

        if (error == NULL && look != NULL) {
            error = look(data, &records[i]);
        }
    }

    sel_arena_free(&arena);

    return error;
}


/*
 * Reads until nothing comes any more.  While nobody writes this must not
 * start again more than once.
 */
static inline const char *
cat_reader_follow(cat_reader_t *reader, sel_zone_t *zone, uint32_t max,
    cat_record_pt look, void *data)
{
    bool         more;
    uint64_t     restarts;
    const char  *error;

    restarts = reader->restarts;

    do {
        error = cat_reader_batch(reader, zone, max, look, data, &more);

        if (error == NULL && reader->restarts > restarts + 1) {
            error = "a reader starts again for ever";
        }

    } while (error == NULL && more);

    return error;
}


#endif /* CATALOG_READER_H */
