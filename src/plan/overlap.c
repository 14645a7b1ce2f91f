/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients' exchange behind the backward pass. With processors of its own the recurrence is
 *     end(b) = max(end(b - 1), ready(b)) + exchange(b);      finish = max(end, compute).
 * Where both share a machine's cores it runs as a fluid: while a bucket is under way its thread
 * takes the processor time it needs (it sleeps and wakes often, so it is served first, up to half
 * of what its worker has), the computation takes the rest. */
#include <math.h>

#include "plan/predict.h"

typedef struct fluid {
    double now, done; /* wall time; compute finished so far, in time of running alone */
    double compute, cores, busy;
} fluid;

/* Speed of the computation while the exchange, if one is `under way`, asks for `use` processors. */
static double compute_speed(const fluid *f, bool under_way, double use)
{
    double taken = fmin(use, fmax(f->cores - 1, f->cores / 2));
    return fmin(1, fmax(f->cores - taken, 1e-9)) * (under_way ? 1 - f->busy : 1);
}

/* Let the computation run alone until it has done `target`, or is through. */
static void run_alone(fluid *f, double target)
{
    target = fmin(target, f->compute);
    if (target > f->done) {
        f->now += (target - f->done) / compute_speed(f, false, 0);
        f->done = target;
    }
}

/* One exchange beside the computation, then alone. */
static void run_exchange(fluid *f, const shoali_bucket_time *b)
{
    double busy_s = fmax(b->link_s, b->cpu_s), whole = busy_s + b->wait_s;
    if (whole <= 0)
        return;
    double use = b->cpu_s / whole, most = fmax(f->cores - 1, f->cores / 2);
    double stretch = use > most ? use / most : 1; /* fewer processors than it asks for */
    double speed = compute_speed(f, true, use), left = f->compute - f->done;
    double beside = fmin(whole * stretch, speed > 0 ? left / speed : whole * stretch);
    f->now += beside;
    f->done = fmin(f->compute, f->done + beside * speed);
    double share = 1 - beside / (whole * stretch);
    double alone = fmax(b->link_s, b->cpu_s / fmin(1, f->cores)) + b->wait_s;
    f->now += share * alone;
}

shoali_overlap shoali_overlap_run(const shoali_bucket_time *buckets, uint32_t count,
                                  double compute_s, double cores, double busy_share)
{
    fluid f = {.compute = compute_s, .cores = cores, .busy = busy_share};
    double exchange = 0;
    for (uint32_t i = 0; i < count; i++) {
        const shoali_bucket_time *b = &buckets[i];
        run_alone(&f, b->ready_s);
        run_exchange(&f, b);
        exchange += fmax(b->link_s, b->cpu_s / fmin(1, cores)) + b->wait_s;
    }
    run_alone(&f, compute_s);
    double alone = compute_s / fmin(1, cores);
    shoali_overlap out = {.finish_s = f.now, .exposed_s = fmax(0, f.now - alone)};
    out.hidden_s = fmax(0, exchange - out.exposed_s);
    return out;
}
