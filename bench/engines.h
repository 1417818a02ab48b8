/*
 * A trace becomes a list of operations: the look-up of each request, and what
 * the engine that it is dealt to says of its cache.
 *
 * Engines hold ids, at most ENGINES_CAPACITY blocks of them.  A request reuses
 * the longest prefix that its engine has, throws out what was used least
 * recently, and stores the rest, all at the time at which it arrives.  Each
 * 8,192 tokens, what a step of an engine takes, come in a message of their
 * own.  A prompt's first id counts as used last, so that of a prompt the end
 * goes first.
 */

#ifndef BENCH_ENGINES_H
#define BENCH_ENGINES_H

#include "pack.h"
#include "trace.h"
#include "core/sel_hash.h"


#define ENGINES_MAX       64
#define ENGINES_CAPACITY  16384         /* blocks of an engine */
#define ENGINES_SIZE      16            /* tokens of a block */
#define ENGINES_BLOCKS    (TRACE_TOKENS / ENGINES_SIZE)     /* of an id */
#define ENGINES_STEP      512           /* blocks stored by a message */


/* A look-up, and a message that its engine publishes then. */
typedef struct {
    uint64_t       at;                  /* ns from the start */
    uint32_t       engine;
    uint32_t       n;                   /* blocks of the prompt */
    uint64_t      *blocks;              /* their hashes; NULL: no look-up */
    bench_pack_t   message;             /* empty: none */
} engines_op_t;


/* An id that an engine holds; the list ends at the engine's head. */
typedef struct {
    uint32_t       id;
    uint32_t       blocks;
    uint32_t       newer;
    uint32_t       older;
} engines_held_t;


typedef struct {
    uint32_t        blocks;
    uint32_t        n_free;
    uint32_t        unused[ENGINES_CAPACITY + 1];
    engines_held_t  held[ENGINES_CAPACITY + 1];     /* 0: the list's head */
    uint32_t       *places;             /* in held, by id; 0: none */
} engines_engine_t;


typedef struct {
    uint32_t           n;
    uint32_t           cap;
    uint32_t           look_ups;
    uint64_t           looked_up;       /* blocks */
    uint64_t           stored;
    uint64_t           removed;
    uint64_t           messages;
    uint64_t           bytes;
    engines_op_t      *list;
} engines_ops_t;


/* What the blocks of an id are called, to begin with. */
static inline uint64_t
engines_name(uint32_t id, uint32_t block)
{
    return bench_mix(~((uint64_t) id * ENGINES_BLOCKS + block));
}


static inline uint32_t
engines_token(uint32_t id, uint32_t i)
{
    return bench_token((uint64_t) id * TRACE_TOKENS + i);
}


/* Complete blocks of the id at a place of a line. */
static inline uint32_t
engines_id_blocks(const trace_line_t *line, uint32_t i)
{
    uint32_t  left;

    left = line->tokens - i * TRACE_TOKENS;

    return left < TRACE_TOKENS ? left / ENGINES_SIZE : ENGINES_BLOCKS;
}


static inline void
engines_prompt(engines_op_t *op, const trace_line_t *line)
{
    uint32_t  i, k, n, tokens[TRACE_TOKENS];

    op->blocks = bench_alloc((size_t) line->n * TRACE_TOKENS);
    op->n = 0;

    for (i = 0; i < line->n; i++) {
        n = engines_id_blocks(line, i);

        for (k = 0; k < n * ENGINES_SIZE; k++) {
            tokens[k] = engines_token(line->ids[i], k);
        }

        op->n += sel_hash_blocks(tokens, n * ENGINES_SIZE, ENGINES_SIZE,
                                 false, SEL_HASH_SEED, NULL, 0,
                                 op->blocks + op->n);
    }
}


static inline void
engines_unlink(engines_engine_t *engine, uint32_t place)
{
    engines_held_t  *held;

    held = engine->held;

    held[held[place].newer].older = held[place].older;
    held[held[place].older].newer = held[place].newer;
}


static inline void
engines_newest(engines_engine_t *engine, uint32_t place)
{
    engines_held_t  *held;

    held = engine->held;

    held[place].newer = 0;
    held[place].older = held[0].older;
    held[held[0].older].newer = place;
    held[0].older = place;
}


/* Throws ids out until there is room; their blocks are removed. */
static inline uint32_t
engines_evict(engines_engine_t *engine, uint32_t need, uint64_t *names)
{
    uint32_t         i, n, place;
    engines_held_t  *held;

    n = 0;

    while (engine->blocks + need > ENGINES_CAPACITY) {

        place = engine->held[0].newer;
        held = &engine->held[place];

        if (place == 0) {
            bench_fail("a request is larger than an engine's cache");
        }

        for (i = 0; i < held->blocks; i++) {
            names[n++] = engines_name(held->id, i);
        }

        engines_unlink(engine, place);
        engine->places[held->id] = 0;
        engine->blocks -= held->blocks;
        engine->unused[engine->n_free++] = place;
    }

    return n;
}


static inline void
engines_hold(engines_engine_t *engine, uint32_t id, uint32_t blocks)
{
    uint32_t  place;

    place = engine->places[id];

    if (place != 0) {
        engines_unlink(engine, place);

    } else {
        place = engine->unused[--engine->n_free];
        engine->places[id] = place;
        engine->held[place].id = id;
        engine->held[place].blocks = blocks;
        engine->blocks += blocks;
    }

    engines_newest(engine, place);
}


static inline engines_op_t *
engines_op(engines_ops_t *ops, uint64_t at, uint32_t engine)
{
    engines_op_t  *op;

    if (ops->n == ops->cap) {
        ops->cap = 2 * ops->cap + 1024;
        ops->list = realloc(ops->list, ops->cap * sizeof(engines_op_t));

        if (ops->list == NULL) {
            bench_fail("out of memory");
        }
    }

    op = &ops->list[ops->n++];
    memset(op, 0, sizeof(engines_op_t));

    op->at = at;
    op->engine = engine;

    return op;
}


/* The blocks of a line from an id on: names and tokens. */
static inline uint32_t
engines_rest(const trace_line_t *line, uint32_t from, uint64_t *names,
    uint32_t *tokens)
{
    uint32_t  i, k, n, at;

    at = 0;

    for (i = from; i < line->n; i++) {
        n = engines_id_blocks(line, i);

        for (k = 0; k < n * ENGINES_SIZE; k++) {
            tokens[at * ENGINES_SIZE + k] = engines_token(line->ids[i], k);
        }

        for (k = 0; k < n; k++) {
            names[at++] = engines_name(line->ids[i], k);
        }
    }

    return at;
}


/* The messages of blocks that go, and of blocks that come behind an id. */
static inline void
engines_publish(engines_ops_t *ops, const trace_line_t *line,
    uint32_t from, const uint64_t *gone, uint32_t removed)
{
    uint32_t       i, n, stored, *tokens;
    uint64_t      *names, parent;
    engines_op_t  *op;

    names = bench_alloc(line->n * ENGINES_BLOCKS * sizeof(uint64_t));
    tokens = bench_alloc(line->n * TRACE_TOKENS * sizeof(uint32_t));

    stored = engines_rest(line, from, names, tokens);
    parent = from == 0 ? 0 : engines_name(line->ids[from - 1],
                                          ENGINES_BLOCKS - 1);
    op = &ops->list[ops->n - 1];

    for (i = 0; i < stored || removed != 0; i += n) {

        n = stored - i < ENGINES_STEP ? stored - i : ENGINES_STEP;

        if (op->message.len != 0) {
            op = engines_op(ops, op->at, op->engine);
        }

        bench_pack_open(&op->message, (removed != 0) + (n != 0));

        if (removed != 0) {
            bench_pack_removed(&op->message, gone, removed);
            removed = 0;
        }

        if (n != 0) {
            bench_pack_stored(&op->message, names + i, n,
                              from == 0 && i == 0 ? NULL : &parent,
                              tokens + i * ENGINES_SIZE, ENGINES_SIZE);
            parent = names[i + n - 1];
        }

        bench_pack_close(&op->message);

        ops->messages++;
        ops->bytes += op->message.len;
    }

    ops->stored += stored;

    free(names);
    free(tokens);
}


/* What an engine does with the request of the last operation. */
static inline void
engines_request(engines_ops_t *ops, engines_engine_t *engine,
    const trace_line_t *line)
{
    uint32_t   i, known, need, removed;
    uint64_t  *gone;

    gone = bench_alloc(ENGINES_CAPACITY * sizeof(uint64_t));
    need = 0;

    for (known = 0; known < line->n; known++) {
        if (engine->places[line->ids[known]] == 0) {
            break;
        }
    }

    for (i = known; i-- != 0; /* void */ ) {
        engines_hold(engine, line->ids[i], ENGINES_BLOCKS);
    }

    for (i = known; i < line->n; i++) {
        need += engines_id_blocks(line, i);
    }

    removed = engines_evict(engine, need, gone);
    ops->removed += removed;

    for (i = line->n; i-- != 0; /* void */ ) {
        if (engines_id_blocks(line, i) != 0) {
            engines_hold(engine, line->ids[i], engines_id_blocks(line, i));
        }
    }

    engines_publish(ops, line, known, gone, removed);
    free(gone);
}


static inline engines_engine_t *
engines_create(uint32_t n, uint32_t limit)
{
    uint32_t           i, k;
    engines_engine_t  *engines;

    engines = bench_alloc(n * sizeof(engines_engine_t));

    for (i = 0; i < n; i++) {
        engines[i].places = bench_alloc((size_t) limit * sizeof(uint32_t));

        for (k = ENGINES_CAPACITY; k != 0; k--) {
            engines[i].unused[engines[i].n_free++] = k;
        }
    }

    return engines;
}


/* Deals a trace to n engines and lets these do their part. */
static inline void
engines_play(engines_ops_t *ops, const trace_t *trace, uint32_t n,
    uint64_t seed)
{
    uint32_t           i, engine;
    uint64_t           at;
    sel_random_t       random;
    engines_op_t      *op;
    engines_engine_t  *engines;

    memset(ops, 0, sizeof(engines_ops_t));

    engines = engines_create(n, trace->limit);
    sel_random_seed_with(&random, seed);
    at = 0;

    for (i = 0; i < trace->n; i++) {
        at = trace->lines[i].at < at ? at : trace->lines[i].at;
        engine = (uint32_t) sel_random_below(&random, n);

        op = engines_op(ops, at, engine);
        engines_prompt(op, &trace->lines[i]);
        ops->look_ups++;
        ops->looked_up += op->n;

        engines_request(ops, &engines[engine], &trace->lines[i]);
    }

    for (i = 0; i < n; i++) {
        free(engines[i].places);
    }

    free(engines);
}


static inline void
engines_free(engines_ops_t *ops)
{
    uint32_t  i;

    for (i = 0; i < ops->n; i++) {
        free(ops->list[i].blocks);
        free(ops->list[i].message.data);
    }

    free(ops->list);
}


#endif /* BENCH_ENGINES_H */
