/*
 * A slow and obvious model of the service, for the random test: what the
 * workers are, and for each of two processes what it has looked at and which
 * blocks each rank holds there.
 *
 * A rank has a stamp for as long as it exists with one event source, and never
 * the stamp of another.  When a process looks, ranks whose stamp it has seen
 * keep their blocks, others that were registered lose them; a worker of whose
 * ranks none stays loses everything, also that of ranks that nobody
 * registered.
 */

#ifndef SERVICE_MODEL_H
#define SERVICE_MODEL_H

#include "sel_rand.h"
#include "service_expect.h"


#define MODEL_WORKERS     14
#define MODEL_RANKS       6         /* 0 ... 5 may be registered */
#define MODEL_PARTITIONS  4
#define MODEL_FAMILIES    3         /* prompts */
#define MODEL_BLOCKS      8         /* of a prompt */
#define MODEL_WORLDS      2


typedef struct {
    bool      exists;
    bool      schedulable;
    bool      endpoint;
    uint32_t  partition;
    uint32_t  block_size;
    uint32_t  start;
    uint32_t  size;
    uint32_t  replay;               /* 0: none */
    uint32_t  sources[MODEL_RANKS];
    uint32_t  taints;               /* bits */
    uint64_t  stamps[MODEL_RANKS];  /* 0: not registered */
} model_worker_t;


typedef struct {
    uint64_t  seen[MODEL_WORKERS][MODEL_RANKS];
    uint32_t  seen_partition[MODEL_WORKERS];
    uint32_t  blocks[MODEL_WORKERS][MODEL_RANKS][MODEL_FAMILIES];
} model_world_t;


typedef struct {
    uint64_t        stamp;
    uint32_t        block_size[MODEL_PARTITIONS];   /* 0: not made yet */
    model_worker_t  workers[MODEL_WORKERS];
    model_world_t   worlds[MODEL_WORLDS];
} model_t;


static const char *const  model_names[MODEL_PARTITIONS][2] = {
    { "m", "a" }, { "m", "b" }, { "n", "a" }, { "n", "b" }
};


static inline bool
model_consistent(const model_worker_t *worker)
{
    return worker->endpoint && worker->block_size != 0 && worker->size != 0
           && !(worker->size > 1 && worker->replay != 0)
           && worker->start + worker->size <= MODEL_RANKS;
}


/* Puts a worker's new record in force, with its stamps. */
static inline void
model_commit(model_t *model, uint32_t id, model_worker_t *next)
{
    uint32_t         r;
    model_worker_t  *old;

    old = &model->workers[id];
    next->exists = true;
    next->schedulable = false;

    if (model_consistent(next)) {
        if (model->block_size[next->partition] == 0) {
            model->block_size[next->partition] = next->block_size;
        }

        next->schedulable = model->block_size[next->partition]
                            == next->block_size;
    }

    for (r = 0; r < MODEL_RANKS; r++) {

        if (!next->schedulable || r < next->start
            || r >= next->start + next->size)
        {
            next->stamps[r] = 0;

        } else if (old->exists && old->schedulable && old->stamps[r] != 0
                   && old->partition == next->partition
                   && old->sources[r] == next->sources[r]
                   && old->replay == next->replay)
        {
            next->stamps[r] = old->stamps[r];

        } else {
            next->stamps[r] = ++model->stamp;
        }
    }

    *old = *next;
}


static inline void
model_delete(model_t *model, uint32_t id)
{
    memset(&model->workers[id], 0, sizeof(model_worker_t));
}


/* A process brings its view up to date. */
static inline void
model_look(model_t *model, uint32_t w)
{
    bool             kept;
    uint32_t         id, r;
    model_world_t   *world;
    const uint64_t  *stamps;

    world = &model->worlds[w];

    for (id = 0; id < MODEL_WORKERS; id++) {
        stamps = model->workers[id].stamps;
        kept = false;

        for (r = 0; r < MODEL_RANKS; r++) {
            kept |= stamps[r] != 0 && stamps[r] == world->seen[id][r];
        }

        for (r = 0; r < MODEL_RANKS; r++) {
            if (!kept || (world->seen[id][r] != 0
                          && world->seen[id][r] != stamps[r]))
            {
                memset(world->blocks[id][r], 0, sizeof(world->blocks[id][r]));
            }

            world->seen[id][r] = stamps[r];
        }

        world->seen_partition[id] = model->workers[id].partition;
    }
}


/* Consecutive blocks from the first. */
static inline uint32_t
model_credit(const model_t *model, uint32_t w, uint32_t id, uint32_t r,
    uint32_t family)
{
    uint32_t  n, bits;

    bits = model->worlds[w].blocks[id][r][family];

    for (n = 0; n < MODEL_BLOCKS && (bits >> n & 1) != 0; n++) {
        /* void */
    }

    return n;
}


/* Registered ranks of all schedulable workers. */
static inline uint32_t
model_ranks(const model_t *model)
{
    uint32_t  id, r, n;

    n = 0;

    for (id = 0; id < MODEL_WORKERS; id++) {
        for (r = 0; r < MODEL_RANKS; r++) {
            n += model->workers[id].stamps[r] != 0;
        }
    }

    return n;
}


static inline bool
model_partition_ready(const model_t *model, uint32_t partition)
{
    uint32_t  id;

    for (id = 0; id < MODEL_WORKERS; id++) {
        if (model->workers[id].schedulable
            && model->workers[id].partition == partition)
        {
            return true;
        }
    }

    return false;
}


static inline uint64_t
model_block(uint32_t family, uint32_t i)
{
    return 1000 * (family + 1) + i;
}


/* The members of the prompt of a family, as JSON. */
static inline void
model_prompt(sel_buf_t *text, uint32_t partition, uint32_t family)
{
    uint32_t  i, k;

    sel_buf_printf(text, "\"model_name\":\"%s\",\"routing_group\":\"%s\","
                   "\"isl_tokens\":%u", model_names[partition][0],
                   model_names[partition][1], 32 * MODEL_BLOCKS);

    for (k = 0; k < 2; k++) {
        sel_buf_text(text, k ? ",\"sequence_hashes\":[" : ",\"block_hashes\":"
                                                          "[");

        for (i = 0; i < MODEL_BLOCKS; i++) {
            sel_buf_printf(text, "%s%" PRIu64, i != 0 ? "," : "",
                           model_block(family, i));
        }

        sel_buf_byte(text, ']');
    }
}


#endif /* SERVICE_MODEL_H */
