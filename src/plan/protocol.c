/* SPDX-License-Identifier: Apache-2.0 */
/* Protocols other than the bucketed all-reduce decide while they run; so they run, without numbers,
 * in the simulator: the machines that train, on links in virtual time. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "driver/on_cluster.h"
#include "plan/predict.h"
#include "shoal/sim.h"
#include "sync/choose.h"
#include "sync/graph.h"
#include "sync/sync.h"

/* Enough that protocols which exchange every so many steps do so several times; all workers' steps
 * together are bounded. */
static uint64_t iterations_for(uint32_t workers)
{
    uint64_t fit = 8192 / workers;
    return fit < 64 ? 64 : fit > 1024 ? 1024 : fit;
}

/* One iteration's seconds on the question's own cluster, its links and whoever is slow there and
 * when, or on one like it. */
static shoal_status simulate(const shoali_question *q, shoali_cluster *cluster,
                             const double *pass_s, const shoal_prediction *p,
                             shoal_sim_results *results)
{
    char compute[160];
    shoal_sim *sim = NULL;
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    double pass = p->forward_s + p->backward_s;
    snprintf(compute, sizeof compute, "fixed:backward=%.9g,update_ms=%.9g",
             pass > 0 ? p->backward_s / pass : 0.667, 1e3 * p->update_s);
    desc.workers = q->desc.workers;
    desc.iterations = iterations_for(q->desc.workers);
    desc.sync = q->desc.sync;
    desc.collective = q->desc.collective;
    desc.codec = q->desc.codec;
    desc.compute = compute;
    desc.tensors = q->model->tensors;
    desc.tensor_count = q->model->tensor_count;
    desc.bucket_bytes = q->desc.bucket_bytes;
    SHOALI_TRY(shoali_sim_create_on(&desc, cluster, pass_s, &sim));
    shoal_status status = shoal_sim_run(sim);
    results->size = sizeof *results;
    if (status == SHOAL_OK)
        status = shoal_sim_results_get(sim, results);
    shoal_sim_destroy(sim);
    return status;
}

/* The same on workers that are all as fast as the first. */
static shoal_status simulate_equal(const shoali_question *q, const shoal_prediction *p,
                                   shoal_arena *arena, shoal_sim_results *results)
{
    shoali_cluster equal = *q->cluster;
    double *pass_s = shoali_arena_array(arena, q->desc.workers, sizeof *pass_s);
    equal.straggler_count = 0;
    equal.hosts = shoali_arena_array(arena, equal.host_count, sizeof *equal.hosts);
    if (pass_s == NULL || equal.hosts == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < equal.host_count; i++) {
        equal.hosts[i] = q->cluster->hosts[i];
        equal.hosts[i].slowdown = 1;
    }
    for (uint32_t i = 0; i < q->desc.workers; i++)
        pass_s[i] = p->forward_s + p->backward_s;
    return simulate(q, &equal, pass_s, p, results);
}

static uint32_t host_of(const shoali_cluster *cluster, uint32_t worker)
{
    uint32_t host = 0;
    while (host + 1 < cluster->host_count && cluster->hosts[host + 1].first_worker <= worker)
        host++;
    return host;
}

/* Edges of the graph that leave this host, which all of them share. */
static uint32_t edges_out(const shoali_cluster *cluster, const shoali_graph *graph, uint32_t host)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < graph->nodes; i++)
        for (uint32_t e = graph->first[i]; e < graph->first[i + 1]; e++)
            count += host_of(cluster, i) == host && host_of(cluster, graph->to[e]) != host;
    return count;
}

/* Degree x M / B of the host where that is largest, as `--sync auto` counts it. */
static shoal_status models(const shoali_question *q, const char *spec, double *seconds_out)
{
    const shoali_cluster *c = q->cluster;
    shoali_graph graph;
    if (c->dimension_count > 0) /* who shares which link is not said */
        return SHOAL_OK;
    SHOALI_TRY(shoali_graph_open(spec, q->desc.workers, &graph));
    for (uint32_t h = 0; h < c->host_count; h++) {
        const shoali_host *host = &c->hosts[h];
        const double share = c->overhead.payload_share * (1 - host->loss);
        const uint32_t edges = edges_out(c, &graph, h);
        const shoali_sync_facts facts = {
            .params = q->model->param_count,
            .up_bytes_s = host->up_bytes_per_s * share,
            .down_bytes_s = host->down_bytes_per_s * share,
            .latency_s = host->latency_s,
            .bytes_per_elem = q->codec != NULL ? shoal_codec_bytes_per_elem(q->codec, 1) : 0};
        if (edges > 0)
            *seconds_out = fmax(*seconds_out, shoali_sync_models_s(&facts, edges));
    }
    shoali_graph_close(&graph);
    return SHOAL_OK;
}

shoal_status shoali_predict_protocol(const shoali_question *q, const double *pass_s,
                                     shoal_arena *arena, shoal_prediction *p)
{
    shoali_protocol protocol;
    SHOALI_TRY(shoali_sync_open(q->desc.sync, &protocol));
    const bool plain = (protocol.traits & SHOALI_SYNC_GRADIENTS) != 0 || q->data < 2;
    shoal_status status = SHOAL_OK;
    if (!plain && protocol.row->graph != NULL)
        status = models(q, protocol.row->graph(protocol.params), &p->models_s);
    shoali_sync_close(&protocol);
    if (plain)
        p->all_reduce_s = 0;
    if (plain || status != SHOAL_OK)
        return status;
    if (q->desc.tensor > 1 || q->desc.pipeline > 1 || q->model->tensor_count == 0)
        return shoali_fail(SHOAL_ENOTSUP,
                           "protocol %s is costed for data parallelism of models that train only",
                           q->desc.sync);
    shoal_sim_results results, equal;
    SHOALI_TRY(simulate(q, q->cluster, pass_s, p, &results));
    equal = results;
    if (p->straggler_s > 0)
        SHOALI_TRY(simulate_equal(q, p, arena, &equal));
    double own = p->forward_s + p->backward_s + p->update_s + p->other_s;
    double exchange = p->exposed_s + p->hidden_s;
    double beyond = fmax(0, 1e-9 * (double)results.iteration_ns - own);
    p->exposed_s = fmin(beyond, fmax(0, 1e-9 * (double)equal.iteration_ns - own));
    p->straggler_s = beyond - p->exposed_s;
    p->hidden_s = fmax(0, exchange - p->exposed_s);
    p->sent_bytes = (double)results.sent_bytes / (double)iterations_for(q->desc.workers) /
                    q->desc.workers;
    return SHOAL_OK;
}
