#include <math.h>
#include "schedule/sel_pick.h"


static uint32_t sel_pick_lowest(const sel_candidate_t *candidates, uint32_t n,
    sel_random_t *random);
static uint32_t sel_pick_sampled(const sel_candidate_t *candidates, uint32_t n,
    double temperature, sel_random_t *random);
static double sel_pick_weight(double cost, double low, double high,
    double temperature);


uint32_t
sel_pick(const sel_candidate_t *candidates, uint32_t n, double temperature,
    sel_random_t *random)
{
    if (temperature > 0) {
        return sel_pick_sampled(candidates, n, temperature, random);
    }

    return sel_pick_lowest(candidates, n, random);
}


/* Reservoir sampling: the k-th equal candidate replaces with chance 1/k. */

static uint32_t
sel_pick_lowest(const sel_candidate_t *candidates, uint32_t n,
    sel_random_t *random)
{
    uint32_t  i, best, ties;

    best = 0;
    ties = 1;

    for (i = 1; i < n; i++) {
        if (candidates[i].cost < candidates[best].cost) {
            best = i;
            ties = 1;

        } else if (candidates[i].cost == candidates[best].cost) {
            ties++;

            if (sel_random_below(random, ties) == 0) {
                best = i;
            }
        }
    }

    return best;
}


/*
 * Costs are normalised to 0 .. 1 first, halved where their difference is
 * beyond a double, so that neither a huge spread nor an odd temperature makes
 * them lose their order.
 */

static uint32_t
sel_pick_sampled(const sel_candidate_t *candidates, uint32_t n,
    double temperature, sel_random_t *random)
{
    double    low, high, scale, sum, left;
    uint32_t  i;

    low = high = candidates[0].cost;

    for (i = 1; i < n; i++) {
        low = fmin(low, candidates[i].cost);
        high = fmax(high, candidates[i].cost);
    }

    if (low == high) {
        return (uint32_t) sel_random_below(random, n);
    }

    if (!isfinite(high)) {
        return sel_pick_lowest(candidates, n, random);
    }

    scale = isfinite(high - low) ? 1 : 0.5;
    sum = 0;

    for (i = 0; i < n; i++) {
        sum += sel_pick_weight(candidates[i].cost * scale, low * scale,
                               high * scale, temperature);
    }

    left = sel_random_unit(random) * sum;

    for (i = 0; i < n - 1; i++) {
        left -= sel_pick_weight(candidates[i].cost * scale, low * scale,
                                high * scale, temperature);

        if (left <= 0) {
            break;
        }
    }

    return i;
}


static double
sel_pick_weight(double cost, double low, double high, double temperature)
{
    double  place;

    place = (cost - low) / (high - low);

    return place == 0 ? 1 : exp(-(place / temperature));
}
