/*
 * Random registrations, changes, deletions, events and selections in two
 * processes on one zone, beside a model.  Without it some order of changes
 * could leave a process with workers that are gone, ranks with blocks they
 * lost, or slots that nobody uses and nobody frees.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "index/sel_index_check.h"
#include "state_test.h"
#include "service_random.h"


#define BATCHES  400
#define STEPS    12


/*
 * A random change of the blocks of one prompt, in a rank of which bits tells
 * what it holds; false when it removes what is not there.
 */
static bool
some_change(sel_index_change_t *change, uint32_t *bits)
{
    bool      known;
    uint32_t  i, family, first;

    static uint64_t  blocks[MODEL_BLOCKS], externals[MODEL_BLOCKS];

    memset(change, 0, sizeof(*change));
    change->block = blocks;
    change->external = externals;
    family = below(MODEL_FAMILIES);
    first = 0;
    known = true;

    if (below(20) == 0) {
        change->kind = SEL_INDEX_CLEARED;
        memset(bits, 0, MODEL_FAMILIES * sizeof(*bits));
        return true;
    }

    change->kind = below(3) ? SEL_INDEX_STORED : SEL_INDEX_REMOVED;

    if (change->kind == SEL_INDEX_REMOVED) {
        first = below(MODEL_BLOCKS);
    }

    change->n = 1 + below(MODEL_BLOCKS - first);

    for (i = 0; i < change->n; i++) {
        blocks[i] = model_block(family, first + i);
        externals[i] = blocks[i] ^ UINT64_MAX;

        if (change->kind == SEL_INDEX_STORED) {
            bits[family] |= 1u << i;

        } else {
            known &= bits[family] >> (first + i) & 1;
            bits[family] &= ~(1u << (first + i));
        }
    }

    return known;
}


/* An event on the stream of a rank that this process knows. */
static void
step_event(uint32_t w)
{
    bool                 known;
    uint32_t             id, r, rank;
    sel_index_result_t   result;
    world_listener_t    *listener;
    sel_index_change_t   change;

    id = below(MODEL_WORKERS);
    r = below(MODEL_RANKS);
    listener = world_listener(&worlds[w], id, r);
    assert_true((listener != NULL)
                == (model.worlds[w].seen[id][r] != 0));

    if (listener == NULL) {
        return;
    }

    rank = below(3) ? r : below(MODEL_RANKS);
    known = some_change(&change, model.worlds[w].blocks[id][rank]);
    result = listener->sink.apply(listener->sink.data, rank, &change);

    /* a rank that was never heard of may be told apart from an empty one */
    if (known ? result != SEL_INDEX_OK
              : result != SEL_INDEX_UNKNOWN_BLOCK
                && !(rank != r && result == SEL_INDEX_NO_SUCH_OWNER))
    {
        fail_msg("batch %u: event kind %d on %u/%u for %u gives %d", batch,
                 change.kind, id, r, rank, result);
    }
}


/* The most blocks that an eligible rank holds; -1: nobody is eligible. */
static int
best_of(uint32_t w, uint32_t partition, uint32_t family, uint32_t required,
    uint64_t allowed)
{
    int                    best, credit;
    uint32_t               id, r;
    const model_worker_t  *worker;

    best = -1;

    for (id = 0; id < MODEL_WORKERS; id++) {
        worker = &model.workers[id];

        if (!worker->schedulable || worker->partition != partition
            || (worker->taints & required) != required
            || (allowed >> id & 1) == 0)
        {
            continue;
        }

        for (r = worker->start; r < worker->start + worker->size; r++) {
            credit = (int) model_credit(&model, w, id, r, family);
            best = credit > best ? credit : best;
        }
    }

    return best;
}


static void
step_select(uint32_t w)
{
    int        best;
    bool       done;
    json_t    *root;
    uint32_t   i, partition, family, required, id, r;
    uint64_t   allowed;

    partition = below(MODEL_PARTITIONS);
    family = below(MODEL_FAMILIES);
    required = below(2) ? 0 : below(4);
    allowed = below(2) ? UINT64_MAX : sel_rand(&rnd);

    text.len = 0;
    sel_buf_byte(&text, '{');
    model_prompt(&text, partition, family);
    sel_buf_printf(&text, ",\"routing_constraints\":{\"required_taints\":"
                   "[%s%s%s]}", required & 1 ? "\"t0\"" : "",
                   required == 3 ? "," : "", required & 2 ? "\"t1\"" : "");

    if (allowed != UINT64_MAX) {
        sel_buf_text(&text, ",\"allowed_worker_ids\":[99");

        for (i = 0; i < MODEL_WORKERS; i++) {
            if ((allowed >> i & 1) != 0) {
                sel_buf_printf(&text, ",%u", i);
            }
        }

        sel_buf_byte(&text, ']');
    }

    sel_buf_byte(&text, '}');
    done = world_select(&worlds[w], ended());
    model_look(&model, w);
    best = best_of(w, partition, family, required, allowed);
    assert_true(done == (best >= 0));

    if (!done) {
        world_expect_fault(&worlds[w], SEL_FAULT_NOT_READY,
                           model_partition_ready(&model, partition)
                           ? "no endpoints available to route work" : NULL);
        return;
    }

    root = world_json(&worlds[w]);
    id = (uint32_t) json_integer_value(json_object_get(root, "worker_id"));
    r = (uint32_t) json_integer_value(json_object_get(root, "dp_rank"));
    json_decref(root);

    if (id >= MODEL_WORKERS || model.workers[id].partition != partition
        || model.workers[id].stamps[r] == 0
        || (int) model_credit(&model, w, id, r, family) != best
        || (model.workers[id].taints & required) != required
        || (allowed >> id & 1) == 0)
    {
        fail_msg("batch %u: %u/%u was chosen for %s", batch, id, r,
                 (char *) text.data);
    }
}


/* The rows of /overlap_scores, against the blocks of the model. */
static void
check_scores(uint32_t w, uint32_t partition, uint32_t family)
{
    size_t    i;
    json_t   *root, *row;
    uint32_t  id, r, n, rows[MODEL_WORKERS][MODEL_RANKS];

    text.len = 0;
    sel_buf_byte(&text, '{');
    model_prompt(&text, partition, family);
    sel_buf_byte(&text, '}');

    if (!world_scores(&worlds[w], ended())) {
        assert_false(model_partition_ready(&model, partition));
        return;
    }

    assert_true(model_partition_ready(&model, partition));
    root = world_json(&worlds[w]);
    memset(rows, 0xff, sizeof(rows));

    json_array_foreach(json_object_get(root, "workers"), i, row) {
        id = (uint32_t) json_integer_value(json_object_get(row,
                                                           "worker_id"));
        r = (uint32_t) json_integer_value(json_object_get(row, "dp_rank"));
        assert_true(id < MODEL_WORKERS && r < MODEL_RANKS);
        assert_true(rows[id][r] == UINT32_MAX);
        rows[id][r] = (uint32_t) json_integer_value(
                          json_object_get(row, "device_blocks"));
    }

    json_decref(root);

    for (id = 0; id < MODEL_WORKERS; id++) {
        for (r = 0; r < MODEL_RANKS; r++) {
            n = model.workers[id].schedulable
                && model.workers[id].partition == partition
                ? model_credit(&model, w, id, r, family) : 0;

            /* registered ranks have a row, others when they hold something */
            if (rows[id][r] == UINT32_MAX
                ? n != 0 || (model.workers[id].stamps[r] != 0
                             && model.workers[id].partition == partition)
                : rows[id][r] != n)
            {
                fail_msg("batch %u, process %u, %u/%u, family %u: %d blocks, "
                         "expected %u", batch, w, id, r, family,
                         (int) rows[id][r], n);
            }
        }
    }
}


/* The listing, against the model. */
static void
check_list(uint32_t w)
{
    size_t       i;
    json_t      *root, *row;
    uint32_t     id, n;
    const char  *lifecycle;

    (void) world_list(&worlds[w], NULL, NULL);
    root = world_json(&worlds[w]);

    for (n = id = 0; id < MODEL_WORKERS; id++) {
        n += model.workers[id].exists;
    }

    assert_int_equal(json_array_size(root), n);

    json_array_foreach(root, i, row) {
        id = (uint32_t) json_integer_value(json_object_get(row,
                                                           "worker_id"));
        assert_true(id < MODEL_WORKERS && model.workers[id].exists);
        lifecycle = json_string_value(json_object_get(row, "lifecycle"));
        assert_string_equal(lifecycle, model.workers[id].schedulable
                                       ? "schedulable" : "incomplete");
        assert_string_equal(
            json_string_value(json_object_get(row, "model_name")),
            model_names[model.workers[id].partition][0]);
    }

    json_decref(root);
}


static void
check(void)
{
    uint32_t     w, partition;
    const char  *error;

    state_check(&zone);
    assert_true(state_stats(&zone).slots_used == model_ranks(&model));

    for (w = 0; w < MODEL_WORLDS; w++) {
        world_refresh(&worlds[w]);
        model_look(&model, w);
        check_list(w);
        assert_int_equal(worlds[w].n_listeners, model_ranks(&model));

        for (partition = 0; partition < MODEL_PARTITIONS; partition++) {
            check_scores(w, partition, below(MODEL_FAMILIES));
        }

        if (below(3) == 0) {
            (void) sel_index_sweep(worlds[w].service.index, 1 + below(50));
        }

        if (batch % 10 == 0) {
            error = sel_index_check(worlds[w].service.index);

            if (error != NULL) {
                fail_msg("batch %u: %s", batch, error);
            }
        }
    }

    world_same(&worlds[0], &worlds[1]);
}


static void
test_random(void **state)
{
    uint32_t  i, w;

    rnd.state = sel_rand_seed("service/random");
    state_private(&zone, STATE_SIZE);
    world_init(&worlds[0], &zone, 0, true);
    world_init(&worlds[1], &zone, 1, true);
    sel_buf_init(&text);

    for (batch = 0; batch < BATCHES; batch++) {
        for (i = below(2 * STEPS); i != 0; i--) {
            w = below(MODEL_WORLDS);

            switch (below(16)) {
            case 0:
            case 1:
                step_post(w);
                break;
            case 2:
            case 3:
                step_patch(w);
                break;
            case 4:
                step_delete(w);
                break;
            case 5:
                step_full(w);
                break;
            case 6:
                step_select(w);
                break;
            default:
                step_event(w);
            }
        }

        check();
    }

    sel_buf_free(&text);
    world_free(&worlds[0]);
    world_free(&worlds[1]);
    state_private_free(&zone);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_random)
    };

    return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}
