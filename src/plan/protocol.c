/* SPDX-License-Identifier: Apache-2.0 */
/* Protocols other than the bucketed all-reduce decide while they run; so they run, without numbers,
 * in the simulator: the machines that train, on links in virtual time. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "plan/predict.h"
#include "shoal/sim.h"
#include "sync/sync.h"

/* Enough that protocols which exchange every so many steps do so several times; all workers' steps
 * together are bounded. */
static uint64_t iterations_for(uint32_t workers)
{
    uint64_t fit = 8192 / workers;
    return fit < 64 ? 64 : fit > 1024 ? 1024 : fit;
}

static void describe(const shoali_question *q, const shoal_prediction *p, char *compute,
                     size_t compute_size, char *network, size_t network_size)
{
    const shoali_host *host = &q->cluster->hosts[0];
    double pass = p->forward_s + p->backward_s + p->straggler_s;
    double rate = 8 * fmin(host->up_bytes_per_s, 1e12) * q->cluster->overhead.payload_share;
    uint32_t hosts = shoali_cluster_host_of(q->cluster, q->desc.workers - 1) + 1;
    snprintf(compute, compute_size, "fixed:ms=%.9g,backward=%.9g,update_ms=%.9g", 1e3 * pass,
             pass > 0 ? p->backward_s / pass : 0.667, 1e3 * p->update_s);
    snprintf(network, network_size, "links:rate=%.0fbit,latency_us=%.9g,hosts=%u", rate,
             1e6 * (host->latency_s + q->cluster->overhead.round_s), hosts);
}

static shoal_status simulate(const shoali_question *q, const shoal_prediction *p,
                             shoal_sim_results *results)
{
    char compute[160], network[160];
    shoal_sim *sim = NULL;
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    describe(q, p, compute, sizeof compute, network, sizeof network);
    desc.workers = q->desc.workers;
    desc.iterations = iterations_for(q->desc.workers);
    desc.sync = q->desc.sync;
    desc.collective = q->desc.collective;
    desc.codec = q->desc.codec;
    desc.compute = compute;
    desc.network = network;
    desc.tensors = q->model->tensors;
    desc.tensor_count = q->model->tensor_count;
    desc.bucket_bytes = q->desc.bucket_bytes;
    SHOALI_TRY(shoal_sim_create(&desc, &sim));
    shoal_status status = shoal_sim_run(sim);
    results->size = sizeof *results;
    if (status == SHOAL_OK)
        status = shoal_sim_results_get(sim, results);
    shoal_sim_destroy(sim);
    return status;
}

shoal_status shoali_predict_protocol(const shoali_question *q, shoal_prediction *p)
{
    shoali_protocol protocol;
    SHOALI_TRY(shoali_sync_open(q->desc.sync, &protocol));
    bool plain = (protocol.traits & SHOALI_SYNC_GRADIENTS) != 0;
    shoali_sync_close(&protocol);
    if (plain || q->data < 2)
        return SHOAL_OK;
    if (q->desc.tensor > 1 || q->desc.pipeline > 1 || q->model->tensor_count == 0)
        return shoali_fail(SHOAL_ENOTSUP,
                           "protocol %s is costed for data parallelism of models that train only",
                           q->desc.sync);
    shoal_sim_results results;
    SHOALI_TRY(simulate(q, p, &results));
    double pass = p->forward_s + p->backward_s + p->straggler_s + p->update_s;
    double exchange = p->exposed_s + p->hidden_s;
    p->exposed_s = fmax(0, 1e-9 * (double)results.iteration_ns - pass);
    p->hidden_s = fmax(0, exchange - p->exposed_s);
    p->sent_bytes = (double)results.sent_bytes / (double)iterations_for(q->desc.workers) /
                    q->desc.workers;
    return SHOAL_OK;
}
