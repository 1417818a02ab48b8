/*
 * A slow and obvious model of the block index, to stand beside the real one.
 * A block is known by the sequence of block hashes that leads to it, written
 * down as a path in a trie; no hash of a path is ever taken.  Per rank there
 * is one list of (external hash, path) pairs, searched from its start; a rank
 * owns a path as long as a pair names it.  Nothing else is kept.
 */

#ifndef INDEX_MODEL_H
#define INDEX_MODEL_H

#include <stdlib.h>
#include "index/sel_index.h"


#define MODEL_RANKS  1024       /* alive at one time */
#define MODEL_NONE   0xffffffff
#define MODEL_ROOT   0


typedef struct {
    uint64_t          external;
    uint32_t          path;
    uint32_t          pad;      /* 0: pairs are compared with memcmp() */
} model_pair_t;


typedef struct {
    uint64_t          worker;
    uint32_t          partition;
    uint32_t          rank;
    uint16_t          owner;
    uint32_t          n;
    uint32_t          cap;
    model_pair_t     *pairs;
} model_rank_t;


typedef struct {
    uint64_t          block;
    uint32_t          parent;
    uint32_t          depth;
    uint32_t          child;    /* first; the others by sibling */
    uint32_t          sibling;
    uint32_t          mark;
} model_path_t;


typedef struct {
    uint32_t          n_ranks;
    model_rank_t      ranks[MODEL_RANKS];
    uint32_t          n_paths;
    uint32_t          cap_paths;
    model_path_t     *paths;
    uint32_t          mark;
} model_t;


static inline void
model_init(model_t *model)
{
    memset(model, 0, sizeof(model_t));

    model->cap_paths = 1024;
    model->n_paths = 1;
    model->paths = calloc(model->cap_paths, sizeof(model_path_t));
    model->paths[MODEL_ROOT].child = MODEL_NONE;
}


static inline void
model_free(model_t *model)
{
    uint32_t  i;

    for (i = 0; i < model->n_ranks; i++) {
        free(model->ranks[i].pairs);
    }

    free(model->paths);
}


/* The path one block behind parent, MODEL_NONE when nobody made it. */
static inline uint32_t
model_path_find(const model_t *model, uint32_t parent, uint64_t block)
{
    uint32_t  path;

    path = model->paths[parent].child;

    while (path != MODEL_NONE && model->paths[path].block != block) {
        path = model->paths[path].sibling;
    }

    return path;
}


static inline uint32_t
model_path_make(model_t *model, uint32_t parent, uint64_t block)
{
    uint32_t       path;
    model_path_t  *p;

    path = model_path_find(model, parent, block);
    if (path != MODEL_NONE) {
        return path;
    }

    if (model->n_paths == model->cap_paths) {
        model->cap_paths *= 2;
        model->paths = realloc(model->paths,
                               model->cap_paths * sizeof(model_path_t));
    }

    path = model->n_paths++;

    p = &model->paths[path];
    p->block = block;
    p->parent = parent;
    p->depth = model->paths[parent].depth + 1;
    p->child = MODEL_NONE;
    p->sibling = model->paths[parent].child;
    p->mark = 0;

    model->paths[parent].child = path;

    return path;
}


/* Writes a path's block hashes to out (room for its depth); the depth. */
static inline uint32_t
model_path_blocks(const model_t *model, uint32_t path, uint64_t *out)
{
    uint32_t  depth;

    depth = model->paths[path].depth;

    for (; path != MODEL_ROOT; path = model->paths[path].parent) {
        out[model->paths[path].depth - 1] = model->paths[path].block;
    }

    return depth;
}


/* The rank that has an owner number, or that has a key; NULL: none alive. */
static inline model_rank_t *
model_rank(model_t *model, uint16_t owner)
{
    uint32_t  i;

    for (i = 0; i < model->n_ranks; i++) {
        if (model->ranks[i].owner == owner) {
            return &model->ranks[i];
        }
    }

    return NULL;
}


static inline model_rank_t *
model_rank_of(model_t *model, uint32_t partition, uint64_t worker,
    uint32_t rank)
{
    uint32_t       i;
    model_rank_t  *r;

    for (i = 0; i < model->n_ranks; i++) {
        r = &model->ranks[i];

        if (r->partition == partition && r->worker == worker
            && r->rank == rank)
        {
            return r;
        }
    }

    return NULL;
}


static inline model_rank_t *
model_rank_add(model_t *model, uint16_t owner, uint32_t partition,
    uint64_t worker, uint32_t rank)
{
    model_rank_t  *r;

    r = &model->ranks[model->n_ranks++];

    memset(r, 0, sizeof(model_rank_t));
    r->owner = owner;
    r->partition = partition;
    r->worker = worker;
    r->rank = rank;

    return r;
}


static inline void
model_rank_drop(model_t *model, model_rank_t *r)
{
    free(r->pairs);
    *r = model->ranks[--model->n_ranks];
}


/* The path of an external hash of the rank, MODEL_NONE when unknown. */
static inline uint32_t
model_known(const model_rank_t *r, uint64_t external)
{
    uint32_t  i;

    for (i = 0; i < r->n; i++) {
        if (r->pairs[i].external == external) {
            return r->pairs[i].path;
        }
    }

    return MODEL_NONE;
}


static inline bool
model_owns(const model_rank_t *r, uint32_t path)
{
    uint32_t  i;

    for (i = 0; i < r->n; i++) {
        if (r->pairs[i].path == path) {
            return true;
        }
    }

    return false;
}


/* Maps external to path, wherever it was before. */
static inline void
model_put(model_rank_t *r, uint64_t external, uint32_t path)
{
    uint32_t  i;

    for (i = 0; i < r->n; i++) {
        if (r->pairs[i].external == external) {
            r->pairs[i].path = path;
            return;
        }
    }

    if (r->n == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 16;
        r->pairs = realloc(r->pairs, r->cap * sizeof(model_pair_t));
    }

    r->pairs[r->n++] = (model_pair_t) { external, path, 0 };
}


static inline bool
model_take(model_rank_t *r, uint64_t external)
{
    uint32_t  i;

    for (i = 0; i < r->n; i++) {
        if (r->pairs[i].external == external) {
            r->pairs[i] = r->pairs[--r->n];
            return true;
        }
    }

    return false;
}


/* Applies a change as a whole; what the index should answer (but FULL). */
static inline sel_index_result_t
model_apply(model_t *model, const sel_index_change_t *change)
{
    bool           unknown;
    uint32_t       i, path;
    model_rank_t  *r;

    r = model_rank(model, change->owner);
    if (r == NULL) {
        return SEL_INDEX_NO_SUCH_OWNER;
    }

    if (change->kind == SEL_INDEX_CLEARED) {
        r->n = 0;
        return SEL_INDEX_OK;
    }

    if (change->kind == SEL_INDEX_REMOVED) {
        unknown = false;

        for (i = 0; i < change->n; i++) {
            if (!model_take(r, change->external[i])) {
                unknown = true;
            }
        }

        return unknown ? SEL_INDEX_UNKNOWN_BLOCK : SEL_INDEX_OK;
    }

    path = change->has_parent ? model_known(r, change->parent) : MODEL_ROOT;
    if (path == MODEL_NONE) {
        return SEL_INDEX_UNKNOWN_PARENT;
    }

    for (i = 0; i < change->n; i++) {
        path = model_path_make(model, path, change->block[i]);
        model_put(r, change->external[i], path);
    }

    return SEL_INDEX_OK;
}


/* Consecutive blocks from the first that the rank owns. */
static inline uint32_t
model_credit(const model_t *model, const model_rank_t *r,
    const uint64_t *blocks, uint32_t n)
{
    uint32_t  i, path;

    path = MODEL_ROOT;

    for (i = 0; i < n; i++) {
        path = model_path_find(model, path, blocks[i]);

        if (path == MODEL_NONE || !model_owns(r, path)) {
            break;
        }
    }

    return i;
}


/* Adds the paths of one rank that are not marked yet, and marks them. */
static inline uint64_t
model_mark(model_t *model, const model_rank_t *r)
{
    uint32_t       i;
    uint64_t       n;
    model_path_t  *p;

    n = 0;

    for (i = 0; i < r->n; i++) {
        p = &model->paths[r->pairs[i].path];

        if (p->mark != model->mark) {
            p->mark = model->mark;
            n++;
        }
    }

    return n;
}


/* Blocks that the rank owns. */
static inline uint64_t
model_blocks(model_t *model, const model_rank_t *r)
{
    model->mark++;

    return model_mark(model, r);
}


/* Distinct blocks of all ranks; those of two partitions are different. */
static inline uint64_t
model_nodes(model_t *model)
{
    uint32_t  i, k;
    uint64_t  n;

    n = 0;

    for (i = 0; i < model->n_ranks; i++) {
        for (k = 0; k < i; k++) {
            if (model->ranks[k].partition == model->ranks[i].partition) {
                break;
            }
        }

        if (k < i) {
            continue;           /* counted with the partition's first rank */
        }

        model->mark++;

        for (; k < model->n_ranks; k++) {
            if (model->ranks[k].partition == model->ranks[i].partition) {
                n += model_mark(model, &model->ranks[k]);
            }
        }
    }

    return n;
}


#endif /* INDEX_MODEL_H */
