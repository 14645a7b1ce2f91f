/* SPDX-License-Identifier: Apache-2.0 */
#include "sync/choose.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double PER_DOUBLING = 0.02, CODED = 0.01, NEIGHBOURS = 0.02, EDEN_BYTES = 0.5;
enum { EVERY_MOST = 512, ROUNDS_LEAST = 4, RING = 2 /* neighbours */ };

/* A ring's sum of all parameters. */
static double ring_s(const shoali_sync_facts *f, double bytes_per_elem)
{
    const double n = f->workers, rate = fmin(f->up_bytes_s, f->down_bytes_s);
    if (f->workers < 2)
        return 0;
    return 2 * (n - 1) / n * (double)f->params * bytes_per_elem / rate + 2 * (n - 1) * f->latency_s;
}

/* How long the last of `workers` takes for an iteration, in units of a usual one: all wait for it.
 */
static double last_of(const shoali_sync_facts *f)
{
    const double any = 1 - pow(1 - f->chance, f->workers);
    return fmax(f->slowest, 1 + any * (f->by - 1));
}

/* And over many iterations, without those that nobody waits for. */
static double usual(const shoali_sync_facts *f)
{
    return 1 + f->chance * (f->by - 1);
}

static double summed_s(const shoali_sync_facts *f, double bytes_per_elem)
{
    const double last = last_of(f) * f->compute_s;
    const double all = ring_s(f, bytes_per_elem);
    return last + fmax(all / fmax(1, f->buckets), all - f->backward * last);
}

/* They travel while the next gradient is computed. */
double shoali_sync_models_s(const shoali_sync_facts *facts, uint32_t degree)
{
    const double rate = fmin(facts->up_bytes_s, facts->down_bytes_s);
    const double bytes = facts->bytes_per_elem > 0 ? facts->bytes_per_elem : 4;
    return degree * bytes * (double)facts->params / rate + facts->latency_s;
}

typedef struct candidate {
    uint32_t every; /* 0: all_reduce, or hop */
    bool coded, hop;
    double step_s, progress, round_s;
} candidate;

static bool leaves_out(const shoali_sync_facts *f)
{
    return f->slow_workers > 0 && f->slow_workers * 2 < f->workers;
}

static void estimate(const shoali_sync_facts *f, candidate *c)
{
    const double bytes = f->bytes_per_elem > 0 ? f->bytes_per_elem : c->coded ? EDEN_BYTES : 4;
    const double pace = leaves_out(f) ? usual(f) : fmax(f->slowest, usual(f));
    const double heard = leaves_out(f) ? 1 - (1 - 1 / f->slowest) * f->slow_workers / f->workers
                                       : 1; /* the slow take part now and then */
    if (c->hop) {
        c->round_s = shoali_sync_models_s(f, RING);
        c->step_s = fmax(pace * f->compute_s, c->round_s);
        c->progress = (1 - NEIGHBOURS) * heard;
        return;
    }
    c->round_s = ring_s(f, bytes);
    c->progress = c->coded ? 1 - CODED : 1;
    if (c->every == 0) {
        c->step_s = summed_s(f, bytes);
        return;
    }
    /* behind the compute's back (delay) it would take as long: those steps are given up for it */
    c->step_s = pace * f->compute_s + c->round_s / c->every;
    c->progress *= (1 - PER_DOUBLING * log2(c->every)) * heard;
}

static bool better(const candidate *a, const candidate *b)
{
    return a->progress / a->step_s > 1.01 * b->progress / b->step_s;
}

static candidate best_of(const shoali_sync_facts *f)
{
    candidate best = {0}, graph = {.hop = true};
    estimate(f, &best);
    estimate(f, &graph);
    if (f->workers > RING && f->bytes_per_elem == 0 && !f->sums && better(&graph, &best))
        best = graph;
    for (uint32_t every = 0; every <= EVERY_MOST; every = every == 0 ? 4 : 2 * every)
        for (int coded = 0; coded <= (f->bytes_per_elem > 0 ? 0 : 1); coded++) {
            candidate c = {.every = every, .coded = coded != 0};
            if (every > 4 && f->iterations > 0 && f->iterations / every < ROUNDS_LEAST)
                continue;
            estimate(f, &c);
            if (better(&c, &best))
                best = c;
        }
    return best;
}

static void of_graphs(const shoali_sync_facts *f, char *text, size_t size)
{
    if (f->workers > RING)
        snprintf(text, size, "; models to two neighbours (hop, d_psgd) %s: %.4g ms, computing %.4g",
                 shoali_sync_graph_hides(f, RING) ? "would hide" : "would not",
                 1e3 * shoali_sync_models_s(f, RING), 1e3 * f->compute_s);
}

static void explain(const shoali_sync_facts *f, const candidate *c, shoali_sync_choice *out)
{
    char slow[96] = "", graphs[112] = "";
    of_graphs(f, graphs, sizeof graphs);
    if (f->slowest > 1)
        snprintf(slow, sizeof slow, ", %u slow, the slowest %.3g times", f->slow_workers,
                 f->slowest);
    if (f->chance > 0)
        snprintf(slow + strlen(slow), sizeof slow - strlen(slow), ", %.3g %% of steps %.3g times",
                 100 * f->chance, f->by);
    snprintf(out->why, sizeof out->why,
             "%s%s%s: %.4g M parameters, %u workers, %.4g/%.4g Mbit/s up/down, %.4g ms an "
             "iteration%s: a float32 sum takes %.4g ms (all_reduce %.4g ms a step), this exchange "
             "%.4g ms each %u steps, %.4g ms a step, %.3g %% of it computing%s",
             out->sync, out->codec != NULL ? " --codec " : "", out->codec != NULL ? out->codec : "",
             1e-6 * (double)f->params, f->workers, 8e-6 * f->up_bytes_s, 8e-6 * f->down_bytes_s,
             1e3 * f->compute_s, slow, 1e3 * ring_s(f, 4), 1e3 * out->everybody_s, 1e3 * c->round_s,
             c->every > 0 ? c->every : 1, 1e3 * out->step_s, 100 * out->share, graphs);
}

void shoali_sync_choose(const shoali_sync_facts *facts, shoali_sync_choice *choice_out)
{
    const candidate best = best_of(facts);
    *choice_out = (shoali_sync_choice){.step_s = best.step_s,
                                       .round_s = best.round_s,
                                       .share = facts->compute_s * usual(facts) / best.step_s,
                                       .everybody_s = summed_s(facts, 4),
                                       .codec = best.coded ? "eden:bits=4" : NULL};
    choice_out->share = fmin(1, choice_out->share);
    char *sync = choice_out->sync;
    const size_t size = sizeof choice_out->sync;
    if (best.hop)
        snprintf(sync, size,
                 facts->slow_workers > 0 || facts->chance > 0 ? "hop:backup=1,skip=10" : "hop");
    else if (best.every == 0)
        snprintf(sync, size, "all_reduce");
    else
        snprintf(sync, size, "diloco:every=%u,lr=0.7,momentum=0.5", best.every);
    if (best.every > 0 && leaves_out(facts))
        snprintf(sync + strlen(sync), size - strlen(sync), ",quorum=%u",
                 facts->workers - facts->slow_workers);
    explain(facts, &best, choice_out);
}

bool shoali_sync_graph_hides(const shoali_sync_facts *facts, uint32_t degree)
{
    return shoali_sync_models_s(facts, degree) < facts->compute_s;
}
